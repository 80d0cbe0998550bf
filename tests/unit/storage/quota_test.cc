// A store at its disk_bytes_max: the room of manifests, KV that lost the session that brought it, and the catalog's free pages.
#include <functional>

#include "tests/support/gc_rig.h"

namespace kvrt {
namespace {

using namespace test;

class Quota : public Gc {
 protected:
  static constexpr size_t kTokens = 160, kBytesPerToken = 2048;  // of a session: some 225 KiB of KV

  void reopen(uint64_t disk_bytes_max) {
    store_.reset();
    StoreOptions options;
    options.disk_bytes_max = disk_bytes_max;
    auto store = open_store(root(), options, &env_);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  void put(const std::string& name, SaveOptions o = {}) { save(name, Chain(token_run(kTokens, ++runs_), kBytesPerToken), o); }
  uint64_t freelist() { return std::stoul(sql_rows(root() + "/catalog.db", "PRAGMA freelist_count")); }

  // Sessions without KV to speak of, until the next has no room. Their names.
  std::vector<std::string> fill_with_messages(uint64_t disk_bytes_max) {
    reopen(disk_bytes_max);
    std::vector<std::string> names;
    for (;;) {
      SaveOptions o = with_manifest(100 << 10);
      o.id = next_id_++;
      const std::string name = "m" + std::to_string(names.size());
      const Status saved = save_chain(store_.get(), name, Chain(token_run(0)), o).take_status();
      if (!saved.is_ok()) {
        EXPECT_EQ(saved.code(), Code::kNoSpace) << saved.message();
        return names;
      }
      names.push_back(name);
    }
  }
  static SaveOptions with_manifest(size_t bytes) {
    SaveOptions o;
    o.manifest = std::string(bytes, 'x');
    return o;
  }

  int32_t runs_ = 0;
};

constexpr uint64_t kQuota = 1200 << 10;

// The frames of a save leave room for its manifest; else they would fit, and the commit would not.
TEST_F(Quota, OthersGiveWayToAManifest) {
  for (const Durability durability : {Durability::kKv, Durability::kTokens}) {
    reopen(kQuota);
    for (const char* name : {"a", "b", "c", "d"}) put(name);
    const Chain chain(token_run(kTokens, 100), kBytesPerToken);
    SaveOptions o = with_manifest(300 << 10);
    o.durability = durability;
    save("new", chain, o);
    EXPECT_EQ(readable_chunks(store_.get(), chain), chain.nodes.size());
    put("e");
    o = with_manifest(400 << 10);  // it brings no frame, and needs room all the same
    o.durability = durability;
    save("new", chain, o);
    EXPECT_EQ(readable_chunks(store_.get(), chain), chain.nodes.size());
    expect_clean();
    ASSERT_OK(store_->remove("", "new"));
  }
}

// Where nobody gives way, the blocks from the first one on stay that fit beside the manifest.
TEST_F(Quota, AsMuchKvAsFitsBesideTheManifest) {
  reopen(kQuota);
  SaveOptions pinned;
  pinned.pin = 1;
  for (const char* name : {"a", "b"}) put(name, pinned);
  const Chain chain(token_run(4 * kTokens, 100), kBytesPerToken);
  const std::string manifest(200 << 10, 'x');
  auto save = store_->begin_save(true, {"", "new", 0, manifest.size()});
  ASSERT_OK(save.status());
  Status full;
  for (size_t i = 0; i < chain.nodes.size() && full.is_ok(); i++) full = put_chunk(save->get(), chain, i, 0);
  EXPECT_EQ(full.code(), Code::kNoSpace);
  const uint64_t written = (*save)->chunks_written();
  EXPECT_GT(written, 4u);
  SessionIn in;
  in.name = "new";
  in.id = session_id(99);
  in.root = chain.root;
  in.nodes = chain.nodes;
  in.token_count = chain.tokens.size();
  in.manifest = {reinterpret_cast<const uint8_t*>(manifest.data()), manifest.size()};
  in.durability = Durability::kTokens;
  ASSERT_OK((*save)->commit(in).status());
  EXPECT_EQ((*save)->chunks_written(), written);
  EXPECT_EQ(readable_chunks(store_.get(), chain), written);
  expect_clean();
}

// Brings KV to the nodes of a session that has none any more, and leaves: the KV gives way with that session, before what was used since.
class BroughtByAnother : public Quota {
 protected:
  void expect_evictable(const std::function<void(const Chain& both)>& bring_and_leave) {
    reopen(kQuota);
    const Chain both(token_run(kTokens, 200), kBytesPerToken);
    save("old", both);
    for (const char* name : {"a", "b", "c", "d", "e"}) put(name);
    ASSERT_EQ(readable_chunks(store_.get(), both), 0u);
    bring_and_leave(both);
    ASSERT_EQ(store_->list("", true)->size(), 6u) << "it has left";
    ASSERT_EQ(readable_chunks(store_.get(), both), both.nodes.size());
    for (const char* name : {"p", "q", "r", "s", "t"}) put(name);
    EXPECT_EQ(readable_chunks(store_.get(), both), 0u);
    auto old = store_->load("", "old");
    ASSERT_OK(old.status());
    EXPECT_EQ(old->tokens, both.tokens);
    expect_clean();
  }
  static std::unique_ptr<Chain> longer(const Chain& chain) {
    auto ids = chain.tokens;
    for (int32_t t : token_run(32, 201)) ids.push_back(t);
    return std::make_unique<Chain>(ids, kBytesPerToken);
  }
};

TEST_F(BroughtByAnother, Removed) {
  expect_evictable([&](const Chain& both) {
    save("new", both);
    ASSERT_OK(store_->remove("", "new"));
  });
}

TEST_F(BroughtByAnother, ThatWasLonger) {
  expect_evictable([&](const Chain& both) {
    save("new", *longer(both));
    ASSERT_OK(store_->remove("", "new"));
  });
}

TEST_F(BroughtByAnother, Overwritten) {
  expect_evictable([&](const Chain& both) {
    save("a", both);
    save("a", Chain(token_run(16, 202)));
  });
}

TEST_F(BroughtByAnother, Expired) {
  expect_evictable([&](const Chain& both) {
    SaveOptions o;
    o.ttl_seconds = 10;
    save("new", both, o);
    save("newer", *longer(both), o);
    env_.unix_offset_ms += 11'000;
    EXPECT_EQ(gc().sessions_removed, 2u);
  });
}

// Rows of removed sessions leave free pages, which the next ones fill.
TEST_F(Quota, TokensTakeFreePages) {
  const auto names = fill_with_messages(2 << 20);
  ASSERT_GT(names.size(), 10u);
  for (size_t i = 0; i < 5; i++) ASSERT_OK(store_->remove("", names[i]));
  for (size_t i = 0; i < 4; i++) save("new" + std::to_string(i), Chain(token_run(0)), with_manifest(100 << 10));
  expect_clean();
}

TEST_F(Quota, GcGivesFreePagesBack) {
  const auto names = fill_with_messages(2 << 20);
  const uint64_t full = store_->info()->disk_bytes;
  for (size_t i = 0; i < names.size(); i += 2) ASSERT_OK(store_->remove("", names[i]));
  EXPECT_GT(freelist(), 100u);
  env_.tick_ns = 1'000'000;  // some pages a slice
  gc();
  env_.tick_ns = 0;
  EXPECT_EQ(freelist(), 0u);
  auto info = store_->info();
  ASSERT_OK(info.status());
  EXPECT_LT(info->disk_bytes, full * 2 / 3);
  EXPECT_EQ(fs::file_size(root() + "/catalog.db"), info->disk_bytes);
  EXPECT_GT(info->bytes_free, full / 3);
  for (size_t i = 1; i < names.size(); i += 2) EXPECT_OK(store_->load("", names[i]).status());
  expect_clean();
}

// A host that never calls gc.
TEST_F(Quota, KvTakesFreePages) {
  const auto names = fill_with_messages(4 << 20);
  for (size_t i = 5; i < names.size(); i++) ASSERT_OK(store_->remove("", names[i]));
  EXPECT_GT(freelist(), 512u);
  const Chain chain(token_run(4 * kTokens, 100), kBytesPerToken);
  save("new", chain);
  EXPECT_EQ(readable_chunks(store_.get(), chain), chain.nodes.size());
  expect_clean();
}

}  // namespace
}  // namespace kvrt
