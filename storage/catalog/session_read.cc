// SessionTable: the functions that only read, and the questions of a save.
#include <string>
#include <utility>

#include "storage/catalog/session_table.h"

namespace kvrt {

namespace {

unsigned long long ull(uint64_t v) { return v; }

// Takes the columns domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms.
Result<SessionStat> to_stat(const Query& q) {
  SessionStat stat;
  if (!copy_exact(q.blob(2), stat.id.bytes)) return broken_row("session id");
  stat.domain = q.text(0);
  stat.name = q.text(1);
  stat.revision = q.u64(3);
  stat.tokens = q.u64(4);
  stat.created_unix_ms = q.integer(5);
  stat.saved_unix_ms = q.integer(6);
  stat.pinned = static_cast<uint8_t>(q.integer(7));
  stat.expires_unix_ms = q.integer(8);
  return stat;
}

}  // namespace

Result<SessionOut> SessionTable::load(std::string_view domain, std::string_view name, int64_t now_ms) {
  Snapshot snapshot(db_);
  KVRT_TRY(snapshot.begin());
  KVRT_ASSIGN(SessionRow row, read_live(domain, name, now_ms));
  SessionOut out;
  out.domain = std::move(row.domain);
  out.name = std::move(row.name);
  out.id = row.id;
  out.revision = row.revision;
  out.root = row.root;
  out.model_id = row.model_id;
  out.token_count = row.tokens;
  out.block_tokens = static_cast<uint32_t>(row.block_tokens);
  out.manifest = std::move(row.manifest);
  KVRT_ASSIGN(std::vector<NodeTable::NodeRow> chain, nodes_->read_chain(row.head, row.root));
  for (const NodeTable::NodeRow& node : chain) {
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

Result<SessionStat> SessionTable::stat(std::string_view domain, std::string_view name, int64_t now_ms) {
  Snapshot snapshot(db_);
  KVRT_TRY(snapshot.begin());
  SessionStat stat;
  int64_t head;
  {
    Query q = db_->query(
        "SELECT domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms, head FROM sessions WHERE domain = ? AND name = ?");
    KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
    if (!row) return no_session(domain, name);
    KVRT_ASSIGN(stat, to_stat(q));
    head = q.integer(9);
  }
  if (has_expired(stat.pinned, stat.expires_unix_ms, now_ms)) return no_session(domain, name);
  KVRT_TRY(nodes_->fill_stat(head, &stat));
  return stat;
}

// A session's row has the counts of its chunks. They hold as long as `shares` stands still; else the chain is walked.
Result<std::vector<SessionStat>> SessionTable::list(std::string_view domain, bool all_domains, int64_t now_ms) {
  Snapshot snapshot(db_);
  KVRT_TRY(snapshot.begin());
  std::vector<SessionStat> stats;
  std::vector<std::pair<size_t, int64_t>> uncounted;  // places in `stats`, and heads
  {
    Query q = db_->query(
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
  for (auto [at, head] : uncounted) KVRT_TRY(nodes_->fill_stat(head, &stats[at]));
  return stats;
}

Result<uint64_t> SessionTable::count_expired(int64_t now_ms) {
  Query q = db_->query("SELECT count(*) FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0");
  KVRT_ASSIGN(bool row, q.bind(now_ms).next());
  if (!row) return broken_row("sessions");
  return q.u64(0);
}

Result<uint64_t> SessionTable::next_revision(const SessionIn& s, const std::optional<Head>& current) {
  if (!current) {
    KVRT_ASSIGN(uint64_t buried, buried_revision(s.domain, s.name));
    return buried + 1;
  }
  bool same = current->id == s.id;
  if (!current->expired && !s.overwrite && (!same || current->revision != s.revision_seen)) {
    return same ? error(Code::kConflict, Detail::kRevision, "session was saved elsewhere: revision %llu, this handle saw %llu",
                        ull(current->revision), ull(s.revision_seen))
                : error(Code::kConflict, Detail::kNameTaken,
                        "the name belongs to another session (revision %llu); overwrite was not asked for", ull(current->revision));
  }
  return current->revision + 1;
}

// The saver's id; a new one if a rename took the id along to another name, for this is another session then. The new id is a hash of the
// old one, domain, name and revision, which come together only once.
Result<SessionId> SessionTable::own_id(const SessionIn& s, uint64_t revision, const std::optional<Head>& current) {
  if (s.revision_seen == 0 || (current && current->id == s.id)) return s.id;
  Query q = db_->query("SELECT 1 FROM sessions WHERE id = ?");
  KVRT_ASSIGN(bool taken, q.bind_blob(s.id.bytes).next());
  if (!taken) return s.id;
  Hash256 fresh = Hasher(catalog_->salt()).add(s.id.bytes).add_string(s.domain).add_string(s.name).add_u64(revision).finish();
  SessionId id;
  std::copy_n(fresh.bytes.begin(), sizeof id.bytes, id.bytes);
  return id;
}

}  // namespace kvrt
