#include "runtime/compute/cpu_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvrt {
namespace {

bool all_equal(const HostPiece& piece, uint8_t value) {
  return std::all_of(piece.data, piece.data + piece.bytes, [value](uint8_t b) { return b == value; });
}

TEST(HostArena, PiecesAreZeroedAlignedApartAndOutliveTheArena) {
  std::vector<HostPiece> pieces;
  {
    HostArena arena;
    uint8_t mark = 1;
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, uint64_t{4096}, uint64_t{3} << 20, uint64_t{9} << 20, uint64_t{64},
                                 uint64_t{4} << 20, uint64_t{4} << 20, uint64_t{4} << 20, uint64_t{4} << 20, uint64_t{70000}}) {
      auto piece = arena.take(bytes);
      ASSERT_TRUE(piece.is_ok()) << piece.status().message();
      EXPECT_EQ(piece->bytes, bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece->data) % 64, 0u);
      EXPECT_TRUE(all_equal(*piece, 0));
      std::fill_n(piece->data, bytes, mark++);
      pieces.push_back(std::move(piece).value());
    }
  }
  uint8_t mark = 1;
  for (const HostPiece& piece : pieces) EXPECT_TRUE(all_equal(piece, mark++));
}

TEST(HostArena, TooMuchIsAStatusAndTheArenaGoesOn) {
  HostArena arena;
  for (const uint64_t bytes : {uint64_t{1} << 60, UINT64_MAX}) {
    const auto piece = arena.take(bytes);
    ASSERT_FALSE(piece.is_ok());
    EXPECT_EQ(piece.status().code(), Code::kNoMemory);
  }
  EXPECT_TRUE(arena.take(1000).is_ok());
}

TEST(HostMemory, MovesLeaveNothingBehind) {
  auto mapped = HostMemory::map(10000, true);
  ASSERT_TRUE(mapped.is_ok());
  HostMemory a = std::move(mapped).value();
  a.data()[9999] = 5;
  HostMemory b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: what a move leaves is the point
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
