// Plans with proposed tokens: they have the rows and the blocks that nobody else needs, and give back what came to nothing.
#include <gtest/gtest.h>

#include "runtime/engine/step/step_parts.h"

namespace kvrt {
namespace {

constexpr uint32_t kBlock = 16;

class Proposals : public testing::Test {
 protected:
  ~Proposals() override {
    step_.committer.abandon(&plan_);
    for (auto& s : sessions_) step_.queue.remove(s.get());
    EXPECT_EQ(cache_.used_count(), 0u);
  }
  // One that decodes: all of its tokens but the last have KV. It has `proposed` proposals.
  Session* decodes(size_t tokens, uint32_t proposed) {
    Session* s = idle(tokens - 1);
    s->tokens.push_back(9);
    GenerateOptions options;
    options.speculation.lookup = true;
    options.speculation.most = options.speculation.least = proposed;
    s->generation = std::make_unique<Generation>(options);
    s->generation->warmed = s->generation->admitted = true;
    s->generation->speculation = std::make_unique<Speculation>();
    s->generation->speculation->at = tokens;
    s->generation->speculation->proposed.resize(proposed);
    step_.generations.start(s, 0);
    step_.reports.count_reuse(s);
    return s;
  }
  Session* idle(size_t tokens) {
    sessions_.push_back(std::make_unique<Session>(kBlock));
    Session* s = sessions_.back().get();
    s->kv.share = false;
    s->tokens.assign(tokens, 7);
    for (uint32_t i = 0; i * kBlock < tokens; ++i) {
      s->kv.tables[0].set(i, cache_.alloc(s->kv), std::min<uint32_t>(kBlock, static_cast<uint32_t>(tokens) - i * kBlock));
      cache_.overwritten(s->kv.tables[0].block(i), s->kv);
    }
    step_.queue.add(s);
    return s;
  }
  void plan() { step_.planner.plan(step_.queue.order(), 0, 0, &plan_); }
  uint32_t proposed(const Session* s) const {
    for (const PlannedSeq& seq : plan_.seqs) {
      if (seq.session == s) return seq.proposed;
    }
    ADD_FAILURE() << "it is not in the plan";
    return 0;
  }

  KvCache cache_{8, kBlock};
  StepParts step_{&cache_, {.context = 256, .plan = {.prefill_chunk = 64, .rows_max = 64, .logits_max = 32}}};
  std::vector<std::unique_ptr<Session>> sessions_;
  StepPlan plan_;
};

TEST_F(Proposals, HaveBlocksThatAreFree) {
  Session* s = decodes(30, 12);
  plan();
  EXPECT_EQ(proposed(s), 12u);
  EXPECT_EQ(s->kv.blocks_held(), 3u);
  ASSERT_EQ(plan_.tokens.size(), 13u);
  EXPECT_EQ(plan_.logits_rows.size(), 13u);
  EXPECT_EQ(plan_.positions.back(), 41);
  step_.committer.abandon(&plan_);
  EXPECT_EQ(s->kv.blocks(), 2u);
}

TEST_F(Proposals, TakeNoBlockOfAnotherSession) {
  Session* other = idle(5 * kBlock);
  Session* s = decodes(33, 12);  // the row of its last token takes the only block that is free
  plan();
  EXPECT_EQ(proposed(s), 12u) << "within the block";
  EXPECT_EQ(other->kv.blocks_held(), 5u);
  step_.committer.abandon(&plan_);
  s->generation->speculation->proposed.resize(20);
  s->generation->options.speculation.least = 20;
  plan();
  EXPECT_EQ(proposed(s), 15u);
  EXPECT_EQ(other->kv.blocks_held(), 5u);
}

TEST_F(Proposals, LeaveTheLastBlockToARowThatIsNeeded) {
  Session* other = idle(4 * kBlock);
  Session *first = decodes(30, 12), *second = decodes(17, 12);  // one block is free, and the second needs it
  plan();
  EXPECT_EQ(proposed(first), 2u);
  EXPECT_EQ(proposed(second), 12u);
  EXPECT_EQ(other->kv.blocks_held(), 4u);
}

TEST_F(Proposals, LeaveEachSessionItsRowOfLogits) {
  std::vector<Session*> all;
  for (int i = 0; i < 6; ++i) all.push_back(decodes(10, 6));
  plan();
  ASSERT_EQ(plan_.seqs.size(), 6u);
  EXPECT_EQ(plan_.logits_rows.size(), 32u);
  uint32_t sum = 0;
  for (const Session* s : all) sum += proposed(s);
  EXPECT_EQ(sum, 26u);
}

TEST_F(Proposals, ThatDoNotComeGiveTheirBlocksBack) {
  for (const uint64_t tokens : {30, 31, 32, 33}) {
    Session* s = decodes(tokens, 20);
    plan();
    EXPECT_EQ(proposed(s), 20u);
    const uint64_t rows = (tokens + kBlock - 1) / kBlock;
    EXPECT_EQ(s->kv.blocks_held(), (tokens + 20 + kBlock - 1) / kBlock);
    EXPECT_GT(s->kv.blocks_held(), rows);
    step_.committer.abandon(&plan_);
    EXPECT_EQ(s->kv.blocks(), (tokens - 1) / kBlock + 1);
    step_.queue.remove(s);
    cache_.release(&s->kv, 0);
    sessions_.pop_back();
  }
}

}  // namespace
}  // namespace kvrt
