// A reader waits for no disk: while a commit is in its sync, the state before it is there, and nothing of the commit.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

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
    plan_.on_sync = nullptr;
    store_.reset();
    set_sqlite_faults(nullptr);
  }

  Status save_bob(Durability durability) {
    SaveOptions options;
    options.id = 2;
    options.durability = durability;
    return save_chain(store_.get(), "bob", bob_, options).take_status();
  }
  // Does `write` in another thread, and `read` while the first of its syncs goes on. That ends after a time by itself, so that a reader
  // that waits for it fails and does not hang.
  void beside_a_sync(const std::function<void()>& write, const std::function<void()>& read) {
    std::promise<void> begun, go_on;
    std::future<void> go = go_on.get_future();
    std::atomic<bool> first{true}, patient{false};
    plan_.on_sync = [&] {
      if (!first.exchange(false)) return;
      begun.set_value();
      patient = go.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    };
    std::thread writer(write);
    begun.get_future().wait();
    read();
    go_on.set_value();
    writer.join();
    EXPECT_TRUE(patient) << "a reader waited for the sync";
    plan_.on_sync = nullptr;
  }
  // The session that SetUp saved.
  void expect_ann() {
    EXPECT_EQ(readable_chunks(store_.get(), ann_), ann_.nodes.size());
    EXPECT_EQ(store_->has(ann_.nodes), std::vector<uint32_t>(ann_.nodes.size(), 1));
    EXPECT_NE(test::chunk_bytes(store_.get(), ann_.nodes[0].key), 0u);
    auto stat = store_->stat("", "ann");
    ASSERT_OK(stat.status());
    EXPECT_EQ(stat->chunks, ann_.nodes.size());
    auto loaded = store_->load("", "ann");
    ASSERT_OK(loaded.status());
    EXPECT_EQ(loaded->keys.size(), ann_.nodes.size());
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
                  EXPECT_FALSE(store_->has(ann_.nodes)[0]);
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
