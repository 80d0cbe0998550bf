// Reads the log (WAL) of an SQLite database frame by frame, and further than SQLite does: for SQLite the log ends at the first frame whose
// checksum is wrong. A checksum continues the one before, so that a frame behind a damaged one can still be proved; and one bit that
// flipped shows in the difference of the sums. For the high bits of words several bits give that difference: then it is the one that makes
// its byte as it was in the page before, as most bytes of a page are. Format: sqlite.org/fileformat2.html, "The Write-Ahead Log".
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/status.h"

namespace kvrt {

struct LogBit {
  uint64_t offset = 0;  // in the file
  uint8_t byte = 0;     // the right value of that byte
};

struct LoggedPage {
  uint32_t page = 0;
  uint64_t offset = 0;  // its bytes in the file
};

struct LogScan {
  std::vector<LogBit> flipped;    // the scan reads the log as if these were put right
  bool unclear = false;           // one bit has flipped, but several could be the one
  std::vector<LoggedPage> pages;  // those of committed transactions, in their order
  uint32_t database_pages = 0;    // after the last commit
  // SQLite reads no frame from this one on, counted from 1, though later transactions are there: a power cut hardly leaves a torn end like
  // that. `pages` has the right pages behind the damage, too. 0: none.
  uint64_t damaged_frame = 0;
  uint64_t commits_lost = 0;
};

// Scans a log with pages of 4096 bytes, as the catalog's; another has no frames. `all`: a single commit behind damage counts,
// too, though it may be the torn last one's own, which nobody was told of. `database` may be null. An error only if disk or memory fails.
Result<LogScan> scan_log(const File& log, const File* database, bool all);

}  // namespace kvrt
