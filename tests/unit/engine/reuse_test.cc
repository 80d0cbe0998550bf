// Why reuse stopped: the report's reason is that of the hole at which it did. No bytes of blocks.
#include <gtest/gtest.h>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/step/step_parts.h"

namespace kvrt {
namespace {

constexpr uint32_t kReuseBlock = 4;

class ReuseStopped : public testing::Test {
 protected:
  void open(const std::vector<KvShape::Group>& groups, uint32_t units) {
    KvShape shape(kReuseBlock);
    shape.n_groups = static_cast<uint32_t>(groups.size());
    shape.step_rows = kReuseBlock;
    std::copy(groups.begin(), groups.end(), shape.groups.begin());
    cache_ = std::make_unique<KvCache>(units, shape);
    step_ = std::make_unique<StepParts>(
        cache_.get(), StepOptions{.context = 1000, .plan = {.prefill_chunk = 2 * kReuseBlock, .rows_max = 64, .logits_max = 1}});
    auto file = GgufFile::open({KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"});
    tokenizer_ = std::move(make_tokenizer(**file)).value();
  }
  void TearDown() override {
    for (const auto& s : sessions_) step_->queue.remove(s.get());
    EXPECT_EQ(cache_->used_count(), 0u);
  }
  Session* add(size_t tokens, int32_t text) {
    sessions_.push_back(std::make_unique<Session>(cache_->shape()));
    Session* s = sessions_.back().get();
    step_->queue.add(s);
    append(s, tokens, text);
    return s;
  }
  static void append(Session* s, size_t tokens, int32_t text) {
    for (; tokens > 0; --tokens) s->tokens.push_back(static_cast<int32_t>(s->tokens.size() % 7) + 10 * text);
  }
  void cut(Session* s, size_t tokens) {
    s->tokens.resize(tokens);
    cache_->cut(&s->kv, tokens);
  }
  void evict(Session* s) { cache_->release(&s->kv, 0, Hole::kEvicted); }  // as Supply does it for another session
  void begin(Session* s) {
    GenerateOptions options;
    options.prefill_only = true;
    s->generation = std::make_unique<Generation>(options);
    step_->generations.start(s, 0);
  }
  void warm(Session* s) {
    cache_->adopt(&s->kv, s->tokens);
    step_->reports.count_reuse(s);
    s->generation->warmed = s->generation->admitted = true;
  }
  void expect_stop(Session* s, ReuseStop why, uint64_t at) {
    EXPECT_EQ(s->generation->report.reuse_stopped, why) << "it is " << static_cast<int>(s->generation->report.reuse_stopped);
    EXPECT_EQ(s->generation->report.reuse_stopped_at, at);
  }
  void end(Session* s) {
    s->generation.reset();
    s->mailbox.clear();
    s->state = SessionState::kIdle;
  }
  // Computes what begin() began.
  void compute(Session* s) {
    for (int i = 0; i < 100 && !s->generation->finished; ++i) {
      StepPlan plan;
      step_->planner.plan(step_->queue.order(), 0, 0, &plan);
      if (!plan.seqs.empty()) step_->committer.commit(&plan, nullptr, *tokenizer_, 1);
    }
    ASSERT_TRUE(s->generation->finished);
    end(s);
  }
  void prefill(Session* s) {
    begin(s);
    warm(s);
    compute(s);
  }
  void prefill(Session* s, ReuseStop why, uint64_t at) {
    begin(s);
    warm(s);
    expect_stop(s, why, at);
    compute(s);
  }

  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<StepParts> step_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

TEST_F(ReuseStopped, ByWhatWasTakenForAnother) {
  open({{0, 1}}, 4);
  Session *s = add(8, 1), *other = add(0, 2);
  prefill(s, ReuseStop::kNewTokens, 0);
  std::vector<BlockId> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(step_->supply.alloc(other, 0));
  EXPECT_EQ(s->kv.blocks_held(), 0u);
  for (const BlockId block : taken) cache_->drop(block);
  prefill(s, ReuseStop::kEvicted, 4);  // its first block was still in the cache
  prefill(s, ReuseStop::kAll, 8);
}

// Evicted, but found again: what is new is new.
TEST_F(ReuseStopped, ByNewTokensAfterKvThatCameBack) {
  open({{0, 1}}, 8);
  Session* s = add(8, 1);
  prefill(s);
  evict(s);
  append(s, 6, 1);
  prefill(s, ReuseStop::kNewTokens, 8);
}

TEST_F(ReuseStopped, ByNewTokensInPlaceOfEvictedOnes) {
  open({{0, 1}}, 8);
  Session* s = add(8, 1);
  prefill(s);
  cache_->discard(&s->kv, s->tokens);
  cut(s, 0);
  append(s, 8, 1);
  prefill(s);
  evict(s);
  cut(s, 4);
  append(s, 8, 2);
  prefill(s, ReuseStop::kDifferentToken, 4);
}

// A hole says why until it is filled: also to the generation after one that was cancelled, and where others fill the ones before it.
TEST_F(ReuseStopped, ByTheSameHoleAgain) {
  open({{0, 1}}, 16);
  Session *s = add(12, 1), *other = add(4, 1);
  prefill(s);
  cache_->discard(&s->kv, s->tokens);  // nobody finds its blocks any more
  prefill(s);
  for (BlockTable& table : s->kv.tables) ASSERT_EQ(table.blocks_held(), 3u);
  for (const ChainRef& link : std::vector<ChainRef>(s->kv.chain)) cache_->unshare(PrefixIndex::lookup(link).block());
  evict(s);
  begin(s);
  warm(s);
  expect_stop(s, ReuseStop::kEvicted, 0);
  step_->generations.finish(s, Reason::kCancelled, 0);
  end(s);
  begin(s);
  warm(s);
  expect_stop(s, ReuseStop::kEvicted, 0);
  s->generation->warmed = false;
  prefill(other);
  warm(s);
  expect_stop(s, ReuseStop::kEvicted, 4);
  compute(s);
}

TEST_F(ReuseStopped, ByOtherNumericsUntilItIsComputed) {
  open({{0, 1}}, 8);
  Session* s = add(8, 1);
  s->kv.lacks(0, 1, Hole::kOtherNumerics);
  s->kv.lacks(1, 1, Hole::kOtherNumerics);
  prefill(s, ReuseStop::kOtherNumerics, 0);
  for (const ChainRef& link : std::vector<ChainRef>(s->kv.chain)) cache_->unshare(PrefixIndex::lookup(link).block());
  evict(s);
  prefill(s, ReuseStop::kEvicted, 0);
}

// What windows lost long ago is behind them.
TEST_F(ReuseStopped, ByTheWindowAfterACut) {
  open({{0, 1}, {6, 1}}, 100);
  Session* s = add(40, 1);
  prefill(s);
  evict(s);
  begin(s);
  warm(s);
  expect_stop(s, ReuseStop::kAll, 40);
  compute(s);
  append(s, 40, 1);
  prefill(s, ReuseStop::kNewTokens, 40);
  cut(s, 35);
  begin(s);
  warm(s);
  EXPECT_EQ(s->generation->report.reuse_stopped, ReuseStop::kWindow);
  compute(s);
}

// The last row goes on from the state before it, which was written over.
TEST_F(ReuseStopped, ByTheStateBeforeTheLastRow) {
  for (const bool attention : {false, true}) {
    if (!sessions_.empty()) TearDown(), sessions_.clear();
    open(attention ? std::vector<KvShape::Group>{{0, 1}, {1, 1, true}} : std::vector<KvShape::Group>{{1, 1, true}}, 100);
    Session* s = add(9, 1);
    prefill(s);  // all but the last token
    EXPECT_EQ(s->kv.computed(9), 8u);
    cut(s, 8);
    GenerateOptions options;
    s->generation = std::make_unique<Generation>(options);
    step_->generations.start(s, 0);
    warm(s);
    expect_stop(s, ReuseStop::kWindow, 0);
    step_->generations.finish(s, Reason::kCancelled, 0);
    end(s);
  }
}

}  // namespace
}  // namespace kvrt
