// Speculation through kvrt.hpp: the same answers, and what was proposed of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvrt.hpp"

namespace {

using kvrt::Event, kvrt::Model, kvrt::Runtime, kvrt::Session;

const char kModel[] = KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf";
const std::vector<int32_t> kAgain = {5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8};
const kvrt_token_value kTwoTokens[] = {{5, 50}, {6, 50}};  // answers of these repeat what lookup finds

struct Spoken {
  std::vector<int32_t> tokens;
  kvrt_report report;
};

Spoken spoken(const Model& model, const kvrt_generate_options& options) {
  Session s = Session::open(model).or_throw();
  s.append(kAgain).or_throw();
  Spoken out;
  out.report = s.generate(options, [&](const Event& e) {
                  if (e.type == KVRT_EVENT_TOKEN) out.tokens.push_back(e.token);
                }).or_throw();
  return out;
}

kvrt_generate_options greedy(uint32_t max_tokens) {
  auto o = kvrt::init<kvrt_generate_options>();
  o.max_tokens = max_tokens;
  o.ignore_eos = 1;
  o.logit_bias = kTwoTokens;
  o.logit_bias_count = 2;
  return o;
}

TEST(CppSpeculation, TheSameAnswer) {
  const Runtime runtime = Runtime::open().or_throw();
  const Model model = Model::open(runtime, kModel).or_throw();
  Model draft = Model::open(runtime, kModel).or_throw();
  auto o = greedy(24);
  const Spoken want = spoken(model, o);
  EXPECT_EQ(want.report.drafted + want.report.accepted, 0u);
  o.draft_tokens_max = 6;
  o.draft_tokens_min = 3;
  auto lookup = o, drafts = o, predicted = o;
  lookup.lookup = 1;
  drafts.draft = draft.get();
  const std::string text = "a text that it does not say";
  predicted.prediction = text.data();
  predicted.prediction_size = text.size();
  uint64_t drafted = 0, accepted = 0;
  for (const auto& options : {lookup, drafts, predicted}) {
    const Spoken got = spoken(model, options);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_GT(got.report.drafted, 0u);
    EXPECT_LE(got.report.accepted, got.report.drafted);
    EXPECT_TRUE(options.draft == nullptr || got.report.accepted > 0) << "it is the same model";
    drafted += got.report.drafted;
    accepted += got.report.accepted;
  }
  const kvrt_metrics metrics = model.metrics().or_throw();
  EXPECT_EQ(metrics.drafted, drafted);
  EXPECT_EQ(metrics.accepted, accepted);

  // A generation keeps its draft.
  Session s = Session::open(model).or_throw();
  s.append(kAgain).or_throw();
  ASSERT_TRUE(s.begin(drafts).ok());
  draft.reset();
  kvrt::Status end;
  std::vector<int32_t> tokens;
  for (const Event& e : s.events(end)) {
    if (e.type == KVRT_EVENT_TOKEN) tokens.push_back(e.token);
  }
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(tokens, want.tokens);
}

TEST(CppSpeculation, Refused) {
  const Runtime runtime = Runtime::open().or_throw(), other = Runtime::open().or_throw();
  const Model model = Model::open(runtime, kModel).or_throw(), stranger = Model::open(other, kModel).or_throw();
  auto o = greedy(1);
  o.draft = model.get();
  Session s = Session::open(model).or_throw();
  s.append(kAgain).or_throw();
  EXPECT_EQ(s.begin(o), KVRT_INVALID);  // its own model
  o.draft = stranger.get();
  EXPECT_EQ(s.begin(o), KVRT_INVALID);
  o.draft = nullptr;
  o.reserved = 1;
  EXPECT_EQ(s.begin(o), KVRT_INVALID);
  o.reserved = 0;
  EXPECT_TRUE(s.begin(o).ok());
}

}  // namespace
