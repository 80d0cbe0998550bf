// Sessions of models with windows give their KV up by whole boundaries: what is left of a chain is of use.
#include "storage/catalog/catalog.h"
#include "tests/support/gc_rig.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;

using Masks = std::vector<uint32_t>;

// The rule, position by position: whether computing could go on after `nodes` nodes of 16 tokens.
bool is_boundary(const std::vector<SessionGroup>& groups, const std::vector<NodeChunks>& chain, size_t nodes) {
  std::vector<uint32_t> stored;  // by position
  for (size_t i = 0; i < nodes; i++) stored.insert(stored.end(), chain[i].tokens, chain[i].stored);
  for (const SessionGroup& g : groups) {
    for (size_t p = 0; p < stored.size(); p++) {
      const bool seen = g.window == 0 || p + g.window >= stored.size();
      if (seen && !has_group(stored[p], 0) && !has_group(stored[p], g.group)) return false;
    }
  }
  return true;
}

TEST(FindBoundaries, FindsThoseOfTheRule) {
  uint64_t state = 5;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  size_t found = 0;
  for (int round = 0; round < 2000; round++) {
    std::vector<SessionGroup> groups;
    for (uint32_t group = 1; group < 4; group++) {
      if (random(2) == 0) groups.push_back({group, static_cast<uint32_t>(random(3) == 0 ? 0 : 1 + random(60))});
    }
    std::vector<NodeChunks> chain(random(12));
    for (NodeChunks& node : chain) {
      node.tokens = 1 + random(20);
      node.stored = static_cast<uint32_t>(random(4) == 0 ? random(16) : random(3) == 0 ? 1 : 14);
    }
    const std::vector<bool> boundaries = find_boundaries(groups, chain);
    ASSERT_EQ(boundaries.size(), chain.size() + 1);
    for (size_t i = 0; i <= chain.size(); i++) {
      ASSERT_EQ(boundaries[i], is_boundary(groups, chain, i)) << round << ", " << i;
      found += boundaries[i] && i > 0;
    }
  }
  EXPECT_GT(found, 1000u);
}

class Boundaries : public Gc {
 protected:
  // Saves the chunks that the masks name.
  void save_masks(const std::string& name, const Chain& chain, const std::vector<SessionGroup>& needs, const Masks& masks) {
    auto save = store_->begin_save();
    ASSERT_OK(save.status());
    for (size_t i = 0; i < masks.size(); i++) {
      for (uint32_t group = 0; group < 4; group++) {
        if (!has_group(masks[i], group)) continue;
        ASSERT_OK(put_chunk(save->get(), chain, i, group));
      }
    }
    SessionIn in;
    in.name = name;
    in.id = session_id(next_id_++);
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    in.groups = needs;
    ASSERT_OK((*save)->commit(in).status());
  }
  // One eviction; what is left of the chain.
  Masks evict(const Chain& chain, uint64_t bytes, Evicted* evicted, const ChunkKeys& counted_on = {}) {
    store_.reset();
    {
      Catalog catalog;
      EXPECT_OK(catalog.db.open(root() + "/catalog.db", {}));
      auto done = catalog.evict({"", "new", 0, 0, counted_on}, bytes, [] { return true; });
      EXPECT_OK(done.status());
      *evicted = *done;
      EXPECT_OK(catalog.db.close(true));
    }
    open();
    expect_clean();
    return store_->find(chain.nodes);
  }
  static Masks first(size_t n) { return Masks(kMasks, kMasks + n); }
  std::string used(const std::string& name) {
    return sql_rows(root() + "/catalog.db", "SELECT used FROM sessions WHERE name = '" + name + "'");
  }

  // 10 blocks, group 1 without a window; group 2 with one, kept twice at the end and once after 5 blocks.
  static constexpr uint32_t kMasks[] = {2, 2, 2, 6, 6, 2, 2, 6, 6, 6};
  const std::vector<SessionGroup> needs_{{1, 0}, {2, 20}};
  Chain chain_{token_run(160)};
  Evicted evicted_;
};

TEST_F(Boundaries, WhatIsLeftEndsAtOne) {
  const auto padded = [](size_t n) {
    Masks masks = first(n);
    masks.resize(10);
    return masks;
  };
  save_masks("ann", chain_, needs_, first(10));
  const std::string place = used("ann");
  EXPECT_EQ(evict(chain_, 1, &evicted_), padded(9));
  EXPECT_EQ(evicted_.sessions, 1u);
  EXPECT_EQ(evicted_.chunks, 2u);
  EXPECT_EQ(used("ann"), place) << "it is the next one again";
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 2u);
  EXPECT_EQ(evict(chain_, 1, &evicted_), padded(5)) << "the windows of 8, 7 and 6 blocks are not there";
  EXPECT_EQ(evicted_.chunks, 6u);
  EXPECT_EQ(evict(chain_, 1, &evicted_), padded(0));
  EXPECT_EQ(evicted_.chunks, 7u);
  EXPECT_EQ(used("ann"), "0|\n");
  EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
  EXPECT_EQ(evict(chain_, 1, &evicted_), padded(0));
  EXPECT_EQ(evicted_.sessions, 0u);
}

TEST_F(Boundaries, AsManyGoAsTheRoomTakes) {
  save_masks("ann", chain_, needs_, first(10));
  const uint64_t all = store_->info()->chunk_bytes;
  const uint64_t three = test::chunk_bytes(store_.get(), chain_.nodes[9].key) + test::chunk_bytes(store_.get(), chain_.nodes[8].key);
  const Masks left = evict(chain_, three, &evicted_);
  EXPECT_EQ(evicted_.chunks, 8u) << "two nodes are enough, but for the boundary";
  EXPECT_EQ(left[5], 0u);
  EXPECT_EQ(evict(chain_, all, &evicted_), Masks(10));
}

// Without a window a boundary is every node; with nothing but windows, those whose windows are there.
TEST_F(Boundaries, OfOtherModels) {
  const Chain plain(token_run(160, 2)), narrow(token_run(160, 3));
  save_masks("plain", plain, {{1, 0}, {2, 0}}, Masks(10, 6));
  Masks want(10, 6);
  want[9] = 0;
  EXPECT_EQ(evict(plain, 1, &evicted_), want);
  ASSERT_OK(store_->remove("", "plain"));
  save_masks("narrow", narrow, {{0, 16}}, {0, 1, 0, 0, 1, 0, 0, 0, 1, 1});
  EXPECT_EQ(evict(narrow, 1, &evicted_), (Masks{0, 1, 0, 0, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(evict(narrow, 1, &evicted_), (Masks{0, 1, 0, 0, 1, 0, 0, 0, 0, 0})) << "and so ends at an earlier one";
  EXPECT_EQ(evict(narrow, 1, &evicted_), (Masks{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(evict(narrow, 1, &evicted_), Masks(10));
}

TEST_F(Boundaries, ASessionWithoutGroupsLosesAll) {
  save_masks("ann", chain_, {}, first(10));
  EXPECT_EQ(evict(chain_, 1, &evicted_), Masks(10));
}

// Others' chunks stay, wherever that leaves this chain.
TEST_F(Boundaries, WhatOthersNeedStays) {
  save_masks("ann", chain_, needs_, first(10));
  const Chain fork(token_run(7 * 16 + 5));  // the first 7 blocks, and a tail
  save_masks("bob", fork, needs_, {0, 0, 0, 0, 0, 4, 4, 6});
  EXPECT_EQ(used("ann"), "1|\n");
  Masks want(kMasks, kMasks + 10);
  want[5] = want[6] = 6;
  want[7] = want[8] = want[9] = 0;
  EXPECT_EQ(evict(chain_, 1 << 30, &evicted_, {{fork.nodes[7].key, 1}}), want);
  EXPECT_EQ(store_->stat("", "bob")->chunks_missing, 0u);
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 3u + 2u);
}

// A hole in the full KV: what lies behind it goes first, up to a boundary before the hole.
TEST_F(Boundaries, KvBehindAHoleGoesFirst) {
  Masks masks = first(10);
  masks[6] = 0;
  save_masks("ann", chain_, needs_, masks);
  masks.resize(5);
  masks.resize(10);
  EXPECT_EQ(evict(chain_, 1, &evicted_), masks);
}

}  // namespace
}  // namespace kvrt
