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
  blocks_[i] = block;
  filled_[i] = filled;
}

void BlockTable::shrink(uint32_t blocks) {
  if (blocks >= size()) return;
  blocks_.resize(blocks);
  filled_.resize(blocks);
}

uint64_t BlockTable::first_missing(uint64_t n_tokens) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (filled_[i] < block_tokens_) return std::min<uint64_t>(n_tokens, uint64_t{i} * block_tokens_ + filled_[i]);
  }
  return std::min<uint64_t>(n_tokens, uint64_t{size()} * block_tokens_);
}

uint64_t BlockTable::missing_end(uint64_t from, uint64_t n_tokens) const {
  for (auto i = static_cast<uint32_t>(from / block_tokens_) + 1; i < size(); ++i) {
    if (filled_[i] > 0) return std::min<uint64_t>(n_tokens, uint64_t{i} * block_tokens_);
  }
  return n_tokens;
}

uint64_t BlockTable::covered(uint64_t n_tokens) const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    uint64_t begin = uint64_t{i} * block_tokens_;
    if (begin >= n_tokens) break;
    sum += std::min<uint64_t>(filled_[i], n_tokens - begin);
  }
  return sum;
}

uint32_t BlockTable::blocks_held() const {
  return static_cast<uint32_t>(std::count_if(blocks_.begin(), blocks_.end(), [](BlockId b) { return b != kNoBlock; }));
}

}  // namespace kvrt
