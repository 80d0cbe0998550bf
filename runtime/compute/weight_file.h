// WeightFile: a packed image kept in a directory, mapped by every process that loads the same weights.
//
// A file `<key>.kvrtw`, written under another name and renamed, holds a header (one or more pages of 4,096 bytes) and the image:
//
//   8   magic "KVRTWGT1"
//   32  the key                                WeightImage::key: the source's name, types, shapes, order, and how panels are packed
//   8   bytes of the image
//   8   bytes of a piece
//   16  XXH3-128 of each piece of the image
//   ..  zeros
//   16  XXH3-128 of all of the header before   at its end
//
// Everything is checked at every load, the image's checksums too: they are as fast as memory, and touch the pages that the first step
// would. Two things are trusted: the directory (its owner's alone), and that `source` names the tensors' bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/base/threads.h"
#include "runtime/compute/backend.h"

namespace kvrt {

using ParallelFor = std::function<void(uint32_t chunks, ChunkFn fn)>;

// The image of `bytes` bytes under `key`, used from now on; NOT_FOUND where there is none. CORRUPT: it was damaged, and is removed if the
// directory allows. A file that is mapped may be removed: its pages stay.
Result<std::shared_ptr<const uint8_t>> map_weights(const WeightCache& cache, const Hash256& key, uint64_t bytes,
                                                   const ParallelFor& parallel);

// Either the image or the turn.
struct FoundWeights {
  std::shared_ptr<const uint8_t> mapped;
  std::unique_ptr<FileLock> turn;  // the turn to write them; there is room for them
};
// Maps the image, waits for the process that writes it, or takes the turn. An error says why neither can be; one of `poll` ends the wait.
Result<FoundWeights> find_weights(const WeightCache& cache, const Hash256& key, uint64_t bytes, const ParallelFor& parallel,
                                  const std::function<Status()>& poll);

// Only the holder of the turn calls it. OK also where another process was faster. An error of `poll`, which is called now and then, stops
// it. Nothing is left of a failed write.
Status write_weights(const WeightCache& cache, const Hash256& key, std::span<const uint8_t> image, const ParallelFor& parallel,
                     const std::function<Status()>& poll);

}  // namespace kvrt
