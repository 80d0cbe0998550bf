// The trash: segments whose rows are gone and whose files are to go. A file goes only after a commit that is on the disk: a power cut must
// not bring back a row whose file is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/segment/segment.h"
#include "storage/store/removed_files.h"

namespace kvrt {

// Unlinks the settled segments of the trash, at least one, until the monotonic clock is at `until_ns`, and takes their names from the
// trash. The count.
size_t empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, uint64_t until_ns,
                   RemovedFiles* removed);
// Settles the trash, and empties it.
void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files);

}  // namespace kvrt
