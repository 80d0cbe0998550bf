// BlockPool: which blocks are free. Reference counts, a free list and the LRU of cached blocks (indexed, referenced by nobody). Never
// touches bytes. It takes all its memory when it is made, so that a block can be given back where memory has run out.
#pragma once

#include <cstddef>
#include <cstdint>
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
  BlockId oldest_cached() const { return cached_after(sentinel()); }
  void evict(BlockId block);

  uint32_t refs(BlockId block) const { return refs_[static_cast<size_t>(block)]; }
  uint32_t size() const { return static_cast<uint32_t>(refs_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t cached_count() const { return cached_count_; }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  std::vector<uint32_t> refs_;
  BlockId sentinel() const { return static_cast<BlockId>(refs_.size()); }
  BlockId cached_after(BlockId block) const {  // in the LRU; kNoBlock: it is the last
    BlockId next = next_[static_cast<size_t>(block)];
    return next == sentinel() ? kNoBlock : next;
  }
  void link(BlockId block);
  void unlink(BlockId block);

  std::vector<BlockId> free_;         // used as a stack
  std::vector<BlockId> next_, prev_;  // the LRU, a ring from the sentinel on, oldest first
  std::vector<bool> cached_;
  uint32_t cached_count_ = 0;
};

}  // namespace kvrt
