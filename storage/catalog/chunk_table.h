// The table chunks has the place of each chunk: of a node there is one chunk at most of each number. A function that takes a CatalogTransaction
// is a part of it. move, and the forget functions that take none, are each a transaction of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/segment_table.h"
#include "storage/catalog/transaction.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

// Where a chunk's frame lies, in all of the store.
struct ChunkLocation {
  SegmentId segment;
  uint64_t offset = 0, bytes = 0;
};

class ChunkTable {
 public:
  ChunkTable(CatalogDb* catalog, SegmentTable* segments) : catalog_(catalog), db_(catalog->sql()), segments_(segments) {}

  Result<std::optional<ChunkLocation>> find(const ChunkKey& chunk);
  Result<std::vector<ChunkPlace>> of_node(const BlockKey& node);          // in any segments, by number
  Result<std::vector<ChunkPlace>> in_segment(const SegmentRow& segment);  // in the file's order
  // It is BUSY (kConcurrent) if one of the chunks is not there any more.
  Status require(const ChunkKeys& chunks);

  // Adds the segment's chunks that are not there yet, and its row, if it has none. The bytes that became live. Nodes from row `first_new` on are new.
  Result<uint64_t> add(CatalogTransaction* txn, const NewSegment& segment, int64_t first_new);
  // Points the chunks that are still in `from` to their places in `to`. It returns their count; 0: `to` has no row.
  Result<uint64_t> move(const SegmentRow& from, const NewSegment& to);

  struct Dropped {
    uint64_t chunks = 0, bytes = 0;
  };
  Result<Dropped> drop(CatalogTransaction* txn, int64_t node);    // all chunks of the node
  Status forget(CatalogTransaction* txn, const ChunkKey& chunk);  // in whatever segment it is, if it is there
  // Forgets the chunk, or every chunk of the segment, and returns their count. Nodes and tokens stay. The segment is found by its name, for
  // another segment may have its row number by now.
  Result<uint64_t> forget(const ChunkKey& chunk, const SegmentId& segment);
  Result<uint64_t> forget_segment(const SegmentId& segment);
  // Forgets the chunks that do not end within the segment's first `bytes`. An open segment then ends there.
  Result<uint64_t> forget_behind(const SegmentId& segment, uint64_t bytes);

 private:
  Result<Dropped> count_off(CatalogTransaction* txn, Query* deleted);

  CatalogDb* const catalog_;
  Db* const db_;
  SegmentTable* const segments_;
};

}  // namespace kvrt
