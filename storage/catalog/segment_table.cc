#include "storage/catalog/segment_table.h"

#include <algorithm>
#include <set>

#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

// The next row of a query for id, name, bytes and live. Row 0: there is none.
Result<SegmentRow> next_segment(Query& q) {
  SegmentRow s;
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return s;
  s.row = q.integer(0);
  if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
  s.bytes = q.u64(2);
  s.live = q.u64(3);
  return s;
}

}  // namespace

Result<int64_t> SegmentTable::add(CatalogTransaction* txn, const NewSegment& segment) {
  KVRT_TRY(db_->query("INSERT INTO segments(name, bytes, live, synced) VALUES(?, ?, 0, ?)")
               .bind_blob(segment.id.bytes)
               .bind_u64(segment.bytes)
               .bind(segment.synced)
               .run());
  txn->totals.segments++;
  txn->totals.segment_bytes += static_cast<int64_t>(segment.bytes);
  return db_->last_rowid();
}

// Sets the live bytes of a row that add made, or of one that lost all its chunks. Without live bytes the row is deleted.
Status SegmentTable::set_live(CatalogTransaction* txn, int64_t segment, uint64_t live) {
  if (live != 0) return db_->query("UPDATE segments SET live = ? WHERE id = ?").bind_u64(live).bind(segment).run();
  Query q = db_->query("DELETE FROM segments WHERE id = ? RETURNING bytes");
  KVRT_ASSIGN(bool row, q.bind(segment).next());
  if (!row) return broken_row("segment");
  txn->totals.segments--;
  txn->totals.segment_bytes -= q.integer(0);
  return q.run();
}

// Takes `bytes` off the segment's live bytes. With none left its row is deleted, and its name is in the trash until the file is unlinked.
Status SegmentTable::shrink(CatalogTransaction* txn, int64_t segment, uint64_t bytes) {
  SegmentId id;
  {
    Query q = db_->query("UPDATE segments SET live = live - ? WHERE id = ? RETURNING live, name, bytes");
    KVRT_ASSIGN(bool row, q.bind_u64(bytes).bind(segment).next());
    if (!row) return broken_row("segment");
    if (q.integer(0) > 0) return q.run();
    if (!copy_exact(q.blob(1), id.bytes)) return broken_row("segment name");
    txn->totals.segments--;
    txn->totals.segment_bytes -= q.integer(2);
    KVRT_TRY(q.run());
  }
  KVRT_TRY(db_->query("DELETE FROM segments WHERE id = ?").bind(segment).run());
  return db_->query("INSERT OR IGNORE INTO trash(name) VALUES(?)").bind_blob(id.bytes).run();
}

Result<SegmentRow> SegmentTable::sparse(int64_t after) {
  Query q = db_->query("SELECT id, name, bytes, live FROM segments WHERE 2 * live < bytes AND id > ? ORDER BY id LIMIT 1");
  return next_segment(q.bind(after));
}

Result<SegmentRow> SegmentTable::with_dead(int64_t after) {
  Query q = db_->query(
      "SELECT id, name, bytes, live FROM segments s WHERE id > ?1"
      " AND bytes - live <> ?2 + ?3 * (SELECT count(*) FROM chunks c WHERE c.segment = s.id) ORDER BY id LIMIT 1");
  return next_segment(q.bind(after).bind(kSegmentHeaderBytes + kSegmentTrailerBytes).bind(kSegmentEntryBytes));
}

Result<std::vector<SegmentRow>> SegmentTable::all() {
  std::vector<SegmentRow> rows;
  Query q = db_->query("SELECT id, name, bytes, live FROM segments ORDER BY id");
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

Result<uint64_t> SegmentTable::total_bytes() {
  Query q = db_->query("SELECT segment_bytes FROM totals");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("totals");
  return q.u64(0);
}

Result<bool> SegmentTable::is_named(const SegmentId& id) {
  Query q = db_->query("SELECT 1 FROM segments WHERE name = ? UNION ALL SELECT 1 FROM trash WHERE name = ?");
  return q.bind_blob(id.bytes).bind_blob(id.bytes).next();
}

Result<std::vector<SegmentRow>> SegmentTable::unsynced(std::span<const NodeIn> nodes) {
  Snapshot snapshot(db_);
  KVRT_TRY(snapshot.begin());
  std::vector<SegmentRow> rows;
  std::set<int64_t> seen;
  for (const NodeIn& node : nodes) {
    Query q = db_->query(
        "SELECT s.id, s.name FROM nodes n JOIN chunks c ON c.node = n.id JOIN segments s ON s.id = c.segment"
        " WHERE n.key = ? AND s.synced = 0");
    q.bind_blob(node.key.bytes);
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      if (!seen.insert(q.integer(0)).second) continue;
      SegmentRow s;
      s.row = q.integer(0);
      if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
      rows.push_back(s);
    }
  }
  return rows;
}

Status SegmentTable::mark_synced(std::span<const SegmentRow> rows) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  for (const SegmentRow& row : rows) {  // by name: another process may have given the row to another segment
    KVRT_TRY(db_->query("UPDATE segments SET synced = 1 WHERE name = ?").bind_blob(row.id.bytes).run());
  }
  return txn.commit();
}

Status SegmentTable::clear_trash(std::span<const SegmentId> gone) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  for (const SegmentId& id : gone) KVRT_TRY(db_->query("DELETE FROM trash WHERE name = ?").bind_blob(id.bytes).run());
  KVRT_TRY(txn.commit());
  std::erase_if(catalog_->settled_trash(), [&](const SegmentId& id) { return std::find(gone.begin(), gone.end(), id) != gone.end(); });
  return {};
}

}  // namespace kvrt
