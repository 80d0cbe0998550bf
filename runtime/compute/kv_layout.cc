#include "runtime/compute/kv_layout.h"

#include <cstring>

namespace kvrt {

namespace {

void clear_slots(const KvGeometry& kv, std::span<uint8_t> block, uint32_t from) {
  if (from >= kv.block_tokens) return;
  uint8_t* at = block.data();
  // `rows` rows of block_tokens slots of `width` bytes.
  const auto clear = [&](uint32_t rows, size_t width) {
    for (uint32_t i = 0; i < rows; ++i, at += kv.block_tokens * width) std::memset(at + from * width, 0, (kv.block_tokens - from) * width);
  };
  for (uint32_t layer = 0; layer < kv.layers; ++layer) {
    clear(kv.kv_heads * kv.head_dim, kv.elem_bytes());
    clear(kv.kv_heads, size_t{kv.head_dim} * kv.elem_bytes());
    clear(2 * kv.kv_heads, kv.scale_bytes());
  }
}

// Turns each row of K from x into d or back, as kv_layout.h defines them, in place. code(byte, expected) turns one byte, and gives d.
template <typename Code>
void for_key_rows(const KvGeometry& kv, std::span<uint8_t> block, Code code) {
  if (kv.format != KvFormat::kI8) return;
  for (uint32_t layer = 0; layer < kv.layers; ++layer) {
    uint8_t* row = block.data() + layer * kv.layer_bytes();
    for (uint32_t i = 0; i < kv.kv_heads * kv.head_dim; ++i, row += kv.block_tokens) {
      uint8_t expected = row[0];
      for (uint32_t t = 1; t < kv.block_tokens; ++t) expected = static_cast<uint8_t>(expected + (code(&row[t], expected) >> 1));
    }
  }
}

}  // namespace

void to_payload(const KvGeometry& kv, std::span<uint8_t> block, uint32_t filled) {
  clear_slots(kv, block, filled);
  for_key_rows(kv, block, [](uint8_t* byte, uint8_t expected) {
    *byte = static_cast<uint8_t>(*byte - expected);
    return static_cast<int8_t>(*byte);
  });
}

void from_payload(const KvGeometry& kv, std::span<uint8_t> payload) {
  for_key_rows(kv, payload, [](uint8_t* byte, uint8_t expected) {
    const auto difference = static_cast<int8_t>(*byte);
    *byte = static_cast<uint8_t>(*byte + expected);
    return difference;
  });
}

}  // namespace kvrt
