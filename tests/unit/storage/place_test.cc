// Places that cannot be written: read-only stores and file systems, and a disk that is full.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>

#include "storage/repair/repair.h"
#include "tests/support/damage_rig.h"
#include "tests/support/fault_env.h"
#include "tests/support/tmpfs.h"

namespace kvrt {
namespace {

using namespace test;

class Place : public Damage {
 protected:
  std::unique_ptr<Store> open_with_empty_log() {
    auto store = open_store(root());
    EXPECT_OK(store.status());
    EXPECT_OK((*store)->gc(nullptr).status());
    EXPECT_EQ(fs::file_size(catalog() + "-wal"), 0u);
    EXPECT_TRUE(fs::exists(catalog() + "-shm"));
    return std::move(*store);
  }
  Result<std::unique_ptr<Store>> open_mounted_read_only() {
    mounted_read_only_.dir_override = &not_writable_;
    auto store = open_store(root(), {}, &mounted_read_only_);
    EXPECT_TRUE(store.is_ok() && (*store)->info()->read_only);
    return store;
  }

  FaultPlan no_faults_;
  FaultEnv mounted_read_only_{posix_env(), &no_faults_};
  DirInfo not_writable_{.owned = true, .others_can_write = false, .writable = false};
};

TEST_F(Place, ReadOnlyReadsAndChangesNothing) {
  StoreOptions options;
  options.read_only = true;
  auto before = everything();
  {
    auto store = open_store(root(), options);
    ASSERT_OK(store.status());
    EXPECT_TRUE((*store)->info()->read_only);
    EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
    EXPECT_EQ((*store)->list("", true)->size(), 1u);
    EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
    EXPECT_EQ((*store)->begin_save().status().detail(), Detail::kReadOnly);
    EXPECT_EQ((*store)->remove("", "ann").detail(), Detail::kReadOnly);
    EXPECT_EQ((*store)->rename("", "ann", "bob").detail(), Detail::kReadOnly);
    EXPECT_EQ((*store)->pin("", "ann", true).detail(), Detail::kReadOnly);
    EXPECT_EQ((*store)->set_ttl("", "ann", 1).detail(), Detail::kReadOnly);
    EXPECT_EQ((*store)->gc(nullptr).status().detail(), Detail::kReadOnly);
    (*store)->cache_model_id({1, 1, {}}, Hash256{});
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_TRUE(faults->empty());
  }
  EXPECT_EQ(everything(), before);
  flip(segment_files(root())[0], 32 + 300);
  before = everything();
  {
    auto store = open_store(root(), options);
    ASSERT_OK(store.status());
    EXPECT_EQ(readable_chunks(store->get(), chain_), 4u);
    EXPECT_EQ(readable_chunks(store->get(), chain_), 4u);
    EXPECT_EQ((*store)->info()->chunks_damaged, 1u);
    EXPECT_FALSE((*store)->find(std::span(chain_.nodes).first(1))[0]) << "remembered in memory";
  }
  EXPECT_EQ(everything(), before);
  options.must_exist = true;
  EXPECT_EQ(open_store(tmp_.path() + "/none", options).status().code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(tmp_.path() + "/none"));
}

TEST_F(Place, ReadOnlyFileSystem) {
  Tmpfs mount(tmp_.path() + "/m", "size=8m");
  if (!mount.mounted()) GTEST_SKIP() << "no right to mount";
  const std::string closed = tmp_.path() + "/m/closed", open = tmp_.path() + "/m/open";
  fs::copy(root(), closed, fs::copy_options::recursive);
  {
    auto writer = open_with_empty_log();
    fs::copy(root(), open, fs::copy_options::recursive);
  }
  for (const std::string& place : {closed, open}) fs::permissions(place, fs::perms::owner_all);
  ASSERT_TRUE(mount.make_read_only());
  for (const std::string& place : {closed, open}) {
    SCOPED_TRACE(place);
    auto store = open_store(place);
    ASSERT_OK(store.status());
    EXPECT_TRUE((*store)->info()->read_only);
    EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
    EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
    EXPECT_EQ((*store)->begin_save().status().code(), Code::kIo);
  }
}

// A directory that cannot be written here, by a mount that is read-only, but elsewhere. A store that nobody has open there is read without
// a log. A writer that comes none the less is noticed.
TEST_F(Place, AWriterComesToAReadOnlyMount) {
  const Chain bob(token_run(50, 3));
  fs::last_write_time(catalog(), fs::last_write_time(catalog()) - std::chrono::seconds(1));
  auto reader = open_mounted_read_only();
  ASSERT_OK(reader.status());
  const auto expect_noticed = [&] {
    for (const Status& status :
         {(*reader)->list("", true).take_status(), (*reader)->load("", "ann").take_status(), (*reader)->stat("", "ann").take_status(),
          (*reader)->info().take_status(), (*reader)->verify(nullptr).take_status()}) {
      EXPECT_EQ(status.code(), Code::kIo) << status.message();
      EXPECT_NE(status.message().find("open the store again"), std::string::npos) << status.message();
    }
    EXPECT_EQ((*reader)->find(chain_.nodes), std::vector<uint32_t>(chain_.nodes.size()));
    EXPECT_EQ(readable_chunks(reader->get(), chain_), 0u);
    EXPECT_TRUE((*reader)->chunk_sizes({{chain_.nodes[0].key}})[0].empty());
  };
  EXPECT_EQ((*reader)->list("", true)->size(), 1u);
  EXPECT_EQ(readable_chunks(reader->get(), chain_), 5u);
  {
    auto writer = open_store(root());
    ASSERT_OK(writer.status());
    ASSERT_OK(save_chain(writer->get(), "bob", bob).status());
    expect_noticed();
  }
  EXPECT_FALSE(fs::exists(catalog() + "-wal"));
  expect_noticed();
  reader = open_mounted_read_only();
  ASSERT_OK(reader.status());
  EXPECT_EQ((*reader)->list("", true)->size(), 2u);
  EXPECT_EQ(readable_chunks(reader->get(), bob), bob.nodes.size());
}

// A writer is there already, with a log that is empty at the moment: the reader sees what it saves.
TEST_F(Place, AWriterIsAtAReadOnlyMount) {
  const Chain bob(token_run(50, 3)), eve(token_run(60, 4));
  auto writer = open_with_empty_log();
  auto reader = open_mounted_read_only();
  ASSERT_OK(reader.status());
  EXPECT_EQ((*reader)->list("", true)->size(), 1u);
  ASSERT_OK(save_chain(writer.get(), "bob", bob).status());
  ASSERT_EQ((*reader)->list("", true)->size(), 2u);
  ASSERT_OK(writer->gc(nullptr).status());
  ASSERT_OK(save_chain(writer.get(), "eve", eve).status());
  EXPECT_EQ((*reader)->load("", "eve")->tokens, eve.tokens);
  EXPECT_EQ(readable_chunks(reader->get(), eve), eve.nodes.size());
  EXPECT_TRUE((*reader)->verify(nullptr)->empty());
}

// It can be read; that nothing can be saved is found by verify, too, which opens the store for reading.
TEST_F(Place, AnotherJournalModeIsNamedByVerify) {
  sql("PRAGMA journal_mode=DELETE");
  StoreOptions reader;
  reader.read_only = true;
  {
    auto store = open_store(root(), reader);
    ASSERT_OK(store.status());
    EXPECT_EQ((*store)->list("", true)->size(), 1u);
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    ASSERT_EQ(faults->size(), 1u);
    EXPECT_EQ((*faults)[0].where, "catalog.db");
    EXPECT_NE((*faults)[0].what.find("journal mode"), std::string::npos) << (*faults)[0].what;
  }
  const Status refused = open_store(root()).take_status();
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_NE(refused.message().find("journal mode"), std::string::npos) << refused.message();
  ASSERT_OK(repair_store(posix_env(), nullptr, root(), {}).status());
  auto store = open_store(root(), reader);
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
}

// The limit of a file's size is an error, not the end of the process: its signal is the system's default here.
TEST_F(Place, FileSizeLimit) {
  size_t refused = 0;
  for (rlim_t limit = 0; limit < 800'000; limit += limit < 100'000 ? 10'000 : 50'000) {
    SCOPED_TRACE("files of " + std::to_string(limit) + " bytes");
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit small{limit, limit};
      ::signal(SIGXFSZ, SIG_DFL);
      ::setrlimit(RLIMIT_FSIZE, &small);
      Code code = Code::kOk;
      {
        auto store = open_store(root());
        code = store.status().code();
        const Chain large(token_run(600, static_cast<int32_t>(limit / 10'000)), 1024);
        const std::string name = "limited to " + std::to_string(limit);
        SaveOptions o;
        o.manifest.assign(200'000, 'm');
        if (store.is_ok()) code = save_chain(store->get(), name, large, o).status().code();
        if (store.is_ok() && code == Code::kOk) code = (*store)->remove("", name).code();
      }
      sigset_t pending, blocked;
      sigpending(&pending);
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      if (sigismember(&pending, SIGXFSZ) != 0 || sigismember(&blocked, SIGXFSZ) != 0) ::_exit(100);
      ::_exit(static_cast<int>(code));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    const auto code = static_cast<Code>(WEXITSTATUS(status));
    EXPECT_TRUE(code == Code::kOk || code == Code::kNoSpace) << code_name(code);
    refused += code == Code::kNoSpace;
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
  }
  EXPECT_GT(refused, 5u);
}

// A disk of 900 KB, filled with sessions around "ann" until most saves are refused.
class FullDisk : public Place {
 protected:
  void SetUp() override {
    Place::SetUp();
    if (!mount_.mounted()) GTEST_SKIP() << "no right to mount";
    auto store = open_store(tmp_.path() + "/m/s", {}, &env_);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
    SaveOptions pinned;
    pinned.pin = 1;
    ASSERT_OK(save_chain(store_.get(), "ann", chain_, pinned).status());
    size_t refused = 0;
    for (int32_t i = 0; i < 40; i++) {  // ever larger, so that the disk is full at one place or another
      Chain large(token_run(static_cast<size_t>(64 + 40 * i), 5 + i), 256);
      SaveOptions o;
      o.id = 2;
      o.ttl_seconds = 3600;
      o.durability = Durability::kKv;  // else the tokens alone would be saved
      std::string name = "s" + std::to_string(i);
      auto revision = save_chain(store_.get(), name, large, o);
      if (revision.is_ok()) continue;
      refused++;
      EXPECT_EQ(revision.status().code(), Code::kNoSpace) << revision.status().message();
      EXPECT_EQ(store_->load("", name).status().code(), Code::kNotFound);
      EXPECT_TRUE(fs::is_empty(tmp_.path() + "/m/s/tmp"));
      EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
      EXPECT_EQ(readable_chunks(store_.get(), chain_), 5u);
    }
    EXPECT_GT(refused, 10u);
  }
  void expect_room_again() {
    EXPECT_EQ(store_->list("", true)->size(), 1u);
    EXPECT_EQ(readable_chunks(store_.get(), chain_), 5u);
    Chain later(token_run(200, 77), 256);
    EXPECT_OK(save_chain(store_.get(), "later", later).status()) << "room again, work again";
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_TRUE(faults->empty());
    EXPECT_EQ(fs::file_size(tmp_.path() + "/m/s/reserve"), 256u << 10) << "made again";
  }

  Tmpfs mount_{tmp_.path() + "/m", "size=900k"};
  FaultPlan plan_;
  FaultEnv env_{posix_env(), &plan_};
  std::unique_ptr<Store> store_;
};

TEST_F(FullDisk, Remove) {
  auto sessions = store_->list("", true);
  ASSERT_OK(sessions.status());
  for (auto& s : *sessions) {
    if (s.name == "ann") continue;
    EXPECT_OK(store_->remove("", s.name));
  }
  expect_room_again();
}

// A slice has as many rows as the machine is fast: of any number the disk has room afterwards.
class FullDiskGc : public FullDisk, public testing::WithParamInterface<uint64_t> {};

TEST_P(FullDiskGc, HasRoomAtAnySpeed) {
  env_.tick_ns = 5'000'000 / GetParam() + 1;  // a slice has 5 ms, and a look at the clock for each row
  env_.unix_offset_ms = 3601'000;
  auto report = store_->gc(nullptr);
  ASSERT_OK(report.status());
  EXPECT_GT(report->sessions_removed, 2u);
  EXPECT_EQ(report->log_bytes_kept, 0u);
  EXPECT_EQ(fs::file_size(tmp_.path() + "/m/s/catalog.db-wal"), 0u);
  expect_room_again();
}
INSTANTIATE_TEST_SUITE_P(RowsOfASlice, FullDiskGc, testing::Values(1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 60, 100, 1'000'000));

}  // namespace
}  // namespace kvrt
