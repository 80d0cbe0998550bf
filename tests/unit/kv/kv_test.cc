// The bookkeeping of blocks: free ones, their content, their owners.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/kv/block_pool.h"
#include "runtime/kv/block_table.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {
namespace {

BlockKey root_of(uint8_t n) {
  BlockKey root;
  root.bytes.fill(n);
  return root;
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

TEST(PrefixIndex, OneLinkForEqualChains) {
  PrefixIndex index;
  const std::vector<int32_t> a{1, 2, 3}, b{1, 2, 4};
  ChainRef first = index.link(nullptr, root_of(0), a), second = index.link(first, root_of(0), b);
  EXPECT_EQ(first->key, chain_key(root_of(0), a));
  EXPECT_EQ(second->key, chain_key(first->key, b));
  EXPECT_EQ(index.link(nullptr, root_of(0), a), first);
  EXPECT_EQ(index.link(first, root_of(0), b), second);
  EXPECT_NE(index.link(nullptr, root_of(1), a), first) << "another root";
  EXPECT_NE(index.link(nullptr, root_of(0), b), second) << "nothing before it";
  EXPECT_NE(index.link(second, root_of(0), b), second) << "something else before it";
}

TEST(PrefixIndex, HitsWhatHasTheSameTokensUpToTheRoot) {
  PrefixIndex index;
  const std::vector<int32_t> a{1, 2, 3}, b{1, 2, 4};
  ChainRef link = index.link(nullptr, root_of(0), a), other = index.link(nullptr, root_of(0), b);
  EXPECT_EQ(index.lookup(link), kNoBlock);
  ASSERT_TRUE(index.insert(7, link));
  EXPECT_FALSE(index.insert(8, link));
  EXPECT_EQ(index.lookup(index.link(nullptr, root_of(0), a)), 7);
  EXPECT_EQ(index.lookup(other), kNoBlock);
  ASSERT_TRUE(index.insert(8, index.link(link, root_of(0), b)));
  index.erase(7);  // a hole: blocks after it are still found
  EXPECT_EQ(index.lookup(link), kNoBlock);
  EXPECT_EQ(index.lookup(index.link(link, root_of(0), b)), 8);
  EXPECT_EQ(index.size(), 1u);
}

TEST(PrefixIndex, ForgetsLinksThatNobodyHolds) {
  PrefixIndex index;
  const ChainRef kept = index.link(nullptr, root_of(0), std::vector<int32_t>{-1});
  std::weak_ptr<ChainLink> dropped;
  for (int32_t i = 0; i < 1000; ++i) dropped = index.link(kept, root_of(0), std::vector<int32_t>{i});
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(index.link(nullptr, root_of(0), std::vector<int32_t>{-1}), kept);
}

TEST(PrefixIndex, DropsALongChain) {
  PrefixIndex index;
  ChainRef last;
  for (int32_t i = 0; i < 250'000; ++i) last = index.link(last, root_of(0), std::vector<int32_t>{i});
  const std::weak_ptr<ChainLink> first_but_one = last->before;
  last.reset();
  EXPECT_TRUE(first_but_one.expired());
}

TEST(PrefixIndex, SaysWhereSiblingsPart) {
  PrefixIndex index;
  const BlockKey root = root_of(0);
  index.insert(0, index.link(nullptr, root, std::vector<int32_t>{1, 2, 3, 4}));
  index.insert(1, index.link(nullptr, root, std::vector<int32_t>{1, 9, 9, 9}));
  const std::vector<int32_t> probe{1, 2, 3, 5};
  EXPECT_EQ(index.shared_with_sibling(nullptr, root, probe), 3u);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(5), probe), std::nullopt);
  index.erase(0);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root, probe), 1u);
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
