#include "runtime/compute/kv_layout.h"

#include <algorithm>
#include <cstring>
#include <vector>

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
    if (!kv.latent) clear(kv.kv_heads * kv.k.cells(), kv.k.cell_bytes());
    clear(kv.kv_heads, kv.v_rows().bytes());
    if (!kv.latent) clear(kv.kv_heads * kv.k.scales(), kKvScaleBytes);
    clear(kv.kv_heads * kv.v_rows().scales(), kKvScaleBytes);
  }
}

// Turns each row of K from x into d or back, as kv_layout.h defines them, in place. code(byte, expected) turns one byte, and gives d.
template <typename Code>
void for_key_rows(const KvGeometry& kv, std::span<uint8_t> block, Code code) {
  if (kv.k.format != KvFormat::kI8 || kv.latent) return;
  for (uint32_t layer = 0; layer < kv.layers; ++layer) {
    uint8_t* row = block.data() + layer * kv.layer_bytes();
    for (uint32_t i = 0; i < kv.kv_heads * kv.k.dim; ++i, row += kv.block_tokens) {
      uint8_t expected = row[0];
      for (uint32_t t = 1; t < kv.block_tokens; ++t) expected = static_cast<uint8_t>(expected + (code(&row[t], expected) >> 1));
    }
  }
}

// A payload in planes: calls move(at, width, n, to) for the n bytes from `to` on, which are `width` apart in the block, from `at` on.
template <typename Move>
void for_planes(const KvGeometry& kv, Move move) {
  uint64_t to = 0;
  const auto section = [&](uint64_t from, uint64_t end, uint32_t width) {
    const uint64_t n = (end - from) / width;
    for (uint32_t byte = 0; byte < width; ++byte) {
      for (uint32_t layer = 0; layer < kv.layers; ++layer, to += n) move(layer * kv.layer_bytes() + from + byte, width, n, to);
    }
  };
  section(0, kv.v_at(), kv.k.cell_bytes());
  section(kv.v_at(), kv.k_scales_at(), kv.v.cell_bytes());
  section(kv.k_scales_at(), kv.layer_bytes(), 1);
}

}  // namespace

void to_payload(const KvGeometry& kv, std::span<uint8_t> block, uint32_t filled) {
  clear_slots(kv, block, filled);
  for_key_rows(kv, block, [](uint8_t* byte, uint8_t expected) {
    *byte = static_cast<uint8_t>(*byte - expected);
    return static_cast<int8_t>(*byte);
  });
  if (payload_scratch_bytes(kv) == 0) return;
  const std::vector<uint8_t> was(block.begin(), block.end());
  for_planes(kv, [&](uint64_t at, uint32_t width, uint64_t n, uint64_t to) {
    for (uint64_t i = 0; i < n; ++i) block[to + i] = was[at + i * width];
  });
}

void from_payload(const KvGeometry& kv, std::span<uint8_t> payload, std::span<uint8_t> scratch) {
  if (payload_scratch_bytes(kv) > 0) {
    std::copy(payload.begin(), payload.end(), scratch.begin());
    for_planes(kv, [&](uint64_t at, uint32_t width, uint64_t n, uint64_t to) {
      for (uint64_t i = 0; i < n; ++i) payload[at + i * width] = scratch[to + i];
    });
  }
  for_key_rows(kv, payload, [](uint8_t* byte, uint8_t expected) {
    const auto difference = static_cast<int8_t>(*byte);
    *byte = static_cast<uint8_t>(*byte + expected);
    return difference;
  });
}

}  // namespace kvrt
