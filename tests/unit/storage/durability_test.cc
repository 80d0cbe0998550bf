// The order in which a save's data reaches the disk.
#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

// However little a save waits for, a power cut must not leave frames of two logs in one: the header of a log that starts anew is synced
// before its frames are written.
TEST(Durability, EverySyncsTheHeaderOfTheLog) {
  TempDir tmp{"/dev/shm"};
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  set_sqlite_faults(&plan);
  auto store = open_store(tmp.path() + "/s", {}, &env);
  ASSERT_OK(store.status());
  uint8_t id = 1;
  for (Durability d : {Durability::kNone, Durability::kProcess, Durability::kTokens}) {
    ASSERT_OK((*store)->gc(nullptr).status());  // which empties the log
    OpLog log;
    plan.record(&log);
    SaveOptions o;
    o.id = id++;
    o.durability = d;
    EXPECT_OK(save_chain(store->get(), "s" + std::to_string(id), Chain(token_run(40, id)), o).status());
    plan.record(nullptr);
    std::string order;
    for (const DiskOp& op : log.take()) {
      if (!op.path.ends_with("-wal")) continue;
      if (op.kind == DiskOp::Kind::kWrite) order += op.offset == 0 ? "header " : "frame ";
      if (op.kind == DiskOp::Kind::kSync) order += "sync ";
    }
    EXPECT_EQ(order.substr(0, 17), "header sync frame") << static_cast<int>(d);
  }
  store->reset();
  set_sqlite_faults(nullptr);
}

}  // namespace
}  // namespace kvrt
