// The trash: segments whose rows are gone and whose files are to go. A file goes only after a commit that is on the disk; a power cut must
// not bring a row back whose file is gone.
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

// Unlinks segments in the trash and clears it of them: those that are settled, until the monotonic clock says `until_ns`, at least one. The
// count.
size_t empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, uint64_t until_ns,
                   RemovedFiles* removed);
// Settles what is in the trash, and empties it.
void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files);

}  // namespace kvrt
