// BlockPool: which units of the pool's memory are free, and which block has the others. A block is one or more units; its id is that of the
// first. Reference counts, a free list and the LRUs of cached blocks (indexed, referenced by nobody). Never touches bytes. It takes all its
// memory when it is made, so that a block can be given back where memory has run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvrt {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

// What becomes of a block that nobody references any more. A cached block is given up in the order of its LRU; one that goes along has
// none, and its owner gives it up with another.
enum class Keep : uint8_t { kNot, kCached, kCachedWindow, kAlong };

// Not thread-safe: guarded by its owner's lock.
class BlockPool {
 public:
  explicit BlockPool(uint32_t units);

  // A block of so many free units, with one reference; kNoBlock: there are fewer.
  BlockId alloc(uint32_t units = 1);
  // The next unit of the same block; kNoBlock: there is none.
  BlockId next_unit(BlockId unit) const { return next_unit_[static_cast<size_t>(unit)]; }
  uint32_t units(BlockId block) const;
  void ref(BlockId block);  // also takes a cached block back
  void unref(BlockId block, Keep keep);
  // The block that was cached in this way first; kNoBlock: there is none. Its owner drops it from the index, then evicts it.
  BlockId oldest(Keep lru) const { return after(sentinel(lru)); }
  BlockId newer(BlockId block) const { return after(block); }  // the next of its LRU; kNoBlock: it is the last
  // Of both LRUs.
  BlockId oldest_cached() const;
  void evict(BlockId block);  // its units become free ones

  uint32_t refs(BlockId block) const { return refs_[static_cast<size_t>(block)]; }
  bool cached(BlockId block) const { return kept_[static_cast<size_t>(block)] != Keep::kNot; }
  uint32_t size() const { return static_cast<uint32_t>(refs_.size()); }  // this and the next ones: units
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t cached_count() const { return cached_count_; }
  uint32_t window_count() const { return window_count_; }  // of cached ones, those of windows: not kCached

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  BlockId sentinel(Keep lru) const { return static_cast<BlockId>(size() + (lru == Keep::kCachedWindow)); }
  BlockId after(BlockId block) const {  // in its LRU; kNoBlock: it is the last
    const BlockId next = next_[static_cast<size_t>(block)];
    return next >= static_cast<BlockId>(size()) ? kNoBlock : next;
  }
  void link(BlockId block, Keep lru);
  void unlink(BlockId block);
  void give_back(BlockId block);

  std::vector<uint32_t> refs_;        // this and the next ones: by a block's first unit
  std::vector<BlockId> next_, prev_;  // the LRUs, rings from their sentinels on, oldest first
  std::vector<uint64_t> since_;       // of a block in an LRU: the count of blocks that were cached before it
  std::vector<Keep> kept_;            // of a cached block; else kNot
  std::vector<BlockId> next_unit_;    // by unit
  std::vector<BlockId> free_;         // units; used as a stack
  uint64_t clock_ = 0;
  uint32_t cached_count_ = 0, window_count_ = 0;
};

}  // namespace kvrt
