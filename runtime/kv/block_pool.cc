#include "runtime/kv/block_pool.h"

#include "runtime/base/check.h"

namespace kvrt {

BlockPool::BlockPool(uint32_t blocks) : refs_(blocks, 0), next_(blocks + 1), prev_(blocks + 1), cached_(blocks, false) {
  next_[blocks] = prev_[blocks] = sentinel();
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
    unlink(block);
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
    link(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::link(BlockId block) {
  auto i = static_cast<size_t>(block), end = static_cast<size_t>(sentinel());
  prev_[i] = prev_[end];
  next_[i] = sentinel();
  next_[static_cast<size_t>(prev_[i])] = prev_[end] = block;
  cached_[i] = true;
  ++cached_count_;
}

void BlockPool::unlink(BlockId block) {
  auto i = static_cast<size_t>(block);
  next_[static_cast<size_t>(prev_[i])] = next_[i];
  prev_[static_cast<size_t>(next_[i])] = prev_[i];
  cached_[i] = false;
  --cached_count_;
}

void BlockPool::evict(BlockId block) {
  KVRT_CHECK(cached_[static_cast<size_t>(block)]);
  unlink(block);
  free_.push_back(block);
}

}  // namespace kvrt
