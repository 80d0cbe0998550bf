// Room: the sessions that give way to a save, those that stay, and the space that sparse segments give back.
#include "tests/support/gc_rig.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;

class Space : public Gc {
 protected:
  // A store that keeps at most the KV of four of these sessions.
  static constexpr size_t kTokens = 160, kBytesPerToken = 2048;
  void SetUp() override {
    reopen({});
    ASSERT_OK(put("", "measured"));
    const uint64_t bytes = store_->info()->chunk_bytes;
    ASSERT_OK(store_->remove("", "measured"));
    StoreOptions options;
    options.disk_bytes_max = quota_ = bytes * 9 / 2 + (200 << 10);
    reopen(options);
  }
  void reopen(const StoreOptions& options) {
    store_.reset();
    auto store = open_store(root(), options, &env_);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  Status put(const std::string& domain, const std::string& name, uint8_t pin = 0) {
    auto& chain = chains_[domain + "/" + name];
    chain = std::make_unique<Chain>(token_run(kTokens, ++runs_), kBytesPerToken);
    SaveOptions o;
    o.domain = domain;
    o.id = next_id_++;
    o.overwrite = true;
    o.pin = pin;
    return save_chain(store_.get(), name, *chain, o).take_status();
  }
  // Whether a session has all of its chunks; else it has none, and only its tokens are left.
  bool has_kv(const std::string& domain, const std::string& name) {
    const Chain& chain = *chains_[domain + "/" + name];
    auto session = store_->load(domain, name);
    EXPECT_OK(session.status()) << name;
    EXPECT_EQ(session->tokens, chain.tokens) << name;
    const size_t readable = readable_chunks(store_.get(), chain);
    EXPECT_TRUE(readable == 0 || readable == chain.nodes.size()) << name << ": " << readable;
    return readable != 0;
  }
  std::map<std::string, std::unique_ptr<Chain>> chains_;
  int32_t runs_ = 0;
  uint64_t quota_ = 0;
};

TEST_F(Space, UsedLongestAgoGivesWay) {
  for (const char* name : {"a", "b", "c"}) ASSERT_OK(put("", name));
  ASSERT_OK(store_->load("", "a").status());  // in use again
  ASSERT_OK(put("", "d"));
  ASSERT_OK(put("", "e"));
  EXPECT_FALSE(has_kv("", "b"));
  EXPECT_TRUE(has_kv("", "e"));
  EXPECT_TRUE(has_kv("", "a"));
  EXPECT_GT(store_->info()->chunks_evicted, 0u);
  EXPECT_LE(store_->info()->chunk_bytes, quota_);
  auto stat = store_->stat("", "b");
  ASSERT_OK(stat.status());
  EXPECT_EQ(stat->chunks, 0u);
  EXPECT_EQ(stat->chunks_missing, chains_["/b"]->nodes.size());
  expect_clean();
  gc();
  expect_no_stray_files();
}

// A load counts where an eviction took KV of the session since its save; also of one that shared it, and after a restart.
TEST_F(Space, CountsLoadsThatMissWhatWasEvicted) {
  const auto loads = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) EXPECT_OK(store_->load("", name).status()) << name;
    return store_->info()->loads_evicted;
  };
  Chain trunk(token_run(kTokens, 70), kBytesPerToken);
  save("x", trunk);
  save("y", trunk);
  for (const char* name : {"b", "c"}) ASSERT_OK(put("", name));
  EXPECT_EQ(loads({"x", "y", "b", "c"}), 0u);
  EXPECT_EQ(loads({"b", "c"}), 0u);
  for (const char* name : {"d", "e", "f", "g"}) ASSERT_OK(put("", name));
  ASSERT_EQ(readable_chunks(store_.get(), trunk), 0u);
  EXPECT_EQ(store_->info()->loads_evicted, 0u) << "nobody has looked for it";
  EXPECT_EQ(loads({"g"}), 0u);
  EXPECT_EQ(loads({"x", "y", "x"}), 3u);
  reopen({});
  EXPECT_EQ(loads({"y"}), 4u);
  save("x", trunk);
  EXPECT_EQ(loads({"x", "y"}), 4u) << "one was saved again, and brought what both need";
  expect_clean();
}

// Free space: within the quota, and above the space that the file system must keep.
TEST_F(Space, InfoSaysWhatIsFree) {
  ASSERT_OK(put("", "a"));
  auto info = store_->info();
  ASSERT_OK(info.status());
  EXPECT_EQ(info->bytes_free, quota_ - info->disk_bytes);
  auto fs = env_.fs_info(root());
  ASSERT_OK(fs.status());
  StoreOptions options;
  options.free_bytes_min = fs->free_bytes * 2;
  reopen(options);
  EXPECT_EQ(store_->info()->bytes_free, 0u);
  options.free_bytes_min = 1;
  reopen(options);
  EXPECT_GT(store_->info()->bytes_free, 0u);
}

TEST_F(Space, ASharedPrefixStaysAsLongAsOneNeedsIt) {
  Chain trunk(token_run(96, 50), kBytesPerToken);
  auto longer = trunk.tokens;
  for (int32_t t : token_run(64, 51)) longer.push_back(t);
  Chain branch(longer, kBytesPerToken);
  save("trunk", trunk);
  save("branch", branch);
  for (const char* name : {"x", "y"}) {
    ASSERT_OK(store_->load("", "branch").status());
    ASSERT_OK(put("", name));
  }
  ASSERT_OK(store_->load("", "branch").status());
  ASSERT_OK(put("", "z"));
  EXPECT_EQ(readable_chunks(store_.get(), branch), branch.nodes.size()) << "the trunk gave way, what the branch needs of it did not";
  expect_clean();
}

// A prefix that a save counts on gives no room to it: it would be written again.
TEST_F(Space, ASaveKeepsThePrefixThatItShares) {
  Chain trunk(token_run(kTokens, 60), kBytesPerToken);
  save("trunk", trunk);
  for (const char* name : {"x", "y", "z"}) ASSERT_OK(put("", name));
  auto longer = trunk.tokens;
  for (int32_t t : token_run(kTokens, 61)) longer.push_back(t);
  Chain branch(longer, kBytesPerToken);
  SaveOptions o;
  o.id = 99;
  ASSERT_OK(save_chain(store_.get(), "branch", branch, &o).status());
  EXPECT_EQ(o.chunks_written, branch.nodes.size() - trunk.nodes.size());
  EXPECT_EQ(readable_chunks(store_.get(), branch), branch.nodes.size());
  EXPECT_FALSE(has_kv("", "x")) << "used longest ago but for the trunk";
  expect_clean();
}

TEST_F(Space, PinsAndDomains) {
  ASSERT_OK(put("mine", "low", 1));
  ASSERT_OK(put("mine", "high", 9));
  ASSERT_OK(put("theirs", "pinned", 1));
  ASSERT_OK(put("theirs", "loose"));
  ASSERT_OK(put("mine", "loose"));
  EXPECT_FALSE(has_kv("theirs", "loose"));
  EXPECT_TRUE(has_kv("mine", "low")) << "it is pinned";
  const Status refused = put("mine", "second", 1);  // takes the loose one's, which is its own domain's
  EXPECT_OK(refused);
  EXPECT_FALSE(has_kv("mine", "loose"));
  EXPECT_EQ(put("mine", "third", 1).code(), Code::kNoSpace) << "nobody is pinned less";
  EXPECT_OK(put("mine", "fourth", 5));
  EXPECT_FALSE(has_kv("mine", "low") && has_kv("mine", "second")) << "they are pinned less";
  EXPECT_TRUE(has_kv("theirs", "pinned")) << "another domain's";
  EXPECT_TRUE(has_kv("mine", "high"));
  expect_clean();
}

// What sessions have in common gives way once nobody needs it any more, also where they gave way before.
TEST_F(Space, ASharedPrefixGivesWayAtLast) {
  Chain trunk(token_run(kTokens, 50), kBytesPerToken);
  const auto branch = [&](int32_t seed) {
    auto ids = trunk.tokens;
    for (int32_t t : token_run(32, seed)) ids.push_back(t);
    return std::make_unique<Chain>(ids, kBytesPerToken);
  };
  const auto a = branch(51), b = branch(52);
  save("a", *a);
  save("b", *b);
  for (const char* name : {"w", "x", "y", "z"}) {
    ASSERT_OK(put("", name));
    ASSERT_OK(store_->load("", "b").status());
  }
  EXPECT_EQ(readable_chunks(store_.get(), *a), trunk.nodes.size()) << "a gave way, but for the trunk";
  EXPECT_EQ(readable_chunks(store_.get(), *b), b->nodes.size());
  ASSERT_OK(store_->remove("", "b"));
  EXPECT_EQ(readable_chunks(store_.get(), trunk), trunk.nodes.size());
  for (const char* name : {"p", "q", "r", "s", "t", "u"}) ASSERT_OK(put("", name));
  EXPECT_EQ(readable_chunks(store_.get(), trunk), 0u);
  expect_clean();
}

// Sessions with the same head: each is the one that needs it for the other.
TEST_F(Space, TheSameConversationUnderTwoNamesGivesWay) {
  Chain chain(token_run(kTokens, 50), kBytesPerToken);
  save("a", chain);
  save("b", chain);
  for (const char* name : {"p", "q", "r", "s", "t"}) ASSERT_OK(put("", name));
  EXPECT_EQ(readable_chunks(store_.get(), chain), 0u);
  expect_clean();
}

// A save that counts on all there is finds no room, in the end. What it counted on gives way to others later.
TEST_F(Space, ASaveThatNeedsAllThereIsFails) {
  Chain trunk(token_run(3 * kTokens, 60), kBytesPerToken);
  save("trunk", trunk);
  auto longer = trunk.tokens;
  for (int32_t t : token_run(4 * kTokens, 61)) longer.push_back(t);
  Chain branch(longer, kBytesPerToken);
  SaveOptions o;
  o.id = 99;
  EXPECT_EQ(save_chain(store_.get(), "branch", branch, o).status().code(), Code::kNoSpace);
  EXPECT_EQ(readable_chunks(store_.get(), trunk), trunk.nodes.size());
  for (const char* name : {"p", "q", "r", "s", "t"}) ASSERT_OK(put("", name));
  EXPECT_EQ(readable_chunks(store_.get(), trunk), 0u);
  expect_clean();
}

// A save without a pin, as an autosave is, leaves its session's pin as it is, and that is the one that counts.
TEST_F(Space, ASaveWithoutAPinHasItsSessionsPin) {
  ASSERT_OK(put("mine", "low", 1));
  ASSERT_OK(put("mine", "high", 9));
  ASSERT_OK(put("mine", "middle", 5));
  ASSERT_OK(put("mine", "loose"));
  ASSERT_OK(put("mine", "middle"));  // other content: takes the loose one's
  EXPECT_FALSE(has_kv("mine", "loose"));
  EXPECT_TRUE(has_kv("mine", "low"));
  ASSERT_OK(put("mine", "second", 2));
  EXPECT_EQ(put("mine", "new").code(), Code::kNoSpace) << "it has no pin";
  ASSERT_OK(put("mine", "middle"));
  EXPECT_FALSE(has_kv("mine", "low"));
  EXPECT_TRUE(has_kv("mine", "second"));
  EXPECT_TRUE(has_kv("mine", "high"));
  ASSERT_OK(put("mine", "third", 3));
  EXPECT_EQ(put("mine", "middle", 1).code(), Code::kNoSpace) << "a pin that it asks for is the one that counts";
  expect_clean();
}

TEST_F(Space, TheFileSystemKeepsWhatItMust) {
  FsInfo fs;
  fs.type = "tmpfs";
  fs.total_bytes = uint64_t{100} << 30;
  fs.free_bytes = (uint64_t{1} << 30) + 1000;
  env_.fs_override = &fs;
  const Status refused = put("", "a");
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_NE(refused.message().find("1073741824"), std::string::npos) << refused.message();
  StoreOptions options;
  options.free_bytes_min = 1;
  reopen(options);
  EXPECT_OK(put("", "a"));
  fs.free_bytes = 60 << 10;  // less than the log may take when the save is committed
  EXPECT_EQ(put("", "b").code(), Code::kNoSpace);
  env_.fs_override = nullptr;
}

TEST_F(Space, SparseSegmentsAreWrittenAnew) {
  Chain trunk(token_run(32, 60), kBytesPerToken);
  auto longer = trunk.tokens;
  for (int32_t t : token_run(160, 61)) longer.push_back(t);
  save("whole", Chain(longer, kBytesPerToken));  // one segment with the trunk in it
  save("trunk", trunk);
  ASSERT_OK(store_->remove("", "whole"));
  const uint64_t before = store_->info()->disk_bytes;
  const GcReport report = gc();
  EXPECT_GT(report.bytes_rewritten, 0u);
  EXPECT_EQ(report.segments_removed, 1u);
  EXPECT_LT(store_->info()->disk_bytes, before);
  EXPECT_EQ(readable_chunks(store_.get(), trunk), trunk.nodes.size());
  EXPECT_EQ(gc().bytes_rewritten, 0u) << "once";
  expect_clean();
  expect_no_stray_files();
}

// Wherever gc is stopped while it writes a segment anew, the store keeps its content.
TEST_F(Space, StoppedWhileASegmentIsWrittenAnew) {
  Chain trunk(token_run(96, 60), kBytesPerToken);
  auto longer = trunk.tokens;
  for (int32_t t : token_run(320, 61)) longer.push_back(t);
  save("whole", Chain(longer, kBytesPerToken));
  save("trunk", trunk);
  ASSERT_OK(store_->remove("", "whole"));
  const uint64_t before = store_->info()->disk_bytes;
  const std::string sparse = segment_files(root()).at(0);
  env_.tick_ns = 1'000'000'000;  // every slice is over at once
  int stops = 0;
  for (bool whole = false; !whole; ++stops) {
    ASSERT_LT(stops, 1000);
    int left = stops;
    auto report = store_->gc([&](uint64_t, uint64_t) { return left-- > 0; });
    whole = report.is_ok();
    if (!whole) {
      ASSERT_EQ(report.status().code(), Code::kCancelled);
    } else {
      EXPECT_FALSE(fs::exists(sparse));
    }
    EXPECT_EQ(readable_chunks(store_.get(), trunk), trunk.nodes.size()) << stops;
    expect_clean();
    if (whole || store_->info()->disk_bytes == before) expect_no_stray_files();  // else the old one is in the trash
    if (HasFailure()) return;
  }
  EXPECT_GT(stops, 6 + static_cast<int>(trunk.nodes.size())) << "not within it";
}

// A list counts without walking where nothing was shared or lost since; it says the same as stat.
TEST_F(Space, AListSaysWhatStatSays) {
  Chain trunk(token_run(96, 70), 16);
  for (int i = 0; i < 6; i++) {
    auto ids = trunk.tokens;
    for (int32_t t : token_run(static_cast<size_t>(10 + 20 * i), 71 + i % 3)) ids.push_back(t);
    Chain chain(ids, 16);
    save("s" + std::to_string(i), chain);
    if (i == 3) {
      ASSERT_OK(store_->remove("", "s1"));
    }
    auto list = store_->list("", true);
    ASSERT_OK(list.status());
    for (const SessionStat& s : *list) {
      auto stat = store_->stat("", s.name);
      ASSERT_OK(stat.status());
      EXPECT_EQ(s.chunks, stat->chunks);
      EXPECT_EQ(s.chunks_missing, stat->chunks_missing);
      EXPECT_EQ(s.bytes, stat->bytes);
      EXPECT_EQ(s.bytes_shared, stat->bytes_shared);
    }
    expect_clean();
  }
}

// A wall clock that jumps expires nothing in the slice that sees it.
TEST_F(Space, AJumpOfTheClockIsLookedAtTwice) {
  SaveOptions o;
  o.ttl_seconds = 3600;
  save("ann", Chain(token_run(40)), o);
  env_.unix_offset_ms = int64_t{30} * 24 * 3600 * 1000;
  EXPECT_EQ(gc().sessions_removed, 0u);
  EXPECT_EQ(gc().sessions_removed, 1u);
  save("bob", Chain(token_run(40)), o);
  env_.unix_offset_ms = 0;
  EXPECT_EQ(gc().sessions_removed, 0u);
  env_.unix_offset_ms = 3601'000;
  EXPECT_EQ(gc().sessions_removed, 0u) << "its time was counted by the other clock";
}

// A gc once a month sees a jump each time. Every second one removes what has expired, whatever is saved meanwhile.
TEST_F(Space, AClockThatJumpsAtEveryLook) {
  SaveOptions o, between;
  o.ttl_seconds = 3600;
  between.durability = Durability::kProcess;
  for (const uint64_t removed : {0u, 1u, 0u, 1u}) {
    if (removed == 0) save("ann", Chain(token_run(40)), o);
    env_.unix_offset_ms += int64_t{30} * 24 * 3600 * 1000;
    EXPECT_EQ(gc().sessions_removed, removed);
    if (removed == 0) save("bob", Chain(token_run(40, 3)), between);
  }
}

// It removes none in its later slices either, and says so.
TEST_F(Space, AGcThatSeesAJumpKeepsWhatHasExpired) {
  struct Lines final : Log {
    void write(LogLevel, std::string_view line) override { text += std::string(line) + "\n"; }
    std::string text;
  } lines;
  store_.reset();
  store_ = std::move(*Store::open(&env_, &lines, root(), {}));
  SaveOptions o;
  o.ttl_seconds = 10;
  save("first", Chain(token_run(160)), o);
  o.ttl_seconds = 3600;
  save("ann", Chain(token_run(40, 3)), o);
  env_.unix_offset_ms = 20'000;
  env_.tick_ns = 1'000'000'000;  // every slice is over at once
  int slices = 3;
  EXPECT_EQ(store_->gc([&](uint64_t, uint64_t) { return slices-- > 0; }).status().code(), Code::kCancelled);
  env_.unix_offset_ms = int64_t{30} * 24 * 3600 * 1000;
  const GcReport report = gc();
  EXPECT_GT(report.chunks_removed, 3u);
  EXPECT_EQ(report.sessions_removed, 0u);
  EXPECT_NE(lines.text.find("expired sessions (1) stay"), std::string::npos) << lines.text;
  lines.text.clear();
  EXPECT_EQ(gc().sessions_removed, 1u);
  EXPECT_EQ(lines.text, "");
  store_.reset();
}

// The slice of a save is one that sees it: a store whose host never calls gc, and rests for a month, is collected too.
TEST_F(Space, AJumpOfTheClockIsLookedAtTwiceBySaves) {
  SaveOptions o;
  o.ttl_seconds = 3600;
  save("ann", Chain(token_run(40)), o);
  env_.unix_offset_ms = int64_t{30} * 24 * 3600 * 1000;
  const auto rows = [&] { return sql_rows(root() + "/catalog.db", "SELECT count(*) FROM sessions WHERE name = 'ann'"); };
  o.ttl_seconds = 0;
  o.durability = Durability::kTokens;
  save("bob", Chain(token_run(40, 3)), o);
  EXPECT_EQ(rows(), "1|\n");
  save("bob", Chain(token_run(40, 4)), o);
  EXPECT_EQ(rows(), "0|\n");
}

}  // namespace
}  // namespace kvrt
