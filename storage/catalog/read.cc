// Catalog: what only reads it.
#include <algorithm>
#include <set>

#include "runtime/base/limits.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {
// From the row: domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms.
Result<SessionStat> to_stat(const Query& q) {
  SessionStat stat;
  if (!copy_exact(q.blob(2), stat.id.bytes)) return broken_row("session id");
  stat.domain = q.text(0);
  stat.name = q.text(1);
  stat.gen = q.u64(3);
  stat.tokens = q.u64(4);
  stat.created_unix_ms = q.integer(5);
  stat.saved_unix_ms = q.integer(6);
  stat.pinned = static_cast<uint8_t>(q.integer(7));
  stat.expires_unix_ms = q.integer(8);
  return stat;
}

}  // namespace

Result<std::optional<Catalog::Location>> Catalog::find(const BlockKey& key) {
  Query q = db_.query("SELECT s.name, n.offset, n.bytes, n.raw_bytes FROM nodes n JOIN segments s ON s.id = n.segment WHERE n.key = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(key.bytes).next());
  if (!row) return std::optional<Location>();
  Location at;
  if (!copy_exact(q.blob(0), at.id.bytes)) return broken_row("segment name");
  at.offset = q.u64(1);
  at.bytes = q.u64(2);
  at.raw_bytes = q.u64(3);
  return std::optional<Location>(at);
}

Result<Catalog::NodeRow> Catalog::read_node(int64_t id) {
  Query q = db_.query("SELECT key, parent, tokens, refs, segment IS NOT NULL, bytes FROM nodes WHERE id = ?");
  KVRT_ASSIGN(bool row, q.bind(id).next());
  NodeRow node;
  if (!row || !copy_exact(q.blob(0), node.key.bytes)) return broken_row("node");
  node.id = id;
  node.parent = q.integer(1);
  auto tokens = q.blob(2);
  if (tokens.empty() || tokens.size() % 4 != 0) return broken_row("node tokens");
  node.tokens.resize(tokens.size() / 4);
  std::memcpy(node.tokens.data(), tokens.data(), tokens.size());
  node.refs = q.integer(3);
  node.has_chunk = q.integer(4) != 0;
  node.bytes = q.u64(5);
  return node;
}

// A chain has at most as many nodes as there are; a longer one is a loop in damaged rows.
Result<int64_t> Catalog::chain_nodes_max() {
  Query q = db_.query("SELECT coalesce(max(id), 0) FROM nodes");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("nodes");
  return std::min<int64_t>(q.integer(0), kContextMax);
}

// From the first node to the head, every key checked against its parent and tokens.
Result<std::vector<Catalog::NodeRow>> Catalog::read_chain(int64_t head, const BlockKey& root) {
  std::vector<NodeRow> chain;
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0; id = chain.back().parent) {
    if (static_cast<int64_t>(chain.size()) >= nodes_max) return broken_row("chain of nodes (it has a loop)");
    KVRT_ASSIGN(NodeRow node, read_node(id));
    chain.push_back(std::move(node));
  }
  std::reverse(chain.begin(), chain.end());
  const BlockKey* parent = &root;
  for (const NodeRow& node : chain) {
    if (chain_key(*parent, node.tokens) != node.key) {
      return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: node %.16s does not fit its parent and tokens",
                   node.key.hex().c_str());
    }
    parent = &node.key;
  }
  return chain;
}

Result<SessionRow> Catalog::read_session(std::string_view domain, std::string_view name) {
  Query q = db_.query(
      "SELECT s.id, gen, root, head, s.tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, model_id, manifest, checksum, n.key,"
      " used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted"
      " FROM sessions s LEFT JOIN nodes n ON n.id = s.head WHERE domain = ? AND name = ?");
  KVRT_ASSIGN(bool found, q.bind_text(domain).bind_text(name).next());
  if (!found) return no_session(domain, name);
  SessionRow row;
  row.domain = domain;
  row.name = name;
  row.gen = q.u64(1);
  row.head = q.integer(3);
  row.tokens = q.u64(4);
  row.block_tokens = q.u64(5);
  row.pinned = static_cast<uint8_t>(q.integer(6));
  row.expires_ms = q.integer(7);
  row.created_ms = q.integer(8);
  row.saved_ms = q.integer(9);
  std::array<uint8_t, 16> checksum;
  if (!copy_exact(q.blob(0), row.id.bytes) || !copy_exact(q.blob(2), row.root.bytes) || !copy_exact(q.blob(10), row.model_id.bytes) ||
      !copy_exact(q.blob(12), checksum)) {
    return broken_row("session column");
  }
  auto manifest = q.blob(11);
  row.manifest.assign(manifest.begin(), manifest.end());
  row.used = q.integer(14);
  row.chunks = q.u64(15);
  row.chunks_missing = q.u64(16);
  row.chunk_bytes = q.u64(17);
  row.chunk_bytes_shared = q.u64(18);
  row.counted = q.integer(19);
  row.head_key = row.root;
  if (row.head != 0 && !copy_exact(q.blob(13), row.head_key.bytes)) return broken_row("node");
  if (row.checksum() != checksum) return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: the session's row has changed bits");
  return row;
}

Result<SessionRow> Catalog::live_session(std::string_view domain, std::string_view name, int64_t now_ms) {
  KVRT_ASSIGN(SessionRow row, read_session(domain, name));
  if (has_expired(row.pinned, row.expires_ms, now_ms)) return no_session(domain, name);
  return row;
}

Result<SessionOut> Catalog::load(std::string_view domain, std::string_view name, int64_t now_ms) {
  Snapshot snapshot(&db_);
  KVRT_TRY(snapshot.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, name, now_ms));
  SessionOut out;
  out.domain = std::move(row.domain);
  out.name = std::move(row.name);
  out.id = row.id;
  out.gen = row.gen;
  out.root = row.root;
  out.model_id = row.model_id;
  out.token_count = row.tokens;
  out.block_tokens = static_cast<uint32_t>(row.block_tokens);
  out.manifest = std::move(row.manifest);
  KVRT_ASSIGN(std::vector<NodeRow> chain, read_chain(row.head, row.root));
  for (const NodeRow& node : chain) {
    out.keys.push_back(node.key);
    out.node_tokens.push_back(static_cast<uint32_t>(node.tokens.size()));
    out.tokens.insert(out.tokens.end(), node.tokens.begin(), node.tokens.end());
  }
  if (out.tokens.size() > out.token_count) {  // fewer: the manifest holds the rest
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: the session's nodes have %zu tokens, its row says %llu",
                 out.tokens.size(), static_cast<unsigned long long>(out.token_count));
  }
  return out;
}

// A node is shared if it or one below it has two users: walking up, the first with two makes all above shared.
Status Catalog::fill_stat(int64_t head, SessionStat* stat) {
  bool shared = false;
  int64_t steps = 0;
  stat->chunks = stat->chunks_missing = stat->bytes = stat->bytes_shared = 0;
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0;) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    Query q = db_.query("SELECT parent, refs, segment IS NOT NULL, bytes FROM nodes WHERE id = ?");
    KVRT_ASSIGN(bool row, q.bind(id).next());
    if (!row) return broken_row("node");
    shared = shared || q.integer(1) > 1;
    if (q.integer(2) != 0) {
      stat->chunks++;
      stat->bytes += q.u64(3);
      if (shared) stat->bytes_shared += q.u64(3);
    } else {
      stat->chunks_missing++;
    }
    id = q.integer(0);
  }
  return {};
}

Result<SessionStat> Catalog::stat(std::string_view domain, std::string_view name, int64_t now_ms) {
  Snapshot snapshot(&db_);
  KVRT_TRY(snapshot.begin());
  SessionStat stat;
  int64_t head;
  {
    Query q = db_.query(
        "SELECT domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms, head FROM sessions WHERE domain = ? AND name = ?");
    KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
    if (!row) return no_session(domain, name);
    KVRT_ASSIGN(stat, to_stat(q));
    head = q.integer(9);
  }
  if (has_expired(stat.pinned, stat.expires_unix_ms, now_ms)) return no_session(domain, name);
  KVRT_TRY(fill_stat(head, &stat));
  return stat;
}

// The counts of a session's chunks are kept with it, and hold as long as `shares` stands still; else its chain is walked.
Result<std::vector<SessionStat>> Catalog::list(std::string_view domain, bool all_domains, int64_t now_ms) {
  Snapshot snapshot(&db_);
  KVRT_TRY(snapshot.begin());
  std::vector<SessionStat> stats;
  std::vector<std::pair<size_t, int64_t>> uncounted;  // and their heads
  {
    Query q = db_.query(
        "SELECT domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms, head, chunks, chunks_missing, chunk_bytes,"
        " chunk_bytes_shared, counted = (SELECT shares FROM totals) FROM sessions WHERE ? OR domain = ? ORDER BY domain, name");
    q.bind(all_domains).bind_text(domain);
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      KVRT_ASSIGN(SessionStat stat, to_stat(q));
      if (has_expired(stat.pinned, stat.expires_unix_ms, now_ms)) continue;
      stat.chunks = q.u64(10);
      stat.chunks_missing = q.u64(11);
      stat.bytes = q.u64(12);
      stat.bytes_shared = q.u64(13);
      if (q.integer(14) == 0) uncounted.emplace_back(stats.size(), q.integer(9));
      stats.push_back(std::move(stat));
    }
  }
  for (auto [at, head] : uncounted) KVRT_TRY(fill_stat(head, &stats[at]));
  return stats;
}

Result<uint64_t> Catalog::count_expired(int64_t now_ms) {
  Query q = db_.query("SELECT count(*) FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0");
  KVRT_ASSIGN(bool row, q.bind(now_ms).next());
  if (!row) return broken_row("sessions");
  return q.u64(0);
}

Result<bool> Catalog::has_garbage(int64_t now_ms) {
  Query q = db_.query(
      "SELECT EXISTS(SELECT 1 FROM nodes WHERE refs = 0)"
      " OR EXISTS(SELECT 1 FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0)");
  KVRT_ASSIGN(bool row, q.bind(now_ms).next());
  return row && q.integer(0) != 0;
}

Result<Catalog::Totals> Catalog::totals(int64_t now_ms) {
  Snapshot snapshot(&db_);
  KVRT_TRY(snapshot.begin());
  Totals t;
  KVRT_ASSIGN(uint64_t expired, count_expired(now_ms));
  Query q = db_.query("SELECT (SELECT count(*) FROM sessions), chunks, chunk_bytes, chunk_raw_bytes, segments, segment_bytes FROM totals");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("totals");
  t.sessions = q.u64(0) - expired;
  t.chunks = q.u64(1);
  t.chunk_bytes = q.u64(2);
  t.chunk_raw_bytes = q.u64(3);
  t.segments = q.u64(4);
  t.segment_bytes = q.u64(5);
  return t;
}

Result<uint64_t> Catalog::segment_bytes() {
  Query q = db_.query("SELECT segment_bytes FROM totals");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("totals");
  return q.u64(0);
}

Result<std::vector<Catalog::SegmentRow>> Catalog::segments() {
  std::vector<SegmentRow> rows;
  Query q = db_.query("SELECT id, name, bytes, live FROM segments ORDER BY id");
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return rows;
    SegmentRow s;
    s.row = q.integer(0);
    if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
    s.bytes = q.u64(2);
    s.live = q.u64(3);
    rows.push_back(s);
  }
}

Result<std::vector<Catalog::SegmentRow>> Catalog::unsynced(std::span<const NodeIn> nodes) {
  Snapshot snapshot(&db_);
  KVRT_TRY(snapshot.begin());
  std::vector<SegmentRow> rows;
  std::set<int64_t> seen;
  for (const NodeIn& node : nodes) {
    Query q = db_.query("SELECT s.id, s.name FROM nodes n JOIN segments s ON s.id = n.segment WHERE n.key = ? AND s.synced = 0");
    KVRT_ASSIGN(bool row, q.bind_blob(node.key.bytes).next());
    if (!row || !seen.insert(q.integer(0)).second) continue;
    SegmentRow s;
    s.row = q.integer(0);
    if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
    rows.push_back(s);
  }
  return rows;
}

Result<std::vector<SegmentId>> Catalog::trash() {
  std::vector<SegmentId> ids;
  Query q = db_.query("SELECT name FROM trash LIMIT 256");
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return ids;
    SegmentId id;
    if (!copy_exact(q.blob(0), id.bytes)) return broken_row("trash name");
    ids.push_back(id);
  }
}

Result<bool> Catalog::names_segment(const SegmentId& id) {
  Query q = db_.query("SELECT 1 FROM segments WHERE name = ? UNION ALL SELECT 1 FROM trash WHERE name = ?");
  return q.bind_blob(id.bytes).bind_blob(id.bytes).next();
}

}  // namespace kvrt
