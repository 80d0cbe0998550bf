#include "storage/catalog/chunk_table.h"

#include <algorithm>

#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

// The rows of a query for key, grp, offset, bytes and raw_bytes.
Result<std::vector<ChunkPlace>> read_places(Query& q) {
  std::vector<ChunkPlace> places;
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return places;
    ChunkPlace place;
    if (!copy_exact(q.blob(0), place.chunk.node.bytes)) return broken_row("node key");
    place.chunk.group = static_cast<uint32_t>(q.integer(1));
    place.offset = q.u64(2);
    place.bytes = q.u64(3);
    place.raw_bytes = q.u64(4);
    places.push_back(place);
  }
}

}  // namespace

Result<std::optional<ChunkLocation>> ChunkTable::find(const ChunkKey& chunk) {
  KVRT_TRY(db_->check_content());
  Query q = db_->query(
      "SELECT s.name, c.offset, c.bytes FROM nodes n JOIN chunks c ON c.node = n.id JOIN segments s ON s.id = c.segment"
      " WHERE n.key = ? AND c.grp = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(chunk.node.bytes).bind(chunk.group).next());
  if (!row) return std::optional<ChunkLocation>();
  ChunkLocation at;
  if (!copy_exact(q.blob(0), at.segment.bytes)) return broken_row("segment name");
  at.offset = q.u64(1);
  at.bytes = q.u64(2);
  return std::optional<ChunkLocation>(at);
}

Result<std::vector<ChunkPlace>> ChunkTable::of_node(const BlockKey& node) {
  KVRT_TRY(db_->check_content());
  Query q = db_->query(
      "SELECT n.key, c.grp, c.offset, c.bytes, c.raw_bytes FROM nodes n JOIN chunks c ON c.node = n.id WHERE n.key = ? ORDER BY c.grp");
  return read_places(q.bind_blob(node.bytes));
}

Result<std::vector<ChunkPlace>> ChunkTable::in_segment(const SegmentRow& segment) {
  Query q = db_->query(
      "SELECT n.key, c.grp, c.offset, c.bytes, c.raw_bytes FROM chunks c JOIN nodes n ON n.id = c.node JOIN segments s ON s.id = c.segment"
      " WHERE c.segment = ? AND s.name = ? ORDER BY c.offset");
  return read_places(q.bind(segment.row).bind_blob(segment.id.bytes));
}

Status ChunkTable::require(const ChunkKeys& chunks) {
  for (const ChunkKey& chunk : chunks) {
    Query q = db_->query("SELECT 1 FROM nodes n JOIN chunks c ON c.node = n.id WHERE n.key = ? AND c.grp = ?");
    KVRT_ASSIGN(bool there, q.bind_blob(chunk.node.bytes).bind(chunk.group).next());
    if (there) continue;
    return error(Code::kBusy, Detail::kConcurrent, "%s, which this save counts on, was removed meanwhile", chunk.shown().c_str());
  }
  return {};
}

Result<uint64_t> ChunkTable::add(CatalogTransaction* txn, const NewSegment& segment, int64_t first_new) {
  KVRT_ASSIGN(int64_t row, segments_->add(txn, segment));
  uint64_t live = 0;
  for (const ChunkPlace& c : segment.chunks) {
    Query q = db_->query(
        "INSERT INTO chunks(node, grp, segment, offset, bytes, raw_bytes) SELECT id, ?, ?, ?, ?, ? FROM nodes WHERE key = ?"
        " ON CONFLICT(node, grp) DO NOTHING RETURNING node");
    q.bind(c.chunk.group).bind(row).bind_u64(c.offset).bind_u64(c.bytes).bind_u64(c.raw_bytes).bind_blob(c.chunk.node.bytes);
    KVRT_ASSIGN(bool added, q.next());
    if (!added) continue;
    txn->totals.shares = txn->totals.shares || q.integer(0) < first_new;  // fills another session's hole too
    txn->totals.chunks++;
    txn->totals.chunk_bytes += static_cast<int64_t>(c.bytes);
    txn->totals.chunk_raw_bytes += static_cast<int64_t>(c.raw_bytes);
    live += c.bytes;
    KVRT_TRY(q.run());
  }
  KVRT_TRY(segment.open ? segments_->grow(txn, segment, live) : segments_->set_live(txn, row, live));
  return live;
}

Result<uint64_t> ChunkTable::move(const SegmentRow& from, const NewSegment& to) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  {
    Query q = db_->query("SELECT 1 FROM segments WHERE id = ? AND name = ?");
    KVRT_ASSIGN(bool there, q.bind(from.row).bind_blob(from.id.bytes).next());
    if (!there) return uint64_t{0};
  }
  KVRT_ASSIGN(int64_t row, segments_->add(&txn, to));
  uint64_t live = 0, count = 0;
  for (const ChunkPlace& c : to.chunks) {
    KVRT_TRY(
        db_->query(
               "UPDATE chunks SET segment = ?, offset = ? WHERE node = (SELECT id FROM nodes WHERE key = ?) AND grp = ? AND segment = ?")
            .bind(row)
            .bind_u64(c.offset)
            .bind_blob(c.chunk.node.bytes)
            .bind(c.chunk.group)
            .bind(from.row)
            .run());
    if (db_->changes() == 0) continue;
    live += c.bytes;
    count++;
  }
  KVRT_TRY(segments_->set_live(&txn, row, live));
  if (count > 0) KVRT_TRY(segments_->shrink(&txn, from.row, live));
  KVRT_TRY(txn.commit());
  return count;
}

Result<ChunkTable::Dropped> ChunkTable::drop(CatalogTransaction* txn, int64_t node) {
  Query q = db_->query("DELETE FROM chunks WHERE node = ? RETURNING segment, bytes, raw_bytes");
  return count_off(txn, &q.bind(node));
}

Status ChunkTable::forget(CatalogTransaction* txn, const ChunkKey& chunk) {
  Query q =
      db_->query("DELETE FROM chunks WHERE node = (SELECT id FROM nodes WHERE key = ?) AND grp = ? RETURNING segment, bytes, raw_bytes");
  KVRT_ASSIGN(const Dropped dropped, count_off(txn, &q.bind_blob(chunk.node.bytes).bind(chunk.group)));
  txn->totals.shares = txn->totals.shares || dropped.chunks > 0;
  return {};
}

Result<uint64_t> ChunkTable::forget(const ChunkKey& chunk, const SegmentId& segment) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  Dropped dropped;
  {
    Query q = db_->query(
        "DELETE FROM chunks WHERE node = (SELECT id FROM nodes WHERE key = ?) AND grp = ? AND segment = (SELECT id FROM segments WHERE"
        " name = ?) RETURNING segment, bytes, raw_bytes");
    q.bind_blob(chunk.node.bytes).bind(chunk.group).bind_blob(segment.bytes);
    KVRT_ASSIGN(dropped, count_off(&txn, &q));
  }
  if (dropped.chunks == 0) return uint64_t{0};
  txn.totals.shares = true;
  KVRT_TRY(txn.commit());
  return dropped.chunks;
}

Result<uint64_t> ChunkTable::forget_segment(const SegmentId& segment) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  int64_t id;
  {
    Query q = db_->query("SELECT id FROM segments WHERE name = ?");
    KVRT_ASSIGN(bool there, q.bind_blob(segment.bytes).next());
    if (!there) return uint64_t{0};
    id = q.integer(0);
  }
  {
    Query q = db_->query("SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(raw_bytes), 0) FROM chunks WHERE segment = ?");
    KVRT_ASSIGN(bool row, q.bind(id).next());
    if (!row) return broken_row("chunks");
    txn.totals.chunks -= q.integer(0);
    txn.totals.chunk_bytes -= q.integer(1);
    txn.totals.chunk_raw_bytes -= q.integer(2);
  }
  const auto count = static_cast<uint64_t>(-txn.totals.chunks);
  txn.totals.shares = true;
  KVRT_TRY(db_->query("DELETE FROM chunks WHERE segment = ?").bind(id).run());
  KVRT_TRY(segments_->set_live(&txn, id, 0));
  KVRT_TRY(txn.commit());
  return count;
}

Result<uint64_t> ChunkTable::forget_behind(const SegmentId& segment, uint64_t bytes) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(const SegmentRow row, segments_->find(segment));
  if (row.row == 0) return uint64_t{0};
  const uint64_t end = std::max<uint64_t>(bytes, kSegmentHeaderBytes);
  if (!row.sealed && end < row.bytes) KVRT_TRY(segments_->end_at(&txn, row, end));
  Dropped dropped;
  {
    Query q = db_->query("DELETE FROM chunks WHERE segment = ? AND offset + bytes > ? RETURNING segment, bytes, raw_bytes");
    KVRT_ASSIGN(dropped, count_off(&txn, &q.bind(row.row).bind_u64(end)));
  }
  txn.totals.shares = true;
  KVRT_TRY(txn.commit());
  return dropped.chunks;
}

// Counts off the chunks whose rows were deleted: a query for segment, bytes and raw_bytes. SQLite deletes all of them before it gives the
// first, so that no row names a segment that goes here.
Result<ChunkTable::Dropped> ChunkTable::count_off(CatalogTransaction* txn, Query* deleted) {
  Dropped dropped;
  for (;;) {
    KVRT_ASSIGN(bool row, deleted->next());
    if (!row) return dropped;
    txn->totals.chunks--;
    txn->totals.chunk_bytes -= deleted->integer(1);
    txn->totals.chunk_raw_bytes -= deleted->integer(2);
    dropped.chunks++;
    dropped.bytes += deleted->u64(1);
    KVRT_TRY(segments_->shrink(txn, deleted->integer(0), deleted->u64(1)));
  }
}

}  // namespace kvrt
