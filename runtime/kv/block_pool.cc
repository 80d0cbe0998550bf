#include "runtime/kv/block_pool.h"

#include "runtime/base/check.h"

namespace kvrt {

BlockPool::BlockPool(uint32_t blocks) : refs_(blocks, 0), place_(blocks), cached_(blocks, false) {
  free_.reserve(blocks);
  for (uint32_t i = blocks; i-- > 0;) free_.push_back(static_cast<BlockId>(i));  // low ids first: the pool's pages are touched in order
}

BlockId BlockPool::alloc() {
  if (free_.empty()) return kNoBlock;
  BlockId block = free_.back();
  free_.pop_back();
  KVRT_CHECK(refs(block) == 0 && !cached_[static_cast<size_t>(block)]);
  refs_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::ref(BlockId block) {
  auto i = static_cast<size_t>(block);
  if (cached_[i]) {
    lru_.erase(place_[i]);
    cached_[i] = false;
  } else {
    KVRT_CHECK(refs_[i] > 0);
  }
  ++refs_[i];
}

void BlockPool::unref(BlockId block, bool keep) {
  auto i = static_cast<size_t>(block);
  KVRT_CHECK(refs_[i] > 0);
  if (--refs_[i] > 0) return;
  if (keep) {
    place_[i] = lru_.insert(lru_.end(), block);
    cached_[i] = true;
  } else {
    free_.push_back(block);
  }
}

void BlockPool::evict(BlockId block) {
  auto i = static_cast<size_t>(block);
  KVRT_CHECK(cached_[i]);
  lru_.erase(place_[i]);
  cached_[i] = false;
  free_.push_back(block);
}

}  // namespace kvrt
