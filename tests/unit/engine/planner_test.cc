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
  StepParts step(&cache, {.context = 256, .prefill_chunk = kBlock, .rows_max = kBlock, .logits_max = 1});
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
  StepParts step(&cache, {.context = 256, .prefill_chunk = kBlock, .rows_max = kBlock, .logits_max = kBlock});
  const std::vector<int32_t> tokens(kBlock, 7);
  Session first(kBlock), second(kBlock);
  first.kv.root.bytes.fill(20);
  first.kv.tables[0].set(0, cache.alloc(first.kv), kBlock);
  cache.overwritten(first.kv.tables[0].block(0), first.kv);
  cache.extend(&first.kv, tokens);
  cache.seal(&first.kv, tokens, 0, 0);

  begin_prefill(&step, &second, 20, kBlock);
  second.generation->options.logits = WantLogits::kAll;
  second.generation->recompute_all = true;
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

}  // namespace
}  // namespace kvrt
