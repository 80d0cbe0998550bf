// The chunks that a session needs, by group: all of a group without a window, of the others those of its last tokens.
#include <algorithm>

#include "storage/catalog/session_needs.h"
#include "tests/support/gc_rig.h"
#include "tests/support/repair_rig.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;

// Position by position, as the rule says it: of the group's chunks those are needed whose node has a position from `end` - window on.
uint64_t count_missing(const Chain& chain, const std::vector<SessionGroup>& needs, const std::vector<uint32_t>& stored) {
  const auto end = static_cast<int64_t>(chain.tokens.size());
  uint64_t missing = 0;
  for (const SessionGroup& g : needs) {
    for (size_t i = 0; i < chain.nodes.size(); i++) {
      bool needed = false;
      for (size_t t = 0; t < chain.nodes[i].tokens.size(); t++) {
        const auto position = static_cast<int64_t>(i * Chain::kBlock + t);
        needed = needed || g.window == 0 || position >= end - static_cast<int64_t>(g.window);
      }
      const bool there = has_group(stored[i], g.group) || has_group(stored[i], 0);
      missing += needed && !there;
    }
  }
  return missing;
}

class Needs : public Gc {
 protected:
  std::string catalog() const { return root() + "/catalog.db"; }
  // Saves the chunks of the groups that has(node, group) names.
  Status save_some(const std::string& name, const Chain& chain, const std::vector<SessionGroup>& needs,
                   const std::function<bool(size_t node, uint32_t group)>& has) {
    KVRT_ASSIGN(auto save, store_->begin_save());
    for (size_t i = 0; i < chain.nodes.size(); i++) {
      for (uint32_t group = 0; group < 4; group++) {
        if (has(i, group)) KVRT_TRY(put_chunk(save.get(), chain, i, group));
      }
    }
    SessionIn in;
    in.name = name;
    in.id = session_id(7);
    in.overwrite = true;
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    in.groups = needs;
    return save->commit(in).take_status();
  }
  void expect_missing(const std::string& name, uint64_t missing) {
    EXPECT_EQ(store_->stat("", name)->chunks_missing, missing);
    auto list = store_->list("", true);
    ASSERT_OK(list.status());
    for (const SessionStat& s : *list) EXPECT_TRUE(s.name != name || s.chunks_missing == missing) << s.chunks_missing;
  }

  Chain chain_{token_run(70)};  // 4 blocks and a tail of 6
  const std::vector<SessionGroup> windowed_{{1, 0}, {2, 20}};
};

TEST_F(Needs, AreWhatTheRuleSays) {
  uint64_t state = 17;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 60; round++) {
    const Chain chain(token_run(1 + random(100), round));
    std::vector<SessionGroup> needs;
    for (uint32_t group = 0; group < 4; group++) {
      if (random(2) == 0) needs.push_back({group, static_cast<uint32_t>(random(3) == 0 ? 0 : 1 + random(120))});
    }
    if (needs.empty()) continue;
    std::vector<uint32_t> stored(chain.nodes.size());
    for (uint32_t& mask : stored) mask = static_cast<uint32_t>(random(2) == 0 ? 15 : random(16)) & (random(3) == 0 ? 15u : 14u);
    ASSERT_OK(save_some("ann", chain, needs, [&](size_t i, uint32_t group) { return has_group(stored[i], group); }));
    const std::vector<uint32_t> there = store_->find(chain.nodes);
    expect_missing("ann", count_missing(chain, needs, there));
  }
  expect_clean();
}

TEST_F(Needs, ChunksBehindAWindowAreNotMissing) {
  for (const auto& [window, first] : {std::pair<uint32_t, size_t>{1, 4}, {6, 4}, {7, 3}, {22, 3}, {23, 2}, {70, 0}, {1000, 0}}) {
    SCOPED_TRACE(window);
    const std::vector<SessionGroup> needs{{1, window}, {3, window}};
    const auto from = first;
    ASSERT_OK(save_some("ann", chain_, needs, [&](size_t i, uint32_t group) { return (group == 1 || group == 3) && i >= from; }));
    expect_missing("ann", 0);
    ASSERT_OK(store_->remove("", "ann"));
    gc();
    ASSERT_OK(save_some("ann", chain_, needs, [&](size_t i, uint32_t group) { return group == 1 && i > from; }));
    expect_missing("ann", 1 + chain_.nodes.size() - first);
    ASSERT_OK(store_->remove("", "ann"));
    gc();
  }
}

// As 0.1 wrote them: one chunk has all layers.
TEST_F(Needs, AChunkOfAllLayersIsEnough) {
  ASSERT_OK(save_some("ann", chain_, windowed_, [](size_t, uint32_t group) { return group == 0; }));
  expect_missing("ann", 0);
  expect_clean();
}

TEST_F(Needs, GroupsThatDoNotAscendAreRefused) {
  for (const std::vector<SessionGroup>& needs :
       {std::vector<SessionGroup>{{32, 0}}, {{2, 0}, {1, 0}}, {{1, 0}, {1, 5}}, {{~0u, 1}}, {{256, 0}}}) {
    EXPECT_EQ(save_some("ann", chain_, needs, [](size_t, uint32_t) { return false; }).code(), Code::kInvalid);
  }
  EXPECT_TRUE(store_->list("", true)->empty());
}

TEST_F(Needs, TheirColumnIsWhatFormatSays) {
  ASSERT_OK(save_some("ann", chain_, {{1, 0}, {31, 0x01020304}}, [](size_t, uint32_t) { return false; }));
  EXPECT_EQ(sql_rows(catalog(), "SELECT hex(needs) FROM sessions"), "01000000001F04030201|\n");
  EXPECT_EQ(decode_needs(encode_needs(windowed_)), windowed_);
  std::vector<uint8_t> bytes = encode_needs(windowed_);
  for (size_t n = 0; n <= bytes.size(); n++) EXPECT_EQ(decode_needs(std::span(bytes).first(n)).has_value(), n % 5 == 0) << n;
  bytes[5] = 1;
  EXPECT_FALSE(decode_needs(bytes).has_value()) << "the same group twice";
  bytes[5] = 32;
  EXPECT_FALSE(decode_needs(bytes).has_value());
  EXPECT_FALSE(decode_needs(std::vector<uint8_t>(33 * 5)).has_value());
}

TEST_F(Needs, AFlippedBitInThemIsFound) {
  ASSERT_OK(save_some("ann", chain_, windowed_, [](size_t, uint32_t group) { return group == 1 || group == 2; }));
  for (int byte = 0; byte < 10; byte++) {
    for (const char* change : {"01", "80"}) {
      const std::string was = sql_rows(catalog(), "SELECT hex(needs) FROM sessions").substr(0, 20);
      std::string now = was;
      const int value = std::stoi(was.substr(static_cast<size_t>(2 * byte), 2), nullptr, 16) ^ std::stoi(change, nullptr, 16);
      char two[3];
      std::snprintf(two, sizeof two, "%02X", static_cast<unsigned>(value));
      now.replace(static_cast<size_t>(2 * byte), 2, two);
      sql_rows(catalog(), "UPDATE sessions SET needs = x'" + now + "', counted = -1");
      EXPECT_EQ(store_->load("", "ann").status().code(), Code::kCorrupt) << now;
      (void)store_->list("", true).is_ok();
      auto faults = store_->verify(nullptr);
      ASSERT_OK(faults.status());
      EXPECT_FALSE(faults->empty());
      sql_rows(catalog(), "UPDATE sessions SET needs = x'" + was + "'");
    }
  }
  EXPECT_EQ(store_->load("", "ann")->tokens, chain_.tokens);
}

TEST_F(Needs, StayThroughARenameAPinAndARepair) {
  ASSERT_OK(save_some("ann", chain_, windowed_, [](size_t i, uint32_t group) { return group == 1 || (group == 2 && i == 4); }));
  ASSERT_OK(store_->rename("", "ann", "eve"));
  ASSERT_OK(store_->pin("", "eve", 3));
  ASSERT_OK(store_->set_ttl("", "eve", 1000));
  expect_missing("eve", 1);  // of group 2, whose window begins in the fourth block
  const std::string row = sql_rows(catalog(), "SELECT hex(needs), hex(checksum) FROM sessions");
  const Chain other(token_run(90, 3));
  ASSERT_OK(save_some("bob", other, windowed_, [](size_t, uint32_t group) { return group == 1; }));
  store_.reset();
  sql_rows(catalog(), "UPDATE nodes SET refs = refs + 1; UPDATE sessions SET tokens = 1 WHERE name = 'bob'");
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
  EXPECT_EQ(r.report.sessions_kept, 1u);
  EXPECT_EQ(r.report.sessions_recovered, 1u);
  open();
  EXPECT_EQ(sql_rows(catalog(), "SELECT hex(needs), hex(checksum) FROM sessions WHERE name = 'eve'"), row);
  expect_missing("eve", 1);
  EXPECT_EQ(sql_rows(catalog(), "SELECT hex(needs), chunks_missing FROM sessions WHERE name <> 'eve'"), "|0|\n");
  expect_clean();
}

}  // namespace
}  // namespace kvrt
