// The pure parts of the engine: sampler, output text, manifest, messages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/engine/manifest.h"
#include "runtime/engine/messages.h"
#include "runtime/engine/output_text.h"
#include "runtime/engine/sampler.h"

namespace kvrt {
namespace {

std::vector<float> some_logits(size_t n) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i)
    logits[i] = static_cast<float>(6.0 * std::sin(0.37 * static_cast<double>(i)) + 0.01 * static_cast<double>(i % 7));
  return logits;
}

TEST(Sampler, GreedyTakesTheLowestOfTheHighest) {
  std::vector<float> logits(100, 1.0f);
  logits[70] = logits[40] = 5.0f;
  EXPECT_EQ(sample(logits, {}, 0).token, 40);
}

TEST(Sampler, LogprobIsTheLogSoftmaxInDouble) {
  auto logits = some_logits(1003);
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  for (uint64_t position : {0u, 5u, 77u}) {
    Sample s = sample(logits, {1.0f, 0, 0, 42}, position);
    EXPECT_NEAR(s.logprob, static_cast<double>(logits[static_cast<size_t>(s.token)]) - std::log(sum), 2e-5);
  }
}

TEST(Sampler, RefusesNanAndInfinity) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (size_t at : {0u, 17u, 1002u}) {
      auto logits = some_logits(1003);
      logits[at] = bad;
      EXPECT_FALSE(sample(logits, {}, 0).finite) << bad << " at " << at;
    }
  }
}

TEST(Sampler, DrawsDependOnSeedAndPositionAlone) {
  auto logits = some_logits(500);
  SamplingOptions o{0.9f, 0, 0, 7};
  EXPECT_EQ(sample(logits, o, 12).token, sample(logits, o, 12).token);
  int differ = 0;
  for (uint64_t p = 0; p < 50; ++p) {
    SamplingOptions other = o;
    other.seed = 8;
    differ += sample(logits, o, p).token != sample(logits, other, p).token;
  }
  EXPECT_GT(differ, 20);
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  for (uint64_t p = 0; p < 500; ++p) {
    EXPECT_LT(sample(logits, {1, 2, 0, 3}, p).token, 2);
    EXPECT_LT(sample(logits, {1, 0, 0.9f, 3}, p).token, 3);  // 0.5 + 0.3 < 0.9 <= 0.95
    EXPECT_LT(sample(logits, {1, 0, 0.45f, 3}, p).token, 1);
    EXPECT_EQ(sample(logits, {1, 1, 0, 3}, p).token, 0);
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {  // chi-square, 3 degrees of freedom, 99.9 %: 16.27
  std::vector<double> want{0.5, 0.3, 0.15, 0.05};
  std::vector<float> logits;
  for (double w : want) logits.push_back(2.0f * static_cast<float>(std::log(w)));  // at temperature 2
  std::vector<int> count(4);
  const int draws = 20000;
  for (int p = 0; p < draws; ++p) ++count[static_cast<size_t>(sample(logits, {2, 0, 0, 99}, static_cast<uint64_t>(p)).token)];
  double chi = 0;
  for (size_t i = 0; i < 4; ++i) chi += std::pow(count[i] - want[i] * draws, 2) / (want[i] * draws);
  EXPECT_LT(chi, 16.27);
}

std::string push_all(OutputText& text, std::initializer_list<const char*> pieces) {
  std::string out;
  for (const char* piece : pieces) out += text.push(piece);
  return out;
}

TEST(OutputText, HoldsBackHalfACodePoint) {
  OutputText text({});
  EXPECT_EQ(text.push("a\xc3"), "a");
  EXPECT_EQ(text.push("\xa9!"), "\xc3\xa9!");
  text.push("\xe2\x82");
  EXPECT_EQ(text.finish(), "\xef\xbf\xbd");
}

TEST(OutputText, FindsAStopStringAcrossTokens) {
  OutputText text({"STOP"});
  EXPECT_EQ(push_all(text, {"one ", "S", "T"}), "one ");
  EXPECT_FALSE(text.stopped());
  EXPECT_EQ(text.push("OPq"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.stop_tokens(), 3u);
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.shown(), "one ");
}

TEST(OutputText, ReleasesWhatWasNoStop) {
  OutputText text({"STOP", "##"});
  EXPECT_EQ(push_all(text, {"S", "T", "A#"}), "STA");
  EXPECT_EQ(text.push("b"), "#b");
  EXPECT_EQ(push_all(text, {"ST"}), "");
  EXPECT_EQ(text.finish(), "ST");
}

TEST(OutputText, TakesTheEarliestStop) {
  OutputText text({"bb", "ab"});
  EXPECT_EQ(text.push("xabb"), "x");
  EXPECT_TRUE(text.stopped());
}

Manifest some_manifest() {
  Manifest m;
  m.block_tokens = 32;
  m.pending = {5, 6};
  m.messages = {{R"({"role":"user"})", 0, 7, false}, {R"({"role":"assistant"})", 7, 12, true}};
  m.text_id.bytes.fill(3);
  return m;
}

TEST(Manifest, RoundTrips) {
  auto bytes = encode_manifest(some_manifest());
  auto back = decode_manifest(bytes, 10, 100);
  ASSERT_TRUE(back.is_ok()) << back.status().message();
  EXPECT_EQ(back->pending, (std::vector<int32_t>{5, 6}));
  ASSERT_EQ(back->messages.size(), 2u);
  EXPECT_EQ(back->messages[1].json, R"({"role":"assistant"})");
  EXPECT_TRUE(back->messages[1].generated);
  EXPECT_EQ(back->messages[1].end, 12u);
  EXPECT_EQ(back->text_id, some_manifest().text_id);
}

TEST(Manifest, RefusesEveryCutAndWhatPointsOutside) {
  auto bytes = encode_manifest(some_manifest());
  for (size_t n = 0; n < bytes.size(); ++n) {
    auto cut = decode_manifest(std::span(bytes).first(n), 10, 100);
    ASSERT_FALSE(cut.is_ok()) << n;
    EXPECT_EQ(cut.status().code(), Code::kCorrupt);
  }
  EXPECT_FALSE(decode_manifest(bytes, 9, 100).is_ok());  // a message ends past the tokens
  EXPECT_FALSE(decode_manifest(bytes, 10, 6).is_ok());   // token 6 of a vocabulary of 6
  bytes.push_back(0);
  EXPECT_FALSE(decode_manifest(bytes, 10, 100).is_ok());
}

TEST(Messages, QuotesEverythingJsonReserves) {
  EXPECT_EQ(assistant_message("a\"b\\c\nd\x01 \xc3\xa9"), "{\"role\":\"assistant\",\"content\":\"a\\\"b\\\\c\\nd\\u0001 \xc3\xa9\"}");
}

}  // namespace
}  // namespace kvrt
