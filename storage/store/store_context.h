// StoreContext: what all parts of an open store use.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/segment/codec.h"
#include "storage/segment/open_segments.h"
#include "storage/segment/segment.h"
#include "storage/store/directory.h"

namespace kvrt {

inline constexpr size_t kOpenSegmentsMax = 64;
inline constexpr uint64_t kSliceNs = 5'000'000;  // of gc's work; waits for the disk come on top

// Files are read, and frames are encoded, outside of the store's mutexes.
struct StoreContext {
  StoreContext(Env* e, Log* l, StoreDirectory directory, uint8_t last_item_tag)
      : env(e), log(l), item_tag_max(last_item_tag), dir(std::move(directory)) {}

  Env* const env;
  Log* const log;
  const uint8_t item_tag_max;  // as StoreOptions'
  StoreDirectory dir;          // changed by Writer::open, and by a writer that takes up writing, which holds its mutex and the reader's
  SegmentCache files{env, dir.root, kOpenSegmentsMax};
  CodecPool codecs;
  OpenSegments open{env, dir.root};
  std::atomic<uint64_t> damaged{0};  // chunks that were found bad
};

}  // namespace kvrt
