// A migration that is killed, or finds no space, anywhere: the catalog has every table of the one schema or of the other. That sessions and
// KV are whole then, and after every other fault, is the scene "Migrate" of store_scenes.h.
#include <sys/wait.h>

#include "tests/fault/store_scenes.h"

namespace kvrt {
namespace {

using namespace test;

class EveryMigration : public testing::Test {
 protected:
  static constexpr char kTables[] = "PRAGMA user_version; SELECT type, name, sql FROM sqlite_master ORDER BY type, name";
  // Sessions, nodes and the places of chunks, which old tables have in the nodes' rows. A migration makes the sessions' checksums anew: with
  // the store's uuid, which is drawn.
  static std::string sessions(const std::string& catalog, bool old) {
    const std::string rows = "SELECT name, hex(id), gen, head, tokens, pinned, hex(manifest) FROM sessions ORDER BY name;";
    const std::string checksums = old ? "SELECT hex(checksum) FROM sessions ORDER BY name;" : "";
    const std::string nodes = "SELECT id, hex(key), parent, refs, segment, offset, bytes FROM nodes";
    return sql_rows(catalog, rows + checksums + nodes + (old ? "" : " LEFT JOIN chunks ON node = id AND grp = 0"));
  }

  void SetUp() override {
    set_sqlite_faults(nullptr);
    ASSERT_OK(prepare_two(base()));
    after_ = sql_rows(base() + "/catalog.db", kTables);
    sessions_ = sessions(base() + "/catalog.db", false);
    make_schema_2(base());
    before_ = sql_rows(base() + "/catalog.db", kTables);
    old_sessions_ = sessions(base() + "/catalog.db", true);
    ASSERT_OK(kill_with_log(base(), "UPDATE segments SET synced = synced"));
    ASSERT_NE(before_, after_);
  }
  void TearDown() override { set_sqlite_faults(nullptr); }
  std::string base() const { return tmp_.path() + "/base"; }
  std::string root() const { return tmp_.path() + "/store"; }
  void copy_base() {
    fs::remove_all(root());
    fs::copy(base(), root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
  }
  // Reads the tables past kvrt. True: they are migrated, and then there is a backup.
  bool look() {
    const std::string tables = sql_rows(root() + "/catalog.db", kTables);
    EXPECT_TRUE(tables == before_ || tables == after_) << tables;
    EXPECT_EQ(sessions(root() + "/catalog.db", tables == before_), tables == before_ ? old_sessions_ : sessions_);
    const std::string backup = root() + "/catalog.db.old";
    if (tables == after_) {
      EXPECT_EQ(sql_rows(backup, kTables), before_);
      EXPECT_EQ(sessions(backup, true), old_sessions_);
    }
    return tables == after_;
  }

  TempDir tmp_{"/dev/shm"};
  std::string before_, after_, sessions_, old_sessions_;
};

TEST_F(EveryMigration, KilledAnywhereIsNeverMixed) {
  uint64_t old = 0, migrated = 0;
  for (uint64_t n = 1; n < 1000 && !HasFailure(); n++) {
    SCOPED_TRACE("killed at operation " + std::to_string(n));
    copy_base();
    const pid_t child = ::fork();
    if (child == 0) {
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      set_sqlite_faults(&plan);
      plan.arm(Fault::kKill, n);
      ::_exit(open_store(root(), {}, &env).is_ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    const std::string as_killed = tmp_.path() + "/killed";  // looking recovers the log
    fs::remove_all(as_killed);
    fs::copy(root(), as_killed, fs::copy_options::recursive);
    const bool done = look();
    ++(done ? migrated : old);
    if (!WIFSIGNALED(status)) break;
    if (!done && n % 16 != 0) continue;
    fs::remove_all(root());
    fs::rename(as_killed, root());
    fs::permissions(root(), fs::perms::owner_all);
    ASSERT_OK(open_store(root()).status());
    EXPECT_TRUE(look()) << "it was not taken up again";
  }
  EXPECT_GT(old, 50u);
  EXPECT_GT(migrated, 10u);
}

TEST_F(EveryMigration, NoSpaceLeavesTheOldOne) {
  uint64_t refused = 0;
  for (uint64_t n = 1; n < 1000 && !HasFailure(); n++) {
    SCOPED_TRACE("no space from operation " + std::to_string(n));
    copy_base();
    FaultPlan plan;
    FaultEnv env(posix_env(), &plan);
    set_sqlite_faults(&plan);
    plan.arm(Fault::kNoSpace, n, true);
    Status status = open_store(root(), {}, &env).take_status();
    const bool struck = plan.first() != 0;
    n = std::max(n, plan.first());
    plan.disarm();
    set_sqlite_faults(nullptr);
    const bool migrated = look();
    if (!status.is_ok()) {
      EXPECT_EQ(status.code(), Code::kNoSpace) << status.message();
      refused += !migrated;
    }
    EXPECT_TRUE(migrated || !fs::exists(root() + "/catalog.db.old")) << "a backup of what did not change takes the space";
    if (!struck) break;
  }
  EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace kvrt
