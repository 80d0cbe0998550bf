// A block's bytes as a chunk has them, against where each element has to be.
#include "runtime/compute/kv_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace kvrt {
namespace {

uint32_t width_of(KvFormat format) { return format == KvFormat::kF32 ? 4 : format == KvFormat::kF16 || format == KvFormat::kBF16 ? 2 : 1; }
// Of a row of n elements: int4 has two in a cell, and a scale for each 32.
uint32_t cells_of(KvFormat format, uint32_t n) { return format == KvFormat::kI4 ? (n + 31) / 32 * 16 : n; }
uint32_t scales_of(KvFormat format, uint32_t n) { return format == KvFormat::kI4 ? (n + 31) / 32 : width_of(format) == 1 ? 1 : 0; }

// A byte of a block: of which token, and where the payload has it.
struct BytePlace {
  uint32_t token;
  uint64_t in_payload;
  bool difference;  // int8's K: from the byte before it, if that is of the same row
};

// The bytes of a block in their order, as FORMAT.md has them.
std::vector<BytePlace> places_of(const KvGeometry& kv) {
  const uint32_t T = kv.block_tokens, k_elem = width_of(kv.k.format), v_elem = width_of(kv.v.format);
  const uint32_t v_cells = cells_of(kv.v.format, kv.v.dim);
  const uint64_t k_count = uint64_t{kv.kv_heads} * cells_of(kv.k.format, kv.k.dim) * T, v_count = uint64_t{kv.kv_heads} * v_cells * T;
  const uint64_t scales = uint64_t{kv.kv_heads} * T * 2 * (scales_of(kv.k.format, kv.k.dim) + scales_of(kv.v.format, kv.v.dim));
  const uint64_t layer_bytes = k_count * k_elem + v_count * v_elem + scales;
  std::vector<BytePlace> places;
  for (uint32_t layer = 0; layer < kv.layers; ++layer) {
    const auto put = [&](uint32_t token, uint64_t plane_at, bool difference = false) {
      places.push_back({token, k_elem == v_elem ? places.size() : plane_at, difference});
    };
    for (uint64_t i = 0; i < k_count * k_elem; ++i) {
      put(i / k_elem % T, i % k_elem * kv.layers * k_count + layer * k_count + i / k_elem, kv.k.format == KvFormat::kI8);
    }
    const uint64_t v_begin = kv.layers * k_count * k_elem;
    for (uint64_t i = 0; i < v_count * v_elem; ++i) {
      put(i / v_elem / v_cells % T, v_begin + i % v_elem * kv.layers * v_count + layer * v_count + i / v_elem);
    }
    const uint64_t scales_begin = v_begin + kv.layers * v_count * v_elem;
    for (uint64_t i = 0; i < scales; ++i) put(i / 2 % T, scales_begin + layer * scales + i);
  }
  EXPECT_EQ(places.size(), kv.layers * layer_bytes);
  return places;
}

class KvLayout : public testing::TestWithParam<std::tuple<KvFormat, KvFormat>> {};

TEST_P(KvLayout, PayloadAndBack) {
  const auto [k, v] = GetParam();
  const KvGeometry kv{3, 2, {24, k}, {k == v ? 24u : 40u, v}, 16};
  const std::vector<BytePlace> places = places_of(kv);
  ASSERT_EQ(places.size(), kv.block_bytes());
  std::mt19937 random(7);
  for (const uint32_t filled : {1u, 11u, kv.block_tokens}) {
    std::vector<uint8_t> block(kv.block_bytes());
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> kept(block.size()), payload = block, want(block.size());
    double expected = 0;
    for (size_t at = 0; at < places.size(); ++at) {
      const BytePlace& place = places[at];
      if (place.token < filled) kept[at] = block[at];
      if (!place.difference || place.token == 0) expected = 0;
      const auto coded = static_cast<uint8_t>(kept[at] - static_cast<int>(expected));
      want[place.in_payload] = coded;
      const double d = coded < 128 ? coded : coded - 256.0;
      expected = place.token == 0 ? coded : std::fmod(expected + std::floor(d / 2) + 256, 256);
    }
    to_payload(kv, payload, filled);
    EXPECT_EQ(payload, want) << filled << " tokens";
    std::vector<uint8_t> scratch(payload_scratch_bytes(kv));
    EXPECT_EQ(scratch.empty(), width_of(k) == width_of(v));
    from_payload(kv, payload, scratch);
    EXPECT_EQ(payload, kept) << filled << " tokens";
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, KvLayout, testing::Combine(testing::ValuesIn(kKvFormats), testing::ValuesIn(kKvFormats)));

// The numbers of FORMAT.md: 1 to 6, and one for each pair of two.
TEST(KvLayouts, NumbersAndNames) {
  const auto of = [](KvFormat k, KvFormat v) { return KvGeometry{1, 1, 8, 16, {k, v}}; };
  std::set<uint32_t> numbers;
  std::set<std::string> names;
  for (const KvFormat k : kKvFormats) {
    EXPECT_EQ(block_layout(of(k, k)), static_cast<uint32_t>(k) + 1);
    EXPECT_EQ(payload_cell_bytes(of(k, k)), width_of(k));
    for (const KvFormat v : kKvFormats) {
      numbers.insert(block_layout(of(k, v)));
      names.insert(kv_formats_name({k, v}));
      EXPECT_EQ(payload_cell_bytes(of(k, v)), width_of(k) == width_of(v) ? width_of(k) : 1);
    }
  }
  EXPECT_EQ(numbers.size(), 36u);
  EXPECT_EQ(names.size(), 36u);
  EXPECT_EQ(block_layout(of(KvFormat::kI8, KvFormat::kF16)), 16u * 4 + 1);
  EXPECT_EQ(kv_formats_name({KvFormat::kI8, KvFormat::kF16}), "int8/f16");
  EXPECT_EQ(kv_formats_name(KvFormat::kF8), "fp8");
  KvFormats apart = KvFormat::kI8;
  apart.bias_apart = true;
  EXPECT_EQ(kv_formats_name(apart), "int8-nobias/int8");
}

// Latents: per layer rows [token][k.dim], then where scaled a scale of each; as they are, but for the slots that have no token.
TEST(KvLayoutLatent, RowsAsTheyAre) {
  const uint32_t numbers[] = {257, 258, 259, 260, 261, 262};
  for (size_t f = 0; f < std::size(kKvFormats); ++f) {
    const KvFormat format = kKvFormats[f];
    const uint32_t T = 16, row = cells_of(format, 40) * width_of(format), scales = scales_of(format, 40), filled = 11;
    KvGeometry kv(3, 1, {40, format}, {32, format}, T);
    kv.latent = true;
    EXPECT_EQ(block_layout(kv), numbers[f]);
    ASSERT_EQ(kv.block_bytes(), 3u * T * (row + 2 * scales));
    std::mt19937 random(9);
    std::vector<uint8_t> block(kv.block_bytes());
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> want = block;
    for (uint32_t layer = 0; layer < 3; ++layer) {
      const auto at = want.begin() + layer * T * (row + 2 * scales);
      std::fill(at + filled * row, at + T * row, 0);
      for (uint32_t i = 0; i < scales; ++i) std::fill(at + T * (row + 2 * i) + filled * 2, at + T * (row + 2 * i + 2), 0);
    }
    to_payload(kv, block, filled);
    EXPECT_EQ(block, want) << "format " << f;
    EXPECT_EQ(payload_scratch_bytes(kv), 0u);
    from_payload(kv, block, {});
    EXPECT_EQ(block, want) << "format " << f;
  }
}

}  // namespace
}  // namespace kvrt
