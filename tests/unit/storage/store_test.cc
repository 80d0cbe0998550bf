#include <atomic>
#include <thread>

#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open(StoreOptions options = {}) {
    store_.reset();
    auto store = open_store(root(), options);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  std::string root() const { return tmp_.path() + "/s"; }
  StoreInfo info() {
    auto info = store_->info();
    EXPECT_OK(info.status());
    return *info;
  }
  void expect_clean() {
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  }

  TempDir tmp_{"/dev/shm"};
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, RoundTripAcrossReopen) {
  Chain chain(token_run(100));  // 6 blocks and a tail of 4
  auto revision = save_chain(store_.get(), "ann", chain);
  ASSERT_OK(revision.status());
  EXPECT_EQ(*revision, 1u);
  EXPECT_EQ(readable_chunks(store_.get(), chain), 7u);
  open();
  auto loaded = store_->load("", "ann");
  ASSERT_OK(loaded.status());
  EXPECT_EQ(loaded->tokens, chain.tokens);
  EXPECT_EQ(loaded->revision, 1u);
  EXPECT_EQ(loaded->id, session_id(1));
  EXPECT_EQ(loaded->root, chain.root);
  EXPECT_EQ(loaded->block_tokens, Chain::kBlock);
  EXPECT_EQ(std::string(loaded->manifest.begin(), loaded->manifest.end()), "manifest");
  ASSERT_EQ(loaded->keys.size(), 7u);
  for (size_t i = 0; i < 7; i++) EXPECT_EQ(loaded->keys[i], chain.nodes[i].key);
  EXPECT_EQ(loaded->node_tokens.back(), 4u);
  EXPECT_EQ(readable_chunks(store_.get(), chain), 7u);
  expect_clean();
}

TEST_F(StoreTest, EmptySessionAndEmptyManifest) {
  Chain chain({});
  SaveOptions o;
  o.manifest = "";
  ASSERT_OK(save_chain(store_.get(), "empty", chain, o).status());
  auto loaded = store_->load("", "empty");
  ASSERT_OK(loaded.status());
  EXPECT_TRUE(loaded->tokens.empty() && loaded->keys.empty() && loaded->manifest.empty());
  EXPECT_EQ(info().segments, 0u) << "a save without chunks makes no segment";
  expect_clean();
}

TEST_F(StoreTest, SavesOnlyWhatIsNewAndDropsTheOldTail) {
  Chain first(token_run(40)), second(token_run(70));
  ASSERT_OK(save_chain(store_.get(), "ann", first).status());
  SaveOptions o;
  o.revision_seen = 1;
  auto revision = save_chain(store_.get(), "ann", second, &o);
  ASSERT_OK(revision.status());
  EXPECT_EQ(*revision, 2u);
  EXPECT_EQ(o.chunks_written, 3u) << "2 of 5 blocks were there";
  EXPECT_EQ(info().chunks, 5u) << "the superseded tail is gone";
  EXPECT_EQ(readable_chunks(store_.get(), second), 5u);
  EXPECT_EQ(store_->find(first.nodes), (std::vector<uint32_t>{1, 1, 0}));
  EXPECT_EQ(store_->find(second.nodes), std::vector<uint32_t>(5, 1));
  EXPECT_EQ(store_->find(std::span(second.nodes).subspan(1)), std::vector<uint32_t>(4)) << "not from its root on";
  o.revision_seen = 2;
  revision = save_chain(store_.get(), "ann", second, &o);  // nothing new
  ASSERT_OK(revision.status());
  EXPECT_EQ(*revision, 3u);
  EXPECT_EQ(o.chunks_written, 0u);
  EXPECT_EQ(segment_files(root()).size(), 1u) << "the process's";
  expect_clean();
}

TEST_F(StoreTest, TruncationKeepsTheSharedPart) {
  Chain longer(token_run(100)), shorter(token_run(50));
  ASSERT_OK(save_chain(store_.get(), "ann", longer).status());
  SaveOptions o;
  o.revision_seen = 1;
  ASSERT_OK(save_chain(store_.get(), "ann", shorter, o).status());
  EXPECT_EQ(info().chunks, 4u);
  EXPECT_EQ(store_->load("", "ann")->tokens, shorter.tokens);
  expect_clean();
}

TEST_F(StoreTest, ForksShareTheirHistory) {
  auto base = token_run(64);
  Chain trunk(base);
  ASSERT_OK(save_chain(store_.get(), "trunk", trunk).status());
  uint64_t one = info().chunk_bytes;
  for (int32_t f = 0; f < 10; f++) {
    auto ids = base;
    for (int32_t t : token_run(16, 10 + f)) ids.push_back(t);
    Chain fork(ids);
    SaveOptions o;
    o.id = static_cast<uint8_t>(10 + f);
    ASSERT_OK(save_chain(store_.get(), "fork" + std::to_string(f), fork, &o).status());
    EXPECT_EQ(o.chunks_written, 1u);
  }
  EXPECT_EQ(info().chunks, 14u);
  EXPECT_LT(info().chunk_bytes, one * 37 / 10);
  auto stat = store_->stat("", "fork3");
  ASSERT_OK(stat.status());
  EXPECT_EQ(stat->chunks, 5u);
  EXPECT_EQ(stat->tokens, 80u);
  EXPECT_EQ(stat->bytes_shared, one);
  EXPECT_GT(stat->bytes, one);
  auto trunk_stat = store_->stat("", "trunk");
  EXPECT_EQ(trunk_stat->bytes_shared, trunk_stat->bytes);
  // Without the trunk and all forks but one, its history is its own.
  ASSERT_OK(store_->remove("", "trunk"));
  for (int f = 0; f < 10; f++) {
    if (f == 3) continue;
    ASSERT_OK(store_->remove("", "fork" + std::to_string(f)));
  }
  EXPECT_EQ(info().chunks, 5u);
  EXPECT_EQ(store_->stat("", "fork3")->bytes_shared, 0u);
  EXPECT_EQ(segment_files(root()).size(), 1u);
  expect_clean();
  ASSERT_OK(store_->remove("", "fork3"));
  EXPECT_EQ(info().chunks, 0u);
  EXPECT_TRUE(segment_files(root()).empty());
  expect_clean();
}

TEST_F(StoreTest, RevisionsAndNames) {
  Chain chain(token_run(20)), other(token_run(20, 3));
  ASSERT_OK(save_chain(store_.get(), "ann", chain).status());
  auto conflict = [&](SaveOptions o) {
    auto revision = save_chain(store_.get(), "ann", other, o);
    EXPECT_EQ(revision.status().code(), Code::kConflict);
    EXPECT_NE(revision.status().message().find("revision 1"), std::string::npos) << revision.status().message();
    return revision.status().detail();
  };
  SaveOptions o;
  EXPECT_EQ(conflict(o), Detail::kRevision) << "same id, but this handle saw none";
  o.revision_seen = 2;
  EXPECT_EQ(conflict(o), Detail::kRevision);
  o.id = 9;
  o.revision_seen = 0;
  EXPECT_EQ(conflict(o), Detail::kNameTaken);
  o.revision_seen = 1;
  EXPECT_EQ(conflict(o), Detail::kNameTaken) << "the right revision of another session";
  EXPECT_EQ(store_->load("", "ann")->tokens, chain.tokens);
  EXPECT_EQ(segment_files(root()).size(), 1u) << "a refused save leaves no file";
  o.overwrite = true;
  auto revision = save_chain(store_.get(), "ann", other, o);
  ASSERT_OK(revision.status());
  EXPECT_EQ(*revision, 2u);
  EXPECT_EQ(store_->load("", "ann")->id, session_id(9));
  // A revision is never used twice, also across a removal and a reopen.
  ASSERT_OK(store_->remove("", "ann"));
  EXPECT_EQ(store_->remove("", "ann").code(), Code::kNotFound);
  open();
  EXPECT_EQ(save_chain(store_.get(), "ann", chain).value(), 3u);
  EXPECT_EQ(save_chain(store_.get(), "eve", chain).value(), 1u);
  expect_clean();
}

TEST_F(StoreTest, NamesAreAnyUtf8) {
  Chain chain(token_run(5));
  const std::string good[] = {
      "a", "../../../etc/passwd", "/", "a\nb", "\xf0\x9f\x8d\xb5", std::string(255, 'x'), "'; DROP TABLE sessions; --", "%s%n"};
  for (auto& name : good) {
    ASSERT_OK(save_chain(store_.get(), name, chain).status());
    EXPECT_EQ(store_->load("", name)->name, name);
  }
  auto list = store_->list("", false);
  ASSERT_OK(list.status());
  EXPECT_EQ(list->size(), std::size(good));
  for (auto& e : std::filesystem::directory_iterator(tmp_.path())) EXPECT_EQ(e.path().filename(), "s");
  const std::string bad[] = {"",
                             std::string(256, 'x'),
                             std::string("a\0b", 3),
                             "\xff",
                             "\xc3",
                             "\xc0\xaf",          // overlong
                             "\xed\xa0\x80",      // surrogate
                             "\xf4\x90\x80\x80",  // past U+10FFFF
                             "ok\x80"};
  for (auto& name : bad) {
    EXPECT_EQ(save_chain(store_.get(), name, chain).status().code(), Code::kInvalid) << testing::PrintToString(name);
    EXPECT_EQ(store_->load("", name).status().code(), Code::kInvalid);
    EXPECT_EQ(store_->remove("", name).code(), Code::kInvalid);
    EXPECT_EQ(store_->load(name, "ok").status().code(), name.empty() ? Code::kNotFound : Code::kInvalid);
  }
}

TEST_F(StoreTest, DomainsAreApart) {
  Chain ours(token_run(20), 64, 1), theirs(token_run(20), 64, 2);  // another kv_root, so other keys for the same tokens
  SaveOptions o;
  o.domain = "one";
  ASSERT_OK(save_chain(store_.get(), "ann", ours, o).status());
  o.domain = "two";
  ASSERT_OK(save_chain(store_.get(), "ann", theirs, o).status());
  EXPECT_EQ(store_->list("one", false)->size(), 1u);
  EXPECT_EQ(store_->list("", false)->size(), 0u);
  EXPECT_EQ(store_->list("", true)->size(), 2u);
  EXPECT_EQ(store_->list("", true)->at(1).domain, "two");
  EXPECT_EQ(store_->stat("one", "ann")->bytes_shared, 0u);
  EXPECT_EQ(store_->load("", "ann").status().code(), Code::kNotFound);
  EXPECT_EQ(info().chunks, 4u);
}

TEST_F(StoreTest, NodesMustBeTheirKeys) {
  Chain chain(token_run(20));
  chain.nodes[1].key.bytes[0] ^= 1;
  EXPECT_EQ(save_chain(store_.get(), "ann", chain).status().code(), Code::kInvalid);
  EXPECT_EQ(store_->load("", "ann").status().code(), Code::kNotFound);
  EXPECT_TRUE(segment_files(root()).empty());
}

TEST_F(StoreTest, DroppedSaveLeavesNothing) {
  Chain chain(token_run(40));
  {
    auto save = store_->begin_save();
    ASSERT_OK(save.status());
    ASSERT_OK((*save)->put({chain.nodes[0].key, chain.nodes[0].parent, chain.nodes[0].tokens, 1, 2, chain.payloads[0]}));
    EXPECT_GT((*save)->bytes_written(), 0u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(root() + "/tmp"));
  EXPECT_TRUE(segment_files(root()).empty());
  EXPECT_FALSE(store_->find(std::span(chain.nodes).first(1))[0]);
}

TEST_F(StoreTest, QuotaIsNoSpaceAndLeavesTheStoreUsable) {
  Chain small(token_run(32), 256), large(token_run(3200, 1), 2048);
  StoreOptions options;
  options.disk_bytes_max = 1 << 20;
  open(options);
  ASSERT_OK(save_chain(store_.get(), "small", small).status());
  auto revision = save_chain(store_.get(), "large", large);
  EXPECT_EQ(revision.status().code(), Code::kNoSpace);
  EXPECT_NE(revision.status().message().find("disk_bytes_max"), std::string::npos);
  EXPECT_EQ(store_->load("", "large").status().code(), Code::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(root() + "/tmp"));
  EXPECT_LE(info().disk_bytes, options.disk_bytes_max);
  Chain more(token_run(32, 2), 256);
  EXPECT_OK(save_chain(store_.get(), "more", more).status());
  expect_clean();
}

TEST_F(StoreTest, FilesAreTheOwnersAlone) {
  store_.reset();
  std::filesystem::remove_all(root());
  mode_t old = ::umask(0);
  open();
  Chain chain(token_run(40));
  ASSERT_OK(save_chain(store_.get(), "ann", chain).status());
  ::umask(old);
  EXPECT_EQ(std::filesystem::status(root()).permissions(), std::filesystem::perms::owner_all);
  size_t files = 0;
  for (auto& e : std::filesystem::recursive_directory_iterator(root())) {
    auto others = e.status().permissions() & (std::filesystem::perms::group_all | std::filesystem::perms::others_all);
    EXPECT_EQ(others, std::filesystem::perms::none) << e.path();
    files += e.is_regular_file();
  }
  EXPECT_GE(files, 5u) << "FORMAT, lock, catalog, log, segment";
}

TEST_F(StoreTest, ModelIds) {
  ModelFile file{1, ~uint64_t{0}, {}};
  file.id.bytes.fill(7);
  Hash256 id, out;
  id.bytes.fill(5);
  EXPECT_FALSE(store_->cached_model_id(file, &out));
  store_->cache_model_id(file, id);
  open();
  EXPECT_TRUE(store_->cached_model_id(file, &out));
  EXPECT_EQ(out, id);
  ModelFile changed = file;
  changed.id.bytes[31] ^= 1;
  EXPECT_FALSE(store_->cached_model_id(changed, &out)) << "other bytes in the same place";
  id.bytes.fill(6);
  store_->cache_model_id(changed, id);
  EXPECT_TRUE(store_->cached_model_id(changed, &out));
  EXPECT_EQ(out, id);
  EXPECT_FALSE(store_->cached_model_id(file, &out)) << "one row a place";
}

TEST_F(StoreTest, DurabilitiesAllSave) {
  uint8_t id = 1;
  for (Durability d : {Durability::kDefault, Durability::kNone, Durability::kProcess, Durability::kTokens, Durability::kKv}) {
    Chain chain(token_run(40, id));
    SaveOptions o;
    o.id = id;
    o.durability = d;
    ASSERT_OK(save_chain(store_.get(), "s" + std::to_string(id++), chain, o).status());
    EXPECT_EQ(readable_chunks(store_.get(), chain), 3u);
  }
  open();
  EXPECT_EQ(info().sessions, 5u);
  expect_clean();
}

TEST_F(StoreTest, VerifyReportsProgressAndStops) {
  Chain chain(token_run(200));
  ASSERT_OK(save_chain(store_.get(), "ann", chain).status());
  uint64_t last = 0, calls = 0;
  auto faults = store_->verify([&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
    calls++;
    return true;
  });
  ASSERT_OK(faults.status());
  EXPECT_GE(calls, 13u);
  EXPECT_EQ(store_->verify([](uint64_t, uint64_t) { return false; }).status().code(), Code::kCancelled);
}

TEST_F(StoreTest, LongLogIsFoldedIn) {
  for (int i = 0; i < 60; i++) {
    Chain chain(token_run(20, i), 16);
    SaveOptions o;
    o.manifest = std::string(256 << 10, static_cast<char>('a' + i % 26));
    ASSERT_OK(save_chain(store_.get(), "s" + std::to_string(i), chain, o).status());
  }
  EXPECT_LT(std::filesystem::file_size(root() + "/catalog.db-wal"), 6u << 20);
  store_.reset();
  EXPECT_FALSE(std::filesystem::exists(root() + "/catalog.db-wal")) << "closing folds the rest in, under the lock";
  open();
  EXPECT_EQ(info().sessions, 60u);
  expect_clean();
}

// Savers, readers and a remover at once; every read must give right bytes or nothing, every session its own tokens.
TEST_F(StoreTest, ManyThreads) {
  constexpr int kSavers = 3, kRounds = 12;
  std::vector<std::unique_ptr<Chain>> chains;
  for (int i = 0; i < kSavers * kRounds; i++) {
    auto ids = token_run(48, 7);  // shared by all
    for (int32_t t : token_run(20, 100 + i)) ids.push_back(t);
    chains.push_back(std::make_unique<Chain>(ids));
  }
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int s = 0; s < kSavers; s++) {
    threads.emplace_back([&, s] {
      for (int r = 0; r < kRounds; r++) {
        SaveOptions o;
        o.id = static_cast<uint8_t>(s + 1);
        o.overwrite = true;
        if (!save_chain(store_.get(), "s" + std::to_string(s), *chains[static_cast<size_t>(s * kRounds + r)], o).is_ok()) failures++;
        if (r % 4 == 3 && !store_->remove("", "s" + std::to_string(s)).is_ok()) failures++;
      }
    });
  }
  for (int t = 0; t < 2; t++) {
    threads.emplace_back([&, t] {
      for (size_t i = static_cast<size_t>(t); !stop; i++) {
        readable_chunks(store_.get(), *chains[i % chains.size()]);
        auto loaded = store_->load("", "s" + std::to_string(i % kSavers));
        if (!loaded.is_ok() && loaded.status().code() != Code::kNotFound) failures++;
      }
    });
  }
  for (size_t i = 0; i < kSavers; i++) threads[i].join();
  stop = true;
  for (size_t i = kSavers; i < threads.size(); i++) threads[i].join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(info().chunks_damaged, 0u);
  expect_clean();
}

}  // namespace
}  // namespace kvrt
