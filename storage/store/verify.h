// Reading back every byte of a store: segments against themselves and against the catalog.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "storage/catalog/catalog.h"
#include "storage/segment/codec.h"
#include "storage/store/store.h"

namespace kvrt {

// Why something could not be read says nothing of it: the process or the system has no more memory or descriptors.
bool is_want(const Status& status);

// `bytes` of the file at `offset`, until the buffer's next use; CORRUPT before anything is allocated if the file does not hold them.
Result<std::span<const uint8_t>> read_frame(const File& file, uint64_t offset, uint64_t bytes, ReadBuffer* buffer);

// Appends a fault per bad segment, frame, or row that does not fit its frame. CANCELLED when progress says so.
Status verify_segments(Env* env, const std::string& root, Codec* codec, std::span<const Catalog::SegmentRow> segments,
                       std::span<const Catalog::ChunkRow> chunks, const std::function<bool(const Catalog::ChunkRow&)>& still_there,
                       const std::function<bool(uint64_t done, uint64_t total)>& progress, std::vector<VerifyFault>* faults);

}  // namespace kvrt
