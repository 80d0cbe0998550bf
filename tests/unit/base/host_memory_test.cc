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
  EXPECT_TRUE(check_memory("a buffer", 0).is_ok());
  EXPECT_TRUE(check_memory("a buffer", available_memory() / 2).is_ok());
  const Status refused = check_memory("a buffer", uint64_t{1} << 50);
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  EXPECT_TRUE(refused.message().starts_with("a buffer: 1125899906842624 bytes of memory, ")) << refused.message();
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
