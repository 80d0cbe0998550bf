#include "storage/repair/switch.h"

#include <algorithm>
#include <cerrno>

#include "runtime/base/numbers.h"
#include "storage/catalog/catalog_file.h"

namespace kvrt {

namespace {

constexpr char kReady[] = "/tmp/repaired.db";

struct RepairTotals {
  uint64_t chunks = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segments = 0, segment_bytes = 0;
};

Query& bind_row(Query& q, size_t number) { return number != 0 ? q.bind_u64(number) : q.bind_null(); }

// Adds a row for each used segment. `rows`: its id by the segment's number in `found`; 0: not used.
Status add_segments(Db* db, const Recovery& plan, const FoundSegments& found, std::vector<int64_t>* rows, RepairTotals* totals) {
  std::vector<uint64_t> live(found.segments.size());
  for (const RecoveredNode& node : plan.nodes) {
    for (size_t number : node.frames) {
      const FoundFrame& frame = found.frames[number];
      live[frame.segment] += frame.place.bytes;
      totals->chunk_bytes += frame.place.bytes;
      totals->chunk_raw_bytes += frame.place.raw_bytes;
      totals->chunks++;
    }
  }
  rows->assign(live.size(), 0);
  for (size_t i = 0; i < live.size(); i++) {
    if (live[i] == 0) continue;
    const FoundSegment& segment = found.segments[i];
    (*rows)[i] = static_cast<int64_t>(++totals->segments);
    totals->segment_bytes += segment.bytes;
    Query q = db->query("INSERT INTO segments(id, name, bytes, live, synced, sealed) VALUES(?, ?, ?, ?, 0, 1)");
    KVRT_TRY(q.bind((*rows)[i]).bind_blob(segment.id.bytes).bind_u64(segment.bytes).bind_u64(live[i]).run());
  }
  return {};
}

Status add_nodes(Db* db, const Recovery& plan) {
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    const RecoveredNode& node = plan.nodes[i];
    Query q = db->query("INSERT INTO nodes(id, key, parent, n, tokens, refs, items) VALUES(?, ?, ?, ?, ?, ?, ?)");
    q.bind_u64(i + 1).bind_blob(node.key.bytes);
    bind_row(q, node.parent).bind_u64(node.tokens.size()).bind_blob(token_bytes(node.tokens)).bind(node.refs);
    KVRT_TRY((node.items.empty() ? q.bind_null() : q.bind_blob(node.items)).run());
  }
  return {};
}

Status add_chunks(Db* db, const Recovery& plan, const FoundSegments& found, const std::vector<int64_t>& segments) {
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    for (size_t number : plan.nodes[i].frames) {
      const FoundFrame& frame = found.frames[number];
      Query q = db->query("INSERT INTO chunks(node, grp, segment, offset, bytes, raw_bytes) VALUES(?, ?, ?, ?, ?, ?)");
      q.bind_u64(i + 1).bind(frame.place.chunk.group).bind(segments[frame.segment]);
      KVRT_TRY(q.bind_u64(frame.place.offset).bind_u64(frame.place.bytes).bind_u64(frame.place.raw_bytes).run());
    }
  }
  return {};
}

Status add_session(Db* db, const StoreId& store, const Recovery& plan, const FoundSegments& found, const SessionRow& row) {
  uint64_t chunks = 0, missing = 0, bytes = 0, bytes_shared = 0, behind = 0;
  bool shared = false;
  for (auto number = static_cast<size_t>(row.head); number != 0; number = plan.nodes[number - 1].parent) {
    const RecoveredNode& node = plan.nodes[number - 1];
    shared = shared || node.refs > 1;
    uint32_t stored = 0;
    chunks += node.frames.size();
    for (size_t frame : node.frames) {
      stored |= uint32_t{1} << found.frames[frame].place.chunk.group;
      bytes += found.frames[frame].place.bytes;
      if (shared) bytes_shared += found.frames[frame].place.bytes;
    }
    missing += chunks_lacking(row.needs, behind, stored);
    behind += node.tokens.size();
  }
  const auto checksum = row.checksum(store);
  const auto needs = encode_needs(row.needs);
  Query q = db->query(
      "INSERT INTO sessions(domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, checksum,"
      " model_id, manifest, needs, used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted)"
      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)");
  q.bind_text(row.domain).bind_text(row.name).bind_blob(row.id.bytes).bind_u64(row.revision).bind_blob(row.root.bytes);
  bind_row(q, static_cast<size_t>(row.head)).bind_u64(row.tokens).bind_u64(row.block_tokens).bind(row.pinned).bind(row.expires_ms);
  q.bind(row.created_ms).bind(row.saved_ms).bind_blob(checksum).bind_blob(row.model_id.bytes).bind_blob(row.manifest);
  q.bind_blob(needs).bind(row.used);
  return q.bind_u64(chunks).bind_u64(missing).bind_u64(bytes).bind_u64(bytes_shared).run();
}

Status fill(Db* db, const StoreId& id, const Recovery& plan, const FoundSegments& found) {
  KVRT_TRY(db->query("INSERT INTO meta(name, value) VALUES('salt', ?)").bind_blob(plan.salt.bytes).run());
  KVRT_TRY(put_identity(db, plan.salt, id));
  RepairTotals totals;
  std::vector<int64_t> segments;
  KVRT_TRY(add_segments(db, plan, found, &segments, &totals));
  KVRT_TRY(add_nodes(db, plan));
  KVRT_TRY(add_chunks(db, plan, found, segments));
  int64_t clock = 0;
  for (const SessionRow& row : plan.sessions) {
    KVRT_TRY(add_session(db, id, plan, found, row));
    clock = std::max(clock, row.used);
  }
  for (auto& [name, revision] : plan.tombstones) {
    KVRT_TRY(db->query("INSERT INTO tombstones(name, gen) VALUES(?, ?)").bind_blob(name.bytes).bind_u64(revision).run());
  }
  Query q = db->query("UPDATE totals SET chunks = ?, chunk_bytes = ?, chunk_raw_bytes = ?, segments = ?, segment_bytes = ?, clock = ?");
  q.bind_u64(totals.chunks).bind_u64(totals.chunk_bytes).bind_u64(totals.chunk_raw_bytes).bind_u64(totals.segments);
  return q.bind_u64(totals.segment_bytes).bind(clock).run();
}

Status remove_if_there(Env* env, const std::string& path) {
  Status removed = env->remove_file(path);
  return removed.code() == Code::kNotFound ? Status() : std::move(removed);
}

// Moves a file to the folder `to`, and syncs the folder: the new name is on the disk before the caller syncs away the old one.
Status move_aside(Env* env, const std::string& root, const std::string& name, const std::string& to) {
  KVRT_ASSIGN(bool there, env->exists(root + "/" + name));
  if (!there) return {};
  KVRT_TRY(env->rename_new(root + "/" + name, to + "/" + name.substr(name.rfind('/') + 1)));
  return env->sync_dir(to);
}

// From the first move on catalog.db is missing: only the rest of the switch makes the directory a store again.
Status put_in_place(Env* env, const std::string& root, const std::string& aside) {
  KVRT_TRY(move_aside(env, root, "catalog.db", aside));
  KVRT_TRY(env->sync_dir(root));
  for (const char* name : {"catalog.db-wal", "catalog.db-journal"}) KVRT_TRY(move_aside(env, root, name, aside));
  KVRT_TRY(remove_if_there(env, root + "/catalog.db-shm"));
  KVRT_TRY(env->sync_dir(root));
  KVRT_TRY(env->rename_new(root + kReady, root + "/catalog.db"));
  return env->sync_dir(root);
}

std::string folder(const std::string& root, uint64_t n) { return root + "/damaged-" + std::to_string(n); }

// The highest n of a damaged-n; 0: there is none. An interrupted switch is going on there.
Result<uint64_t> last_folder(Env* env, const std::string& root) {
  constexpr std::string_view kPrefix = "damaged-";
  uint64_t last = 0;
  KVRT_ASSIGN(const auto names, env->list_dir(root));
  for (const std::string& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    const uint64_t n = read_digits(name.c_str() + kPrefix.size());
    if (n < UINT64_MAX && folder(root, n) == root + "/" + name) last = std::max(last, n);
  }
  return last;
}

}  // namespace

Result<CopiedSegment> copy_segment(Env* env, const std::string& root, const StoreId& store, const SegmentId& from,
                                   std::span<const FoundFrame* const> frames) {
  CopiedSegment copy;
  KVRT_ASSIGN(auto file, env->open_read(from.path(root)));
  KVRT_ASSIGN(copy.writer, SegmentWriter::create(env, root, store));
  ReadBuffer buffer;
  for (const FoundFrame* frame : frames) {
    KVRT_ASSIGN(const auto bytes, read_frame(*file, frame->place.offset, frame->place.bytes, &buffer));
    copy.chunks.push_back(frame->place);
    copy.chunks.back().offset = copy.writer->bytes();
    KVRT_TRY(copy.writer->append(frame->place.chunk.node, bytes));
  }
  KVRT_TRY(copy.writer->seal(true));
  KVRT_TRY(copy.writer->publish(true));
  return copy;
}

Status write_catalog(Env* env, const std::string& root, const StoreId& id, const Recovery& plan, const FoundSegments& found) {
  const std::string tmp = root + "/tmp/repairing.db";
  KVRT_TRY(build_catalog(env, tmp, [&](Db* db) { return fill(db, id, plan, found); }));
  KVRT_TRY(env->rename_new(tmp, root + kReady));
  return env->sync_dir(root + "/tmp");
}

Result<std::string> move_segments_aside(Env* env, const std::string& root, std::span<const SegmentId> segments) {
  KVRT_ASSIGN(const uint64_t last, last_folder(env, root));
  auto inside = env->list_dir(folder(root, last));
  const bool unused = last != 0 && inside.is_ok() && inside->empty();  // left by a repair that moved nothing
  const std::string to = folder(root, unused ? last : last + 1);
  KVRT_TRY(env->make_dir(to));
  KVRT_TRY(env->sync_dir(root));
  for (const SegmentId& id : segments) KVRT_TRY(move_aside(env, root, id.shown(), to));
  return to;
}

Result<std::string> switch_catalogs(Env* env, const std::string& root, std::span<const SegmentId> aside) {
  KVRT_ASSIGN(const std::string to, move_segments_aside(env, root, aside));
  KVRT_TRY(put_in_place(env, root, to));
  return to;
}

Result<bool> finish_switch(Env* env, const std::string& root, std::string* aside, std::vector<std::string>* left) {
  KVRT_ASSIGN(bool there, env->exists(root + "/catalog.db"));
  KVRT_ASSIGN(bool ready, env->exists(root + kReady));
  if (!there && ready) {
    KVRT_ASSIGN(const uint64_t last, last_folder(env, root));
    *aside = folder(root, std::max<uint64_t>(last, 1));
    KVRT_TRY(env->make_dir(*aside));
    KVRT_TRY(put_in_place(env, root, *aside));
    return true;
  }
  KVRT_ASSIGN(auto names, env->list_dir(root + "/tmp"));
  for (const std::string& name : names) {
    Status removed = env->remove_file(root + "/tmp/" + name);
    if (removed.os_code() == EISDIR) {
      left->push_back(name);
      continue;
    }
    KVRT_TRY(std::move(removed));
  }
  return false;
}

}  // namespace kvrt
