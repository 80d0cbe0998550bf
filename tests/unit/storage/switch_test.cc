// The change of a repaired catalog for the old one, which may be interrupted anywhere.
#include "storage/repair/switch.h"

#include <filesystem>

#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;
namespace fs = std::filesystem;

// A switch that fails anywhere is finished in the folder where it began, whatever other folders there are.
TEST(Switch, IsFinishedWhereItBegan) {
  TempDir tmp{"/dev/shm"};
  const std::string root = tmp.path() + "/s";
  const auto put = [&](const std::string& name, uint8_t byte) {
    ASSERT_OK(posix_env()->create_new(root + name).status());
    write_file(root + name, {byte});
  };
  int halves = 0;
  for (uint64_t n = 1;; n++) {
    SCOPED_TRACE("failed at operation " + std::to_string(n));
    fs::remove_all(root);
    for (const char* name : {"", "/tmp", "/damaged-2", "/damaged-03"}) ASSERT_OK(posix_env()->make_dir(root + name));
    for (const char* name : {"/damaged-2/catalog.db", "/damaged-2/catalog.db-wal"}) put(name, 0);
    put("/catalog.db", 1);
    put("/catalog.db-wal", 2);
    put("/tmp/repaired.db", 3);
    FaultPlan plan;
    FaultEnv env(posix_env(), &plan);
    plan.arm(Fault::kIo, n, true);
    const bool switched = switch_catalogs(&env, root, {}).is_ok();
    plan.disarm();
    std::string aside = root + "/damaged-3";
    if (!switched && !fs::exists(root + "/catalog.db")) {
      halves++;
      std::vector<std::string> left;
      auto finished = finish_switch(&env, root, &aside, &left);
      ASSERT_OK(finished.status());
      EXPECT_TRUE(*finished);
    } else if (!switched && test::read_file(root + "/catalog.db") == std::vector<uint8_t>{1}) {
      auto again = switch_catalogs(&env, root, {});
      ASSERT_OK(again.status());
      aside = *again;
    }
    EXPECT_EQ(aside, root + "/damaged-3");
    EXPECT_EQ(test::read_file(aside + "/catalog.db"), std::vector<uint8_t>{1});
    EXPECT_EQ(test::read_file(aside + "/catalog.db-wal"), std::vector<uint8_t>{2});
    EXPECT_EQ(test::read_file(root + "/catalog.db"), std::vector<uint8_t>{3});
    EXPECT_EQ(test::read_file(root + "/damaged-2/catalog.db-wal"), std::vector<uint8_t>{0});
    if (HasFailure() || switched) break;
  }
  EXPECT_GT(halves, 3);
}

}  // namespace
}  // namespace kvrt
