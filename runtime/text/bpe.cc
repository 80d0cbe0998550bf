#include "runtime/text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

namespace kvrt {

namespace {
constexpr int32_t kNone = -1;
constexpr int32_t kDead = -2;
constexpr size_t kShortPiece = 24;  // up to here rescanning beats the heap
}  // namespace

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
    auto left_id = tokens.find(left), right_id = tokens.find(right), joined_id = tokens.find(joined);
    if (left_id == tokens.end() || right_id == tokens.end() || joined_id == tokens.end()) {
      const char* what = left_id == tokens.end() ? "left part" : right_id == tokens.end() ? "right part" : "result";
      return error(Code::kCorrupt, Detail::kFormat, "merge %zu: its %s is not in the vocabulary", i, what);
    }
    if (!insert(pair_of(left_id->second, right_id->second), {static_cast<uint32_t>(i), joined_id->second})) {
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

const BpeMerges::Merge* BpeMerges::find(int32_t left, int32_t right) const {
  uint64_t pair = pair_of(left, right);
  for (size_t at = slot_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair) return &slots_[at].merge;
    if (slots_[at].pair == kEmpty) return nullptr;
  }
}

void BpeMerges::apply(std::vector<int32_t>* ids, Scratch* scratch) const {
  if (ids->size() < 2) return;
  if (ids->size() <= kShortPiece) {
    apply_short(ids);
  } else {
    apply_long(ids, scratch);
  }
}

void BpeMerges::apply_short(std::vector<int32_t>* ids) const {
  const Merge* merges[kShortPiece];  // merges[i]: what ids i and i + 1 become
  size_t n = ids->size();
  int32_t* id = ids->data();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find(id[i], id[i + 1]);
  while (n > 1) {
    size_t best = n;
    uint32_t rank = std::numeric_limits<uint32_t>::max();
    for (size_t i = 0; i + 1 < n; ++i) {
      if (merges[i] != nullptr && merges[i]->rank < rank) {
        rank = merges[i]->rank;
        best = i;
      }
    }
    if (best == n) break;
    id[best] = merges[best]->result;
    std::copy(id + best + 2, id + n, id + best + 1);
    if (best + 2 < n) std::copy(merges + best + 2, merges + n - 1, merges + best + 1);
    --n;
    if (best > 0) merges[best - 1] = find(id[best - 1], id[best]);
    if (best + 1 < n) merges[best] = find(id[best], id[best + 1]);
  }
  ids->resize(n);
}

void BpeMerges::apply_long(std::vector<int32_t>* ids, Scratch* scratch) const {
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  auto after = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  auto queue = [&](int32_t left, bool sift) {
    int32_t right = symbols[static_cast<size_t>(left)].next;
    if (right == kNone) return;
    int32_t left_id = symbols[static_cast<size_t>(left)].id, right_id = symbols[static_cast<size_t>(right)].id;
    const Merge* merge = find(left_id, right_id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, left, pair_of(left_id, right_id)});
    if (sift) std::push_heap(heap.begin(), heap.end(), after);
  };

  auto count = static_cast<int32_t>(ids->size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) symbols.push_back({(*ids)[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : kNone});
  for (int32_t i = 0; i < count; ++i) queue(i, false);
  std::make_heap(heap.begin(), heap.end(), after);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    Scratch::Candidate top = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(top.left)];
    if (left.next < 0) continue;  // merged away, or the last one now
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (pair_of(left.id, right.id) != top.pair) continue;
    left.id = find(left.id, right.id)->result;
    left.next = right.next;
    right.next = kDead;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.left;
    if (left.previous >= 0) queue(left.previous, true);
    queue(top.left, true);
  }
  ids->clear();
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) ids->push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace kvrt
