// BlockPool: who is free. Reference counts, a free list and the LRU of cached blocks (indexed, referenced by nobody). Never touches bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace kvrt {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

// Not thread-safe: guarded by its owner's lock.
class BlockPool {
 public:
  explicit BlockPool(uint32_t blocks);

  // A block with one reference: a free one, else kNoBlock. Cached blocks are given up through evict().
  BlockId alloc();
  void ref(BlockId block);  // also takes a cached block back
  // Drops a reference. The last one makes the block cached if `keep` (it is in the prefix index), else free.
  void unref(BlockId block, bool keep);
  // The least recently used cached block becomes free; its owner has to drop it from the index first.
  BlockId oldest_cached() const { return lru_.empty() ? kNoBlock : lru_.front(); }
  void evict(BlockId block);

  uint32_t refs(BlockId block) const { return refs_[static_cast<size_t>(block)]; }
  uint32_t size() const { return static_cast<uint32_t>(refs_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t cached_count() const { return static_cast<uint32_t>(lru_.size()); }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  std::vector<uint32_t> refs_;
  std::vector<BlockId> free_;                        // used as a stack
  std::list<BlockId> lru_;                           // cached, oldest first
  std::vector<std::list<BlockId>::iterator> place_;  // in lru_, valid while cached
  std::vector<bool> cached_;
};

}  // namespace kvrt
