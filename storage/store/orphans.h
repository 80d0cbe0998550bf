// Orphans: files that no row names. A killed writer left them, or a save that failed.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/store/removed_files.h"

namespace kvrt {

// The directories that hold segments, below the root: tmp, and those of segs/ that are there.
Result<std::vector<std::string>> segment_directories(Env* env, const std::string& root);
// Removes the orphans of one directory: what is in tmp, segments without a row; but not what a running save is writing.
Status remove_orphans(Env* env, Log* log, const std::string& root, const std::string& directory, Catalog* catalog, RemovedFiles* removed);
// Removes the orphans of all directories, or of tmp alone, at open; a failure costs disk space, not the open. A row whose file is missing
// stays: the first read forgets it, and verify names it.
void remove_all_orphans(Env* env, Log* log, const std::string& root, Catalog* catalog, bool segments);

}  // namespace kvrt
