// What stands at a place of a block table.
#include "runtime/kv/place.h"

#include <gtest/gtest.h>

#include "runtime/kv/block_table.h"

namespace kvrt {
namespace {

TEST(Place, IsABlockOrAHoleInFourBytes) {
  const Place block(7), last(kPoolBlocksMax - 1), part(3, Hole::kDamaged);
  EXPECT_EQ(sizeof(Place), 4u);
  EXPECT_FALSE(block.is_hole());
  EXPECT_EQ(block.block(), 7);
  EXPECT_EQ(last.block(), static_cast<BlockId>(kPoolBlocksMax - 1));
  EXPECT_FALSE(part.is_hole());
  EXPECT_EQ(part.block(), 3);
  EXPECT_EQ(part.why(), Hole::kDamaged);
  EXPECT_EQ(Place(), Place(kNoBlock));
  EXPECT_TRUE(Place().is_hole());
  EXPECT_EQ(Place().block(), kNoBlock);
  EXPECT_EQ(Place().why(), Hole::kNeverComputed);
}

TEST(BlockTable, CountsItsBlocksAndKnowsTheFirst) {
  BlockTable table(16);
  EXPECT_EQ(table.first(), 0u);
  table.grow(4);
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table.blocks_held(), 0u);
  table.set(2, 5, 16);
  EXPECT_EQ(table.first(), 2u);
  table.set(1, 6, 16);
  table.set(5, 9, 3);  // grows
  EXPECT_EQ(table.size(), 6u);
  EXPECT_EQ(table.first(), 1u);
  EXPECT_EQ(table.blocks_held(), 3u);
  EXPECT_EQ(table.block(1), 6);
  EXPECT_EQ(table.block(3), kNoBlock);
  EXPECT_EQ(table.filled(5), 3u);
  EXPECT_EQ(table.block(6), kNoBlock) << "past its end";
  EXPECT_EQ(table.filled(6), 0u);
  table.set(1, kNoBlock, 0);
  EXPECT_EQ(table.first(), 2u);
  table.shrink(3);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.blocks_held(), 1u);
  table.set(2, kNoBlock, 0);
  EXPECT_EQ(table.first(), 3u) << "it has no block";
  table.shrink(0);
  EXPECT_EQ(table.first(), 0u);
}

TEST(Place, OfAHoleSaysWhy) {
  for (const Hole why :
       {Hole::kNeverComputed, Hole::kBehindWindow, Hole::kNotStored, Hole::kEvicted, Hole::kOtherNumerics, Hole::kDamaged}) {
    const Place hole(why);
    EXPECT_TRUE(hole.is_hole());
    EXPECT_EQ(hole.why(), why);
    EXPECT_EQ(hole.block(), kNoBlock);
    EXPECT_EQ(hole == Place(), why == Hole::kNeverComputed);
  }
}

TEST(BlockTable, APlaceKeepsTheStrongestReason) {
  BlockTable table(16);
  table.lacks(1, Hole::kNotStored);  // grows
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.place(0), Place());
  EXPECT_EQ(table.place(1), Place(Hole::kNotStored));
  table.lacks(1, Hole::kDamaged);
  table.lacks(1, Hole::kEvicted);
  EXPECT_EQ(table.place(1), Place(Hole::kDamaged));
  EXPECT_EQ(table.block(1), kNoBlock);
  EXPECT_EQ(table.blocks_held(), 0u);
  table.set(1, 4, 16);
  table.lacks(1, Hole::kDamaged);
  EXPECT_EQ(table.place(1), Place(4)) << "it lacks nothing";
  table.lose(1, Hole::kEvicted);
  EXPECT_EQ(table.place(1), Place(Hole::kEvicted));
  EXPECT_EQ(table.filled(1), 0u);
  table.say(1, Hole::kBehindWindow);
  EXPECT_EQ(table.place(1), Place(Hole::kBehindWindow));
}

// A block that has no KV yet, or of its first tokens only: why there is not more is known as before.
TEST(BlockTable, ABlockTakesNoReasonAway) {
  BlockTable table(16);
  table.lacks(1, Hole::kEvicted);
  table.set(1, 4, 0);
  EXPECT_EQ(table.place(1), Place(4, Hole::kEvicted));
  table.lose(1, Hole::kNeverComputed);
  EXPECT_EQ(table.place(1), Place(Hole::kEvicted)) << "it had no KV";
  table.set(1, 5, 10);
  EXPECT_EQ(table.place(1), Place(5, Hole::kEvicted));
  table.set_filled(1, 4);
  EXPECT_EQ(table.place(1), Place(5, Hole::kEvicted));
  table.set_filled(1, 6);
  EXPECT_EQ(table.place(1), Place(5)) << "computed: what follows is new";
  table.lose(1, Hole::kBehindWindow);
  EXPECT_EQ(table.place(1), Place(Hole::kBehindWindow));
  table.shrink(1);
  table.grow(2);
  EXPECT_EQ(table.place(1), Place()) << "another place";
}

}  // namespace
}  // namespace kvrt
