// The bookkeeping of blocks: free ones, their content, their owners.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/base/block_items.h"
#include "runtime/kv/kv_cache.h"

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
  pool.unref(b, Keep::kCached);
  pool.unref(a, Keep::kCached);
  pool.unref(c, Keep::kNot);
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
  pool.unref(b, Keep::kNot);
  EXPECT_EQ(pool.free_count(), 0u);
  pool.unref(b, Keep::kNot);
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

std::vector<uint8_t> item(uint16_t row, uint8_t tag) {
  std::vector<uint8_t> items;
  append_item({row, tag, {}}, &items);
  return items;
}

TEST(PrefixIndex, OtherItemsAreAnotherLink) {
  PrefixIndex index;
  const std::vector<int32_t> a{1, 2};
  const ChainRef bare = index.link(nullptr, root_of(0), a), with = index.link(nullptr, root_of(0), a, nullptr, item(1, 5));
  EXPECT_EQ(bare->key, chain_key(root_of(0), a));
  EXPECT_EQ(with->key, chain_key(root_of(0), a, item(1, 5)));
  EXPECT_NE(with, bare);
  EXPECT_EQ(index.link(nullptr, root_of(0), a, nullptr, item(1, 5)), with);
  EXPECT_NE(index.link(nullptr, root_of(0), a, nullptr, item(1, 6)), with);
  EXPECT_NE(index.link(nullptr, root_of(0), a, nullptr, item(0, 5)), with);
  EXPECT_NE(index.link(nullptr, root_of(0), a, &with->key), with) << "keys that collide are a miss";
  EXPECT_NE(index.link(nullptr, root_of(0), a, &bare->key, item(1, 5)), bare);
}

TEST(PrefixIndex, SiblingsPartAtAnItem) {
  PrefixIndex index;
  const std::vector<int32_t> a{1, 2, 3, 4}, probe{1, 2, 3, 5};
  index.insert(0, index.link(nullptr, root_of(0), a, nullptr, item(2, 5)));
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), probe), 2u);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), probe, item(2, 5)), 3u);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), probe, item(1, 5)), 1u);
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

TEST(BlockPool, ABlockOfSeveralUnitsComesAndGoesWhole) {
  BlockPool pool(5);
  const BlockId a = pool.alloc(3);
  EXPECT_EQ(pool.units(a), 3u);
  EXPECT_EQ(pool.free_count(), 2u);
  EXPECT_EQ(pool.alloc(3), kNoBlock);
  EXPECT_EQ(pool.free_count(), 2u);
  pool.unref(a, Keep::kCached);
  EXPECT_EQ(pool.cached_count(), 3u);
  EXPECT_EQ(pool.window_count(), 0u);
  pool.evict(a);
  EXPECT_EQ(pool.free_count(), 5u);
}

TEST(BlockPool, OfTwoLrusTheOlderBlockIsTheOldest) {
  BlockPool pool(6);
  const BlockId a = pool.alloc(), b = pool.alloc(2), c = pool.alloc(), d = pool.alloc(2);
  pool.unref(b, Keep::kCachedWindow);
  pool.unref(d, Keep::kAlong);  // in neither
  pool.unref(a, Keep::kCached);
  pool.unref(c, Keep::kCached);
  EXPECT_EQ(pool.cached_count(), 6u);
  EXPECT_EQ(pool.window_count(), 4u);
  EXPECT_EQ(pool.oldest_cached(), b);
  pool.ref(b);
  EXPECT_EQ(pool.oldest_cached(), a);
  pool.unref(b, Keep::kCachedWindow);
  pool.evict(a);
  EXPECT_EQ(pool.oldest_cached(), c);
  EXPECT_EQ(pool.oldest(Keep::kCachedWindow), b);
  pool.evict(c);
  EXPECT_EQ(pool.oldest_cached(), b);
  EXPECT_EQ(pool.window_count(), 4u);
}

TEST(PrefixIndex, EachGroupHasItsBlockOfALink) {
  PrefixIndex index;
  const ChainRef link = index.link(nullptr, root_of(0), std::vector<int32_t>{1, 2});
  ASSERT_TRUE(index.insert(4, link, 1));
  EXPECT_EQ(index.lookup(link, 0), kNoBlock);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), std::vector<int32_t>{1, 3}), 1u);
  ASSERT_TRUE(index.insert(7, link));
  EXPECT_FALSE(index.insert(8, link, 1));
  index.erase(4);
  EXPECT_EQ(index.lookup(link, 0), 7);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), std::vector<int32_t>{1, 3}), 1u);
  index.erase(7);
  EXPECT_EQ(index.shared_with_sibling(nullptr, root_of(0), std::vector<int32_t>{1, 3}), std::nullopt);
}

TEST(KvSequence, FindsHolesInOrder) {
  KvSequence kv(16);
  BlockTable& table = kv.tables[0];
  const auto run = [&](uint64_t n) {
    const KvRun next = kv.next_run(n);
    return std::vector<uint64_t>{next.begin, next.end, next.stores};
  };
  EXPECT_EQ(run(40), (std::vector<uint64_t>{0, 40, 1}));
  table.set(0, 3, 16);
  table.set(2, 5, 8);
  EXPECT_EQ(run(40), (std::vector<uint64_t>{16, 32, 1}));  // the third block has KV already
  EXPECT_EQ(kv.ready(40), 16u);
  EXPECT_EQ(kv.reusable(40), 24u);
  EXPECT_EQ(kv.reusable(35), 19u);
  EXPECT_EQ(table.blocks_held(), 2u);
  table.set(1, 4, 16);
  EXPECT_EQ(run(40), (std::vector<uint64_t>{39, 40, 0}));
  EXPECT_EQ(run(41), (std::vector<uint64_t>{40, 41, 1}));
  EXPECT_EQ(kv.ready(40), 40u);
  table.shrink(1);
  EXPECT_EQ(kv.ready(40), 16u);
  EXPECT_EQ(table.block(2), kNoBlock);
}

TEST(KvShape, CountsBlocks) {
  KvShape shape(32);
  shape.n_groups = 2;
  shape.groups = {{{0, 1}, {512, 5}}};  // Gemma 3 270M: three layers that see everything, fifteen with a window
  EXPECT_EQ(shape.tables(), 6u);
  EXPECT_EQ(shape.blocks_for(0, 8000), 250u);
  EXPECT_EQ(shape.blocks_for(1, 8000), 33u);  // two windows and a block
  EXPECT_EQ(shape.blocks_for(1, 40), 2u);
  EXPECT_EQ(shape.units_for(8000), 250u + 33 * 5);
  EXPECT_LE(static_cast<double>(shape.units_for(8000)), 0.277 * 6 * 250);
  for (const uint64_t units : {5u, 6u, 7u, 100u, 415u, 416u, 3000u}) {
    const uint64_t tokens = shape.tokens_in(units);
    EXPECT_LE(shape.units_for(tokens), units);
    EXPECT_GT(shape.units_for(tokens + 32), units);
  }
  EXPECT_EQ(shape.window_begin(1, 62), 47u);  // positions 1504 to 2015
  EXPECT_EQ(shape.window_begin(1, 3), 0u);
  EXPECT_EQ(KvShape(32).tokens_in(7), 224u);
}

// What next_run has to do, position by position: the nearest place from which each group has what a row sees, before the first position
// that is missing.
struct Plain {
  const KvShape& shape;
  const KvSequence& kv;
  bool has(uint32_t g, uint64_t p) const {
    return p % shape.block_tokens < kv.tables[g].filled(static_cast<uint32_t>(p / shape.block_tokens));
  }
  bool usable(uint64_t at) const {
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      const uint64_t window = shape.groups[g].window;
      for (uint64_t p = window > 0 && at >= window ? at - window + 1 : 0; p < at; ++p) {
        if (!has(g, p)) return false;
      }
    }
    return true;
  }
  KvRun next_run(uint64_t n) const {
    uint64_t hole = n;
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      const uint64_t window = shape.groups[g].window;
      for (uint64_t p = window > 0 && n > window ? n - window : 0; p < n; ++p) {
        if (!has(g, p)) hole = std::min(hole, p);
      }
    }
    if (hole == n) return {n - 1, n, 0};
    KvRun run{hole, 0, 0};
    while (!usable(run.begin)) --run.begin;
    for (uint32_t g = 0; g < shape.n_groups; ++g) run.stores |= has(g, run.begin) ? 0 : 1u << g;
    for (run.end = run.begin + 1; run.end < n; ++run.end) {
      uint32_t lacks = 0;
      for (uint32_t g = 0; g < shape.n_groups; ++g) lacks |= has(g, run.end) ? 0 : 1u << g;
      if (lacks != run.stores) break;
    }
    return run;
  }
};

TEST(KvSequence, PlansWhatARowSees) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    KvShape shape(4);
    shape.n_groups = 1 + below(3);
    uint32_t window = below(2) ? 0 : 1 + below(9);
    for (uint32_t g = 0; g < shape.n_groups; ++g, window += 1 + below(9)) shape.groups[g].window = window;
    KvSequence kv(shape);
    const uint64_t n = 1 + below(60);
    for (BlockTable& table : kv.tables) {
      const uint32_t most = static_cast<uint32_t>((n + 3) / 4);
      for (uint32_t i = 0; i < most; ++i) {
        if (below(8) == 0) continue;
        table.set(i, 1, static_cast<uint32_t>(std::min<uint64_t>(n - uint64_t{i} * 4, below(6) ? 4 : below(5))));
      }
    }
    for (int runs = 0;; ++runs) {
      const KvRun want = Plain{shape, kv}.next_run(n), have = kv.next_run(n);
      ASSERT_EQ(have.begin, want.begin);
      ASSERT_EQ(have.end, want.end);
      ASSERT_EQ(have.stores, want.stores);
      if (runs == 0) {
        uint64_t reused = n;
        for (const KvRun& run : kv.runs(n)) reused -= run.end - run.begin;
        ASSERT_EQ(kv.reusable(n), reused);
      }
      if (have.stores == 0) break;
      ASSERT_LT(runs, 60);
      const uint64_t end = have.begin + 1 + below(static_cast<uint32_t>(have.end - have.begin));  // a step may take a part of it
      for (uint32_t g = 0; g < shape.n_groups; ++g) {
        for (uint64_t p = have.begin; (have.stores >> g & 1) && p < end; ++p) kv.tables[g].set(static_cast<uint32_t>(p / 4), 1, p % 4 + 1);
      }
    }
  }
}

// Groups without a window are asked at their first hole, windows from where computing goes on.
TEST(KvSequence, SaysWhyComputingGoesOnThere) {
  KvShape shape(4);
  shape.n_groups = 2;
  shape.groups = {{{0, 1}, {6, 1}}};
  KvSequence kv(shape);
  EXPECT_EQ(kv.why(0, 20), Hole::kNeverComputed);
  for (uint32_t i = 0; i < 4; ++i) kv.tables[0].set(i, static_cast<BlockId>(i), 4);
  kv.tables[1].set(0, 7, 4);
  kv.lacks(1, 3, Hole::kBehindWindow);  // the first group has that block
  kv.lacks(2, 2, Hole::kEvicted);
  kv.lacks(4, 1, Hole::kDamaged);
  kv.lacks(5, 3, Hole::kOtherNumerics);
  EXPECT_EQ(kv.restart(16), 4u);
  EXPECT_EQ(kv.why(4, 16), Hole::kEvicted);
  EXPECT_EQ(kv.why(4, 8), Hole::kBehindWindow);
  EXPECT_EQ(kv.why(16, 20), Hole::kDamaged) << "what windows lack there does not matter";
  EXPECT_EQ(kv.why(4, 20), Hole::kDamaged);
  EXPECT_EQ(kv.why(4, 24), Hole::kDamaged) << "not what is past the first hole";
  kv.roll_holes(15);
  EXPECT_EQ(kv.why(4, 16), Hole::kBehindWindow);
  EXPECT_EQ(kv.why(4, 20), Hole::kDamaged) << "no window";
}

TEST(KvCache, HolesSayWhyAndAForkHasThem) {
  KvCache cache(8, 4);
  KvSequence s(4);
  const std::vector<int32_t> tokens(16, 7);
  for (uint32_t i = 0; i < 3; ++i) cache.replace(&s, 0, i, cache.alloc(s), 4);
  s.tables[0].set_filled(2, 0);  // a step that never ran
  s.lacks(3, 1, Hole::kDamaged);
  cache.release(&s, 1, Hole::kEvicted);
  const auto places = [](const KvSequence& kv) {
    std::vector<Place> all;
    for (uint32_t i = 0; i < kv.tables[0].size(); ++i) all.push_back(kv.tables[0].place(i));
    return all;
  };
  const std::vector<Place> want{s.tables[0].block(0), Hole::kEvicted, Hole::kNeverComputed, Hole::kDamaged};
  EXPECT_EQ(places(s), want);
  KvSequence fork(s);
  cache.share(fork);
  EXPECT_EQ(places(fork), want);
  EXPECT_EQ(cache.refs(want[0].block()), 2u);
  cache.cut(&fork, 9);
  EXPECT_EQ(fork.tables[0].size(), 3u);
  cache.release(&fork, 0);
  cache.release(&s, 0);
  EXPECT_EQ(cache.used_count(), 0u);
  EXPECT_EQ(places(s).back(), Place(Hole::kDamaged)) << "as long as nobody fills it";
}

// Of boundaries that find no room those go first that nothing but the count of tokens made.
TEST(KvCache, BoundariesThatAreOnlyDueGoFirst) {
  KvShape shape(4);
  shape.n_groups = 2;
  shape.groups = {{{0, 1}, {4, 1}}};
  KvCache cache(20, shape);  // of which boundaries have a quarter
  KvSequence s(shape);
  s.root = root_of(1);
  std::vector<int32_t> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  for (uint64_t end = 8; end <= tokens.size(); end += 4) cache.boundaries().mark_due(&s, end);
  cache.boundaries().mark(&s, 4);
  cache.boundaries().mark(&s, 12);
  for (uint32_t i = 0; i < 10; ++i) {
    for (uint32_t group = 0; group < 2; ++group) {
      const BlockId block = cache.alloc(s, group);
      ASSERT_NE(block, kNoBlock);
      cache.replace(&s, group, i, block, 4);
      cache.seal(&s, tokens, group, i);
    }
    cache.boundaries().roll(&s, (i + 1) * 4, (i + 1) * 4);
  }
  size_t due = 0;
  for (const ChainRef& link : s.chain) due += link->boundary;
  EXPECT_TRUE(s.chain[0]->boundary);
  EXPECT_TRUE(s.chain[2]->boundary);
  EXPECT_LT(due, 10u) << "there was room for all";
}

}  // namespace
}  // namespace kvrt
