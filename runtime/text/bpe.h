// BpeMerges: the merge table of byte-level BPE and its application to one piece. Immutable after build: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

using TokenIndex = std::unordered_map<std::string_view, int32_t>;  // spelling -> id; the views belong to the owner

class BpeMerges {
 public:
  // One encode call's working memory, reused over its pieces.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous, next;  // -1: none; next kDead: merged away
    };
    struct Candidate {
      uint32_t rank;
      int32_t left;   // index of the left symbol
      uint64_t pair;  // ids at the time it was queued; stale when the symbols changed
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Each merge is "left right" in token spelling, best first. A malformed one, or one whose parts or result are no tokens, is
  // CORRUPT and named by index.
  Status build(std::span<const std::string_view> merges, const TokenIndex& tokens);
  // Merges the symbols in place, lowest rank first and leftmost among equals; O(n log n).
  void apply(std::vector<int32_t>* ids, Scratch* scratch) const;

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
  const Merge* find(int32_t left, int32_t right) const;
  void apply_short(std::vector<int32_t>* ids) const;
  void apply_long(std::vector<int32_t>* ids, Scratch* scratch) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_ = 64;
};

}  // namespace kvrt
