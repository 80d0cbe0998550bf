// Plans without a model, and without the bytes of blocks.
#include "runtime/engine/step/step_parts.h"

#include <gtest/gtest.h>

namespace kvrt {
namespace {

constexpr uint32_t kBlock = 16;

void begin_prefill(StepParts* step, Session* session, uint8_t domain, size_t tokens) {
  session->kv.root.bytes.fill(domain);
  session->tokens.assign(tokens, 7);
  step->queue.add(session);
  GenerateOptions options;
  options.prefill_only = true;
  session->generation = std::make_unique<Generation>(options);
  session->generation->warmed = session->generation->admitted = true;
  step->generations.start(session, 0);
}

// A plan that want of memory ends has given the session a block and does not name the session yet: nobody gives the block back.
TEST(Planner, ABlockOfAnotherDomainIsClearedThoughItsFirstStepNeverRan) {
  KvCache cache(4, kBlock);
  StepParts step(&cache, {.context = 256, .plan = {.prefill_chunk = kBlock, .rows_max = kBlock, .logits_max = 1}});
  Session earlier(kBlock), later(kBlock);
  earlier.kv.root.bytes.fill(20);
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i < 4; ++i) blocks.push_back(cache.alloc(earlier.kv));
  for (BlockId block : blocks) {
    cache.overwritten(block, earlier.kv);
    cache.drop(block);
  }

  begin_prefill(&step, &later, 30, kBlock);
  StepPlan plan;
  step.planner.plan(step.queue.order(), 0, 0, &plan);
  ASSERT_EQ(plan.seqs.size(), 1u);
  ASSERT_EQ(plan.clears.size(), 1u);
  const BlockId block = later.kv.tables[0].block(0);
  EXPECT_EQ(plan.clears.front(), block);

  later.use.leave_step();
  step.planner.plan(step.queue.order(), 0, 0, &plan);
  EXPECT_EQ(later.kv.tables[0].block(0), block);
  EXPECT_EQ(plan.clears, std::vector<BlockId>{block});

  step.committer.abandon(&plan);  // this one gives it back
  EXPECT_EQ(later.kv.tables[0].block(0), kNoBlock);
  step.planner.plan(step.queue.order(), 0, 0, &plan);
  EXPECT_EQ(plan.clears, std::vector<BlockId>{later.kv.tables[0].block(0)});
  step.committer.abandon(&plan);
  step.queue.remove(&later);
}

// A block that a step computes once more has no KV meanwhile: a save beside the step would take a copy that is not made yet.
TEST(Planner, ABlockThatIsComputedAgainHasNoKvMeanwhile) {
  KvCache cache(4, kBlock);
  StepParts step(&cache, {.context = 256, .plan = {.prefill_chunk = kBlock, .rows_max = kBlock, .logits_max = kBlock}});
  const std::vector<int32_t> tokens(kBlock, 7);
  Session first(kBlock), second(kBlock);
  first.kv.root.bytes.fill(20);
  first.kv.tables[0].set(0, cache.alloc(first.kv), kBlock);
  cache.overwritten(first.kv.tables[0].block(0), first.kv);
  cache.extend(&first.kv, tokens);
  cache.seal(&first.kv, tokens, 0, 0);

  begin_prefill(&step, &second, 20, kBlock);
  second.generation->options.logits = WantLogits::kAll;
  second.generation->progress.recompute_all = true;
  cache.adopt(&second.kv, second.tokens);
  ASSERT_EQ(second.kv.tables[0].filled(0), kBlock);
  StepPlan plan;
  step.planner.plan(step.queue.order(), 0, 0, &plan);
  ASSERT_EQ(plan.seqs.size(), 1u);
  ASSERT_EQ(plan.copies.size(), 1u);
  EXPECT_EQ(second.kv.tables[0].block(0), plan.copies.front().to);
  EXPECT_EQ(second.kv.tables[0].filled(0), 0u);
  step.committer.abandon(&plan);
  step.queue.remove(&second);
  cache.release(&first.kv, 0);
}

// A save reads the tails of a session that goes on: in each group the block with its first five tokens, of six.
class PlannerBesideASave : public testing::TestWithParam<bool> {
 protected:
  static KvShape shape() {
    KvShape shape(kBlock);
    if (GetParam()) {
      shape.n_groups = 2;
      shape.groups[1] = {1, 1, true};
    }
    return shape;
  }
  // The other session has all but `spare` of the blocks that are left.
  void begin(uint32_t spare) {
    begin_prefill(&step_, &saved_, 20, 6);
    saved_.generation->options.logits = WantLogits::kLast;  // its last row runs
    for (uint32_t g = 0; g < groups_; ++g) {
      tails_.push_back(cache_.alloc(saved_.kv, g));
      saved_.kv.tables[g].set(0, tails_[g], 5);
      cache_.overwritten(tails_[g], saved_.kv);
    }
    other_.kv.root.bytes.fill(20);
    other_.tokens.assign((4 - spare) * kBlock, 9);
    for (uint32_t i = 0; i < 4 - spare; ++i) other_.kv.tables[0].set(i, cache_.alloc(other_.kv), kBlock);
    step_.queue.add(&other_);
    saved_.use.wait_for_save();
    saved_.use.begin_save();
    for (const BlockId tail : tails_) cache_.hold(tail);
    saved_.use.read_tail(true);
  }
  void let_tail_go() {
    for (const BlockId tail : tails_) cache_.drop(tail);
    saved_.use.read_tail(false);
  }
  void plan() { step_.planner.plan(step_.queue.order(), 0, 0, &plan_); }
  void end() {
    step_.committer.abandon(&plan_);
    saved_.use.end_save();
    step_.queue.remove(&saved_);
    step_.queue.remove(&other_);
    EXPECT_EQ(cache_.used_count(), 0u);
  }

  const uint32_t groups_ = GetParam() ? 2 : 1;
  KvCache cache_{groups_ + 4, shape()};
  StepParts step_{&cache_, {.context = 256, .plan = {.prefill_chunk = kBlock, .rows_max = kBlock, .logits_max = 1}}};
  Session saved_{shape()}, other_{shape()};
  std::vector<BlockId> tails_;
  StepPlan plan_;
};

TEST_P(PlannerBesideASave, WritesToACopyOfTheTail) {
  begin(groups_);
  plan();
  ASSERT_EQ(plan_.seqs.size(), 1u);
  EXPECT_EQ(plan_.copies.size(), groups_);
  for (uint32_t g = 0; g < groups_; ++g) {
    EXPECT_NE(saved_.kv.tables[g].block(0), tails_[g]);
    EXPECT_EQ(cache_.refs(tails_[g]), 2u) << "the save's, and the copy's";
  }
  let_tail_go();
  end();
}

TEST_P(PlannerBesideASave, WithoutABlockForTheCopyTheSessionIsLeftOut) {
  begin(0);
  plan();
  EXPECT_TRUE(plan_.seqs.empty());
  EXPECT_EQ(step_.queue.starved(), nullptr) << "nobody gives up blocks for it";
  EXPECT_EQ(other_.kv.blocks_held(), 4u);
  for (uint32_t g = 0; g < groups_; ++g) {
    EXPECT_EQ(saved_.kv.tables[g].block(0), tails_[g]);
    EXPECT_EQ(saved_.kv.tables[g].filled(0), 5u);
  }
  let_tail_go();
  plan();
  ASSERT_EQ(plan_.seqs.size(), 1u) << "the save has its copy";
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(other_.kv.blocks_held(), 4u);
  for (uint32_t g = 0; g < groups_; ++g) EXPECT_EQ(saved_.kv.tables[g].block(0), tails_[g]);
  end();
}

INSTANTIATE_TEST_SUITE_P(States, PlannerBesideASave, testing::Bool());

}  // namespace
}  // namespace kvrt
