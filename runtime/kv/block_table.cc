#include "runtime/kv/block_table.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace kvrt {

void BlockTable::grow(uint32_t blocks) {
  if (blocks <= size()) return;
  filled_.resize(blocks, 0);
  places_.resize(blocks);  // the last: size() is its size
}

void BlockTable::set(uint32_t i, BlockId block, uint32_t filled) {
  grow(i + 1);
  Place& place = places_[i];
  KVRT_CHECK(filled <= block_tokens_ && (block != kNoBlock || filled == 0));
  held_ -= !place.is_hole();
  held_ += block != kNoBlock;
  place = filled < block_tokens_ ? Place(block, place.why()) : Place(block);
  filled_[i] = filled;
  if (block != kNoBlock) first_ = std::min(first_, i);
  while (first_ < size() && places_[first_].is_hole()) ++first_;
}

void BlockTable::set_filled(uint32_t i, uint32_t filled) {
  if (filled > filled_[i]) say(i, Hole::kNeverComputed);
  filled_[i] = filled;
}

void BlockTable::lacks(uint32_t i, Hole why) {
  grow(i + 1);
  if (filled_[i] < block_tokens_) say(i, std::max(places_[i].why(), why));
}

void BlockTable::lose(uint32_t i, Hole why) {
  if (filled_[i] > 0) say(i, why);
  set(i, kNoBlock, 0);
}

void BlockTable::lose_from(uint32_t from, Hole why) {
  if (blocks_held() == 0) return;
  for (uint32_t i = std::max(from, first_); i < size(); ++i) {
    Place& place = places_[i];
    held_ -= !place.is_hole();
    place = Place(filled_[i] > 0 ? why : place.why());
    filled_[i] = 0;
  }
  if (from <= first_) first_ = size();
}

void BlockTable::shrink(uint32_t blocks) {
  if (blocks >= size()) return;
  held_ -= static_cast<uint32_t>(std::count_if(places_.begin() + blocks, places_.end(), [](Place place) { return !place.is_hole(); }));
  places_.resize(blocks);
  filled_.resize(blocks);
  first_ = std::min(first_, blocks);
}

}  // namespace kvrt
