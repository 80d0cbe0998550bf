// What stands at a place of a block table.
#include "runtime/kv/place.h"

#include <gtest/gtest.h>

#include "runtime/kv/block_table.h"

namespace kvrt {
namespace {

TEST(Place, IsABlockOrAHoleInFourBytes) {
  const Place block(7), last(kPoolBlocksMax - 1);
  EXPECT_EQ(sizeof(Place), 4u);
  EXPECT_FALSE(block.is_hole());
  EXPECT_EQ(block.block(), 7);
  EXPECT_EQ(last.block(), static_cast<BlockId>(kPoolBlocksMax - 1));
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

}  // namespace
}  // namespace kvrt
