// An open store whose clock the test sets, for tests of the chunks that go and those that stay.
#pragma once

#include "tests/support/fault_env.h"
#include "tests/support/sql.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

namespace fs = std::filesystem;

class Gc : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    auto store = open_store(root(), {}, &env_);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  std::string root() const { return tmp_.path() + "/s"; }
  void save(const std::string& name, const Chain& chain, SaveOptions o = {}) {
    o.id = next_id_++;
    o.overwrite = true;
    ASSERT_OK(save_chain(store_.get(), name, chain, o).status()) << name;
  }
  // Into a segment of its own, which is sealed then: the next save does not go there.
  void save_apart(const std::string& name, const Chain& chain, SaveOptions o = {}) {
    save(name, chain, o);
    open();
  }
  GcReport gc() {
    auto report = store_->gc(nullptr);
    EXPECT_OK(report.status());
    return report.is_ok() ? *report : GcReport{};
  }
  void expect_clean() {
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  }
  void expect_no_stray_files() {
    const std::string trash = sql_rows(root() + "/catalog.db", "SELECT count(*) FROM trash");  // which waits for a sync
    EXPECT_EQ(segment_files(root()).size(), store_->info()->segments + std::stoul(trash));
    EXPECT_TRUE(fs::is_empty(root() + "/tmp"));
  }

  TempDir tmp_{"/dev/shm"};
  FaultPlan plan_;
  FaultEnv env_{posix_env(), &plan_};
  std::unique_ptr<Store> store_;
  uint8_t next_id_ = 1;
};

}  // namespace kvrt::test
