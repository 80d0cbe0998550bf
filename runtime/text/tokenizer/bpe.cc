#include "runtime/text/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <string>

namespace kvrt {

Status BpeMerges::build(std::span<const std::string_view> merges, const TokenIndex& tokens) {
  size_t capacity = std::bit_ceil(std::max<size_t>(merges.size() * 2, 2));
  slots_.assign(capacity, Slot{});
  shift_ = 64 - std::countr_zero(capacity);
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string_view merge = merges[i];
    size_t space = merge.find(' ', 1);  // a token may begin with a space, the separator is the next one
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return error(Code::kCorrupt, Detail::kFormat, "merge %zu: expected two tokens and a space between", i);
    }
    std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const int32_t left_id = tokens.find(left), right_id = tokens.find(right), joined_id = tokens.find(joined);
    if (left_id < 0 || right_id < 0 || joined_id < 0) {
      const char* what = left_id < 0 ? "left part" : right_id < 0 ? "right part" : "result";
      return error(Code::kCorrupt, Detail::kFormat, "merge %zu: its %s is not in the vocabulary", i, what);
    }
    if (!insert(pair_of(left_id, right_id), {static_cast<uint32_t>(i), joined_id})) {
      return error(Code::kCorrupt, Detail::kFormat, "merge %zu: the same pair as an earlier merge", i);
    }
  }
  return Status::ok();
}

bool BpeMerges::insert(uint64_t pair, Merge merge) {
  size_t at = slot_of(pair);
  while (slots_[at].pair != kEmpty) {
    if (slots_[at].pair == pair) return false;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {pair, merge};
  return true;
}

bool BpeMerges::find(int32_t left, int32_t right, uint32_t* rank, int32_t* merged) const {
  uint64_t pair = pair_of(left, right);
  for (size_t at = slot_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.pair == pair) {
      *rank = slot.merge.rank;
      *merged = slot.merge.result;
      return true;
    }
    if (slot.pair == kEmpty) return false;
  }
}

}  // namespace kvrt
