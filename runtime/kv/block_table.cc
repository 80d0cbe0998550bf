#include "runtime/kv/block_table.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace kvrt {

void BlockTable::grow(uint32_t blocks) {
  if (blocks <= size()) return;
  filled_.resize(blocks, 0);
  blocks_.resize(blocks, kNoBlock);  // the last: size() is its size
}

void BlockTable::set(uint32_t i, BlockId block, uint32_t filled) {
  grow(i + 1);
  KVRT_CHECK(filled <= block_tokens_ && (block != kNoBlock || filled == 0));
  held_ -= blocks_[i] != kNoBlock;
  held_ += block != kNoBlock;
  blocks_[i] = block;
  filled_[i] = filled;
  if (block != kNoBlock) first_ = std::min(first_, i);
  while (first_ < size() && blocks_[first_] == kNoBlock) ++first_;
}

void BlockTable::shrink(uint32_t blocks) {
  if (blocks >= size()) return;
  held_ -= static_cast<uint32_t>(std::count_if(blocks_.begin() + blocks, blocks_.end(), [](BlockId b) { return b != kNoBlock; }));
  blocks_.resize(blocks);
  filled_.resize(blocks);
  first_ = std::min(first_, blocks);
}

}  // namespace kvrt
