// Commits of an answer's rows: the first is of its last token, the others of tokens that were proposed to follow.
#include <gtest/gtest.h>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/step/step_parts.h"
#include "tests/support/golden_rig.h"

namespace kvrt {
namespace {

constexpr uint32_t kTokensOfBlock = 4;

class CommitterRows : public testing::Test {
 protected:
  static constexpr int32_t kFirst = 40;  // the answer's tokens are this one and the next; no text of two is a stop string

  void SetUp() override {
    auto file = GgufFile::open(test::tiny("llama_gqa_f32.gguf"));
    tokenizer_ = std::move(make_tokenizer(**file)).value();
    session_.tokens = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    step_.queue.add(&session_);
  }
  void TearDown() override {
    step_.queue.remove(&session_);
    EXPECT_EQ(cache_.used_count(), 0u);
  }

  // A step of four rows, of the last token and three that are proposed, for an answer whose prompt has KV but for its last token. `drawn`: the
  // token that each row gives.
  void answer(uint32_t max_tokens, const std::vector<int32_t>& drawn) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    session_.generation = std::make_unique<Generation>(std::move(options));
    session_.generation->warmed = session_.generation->admitted = true;
    step_.generations.start(&session_, 0);
    for (uint32_t i = 0; i < 3; ++i) {
      session_.kv.tables[0].set(i, cache_.alloc(session_.kv), i < 2 ? kTokensOfBlock : 1);
      cache_.overwritten(session_.kv.tables[0].block(i), session_.kv);
    }
    cache_.extend(&session_.kv, session_.tokens);
    step_.reports.count_reuse(&session_);
    StepPlan plan;
    const KvRun run{9, 13, 1};
    ASSERT_EQ(step_.supply.make_writable(&session_, run, &plan), run.end);
    plan.seqs.push_back({&session_, run, 0, 4});
    session_.use.enter_step();
    plan.tokens = {session_.tokens.back(), kFirst, kFirst + 1, kFirst + 2};
    plan.positions = {9, 10, 11, 12};
    plan.logits_rows = {0, 1, 2, 3};
    for (const int32_t token : drawn) plan.samples.emplace_back().token = token;
    const std::vector<float> logits(4 * tokenizer_->vocab_size());
    step_.committer.commit(&plan, logits.data(), *tokenizer_, 1);
  }
  std::vector<int32_t> said() const { return {session_.tokens.begin() + 10, session_.tokens.end()}; }
  std::vector<int32_t> told() const {
    std::vector<int32_t> tokens;
    for (const Event& event : session_.mailbox) {
      if (event.type == EventType::kToken) tokens.push_back(event.token);
    }
    return tokens;
  }

  KvCache cache_{8, kTokensOfBlock};
  StepParts step_{&cache_, {.context = 32, .plan = {.prefill_chunk = 16, .rows_max = 16, .logits_max = 16}}};
  Session session_{kTokensOfBlock};
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(CommitterRows, KeepsAsManyAsHold) {
  answer(0, {kFirst, kFirst + 1, 77, 78});
  EXPECT_EQ(said(), (std::vector<int32_t>{kFirst, kFirst + 1, 77}));
  EXPECT_EQ(told(), said());
  EXPECT_EQ(session_.generation->report.generated, 3u);
  EXPECT_FALSE(session_.generation->finished);
  const KvRun next = session_.kv.next_run(session_.tokens.size());
  EXPECT_EQ(next.begin, 12u) << "the row of the third proposal does not count";
  EXPECT_EQ(next.end, 13u);
  EXPECT_EQ(session_.kv.tables[0].filled(2), kTokensOfBlock);
  EXPECT_EQ(session_.kv.tables[0].filled(3), 0u);
  EXPECT_FALSE(cache_.writable(session_.kv.tables[0].block(2))) << "a full block is sealed";
}

TEST_F(CommitterRows, KeepsOneWhereTheFirstProposalDoesNotHold) {
  answer(0, {76, kFirst + 1, kFirst + 2, 78});
  EXPECT_EQ(said(), std::vector<int32_t>{76});
  EXPECT_EQ(session_.kv.next_run(session_.tokens.size()).begin, 10u);
}

TEST_F(CommitterRows, KeepsAll) {
  answer(0, {kFirst, kFirst + 1, kFirst + 2, 78});
  EXPECT_EQ(said(), (std::vector<int32_t>{kFirst, kFirst + 1, kFirst + 2, 78}));
  EXPECT_EQ(session_.kv.next_run(session_.tokens.size()).begin, 13u);
}

TEST_F(CommitterRows, KeepsNoneAfterTheEnd) {
  answer(2, {kFirst, kFirst + 1, kFirst + 2, 78});
  EXPECT_EQ(said(), (std::vector<int32_t>{kFirst, kFirst + 1}));
  EXPECT_EQ(session_.generation->report.reason, Reason::kMaxTokens);
  EXPECT_EQ(session_.kv.ready(session_.tokens.size()), 11u);
  EXPECT_EQ(session_.mailbox.back().type, EventType::kDone);
}

}  // namespace
}  // namespace kvrt
