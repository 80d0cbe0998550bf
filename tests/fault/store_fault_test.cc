// One operation fails, or is the last of its process: the store is then as before or as after, never between, and needs no tool.
#include <sys/wait.h>

#include <functional>

#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;
namespace fs = std::filesystem;

// Two sessions and what a save makes of one of them. "ann" grows (its old tail goes); "bob" must not change.
struct Sessions {
  Chain before{token_run(40)};  // 2 blocks and a tail
  Chain after{token_run(120)};  // 7 blocks and a tail; shares 2 blocks
  Chain other{token_run(35, 5)};
};

void make_base(const std::string& root, const Sessions& s) {
  auto store = open_store(root);
  ASSERT_OK(store.status());
  ASSERT_OK(save_chain(store->get(), "ann", s.before).status());
  SaveOptions bob;
  bob.id = 2;
  ASSERT_OK(save_chain(store->get(), "bob", s.other, bob).status());
}

void copy_base(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
  fs::permissions(to, fs::perms::owner_all);
}

// What must hold of any store, whatever happened: opens, verifies, no garbage, "bob" whole.
void expect_sound(Store* store, const std::string& root, const Sessions& s) {
  auto faults = store->verify(nullptr);
  ASSERT_OK(faults.status());
  for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  auto bob = store->load("", "bob");
  ASSERT_OK(bob.status());
  EXPECT_EQ(bob->tokens, s.other.tokens);
  EXPECT_EQ(readable_chunks(store, s.other), s.other.nodes.size());
  auto info = store->info();
  ASSERT_OK(info.status());
  EXPECT_EQ(segment_files(root).size(), info->segments) << "segments without a row";
  EXPECT_TRUE(fs::is_empty(root + "/tmp"));
}

// "ann" is at generation 1 with the old tokens or at 2 with the new ones; her KV is whole if `kv`.
void expect_before_or_after(Store* store, const Sessions& s, bool acknowledged, bool kv) {
  auto ann = store->load("", "ann");
  ASSERT_OK(ann.status());
  const Chain& chain = ann->gen == 2 ? s.after : s.before;
  EXPECT_TRUE(ann->gen == 1 || ann->gen == 2) << ann->gen;
  if (acknowledged) {
    EXPECT_EQ(ann->gen, 2u) << "an acknowledged save is gone";
  }
  EXPECT_EQ(ann->tokens, chain.tokens);
  if (kv) {
    EXPECT_EQ(readable_chunks(store, chain), chain.nodes.size());
  }
}

Result<uint64_t> grow_ann(Store* store, const Sessions& s, Durability durability) {
  SaveOptions o;
  o.gen_seen = 1;
  o.durability = durability;
  return save_chain(store, "ann", s.after, o);
}

class StoreFault : public testing::Test {
 protected:
  void SetUp() override {
    set_sqlite_faults(nullptr);
    make_base(base(), s_);
  }
  void TearDown() override { set_sqlite_faults(nullptr); }
  std::string base() { return tmp_.path() + "/base"; }
  std::string root() { return tmp_.path() + "/store"; }

  // Fails operation 1, 2, … of one save until a run without a failure; returns the count of runs.
  uint64_t fail_every_operation(Fault fault, bool sticky, Durability durability) {
    for (uint64_t n = 1; n < 1000; n++) {
      SCOPED_TRACE("operation " + std::to_string(n));
      copy_base(base(), root());
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      bool acknowledged = false, past_end = false;
      {
        auto store = open_store(root(), {}, &env);
        EXPECT_OK(store.status());
        plan.arm(fault, n, sticky);
        auto gen = grow_ann(store->get(), s_, durability);
        past_end = plan.count() < n;
        plan.disarm();
        acknowledged = gen.is_ok();
        if (!acknowledged) {
          EXPECT_GT(plan.fired(), 0u) << gen.status().message();
          EXPECT_EQ(gen.status().code(), fault == Fault::kIo ? Code::kIo : Code::kNoSpace) << gen.status().message();
          expect_before_or_after(store->get(), s_, false, false);
          if (fault != Fault::kIo) retry(store->get(), &acknowledged);
        }
      }
      set_sqlite_faults(nullptr);
      auto store = open_store(root());
      EXPECT_OK(store.status());
      if (!store.is_ok()) return n;
      expect_before_or_after(store->get(), s_, acknowledged, true);
      expect_sound(store->get(), root(), s_);
      if (past_end || testing::Test::HasFailure()) return n;
    }
    return 0;
  }

  // With space again, the same open store takes the same save.
  void retry(Store* store, bool* acknowledged) {
    auto ann = store->load("", "ann");
    ASSERT_OK(ann.status());
    EXPECT_EQ(ann->gen, 1u) << "a save refused for lack of space is not there";
    auto gen = grow_ann(store, s_, Durability::kNone);
    EXPECT_OK(gen.status());
    *acknowledged = gen.is_ok();
  }

  // Kills a child at operation 1, 2, … of `work`, then checks with `check(root, acknowledged)`; returns the count of kills.
  uint64_t kill_at_every_operation(Fault fault, bool from_open, const std::function<bool(Store*)>& work,
                                   const std::function<void(const std::string&, bool)>& check) {
    for (uint64_t n = 1; n < 1000; n++) {
      SCOPED_TRACE("killed at operation " + std::to_string(n));
      copy_base(base(), root());
      int ack[2];
      EXPECT_EQ(::pipe(ack), 0);
      pid_t child = ::fork();
      if (child == 0) {
        FaultPlan plan;
        FaultEnv env(posix_env(), &plan);
        set_sqlite_faults(&plan);
        if (from_open) plan.arm(fault, n);
        {
          auto store = open_store(root(), {}, &env);
          if (!store.is_ok()) ::_exit(3);
          if (!from_open) plan.arm(fault, n);
          if (!work(store->get())) ::_exit(4);
          if (::write(ack[1], "A", 1) != 1) ::_exit(5);
        }  // closing has its own operations
        ::_exit(0);
      }
      ::close(ack[1]);
      char byte = 0;
      bool acknowledged = ::read(ack[0], &byte, 1) == 1;
      ::close(ack[0]);
      int status = 0;
      ::waitpid(child, &status, 0);
      bool finished = WIFEXITED(status);
      if (finished) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        EXPECT_TRUE(acknowledged);
      } else {
        EXPECT_EQ(WTERMSIG(status), SIGKILL);
      }
      check(root(), acknowledged);
      if (finished || testing::Test::HasFailure()) return n - 1;
    }
    return 0;
  }

  TempDir tmp_{"/dev/shm"};
  Sessions s_;
};

TEST_F(StoreFault, IoErrorAtEveryOperationOfASave) { EXPECT_GT(fail_every_operation(Fault::kIo, false, Durability::kKv), 20u); }
TEST_F(StoreFault, LastingIoErrorFromEveryOperationOfASave) { EXPECT_GT(fail_every_operation(Fault::kIo, true, Durability::kTokens), 15u); }
TEST_F(StoreFault, NoSpaceAtEveryOperationOfASave) { EXPECT_GT(fail_every_operation(Fault::kNoSpace, false, Durability::kKv), 20u); }
TEST_F(StoreFault, LastingNoSpaceFromEveryOperationOfASave) {
  EXPECT_GT(fail_every_operation(Fault::kNoSpace, true, Durability::kTokens), 15u);
}
TEST_F(StoreFault, ShortWriteAtEveryOperationOfASave) { EXPECT_GT(fail_every_operation(Fault::kShort, false, Durability::kTokens), 15u); }

TEST_F(StoreFault, KilledAtEveryOperationOfASave) {
  for (Fault fault : {Fault::kKill, Fault::kTornKill}) {
    for (Durability durability : {Durability::kTokens, Durability::kKv}) {
      uint64_t kills = kill_at_every_operation(
          fault, false, [&](Store* store) { return grow_ann(store, s_, durability).is_ok(); },
          [&](const std::string& path, bool acknowledged) {
            auto store = open_store(path);
            ASSERT_OK(store.status());
            expect_before_or_after(store->get(), s_, acknowledged, true);
            expect_sound(store->get(), path, s_);
          });
      EXPECT_GT(kills, 25u);
    }
  }
}

TEST_F(StoreFault, KilledAtEveryOperationOfARemove) {
  uint64_t kills = kill_at_every_operation(
      Fault::kTornKill, false, [&](Store* store) { return store->remove("", "ann").is_ok(); },
      [&](const std::string& path, bool acknowledged) {
        auto store = open_store(path);
        ASSERT_OK(store.status());
        auto ann = (*store)->load("", "ann");
        if (!ann.is_ok()) {
          EXPECT_EQ(ann.status().code(), Code::kNotFound);
        } else {
          EXPECT_FALSE(acknowledged);
          EXPECT_EQ(readable_chunks(store->get(), s_.before), s_.before.nodes.size());
        }
        expect_sound(store->get(), path, s_);
      });
  EXPECT_GT(kills, 5u);
}

// Also the recovery of a killed save may be killed.
TEST_F(StoreFault, KilledAtEveryOperationOfAnOpen) {
  copy_base(base(), root());
  {
    FaultPlan plan;
    FaultEnv env(posix_env(), &plan);
    pid_t child = ::fork();
    if (child == 0) {
      auto store = open_store(root());
      if (!store.is_ok() || !grow_ann(store->get(), s_, Durability::kTokens).is_ok()) ::_exit(1);
      write_file(root() + "/tmp/left.seg", {1, 2, 3});
      FaultPlan::die();  // the log is full of it
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  fs::remove_all(base());
  fs::rename(root(), base());
  uint64_t kills = kill_at_every_operation(
      Fault::kTornKill, true, [&](Store*) { return true; },
      [&](const std::string& path, bool) {
        auto store = open_store(path);
        ASSERT_OK(store.status());
        expect_before_or_after(store->get(), s_, true, true);
        expect_sound(store->get(), path, s_);
      });
  EXPECT_GT(kills, 10u);
}

TEST_F(StoreFault, KilledAtEveryOperationOfACreation) {
  fs::remove_all(base());
  fs::create_directory(base());
  uint64_t kills = kill_at_every_operation(
      Fault::kTornKill, true, [&](Store* store) { return save_chain(store, "ann", s_.before).is_ok(); },
      [&](const std::string& path, bool acknowledged) {
        auto store = open_store(path);
        ASSERT_OK(store.status());
        auto ann = (*store)->load("", "ann");
        EXPECT_TRUE(!acknowledged || ann.is_ok());
        auto faults = (*store)->verify(nullptr);
        ASSERT_OK(faults.status());
        EXPECT_TRUE(faults->empty());
        EXPECT_OK(save_chain(store->get(), "new", s_.other).status());
      });
  EXPECT_GT(kills, 30u);
}

TEST_F(StoreFault, NetworkFileSystemAndUnsafeDirectoryAreRefused) {
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  FsInfo nfs{"nfs", true, 1, 1};
  env.fs_override = &nfs;
  auto store = open_store(base(), {}, &env);
  EXPECT_EQ(store.status().code(), Code::kUnsupported);
  EXPECT_NE(store.status().message().find("nfs"), std::string::npos);
  env.fs_override = nullptr;
  DirInfo foreign{false, false, true};
  env.dir_override = &foreign;
  EXPECT_EQ(open_store(base(), {}, &env).status().detail(), Detail::kUnsafeDirectory);
}

}  // namespace
}  // namespace kvrt
