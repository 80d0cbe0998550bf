#include "runtime/kv/block_pool.h"

#include "runtime/base/check.h"

namespace kvrt {

BlockPool::BlockPool(uint32_t units)
    : refs_(units, 0),
      next_(units + size_t{2}),
      prev_(units + size_t{2}),
      since_(units),
      kept_(units, Keep::kNot),
      next_unit_(units, kNoBlock) {
  for (const Keep lru : {Keep::kCached, Keep::kCachedWindow}) {
    const auto end = static_cast<size_t>(sentinel(lru));
    next_[end] = prev_[end] = sentinel(lru);
  }
  free_.reserve(units);
  for (uint32_t i = units; i-- > 0;) free_.push_back(static_cast<BlockId>(i));  // low ids first: the pool's pages are touched in order
}

BlockId BlockPool::alloc(uint32_t units) {
  if (free_.size() < units) return kNoBlock;
  BlockId last = kNoBlock;
  for (uint32_t i = 0; i < units; ++i) {
    const BlockId unit = free_.back();
    free_.pop_back();
    KVRT_CHECK(refs(unit) == 0 && !cached(unit));
    next_unit_[static_cast<size_t>(unit)] = last;
    last = unit;
  }
  refs_[static_cast<size_t>(last)] = 1;
  return last;
}

uint32_t BlockPool::units(BlockId block) const {
  uint32_t n = 0;
  for (; block != kNoBlock; block = next_unit(block)) ++n;
  return n;
}

void BlockPool::ref(BlockId block) {
  const auto i = static_cast<size_t>(block);
  if (cached(block)) {
    unlink(block);
  } else {
    KVRT_CHECK(refs_[i] > 0);
  }
  ++refs_[i];
}

void BlockPool::unref(BlockId block, Keep keep) {
  const auto i = static_cast<size_t>(block);
  KVRT_CHECK(refs_[i] > 0);
  if (--refs_[i] > 0) return;
  if (keep == Keep::kNot) {
    give_back(block);
  } else {
    link(block, keep);
  }
}

BlockId BlockPool::oldest_cached() const {
  const BlockId a = oldest(Keep::kCached), b = oldest(Keep::kCachedWindow);
  if (a == kNoBlock || b == kNoBlock) return a == kNoBlock ? b : a;
  return since_[static_cast<size_t>(a)] < since_[static_cast<size_t>(b)] ? a : b;
}

void BlockPool::link(BlockId block, Keep lru) {
  const auto i = static_cast<size_t>(block), end = static_cast<size_t>(sentinel(lru));
  const uint32_t n = units(block);
  kept_[i] = lru;
  cached_count_ += n;
  if (lru != Keep::kCached) window_count_ += n;
  if (lru == Keep::kAlong) return;
  prev_[i] = prev_[end];
  next_[i] = sentinel(lru);
  next_[static_cast<size_t>(prev_[i])] = prev_[end] = block;
  since_[i] = clock_++;
}

void BlockPool::unlink(BlockId block) {
  const auto i = static_cast<size_t>(block);
  const uint32_t n = units(block);
  cached_count_ -= n;
  if (kept_[i] != Keep::kCached) window_count_ -= n;
  if (kept_[i] != Keep::kAlong) {
    next_[static_cast<size_t>(prev_[i])] = next_[i];
    prev_[static_cast<size_t>(next_[i])] = prev_[i];
  }
  kept_[i] = Keep::kNot;
}

void BlockPool::give_back(BlockId block) {
  while (block != kNoBlock) {
    free_.push_back(block);
    block = next_unit(block);
  }
}

void BlockPool::evict(BlockId block) {
  KVRT_CHECK(cached(block));
  unlink(block);
  give_back(block);
}

}  // namespace kvrt
