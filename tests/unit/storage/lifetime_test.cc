// The lifetime of a session and its names: rename, pin, time to live.
#include "runtime/base/limits.h"
#include "tests/support/damage_rig.h"
#include "tests/support/fault_env.h"

namespace kvrt {
namespace {

using namespace test;

class Lifetime : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    auto store = open_store(root(), {}, &env_);
    ASSERT_OK(store.status());
    store_ = std::move(*store);
  }
  std::string root() const { return tmp_.path() + "/s"; }
  void pass(int64_t ms) { env_.unix_offset_ms += ms; }
  uint64_t revision(const std::string& name) {
    auto stat = store_->stat("", name);
    EXPECT_OK(stat.status()) << name;
    return stat.is_ok() ? stat->revision : 0;
  }
  void expect_gone(const std::string& name) {
    EXPECT_EQ(store_->load("", name).status().code(), Code::kNotFound);
    EXPECT_EQ(store_->stat("", name).status().code(), Code::kNotFound);
    EXPECT_EQ(store_->remove("", name).code(), Code::kNotFound);
    EXPECT_EQ(store_->rename("", name, "elsewhere").code(), Code::kNotFound);
    EXPECT_EQ(store_->pin("", name, true).code(), Code::kNotFound);
    EXPECT_EQ(store_->set_ttl("", name, 0).code(), Code::kNotFound);
    auto list = store_->list("", true);
    ASSERT_OK(list.status());
    for (auto& s : *list) EXPECT_NE(s.name, name);
    EXPECT_EQ(store_->info()->sessions, list->size());
  }
  void expect_clean() {
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  }

  TempDir tmp_{"/dev/shm"};
  FaultPlan plan_;
  FaultEnv env_{posix_env(), &plan_};
  std::unique_ptr<Store> store_;
  Chain chain_{token_run(70)};
  Chain other_{token_run(40, 3)};
};

TEST_F(Lifetime, RenameTakesEverythingAlong) {
  SaveOptions o;
  o.pin = true;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  ASSERT_OK(store_->set_ttl("", "ann", 60));
  auto before = store_->stat("", "ann");
  pass(1000);
  ASSERT_OK(store_->rename("", "ann", "bob"));
  for (int reopened = 0; reopened < 2; reopened++, open()) {
    EXPECT_EQ(store_->load("", "ann").status().code(), Code::kNotFound);
    auto bob = store_->load("", "bob");
    ASSERT_OK(bob.status());
    EXPECT_EQ(bob->tokens, chain_.tokens);
    EXPECT_EQ(bob->id, session_id(1));
    EXPECT_EQ(std::string(bob->manifest.begin(), bob->manifest.end()), "manifest");
    auto after = store_->stat("", "bob");
    ASSERT_OK(after.status());
    EXPECT_TRUE(after->pinned);
    EXPECT_EQ(after->expires_unix_ms, before->expires_unix_ms);
    EXPECT_EQ(after->created_unix_ms, before->created_unix_ms);
    EXPECT_EQ(after->saved_unix_ms, before->saved_unix_ms);
    EXPECT_EQ(after->chunks, 5u);
    EXPECT_EQ(store_->list("", true)->size(), 1u);
    EXPECT_EQ(readable_chunks(store_.get(), chain_), 5u);
    expect_clean();
  }
}

TEST_F(Lifetime, RenameRefusesAndLeavesAlone) {
  ASSERT_OK(save_chain(store_.get(), "ann", chain_).status());
  SaveOptions o;
  o.id = 2;
  ASSERT_OK(save_chain(store_.get(), "bob", other_, o).status());
  o.domain = "d";
  ASSERT_OK(save_chain(store_.get(), "eve", other_, o).status());
  for (auto to : {"bob", "ann"}) {
    Status taken = store_->rename("", "ann", to);
    EXPECT_EQ(taken.code(), Code::kConflict);
    EXPECT_EQ(taken.detail(), Detail::kNameTaken);
    EXPECT_NE(taken.message().find("revision 1"), std::string::npos) << taken.message();
  }
  EXPECT_EQ(store_->rename("", "eve", "x").code(), Code::kNotFound) << "she is in another domain";
  EXPECT_EQ(store_->rename("", "nobody", "x").code(), Code::kNotFound);
  EXPECT_EQ(store_->rename("", "nobody", "bob").code(), Code::kNotFound);
  for (auto& bad : {std::string(), std::string(256, 'x'), std::string("\xff")}) {
    EXPECT_EQ(store_->rename("", "ann", bad).code(), Code::kInvalid);
    EXPECT_EQ(store_->rename("", bad, "x").code(), Code::kInvalid);
    EXPECT_EQ(store_->pin("", bad, true).code(), Code::kInvalid);
    EXPECT_EQ(store_->set_ttl("", bad, 1).code(), Code::kInvalid);
  }
  EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
  EXPECT_EQ(store_->load("", "bob")->tokens, other_.tokens);
  EXPECT_EQ(revision("ann"), 1u);
  ASSERT_OK(store_->rename("d", "eve", "ann"));
  EXPECT_EQ(store_->load("d", "ann")->tokens, other_.tokens);
  EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
  expect_clean();
}

// A revision of a name comes once, whatever is saved, removed, renamed to it or away from it.
TEST_F(Lifetime, RevisionsOfANameOnlyGrow) {
  std::map<std::string, uint64_t> highest;
  auto seen = [&](const std::string& name) {
    uint64_t now = revision(name);
    EXPECT_GT(now, highest[name]) << name;
    highest[name] = now;
  };
  SaveOptions o;
  o.overwrite = true;
  for (int i = 0; i < 5; i++) {
    ASSERT_OK(save_chain(store_.get(), "b", other_, o).status());
    seen("b");
  }
  ASSERT_OK(store_->remove("", "b"));
  o.id = 2;
  ASSERT_OK(save_chain(store_.get(), "a", chain_, o).status());
  seen("a");
  for (int i = 0; i < 4; i++) {
    ASSERT_OK(store_->rename("", "a", "b"));
    seen("b");
    ASSERT_OK(save_chain(store_.get(), "b", chain_, o).status());
    seen("b");
    if (i == 2) open();
    ASSERT_OK(store_->rename("", "b", "a"));
    seen("a");
    if (i == 1) {
      ASSERT_OK(save_chain(store_.get(), "b", other_, o).status());
      seen("b");
      ASSERT_OK(store_->set_ttl("", "b", 1));
      pass(2000);
    }
  }
  EXPECT_EQ(store_->load("", "a")->tokens, chain_.tokens);
  expect_clean();
}

TEST_F(Lifetime, RenamedOntoAnExpiredSessionOfMoreRevisions) {
  SaveOptions o;
  o.overwrite = true;
  o.ttl_seconds = 1;
  for (int i = 0; i < 5; i++) ASSERT_OK(save_chain(store_.get(), "b", other_, o).status());
  ASSERT_OK(save_chain(store_.get(), "a", chain_).status());
  pass(2000);
  ASSERT_OK(store_->rename("", "a", "b"));
  EXPECT_EQ(revision("b"), 6u);
  expect_clean();
}

// A handle that has the session open under its old name.
TEST_F(Lifetime, OldHandlesAfterARename) {
  SaveOptions handle;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, &handle).status());
  handle.revision_seen = 1;
  ASSERT_OK(store_->rename("", "ann", "bob"));
  // Under the new name it is a stranger.
  SaveOptions stranger;
  stranger.id = 7;
  EXPECT_EQ(save_chain(store_.get(), "bob", other_, stranger).status().detail(), Detail::kNameTaken);
  // Under the old name it is another session, with an id of its own.
  auto again = save_chain(store_.get(), "ann", other_, &handle);
  ASSERT_OK(again.status());
  EXPECT_GT(*again, 1u);
  EXPECT_FALSE(handle.saved_id == session_id(1));
  EXPECT_EQ(store_->stat("", "ann")->id, handle.saved_id);
  EXPECT_EQ(store_->stat("", "bob")->id, session_id(1));
  EXPECT_EQ(store_->load("", "bob")->tokens, chain_.tokens);
  EXPECT_EQ(store_->load("", "ann")->tokens, other_.tokens);
  // Once somebody else has the old name, it is a conflict; and so it is when the session came back to it.
  ASSERT_OK(store_->remove("", "ann"));
  ASSERT_OK(save_chain(store_.get(), "ann", other_, stranger).status());
  EXPECT_EQ(save_chain(store_.get(), "ann", chain_, handle).status().detail(), Detail::kNameTaken);
  ASSERT_OK(store_->remove("", "ann"));
  ASSERT_OK(store_->rename("", "bob", "ann"));
  EXPECT_EQ(save_chain(store_.get(), "ann", other_, handle).status().detail(), Detail::kRevision);
  EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
  stranger.overwrite = true;
  ASSERT_OK(save_chain(store_.get(), "ann", other_, stranger).status());
  EXPECT_EQ(store_->load("", "ann")->tokens, other_.tokens);
  expect_clean();
}

TEST_F(Lifetime, RemovedAndSavedAgainKeepsItsId) {
  SaveOptions handle;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, &handle).status());
  handle.revision_seen = 1;
  ASSERT_OK(store_->remove("", "ann"));
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, &handle).status());
  EXPECT_EQ(handle.saved_id, session_id(1));
  EXPECT_EQ(store_->stat("", "ann")->id, session_id(1));
}

TEST_F(Lifetime, ExpiresAtTheMillisecond) {
  auto start = env_.unix_ms();
  ASSERT_OK(save_chain(store_.get(), "ann", chain_).status());
  EXPECT_EQ(store_->stat("", "ann")->expires_unix_ms, 0);
  ASSERT_OK(store_->set_ttl("", "ann", 1000));
  int64_t expires = store_->stat("", "ann")->expires_unix_ms;
  EXPECT_GE(expires, start + 1'000'000);
  EXPECT_LE(expires, env_.unix_ms() + 1'000'000);
  env_.unix_offset_ms = expires - posix_env()->unix_ms() - 60'000;  // the real clock goes on meanwhile: a minute to spare
  EXPECT_OK(store_->load("", "ann").status());
  EXPECT_EQ(store_->list("", true)->size(), 1u);
  env_.unix_offset_ms = expires - posix_env()->unix_ms() + 1;
  expect_gone("ann");
  EXPECT_TRUE(store_->find(std::span(chain_.nodes).first(1))[0]) << "until gc";
  expect_clean();
  open();
  expect_gone("ann");
  env_.unix_offset_ms = 0;
  EXPECT_OK(store_->load("", "ann").status()) << "a clock set back brings it back: nothing was removed";
}

TEST_F(Lifetime, PinnedNeverExpires) {
  SaveOptions o;
  o.ttl_seconds = 10;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  EXPECT_FALSE(store_->stat("", "ann")->pinned);
  ASSERT_OK(store_->pin("", "ann", true));
  EXPECT_EQ(revision("ann"), 1u) << "open handles may still save";
  pass(20'000);
  EXPECT_TRUE(store_->stat("", "ann")->pinned);
  EXPECT_OK(store_->load("", "ann").status());
  ASSERT_OK(store_->gc(nullptr).status());
  EXPECT_EQ(readable_chunks(store_.get(), chain_), 5u);
  o.revision_seen = 1;
  o.ttl_seconds = 5;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  EXPECT_TRUE(store_->stat("", "ann")->pinned) << "a save without pin leaves it as it is";
  pass(6000);
  EXPECT_OK(store_->stat("", "ann").status());
  ASSERT_OK(store_->pin("", "ann", false));
  expect_gone("ann");
  expect_clean();
}

TEST_F(Lifetime, ASaveSetsItsOwnTime) {
  SaveOptions o;
  o.ttl_seconds = 10;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  pass(9000);
  o.revision_seen = 1;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  pass(9000);
  const int64_t expires = store_->stat("", "ann")->expires_unix_ms;
  EXPECT_EQ(expires, store_->stat("", "ann")->saved_unix_ms + 10'000) << "renewed";
  o.revision_seen = 2;
  o.ttl_seconds = 0;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  EXPECT_EQ(store_->stat("", "ann")->expires_unix_ms, expires) << "a save without a time leaves it";
  ASSERT_OK(store_->set_ttl("", "ann", 20));
  o.revision_seen = 3;
  ASSERT_OK(save_chain(store_.get(), "ann", other_, o).status());
  EXPECT_GT(store_->stat("", "ann")->expires_unix_ms, expires) << "and the host's";
  ASSERT_OK(store_->set_ttl("", "ann", 0));
  pass(1'000'000'000);
  EXPECT_OK(store_->stat("", "ann").status());
  o.id = 2;
  o.revision_seen = 0;
  ASSERT_OK(save_chain(store_.get(), "new", chain_, o).status());
  EXPECT_EQ(store_->stat("", "new")->expires_unix_ms, 0);
}

TEST_F(Lifetime, AnExpiredNameIsFree) {
  SaveOptions o;
  o.ttl_seconds = 10;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  ASSERT_OK(save_chain(store_.get(), "bob", other_, o).status());
  auto created = store_->stat("", "ann")->created_unix_ms;
  pass(11'000);
  SaveOptions stranger;
  stranger.id = 9;
  auto taken = save_chain(store_.get(), "ann", other_, stranger);
  ASSERT_OK(taken.status());
  EXPECT_EQ(*taken, 2u) << "its revisions go on";
  EXPECT_GE(store_->stat("", "ann")->created_unix_ms, created + 11'000);
  EXPECT_EQ(store_->stat("", "ann")->expires_unix_ms, 0) << "the old one's time is over";
  EXPECT_EQ(store_->find(std::span(chain_.nodes).first(1))[0], 0u) << "the old one's chunks went with it";
  o.revision_seen = 1;
  EXPECT_EQ(save_chain(store_.get(), "ann", chain_, o).status().detail(), Detail::kNameTaken);
  EXPECT_EQ(save_chain(store_.get(), "bob", chain_, o).value(), 2u) << "its own handle revives it";
  // And free to be renamed to.
  pass(11'000);
  ASSERT_OK(store_->rename("", "ann", "bob"));
  EXPECT_EQ(revision("bob"), 3u);
  EXPECT_EQ(store_->load("", "bob")->tokens, other_.tokens);
  EXPECT_EQ(store_->find(std::span(chain_.nodes).first(1))[0], 0u);
  EXPECT_EQ(store_->info()->sessions, 1u);
  expect_clean();
}

TEST_F(Lifetime, TooLongATimeIsInvalid) {
  SaveOptions o;
  o.ttl_seconds = kTtlSecondsMax;
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, o).status());
  ASSERT_OK(store_->set_ttl("", "ann", kTtlSecondsMax));
  for (uint64_t seconds : {kTtlSecondsMax + 1, ~uint64_t{0}}) {
    EXPECT_EQ(store_->set_ttl("", "ann", seconds).code(), Code::kInvalid);
    o.ttl_seconds = seconds;
    auto refused = save_chain(store_.get(), "bob", other_, o);
    EXPECT_EQ(refused.status().code(), Code::kInvalid);
    EXPECT_NE(refused.status().message().find(std::to_string(seconds)), std::string::npos);
  }
  EXPECT_EQ(store_->load("", "bob").status().code(), Code::kNotFound);
  EXPECT_EQ(segment_files(root()).size(), 1u);
}

// A flipped bit must not make gc remove a session.
TEST_F(Damage, GcLeavesARowWhoseBitsChanged) {
  SaveOptions o;
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    o.ttl_seconds = 1;
    o.id = 2;
    for (auto name : {"a", "z"}) ASSERT_OK(save_chain(store->get(), name, chain_, o).status());
  }
  sql("UPDATE sessions SET expires_ms = 1 WHERE name = 'ann'");
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  env.unix_offset_ms = 2000;
  auto store = open_store(root(), {}, &env);
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann").status().code(), Code::kCorrupt);
  auto report = (*store)->gc(nullptr);
  ASSERT_OK(report.status());
  EXPECT_EQ(report->sessions_removed, 2u) << "those on both sides of it";
  EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].session, "ann");
}

}  // namespace
}  // namespace kvrt
