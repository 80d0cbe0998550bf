// A block rounded for the store, and widened again, against a second implementation of the formats.
#include "runtime/compute/cold_block.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/ops/kv_reference.h"

namespace kvrt {
namespace {

using namespace test;

constexpr uint32_t kSlots = 16, kFilled = 11, kHeads = 2;

// Numbers that are f16 exactly, a few large; rows of [token][head][dim].
std::vector<float> some_rows(uint32_t dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(uint64_t{kFilled} * kHeads * dim);
  for (size_t i = 0; i < x.size(); ++i) x[i] = f16_to_f32(f32_to_f16(normal(random) * (i % 13 == 5 ? 20.0f : 1.0f)));
  return x;
}

// Where the layer's part of a wide block has an element.
float* at(const KvGeometry& kv, std::vector<uint8_t>* block, bool key, uint32_t head, uint32_t token, uint32_t d) {
  const uint64_t k = uint64_t{kSlots} * kv.k.dim, v = uint64_t{kSlots} * kv.v.dim;
  const uint64_t element = key ? head * k + uint64_t{d} * kSlots + token : kHeads * k + head * v + uint64_t{token} * kv.v.dim + d;
  return reinterpret_cast<float*>(block->data()) + element;
}

class ColdBlock : public testing::TestWithParam<std::tuple<KvFormats, uint32_t>> {};

TEST_P(ColdBlock, GivesTheNumbersOfItsFormat) {
  const auto [cold_formats, dim] = GetParam();
  const KvGeometry wide(1, kHeads, dim, kSlots, KvFormat::kF32), cold(1, kHeads, dim, kSlots, cold_formats);
  const std::vector<float> k = some_rows(dim, 1), v = some_rows(dim, 2);
  for (const bool apart : {false, true}) {
    const std::vector<float> alike = apart ? some_rows(dim, 3) : std::vector<float>();
    std::vector<uint8_t> block(wide.block_bytes()), rounded(cold.block_bytes()), back(wide.block_bytes());
    const auto each = [&](auto fn) {
      for (size_t i = 0; i < k.size(); ++i)
        fn(i, static_cast<uint32_t>(i / dim % kHeads), static_cast<uint32_t>(i / dim / kHeads), static_cast<uint32_t>(i % dim));
    };
    each([&](size_t i, uint32_t head, uint32_t token, uint32_t d) {
      *at(wide, &block, true, head, token, d) = k[i];
      *at(wide, &block, false, head, token, d) = v[i];
    });
    const ColdLayer layer{wide, cold, kFilled, alike};
    round_layer(layer, round_row_kernel(nullptr), block.data(), rounded.data());
    widen_layer(layer, rounded.data(), back.data());
    std::vector<float> row(dim);
    each([&](size_t i, uint32_t head, uint32_t token, uint32_t d) {
      const size_t first = i - d;
      for (uint32_t e = 0; e < dim; ++e) row[e] = apart ? k[first + e] - alike[first + e] : k[first + e];
      const double key = as_stored(cold_formats.k, row.data(), dim, true)[d] + (apart ? double{alike[i]} : 0.0);
      const double value = as_stored(cold_formats.v, v.data() + first, dim, false)[d];
      ASSERT_NEAR(*at(wide, &back, true, head, token, d), key, 1e-4) << "K " << i;
      ASSERT_NEAR(*at(wide, &back, false, head, token, d), value, 1e-4) << "V " << i;
    });
    for (uint32_t d = 0; d < dim; ++d) EXPECT_EQ(*at(wide, &back, true, 1, kFilled, d), 0) << "a slot behind the tokens";
  }
}

// A wide block of 2 bytes has the same numbers, rounded once.
TEST_P(ColdBlock, IsTheSameOfEachWideFormat) {
  const auto [cold_formats, dim] = GetParam();
  const KvGeometry f32(1, kHeads, dim, kSlots, KvFormat::kF32), f16(1, kHeads, dim, kSlots, KvFormat::kF16),
      cold(1, kHeads, dim, kSlots, cold_formats);
  std::vector<uint8_t> block(f32.block_bytes()), half(f16.block_bytes()), rounded(cold.block_bytes()), same(cold.block_bytes());
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < half.size() / 2; ++i) {
    const uint16_t h = f32_to_f16(normal(random));
    const float f = f16_to_f32(h);
    std::memcpy(half.data() + 2 * i, &h, 2);
    std::memcpy(block.data() + 4 * i, &f, 4);
  }
  round_layer({f32, cold, kSlots, {}}, round_row_kernel(nullptr), block.data(), rounded.data());
  round_layer({f16, cold, kSlots, {}}, round_row_kernel(nullptr), half.data(), same.data());
  EXPECT_EQ(rounded, same);
  widen_layer({f32, cold, kSlots, {}}, rounded.data(), block.data());
  widen_layer({f16, cold, kSlots, {}}, rounded.data(), half.data());
  for (size_t i = 0; i < half.size() / 2; ++i) {
    float f;
    uint16_t h;
    std::memcpy(&f, block.data() + 4 * i, 4);
    std::memcpy(&h, half.data() + 2 * i, 2);
    ASSERT_EQ(h, f32_to_f16(f)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ColdBlock,
                         testing::Combine(testing::Values(KvFormats(KvFormat::kI4), KvFormats(KvFormat::kI8),
                                                          KvFormats(KvFormat::kI8, KvFormat::kI4), KvFormats(KvFormat::kI4, KvFormat::kI8)),
                                          testing::Values(64u, 96u, 128u, 80u)));

}  // namespace
}  // namespace kvrt
