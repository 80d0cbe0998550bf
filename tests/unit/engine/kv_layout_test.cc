// A block's bytes as a chunk has them, against where each element has to be.
#include "runtime/compute/kv_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace kvrt {
namespace {

class KvLayout : public testing::TestWithParam<KvFormat> {};

TEST_P(KvLayout, PayloadAndBack) {
  const KvGeometry kv{3, 2, 24, 16, GetParam()};
  const uint32_t T = kv.block_tokens, elem = kv.elem_bytes();
  const bool int8 = kv.format == KvFormat::kI8, scaled = int8 || kv.format == KvFormat::kF8;
  std::mt19937 random(7);
  for (const uint32_t filled : {1u, 11u, T}) {
    std::vector<uint8_t> block(kv.block_bytes());
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> kept(block.size()), payload = block, want(block.size());
    const auto expect = [&](uint64_t at, uint32_t t, double expected) {
      if (t < filled) kept[at] = block[at];
      want[at] = static_cast<uint8_t>(kept[at] - static_cast<int>(expected));
    };
    uint64_t at = 0;
    for (uint32_t layer = 0; layer < kv.layers; ++layer) {
      for (uint32_t row = 0; row < kv.kv_heads * kv.head_dim; ++row) {
        double expected = 0;
        for (uint32_t i = 0; i < T * elem; ++i, ++at) {
          expect(at, i / elem, expected);
          const double d = want[at] < 128 ? want[at] : want[at] - 256.0;
          if (int8) expected = i == 0 ? want[at] : std::fmod(expected + std::floor(d / 2) + 256, 256);
        }
      }
      for (uint32_t head = 0; head < kv.kv_heads; ++head) {
        for (uint32_t i = 0; i < T * kv.head_dim * elem; ++i, ++at) expect(at, i / (kv.head_dim * elem), 0);
      }
      for (uint32_t i = 0; scaled && i < 2 * kv.kv_heads * T * 2; ++i, ++at) expect(at, i / 2 % T, 0);
    }
    ASSERT_EQ(at, block.size());
    to_payload(kv, payload, filled);
    EXPECT_EQ(payload, want) << filled << " tokens";
    from_payload(kv, payload);
    EXPECT_EQ(payload, kept) << filled << " tokens";
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, KvLayout, testing::ValuesIn(kKvFormats));

}  // namespace
}  // namespace kvrt
