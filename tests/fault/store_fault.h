// What the tests of single faults share: a small store, and a run of some work with each of its operations failing or the last.
#pragma once

#include <sys/wait.h>

#include <functional>
#include <string>

#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

namespace fs = std::filesystem;

// Two sessions and what a save makes of one of them. "ann" grows (its old tail goes); "bob" must not change.
struct Sessions {
  Chain before{token_run(40)};  // 2 blocks and a tail
  Chain after{token_run(120)};  // 7 blocks and a tail; shares 2 blocks
  Chain other{token_run(35, 5)};
};

inline void make_base(const std::string& root, const Sessions& s) {
  auto store = open_store(root);
  ASSERT_OK(store.status());
  ASSERT_OK(save_chain(store->get(), "ann", s.before).status());
  SaveOptions bob;
  bob.id = 2;
  ASSERT_OK(save_chain(store->get(), "bob", s.other, bob).status());
}

inline void copy_base(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
  fs::permissions(to, fs::perms::owner_all);
}

// What must hold of any store, whatever happened: opens, verifies, no garbage, "bob" whole.
inline void expect_sound(Store* store, const std::string& root, const Sessions& s) {
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
inline void expect_before_or_after(Store* store, const Sessions& s, bool acknowledged, bool kv) {
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

inline Result<uint64_t> grow_ann(Store* store, const Sessions& s, Durability durability) {
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

  // Fails operation 1, 2, … of `work` until a run without a failure; returns the count of runs. `check(store, acknowledged, whole)` looks
  // at the store that is still open, then at a new one (whole: with its KV).
  using Work = std::function<Status(Store*)>;
  using Check = std::function<void(Store*, bool acknowledged, bool whole)>;
  uint64_t fail_every_operation(Fault fault, bool sticky, const Work& work, const Check& check) {
    for (uint64_t n = 1; n < 1000; n++) {
      SCOPED_TRACE("operation " + std::to_string(n));
      copy_base(base(), root());
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      env.unix_offset_ms = clock_offset_ms_;
      set_sqlite_faults(&plan);
      bool acknowledged = false, past_end = false;
      {
        auto store = open_store(root(), {}, &env);
        EXPECT_OK(store.status());
        plan.arm(fault, n, sticky);
        Status status = work(store->get());
        past_end = plan.count() < n;
        plan.disarm();
        acknowledged = status.is_ok();
        if (!acknowledged) {
          EXPECT_GT(plan.fired(), 0u) << status.message();
          EXPECT_EQ(status.code(), fault == Fault::kIo ? Code::kIo : Code::kNoSpace) << status.message();
          check(store->get(), false, false);
          if (fault != Fault::kIo) {  // with space again, the same open store does the same work
            Status retried = work(store->get());
            EXPECT_OK(retried);
            acknowledged = retried.is_ok();
          }
        }
      }
      set_sqlite_faults(nullptr);
      FaultEnv later(posix_env(), &plan);
      later.unix_offset_ms = clock_offset_ms_;
      auto store = open_store(root(), {}, &later);
      EXPECT_OK(store.status());
      if (!store.is_ok()) return n;
      check(store->get(), acknowledged, true);
      expect_sound(store->get(), root(), s_);
      if (past_end || testing::Test::HasFailure()) return n;
    }
    return 0;
  }

  uint64_t fail_every_operation_of_a_save(Fault fault, bool sticky, Durability durability) {
    return fail_every_operation(
        fault, sticky, [&](Store* store) { return grow_ann(store, s_, durability).take_status(); },
        [&](Store* store, bool acknowledged, bool whole) {
          expect_before_or_after(store, s_, acknowledged, whole);
          if (!whole && fault != Fault::kIo) {
            EXPECT_EQ(store->load("", "ann")->gen, 1u) << "a save refused for lack of space is not there";
          }
        });
  }

  // "ann" has one of her two names, with all that is hers.
  void expect_renamed_or_not(Store* store, bool acknowledged, bool whole) {
    auto ann = store->load("", "ann"), eve = store->load("", "eve");
    EXPECT_NE(ann.is_ok(), eve.is_ok()) << "both names, or none";
    if (acknowledged) {
      EXPECT_OK(eve.status());
    }
    auto& found = ann.is_ok() ? ann : eve;
    ASSERT_OK(found.status());
    EXPECT_EQ(found->tokens, s_.before.tokens);
    EXPECT_EQ(found->gen, ann.is_ok() ? 1u : 2u);
    if (whole) {
      EXPECT_EQ(readable_chunks(store, s_.before), s_.before.nodes.size());
    }
  }

  // gc took "ann" or left her, expired; of the chunks that nobody needs, some may wait for another gc.
  void expect_collected_or_not(Store* store, bool acknowledged, bool whole) {
    EXPECT_EQ(store->load("", "ann").status().code(), Code::kNotFound);
    EXPECT_EQ(store->list("", true)->size(), 1u);
    if (!whole) return;
    auto rest = store->gc(nullptr);
    ASSERT_OK(rest.status());
    if (acknowledged) {
      EXPECT_EQ(rest->sessions_removed + rest->chunks_removed + rest->segments_removed, 0u);
    }
    EXPECT_EQ(store->info()->chunks, s_.other.nodes.size());
    EXPECT_EQ(store->info()->segments, 1u);
  }

  // From here on "ann" is expired.
  void expire_ann() {
    auto store = open_store(base());
    ASSERT_OK(store.status());
    SaveOptions o;
    o.gen_seen = 1;
    ASSERT_OK(save_chain(store->get(), "ann", s_.after, o).status());
    ASSERT_OK((*store)->set_ttl("", "ann", 10));
    clock_offset_ms_ = 11'000;
  }

  // gc, with a file lying about that no row names.
  Status collect(Store* store) {
    fs::create_directory(root() + "/segs/00");
    write_file(root() + "/segs/00/00112233445566778899aabbccddeeff.seg", std::vector<uint8_t>(1000));
    return store->gc(nullptr).take_status();
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
          env.unix_offset_ms = clock_offset_ms_;
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
  int64_t clock_offset_ms_ = 0;
};

}  // namespace kvrt::test
