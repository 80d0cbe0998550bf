// One operation fails, or is the last of its process: the store is then as before or as after, never between, and needs no tool.
#include "tests/fault/store_fault.h"

namespace kvrt {
namespace {

using namespace test;

TEST_F(StoreFault, IoErrorAtEveryOperationOfASave) { EXPECT_GT(fail_every_operation_of_a_save(Fault::kIo, false, Durability::kKv), 20u); }
TEST_F(StoreFault, LastingIoErrorFromEveryOperationOfASave) {
  EXPECT_GT(fail_every_operation_of_a_save(Fault::kIo, true, Durability::kTokens), 15u);
}
TEST_F(StoreFault, NoSpaceAtEveryOperationOfASave) {
  EXPECT_GT(fail_every_operation_of_a_save(Fault::kNoSpace, false, Durability::kKv), 20u);
}
TEST_F(StoreFault, LastingNoSpaceFromEveryOperationOfASave) {
  EXPECT_GT(fail_every_operation_of_a_save(Fault::kNoSpace, true, Durability::kTokens), 15u);
}
TEST_F(StoreFault, ShortWriteAtEveryOperationOfASave) {
  EXPECT_GT(fail_every_operation_of_a_save(Fault::kShort, false, Durability::kTokens), 15u);
}

TEST_F(StoreFault, EveryFaultAtEveryOperationOfARename) {
  for (Fault fault : {Fault::kIo, Fault::kNoSpace, Fault::kShort}) {
    for (bool sticky : {false, true}) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + (sticky ? ", lasting" : ""));
      uint64_t runs = fail_every_operation(
          fault, sticky, [&](Store* store) { return store->rename("", "ann", "eve"); },
          [&](Store* store, bool acknowledged, bool whole) { expect_renamed_or_not(store, acknowledged, whole); });
      EXPECT_GT(runs, 4u);
    }
  }
}

TEST_F(StoreFault, EveryFaultAtEveryOperationOfAGc) {
  expire_ann();
  for (Fault fault : {Fault::kIo, Fault::kNoSpace, Fault::kShort}) {
    for (bool sticky : {false, true}) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + (sticky ? ", lasting" : ""));
      uint64_t runs = fail_every_operation(
          fault, sticky, [&](Store* store) { return collect(store); },
          [&](Store* store, bool, bool whole) { expect_collected_or_not(store, false, whole); });
      EXPECT_GT(runs, 10u);
    }
  }
}

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

TEST_F(StoreFault, KilledAtEveryOperationOfARename) {
  for (Fault fault : {Fault::kKill, Fault::kTornKill}) {
    uint64_t kills = kill_at_every_operation(
        fault, false, [&](Store* store) { return store->rename("", "ann", "eve").is_ok(); },
        [&](const std::string& path, bool acknowledged) {
          auto store = open_store(path);
          ASSERT_OK(store.status());
          expect_renamed_or_not(store->get(), acknowledged, true);
          expect_sound(store->get(), path, s_);
        });
    EXPECT_GT(kills, 5u);
  }
}

TEST_F(StoreFault, KilledAtEveryOperationOfAGc) {
  expire_ann();
  for (Fault fault : {Fault::kKill, Fault::kTornKill}) {
    uint64_t kills = kill_at_every_operation(
        fault, false, [&](Store* store) { return collect(store).is_ok(); },
        [&](const std::string& path, bool acknowledged) {
          FaultPlan plan;
          FaultEnv env(posix_env(), &plan);
          env.unix_offset_ms = clock_offset_ms_;
          auto store = open_store(path, {}, &env);
          ASSERT_OK(store.status());
          expect_sound(store->get(), path, s_);
          expect_collected_or_not(store->get(), acknowledged, true);
        });
    EXPECT_GT(kills, 15u);
  }
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
