// Finds every readable frame in a store's segments, whether a row names it or not.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "storage/catalog/segment_table.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

// A frame that was checked whole: its checksum, its lengths, and its key against its parent, tokens and items.
struct FoundFrame {
  ChunkPlace place;
  size_t segment = 0;  // number in FoundSegments::segments
  BlockKey parent;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;
};

struct FoundSegment {
  SegmentId id;
  uint64_t bytes = 0;
  bool open = false;  // it is not sealed
  bool sound = true;  // its footer and every frame are; of an open one those that were found
};

// An entry of an index whose frame is damaged.
struct BadFrame {
  ChunkKey chunk;  // the group as the frame says
  size_t segment = 0;
  uint64_t offset = 0;
};

struct FoundSegments {
  std::vector<FoundSegment> segments;
  std::vector<FoundFrame> frames;
  std::vector<BadFrame> bad;
  std::vector<SegmentId> foreign;   // of another store: neither scanned nor in `segments`
  std::vector<std::string> faults;  // "segs/ab/ab12….seg at 4096: checksum differs"
};

// Scans the wanted files, and finds those of another store among all. Of one that is `open` no footer is expected. UNSAFE if a
// wanted one is not ours alone. Another error only where the disk or the memory fails, or a newer kvrt's data is in the way; CANCELLED if
// progress returns false.
Result<FoundSegments> scan_segments(Env* env, const std::string& root, const StoreId& store,
                                    const std::function<bool(const SegmentId&)>& wanted, const std::function<bool(const SegmentId&)>& open,
                                    const std::function<bool(uint64_t done, uint64_t total)>& progress);
// The store that most segments name, by its tag; 0: none names any.
Result<uint64_t> commonest_store(Env* env, const std::string& root);

}  // namespace kvrt
