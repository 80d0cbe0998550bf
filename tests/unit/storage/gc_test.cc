// Collection of garbage: the rows and files that go and those that stay, wherever it is stopped.
#include <cerrno>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "tests/support/gc_rig.h"

namespace kvrt {
namespace {

using namespace test;

uint64_t bytes_of(const std::vector<std::string>& files) {
  uint64_t sum = 0;
  for (auto& f : files) sum += fs::file_size(f);
  return sum;
}

TEST_F(Gc, NothingToDo) {
  GcReport empty = gc();
  EXPECT_EQ(empty.sessions_removed + empty.chunks_removed + empty.segments_removed + empty.bytes_freed, 0u);
  Chain chain(token_run(70));
  SaveOptions o;
  o.ttl_seconds = 1000;
  save("ann", chain, o);
  save("bob", chain);
  GcReport idle = gc();
  EXPECT_EQ(idle.sessions_removed + idle.chunks_removed + idle.segments_removed + idle.bytes_freed, 0u);
  EXPECT_GE(idle.ms, 0.0);
  EXPECT_EQ(readable_chunks(store_.get(), chain), 5u);
}

// Random sessions that branch off each other, some to expire, some pinned; the chunks that must be left are counted from the chains alone.
TEST_F(Gc, FreesExactlyWhatNoSessionNeeds) {
  const char* given = std::getenv("KVRT_SEED");
  uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 rng(seed);
  std::vector<std::unique_ptr<Chain>> chains;
  std::map<std::string, const Chain*> living;
  for (int round = 0; round < 8; round++) {
    std::map<std::string, const Chain*> dying;
    for (int i = 0; i < 20; i++) {
      std::vector<int32_t> ids;
      if (!chains.empty() && rng() % 4 != 0) {  // a branch of an earlier one
        const auto& trunk = chains[rng() % chains.size()]->tokens;
        ids.assign(trunk.begin(), trunk.begin() + static_cast<ptrdiff_t>(rng() % (trunk.size() + 1)));
      }
      for (int32_t t : token_run(rng() % 80, static_cast<int32_t>(rng() % 1000))) ids.push_back(t);
      chains.push_back(std::make_unique<Chain>(ids, 8));
      std::string name = "s" + std::to_string(round) + "-" + std::to_string(i);
      SaveOptions o;
      o.ttl_seconds = rng() % 3 != 0 ? 10 : 0;
      o.pin = rng() % 4 == 0;
      save(name, *chains.back(), o);
      (o.ttl_seconds != 0 && !o.pin ? dying : living)[name] = chains.back().get();
    }
    if (round % 2 != 0) open();  // which seals the segment, so that the files' bytes are known
    env_.unix_offset_ms += 11'000;
    std::set<BlockKey> before, after;
    for (auto* group : {&living, &dying}) {
      for (auto& [name, chain] : *group) {
        for (auto& node : chain->nodes) (group == &living ? after : before).insert(node.key);
      }
    }
    before.insert(after.begin(), after.end());
    auto files = segment_files(root());
    uint64_t bytes = bytes_of(files);
    EXPECT_EQ(store_->info()->chunks, before.size());
    GcReport report = gc();
    EXPECT_EQ(report.sessions_removed, dying.size());
    EXPECT_EQ(report.chunks_removed, before.size() - after.size());
    auto left = segment_files(root());
    std::vector<std::string> gone;
    std::set_difference(files.begin(), files.end(), left.begin(), left.end(), std::back_inserter(gone));
    if (round % 2 != 0) {
      EXPECT_EQ(report.segments_removed, gone.size());
      EXPECT_EQ(report.bytes_freed, bytes - bytes_of(left) + report.bytes_rewritten);
    }
    for (auto& chain : chains) {
      const std::vector<uint32_t> has = store_->find(chain->nodes);
      for (size_t n = 0; n < has.size(); n++) EXPECT_EQ(has[n] != 0, after.count(chain->nodes[n].key) != 0);
    }
    EXPECT_EQ(store_->info()->chunks, after.size());
    EXPECT_EQ(store_->info()->sessions, living.size());
    for (auto& [name, chain] : living) {
      auto loaded = store_->load("", name);
      ASSERT_OK(loaded.status());
      EXPECT_EQ(loaded->tokens, chain->tokens);
      EXPECT_EQ(readable_chunks(store_.get(), *chain), chain->nodes.size());
    }
    expect_clean();
    expect_no_stray_files();
    if (round == 4) open();
    if (HasFailure()) return;
  }
}

TEST_F(Gc, FilesThatNoRowNames) {
  Chain chain(token_run(70)), next(token_run(90, 1));
  save_apart("ann", chain);
  auto whole = segment_files(root());
  ASSERT_EQ(whole.size(), 1u);
  uint64_t bytes = bytes_of(whole);
  fs::copy(whole[0], fs::path(whole[0]).replace_filename("00112233445566778899aabbccddeeff.seg"));
  fs::copy(whole[0], root() + "/tmp/aa.seg");
  save("ann", next);  // durability NONE: the old file waits in the trash
  ASSERT_EQ(segment_files(root()).size(), 3u) << "it is not unlinked before the commit is on the disk";
  write_file(fs::path(whole[0]).replace_filename("notes.txt"), {1});
  GcReport report = gc();
  EXPECT_EQ(report.segments_removed, 3u);
  EXPECT_EQ(report.bytes_freed, 3 * bytes);
  EXPECT_EQ(report.sessions_removed + report.chunks_removed, 0u);
  EXPECT_EQ(segment_files(root()).size(), 2u) << "one that is in use, and notes.txt, which is no segment";
  EXPECT_TRUE(fs::is_empty(root() + "/tmp"));
  EXPECT_EQ(readable_chunks(store_.get(), next), next.nodes.size());
  expect_clean();
}

TEST_F(Gc, LeavesTheFilesOfARunningSave) {
  Chain chain(token_run(70));
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  for (size_t i = 0; i < chain.nodes.size(); i++) {
    ASSERT_OK((*save)->put({chain.nodes[i].key, chain.nodes[i].parent, chain.nodes[i].tokens, 1, 2, chain.payloads[i]}));
    EXPECT_EQ(gc().segments_removed, 0u);
  }
  SessionIn in;
  in.name = "ann";
  in.root = chain.root;
  in.nodes = chain.nodes;
  in.token_count = chain.tokens.size();
  ASSERT_OK((*save)->commit(in).status());
  EXPECT_EQ(gc().segments_removed, 0u);
  save->reset();
  EXPECT_EQ(gc().segments_removed, 0u);
  EXPECT_EQ(readable_chunks(store_.get(), chain), 5u);
  expect_clean();
}

// A file whose lock cannot be asked for may be one that another process is writing.
TEST_F(Gc, AFileWhoseLockCannotBeHadStays) {
  Chain chain(token_run(70));
  save("ann", chain);
  const std::string file = segment_files(root()).at(0);
  const std::string stray = fs::path(file).replace_filename("00112233445566778899aabbccddeeff.seg");
  fs::copy(file, stray);
  for (const int want : {EMFILE, ENFILE, ENOMEM}) {
    env_.fail_lock = [&](const std::string& path) { return path == stray ? errno_error(want, "%s: injected", path.c_str()) : Status(); };
    EXPECT_EQ(gc().segments_removed, 0u);
    EXPECT_TRUE(fs::exists(stray));
  }
  env_.fail_lock = nullptr;
  fs::create_hard_link(stray, tmp_.path() + "/second name");  // unsafe: nobody writes to it
  (void)gc();
  EXPECT_FALSE(fs::exists(stray));
  expect_clean();
}

// A segment that there is no room to write anew keeps no other from being punched.
TEST_F(Gc, WithoutRoomForOneSegmentTheOthersArePunched) {
  const Chain ann(token_run(8 * 16, 5), 1024), bob(token_run(8 * 16, 6), 1024);
  const Chain ann_part(token_run(6 * 16, 5), 1024), bob_part(token_run(6 * 16, 6), 1024);
  save_apart("ann", ann);
  const auto first = segment_files(root());
  save_apart("bob", bob);
  auto files = segment_files(root());
  std::erase(files, first.at(0));
  save("ann", ann_part);
  save("bob", bob_part);
  open();
  auto bytes = read_file(files.at(0));  // which is taken first
  bytes.back() ^= 1;                    // without its index it is to be written anew
  write_file(files.at(0), bytes);
  size_t refused = 0;
  env_.fail_create = [&](const std::string& path) {
    if (!path.ends_with(".seg")) return Status();
    refused++;
    return errno_error(ENOSPC, "%s: injected", path.c_str());
  };
  EXPECT_GT(gc().bytes_punched, 2 * 16 * 512u);
  EXPECT_EQ(refused, 1u);
  env_.fail_create = nullptr;
  EXPECT_GT(gc().bytes_rewritten, 6 * 16 * 512u);
  EXPECT_EQ(readable_chunks(store_.get(), ann), 6u);
  EXPECT_EQ(readable_chunks(store_.get(), bob), 6u);
  expect_clean();
}

// The trash of a removal stays whole until the removal is on the disk, also when the store closes or opens in between.
TEST_F(Gc, RemovedFilesFreeTheirSpaceAtOnce) {
  Chain chain(token_run(70));
  save("ann", chain);
  EXPECT_EQ(readable_chunks(store_.get(), chain), 5u);  // the file is open now
  ASSERT_OK(store_->remove("", "ann"));
  for (auto& e : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    std::string target = fs::read_symlink(e.path(), gone).string();
    EXPECT_EQ(target.find(root() + "/segs"), std::string::npos) << target << " is still open";
  }
}

class GcStopped : public Gc {
 protected:
  void SetUp() override {
    open();
    // 3 sessions over one trunk, of which one stays, and one apart.
    auto ids = token_run(64);
    SaveOptions dying;
    dying.ttl_seconds = 10;
    for (int i = 0; i < 3; i++) {
      auto branch = ids;
      for (int32_t t : token_run(40, i + 1)) branch.push_back(t);
      chains_.push_back(std::make_unique<Chain>(branch));
      save_apart("s" + std::to_string(i), *chains_.back(), i == 2 ? SaveOptions{} : dying);
    }
    chains_.push_back(std::make_unique<Chain>(token_run(50, 9)));
    save("apart", *chains_.back(), dying);
    store_.reset();
    fs::copy(root(), tmp_.path() + "/base", fs::copy_options::recursive);
    env_.unix_offset_ms = 11'000;
    env_.tick_ns = 1'000'000'000;  // every look at the clock ends a slice
  }
  void restore() {
    store_.reset();
    fs::remove_all(root());
    fs::copy(tmp_.path() + "/base", root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
    open();
  }
  // gc, stopped by the nth look of its callback; true: it came to its end.
  bool gc_until(uint64_t n) {
    uint64_t calls = 0, last = 0;
    auto report = store_->gc([&](uint64_t done, uint64_t total) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, total);
      last = done;
      return ++calls < n;
    });
    bool ended = report.is_ok();
    EXPECT_TRUE(ended || (calls == n && report.status().code() == Code::kCancelled)) << report.status().message();
    return ended;
  }
  void expect_whole() {
    expect_clean();
    auto kept = store_->load("", "s2");
    ASSERT_OK(kept.status());
    EXPECT_EQ(kept->tokens, chains_[2]->tokens);
    EXPECT_EQ(readable_chunks(store_.get(), *chains_[2]), chains_[2]->nodes.size());
    EXPECT_EQ(store_->list("", true)->size(), 1u);
  }

  std::vector<std::unique_ptr<Chain>> chains_;
};

TEST_F(GcStopped, AfterEverySlice) {
  uint64_t n = 1;
  for (bool ended = false; !ended && !HasFailure(); n++) {
    SCOPED_TRACE("stopped at call " + std::to_string(n));
    restore();
    ended = gc_until(n);
    expect_whole();
    if (n % 2 == 0) open();
    expect_whole();
    GcReport rest = gc();
    EXPECT_TRUE(!ended || rest.sessions_removed + rest.chunks_removed + rest.segments_removed == 0);
    EXPECT_EQ(store_->info()->chunks, chains_[2]->nodes.size());
    EXPECT_EQ(store_->info()->segments, 2u) << "the trunk's, and its own";
    expect_whole();
    expect_no_stray_files();
  }
  EXPECT_GT(n, 14u) << "3 sessions and 10 nodes, a slice each";
}

// Chunks that gc has not come to yet are there to be used again.
TEST_F(GcStopped, ASaveTakesUpWhatWaits) {
  uint64_t n = 1;
  for (bool ended = false; !ended && !HasFailure(); n++) {
    SCOPED_TRACE("stopped at call " + std::to_string(n));
    restore();
    ended = gc_until(n);
    SaveOptions o;
    o.id = 77;
    ASSERT_OK(save_chain(store_.get(), "s0", *chains_[0], &o).status());
    EXPECT_EQ(store_->stat("", "s0")->chunks_missing, 0u);
    expect_clean();
    gc();
    EXPECT_EQ(readable_chunks(store_.get(), *chains_[0]), chains_[0]->nodes.size());
    EXPECT_EQ(store_->info()->chunks, 4u + 2 * 3u);
    expect_clean();
  }
}

// Folding the log takes as long as the writes in it, and a host waits for a slice.
TEST_F(Gc, NoSliceWritesTheLogAndFoldsIt) {
  SaveOptions o;
  o.ttl_seconds = 10;
  save("long", Chain(token_run(1000 * Chain::kBlock), 4), o);
  env_.unix_offset_ms = 20'000;
  env_.tick_ns = 500'000;  // some 10 nodes a slice
  const std::string file = root() + "/catalog.db", log = file + "-wal";
  auto file_time = fs::last_write_time(file), log_time = fs::last_write_time(log);
  int folds = 0, slices = 0;
  auto report = store_->gc([&](uint64_t, uint64_t) {
    const auto file_before = std::exchange(file_time, fs::last_write_time(file));
    const auto log_before = std::exchange(log_time, fs::last_write_time(log));
    const bool folded = file_time != file_before, written = log_time != log_before && fs::file_size(log) > 16384;
    EXPECT_FALSE(folded && written) << "in slice " << slices;
    folds += folded;
    slices++;
    return true;
  });
  ASSERT_OK(report.status());
  EXPECT_EQ(report->chunks_removed, 1000u);
  EXPECT_GT(slices, 50);
  EXPECT_GT(folds, 0) << slices;
  expect_clean();
}

// Savers, removers, renamers and gc at once. A saved session has no hole, and gc leaves exactly the chunks that the sessions need.
TEST_F(Gc, ManyThreads) {
  constexpr int kSavers = 3, kRounds = 20;
  auto shared = token_run(64, 7);
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int s = 0; s < kSavers; s++) {
    threads.emplace_back([&, s] {
      for (int r = 0; r < kRounds; r++) {
        auto ids = shared;
        for (int32_t t : token_run(20, 100 + s * kRounds + r)) ids.push_back(t);
        Chain chain(ids);
        std::string name = "s" + std::to_string(s);
        SaveOptions o;
        o.id = static_cast<uint8_t>(s + 1);
        o.overwrite = true;
        if (!save_chain(store_.get(), name, chain, o).is_ok()) failures++;
        if (readable_chunks(store_.get(), chain) != chain.nodes.size()) failures++;
        if (r % 3 == 0 && !store_->set_ttl("", name, 1000).is_ok()) failures++;
        if (r % 3 == 1 && !store_->rename("", name, name + "-old" + std::to_string(r)).is_ok()) failures++;
        if (r % 3 == 2 && !store_->remove("", name).is_ok()) failures++;
      }
    });
  }
  std::thread collector([&] {
    while (!stop) {
      if (!store_->gc([](uint64_t, uint64_t) { return true; }).is_ok()) failures++;
    }
  });
  for (auto& t : threads) t.join();
  stop = true;
  collector.join();
  EXPECT_EQ(failures, 0);
  expect_clean();
  gc();
  expect_no_stray_files();
}

// The new segment has the old one's row. A chunk that a reader of the old one does not find is not lost in the new one.
TEST_F(Gc, AChunkReplacedWhileItIsReadIsNotDamaged) {
  const Chain chain(token_run(40));
  save("ann", chain);
  open();  // no segment is open
  bool replaced = false;
  env_.on_open = [&](const std::string& path) {
    if (replaced || !path.ends_with(".seg")) return;
    replaced = true;
    ASSERT_OK(store_->remove("", "ann"));
    save("ann", chain);
  };
  std::vector<uint8_t> out(chain.payloads[0].size());
  EXPECT_EQ(store_->read(chain.nodes[0], 0, 1, out, nullptr), ChunkState::kOk);
  EXPECT_TRUE(replaced);
  EXPECT_EQ(store_->info()->chunks_damaged, 0u);
  EXPECT_EQ(readable_chunks(store_.get(), chain), chain.nodes.size());
}

}  // namespace
}  // namespace kvrt
