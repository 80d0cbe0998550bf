// Catalog: what removes and renames, and the collection of garbage. Every public function here is one transaction.
#include <algorithm>

#include "storage/catalog.h"
#include "storage/catalog_rows.h"

namespace kvrt {

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

// The row goes, its generation stays known. Its reference on the head is the caller's to give back.
Status Catalog::drop_session(std::string_view domain, std::string_view name, uint64_t gen) {
  Hash256 grave = tombstone(domain, name);
  KVRT_TRY(db_.query("INSERT OR REPLACE INTO tombstones(name, gen) VALUES(?, ?)").bind_blob(grave.bytes).bind_u64(gen).run());
  return db_.query("DELETE FROM sessions WHERE domain = ? AND name = ?").bind_text(domain).bind_text(name).run();
}

Status Catalog::remove(std::string_view domain, std::string_view name, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(std::optional<Head> current, find_session(domain, name, now_ms));
  if (!current || current->expired) return no_session();
  KVRT_TRY(drop_session(domain, name, current->gen));
  KVRT_TRY(release(current->node));
  return txn.commit();
}

// The new generation is larger than any that the session or either name had.
Status Catalog::rename(std::string_view domain, std::string_view from, std::string_view to, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, from, now_ms));
  KVRT_ASSIGN(std::optional<Head> target, find_session(domain, to, now_ms));
  if (target && !target->expired) {
    return error(Code::kConflict, Detail::kNameTaken, "the new name belongs to a session (generation %llu)",
                 static_cast<unsigned long long>(target->gen));
  }
  KVRT_ASSIGN(uint64_t buried, buried_gen(domain, to));
  KVRT_TRY(drop_session(domain, from, row.gen));
  row.name = to;
  row.gen = std::max({row.gen, buried, target ? target->gen : 0}) + 1;
  KVRT_TRY(write_session(row));
  if (target) KVRT_TRY(release(target->node));
  return txn.commit();
}

Status Catalog::pin(std::string_view domain, std::string_view name, bool pinned, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, name, now_ms));
  row.pinned = pinned;
  KVRT_TRY(write_session(row));
  return txn.commit();
}

Status Catalog::set_expiry(std::string_view domain, std::string_view name, int64_t expires_ms, int64_t now_ms) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, name, now_ms));
  row.expires_ms = expires_ms;
  KVRT_TRY(write_session(row));
  return txn.commit();
}

// One node without references, with its chunk and its reference on the parent. False: there is none.
Result<bool> Catalog::sweep_node(Collected* collected) {
  int64_t node, parent, segment;
  {
    Query q = db_.query("SELECT id, parent, segment FROM nodes WHERE refs = 0 LIMIT 1");
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return false;
    node = q.integer(0);
    parent = q.integer(1);
    segment = q.integer(2);
  }
  KVRT_TRY(db_.query("DELETE FROM nodes WHERE id = ?").bind(node).run());
  if (segment != 0) KVRT_TRY(drop_chunks_of(segment, 1));
  if (parent != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ?").bind(parent).run());
  collected->nodes++;
  collected->chunks += segment != 0;
  return true;
}

// The next expired session; its nodes are left to sweep_node. False: there is none. A row that fails its checksum may not have expired
// at all: verify names it, and it stays.
Result<bool> Catalog::remove_expired(int64_t now_ms, Collected* collected) {
  for (;;) {
    std::string domain, name;
    {
      Query q = db_.query(
          "SELECT expires_ms, rowid, domain, name FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0"
          " AND expires_ms >= ? AND (expires_ms > ? OR rowid > ?) ORDER BY expires_ms, rowid LIMIT 1");
      KVRT_ASSIGN(bool row, q.bind(now_ms).bind(collected->expiry).bind(collected->expiry).bind(collected->row).next());
      if (!row) return false;
      collected->expiry = q.integer(0);
      collected->row = q.integer(1);
      domain = q.text(2);
      name = q.text(3);
    }
    auto row = read_session(domain, name);
    if (!row.is_ok() && row.status().code() == Code::kCorrupt) continue;
    if (!row.is_ok()) return row.take_status();
    KVRT_TRY(drop_session(domain, name, row->gen));
    if (row->head != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ?").bind(row->head).run());
    collected->sessions++;
    return true;
  }
}

Result<Catalog::Collected> Catalog::collect(int64_t now_ms, const Collected& before, const std::function<bool()>& more) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  Collected c = before;
  do {
    KVRT_ASSIGN(bool removed, sweep_node(&c));
    if (!removed) {
      KVRT_ASSIGN(removed, remove_expired(now_ms, &c));
    }
    c.finished = !removed;
  } while (!c.finished && more());
  KVRT_TRY(txn.commit());
  return c;
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
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  for (const SegmentRow& row : rows) {  // by name: another process may have given the row to another segment
    KVRT_TRY(db_.query("UPDATE segments SET synced = 1 WHERE name = ?").bind_blob(row.id.bytes).run());
  }
  return txn.commit();
}

Status Catalog::clear_trash(std::span<const SegmentId> ids) {
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  for (const SegmentId& id : ids) KVRT_TRY(db_.query("DELETE FROM trash WHERE name = ?").bind_blob(id.bytes).run());
  return txn.commit();
}

}  // namespace kvrt
