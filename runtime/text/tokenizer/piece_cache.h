// PieceCache: the tokens of short pieces seen before. Words repeat, and one look here is cheaper than their merges. One per encode call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/hash_bytes.h"

namespace kvrt {

class PieceCache {
 public:
  // A table of a size that suits the text: a short one pays for few slots.
  explicit PieceCache(size_t text_bytes) {
    size_t slots = std::bit_ceil(std::clamp<size_t>(text_bytes / 8, 1, 4096));
    slots_.resize(slots);
    shift_ = slots == 1 ? 63 : 64 - std::countr_zero(slots);
  }

  struct Slot {
    uint8_t size = 0, count = 0;  // counts of bytes and of tokens; 0: free
    char bytes[22];
    int32_t ids[10];
  };
  // The slot that has the piece, or may take it; nullptr: the piece is too long to be kept.
  Slot* slot(std::string_view piece) {
    if (piece.size() > sizeof Slot::bytes) return nullptr;
    return &slots_[(hash_bytes(piece) >> shift_) & (slots_.size() - 1)];
  }
  static bool holds(const Slot& slot, std::string_view piece) {
    return slot.size == piece.size() && std::memcmp(slot.bytes, piece.data(), piece.size()) == 0;
  }
  static void fill(Slot* slot, std::string_view piece, std::span<const int32_t> ids) {
    if (ids.size() > std::size(slot->ids)) return;
    slot->size = static_cast<uint8_t>(piece.size());
    slot->count = static_cast<uint8_t>(ids.size());
    std::copy(piece.begin(), piece.end(), slot->bytes);
    std::copy(ids.begin(), ids.end(), slot->ids);
  }

 private:
  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace kvrt
