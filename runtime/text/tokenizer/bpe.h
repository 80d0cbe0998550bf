// Byte-pair merging of one piece, and the merge table of byte-level BPE. Immutable after build: any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace kvrt {

// Merges neighbours in a row of symbols, the lowest rank first and the leftmost among equals. Rules knows the merges:
//   bool find(const Symbol& left, const Symbol& right, uint32_t* rank, Symbol* merged) const;    bool operator==(Symbol, Symbol)
template <class Symbol>
class Merging {
 public:
  // In place; O(n log n), and a rescan per merge where that is faster. The vectors are kept between calls.
  template <class Rules>
  void apply(const Rules& rules, std::vector<Symbol>* symbols) {
    if (symbols->size() < 2) return;
    if (symbols->size() <= kShort) {
      apply_short(rules, symbols);
    } else {
      apply_long(rules, symbols);
    }
  }

 private:
  static constexpr size_t kShort = 24;
  static constexpr uint32_t kNever = UINT32_MAX;
  static constexpr int32_t kNone = -1, kDead = -2;
  struct Link {
    Symbol symbol;
    int32_t previous, next;  // kNone: no neighbour; next kDead: merged away
  };
  struct Candidate {
    uint64_t key;        // rank, then the index of the left symbol: the order of merging
    Symbol left, right;  // when it was queued; stale when the symbols have changed
  };
  static bool later(const Candidate& a, const Candidate& b) { return a.key > b.key; }

  template <class Rules>
  void apply_short(const Rules& rules, std::vector<Symbol>* symbols) {
    Symbol merged[kShort];  // symbols i and i + 1 become merged[i]
    uint32_t ranks[kShort];
    size_t n = symbols->size();
    Symbol* s = symbols->data();
    auto look = [&](size_t i) {
      if (!rules.find(s[i], s[i + 1], &ranks[i], &merged[i])) ranks[i] = kNever;
    };
    for (size_t i = 0; i + 1 < n; ++i) look(i);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i) {
        if (ranks[i] < ranks[best]) best = i;
      }
      if (ranks[best] == kNever) break;
      s[best] = merged[best];
      std::copy(s + best + 2, s + n, s + best + 1);
      if (best + 2 < n) {
        std::copy(merged + best + 2, merged + n - 1, merged + best + 1);
        std::copy(ranks + best + 2, ranks + n - 1, ranks + best + 1);
      }
      --n;
      if (best > 0) look(best - 1);
      if (best + 1 < n) look(best);
    }
    symbols->resize(n);
  }

  template <class Rules>
  void queue(const Rules& rules, int32_t left, bool sift) {
    int32_t right = links_[static_cast<size_t>(left)].next;
    if (right == kNone) return;
    const Symbol& l = links_[static_cast<size_t>(left)].symbol;
    const Symbol& r = links_[static_cast<size_t>(right)].symbol;
    uint32_t rank;
    Symbol merged;
    if (!rules.find(l, r, &rank, &merged)) return;
    heap_.push_back({static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(left), l, r});
    if (sift) std::push_heap(heap_.begin(), heap_.end(), later);
  }

  template <class Rules>
  void apply_long(const Rules& rules, std::vector<Symbol>* symbols) {
    auto count = static_cast<int32_t>(symbols->size());
    links_.clear();
    heap_.clear();
    for (int32_t i = 0; i < count; ++i) links_.push_back({(*symbols)[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : kNone});
    for (int32_t i = 0; i < count; ++i) queue(rules, i, false);
    std::make_heap(heap_.begin(), heap_.end(), later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      Candidate top = heap_.back();
      heap_.pop_back();
      auto at = static_cast<int32_t>(top.key & UINT32_MAX);
      Link& left = links_[static_cast<size_t>(at)];
      if (left.next < 0) continue;  // merged away, or the last one now
      Link& right = links_[static_cast<size_t>(left.next)];
      if (!(left.symbol == top.left) || !(right.symbol == top.right)) continue;
      uint32_t rank;
      if (!rules.find(top.left, top.right, &rank, &left.symbol)) continue;
      left.next = right.next;
      right.next = kDead;
      if (left.next >= 0) links_[static_cast<size_t>(left.next)].previous = at;
      if (left.previous >= 0) queue(rules, left.previous, true);
      queue(rules, at, true);
    }
    symbols->clear();
    for (int32_t i = 0; i >= 0; i = links_[static_cast<size_t>(i)].next) symbols->push_back(links_[static_cast<size_t>(i)].symbol);
  }

  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

class BpeMerges {
 public:
  using Scratch = Merging<int32_t>;  // one encode call's working memory, reused over its pieces

  // Each merge is "left right" in token spelling, best first. A malformed one, or one whose parts or result are no tokens, is
  // CORRUPT and named by index.
  Status build(std::span<const std::string_view> merges, const TokenIndex& tokens);
  // Merges the symbols in place.
  void apply(std::vector<int32_t>* ids, Scratch* scratch) const { scratch->apply(*this, ids); }
  bool find(int32_t left, int32_t right, uint32_t* rank, int32_t* merged) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };
  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge{};
  };
  static constexpr uint64_t kEmpty = ~0ull;

  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t pair) const { return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_); }
  bool insert(uint64_t pair, Merge merge);

  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_ = 64;
};

}  // namespace kvrt
