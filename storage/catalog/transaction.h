// A transaction that changes the catalog. A function that is a part of one takes it, and adds to its totals.
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

  // The changes to the row of totals.
  struct Totals {
    int64_t chunks = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segments = 0, segment_bytes = 0;
    bool shares = false;  // a node became shared or unshared, or an old node's chunk changed: the counts in sessions' rows are out of date
    bool used = false;    // the clock ticks: a session is used, or the transaction needs something to write
    int64_t seen_ms = 0;  // the wall clock, negative where it jumped; 0: unchanged
  };
  Totals totals;

 private:
  CatalogDb* catalog_;
  Transaction txn_;  // its destructor rolls back, if it was not committed
};

// Up to 256 of the segments whose rows are gone and whose files may still be there.
Result<std::vector<SegmentId>> read_trash(Db* db);

}  // namespace kvrt
