// Orphans: files that no row names. A killed writer or a failed save left them.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/store/removed_files.h"

namespace kvrt {

// The directories that may have orphans, relative to the root: tmp, and those in segs/.
Result<std::vector<std::string>> segment_directories(Env* env, const std::string& root);
// Removes the orphans of one directory: any file in tmp, or segments without a row. A file that a running save is writing stays.
Status remove_orphans(Env* env, Log* log, const std::string& root, const std::string& directory, Catalog* catalog, RemovedFiles* removed);
// Removes, at open, the orphans of all directories, or of tmp alone. A failure costs disk space, not the open. A row whose file is missing
// stays: the first read forgets it, and verify names it.
void remove_all_orphans(Env* env, Log* log, const std::string& root, Catalog* catalog, bool segments);

}  // namespace kvrt
