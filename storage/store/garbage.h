// Files that a store has no use for: segments in the trash, what no row names, what a killed writer left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/segment/segment.h"

namespace kvrt {

struct RemovedFiles {
  uint64_t count = 0, bytes = 0;
};

// The directories that hold segments, below the root: tmp, and those of segs/ that are there.
Result<std::vector<std::string>> segment_directories(Env* env, const std::string& root);
// Removes what no row names in one of them: what is in tmp, segments without a row; but not what a running save is writing.
Status remove_orphans(Env* env, Log* log, const std::string& root, const std::string& directory, Catalog* catalog, RemovedFiles* removed);
// That of all of them, or of tmp alone, at open; a failure costs disk space, not the open. A row whose file is missing stays: the first
// read forgets it, and verify names it.
void collect_garbage(Env* env, Log* log, const std::string& root, Catalog* catalog, bool segments);

// Unlinks segments in the trash and clears it of them: those that are settled, until the monotonic clock says `until_ns`, at least one. The
// count. flush_trash settles the others first, and does all.
size_t empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, uint64_t until_ns,
                   RemovedFiles* removed);
void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files);

}  // namespace kvrt
