// The log (WAL) of an SQLite database, frame by frame, and further than SQLite reads it: for SQLite the log ends at the first frame that is not
// what its checksum says. A checksum goes on from the one before, so that a frame behind a damaged one can still be proved; and one bit that
// flipped is known by what it did to the sum, though for the high bits of words more than one may have done it. Format: sqlite.org/fileformat2.html, "The Write-Ahead Log".
#pragma once

#include <cstdint>
#include <string>
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
  std::vector<LoggedPage> pages;  // of committed transactions, in their order
  uint32_t database_pages = 0;    // after the last commit
  // From this frame on, counted from 1, SQLite reads none, and it is not the torn end that a power cut leaves: one bit of it has flipped, and
  // which cannot be told (`one_bit`), or later transactions are there. `pages` has what is right behind the damage, too. 0: none.
  uint64_t damaged_frame = 0;
  bool one_bit = false;
  uint64_t commits_lost = 0;
};

// Of a log with pages of 4096 bytes, as the catalog's; another has no frames. `all`: a single commit behind damage counts, too; it may be
// the torn last one's own, of which nobody was told. An error only where the disk or the memory fails.
Result<LogScan> scan_log(const File& log, bool all);

}  // namespace kvrt
