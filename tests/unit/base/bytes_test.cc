#include "runtime/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvrt {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedSize, RemembersAnyOverflow) {
  uint64_t out = 77;
  EXPECT_TRUE((CheckedSize(3) * 5 + 2).get(17, &out));
  EXPECT_EQ(out, 17u);
  EXPECT_FALSE((CheckedSize(3) * 5 + 2).get(16, &out));
  EXPECT_FALSE((CheckedSize(kMax) + 1).ok());
  EXPECT_FALSE((CheckedSize(uint64_t{1} << 32) * (uint64_t{1} << 32)).ok());
  EXPECT_FALSE(((CheckedSize(kMax) + 1) * 0).get(kMax, &out)) << "an overflow that wraps to a small value stays one";
  EXPECT_FALSE((CheckedSize(1) + (CheckedSize(kMax) * 2)).ok());
}

TEST(CheckedSize, Align) {
  uint64_t out = 0;
  EXPECT_TRUE(CheckedSize(0).align(32).get(kMax, &out) && out == 0);
  EXPECT_TRUE(CheckedSize(1).align(32).get(kMax, &out) && out == 32);
  EXPECT_TRUE(CheckedSize(32).align(32).get(kMax, &out) && out == 32);
  EXPECT_TRUE(CheckedSize(33).align(32).get(kMax, &out) && out == 64);
  EXPECT_FALSE(CheckedSize(kMax - 3).align(32).ok());
}

TEST(ByteReader, NothingIsReadPastTheEnd) {
  const uint8_t data[] = {1, 2, 3, 4, 5};
  ByteReader in(data);
  uint32_t a = 0;
  ASSERT_TRUE(in.read(&a));
  EXPECT_EQ(a, 0x04030201u);
  uint16_t b = 9;
  EXPECT_FALSE(in.read(&b));
  EXPECT_EQ(b, 9u);
  EXPECT_EQ(in.position(), 4u);
  std::span<const uint8_t> rest;
  EXPECT_FALSE(in.read_bytes(kMax, &rest));
  EXPECT_FALSE(in.skip(2));
  ASSERT_TRUE(in.read_bytes(1, &rest));
  EXPECT_EQ(rest[0], 5);
  EXPECT_EQ(in.remaining(), 0u);
  EXPECT_TRUE(in.skip(0));
}

TEST(ByteWriter, ReadsBack) {
  ByteWriter w;
  w.write(uint8_t{7});
  w.write(-2.5f);
  w.write_string("xyz");
  const uint8_t want[] = {7, 0, 0, 0x20, 0xc0, 3, 0, 0, 0, 'x', 'y', 'z'};
  EXPECT_EQ(w.bytes(), std::vector<uint8_t>(want, want + sizeof want));
}

}  // namespace
}  // namespace kvrt
