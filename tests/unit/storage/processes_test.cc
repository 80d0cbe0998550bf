// Several handles on one directory, each with its own connection and locks, as processes have.
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "runtime/base/limits.h"
#include "storage/catalog/catalog.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class Processes : public testing::Test {
 protected:
  void SetUp() override {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  std::string root() const { return tmp_.path() + "/s"; }

  TempDir tmp_{"/dev/shm"};
  std::unique_ptr<Store> store_;
};

TEST_F(Processes, TwoHandlesShareADirectory) {
  auto second = open_store(root());
  ASSERT_OK(second.status());
  const Chain chain(token_run(40)), longer(token_run(60));
  ASSERT_OK(save_chain(store_.get(), "ann", chain).status());
  auto loaded = (*second)->load("", "ann");
  ASSERT_OK(loaded.status());
  EXPECT_EQ(loaded->tokens, chain.tokens);
  EXPECT_EQ(readable_chunks(second->get(), chain), chain.nodes.size());
  SaveOptions o;
  o.revision_seen = 1;
  ASSERT_OK(save_chain(second->get(), "ann", longer, o).status());
  EXPECT_EQ(store_->load("", "ann")->revision, 2u);
  auto late = save_chain(store_.get(), "ann", chain, o);
  EXPECT_EQ(late.status().detail(), Detail::kRevision) << "the other one was first";
  ASSERT_OK(store_->remove("", "ann"));
  EXPECT_EQ((*second)->load("", "ann").status().code(), Code::kNotFound);
  store_.reset();  // not the last: the log stays
  ASSERT_OK(save_chain(second->get(), "bob", longer).status());
  EXPECT_EQ(readable_chunks(second->get(), longer), longer.nodes.size());
  auto faults = (*second)->verify(nullptr);
  ASSERT_OK(faults.status());
  EXPECT_TRUE(faults->empty());
}

// Sizes of the segments that this process has open and that have no name any more.
std::vector<uint64_t> removed_segments_open(const std::string& root) {
  std::vector<uint64_t> sizes;
  for (auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(e.path(), gone).string();
    if (target.find(root + "/segs") == 0 && target.ends_with(".seg (deleted)")) sizes.push_back(std::filesystem::file_size(e.path()));
  }
  return sizes;
}

// A segment that is removed gives its space back, whoever has it open, and nobody takes it for damage.
TEST_F(Processes, ARemovedSegmentTakesNoSpace) {
  auto second = open_store(root());
  ASSERT_OK(second.status());
  const Chain chain(token_run(40)), trunk(token_run(32, 60)), whole([&] {
    auto ids = trunk.tokens;
    for (int32_t t : token_run(160, 61)) ids.push_back(t);
    return ids;
  }());
  SaveOptions o;
  ASSERT_OK(save_chain(store_.get(), "ann", chain, o).status());
  EXPECT_EQ(readable_chunks(second->get(), chain), chain.nodes.size());
  ASSERT_OK(store_->remove("", "ann"));
  EXPECT_EQ(removed_segments_open(root()), std::vector<uint64_t>{0});
  EXPECT_EQ(readable_chunks(second->get(), chain), 0u);
  // One that was written anew elsewhere.
  o.id = 2;
  ASSERT_OK(save_chain(store_.get(), "whole", whole, o).status());
  o.id = 3;
  ASSERT_OK(save_chain(store_.get(), "trunk", trunk, o).status());
  EXPECT_EQ(readable_chunks(second->get(), whole), whole.nodes.size());
  ASSERT_OK(store_->remove("", "whole"));
  ASSERT_GT(store_->gc(nullptr)->bytes_rewritten, 0u);
  EXPECT_EQ(removed_segments_open(root()), (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(readable_chunks(second->get(), trunk), trunk.nodes.size());
  EXPECT_EQ((*second)->info()->chunks_damaged, 0u);
  EXPECT_TRUE((*second)->verify(nullptr)->empty());
}

// A segment that a reader missed may have gone by the time that it says so, and its row be another's.
TEST_F(Processes, SegmentsAreForgottenByName) {
  const Chain lost(token_run(40)), later(token_run(60, 7));
  Catalog catalog;
  ASSERT_OK(catalog.db.open(root() + "/catalog.db", {}));
  ASSERT_OK(save_chain(store_.get(), "ann", lost).status());
  auto before = catalog.segments.all();
  ASSERT_OK(before.status());
  ASSERT_OK(store_->remove("", "ann"));
  ASSERT_OK(save_chain(store_.get(), "bob", later).status());
  auto after = catalog.segments.all();
  ASSERT_OK(after.status());
  ASSERT_EQ(after->size(), 1u);
  ASSERT_EQ(after->at(0).row, before->at(0).row);
  EXPECT_EQ(*catalog.chunks.forget_segment(before->at(0).id), 0u);
  EXPECT_EQ(*catalog.chunks.forget({later.nodes[0].key}, before->at(0).id), 0u);
  EXPECT_EQ(readable_chunks(store_.get(), later), later.nodes.size());
  EXPECT_EQ(*catalog.chunks.forget({later.nodes[0].key}, after->at(0).id), 1u);
  EXPECT_EQ(*catalog.chunks.forget_segment(after->at(0).id), later.nodes.size() - 1);
  EXPECT_EQ(readable_chunks(store_.get(), later), 0u);
  EXPECT_TRUE(store_->verify(nullptr)->empty());
  ASSERT_OK(catalog.db.close(false));
}

// A process that repairs is alone, one that writes has its turn: the others wait for so long, and no longer.
TEST_F(Processes, WaitsForAnotherProcessAndGivesUp) {
  auto held = [&](const char* name) {
    auto lock = posix_env()->open_lock(root() + "/" + name, true);
    EXPECT_OK((*lock)->acquire(LockMode::kExclusive));
    return std::move(*lock);
  };
  auto write_lock = held("write.lock");
  std::thread writer([&] {
    const Chain chain(token_run(40));
    auto saved = save_chain(store_.get(), "ann", chain);
    EXPECT_EQ(saved.status().detail(), Detail::kStoreLocked) << saved.status().message();
  });
  const std::string other = tmp_.path() + "/other";
  ASSERT_OK(open_store(other).status());
  auto lock = posix_env()->open_lock(other + "/lock", true);
  ASSERT_OK((*lock)->acquire(LockMode::kExclusive));
  EXPECT_EQ(open_store(other).status().detail(), Detail::kStoreLocked);
  (*lock)->release();
  EXPECT_OK(open_store(other).status());
  writer.join();
  write_lock.reset();
  const Chain chain(token_run(40));
  EXPECT_OK(save_chain(store_.get(), "ann", chain).status());
}

// While nobody gets a turn to write, reading, its notes and closing do without; a call that must write waits once.
TEST_F(Processes, ACallWaitsOnce) {
  using std::chrono::steady_clock;
  const Chain chain(token_run(40)), longer(token_run(60));
  ASSERT_OK(save_chain(store_.get(), "ann", chain).status());
  ASSERT_OK(save_chain(store_.get(), "bob", longer).status());
  ASSERT_OK(store_->remove("", "bob"));
  const std::string segment = segment_files(root()).at(0);
  auto lock = posix_env()->open_lock(root() + "/write.lock", true);
  ASSERT_OK((*lock)->acquire(LockMode::kExclusive));
  const auto seconds = [](const std::function<void()>& what) {
    const auto start = steady_clock::now();
    what();
    return std::chrono::duration<double>(steady_clock::now() - start).count();
  };
  const double reading = seconds([&] {
    auto reader = open_store(root());
    ASSERT_OK(reader.status());
    EXPECT_OK((*reader)->load("", "ann").status());
    EXPECT_EQ(readable_chunks(reader->get(), chain), chain.nodes.size());
    (*reader)->cache_model_id({1, 2, {}}, Hash256{});
    std::filesystem::rename(segment, segment + "-");
    EXPECT_EQ(readable_chunks(reader->get(), chain), chain.nodes.size()) << "it is open";
    reader->reset();
    reader = open_store(root());
    ASSERT_OK(reader.status());
    EXPECT_EQ(readable_chunks(reader->get(), chain), 0u) << "each is forgotten in memory alone";
    std::filesystem::rename(segment + "-", segment);
  });
  EXPECT_LT(reading, 0.8 * 1e-3 * static_cast<double>(kWriteWaitMs));
  Hash256 out;
  EXPECT_FALSE(store_->cached_model_id({1, 2, {}}, &out));
  const double writing = seconds([&] { EXPECT_EQ(save_chain(store_.get(), "eve", longer).status().detail(), Detail::kStoreLocked); });
  EXPECT_LT(writing, 1.8 * 1e-3 * static_cast<double>(kWriteWaitMs));
  EXPECT_GT(writing, 0.9 * 1e-3 * static_cast<double>(kWriteWaitMs));
  (*lock)->release();
  EXPECT_OK(save_chain(store_.get(), "eve", longer).status());
  EXPECT_TRUE(store_->verify(nullptr)->empty());
}

}  // namespace
}  // namespace kvrt
