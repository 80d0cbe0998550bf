// A sync fails once and its data is never on the disk, as with kernels that call the pages clean afterwards: whatever the store
// acknowledges then, before or after, is there behind a power cut.
#include "tests/fault/store_scenes.h"

namespace kvrt {
namespace {

using namespace test;

struct Attempt {
  const char* name;
  std::function<Status(Store*)> before_it;  // null: nothing
  std::function<Status(Store*)> work;
  World before, after;
  const Chain* kv = nullptr;  // durable once the work is acknowledged
  StoreOptions options = {};
  World weaker = {};  // the world that a save that does not outlast power may fall back to, until then
};

std::vector<Attempt> attempts() {
  const Chains& c = chains();
  const World ann{{"ann", {1, &c.start}}}, both{{"ann", {1, &c.start}}, {"bob", {1, &c.other}}}, grown{{"ann", {2, &c.longer}}};
  const auto save = [](const std::string& name, const Chain& chain, uint8_t id, uint64_t seen, Durability durability) {
    return [=, &chain](Store* s) { return save_scene(s, name, chain, id, seen, durability); };
  };
  const auto bob = save("bob", c.other, 2, 0, Durability::kTokens);
  const World shared{{"ann", {1, &c.start}}, {"bob", {1, &c.other}}, {"eve", {1, &c.other}}};
  const World later{{"ann", {2, &c.longer}}, {"bob", {1, &c.other}}};
  std::vector<Attempt> all;
  all.push_back({"Save", nullptr, save("ann", c.longer, 1, 1, Durability::kTokens), ann, grown});
  all.push_back({"SaveKv", nullptr, save("ann", c.longer, 1, 1, Durability::kKv), ann, grown, &c.longer});
  all.push_back({"ReusedKv", bob, save("eve", c.other, 3, 0, Durability::kKv), both, shared, &c.other});
  all.push_back({"BehindWeaker", save("ann", c.longer, 1, 1, Durability::kProcess), bob, grown, later, nullptr, {}, ann});
  all.push_back(all.back());
  all.back().name = "FoldedInForRoom";
  all.back().options.disk_bytes_max = 120'000;
  all.push_back({"Remove", bob, [](Store* s) { return s->remove("", "bob"); }, both, ann});
  all.push_back({"Rename", nullptr, [](Store* s) { return s->rename("", "ann", "eve"); }, ann, {{"eve", {2, &c.start}}}});
  all.push_back({"Pin", nullptr, [](Store* s) { return s->pin("", "ann", true); }, ann, {{"ann", {1, &c.start, true}}}});
  return all;
}

void PrintTo(const Attempt& attempt, std::ostream* out) { *out << attempt.name; }

class StoreSync : public testing::TestWithParam<Attempt> {
 protected:
  void SetUp() override {
    auto store = open_store(tmp_.path() + "/base");
    ASSERT_OK(store.status());
    ASSERT_OK(save_scene(store->get(), "ann", chains().start, 1, 0, Durability::kKv));
    store->reset();
    base_ = Disk::of(tmp_.path() + "/base");
  }
  void TearDown() override { set_sqlite_faults(nullptr); }

  // The acknowledgements on the way.
  struct Told {
    bool work = false, zoe = false;
  };

  // The nth sync of the work fails. Then the work again, another save and the closing, on the same handle; the power goes at any time
  // after the first failure. False: there are not so many syncs.
  bool play(const Attempt& a, uint64_t nth) {
    base_.write_to(live_);
    FaultPlan plan;
    FaultEnv env(posix_env(), &plan);
    OpLog log;
    set_sqlite_faults(&plan);
    plan.record(&log);
    auto store = open_store(live_, a.options, &env);
    EXPECT_OK(store.status());
    if (a.before_it) {
      EXPECT_OK(a.before_it(store->get()));
    }
    plan.arm(Fault::kSyncLost, nth);
    size_t work_at = SIZE_MAX, zoe_at = SIZE_MAX;  // acknowledged behind so many operations
    Status status = a.work(store->get());
    const bool fired = plan.fired() > 0;
    plan.disarm();
    EXPECT_TRUE(status.is_ok() || status.code() == Code::kIo) << status.message();
    if (status.is_ok() || a.work(store->get()).is_ok()) work_at = log.size();
    if (save_scene(store->get(), "zoe", chains().unlike, 9, 0, Durability::kTokens).is_ok()) zoe_at = log.size();
    store->reset();  // which folds the log in
    plan.record(nullptr);
    std::vector<DiskOp> ops = log.take();
    const auto lost = std::find_if(ops.begin(), ops.end(), [](const DiskOp& op) { return op.kind == DiskOp::Kind::kSyncLost; });
    const auto first = static_cast<size_t>(lost - ops.begin());
    PowerCut cut(base_, live_, std::move(ops));
    cut.states_max = 2;
    if (fired) {
      cut.explore(first, 0, nth, [&](size_t done, const Disk& disk) { expect_told(disk, a, {done >= work_at, done >= zoe_at}); });
    }
    set_sqlite_faults(nullptr);
    return fired;
  }

  void expect_told(const Disk& disk, const Attempt& a, Told told) {
    const std::string root = tmp_.path() + "/cut";
    disk.write_to(root);
    set_sqlite_faults(nullptr);
    auto store = open_store(root);
    ASSERT_OK(store.status());
    World before = a.before, after = a.after;
    if (!told.work && !a.weaker.empty() && compare_world(store->get(), a.weaker, false).empty()) return;
    const bool zoe = (*store)->load("", "zoe").is_ok();
    EXPECT_TRUE(zoe || !told.zoe) << "a save was acknowledged after a sync had failed, and is gone";
    if (zoe) before["zoe"] = after["zoe"] = {1, &chains().unlike};
    const std::string is_after = compare_world(store->get(), after, false), is_before = compare_world(store->get(), before, false);
    EXPECT_TRUE(is_after.empty() || (is_before.empty() && !told.work)) << "as after: " << is_after << "; as before: " << is_before;
    if (a.kv != nullptr && told.work) {
      EXPECT_EQ(readable_chunks(store->get(), *a.kv), a.kv->nodes.size()) << "KV that was to be durable";
    }
    if (is_before.empty() && a.weaker.empty()) {
      EXPECT_EQ(readable_chunks(store->get(), chains().start), chains().start.nodes.size()) << "KV of the session from before";
    }
  }

  TempDir tmp_{"/dev/shm"};
  const std::string live_ = tmp_.path() + "/live";
  Disk base_;
};

TEST_P(StoreSync, IsNeverASuccessAfterItFailed) {
  uint64_t n = 1;
  for (; n < 50 && !HasFailure(); ++n) {
    SCOPED_TRACE("sync " + std::to_string(n));
    if (!play(GetParam(), n)) break;
  }
  EXPECT_GT(n, 1u) << "nothing was synced";
}

std::string attempt_name(const testing::TestParamInfo<Attempt>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Every, StoreSync, testing::ValuesIn(attempts()), attempt_name);

}  // namespace
}  // namespace kvrt
