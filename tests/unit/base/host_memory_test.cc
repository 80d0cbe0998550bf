#include "runtime/base/host_memory.h"

#include <gtest/gtest.h>

#include "runtime/base/memory.h"

namespace kvrt {
namespace {

TEST(HostMemory, TooMuchIsAStatus) {
  for (const uint64_t bytes : {uint64_t{1} << 60, UINT64_MAX}) {
    const auto mapped = HostMemory::map(bytes, true);
    ASSERT_FALSE(mapped.is_ok());
    EXPECT_EQ(mapped.status().code(), Code::kNoMemory);
  }
}

TEST(Memory, MoreThanThereIsIsRefused) {
  EXPECT_TRUE(check_memory("a buffer", 0, "").is_ok());
  EXPECT_TRUE(check_memory("a buffer", available_memory() / 2, "").is_ok());
  const Status refused = check_memory("a buffer", uint64_t{1} << 50, "ask for less");
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  EXPECT_TRUE(refused.message().starts_with("a buffer: 1048576.00 GiB of memory, ")) << refused.message();
  EXPECT_TRUE(refused.message().ends_with(" GiB are free: ask for less")) << refused.message();
}

TEST(Memory, GibibytesHaveTwoDigitsBehindThePoint) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_EQ(in_gib(0), "0.00 GiB");
  EXPECT_EQ(in_gib(kGib / 2), "0.50 GiB");
  EXPECT_EQ(in_gib(kGib * 7 + kGib / 16), "7.06 GiB");
  EXPECT_EQ(in_gib(kGib * 2 - (1 << 20)), "2.00 GiB");
  EXPECT_EQ(in_gib(UINT64_MAX), "17179869184.00 GiB");
}

TEST(HostMemory, MovesLeaveNothingBehind) {
  auto mapped = HostMemory::map(10000, true);
  ASSERT_TRUE(mapped.is_ok());
  HostMemory a = std::move(mapped).value();
  a.data()[9999] = 5;
  HostMemory b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the state after a move is the point
  EXPECT_EQ(b.data()[9999], 5);
  HostMemory none;
  none = std::move(b);
  EXPECT_EQ(none.bytes(), 10000u);
  auto empty = HostMemory::map(0, true);
  ASSERT_TRUE(empty.is_ok());
  EXPECT_EQ(empty->bytes(), 0u);
}

}  // namespace
}  // namespace kvrt
