// A transaction that changes the catalog. Statements that are a part of one take it, and count in it what they add to the totals.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/sqlite_db.h"
#include "storage/segment/segment.h"

namespace kvrt {

class CatalogTransaction {
 public:
  explicit CatalogTransaction(CatalogDb* catalog) : catalog_(catalog), txn_(catalog->sql()) {}
  Status begin();
  Status commit();  // writes the totals, too

  // What it adds to the row of totals.
  struct Totals {
    int64_t chunks = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segments = 0, segment_bytes = 0;
    bool shares = false;  // a node is shared that was not, or the other way round, or the chunk of one changed: statistics are out of date
    bool used = false;    // the clock ticks
    int64_t seen_ms = 0;  // the wall clock; 0: as it was
  };
  Totals totals;

 private:
  CatalogDb* catalog_;
  Transaction txn_;  // rolled back by its destructor, if it was not committed
};

// Segments without a row whose files may still be there: some of them.
Result<std::vector<SegmentId>> read_trash(Db* db);

}  // namespace kvrt
