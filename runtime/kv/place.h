// Place: what stands at one index of a block table, or at a link of the prefix index: a block of the pool or none, and why KV is lacking.
#pragma once

#include <cstdint>

#include "runtime/base/limits.h"
#include "runtime/kv/block_pool.h"

namespace kvrt {

// Why a place lacks KV: all of it where it has no block, else that of the tokens past those that have theirs. From the weakest reason to the
// strongest.
enum class Hole : uint8_t {
  kNeverComputed,  // as far as its holder knows; also what the holder gave up by itself
  kBehindWindow,   // it was given up behind a window, or is of no use without the window, or the state, before it
  kNotStored,      // the store has the tokens, and no KV of them
  kEvicted,        // another sequence needed the block
  kOtherNumerics,  // the stored KV is of another format, numerics or block size
  kDamaged,        // the chunk was damaged or missing
};

// 3 bits for the reason, 29 for a block's id with its sign. Ids below kNoBlock mean nothing: there is room for what is in another tier.
class Place {
 public:
  constexpr Place() = default;  // a hole, never computed
  constexpr Place(BlockId block, Hole why = Hole::kNeverComputed)
      : bits_(static_cast<uint32_t>(why) << kIdBits | (static_cast<uint32_t>(block) & kIds)) {}
  constexpr Place(Hole why) : Place(kNoBlock, why) {}

  constexpr BlockId block() const { return static_cast<BlockId>(bits_ << kWhyBits) >> kWhyBits; }  // kNoBlock: a hole
  constexpr bool is_hole() const { return block() < 0; }
  constexpr Hole why() const { return static_cast<Hole>(bits_ >> kIdBits); }
  constexpr bool operator==(const Place&) const = default;

 private:
  static constexpr uint32_t kWhyBits = 3, kIdBits = 32 - kWhyBits, kIds = (1u << kIdBits) - 1;
  uint32_t bits_ = kIds;
};
static_assert(sizeof(Place) == 4 && Place(kNoBlock) == Place() && Place(kPoolBlocksMax - 1).block() == kPoolBlocksMax - 1);

}  // namespace kvrt
