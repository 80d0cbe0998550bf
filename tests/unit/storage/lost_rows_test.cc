// Repair of catalogs with a session's row that cannot be read, or not be believed: each session is kept or told as lost, and each chunk is
// kept or counted as lost.
#include "tests/support/damage_rig.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;

class LostRows : public Damage {
 protected:
  static constexpr uint64_t kSessions = 3;
  void SetUp() override {
    auto store = open_store(base());
    ASSERT_OK(store.status());
    save(store->get(), "anna", ann_, 1);
    save(store->get(), "bob", bob_, 2);
    save(store->get(), "carla", carla_, 3);
    chunks_ = (*store)->info()->chunks;
    store->reset();
    reset();
  }
  std::string base() const { return tmp_.path() + "/base"; }
  void save(Store* store, const std::string& name, const Chain& chain, uint8_t id) {
    SaveOptions o;
    o.id = id;
    o.groups = {1, 2};
    o.needs = {{1, 0}, {2, 20}};
    ASSERT_OK(save_chain(store, name, chain, o).status());
  }
  void reset() {
    fs::remove_all(root());
    fs::copy(base(), root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
  }
  // All sessions and chunks are in one of the counts, what is kept is whole, and the rest of bob is there under another name.
  Repaired expect_all_told(uint64_t kept) {
    Repaired r = repair(root());
    EXPECT_OK(r.status);
    if (!r.status.is_ok()) return r;
    EXPECT_GE(r.report.sessions_kept, kept);
    EXPECT_EQ(r.report.sessions_kept + r.report.sessions_lost, kSessions);
    EXPECT_EQ(r.report.chunks_kept + r.report.chunks_lost, chunks_);
    auto store = open_store(root());
    EXPECT_OK(store.status());
    if (!store.is_ok()) return r;
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
    for (auto [name, chain] : {std::pair{"anna", &ann_}, std::pair{"bob", &bob_}, std::pair{"carla", &carla_}}) {
      auto session = (*store)->load("", name);
      const uint64_t missing = session.is_ok() ? (*store)->stat("", name)->chunks_missing : 0;
      EXPECT_TRUE(!session.is_ok() || (session->tokens == chain->tokens && missing == 0)) << name;
      EXPECT_EQ(readable_chunks(store->get(), *chain, 1), chain->nodes.size()) << name;
    }
    EXPECT_EQ((*store)->list("", true)->size(), r.report.sessions_kept + r.report.sessions_recovered);
    return r;
  }

  Chain ann_{token_run(70)}, bob_{token_run(50, 3)}, carla_{token_run(40, 5)};
  uint64_t chunks_ = 0;
};

TEST_F(LostRows, WhatIsNotOfTheConversationIsPutRight) {
  for (const char* change :
       {"needs = x'01000000008214000000'", "needs = x'03000000000214000000'", "needs = x'01000000000210000000'", "needs = x''",
        "needs = x'ff00000000'", "pinned = 4", "pinned = 256", "expires_ms = 1024", "created_ms = 0, saved_ms = 0", "used = 0",
        "used = -5, chunks = -1, chunk_bytes = 7, counted = (SELECT shares FROM totals)"}) {
    SCOPED_TRACE(change);
    reset();
    sql(std::string("PRAGMA ignore_check_constraints=ON; UPDATE nodes SET refs = refs + 1 WHERE id = 1; UPDATE sessions SET ") + change +
        " WHERE name = 'bob'");
    const Repaired r = expect_all_told(3);
    EXPECT_EQ(r.report.sessions_lost, 0u);
    EXPECT_EQ(r.report.sessions_recovered, 0u);
    EXPECT_EQ(sql_rows(catalog(), "SELECT count(*) FROM sessions WHERE used <= 0"), "0|\n") << "its KV is there: it can be evicted";
    if (HasFailure()) return;
  }
}

TEST_F(LostRows, ARowThatDoesNotParseIsALostSession) {
  for (const char* change : {"id = x'00'", "root = x'01'", "tokens = 77", "model_id = randomblob(32)", "checksum = x'0000'", "gen = 9"}) {
    SCOPED_TRACE(change);
    reset();
    sql(std::string("PRAGMA ignore_check_constraints=ON; UPDATE sessions SET ") + change + " WHERE name = 'bob'");
    const Repaired r = expect_all_told(2);
    EXPECT_EQ(r.report.sessions_lost, 1u);
    EXPECT_EQ(r.report.sessions_recovered, 1u);
    EXPECT_TRUE(std::any_of(r.lines.begin(), r.lines.end(), [](auto& l) { return l.find("session bob") == 0; }));
    if (HasFailure()) return;
  }
}

// The row with its header, byte by byte. Some bits make another row of it, others none at all.
TEST_F(LostRows, EveryFlippedBitOfTheRow) {
  const auto good = test::read_file(catalog());
  const std::string name = "bob";
  const auto row = std::search(good.begin(), good.end(), name.begin(), name.end());
  size_t kept = 0, lost = 0;
  for (auto at = good.begin(); (at = std::search(at, good.end(), name.begin(), name.end())) != good.end(); ++at) {
    const auto from = static_cast<size_t>(at - good.begin()) - 40;
    for (size_t bit = 8 * from; bit < 8 * (from + 40 + 220); bit += 7) {
      reset();
      auto bytes = good;
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      if (bytes == good || bit / 8 >= bytes.size()) continue;
      write_file(catalog(), bytes);
      SCOPED_TRACE("byte " + std::to_string(bit / 8) + " bit " + std::to_string(bit % 8));
      const Repaired r = expect_all_told(1);
      kept += r.report.sessions_kept == kSessions;
      lost += r.report.sessions_lost;
      if (HasFailure()) return;
    }
  }
  EXPECT_NE(row, good.end());
  EXPECT_GT(kept, 100u);
  EXPECT_GT(lost, 50u);
  std::printf("kept %zu, lost %zu\n", kept, lost);
}

// A reader forgets a damaged chunk; the repair that removes its bytes says so.
TEST_F(LostRows, AChunkThatAReaderForgotIsLost) {
  for (const bool rebuilt : {false, true}) {
    SCOPED_TRACE(rebuilt);
    reset();
    flip(segment_files(root()).at(0), 32 + 300);
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      size_t good = 0;
      for (const Chain* chain : {&ann_, &bob_, &carla_})
        good += readable_chunks(store->get(), *chain, 1) + readable_chunks(store->get(), *chain, 2);
      ASSERT_EQ(good, chunks_ - 1);
      ASSERT_EQ((*store)->info()->chunks, chunks_ - 1);
    }
    if (rebuilt) sql("UPDATE nodes SET refs = refs + 1 WHERE id = 1");
    const Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.chunks_kept, chunks_ - 1);
    EXPECT_EQ(r.report.chunks_lost, 1u);
  }
}

}  // namespace
}  // namespace kvrt
