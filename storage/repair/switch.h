// The steps of a repair that write: segments copied without their bad frames, a new catalog, and its change for the old one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/catalog/catalog.h"
#include "storage/repair/recovery.h"
#include "storage/repair/scan.h"
#include "storage/segment/segment.h"

namespace kvrt {

struct CopiedSegment {
  std::unique_ptr<SegmentWriter> writer;  // sealed, published and on the disk; removed unless it is kept
  std::vector<ChunkPlace> chunks;
};

// Copies frames of one segment, as they are, into a new one.
Result<CopiedSegment> copy_segment(Env* env, const std::string& root, const StoreId& store, const SegmentId& from,
                                   std::span<const FoundFrame* const> frames);

// Makes the plan's catalog under tmp/, ready for the switch. A frame names its segment by the number in `found`.
Status write_catalog(Env* env, const std::string& root, const StoreId& id, const Recovery& plan, const FoundSegments& found);

// Moves segments to damaged-<n>, whose name it gives.
Result<std::string> move_segments_aside(Env* env, const std::string& root, std::span<const SegmentId> segments);

// Moves the old catalog, and the segments `aside` that no session can use, to damaged-<n>; then the ready catalog becomes catalog.db. Gives
// that folder's name.
Result<std::string> switch_catalogs(Env* env, const std::string& root, std::span<const SegmentId> aside);
// Finishes an interrupted switch: the old catalog has gone aside, the new one is ready. False: there was none, and tmp/ is empty now, but
// for directories, whose names are added to `left`.
Result<bool> finish_switch(Env* env, const std::string& root, std::string* aside, std::vector<std::string>* left);

}  // namespace kvrt
