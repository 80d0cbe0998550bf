// Dequantization against PyPI gguf's, bit by bit (tests/golden/make_quants.py), and f16 rounding against its definition.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <set>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt {
namespace {

TEST(Quants, EqualToGgufPy) {
  std::ifstream in(KVRT_SOURCE_DIR "/tests/golden/data/quants.bin", std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  ByteReader reader(bytes);
  std::set<uint32_t> types;
  while (reader.remaining()) {
    uint32_t type = 0, n = 0, row_bytes = 0;
    std::span<const uint8_t> row, expected;
    ASSERT_TRUE(reader.read(&type) && reader.read(&n) && reader.read(&row_bytes));
    ASSERT_TRUE(reader.read_bytes(row_bytes, &row) && reader.read_bytes(uint64_t{n} * 4, &expected));
    const DTypeInfo* info = dtype_info(type);
    ASSERT_NE(info, nullptr) << type;
    ASSERT_EQ(row_bytes, n / info->block_elems * info->block_bytes);
    std::vector<float> found(n);
    dequantize_row(info->type, row.data(), n, found.data());
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t want = 0;
      std::memcpy(&want, expected.data() + uint64_t{4} * i, 4);
      // numpy keeps the signalling NaN of an f16, hardware and kvrt quiet it. BF16 is the upper half of the bits, in both.
      if (info->type == DType::kF16 && std::isnan(std::bit_cast<float>(want))) want |= 0x400000;
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), want) << info->name << " element " << i;
    }
    types.insert(type);
  }
  EXPECT_EQ(types.size(), dtypes().size());
}

TEST(Quants, UnknownTypesHaveNoInfo) {
  for (uint32_t type : {4u, 5u, 9u, 15u, 16u, 19u, 34u, 40u, 99u, UINT32_MAX}) EXPECT_EQ(dtype_info(type), nullptr) << type;
}

TEST(F16, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto half = static_cast<uint16_t>(h);
    const bool nan = (half & 0x7c00) == 0x7c00 && (half & 0x3ff);
    EXPECT_EQ(f32_to_f16(f16_to_f32(half)), nan ? half | 0x200 : half) << h;
  }
}

// Between two neighbours the nearer one is right, halfway the even one. The midpoint and its neighbours are exact in f32.
TEST(F16, RoundsToNearestEven) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const float middle = (f16_to_f32(low) + f16_to_f32(high)) / 2;
    const uint16_t even = low & 1 ? high : low;
    for (uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      const float s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(f32_to_f16(s * middle), even | sign) << low;
      ASSERT_EQ(f32_to_f16(s * std::nextafter(middle, 0.0f)), low | sign) << low;
      ASSERT_EQ(f32_to_f16(s * std::nextafter(middle, INFINITY)), high | sign) << low;
    }
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // halfway to the next power
  EXPECT_EQ(f32_to_f16(-3e38f), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e-45f), 0);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::bit_cast<float>(0x7f800001u)), 0x7e00);  // a NaN whose payload f16 cannot hold stays a NaN
}

}  // namespace
}  // namespace kvrt
