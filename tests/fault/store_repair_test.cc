// A repair that fails or is killed at any of its operations: the store is as it was or as it will be, and repair can be run again.
#include <sys/wait.h>

#include "storage/repair/repair.h"
#include "tests/fault/store_scenes.h"

namespace kvrt {
namespace {

using namespace test;

class RepairFault : public testing::Test {
 protected:
  void SetUp() override {
    set_sqlite_faults(nullptr);
    ASSERT_OK(prepare_killed(base()));  // with a log
    auto bytes = test::read_file(base() + "/catalog.db");
    std::fill_n(bytes.begin(), 100, uint8_t{0});
    write_file(base() + "/catalog.db", bytes);
    auto segment = segment_files(base())[0];
    auto frames = test::read_file(segment);
    frames[32 + 300] ^= 1;
    write_file(segment, frames);
  }
  void TearDown() override { set_sqlite_faults(nullptr); }
  std::string base() { return tmp_.path() + "/base"; }
  std::string root() { return tmp_.path() + "/store"; }
  void reset() {
    fs::remove_all(root());
    fs::copy(base(), root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
  }
  void expect_repaired_in_the_end() {
    auto again = repair_store(posix_env(), nullptr, root(), {});
    ASSERT_OK(again.status());
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
    const World world{{"ann", {2, &chains().longer}}, {"bob", {1, &chains().other}}};
    EXPECT_EQ(compare_world(store->get(), world, false), "");
    EXPECT_EQ(readable_chunks(store->get(), chains().longer) + readable_chunks(store->get(), chains().other),
              chains().longer.nodes.size() + chains().other.nodes.size() - 1);
    EXPECT_EQ(test::read_file(root() + "/damaged-1/catalog.db"), test::read_file(base() + "/catalog.db")) << "the damaged one is kept";
  }

  TempDir tmp_{"/dev/shm"};
};

TEST_F(RepairFault, KilledAtEveryOperation) {
  uint64_t n = 1;
  for (bool finished = false; !finished && n < 2000; n++) {
    SCOPED_TRACE("killed at operation " + std::to_string(n));
    reset();
    const pid_t child = ::fork();
    if (child == 0) {
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      plan.arm(Fault::kTornKill, n);
      ::_exit(repair_store(&env, nullptr, root(), {}).is_ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    finished = WIFEXITED(status);
    if (finished) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    expect_repaired_in_the_end();
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 50u);
}

TEST_F(RepairFault, EveryOperationFails) {
  struct {
    Fault fault;
    bool sticky;
    uint64_t step;
  } const runs[] = {{Fault::kIo, false, 3}, {Fault::kIo, true, 11}, {Fault::kNoSpace, true, 1}, {Fault::kShort, false, 1}};
  for (auto [fault, sticky, step] : runs) {
    uint64_t n = 1;
    for (bool past_end = false; !past_end && n < 2000;) {
      SCOPED_TRACE("operation " + std::to_string(n) + (sticky ? ", lasting" : ""));
      reset();
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      plan.arm(fault, n, sticky);
      auto report = repair_store(&env, nullptr, root(), {});
      past_end = plan.fired() == 0;
      n = std::max(n, plan.first()) + step;
      plan.disarm();
      set_sqlite_faults(nullptr);
      if (!report.is_ok()) {
        EXPECT_EQ(report.status().code(), fault == Fault::kIo ? Code::kIo : Code::kNoSpace) << report.status().message();
      }
      expect_repaired_in_the_end();
      if (HasFailure()) return;
    }
    EXPECT_GT(n, 10u);
  }
}

}  // namespace
}  // namespace kvrt
