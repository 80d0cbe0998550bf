// A chunk goes between the save that shares it and its commit.
#include <cerrno>

#include "tests/support/gc_rig.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;

class Sharing : public Gc {
 protected:
  void SetUp() override {
    open();
    save("trunk", trunk_);
  }
  SessionIn session(const Chain& chain) {
    SessionIn in;
    in.name = "ann";
    in.id = session_id(99);
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    return in;
  }
  static Status put_all(Store::Save* save, const Chain& chain) {
    for (size_t i = 0; i < chain.nodes.size(); i++) {
      KVRT_TRY(save->put({chain.nodes[i].key, chain.nodes[i].parent, chain.nodes[i].tokens, 1, 2, chain.payloads[i]}));
    }
    return {};
  }
  void expect_refused(Store::Save* save) {
    auto refused = save->commit(session(chain_));
    EXPECT_EQ(refused.status().code(), Code::kBusy);
    EXPECT_EQ(refused.status().detail(), Detail::kConcurrent);
    EXPECT_EQ(store_->load("", "ann").status().code(), Code::kNotFound);
  }
  void expect_saved_without_reuse() {
    auto save = store_->begin_save(false);
    ASSERT_OK(save.status());
    ASSERT_OK(put_all(save->get(), chain_));
    EXPECT_EQ((*save)->chunks_written(), chain_.nodes.size());
    ASSERT_OK((*save)->commit(session(chain_)).status());
    save->reset();
    EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 0u);
    EXPECT_EQ(readable_chunks(store_.get(), chain_), chain_.nodes.size());
    expect_clean();
    expect_no_stray_files();
  }

  Chain trunk_{token_run(64)};
  Chain chain_{token_run(100)};  // grows out of the trunk
};

TEST_F(Sharing, RemovedAfterPut) {
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  ASSERT_OK(put_all(save->get(), chain_));
  EXPECT_EQ((*save)->chunks_written(), 3u);
  ASSERT_OK(store_->remove("", "trunk"));
  expect_refused(save->get());
  save->reset();
  expect_no_stray_files();
  expect_saved_without_reuse();
}

TEST_F(Sharing, RemovedAfterHas) {
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  EXPECT_TRUE((*save)->has(std::span(trunk_.nodes).first(1))[0]);
  ASSERT_OK(store_->remove("", "trunk"));
  EXPECT_FALSE((*save)->has(std::span(trunk_.nodes).first(1))[0]);
  expect_refused(save->get());
}

TEST_F(Sharing, CollectedAfterPut) {
  ASSERT_OK(store_->set_ttl("", "trunk", 1));
  env_.unix_offset_ms = 2000;
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  ASSERT_OK(put_all(save->get(), chain_));
  EXPECT_EQ(gc().sessions_removed, 1u);
  expect_refused(save->get());
  save->reset();
  expect_saved_without_reuse();
}

TEST_F(Sharing, FoundDamagedAfterPut) {
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  ASSERT_OK(put_all(save->get(), chain_));
  auto file = segment_files(root())[0];
  auto bytes = read_file(file);
  bytes[32 + 300] ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(readable_chunks(store_.get(), trunk_), 3u);
  expect_refused(save->get());
}

// A save whose KV is to survive a power cut syncs what it shares. That a segment cannot be opened for want of descriptors does not mean
// that it is synced, or missing.
TEST_F(Sharing, WhatCannotBeSyncedIsNotCalledSynced) {
  const auto synced = [&] { return sql_rows(root() + "/catalog.db", "SELECT synced > 0 FROM segments ORDER BY id"); };
  Chain apart(token_run(30, 5));
  open();
  save_apart("apart", apart);
  ASSERT_EQ(segment_files(root()).size(), 2u);
  SaveOptions o;
  o.id = 99;
  o.durability = Durability::kKv;
  env_.fail_open = [](const std::string& path) {
    return path.ends_with(".seg") ? errno_error(EMFILE, "%s: injected", path.c_str()) : Status();
  };
  auto refused = save_chain(store_.get(), "ann", trunk_, o);
  EXPECT_EQ(refused.status().code(), Code::kIo);
  EXPECT_EQ(refused.status().os_code(), EMFILE);
  env_.fail_open = nullptr;
  EXPECT_EQ(store_->load("", "ann").status().code(), Code::kNotFound);
  EXPECT_EQ(synced(), "0|\n0|\n");
  EXPECT_OK(save_chain(store_.get(), "ann", trunk_, o).status());
  EXPECT_EQ(synced(), "1|\n0|\n");
  open();
  for (const std::string& file : segment_files(root())) fs::rename(file, file + "-");
  o.id = 98;
  EXPECT_OK(save_chain(store_.get(), "bob", apart, o).status()) << "a missing one is a hole for the reader";
  EXPECT_EQ(synced(), "1|\n0|\n");
}

// Another session still has them: no reason to refuse.
TEST_F(Sharing, RemovedButStillThere) {
  save("other", trunk_);
  Chain apart(token_run(30, 5));
  save("apart", apart);
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  ASSERT_OK(put_all(save->get(), chain_));
  ASSERT_OK(store_->remove("", "trunk"));
  ASSERT_OK(store_->remove("", "apart"));
  ASSERT_OK((*save)->commit(session(chain_)).status());
  save->reset();
  EXPECT_EQ(readable_chunks(store_.get(), chain_), chain_.nodes.size());
  expect_clean();
}

}  // namespace
}  // namespace kvrt
