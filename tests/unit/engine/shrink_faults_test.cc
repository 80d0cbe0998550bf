// A conversion to rounded KV that fails, or is killed, anywhere.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fault_env.h"
#include "tests/unit/engine/shrink_rig.h"

namespace kvrt {
namespace {

using namespace test;

// Each operation on a file fails, for want of space or otherwise, or is the last of its process: the session is as before or as after.
class ShrinkFaults : public testing::Test {
 protected:
  void SetUp() override {
    ShrinkHost host(base());
    host.keep("ann", words(0, 70));
    exact_ = host.go_on("ann", false, words(70, 6));
  }
  std::string directory() const { return tmp_.path() + "/s"; }
  std::string base() const { return tmp_.path() + "/base"; }
  void copy_base() {
    std::filesystem::remove_all(directory());
    std::filesystem::copy(base(), directory(), std::filesystem::copy_options::recursive);
    std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
  }
  // Gives whether it is converted. Not `whole`: a chunk that could not be read was forgotten.
  bool expect_one_or_the_other(bool whole) {
    ShrinkHost host(directory());
    auto faults = host.store->verify(nullptr, nullptr);
    EXPECT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
    const LogitRows taken = host.go_on("ann", true, words(70, 6));
    const bool converted = host.inexact;
    if (whole) {
      EXPECT_GE(host.resumed.reused_disk, 69u) << "no KV is lost";
      EXPECT_EQ(taken == exact_, !converted);
    }
    EXPECT_TRUE(host.go_on("ann", false, words(70, 6)) == exact_);
    const uint64_t now = host.must_shrink().converted;
    EXPECT_TRUE(!whole || now == (converted ? 0u : 1u));
    return converted;
  }
  TempDir tmp_{"/dev/shm"};
  LogitRows exact_;
};

TEST_F(ShrinkFaults, EachOperationFails) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kIo}) {
    uint64_t before = 0, after = 0;
    for (uint64_t nth = 1;; nth += 1 + nth / 12) {
      copy_base();
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      bool fired, done;
      {
        ShrinkHost host(directory(), "llama_gqa_f32", {}, &env);
        plan.arm(fault, nth, fault == Fault::kNoSpace);
        done = host.shrink().is_ok();
        fired = plan.fired() > 0;
        plan.disarm();
      }
      set_sqlite_faults(nullptr);
      const bool converted = expect_one_or_the_other(fault == Fault::kNoSpace);
      EXPECT_TRUE(!done || converted || fired) << nth;
      ++(converted ? after : before);
      if (testing::Test::HasFailure()) FAIL() << "operation " << nth;
      if (!fired) break;
    }
    EXPECT_GT(before, 0u);
    EXPECT_GT(after, 0u);
  }
}

TEST_F(ShrinkFaults, KilledAtEachOperation) {
  uint64_t before = 0, after = 0;
  for (uint64_t nth = 1;; nth += 1 + nth / 12) {
    copy_base();
    const pid_t child = fork();
    if (child == 0) {
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      ShrinkHost host(directory(), "llama_gqa_f32", {}, &env);
      plan.arm(nth % 2 ? Fault::kKill : Fault::kTornKill, nth);
      _exit(host.shrink().is_ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ASSERT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
    ++(expect_one_or_the_other(true) ? after : before);
    if (testing::Test::HasFailure()) FAIL() << "operation " << nth;
    if (!killed && nth % 2) break;
  }
  EXPECT_GT(before, 0u);
  EXPECT_GT(after, 0u);
}

}  // namespace
}  // namespace kvrt
