#include "storage/catalog/segment_table.h"

#include <algorithm>
#include <set>

#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

#define KVRT_SEGMENT_COLUMNS "id, name, bytes, live, synced, sealed"

// The next row of a query for these columns. Row 0: there is none.
Result<SegmentRow> next_segment(Query& q) {
  SegmentRow s;
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return s;
  s.row = q.integer(0);
  if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
  s.bytes = q.u64(2);
  s.live = q.u64(3);
  s.synced = q.u64(4);
  s.sealed = q.integer(5) != 0;
  return s;
}

Result<std::vector<SegmentRow>> all_segments(Query& q) {
  std::vector<SegmentRow> rows;
  for (;;) {
    KVRT_ASSIGN(const SegmentRow row, next_segment(q));
    if (row.row == 0) return rows;
    rows.push_back(row);
  }
}

}  // namespace

Result<int64_t> SegmentTable::add(CatalogTransaction* txn, const NewSegment& segment) {
  if (segment.open) {
    KVRT_ASSIGN(const SegmentRow known, find(segment.id));
    if (known.row != 0 && !known.sealed) return known.row;
    if (segment.begun || known.row != 0) {
      return error(Code::kBusy, Detail::kConcurrent, "segment %s, which this save appended to, was removed meanwhile",
                   segment.id.hex().c_str());
    }
  }
  KVRT_TRY(db_->query("INSERT INTO segments(name, bytes, live, synced, sealed) VALUES(?, ?, 0, ?, ?)")
               .bind_blob(segment.id.bytes)
               .bind_u64(segment.bytes)
               .bind_u64(segment.synced)
               .bind(!segment.open)
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

// Counts the chunks that were appended to an open segment.
Status SegmentTable::grow(CatalogTransaction* txn, const NewSegment& segment, uint64_t live) {
  KVRT_ASSIGN(const SegmentRow row, find(segment.id));
  if (live == 0) return segment.begun ? Status() : set_live(txn, row.row, 0);
  const uint64_t bytes = std::max(row.bytes, segment.bytes);
  txn->totals.segment_bytes += static_cast<int64_t>(bytes - row.bytes);
  Query q = db_->query("UPDATE segments SET live = live + ?, bytes = ?, synced = max(synced, ?) WHERE id = ?");
  return q.bind_u64(live).bind_u64(bytes).bind_u64(segment.synced).bind(row.row).run();
}

// Takes `bytes` off the segment's live bytes. With none left a sealed one is discarded; an open one waits for its writer.
Status SegmentTable::shrink(CatalogTransaction* txn, int64_t segment, uint64_t bytes) {
  SegmentRow left;
  {
    Query q = db_->query("UPDATE segments SET live = live - ? WHERE id = ? RETURNING " KVRT_SEGMENT_COLUMNS);
    KVRT_ASSIGN(left, next_segment(q.bind_u64(bytes).bind(segment)));
    if (left.row == 0) return broken_row("segment");
    KVRT_TRY(q.run());
  }
  return left.live > 0 || !left.sealed ? Status() : discard(txn, left);
}

// Deletes the row. The name is in the trash until the file is unlinked.
Status SegmentTable::discard(CatalogTransaction* txn, const SegmentRow& segment) {
  txn->totals.segments--;
  txn->totals.segment_bytes -= static_cast<int64_t>(segment.bytes);
  KVRT_TRY(db_->query("DELETE FROM segments WHERE id = ?").bind(segment.row).run());
  return db_->query("INSERT OR IGNORE INTO trash(name) VALUES(?)").bind_blob(segment.id.bytes).run();
}

Status SegmentTable::end_at(CatalogTransaction* txn, const SegmentRow& segment, uint64_t bytes) {
  txn->totals.segment_bytes += static_cast<int64_t>(bytes - segment.bytes);
  return db_->query("UPDATE segments SET bytes = ?1, synced = min(synced, ?1) WHERE id = ?2").bind_u64(bytes).bind(segment.row).run();
}

Status SegmentTable::seal(const SegmentId& id, uint64_t bytes) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(const SegmentRow row, find(id));
  if (row.row == 0 || row.sealed) return {};
  if (row.live == 0) {
    KVRT_TRY(discard(&txn, row));
  } else {
    KVRT_TRY(end_at(&txn, row, bytes));
    KVRT_TRY(db_->query("UPDATE segments SET sealed = 1 WHERE id = ?").bind(row.row).run());
  }
  return txn.commit();
}

Result<SegmentRow> SegmentTable::find(const SegmentId& id) {
  Query q = db_->query("SELECT " KVRT_SEGMENT_COLUMNS " FROM segments WHERE name = ?");
  return next_segment(q.bind_blob(id.bytes));
}

Result<std::vector<SegmentRow>> SegmentTable::open() {
  Query q = db_->query("SELECT " KVRT_SEGMENT_COLUMNS " FROM segments WHERE sealed = 0 ORDER BY id");
  return all_segments(q);
}

Result<SegmentRow> SegmentTable::sparse(int64_t after) {
  Query q =
      db_->query("SELECT " KVRT_SEGMENT_COLUMNS " FROM segments WHERE 2 * live < bytes AND sealed <> 0 AND id > ? ORDER BY id LIMIT 1");
  return next_segment(q.bind(after));
}

Result<SegmentRow> SegmentTable::with_dead(int64_t after) {
  Query q = db_->query("SELECT " KVRT_SEGMENT_COLUMNS
                       " FROM segments s WHERE id > ?1 AND sealed <> 0"
                       " AND bytes - live <> ?2 + ?3 * (SELECT count(*) FROM chunks c WHERE c.segment = s.id) ORDER BY id LIMIT 1");
  return next_segment(q.bind(after).bind(kSegmentHeaderBytes + kSegmentTrailerBytes).bind(kSegmentEntryBytes));
}

Result<std::vector<SegmentRow>> SegmentTable::all() {
  Query q = db_->query("SELECT " KVRT_SEGMENT_COLUMNS " FROM segments ORDER BY id");
  return all_segments(q);
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
        "SELECT s.id, s.name, s.bytes, s.live, s.synced, s.sealed"
        " FROM nodes n JOIN chunks c ON c.node = n.id JOIN segments s ON s.id = c.segment"
        " WHERE n.key = ? AND c.offset + c.bytes > s.synced");
    q.bind_blob(node.key.bytes);
    for (;;) {
      KVRT_ASSIGN(const SegmentRow row, next_segment(q));
      if (row.row == 0) break;
      if (seen.insert(row.row).second) rows.push_back(row);
    }
  }
  return rows;
}

Status SegmentTable::mark_synced(std::span<const SegmentRow> rows) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  for (const SegmentRow& row : rows) {  // by name: another process may have given the row to another segment
    Query q = db_->query("UPDATE segments SET synced = max(synced, ?) WHERE name = ?");
    KVRT_TRY(q.bind_u64(row.bytes).bind_blob(row.id.bytes).run());
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
