// Catalog: what changes it. Every public function here is one transaction.
#include <algorithm>

#include "storage/catalog.h"
#include "storage/catalog_rows.h"

namespace kvrt {

namespace {
unsigned long long ull(uint64_t v) { return v; }
}  // namespace

Result<std::optional<Catalog::Head>> Catalog::find_session(std::string_view domain, std::string_view name) {
  Query q = db_.query("SELECT head, id, gen, created_ms FROM sessions WHERE domain = ? AND name = ?");
  KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
  if (!row) return std::optional<Head>();
  Head head;
  head.node = q.integer(0);
  if (!copy_exact(q.blob(1), head.id.bytes)) return broken_row("session id");
  head.gen = q.u64(2);
  head.created_ms = q.integer(3);
  return std::optional<Head>(head);
}

Result<uint64_t> Catalog::next_gen(const SessionIn& s, const std::optional<Head>& current) {
  if (current) {
    bool same = current->id == s.id;
    if (!s.overwrite && (!same || current->gen != s.gen_seen)) {
      return same ? error(Code::kConflict, Detail::kGeneration, "session was saved elsewhere: generation %llu, this handle saw %llu",
                          ull(current->gen), ull(s.gen_seen))
                  : error(Code::kConflict, Detail::kNameTaken,
                          "the name belongs to another session (generation %llu); overwrite was not asked for", ull(current->gen));
    }
    return current->gen + 1;
  }
  Hash256 grave = tombstone(s.domain, s.name);
  Query q = db_.query("SELECT gen FROM tombstones WHERE name = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(grave.bytes).next());
  return (row ? q.u64(0) : 0) + 1;
}

// Inserts the nodes that are not there; the row of the last one. Every node but the head holds one reference of its child, and each new
// node is the first child of its kind, so only the deepest old ancestor's count changes.
Result<int64_t> Catalog::add_nodes(const SessionIn& s) {
  size_t known = s.nodes.size();
  int64_t parent = 0;
  for (; known > 0; known--) {
    Query q = db_.query("SELECT id, tokens FROM nodes WHERE key = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(s.nodes[known - 1].key.bytes).next());
    if (!row) continue;
    if (!same_bytes(q.blob(1), token_bytes(s.nodes[known - 1].tokens))) {
      return error(Code::kCorrupt, Detail::kCatalogCorrupt, "node %.16s has other tokens in the catalog",
                   s.nodes[known - 1].key.hex().c_str());
    }
    parent = q.integer(0);
    break;
  }
  if (known < s.nodes.size() && parent != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(parent).run());
  for (size_t i = known; i < s.nodes.size(); i++) {
    const NodeIn& node = s.nodes[i];
    const BlockKey& before = i == 0 ? s.root : s.nodes[i - 1].key;
    if (node.tokens.empty() || node.parent != before || chain_key(before, node.tokens) != node.key) {
      return error(Code::kInvalid, Detail::kNone, "node %zu is not the chain key of its parent and tokens", i);
    }
    Query q = db_.query("INSERT INTO nodes(key, parent, n, tokens, refs) VALUES(?, ?, ?, ?, ?)");
    q.bind_blob(node.key.bytes);
    if (parent == 0) {
      q.bind_null();
    } else {
      q.bind(parent);
    }
    q.bind_u64(node.tokens.size()).bind_blob(token_bytes(node.tokens)).bind(i + 1 < s.nodes.size() ? 1 : 0);
    KVRT_TRY(q.run());
    parent = db_.last_rowid();
  }
  return parent;
}

Result<uint64_t> Catalog::place_chunks(const NewSegment& segment) {
  KVRT_TRY(db_.query("INSERT INTO segments(name, bytes, live, synced) VALUES(?, ?, 0, ?)")
               .bind_blob(segment.id.bytes)
               .bind_u64(segment.bytes)
               .bind(segment.synced)
               .run());
  int64_t row = db_.last_rowid();
  uint64_t live = 0;
  for (const ChunkPlace& c : segment.chunks) {
    KVRT_TRY(db_.query("UPDATE nodes SET segment = ?, offset = ?, bytes = ?, raw_bytes = ? WHERE key = ? AND segment IS NULL")
                 .bind(row)
                 .bind_u64(c.offset)
                 .bind_u64(c.bytes)
                 .bind_u64(c.raw_bytes)
                 .bind_blob(c.key.bytes)
                 .run());
    live += static_cast<uint64_t>(db_.changes());
  }
  if (live == 0) {
    KVRT_TRY(db_.query("DELETE FROM segments WHERE id = ?").bind(row).run());
  } else {
    KVRT_TRY(db_.query("UPDATE segments SET live = ? WHERE id = ?").bind_u64(live).bind(row).run());
  }
  return live;
}

Status Catalog::write_session(const SessionIn& s, uint64_t gen, int64_t head, int64_t created_ms, int64_t now_ms) {
  uint64_t block_tokens = s.block_tokens != 0 ? s.block_tokens : s.nodes.size() > 1 ? s.nodes[0].tokens.size() : 0;
  SessionSums sums{s.domain,      s.name,       s.id,       gen,       s.root, s.nodes.empty() ? s.root : s.nodes.back().key,
                   s.token_count, block_tokens, s.model_id, s.manifest};
  auto checksum = sums.bytes();
  Query q = db_.query(
      "INSERT OR REPLACE INTO sessions(domain, name, id, gen, root, head, tokens, block_tokens, model_id, manifest, created_ms, saved_ms,"
      " checksum) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind_text(s.domain).bind_text(s.name).bind_blob(s.id.bytes).bind_u64(gen).bind_blob(s.root.bytes);
  if (head == 0) {
    q.bind_null();
  } else {
    q.bind(head);
  }
  q.bind_u64(s.token_count).bind_u64(block_tokens).bind_blob(s.model_id.bytes).bind_blob(s.manifest);
  return q.bind(created_ms).bind(now_ms).bind_blob(checksum).run();
}

// `count` chunks of the segment are gone; without any left its row goes, and its name to the trash until the file is unlinked.
Status Catalog::drop_chunks_of(int64_t segment, uint64_t count) {
  SegmentId id;
  {
    Query q = db_.query("UPDATE segments SET live = live - ? WHERE id = ? RETURNING live, name");
    KVRT_ASSIGN(bool row, q.bind_u64(count).bind(segment).next());
    if (!row) return broken_row("segment");
    if (q.integer(0) > 0) return q.run();
    if (!copy_exact(q.blob(1), id.bytes)) return broken_row("segment name");
    KVRT_TRY(q.run());
  }
  KVRT_TRY(db_.query("DELETE FROM segments WHERE id = ?").bind(segment).run());
  return db_.query("INSERT OR IGNORE INTO trash(name) VALUES(?)").bind_blob(id.bytes).run();
}

// Gives one reference of the node back; a node without any goes, with its chunk and its reference on the parent.
Status Catalog::release(int64_t node) {
  while (node != 0) {
    int64_t refs, parent, segment;
    {
      Query q = db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs, parent, segment");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      refs = q.integer(0);
      parent = q.integer(1);
      segment = q.integer(2);
      KVRT_TRY(q.run());
    }
    if (refs > 0) return {};
    KVRT_TRY(db_.query("DELETE FROM nodes WHERE id = ?").bind(node).run());
    if (segment != 0) KVRT_TRY(drop_chunks_of(segment, 1));
    node = parent;
  }
  return {};
}

Result<CommitResult> Catalog::commit(const SessionIn& s, const NewSegment* segment, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  CommitResult result;
  KVRT_ASSIGN(std::optional<Head> current, find_session(s.domain, s.name));
  KVRT_ASSIGN(result.gen, next_gen(s, current));
  KVRT_ASSIGN(int64_t head, add_nodes(s));
  if (head != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(head).run());
  if (segment != nullptr) {
    KVRT_ASSIGN(uint64_t live, place_chunks(*segment));
    result.segment_used = live > 0;
  }
  KVRT_TRY(write_session(s, result.gen, head, current ? current->created_ms : now_ms, now_ms));
  if (current) KVRT_TRY(release(current->node));  // last: what old and new share never reaches zero
  KVRT_TRY(txn.commit());
  return result;
}

Status Catalog::remove(std::string_view domain, std::string_view name) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(std::optional<Head> current, find_session(domain, name));
  if (!current) return error(Code::kNotFound, Detail::kNone, "no session of this name");
  Hash256 grave = tombstone(domain, name);
  KVRT_TRY(db_.query("INSERT OR REPLACE INTO tombstones(name, gen) VALUES(?, ?)").bind_blob(grave.bytes).bind_u64(current->gen).run());
  KVRT_TRY(db_.query("DELETE FROM sessions WHERE domain = ? AND name = ?").bind_text(domain).bind_text(name).run());
  KVRT_TRY(release(current->node));
  return txn.commit();
}

Result<uint64_t> Catalog::forget_chunk(const BlockKey& key, int64_t segment) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_TRY(db_.query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE key = ? AND segment = ?")
               .bind_blob(key.bytes)
               .bind(segment)
               .run());
  auto count = static_cast<uint64_t>(db_.changes());
  if (count > 0) KVRT_TRY(drop_chunks_of(segment, count));
  KVRT_TRY(txn.commit());
  return count;
}

Result<uint64_t> Catalog::forget_segment(int64_t segment) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_TRY(
      db_.query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE segment = ?").bind(segment).run());
  auto count = static_cast<uint64_t>(db_.changes());
  KVRT_TRY(db_.query("DELETE FROM segments WHERE id = ?").bind(segment).run());
  KVRT_TRY(txn.commit());
  return count;
}

Status Catalog::mark_synced(std::span<const SegmentRow> rows) {
  for (const SegmentRow& row : rows) KVRT_TRY(db_.query("UPDATE segments SET synced = 1 WHERE id = ?").bind(row.row).run());
  return {};
}

Status Catalog::clear_trash(std::span<const SegmentId> ids) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  for (const SegmentId& id : ids) KVRT_TRY(db_.query("DELETE FROM trash WHERE name = ?").bind_blob(id.bytes).run());
  return txn.commit();
}

}  // namespace kvrt
