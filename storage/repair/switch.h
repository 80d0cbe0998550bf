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

// Frames of one segment into a new one, as they are.
Result<CopiedSegment> copy_segment(Env* env, const std::string& root, const SegmentId& from, std::span<const FoundFrame* const> frames);

// A catalog of the plan under tmp/, ready for the switch. A frame's segment is named by its number in `found`.
Status write_catalog(Env* env, const std::string& root, const StoreId& id, const Recovery& plan, const FoundSegments& found);

// The catalog that is ready takes its place; what was there goes to damaged-<n>, and segments that nobody can use. Gives that folder's name.
Result<std::string> switch_catalogs(Env* env, const std::string& root, std::span<const SegmentId> aside);
// A switch that was interrupted: the old catalog has gone aside, the new one is ready. False: there was none, and tmp/ is empty.
Result<bool> finish_switch(Env* env, const std::string& root, std::string* aside);

}  // namespace kvrt
