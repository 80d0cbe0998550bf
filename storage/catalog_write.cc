// Catalog: the transaction of a save.
#include <algorithm>

#include "storage/catalog.h"
#include "storage/catalog_rows.h"

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
  head.pinned = q.integer(4) != 0;
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

Status Catalog::require_chunks(std::span<const BlockKey> keys) {
  for (const BlockKey& key : keys) {
    Query q = db_.query("SELECT 1 FROM nodes WHERE key = ? AND segment IS NOT NULL");
    KVRT_ASSIGN(bool there, q.bind_blob(key.bytes).next());
    if (!there) {
      return error(Code::kBusy, Detail::kConcurrent, "chunk %.16s, which this save counts on, was removed meanwhile", key.hex().c_str());
    }
  }
  return {};
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

Status Catalog::write_session(const SessionRow& row) {
  auto checksum = row.checksum();
  Query q = db_.query(
      "INSERT OR REPLACE INTO sessions(domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms,"
      " checksum, model_id, manifest) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind_text(row.domain).bind_text(row.name).bind_blob(row.id.bytes).bind_u64(row.gen).bind_blob(row.root.bytes);
  if (row.head == 0) {
    q.bind_null();
  } else {
    q.bind(row.head);
  }
  q.bind_u64(row.tokens).bind_u64(row.block_tokens).bind(row.pinned).bind(row.expires_ms).bind(row.created_ms).bind(row.saved_ms);
  return q.bind_blob(checksum).bind_blob(row.model_id.bytes).bind_blob(row.manifest).run();
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

Result<CommitResult> Catalog::commit(const SessionIn& s, const NewSegment* segment, std::span<const BlockKey> needed, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  CommitResult result;
  KVRT_ASSIGN(std::optional<Head> current, find_session(s.domain, s.name, now_ms));
  KVRT_ASSIGN(result.saved.gen, next_gen(s, current));
  KVRT_ASSIGN(result.saved.id, own_id(s, result.saved.gen, current));
  KVRT_TRY(require_chunks(needed));
  KVRT_ASSIGN(int64_t head, add_nodes(s));
  if (head != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(head).run());
  if (segment != nullptr) {
    KVRT_ASSIGN(uint64_t live, place_chunks(*segment));
    result.segment_used = live > 0;
  }
  SessionRow row = row_of(s, result, head, now_ms);
  if (current && !current->expired) {
    row.pinned = row.pinned || current->pinned;
    row.created_ms = current->created_ms;
  }
  KVRT_TRY(write_session(row));
  if (current) KVRT_TRY(release(current->node));  // last: what old and new share never reaches zero
  KVRT_TRY(txn.commit());
  return result;
}

}  // namespace kvrt
