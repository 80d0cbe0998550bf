#include "storage/catalog/session_table.h"

#include <algorithm>
#include <string>
#include <utility>

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
    out.node_items.push_back(node.items);
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
  std::optional<std::vector<SessionGroup>> needs;
  {
    Query q = db_->query(
        "SELECT domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms, head, needs FROM sessions"
        " WHERE domain = ? AND name = ?");
    KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
    if (!row) return no_session(domain, name);
    KVRT_ASSIGN(stat, to_stat(q));
    head = q.integer(9);
    needs = decode_needs(q.blob(10));
    if (!needs) return broken_row("session's groups");
  }
  if (has_expired(stat.pinned, stat.expires_unix_ms, now_ms)) return no_session(domain, name);
  KVRT_TRY(nodes_->fill_stat(head, *needs, &stat));
  return stat;
}

// A session's row has the counts of its chunks. They hold as long as `shares` stands still; else the chain is walked.
Result<std::vector<SessionStat>> SessionTable::list(std::string_view domain, bool all_domains, int64_t now_ms) {
  Snapshot snapshot(db_);
  KVRT_TRY(snapshot.begin());
  std::vector<SessionStat> stats;
  struct Uncounted {
    size_t at;  // in `stats`
    int64_t head;
    std::vector<SessionGroup> needs;
  };
  std::vector<Uncounted> uncounted;
  {
    Query q = db_->query(
        "SELECT domain, name, id, gen, tokens, created_ms, saved_ms, pinned, expires_ms, head, chunks, chunks_missing, chunk_bytes,"
        " chunk_bytes_shared, counted = (SELECT shares FROM totals), needs FROM sessions WHERE ? OR domain = ? ORDER BY domain, name");
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
      if (q.integer(14) == 0) {
        auto needs = decode_needs(q.blob(15));
        if (!needs) return broken_row("session's groups");
        uncounted.push_back({stats.size(), q.integer(9), std::move(*needs)});
      }
      stats.push_back(std::move(stat));
    }
  }
  NodeTable::SharedSums shared;
  for (const Uncounted& u : uncounted) KVRT_TRY(nodes_->fill_stat(u.head, u.needs, &stats[u.at], &shared));
  return stats;
}

Result<uint64_t> SessionTable::count_expired(int64_t now_ms) {
  Query q = db_->query("SELECT count(*) FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0");
  KVRT_ASSIGN(bool row, q.bind(now_ms).next());
  if (!row) return broken_row("sessions");
  return q.u64(0);
}

Result<uint64_t> SessionTable::next_revision(const SessionIn& s, const std::optional<Head>& current) {
  if (s.same_revision) {
    if (current && !current->expired && current->id == s.id && current->revision == s.revision_seen) return s.revision_seen;
    return error(Code::kConflict, Detail::kRevision, "session was saved or removed since its revision %llu was read", ull(s.revision_seen));
  }
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

Result<std::optional<SessionTable::Head>> SessionTable::find(std::string_view domain, std::string_view name, int64_t now_ms) {
  Query q = db_->query("SELECT head, id, gen, created_ms, pinned, expires_ms, saved_ms, used FROM sessions WHERE domain = ? AND name = ?");
  KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).next());
  if (!row) return std::optional<Head>();
  Head head;
  head.node = q.integer(0);
  if (!copy_exact(q.blob(1), head.id.bytes)) return broken_row("session id");
  head.revision = q.u64(2);
  head.created_ms = q.integer(3);
  head.pinned = static_cast<uint8_t>(q.integer(4));
  head.expires_ms = q.integer(5);
  head.saved_ms = q.integer(6);
  head.used = q.integer(7);
  head.expired = has_expired(head.pinned, head.expires_ms, now_ms);
  return std::optional<Head>(head);
}

Result<SessionRow> SessionTable::read(std::string_view domain, std::string_view name) {
  Query q = db_->query(
      "SELECT s.id, gen, root, head, s.tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, model_id, manifest, checksum, n.key,"
      " used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted, needs"
      " FROM sessions s LEFT JOIN nodes n ON n.id = s.head WHERE domain = ? AND name = ?");
  KVRT_ASSIGN(bool found, q.bind_text(domain).bind_text(name).next());
  if (!found) return no_session(domain, name);
  SessionRow row;
  row.domain = domain;
  row.name = name;
  row.revision = q.u64(1);
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
  auto needs = decode_needs(q.blob(20));
  if (!needs) return broken_row("session's groups");
  row.needs = std::move(*needs);
  row.used = q.integer(14);
  row.chunks = q.u64(15);
  row.chunks_missing = q.u64(16);
  row.chunk_bytes = q.u64(17);
  row.chunk_bytes_shared = q.u64(18);
  row.counted = q.integer(19);
  row.head_key = row.root;
  if (row.head != 0 && !copy_exact(q.blob(13), row.head_key.bytes)) return broken_row("node");
  if (row.checksum(catalog_->id()) != checksum)
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: the session's row has changed bits, or is another store's");
  return row;
}

Result<SessionRow> SessionTable::read_live(std::string_view domain, std::string_view name, int64_t now_ms) {
  KVRT_ASSIGN(SessionRow row, read(domain, name));
  if (has_expired(row.pinned, row.expires_ms, now_ms)) return no_session(domain, name);
  return row;
}

Status SessionTable::write(const SessionRow& row) {
  const auto checksum = row.checksum(catalog_->id());
  const auto needs = encode_needs(row.needs);
  Query q = db_->query(
      "INSERT OR REPLACE INTO sessions(domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms,"
      " checksum, model_id, manifest, needs, used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted)"
      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind_text(row.domain).bind_text(row.name).bind_blob(row.id.bytes).bind_u64(row.revision).bind_blob(row.root.bytes);
  if (row.head == 0) {
    q.bind_null();
  } else {
    q.bind(row.head);
  }
  q.bind_u64(row.tokens).bind_u64(row.block_tokens).bind(row.pinned).bind(row.expires_ms).bind(row.created_ms).bind(row.saved_ms);
  q.bind_blob(checksum).bind_blob(row.model_id.bytes).bind_blob(row.manifest).bind_blob(needs).bind(row.used);
  q.bind_u64(row.chunks).bind_u64(row.chunks_missing).bind_u64(row.chunk_bytes).bind_u64(row.chunk_bytes_shared);
  return q.bind(row.counted).run();
}

// Writes the counts of the session's chunks, as they are at the end of this transaction.
Status SessionTable::write_statistics(CatalogTransaction* txn, const SessionRow& row) {
  SessionStat stat;
  KVRT_TRY(nodes_->fill_stat(row.head, row.needs, &stat));
  return db_
      ->query(
          "UPDATE sessions SET chunks = ?, chunks_missing = ?, chunk_bytes = ?, chunk_bytes_shared = ?,"
          " counted = (SELECT shares FROM totals) + ? WHERE domain = ? AND name = ?")
      .bind_u64(stat.chunks)
      .bind_u64(stat.chunks_missing)
      .bind_u64(stat.bytes)
      .bind_u64(stat.bytes_shared)
      .bind(txn->totals.shares)
      .bind_text(row.domain)
      .bind_text(row.name)
      .run();
}

Hash256 SessionTable::tombstone(std::string_view domain, std::string_view name) const {
  return Hasher(catalog_->salt()).add_string(domain).add_string(name).finish();
}

// Deletes the row; a tombstone keeps the revision. The caller gives back the row's reference on the head.
Status SessionTable::drop(std::string_view domain, std::string_view name, uint64_t revision) {
  Hash256 grave = tombstone(domain, name);
  KVRT_TRY(db_->query("INSERT OR REPLACE INTO tombstones(name, gen) VALUES(?, ?)").bind_blob(grave.bytes).bind_u64(revision).run());
  return db_->query("DELETE FROM sessions WHERE domain = ? AND name = ?").bind_text(domain).bind_text(name).run();
}

Result<uint64_t> SessionTable::buried_revision(std::string_view domain, std::string_view name) {
  Hash256 grave = tombstone(domain, name);
  Query q = db_->query("SELECT gen FROM tombstones WHERE name = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(grave.bytes).next());
  return row ? q.u64(0) : 0;
}

Status SessionTable::remove(std::string_view domain, std::string_view name, int64_t now_ms) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(std::optional<Head> current, find(domain, name, now_ms));
  if (!current || current->expired) return no_session(domain, name);
  KVRT_TRY(drop(domain, name, current->revision));
  KVRT_TRY(nodes_->release(&txn, current->node));
  return txn.commit();
}

// The new revision is larger than any that the session or either name had.
Status SessionTable::rename(std::string_view domain, std::string_view from, std::string_view to, int64_t now_ms) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, read_live(domain, from, now_ms));
  KVRT_ASSIGN(std::optional<Head> target, find(domain, to, now_ms));
  if (target && !target->expired) {
    return error(Code::kConflict, Detail::kNameTaken, "the new name belongs to a session (revision %llu)",
                 static_cast<unsigned long long>(target->revision));
  }
  KVRT_ASSIGN(uint64_t buried, buried_revision(domain, to));
  KVRT_TRY(drop(domain, from, row.revision));
  row.name = to;
  row.revision = std::max({row.revision, buried, target ? target->revision : 0}) + 1;
  KVRT_TRY(write(row));
  if (target) KVRT_TRY(nodes_->release(&txn, target->node));
  return txn.commit();
}

Status SessionTable::pin(std::string_view domain, std::string_view name, uint8_t priority, int64_t now_ms) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, read_live(domain, name, now_ms));
  row.pinned = priority;
  KVRT_TRY(write(row));
  return txn.commit();
}

Status SessionTable::set_expiry(std::string_view domain, std::string_view name, int64_t expires_ms, int64_t now_ms) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, read_live(domain, name, now_ms));
  row.expires_ms = expires_ms;
  KVRT_TRY(write(row));
  return txn.commit();
}

// Removes the next expired session; NodeTable::sweep removes its nodes later. False: there is none. A row whose checksum is wrong stays,
// since it may not have expired at all; verify names it.
Result<bool> SessionTable::remove_expired(CatalogTransaction* txn, int64_t now_ms, Collected* collected) {
  for (;;) {
    std::string domain, name;
    {
      Query q = db_->query(
          "SELECT expires_ms, rowid, domain, name FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0"
          " AND expires_ms >= ? AND (expires_ms > ? OR rowid > ?) ORDER BY expires_ms, rowid LIMIT 1");
      KVRT_ASSIGN(bool row, q.bind(now_ms).bind(collected->expiry).bind(collected->expiry).bind(collected->row).next());
      if (!row) return false;
      collected->expiry = q.integer(0);
      collected->row = q.integer(1);
      domain = q.text(2);
      name = q.text(3);
    }
    auto row = read(domain, name);
    if (!row.is_ok() && row.status().code() == Code::kCorrupt) continue;
    if (!row.is_ok()) return row.take_status();
    KVRT_TRY(drop(domain, name, row->revision));
    if (row->head != 0) KVRT_TRY(nodes_->take_reference(txn, row->head).take_status());
    txn->totals.shares = true;
    collected->sessions++;
    return true;
  }
}

void SessionTable::touch(std::string_view domain, std::string_view name) {
  const Impatient now(db_);
  CatalogTransaction txn(catalog_);
  if (!txn.begin().is_ok()) return;
  Query q = db_->query(
      "UPDATE sessions SET used = (SELECT clock + 1 FROM totals)"
      " WHERE domain = ? AND name = ? AND used > 0 AND used < (SELECT clock FROM totals)");
  if (!q.bind_text(domain).bind_text(name).run().is_ok()) return;
  txn.totals.used = db_->changes() > 0;
  auto missed = count_evicted(domain, name);
  if (missed.is_ok() && (*missed || txn.totals.used)) (void)txn.commit().is_ok();
}

// Counts the load of a session of which an eviction has taken KV, and nobody has brought it back. False: it lacks none.
Result<bool> SessionTable::count_evicted(std::string_view domain, std::string_view name) {
  int64_t head;
  uint64_t missing;
  std::vector<SessionGroup> needs;
  {
    Query q = db_->query("SELECT head, chunks_missing, needs FROM sessions WHERE domain = ? AND name = ? AND counted = ?");
    KVRT_ASSIGN(bool row, q.bind_text(domain).bind_text(name).bind(kEvictedSince).next());
    if (!row) return false;
    head = q.integer(0);
    missing = q.u64(1);
    needs = decode_needs(q.blob(2)).value_or(std::vector<SessionGroup>());
  }
  SessionStat stat;
  KVRT_TRY(nodes_->fill_stat(head, needs, &stat));
  if (stat.chunks_missing <= missing) return false;
  KVRT_ASSIGN(const uint64_t before, loads_evicted());
  ByteWriter w;
  w.write(before + 1);
  KVRT_TRY(db_->query("INSERT OR REPLACE INTO meta(name, value) VALUES('loads_evicted', ?)").bind_blob(w.bytes()).run());
  return true;
}

Result<uint64_t> SessionTable::loads_evicted() {
  Query q = db_->query("SELECT value FROM meta WHERE name = 'loads_evicted'");
  KVRT_ASSIGN(bool row, q.next());
  uint64_t count = 0;
  if (row) (void)ByteReader(q.blob(0)).read(&count);  // a broken count is no reason to refuse anything
  return count;
}

}  // namespace kvrt
