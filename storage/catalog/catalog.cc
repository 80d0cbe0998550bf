#include "storage/catalog/catalog.h"

#include <algorithm>
#include <optional>

#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

constexpr int64_t kClockBackMs = 5 * 60 * 1000, kClockForthMs = int64_t{7} * 24 * 3600 * 1000;

SessionRow row_of(const SessionIn& s, const CommitResult& result, int64_t head, int64_t now_ms) {
  SessionRow row;
  row.domain = s.domain;
  row.name = s.name;
  row.id = result.saved.id;
  row.revision = result.saved.revision;
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
  row.needs = s.groups;
  return row;
}

}  // namespace

Result<CommitResult> Catalog::commit(const SessionIn& s, const NewSegment* segment, const ChunkKeys& needed, const ChunkKeys& bad,
                                     int64_t now_ms) {
  CatalogTransaction txn(&db);
  KVRT_TRY(txn.begin());
  CommitResult result;
  KVRT_ASSIGN(std::optional<SessionTable::Head> current, sessions.find(s.domain, s.name, now_ms));
  KVRT_ASSIGN(result.saved.revision, sessions.next_revision(s, current));
  KVRT_ASSIGN(result.saved.id, sessions.own_id(s, result.saved.revision, current));
  KVRT_TRY(chunks.require(needed));
  KVRT_ASSIGN(NodeTable::Added added, nodes.add(s));
  for (const ChunkKey& chunk : bad) KVRT_TRY(chunks.forget(&txn, chunk));
  if (segment != nullptr) {
    KVRT_ASSIGN(uint64_t live, chunks.add(&txn, *segment, added.first));
    result.segment_used = live > 0;
  }
  SessionRow row = row_of(s, result, added.head, now_ms);
  if (current && !current->expired) {
    row.pinned = s.pin != 0 ? s.pin : current->pinned;
    if (s.ttl_seconds == 0) row.expires_ms = current->expires_ms;
    row.created_ms = current->created_ms;
  }
  if (s.same_revision) {
    row.saved_ms = current->saved_ms;
    row.used = current->used;
  } else {
    KVRT_ASSIGN(row.used, sql_->number("SELECT clock + 1 FROM totals"));
    txn.totals.used = true;
  }
  KVRT_TRY(sessions.write(row));
  if (current) KVRT_TRY(nodes.release(&txn, current->node, added.below));  // last: a node of the old and the new chain keeps a reference
  KVRT_TRY(nodes.note_fork(&txn, added));
  KVRT_TRY(sessions.write_statistics(&txn, row));
  KVRT_TRY(note_time(&txn, now_ms));
  KVRT_TRY(txn.commit());
  return result;
}

// A wall clock that jumped since the last look expires nothing this once: it may have been set wrong. A look that saw a jump is negative.
// The look after it minds no second jump forth, else a gc once a month would never remove a session.
Result<bool> Catalog::trusts_clock(int64_t now_ms) {
  KVRT_ASSIGN(const int64_t look, sql_->number("SELECT seen_ms FROM totals"));
  const int64_t seen_ms = look < 0 ? -(look + 1) : look;  // a damaged one may be any number
  return look == 0 || (now_ms >= seen_ms - kClockBackMs && (look < 0 || now_ms <= seen_ms + kClockForthMs));
}

Status Catalog::note_time(CatalogTransaction* txn, int64_t now_ms) {
  KVRT_ASSIGN(const bool trusted, trusts_clock(now_ms));
  KVRT_ASSIGN(const int64_t jumped, sql_->number("SELECT seen_ms < 0 FROM totals"));
  if (trusted) txn->totals.seen_ms = jumped ? -now_ms : now_ms;  // a jump, this one or the last, is gc's to see
  return {};
}

Result<Collected> Catalog::collect(int64_t now_ms, const Collected& before, const std::function<bool()>& more) {
  CatalogTransaction txn(&db);
  KVRT_TRY(txn.begin());
  Collected c = before;
  KVRT_ASSIGN(const bool trusted, trusts_clock(now_ms));
  c.jumped = c.jumped || !trusted;
  do {
    KVRT_ASSIGN(bool removed, nodes.sweep(&txn, &c));
    if (!removed && !c.jumped) {
      KVRT_ASSIGN(removed, sessions.remove_expired(&txn, now_ms, &c));
    }
    c.finished = !removed;
  } while (!c.finished && more());
  txn.totals.seen_ms = !c.jumped ? now_ms : c.looks ? -now_ms : 0;
  KVRT_TRY(txn.commit());
  return c;
}

Result<bool> Catalog::has_garbage(int64_t now_ms) {
  Query q = sql_->query(
      "SELECT EXISTS(SELECT 1 FROM nodes WHERE refs = 0)"
      " OR EXISTS(SELECT 1 FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0)");
  KVRT_ASSIGN(bool row, q.bind(now_ms).next());
  return row && q.integer(0) != 0;
}

Result<Evicted> Catalog::evict(const SavedBy& by, uint64_t bytes, const std::function<bool()>& more) {
  CatalogTransaction txn(&db);
  KVRT_TRY(txn.begin());
  Evicted evicted;
  std::vector<int64_t> partly;  // sessions that keep KV which others need now
  do {
    int64_t session, head, used;
    std::vector<SessionGroup> needs;
    {
      Query q = sql_->query(
          "SELECT rowid, head, used, needs FROM sessions WHERE used > 0 AND NOT (domain = ?1 AND name = ?2)"
          " AND (pinned = 0 OR (domain = ?1 AND pinned < iif(?3 <> 0, ?3,"
          " coalesce((SELECT pinned FROM sessions WHERE domain = ?1 AND name = ?2), 0))))"  // a save with 0 leaves its pin as it is
          " ORDER BY pinned, domain <> ?1, used LIMIT 1");
      KVRT_ASSIGN(bool row, q.bind_text(by.domain).bind_text(by.name).bind(by.pin).next());
      if (!row) break;
      session = q.integer(0);
      head = q.integer(1);
      used = q.integer(2);
      needs = decode_needs(q.blob(3)).value_or(std::vector<SessionGroup>());
    }
    KVRT_TRY(sql_->query("UPDATE sessions SET used = 0 WHERE rowid = ?").bind(session).run());
    const uint64_t before = evicted.chunks;
    const uint64_t wanted = bytes - std::min(bytes, evicted.bytes);
    KVRT_ASSIGN(const NodeTable::Left left, nodes.evict_chain(&txn, head, needs, wanted, by.needs, &evicted));
    if (evicted.chunks > before) {
      KVRT_TRY(sql_->query("UPDATE sessions SET counted = ? WHERE rowid = ?").bind(kEvictedSince).bind(session).run());
    }
    if (left == NodeTable::Left::kNeeded) partly.push_back(session);
    if (left == NodeTable::Left::kChain) {  // it is the next one again
      KVRT_TRY(sql_->query("UPDATE sessions SET used = ? WHERE rowid = ?").bind(used).bind(session).run());
    }
    evicted.sessions += left == NodeTable::Left::kNothing || evicted.chunks > before;
  } while (evicted.bytes < bytes && (evicted.sessions == 0 || more()));
  if (evicted.sessions == 0) return evicted;
  for (const int64_t session : partly) {  // behind all others: until its next turn those may have gone that need the rest
    KVRT_TRY(sql_->query("UPDATE sessions SET used = (SELECT clock + 1 FROM totals) WHERE rowid = ?").bind(session).run());
    txn.totals.used = true;
  }
  KVRT_TRY(txn.commit());
  return evicted;
}

Result<Catalog::Totals> Catalog::totals(int64_t now_ms) {
  Snapshot snapshot(sql_);
  KVRT_TRY(snapshot.begin());
  Totals t;
  KVRT_ASSIGN(uint64_t expired, sessions.count_expired(now_ms));
  Query q =
      sql_->query("SELECT (SELECT count(*) FROM sessions), chunks, chunk_bytes, chunk_raw_bytes, segments, segment_bytes FROM totals");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("totals");
  t.sessions = q.u64(0) - expired;
  t.chunks = q.u64(1);
  t.chunk_bytes = q.u64(2);
  t.chunk_raw_bytes = q.u64(3);
  t.segments = q.u64(4);
  t.segment_bytes = q.u64(5);
  KVRT_ASSIGN(t.loads_evicted, sessions.loads_evicted());
  return t;
}

}  // namespace kvrt
