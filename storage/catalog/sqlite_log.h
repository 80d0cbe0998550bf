// The log (WAL) of an SQLite database, frame by frame, and further than SQLite reads it: for SQLite the log ends at the first frame that is not
// what its checksum says. A checksum goes on from the one before, so that a frame behind a damaged one can still be proved; and one bit that
// flipped is known by what it did to the sum. For the high bits of words several could have done it: then it is the one that makes its byte what
// it was in the page before, as most bytes of a page are. Format: sqlite.org/fileformat2.html, "The Write-Ahead Log".
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/status.h"

namespace kvrt {

struct LogBit {
  uint64_t offset = 0;  // in the file
  uint8_t byte = 0;     // what is right there
};

struct LoggedPage {
  uint32_t page = 0;
  uint64_t offset = 0;  // of its bytes in the file
};

struct LogScan {
  std::vector<LogBit> flipped;    // the log is read as if they were put right
  bool unclear = false;           // a bit has flipped, and which cannot be told
  std::vector<LoggedPage> pages;  // of committed transactions, in their order
  uint32_t database_pages = 0;    // after the last commit
  // From this frame on, counted from 1, SQLite reads none, though later transactions are there: it is hardly the torn end that a power cut
  // leaves. `pages` has what is right behind the damage, too. 0: none.
  uint64_t damaged_frame = 0;
  uint64_t commits_lost = 0;
};

// Of a log with pages of 4096 bytes, as the catalog's; another has no frames. `all`: a single commit behind damage counts, too; it may be
// the torn last one's own, of which nobody was told. `database` may be null. An error only where the disk or the memory fails.
Result<LogScan> scan_log(const File& log, const File* database, bool all);

}  // namespace kvrt
