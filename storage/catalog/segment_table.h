// The tables segments and trash. A function that takes a transaction is a part of it; seal, mark_synced and clear_trash have one of their
// own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/transaction.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

// The place of a chunk: one frame of one segment. `raw_bytes`: of its payload.
struct ChunkPlace {
  ChunkKey chunk;
  uint64_t offset = 0, bytes = 0, raw_bytes = 0;
  bool operator==(const ChunkPlace&) const = default;
};

// A segment without a row yet, or one that more chunks were appended to, and their places.
struct NewSegment {
  SegmentId id;
  uint64_t bytes = 0, synced = 0;
  std::span<const ChunkPlace> chunks;
  bool open = false;   // it is not sealed
  bool begun = false;  // open, with a row
};

struct SegmentRow {
  int64_t row = 0;
  SegmentId id;
  uint64_t bytes = 0, live = 0, synced = 0;
  bool sealed = true;
};

class SegmentTable {
 public:
  explicit SegmentTable(CatalogDb* catalog) : catalog_(catalog), db_(catalog->sql()) {}

  // Adds a row with no live bytes yet; the caller sets them with set_live. BUSY (kConcurrent) if the row of one that was begun is gone.
  Result<int64_t> add(CatalogTransaction* txn, const NewSegment& segment);
  Status set_live(CatalogTransaction* txn, int64_t segment, uint64_t live);
  Status grow(CatalogTransaction* txn, const NewSegment& segment, uint64_t live);
  Status shrink(CatalogTransaction* txn, int64_t segment, uint64_t bytes);
  Status end_at(CatalogTransaction* txn, const SegmentRow& segment, uint64_t bytes);
  // Makes an open segment one of `bytes` bytes that nobody appends to. Without live bytes it goes to the trash.
  Status seal(const SegmentId& id, uint64_t bytes);

  Result<SegmentRow> find(const SegmentId& id);  // row 0: there is none
  Result<std::vector<SegmentRow>> open();        // those that are not sealed

  // The first sealed segment after row `after` of which less than half is live. Row 0: there is none.
  Result<SegmentRow> sparse(int64_t after);
  // The first sealed segment after row `after` with frames that no row names. Row 0: there is none.
  Result<SegmentRow> with_dead(int64_t after);
  Result<std::vector<SegmentRow>> all();
  Result<uint64_t> total_bytes();
  Result<bool> is_named(const SegmentId& id);                               // by a row or in the trash
  Result<std::vector<SegmentRow>> unsynced(std::span<const NodeIn> nodes);  // with a chunk of theirs that is not
  Status mark_synced(std::span<const SegmentRow> rows);

  // Up to 256 of the segments whose rows are gone and whose files may still be there.
  Result<std::vector<SegmentId>> trash() { return read_trash(db_); }
  const std::vector<SegmentId>& settled_trash() const { return catalog_->settled_trash(); }
  Status clear_trash(std::span<const SegmentId> gone);

 private:
  Status discard(CatalogTransaction* txn, const SegmentRow& segment);

  CatalogDb* const catalog_;
  Db* const db_;
};

}  // namespace kvrt
