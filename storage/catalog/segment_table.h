// The tables segments and trash. A function that takes a transaction is a part of it; the others that change rows are each one of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/transaction.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

// Where a chunk lies: one frame of one segment.
struct ChunkPlace {
  BlockKey key;
  uint64_t offset = 0, bytes = 0, raw_bytes = 0;
};

// The segment that a save wrote; its chunks go to the nodes that have none.
struct NewSegment {
  SegmentId id;
  uint64_t bytes = 0;
  bool synced = false;
  std::span<const ChunkPlace> chunks;
};

struct SegmentRow {
  int64_t row = 0;
  SegmentId id;
  uint64_t bytes = 0, live = 0;
};

class SegmentTable {
 public:
  explicit SegmentTable(CatalogDb* catalog) : catalog_(catalog), db_(catalog->sql()) {}

  // A row without live bytes; the caller counts them.
  Result<int64_t> add(CatalogTransaction* txn, const NewSegment& segment);
  Status set_live(CatalogTransaction* txn, int64_t segment, uint64_t live);
  Status shrink(CatalogTransaction* txn, int64_t segment, uint64_t bytes);

  // The first segment after row `after` of which less than half is live, none, or a row of 0.
  Result<SegmentRow> sparse(int64_t after);
  // The first after row `after` with frames that no row names, or a row of 0.
  Result<SegmentRow> with_dead(int64_t after);
  Result<std::vector<SegmentRow>> all();
  Result<uint64_t> total_bytes();
  Result<bool> is_named(const SegmentId& id);  // in a row or in the trash
  Result<std::vector<SegmentRow>> unsynced(std::span<const NodeIn> nodes);
  Status mark_synced(std::span<const SegmentRow> rows);

  // Segments without a row whose files may still be there: some of them.
  Result<std::vector<SegmentId>> trash() { return read_trash(db_); }
  const std::vector<SegmentId>& settled_trash() const { return catalog_->settled_trash(); }
  Status clear_trash(std::span<const SegmentId> gone);

 private:
  CatalogDb* const catalog_;
  Db* const db_;
};

}  // namespace kvrt
