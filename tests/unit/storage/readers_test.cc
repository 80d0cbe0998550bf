// A reader waits for no disk: while a commit is in its sync, the state before it is there, and nothing of the commit. Nor for a list.
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "storage/catalog/catalog.h"
#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class Readers : public testing::Test {
 protected:
  void SetUp() override {
    set_sqlite_faults(&plan_);
    store_ = std::move(*open_store(tmp_.path() + "/s", {}, &env_));
    ASSERT_OK(save_chain(store_.get(), "ann", ann_).status());
  }
  void TearDown() override {
    plan_.on_sync = plan_.on_sqlite_read = nullptr;
    store_.reset();
    set_sqlite_faults(nullptr);
  }

  Status save_bob(Durability durability) {
    SaveOptions options;
    options.id = 2;
    options.durability = durability;
    return save_chain(store_.get(), "bob", bob_, options).take_status();
  }
  void beside_a_sync(const std::function<void()>& write, const std::function<void()>& read) { beside(&plan_.on_sync, write, read); }
  // Does `work` in another thread, and `read` while the first operation that `hook` tells of goes on. That ends after a time by itself, so
  // that a reader that waits for it fails and does not hang.
  void beside(std::function<void()>* hook, const std::function<void()>& work, const std::function<void()>& read) {
    std::promise<void> begun, go_on;
    std::future<void> go = go_on.get_future();
    std::atomic<bool> first{true}, patient{false};
    *hook = [&] {
      if (!first.exchange(false)) return;
      begun.set_value();
      patient = go.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    };
    std::thread worker(work);
    begun.get_future().wait();
    read();
    go_on.set_value();
    worker.join();
    EXPECT_TRUE(patient) << "a reader waited";
    *hook = nullptr;
  }
  // The session that SetUp saved.
  void expect_ann() {
    EXPECT_EQ(readable_chunks(store_.get(), ann_), ann_.nodes.size());
    EXPECT_EQ(store_->find(ann_.nodes), std::vector<uint32_t>(ann_.nodes.size(), 1));
    EXPECT_NE(test::chunk_bytes(store_.get(), ann_.nodes[0].key), 0u);
    auto stat = store_->stat("", "ann");
    ASSERT_OK(stat.status());
    EXPECT_EQ(stat->chunks, ann_.nodes.size());
    auto loaded = store_->load("", "ann");
    ASSERT_OK(loaded.status());
    EXPECT_EQ(loaded->keys.size(), ann_.nodes.size());
    auto info = store_->info();
    ASSERT_OK(info.status());
    EXPECT_GE(info->sessions, 1u);
  }
  size_t sessions() { return store_->list("", false)->size(); }

  TempDir tmp_;
  FaultPlan plan_;
  FaultEnv env_{posix_env(), &plan_};
  const Chain ann_{token_run(64, 1)}, bob_{token_run(64, 2)};
  std::unique_ptr<Store> store_;
};

TEST_F(Readers, DoNotWaitForASave) {
  beside_a_sync([&] { EXPECT_OK(save_bob(Durability::kTokens)); },
                [&] {
                  expect_ann();
                  EXPECT_EQ(sessions(), 1u);
                  EXPECT_EQ(store_->info()->sessions, 1u);
                  EXPECT_EQ(store_->info()->chunks, ann_.nodes.size());
                  EXPECT_EQ(store_->stat("", "bob").status().code(), Code::kNotFound);
                  EXPECT_EQ(readable_chunks(store_.get(), bob_), 0u);
                });
  EXPECT_EQ(sessions(), 2u);
  EXPECT_EQ(readable_chunks(store_.get(), bob_), bob_.nodes.size());
}

TEST_F(Readers, DoNotWaitForARemoval) {
  ASSERT_OK(save_bob(Durability::kNone));
  const auto remove = [&] { EXPECT_OK(store_->remove("", "bob")); };
  beside_a_sync(remove, [&] {
    expect_ann();
    EXPECT_EQ(readable_chunks(store_.get(), bob_), bob_.nodes.size());  // the removal is not committed yet
  });
  EXPECT_EQ(readable_chunks(store_.get(), bob_), 0u);
  EXPECT_EQ(sessions(), 1u);
}

TEST_F(Readers, DoNotWaitForGc) {
  ASSERT_OK(save_bob(Durability::kNone));
  ASSERT_OK(store_->remove("", "bob"));
  beside_a_sync([&] { EXPECT_OK(store_->gc(nullptr).status()); }, [&] { expect_ann(); });
  expect_ann();
}

// Nor does one that finds damage: it forgets the chunk in memory, and the next save brings it.
TEST_F(Readers, ThatFindDamageDoNotWait) {
  const std::string file = segment_files(tmp_.path() + "/s").at(0);
  auto bytes = read_file(file);
  bytes[32 + 300] ^= 1;
  write_file(file, bytes);
  beside_a_sync([&] { EXPECT_OK(save_bob(Durability::kTokens)); },
                [&] {
                  EXPECT_EQ(readable_chunks(store_.get(), ann_), ann_.nodes.size() - 1);
                  EXPECT_FALSE(store_->find(ann_.nodes)[0]);
                });
  EXPECT_EQ(store_->info()->chunks_damaged, 1u);
  SaveOptions options;
  options.revision_seen = 1;
  ASSERT_OK(save_chain(store_.get(), "ann", ann_, &options).status());
  EXPECT_EQ(options.chunks_written, 1u);
  expect_ann();
  EXPECT_TRUE(store_->verify(nullptr)->empty());
}

// A chunk that is forgotten on purpose is forgotten in the catalog: that waits for the writer.
TEST_F(Readers, DiscardWaitsForASave) {
  std::promise<void> begun;
  std::atomic<bool> first{true};
  plan_.on_sync = [&] {
    if (!first.exchange(false)) return;
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  std::thread writer([&] { EXPECT_OK(save_bob(Durability::kTokens)); });
  begun.get_future().wait();
  EXPECT_EQ(store_->discard(ann_.nodes, "of no use"), ann_.nodes.size());
  writer.join();
  plan_.on_sync = nullptr;
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, ann_.nodes.size());
}

// A list may have to walk every chain: no look-up of a step waits for it.
TEST_F(Readers, DoNotWaitForAList) {
  beside(
      &plan_.on_sqlite_read, [&] { EXPECT_EQ(sessions(), 1u); }, [&] { expect_ann(); });
}

// A list whose counts do not hold any more reads a node that many sessions share once.
TEST_F(Readers, AListReadsASharedNodeOnce) {
  constexpr size_t kForks = 20, kTrunk = 50;
  const Chain trunk(token_run(kTrunk * Chain::kBlock, 7));
  for (size_t i = 0; i < kForks; i++) {
    std::vector<int32_t> tokens = trunk.tokens;
    const auto own = token_run(Chain::kBlock, static_cast<int32_t>(100 + i));
    tokens.insert(tokens.end(), own.begin(), own.end());
    SaveOptions o;
    o.id = static_cast<uint8_t>(10 + i);
    ASSERT_OK(save_chain(store_.get(), "fork " + std::to_string(i), Chain(tokens), o).status());
  }
  ASSERT_EQ(store_->discard(std::span(trunk.nodes).first(1), "of no use"), 1u);  // a chunk of them all
  Catalog catalog;
  CatalogDb::OpenMode mode;
  mode.read_only = true;
  ASSERT_OK(catalog.db.open(tmp_.path() + "/s/catalog.db", mode));
  size_t statements = 0;
  const auto count = [](unsigned, void* n, void*, void*) { return ++*static_cast<size_t*>(n), 0; };
  sqlite3_trace_v2(catalog.db.sql()->handle(), SQLITE_TRACE_STMT, count, &statements);
  auto list = catalog.sessions.list("", true, 1);
  ASSERT_OK(list.status());
  ASSERT_EQ(list->size(), 1 + kForks);
  EXPECT_LT(statements, 2 * (kTrunk + kForks));
  for (const SessionStat& listed : *list) {
    const bool fork = listed.name != "ann";
    EXPECT_EQ(listed.chunks, fork ? kTrunk : ann_.nodes.size()) << listed.name;
    EXPECT_EQ(listed.chunks_missing, fork ? 1u : 0u);
    auto stat = store_->stat("", listed.name);
    ASSERT_OK(stat.status());
    EXPECT_EQ(listed.bytes, stat->bytes);
    EXPECT_EQ(listed.bytes_shared, stat->bytes_shared);
  }
  ASSERT_OK(catalog.db.close(false));
}

// A save that fails in its sync is not seen, and the state before it is.
TEST_F(Readers, SeeNothingOfASaveThatFails) {
  plan_.arm(Fault::kSyncLost, 1);
  EXPECT_FALSE(save_bob(Durability::kTokens).is_ok());
  plan_.disarm();
  expect_ann();
  EXPECT_EQ(sessions(), 1u);
  EXPECT_EQ(readable_chunks(store_.get(), bob_), 0u);
}

}  // namespace
}  // namespace kvrt
