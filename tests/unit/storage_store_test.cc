#include <thread>

#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

TEST(Store, RoundTripAcrossReopen) {
  TempDir tmp;
  Chain chain(token_run(100));  // 6 blocks and a tail of 4
  {
    auto store = open_store(tmp.path() + "/s");
    ASSERT_OK(store.status());
    auto gen = save_chain(store->get(), "ann", chain);
    ASSERT_OK(gen.status());
    EXPECT_EQ(*gen, 1u);
    EXPECT_EQ(readable_chunks(store->get(), chain), 7u);
  }
  auto store = open_store(tmp.path() + "/s");
  ASSERT_OK(store.status());
  auto loaded = (*store)->load("", "ann");
  ASSERT_OK(loaded.status());
  EXPECT_EQ(loaded->tokens, chain.tokens);
  EXPECT_EQ(loaded->gen, 1u);
  EXPECT_EQ(loaded->id, session_id(1));
  EXPECT_EQ(loaded->root, chain.root);
  EXPECT_EQ(loaded->block_tokens, Chain::kBlock);
  EXPECT_EQ(std::string(loaded->manifest.begin(), loaded->manifest.end()), "manifest");
  ASSERT_EQ(loaded->keys.size(), 7u);
  for (size_t i = 0; i < 7; i++) EXPECT_EQ(loaded->keys[i], chain.nodes[i].key);
  EXPECT_EQ(loaded->node_tokens.back(), 4u);
  EXPECT_EQ(readable_chunks(store->get(), chain), 7u);
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
}

}  // namespace
}  // namespace kvrt
