// The bookkeeping of blocks: who is free, what is it, whose is it.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/kv/block_pool.h"
#include "runtime/kv/block_table.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {
namespace {

BlockKey key_of(uint8_t n) {
  BlockKey key;
  key.bytes.fill(n);
  return key;
}

TEST(BlockPool, GivesEveryBlockOnceAndThenNone) {
  BlockPool pool(4);
  std::vector<bool> seen(4);
  for (int i = 0; i < 4; ++i) {
    BlockId b = pool.alloc();
    ASSERT_GE(b, 0);
    EXPECT_FALSE(seen[static_cast<size_t>(b)]);
    seen[static_cast<size_t>(b)] = true;
  }
  EXPECT_EQ(pool.alloc(), kNoBlock);
}

TEST(BlockPool, KeepsCachedBlocksInTheOrderTheyWereLeft) {
  BlockPool pool(3);
  BlockId a = pool.alloc(), b = pool.alloc(), c = pool.alloc();
  pool.unref(b, true);
  pool.unref(a, true);
  pool.unref(c, false);
  EXPECT_EQ(pool.cached_count(), 2u);
  EXPECT_EQ(pool.free_count(), 1u);
  EXPECT_EQ(pool.oldest_cached(), b);
  pool.ref(b);  // taken back: no longer a candidate
  EXPECT_EQ(pool.oldest_cached(), a);
  EXPECT_EQ(pool.refs(b), 1u);
  pool.evict(a);
  EXPECT_EQ(pool.oldest_cached(), kNoBlock);
  EXPECT_EQ(pool.free_count(), 2u);
}

TEST(BlockPool, FreesASharedBlockWithItsLastReference) {
  BlockPool pool(1);
  BlockId b = pool.alloc();
  pool.ref(b);
  pool.unref(b, false);
  EXPECT_EQ(pool.free_count(), 0u);
  pool.unref(b, false);
  EXPECT_EQ(pool.free_count(), 1u);
}

TEST(PrefixIndex, ComparesTokensOnEveryHit) {
  PrefixIndex index;
  std::vector<int32_t> tokens{1, 2, 3}, others{1, 2, 4};
  ASSERT_TRUE(index.insert(7, key_of(1), key_of(0), tokens));
  EXPECT_EQ(index.lookup(key_of(1), tokens), 7);
  EXPECT_EQ(index.lookup(key_of(1), others), kNoBlock);  // a colliding key is a miss, not foreign KV
  EXPECT_EQ(index.lookup(key_of(2), tokens), kNoBlock);
  EXPECT_FALSE(index.insert(8, key_of(1), key_of(0), tokens));
  index.erase(7);
  EXPECT_EQ(index.lookup(key_of(1), tokens), kNoBlock);
  EXPECT_EQ(index.size(), 0u);
}

TEST(PrefixIndex, SaysWhereSiblingsPart) {
  PrefixIndex index;
  std::vector<int32_t> a{1, 2, 3, 4}, b{1, 9, 9, 9};
  index.insert(0, key_of(1), key_of(0), a);
  index.insert(1, key_of(2), key_of(0), b);
  std::vector<int32_t> probe{1, 2, 3, 5};
  EXPECT_EQ(index.shared_with_sibling(key_of(0), probe), 3u);
  EXPECT_EQ(index.shared_with_sibling(key_of(5), probe), std::nullopt);
  index.erase(0);
  EXPECT_EQ(index.shared_with_sibling(key_of(0), probe), 1u);
}

TEST(BlockTable, FindsHolesInOrder) {
  BlockTable table(16);
  EXPECT_EQ(table.first_missing(40), 0u);
  EXPECT_EQ(table.missing_end(0, 40), 40u);
  table.set(0, 3, 16);
  table.set(2, 5, 8);
  EXPECT_EQ(table.first_missing(40), 16u);
  EXPECT_EQ(table.missing_end(16, 40), 32u);  // the third block has KV already
  EXPECT_EQ(table.covered(40), 24u);
  EXPECT_EQ(table.covered(35), 19u);
  EXPECT_EQ(table.blocks_held(), 2u);
  table.set(1, 4, 16);
  EXPECT_EQ(table.first_missing(40), 40u);
  EXPECT_EQ(table.first_missing(41), 40u);
  table.shrink(1);
  EXPECT_EQ(table.first_missing(40), 16u);
  EXPECT_EQ(table.block(2), kNoBlock);
}

}  // namespace
}  // namespace kvrt
