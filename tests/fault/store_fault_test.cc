// Each operation on a store's files fails, or is the last of its process, in every scene: the store is then as before or as after, never
// between, and needs no tool.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/fault/store_scenes.h"

namespace kvrt {
namespace {

using namespace test;

struct Strike {
  Scene scene;
  uint64_t stride;  // every so many operations
};
void PrintTo(const Strike& strike, std::ostream* out) { *out << strike.scene.name; }

class StoreFault : public testing::TestWithParam<Strike> {
 protected:
  void SetUp() override {
    set_sqlite_faults(nullptr);
    if (scene().prepare) {
      ASSERT_OK(scene().prepare(base()));
    } else {
      fs::create_directory(base());
      fs::permissions(base(), fs::perms::owner_all);
    }
  }
  void TearDown() override { set_sqlite_faults(nullptr); }

  const Scene& scene() const { return GetParam().scene; }
  std::string base() const { return tmp_.path() + "/base"; }
  std::string root() const { return tmp_.path() + "/store"; }

  void copy_base() {
    fs::remove_all(root());
    fs::copy(base(), root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
    if (scene().in_parts) {
      fs::create_directory(root() + "/segs/00");
      write_file(root() + "/segs/00/00112233445566778899aabbccddeeff.seg", std::vector<uint8_t>(1000));
    }
  }

  // One of the scene's two worlds; after an acknowledgement the second. A save that wants space may leave its own KV out, unless it is to
  // be durable.
  void expect_world(Store* store, bool acknowledged, bool whole) {
    World saved = scene().after;
    for (auto& [name, session] : saved) {
      const auto before = scene().before.find(name);
      const bool news = before == scene().before.end() || before->second.revision != session.revision;
      session.may_lack_kv |= wants_space_ && news && !scene().durable_kv;
    }
    const std::string after = compare_world(store, saved, whole);
    if (after.empty()) return;
    const std::string before = compare_world(store, scene().before, whole);
    EXPECT_TRUE(!acknowledged && before.empty()) << "as after: " << after << "; as before: " << before;
  }

  // The rules for any store that opens again, whatever happened.
  void expect_sound(bool acknowledged, bool whole) {
    FaultPlan none;
    FaultEnv env(posix_env(), &none);
    env.unix_offset_ms = scene().clock_offset_ms;
    set_sqlite_faults(nullptr);
    auto store = open_store(root(), {}, &env);
    ASSERT_OK(store.status());
    expect_world(store->get(), acknowledged, whole);
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
    ASSERT_OK((*store)->gc(nullptr).status());
    auto info = (*store)->info();
    ASSERT_OK(info.status());
    EXPECT_EQ(segment_files(root()).size(), info->segments) << "segments without a row";
    EXPECT_TRUE(fs::is_empty(root() + "/tmp"));
    EXPECT_OK(save_scene(store->get(), "later", chains().unlike, 9, 0, Durability::kTokens));
  }

  static size_t open_files() {
    size_t n = 0;
    for (auto& entry : fs::directory_iterator("/proc/self/fd")) n += entry.exists() || entry.is_symlink();
    return n;
  }

  void fail_every_operation(Fault fault, bool sticky);
  void kill_at_every_operation(Fault fault);
  uint64_t strike(FaultPlan* plan, Fault fault, uint64_t nth, bool sticky);
  void expect_usable(Store* store, Fault fault);

  TempDir tmp_{"/dev/shm"};
  bool wants_space_ = false;  // the fault that strikes is want of space
};

// After a failure the open store shows its state, and does its work or says why not.
void StoreFault::expect_usable(Store* store, Fault fault) {
  expect_world(store, false, false);
  if (fault != Fault::kIo && !scene().in_parts) {
    EXPECT_EQ(compare_world(store, scene().before, false), "") << "what was refused for want of space is not there";
  }
  if (!scene().work) return;
  const Status again = scene().work(store);
  if (fault == Fault::kIo) {
    const bool says_why = again.code() == Code::kIo && !again.message().empty();
    const bool was_done = compare_world(store, scene().after, false).empty();
    EXPECT_TRUE(again.is_ok() || says_why || was_done) << again.message();
  } else {
    EXPECT_OK(again) << "with space again";
  }
}

// One run with an operation failing, the first that can from the nth on. Which; 0: none was left.
uint64_t StoreFault::strike(FaultPlan* plan, Fault fault, uint64_t nth, bool sticky) {
  copy_base();
  wants_space_ = fault == Fault::kNoSpace || fault == Fault::kQuota || fault == Fault::kShort;
  FaultEnv env(posix_env(), plan);
  env.unix_offset_ms = scene().clock_offset_ms;
  set_sqlite_faults(plan);
  const size_t files = open_files();
  Status status;
  {
    if (scene().at_open) plan->arm(fault, nth, sticky);
    auto store = open_store(root(), scene().options, &env);
    if (!scene().at_open) {
      EXPECT_OK(store.status());
      if (store.is_ok() && scene().begin) {
        EXPECT_OK(scene().begin(store->get()));
      }
      if (!scene().at_close) plan->arm(fault, nth, sticky);
    }
    status = !store.is_ok() ? store.take_status() : scene().work ? scene().work(store->get()) : Status();
    if (scene().at_close) {
      plan->arm(fault, nth, sticky);
      store->reset();
    }
    plan->disarm();
    if (store.is_ok() && *store != nullptr && !status.is_ok()) expect_usable(store->get(), fault);
  }
  EXPECT_EQ(open_files(), files) << "files stay open";
  if (!status.is_ok()) {
    EXPECT_GT(plan->fired(), 0u) << status.message();
    EXPECT_EQ(status.code(), fault == Fault::kIo ? Code::kIo : Code::kNoSpace) << status.message();
    const auto says = [&](const char* what) { return status.message().find(what) != std::string::npos; };
    EXPECT_TRUE(fault != Fault::kQuota || says("raise the quota") || says("disk_bytes_max")) << status.message();
  }
  // A chunk that could not be read is forgotten, to be computed and saved again: that is slow, and not a loss.
  expect_sound(status.is_ok(), !scene().reads || fault != Fault::kIo);
  return plan->first();
}

void StoreFault::fail_every_operation(Fault fault, bool sticky) {
  if (scene().only_kills) return;
  uint64_t n = 1;
  for (; n < 1000; n += GetParam().stride) {
    SCOPED_TRACE("operation " + std::to_string(n));
    FaultPlan plan;
    const uint64_t struck = strike(&plan, fault, n, sticky);
    if (struck == 0 || HasFailure()) break;
    n = struck;
  }
}

TEST_P(StoreFault, IoErrorOnce) { fail_every_operation(Fault::kIo, false); }
TEST_P(StoreFault, IoErrorThatLasts) { fail_every_operation(Fault::kIo, true); }
TEST_P(StoreFault, NoSpaceOnce) { fail_every_operation(Fault::kNoSpace, false); }
TEST_P(StoreFault, NoSpaceThatLasts) { fail_every_operation(Fault::kNoSpace, true); }
TEST_P(StoreFault, QuotaOnce) { fail_every_operation(Fault::kQuota, false); }
TEST_P(StoreFault, QuotaThatLasts) { fail_every_operation(Fault::kQuota, true); }
TEST_P(StoreFault, ShortWriteOnce) { fail_every_operation(Fault::kShort, false); }
TEST_P(StoreFault, ShortWritesThatLast) { fail_every_operation(Fault::kShort, true); }

void StoreFault::kill_at_every_operation(Fault fault) {
  void* shared = ::mmap(nullptr, sizeof(FaultPlan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  FaultPlan& plan = *new (shared) FaultPlan;  // outlives the child
  uint64_t n = 1;
  for (bool finished = false; n < 1000 && !finished && !HasFailure(); n += GetParam().stride) {
    SCOPED_TRACE("killed at operation " + std::to_string(n));
    copy_base();
    int ack[2];
    ASSERT_EQ(::pipe(ack), 0);
    plan.disarm();
    const pid_t child = ::fork();
    if (child == 0) {
      FaultEnv env(posix_env(), &plan);
      env.unix_offset_ms = scene().clock_offset_ms;
      set_sqlite_faults(&plan);
      if (scene().at_open) plan.arm(fault, n);
      {
        auto store = open_store(root(), scene().options, &env);
        if (!store.is_ok() || (scene().begin && !scene().begin(store->get()).is_ok())) ::_exit(3);
        if (!scene().at_open) plan.arm(fault, n);
        if (scene().work && !scene().work(store->get()).is_ok()) ::_exit(4);
        if (::write(ack[1], "A", 1) != 1) ::_exit(5);
      }  // closing has operations of its own
      ::_exit(0);
    }
    ::close(ack[1]);
    char byte = 0;
    const bool acknowledged = ::read(ack[0], &byte, 1) == 1;
    ::close(ack[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    finished = WIFEXITED(status);
    EXPECT_EQ(finished ? WEXITSTATUS(status) : 0, 0);
    EXPECT_TRUE(finished || WTERMSIG(status) == SIGKILL);
    EXPECT_TRUE(acknowledged || !finished);
    expect_sound(acknowledged, true);
    n = std::max(n, plan.first());
  }
  ::munmap(shared, sizeof(FaultPlan));
  if (fault == Fault::kKill) {
    EXPECT_GT(n, 1 + GetParam().stride) << "nobody was killed";
  }
}

// Before operation n + 1 is after operation n.
TEST_P(StoreFault, Killed) { kill_at_every_operation(Fault::kKill); }
TEST_P(StoreFault, KilledAfterHalfAWrite) { kill_at_every_operation(Fault::kTornKill); }

// The scenes show the cases that they are made for.
TEST(StoreScenes, EvictTakesWhatItMust) {
  TempDir tmp("/dev/shm");
  const std::string root = tmp.path() + "/store";
  ASSERT_OK(prepare_heavy(root));
  StoreOptions options;
  options.disk_bytes_max = kSceneQuota;
  auto store = open_store(root, options);
  ASSERT_OK(store.status());
  EXPECT_EQ(readable_chunks(store->get(), chains().heavy), chains().heavy.nodes.size());
  ASSERT_OK(save_scene(store->get(), "eve", chains().heavier, 3, 0, Durability::kTokens));
  EXPECT_LT(readable_chunks(store->get(), chains().heavy), chains().heavy.nodes.size());
  EXPECT_EQ(readable_chunks(store->get(), chains().other), chains().other.nodes.size());
}

// As few descriptors as there may be: a file that cannot be opened is an error or a hole, never damage.
TEST(StoreLimits, AnyNumberOfDescriptors) {
  TempDir tmp("/dev/shm");
  const std::string root = tmp.path() + "/store";
  ASSERT_OK(prepare_two(root));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  uint64_t revision = 1, failures = 0, length = 40;
  for (rlim_t more = 0; more < 24; ++more) {
    SCOPED_TRACE(std::to_string(more) + " descriptors");
    const int next = ::dup(0);
    ::close(next);
    rlimit few{static_cast<rlim_t>(next) + more, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    Status status;
    {
      auto store = open_store(root);
      status = store.take_status();
      if (status.is_ok()) status = resume_whole(store->get(), "bob", chains().other);
      const Chain longer(token_run(length + 20));
      if (status.is_ok()) status = save_scene(store->get(), "ann", longer, 1, revision, Durability::kTokens);
      if (status.is_ok()) revision++, length += 20;
      ::setrlimit(RLIMIT_NOFILE, &old);
    }
    failures += !status.is_ok();
    EXPECT_TRUE(status.is_ok() || status.code() == Code::kIo) << status.message();
    auto store = open_store(root);
    ASSERT_OK(store.status());
    const Chain ann(token_run(length));
    EXPECT_EQ(compare_world(store->get(), {{"ann", {revision, &ann}}, {"bob", {1, &chains().other}}}, true), "");
    EXPECT_OK(verify_clean(store->get()));
    EXPECT_EQ((*store)->info()->chunks_damaged, 0u);
  }
  EXPECT_GT(failures, 2u);
  EXPECT_GT(revision, 2u);
}

TEST(StorePlace, NetworkFileSystemAndUnsafeDirectoryAreRefused) {
  TempDir tmp("/dev/shm");
  const std::string root = tmp.path() + "/store";
  ASSERT_OK(prepare_two(root));
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  FsInfo nfs{"nfs", true, 1, 1};
  env.fs_override = &nfs;
  auto store = open_store(root, {}, &env);
  EXPECT_EQ(store.status().code(), Code::kUnsupported);
  EXPECT_NE(store.status().message().find("nfs"), std::string::npos);
  env.fs_override = nullptr;
  DirInfo foreign{false, false, true};
  env.dir_override = &foreign;
  EXPECT_EQ(open_store(root, {}, &env).status().detail(), Detail::kUnsafeDirectory);
}

std::vector<Strike> strikes(uint64_t stride) {
  std::vector<Strike> all;
  for (Scene& scene : make_scenes()) all.push_back({std::move(scene), stride});
  return all;
}
std::string scene_name(const testing::TestParamInfo<Strike>& info) { return info.param.scene.name; }
INSTANTIATE_TEST_SUITE_P(Some, StoreFault, testing::ValuesIn(strikes(29)), scene_name);
INSTANTIATE_TEST_SUITE_P(Seventh, StoreFault, testing::ValuesIn(strikes(7)), scene_name);
INSTANTIATE_TEST_SUITE_P(Every, StoreFault, testing::ValuesIn(strikes(1)), scene_name);

}  // namespace
}  // namespace kvrt
