// Catalog: the transaction of a save.
#include <algorithm>

#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {
unsigned long long ull(uint64_t v) { return v; }
}  // namespace

Result<std::optional<Catalog::Head>> Catalog::find_session(std::string_view domain, std::string_view name, int64_t now_ms) {
  Query q = db_.query("SELECT head, id, gen, created_ms, pinned, expires_ms FROM sessions WHERE domain = ? AND name = ?");
  KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
  if (!row) return std::optional<Head>();
  Head head;
  head.node = q.integer(0);
  if (!copy_exact(q.blob(1), head.id.bytes)) return broken_row("session id");
  head.gen = q.u64(2);
  head.created_ms = q.integer(3);
  head.pinned = static_cast<uint8_t>(q.integer(4));
  head.expired = has_expired(head.pinned, q.integer(5), now_ms);
  return std::optional<Head>(head);
}

Result<uint64_t> Catalog::buried_gen(std::string_view domain, std::string_view name) {
  Hash256 grave = tombstone(domain, name);
  Query q = db_.query("SELECT gen FROM tombstones WHERE name = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(grave.bytes).next());
  return row ? q.u64(0) : 0;
}

Result<uint64_t> Catalog::next_gen(const SessionIn& s, const std::optional<Head>& current) {
  if (!current) {
    KVRT_ASSIGN(uint64_t buried, buried_gen(s.domain, s.name));
    return buried + 1;
  }
  bool same = current->id == s.id;
  if (!current->expired && !s.overwrite && (!same || current->gen != s.gen_seen)) {
    return same ? error(Code::kConflict, Detail::kGeneration, "session was saved elsewhere: generation %llu, this handle saw %llu",
                        ull(current->gen), ull(s.gen_seen))
                : error(Code::kConflict, Detail::kNameTaken,
                        "the name belongs to another session (generation %llu); overwrite was not asked for", ull(current->gen));
  }
  return current->gen + 1;
}

// The id that the saver gave, unless a rename took it along to another name: then this is another session. Name and generation come once.
Result<SessionId> Catalog::own_id(const SessionIn& s, uint64_t gen, const std::optional<Head>& current) {
  if (s.gen_seen == 0 || (current && current->id == s.id)) return s.id;
  Query q = db_.query("SELECT 1 FROM sessions WHERE id = ?");
  KVRT_ASSIGN(bool taken, q.bind_blob(s.id.bytes).next());
  if (!taken) return s.id;
  Hash256 fresh = Hasher(salt_).add(s.id.bytes).add_string(s.domain).add_string(s.name).add_u64(gen).finish();
  SessionId id;
  std::copy_n(fresh.bytes.begin(), sizeof id.bytes, id.bytes);
  return id;
}

Status Catalog::require_chunks(const BlockKeys& keys) {
  for (const BlockKey& key : keys) {
    Query q = db_.query("SELECT 1 FROM nodes WHERE key = ? AND segment IS NOT NULL");
    KVRT_ASSIGN(bool there, q.bind_blob(key.bytes).next());
    if (!there) {
      return error(Code::kBusy, Detail::kConcurrent, "chunk %.16s, which this save counts on, was removed meanwhile", key.hex().c_str());
    }
  }
  return {};
}

// Inserts the nodes that are not there. Every node but the head holds one reference of its child, and each new node is the first child of
// its kind, so only the deepest old ancestor's count changes.
Result<Catalog::Added> Catalog::add_nodes(const SessionIn& s) {
  Added added;
  KVRT_ASSIGN(const Chain there, find_chain(s.nodes));
  const size_t known = there.ids.size();
  if (there.collides) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "node %.16s has other tokens, or another parent, in the catalog",
                 s.nodes[known].key.hex().c_str());
  }
  if (known != 0) {
    added.head = added.below = there.ids.back();
    added.refs = there.refs;
  }
  KVRT_ASSIGN(added.first, db_.number("SELECT coalesce(max(id), 0) + 1 FROM nodes"));
  if (known < s.nodes.size() && added.below != 0) {
    KVRT_TRY(db_.query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(added.below).run());
  }
  for (size_t i = known; i < s.nodes.size(); i++) {
    const NodeIn& node = s.nodes[i];
    const BlockKey& before = i == 0 ? s.root : s.nodes[i - 1].key;
    if (node.tokens.empty() || node.parent != before || chain_key(before, node.tokens) != node.key) {
      return error(Code::kInvalid, Detail::kNone, "node %zu is not the chain key of its parent and tokens", i);
    }
    Query q = db_.query("INSERT INTO nodes(key, parent, n, tokens, refs) VALUES(?, ?, ?, ?, ?)");
    q.bind_blob(node.key.bytes);
    if (added.head == 0) {
      q.bind_null();
    } else {
      q.bind(added.head);
    }
    q.bind_u64(node.tokens.size()).bind_blob(token_bytes(node.tokens)).bind(i + 1 < s.nodes.size() ? 1 : 0);
    KVRT_TRY(q.run());
    added.head = db_.last_rowid();
  }
  if (added.head != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(added.head).run());
  return added;
}

// What one session had alone it shares now, or the other way round.
Status Catalog::note_fork(const Added& added) {
  if (added.below == 0 || added.refs == 0) return {};
  Query q = db_.query("SELECT refs FROM nodes WHERE id = ?");
  KVRT_ASSIGN(bool row, q.bind(added.below).next());
  if (!row) return broken_row("node");
  delta_.shares = delta_.shares || (q.integer(0) == 1) != (added.refs == 1);
  return {};
}

Result<int64_t> Catalog::add_segment(const NewSegment& segment) {
  KVRT_TRY(db_.query("INSERT INTO segments(name, bytes, live, synced) VALUES(?, ?, 0, ?)")
               .bind_blob(segment.id.bytes)
               .bind_u64(segment.bytes)
               .bind(segment.synced)
               .run());
  delta_.segments++;
  delta_.segment_bytes += static_cast<int64_t>(segment.bytes);
  return db_.last_rowid();
}

// Of a segment that is new; without any live bytes it needs no row.
Status Catalog::set_live(int64_t segment, uint64_t live) {
  if (live != 0) return db_.query("UPDATE segments SET live = ? WHERE id = ?").bind_u64(live).bind(segment).run();
  Query q = db_.query("DELETE FROM segments WHERE id = ? RETURNING bytes");
  KVRT_ASSIGN(bool row, q.bind(segment).next());
  if (!row) return broken_row("segment");
  delta_.segments--;
  delta_.segment_bytes -= q.integer(0);
  return q.run();
}

Result<uint64_t> Catalog::place_chunks(const NewSegment& segment, int64_t first_new) {
  KVRT_ASSIGN(int64_t row, add_segment(segment));
  uint64_t live = 0;
  for (const ChunkPlace& c : segment.chunks) {
    Query q =
        db_.query("UPDATE nodes SET segment = ?, offset = ?, bytes = ?, raw_bytes = ? WHERE key = ? AND segment IS NULL RETURNING id");
    q.bind(row).bind_u64(c.offset).bind_u64(c.bytes).bind_u64(c.raw_bytes).bind_blob(c.key.bytes);
    KVRT_ASSIGN(bool placed, q.next());
    if (!placed) continue;
    delta_.shares = delta_.shares || q.integer(0) < first_new;  // a hole of others, too, is filled
    delta_.chunks++;
    delta_.chunk_bytes += static_cast<int64_t>(c.bytes);
    delta_.chunk_raw_bytes += static_cast<int64_t>(c.raw_bytes);
    live += c.bytes;
    KVRT_TRY(q.run());
  }
  KVRT_TRY(set_live(row, live));
  return live;
}

Status Catalog::write_session(const SessionRow& row) {
  auto checksum = row.checksum();
  Query q = db_.query(
      "INSERT OR REPLACE INTO sessions(domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms,"
      " checksum, model_id, manifest, used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted)"
      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind_text(row.domain).bind_text(row.name).bind_blob(row.id.bytes).bind_u64(row.gen).bind_blob(row.root.bytes);
  if (row.head == 0) {
    q.bind_null();
  } else {
    q.bind(row.head);
  }
  q.bind_u64(row.tokens).bind_u64(row.block_tokens).bind(row.pinned).bind(row.expires_ms).bind(row.created_ms).bind(row.saved_ms);
  q.bind_blob(checksum).bind_blob(row.model_id.bytes).bind_blob(row.manifest).bind(row.used);
  q.bind_u64(row.chunks).bind_u64(row.chunks_missing).bind_u64(row.chunk_bytes).bind_u64(row.chunk_bytes_shared);
  return q.bind(row.counted).run();
}

// The counts of its chunks, as they are at the end of this transaction.
Status Catalog::write_statistics(const SessionRow& row) {
  SessionStat stat;
  KVRT_TRY(fill_stat(row.head, &stat));
  return db_
      .query(
          "UPDATE sessions SET chunks = ?, chunks_missing = ?, chunk_bytes = ?, chunk_bytes_shared = ?,"
          " counted = (SELECT shares FROM totals) + ? WHERE domain = ? AND name = ?")
      .bind_u64(stat.chunks)
      .bind_u64(stat.chunks_missing)
      .bind_u64(stat.bytes)
      .bind_u64(stat.bytes_shared)
      .bind(delta_.shares)
      .bind_text(row.domain)
      .bind_text(row.name)
      .run();
}

namespace {

SessionRow row_of(const SessionIn& s, const CommitResult& result, int64_t head, int64_t now_ms) {
  SessionRow row;
  row.domain = s.domain;
  row.name = s.name;
  row.id = result.saved.id;
  row.gen = result.saved.gen;
  row.root = s.root;
  row.head = head;
  row.head_key = s.nodes.empty() ? s.root : s.nodes.back().key;
  row.tokens = s.token_count;
  row.block_tokens = s.block_tokens != 0 ? s.block_tokens : s.nodes.size() > 1 ? s.nodes[0].tokens.size() : 0;
  row.pinned = s.pin;
  row.expires_ms = s.ttl_seconds != 0 ? now_ms + static_cast<int64_t>(s.ttl_seconds) * 1000 : 0;
  row.created_ms = row.saved_ms = now_ms;
  row.model_id = s.model_id;
  row.manifest.assign(s.manifest.begin(), s.manifest.end());
  return row;
}

}  // namespace

Result<CommitResult> Catalog::commit(const SessionIn& s, const NewSegment* segment, const BlockKeys& needed, int64_t now_ms) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  CommitResult result;
  KVRT_ASSIGN(std::optional<Head> current, find_session(s.domain, s.name, now_ms));
  KVRT_ASSIGN(result.saved.gen, next_gen(s, current));
  KVRT_ASSIGN(result.saved.id, own_id(s, result.saved.gen, current));
  KVRT_TRY(require_chunks(needed));
  KVRT_ASSIGN(Added added, add_nodes(s));
  if (segment != nullptr) {
    KVRT_ASSIGN(uint64_t live, place_chunks(*segment, added.first));
    result.segment_used = live > 0;
  }
  SessionRow row = row_of(s, result, added.head, now_ms);
  if (current && !current->expired) {
    row.pinned = s.pin != 0 ? s.pin : current->pinned;
    row.created_ms = current->created_ms;
  }
  KVRT_ASSIGN(row.used, db_.number("SELECT clock + 1 FROM totals"));
  delta_.used = true;
  KVRT_TRY(write_session(row));
  if (current) KVRT_TRY(release(current->node, added.below));  // last: what old and new share never reaches zero
  KVRT_TRY(note_fork(added));
  KVRT_TRY(write_statistics(row));
  KVRT_TRY(note_time(now_ms));
  KVRT_TRY(txn.commit());
  return result;
}

}  // namespace kvrt
