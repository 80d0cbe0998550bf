// The sampler, option by option. tests/golden/sampler_distribution.py holds whole distributions against numpy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/base/limits.h"
#include "runtime/engine/sampling/sampler.h"

namespace kvrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Set = void (*)(SamplingOptions*);

SamplingOptions with(Set set) {
  SamplingOptions o;
  o.seed = 3;
  set(&o);
  return o;
}

Sample pick(const std::vector<float>& logits, const SamplingOptions& o, uint64_t position = 0) {
  return sample(logits, o, {}, 0, position);
}

// All tokens that come up in many draws.
std::set<int32_t> support(const std::vector<float>& logits, const SamplingOptions& o) {
  std::set<int32_t> tokens;
  for (uint64_t p = 0; p < 2000; ++p) tokens.insert(pick(logits, o, p).token);
  return tokens;
}

std::vector<float> some_logits(size_t n) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i)
    logits[i] = static_cast<float>(6.0 * std::sin(0.37 * static_cast<double>(i)) + 0.01 * static_cast<double>(i % 7));
  return logits;
}

std::vector<float> logs(std::initializer_list<double> shares) {
  std::vector<float> logits;
  for (double share : shares) logits.push_back(static_cast<float>(std::log(share)));
  return logits;
}

TEST(Sampler, GreedyTakesTheLowestOfTheHighest) {
  for (size_t n : {71u, 100u, 4096u}) {
    std::vector<float> logits(n, 1.0f);
    logits[70] = logits[40] = 5.0f;
    EXPECT_EQ(pick(logits, {}).token, 40);
    logits[n - 1] = 6.0f;
    EXPECT_EQ(pick(logits, {}).token, static_cast<int32_t>(n - 1));
  }
}

TEST(Sampler, LogprobIsTheLogSoftmaxInDouble) {
  for (size_t n : {1u, 3u, 1003u, 49152u}) {
    auto logits = some_logits(n);
    double sum = 0;
    for (float x : logits) sum += std::exp(static_cast<double>(x));
    // The options change the logits, and that does not show in the report.
    auto o = with([](SamplingOptions* s) { s->temperature = 3, s->top_k = 9, s->top_p = 0.9f, s->logit_bias = {{0, 2.5f}}; });
    for (uint64_t position : {0u, 5u, 77u}) {
      Sample s = pick(logits, o, position);
      EXPECT_NEAR(s.logprob, static_cast<double>(logits[static_cast<size_t>(s.token)]) - std::log(sum), 4e-6) << n;
    }
  }
}

TEST(Sampler, RefusesNanAndInfinity) {
  for (float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (size_t at : {0u, 17u, 1000u, 1002u}) {
      auto logits = some_logits(1003);
      logits[at] = bad;
      EXPECT_FALSE(pick(logits, {}).finite) << bad << " at " << at;
      EXPECT_FALSE(pick(logits, with([](SamplingOptions* o) { o->temperature = 1, o->logit_bias = {{17, -kInfinity}}; })).finite);
      EXPECT_FALSE(describe(logits, 3, 2).finite);
    }
  }
}

TEST(Sampler, TopKAndTopPAndMinPCutTheTail) {
  const auto logits = logs({0.3, 0.05, 0.5, 0.15});
  struct Row {
    Set set;
    std::set<int32_t> kept;
  };
  const Row rows[] = {
      {[](SamplingOptions*) {}, {0, 1, 2, 3}},
      {[](SamplingOptions* o) { o->top_k = 1; }, {2}},
      {[](SamplingOptions* o) { o->top_k = 2; }, {0, 2}},
      {[](SamplingOptions* o) { o->top_k = 4; }, {0, 1, 2, 3}},
      {[](SamplingOptions* o) { o->top_k = 4'000'000'000u; }, {0, 1, 2, 3}},  // more than there are
      {[](SamplingOptions* o) { o->top_p = 1e-30f; }, {2}},                   // never fewer than one
      {[](SamplingOptions* o) { o->top_p = 0.45f; }, {2}},
      {[](SamplingOptions* o) { o->top_p = 0.55f; }, {0, 2}},
      {[](SamplingOptions* o) { o->top_p = 0.9f; }, {0, 2, 3}},
      {[](SamplingOptions* o) { o->top_p = 1; }, {0, 1, 2, 3}},
      {[](SamplingOptions* o) { o->min_p = 0.05f; }, {0, 1, 2, 3}},
      {[](SamplingOptions* o) { o->min_p = 0.29f; }, {0, 2, 3}},
      {[](SamplingOptions* o) { o->min_p = 0.31f; }, {0, 2}},
      {[](SamplingOptions* o) { o->min_p = 1; }, {2}},
      {[](SamplingOptions* o) { o->min_p = 1e-45f; }, {0, 1, 2, 3}},
      {[](SamplingOptions* o) { o->top_k = 2, o->top_p = 0.6f; }, {2}},  // 0.5 of 0.8 is over 0.6
      {[](SamplingOptions* o) { o->top_k = 3, o->min_p = 0.5f; }, {0, 2}},
      {[](SamplingOptions* o) { o->top_p = 0.9f, o->min_p = 0.31f; }, {0, 2}},
      {[](SamplingOptions* o) { o->temperature = 0.5f, o->top_p = 0.8f; }, {0, 2}},   // 0.25, 0.09 of 0.365: together 0.93
      {[](SamplingOptions* o) { o->temperature = 0.5f, o->min_p = 0.31f; }, {0, 2}},  // of the tempered ones: 0.36
      {[](SamplingOptions* o) { o->temperature = 1e-45f; }, {2}},
      {[](SamplingOptions* o) { o->temperature = 100, o->top_k = 3; }, {0, 2, 3}},
  };
  for (const Row& row : rows) {
    SamplingOptions o;
    o.temperature = 1;
    row.set(&o);
    EXPECT_EQ(support(logits, o), row.kept) << "row " << &row - rows;
  }
}

TEST(Sampler, TiesGoToTheLowestIdAtEveryCut) {
  std::vector<float> logits(1000, -1.0f);
  for (size_t i : {900u, 500u, 20u, 333u}) logits[i] = 2.0f;
  auto o = with([](SamplingOptions* s) { s->temperature = 1, s->top_k = 3; });
  EXPECT_EQ(support(logits, o), (std::set<int32_t>{20, 333, 500}));
  o.top_k = 5;
  EXPECT_EQ(support(std::vector<float>(777, 4.0f), o), (std::set<int32_t>{0, 1, 2, 3, 4}));
  o.top_k = 0;
  o.top_p = 0.0035f;  // of 1000 equals: 3.5 of them
  EXPECT_EQ(support(std::vector<float>(1000, 0.0f), o), (std::set<int32_t>{0, 1, 2, 3}));
  o.top_p = 0;
  o.min_p = 1;
  EXPECT_EQ(support(logits, o), (std::set<int32_t>{20, 333, 500, 900}));
}

TEST(Sampler, BiasBansAndBoosts) {
  const auto logits = logs({0.5, 0.3, 0.2});
  EXPECT_EQ(pick(logits, with([](SamplingOptions* o) { o->logit_bias = {{0, -kInfinity}}; })).token, 1);
  EXPECT_EQ(pick(logits, with([](SamplingOptions* o) { o->logit_bias = {{2, 1.0f}}; })).token, 2);
  EXPECT_EQ(pick(logits, with([](SamplingOptions* o) { o->logit_bias = {{2, 0.5f}, {2, 0.5f}}; })).token, 2);
  EXPECT_EQ(pick(logits, with([](SamplingOptions* o) { o->logit_bias = {{2, 5.0f}, {2, -kInfinity}}; })).token, 0);
  auto o = with([](SamplingOptions* s) { s->temperature = 50, s->logit_bias = {{0, -kInfinity}, {2, -kInfinity}}; });
  EXPECT_EQ(support(logits, o), std::set<int32_t>{1});
  o.top_k = 2;  // more than are left
  EXPECT_EQ(support(logits, o), std::set<int32_t>{1});
}

TEST(Sampler, SaysWhenEveryTokenIsBanned) {
  const auto logits = logs({0.5, 0.3, 0.2});
  SamplingOptions o;
  o.logit_bias = {{0, -kInfinity}, {1, -kInfinity}, {2, -kInfinity}};
  o.repetition_penalty = 1.5f;
  o.frequency_penalty = -100;
  const std::vector<int32_t> history{0, 1, 2};
  for (float temperature : {0.0f, 1.0f}) {
    o.temperature = temperature;
    for (uint32_t k : {0u, 2u}) {
      o.top_k = k;
      Sample s = sample(logits, o, history, 0, 9);
      EXPECT_TRUE(s.empty && s.finite);
    }
  }
  o.logit_bias.pop_back();
  EXPECT_EQ(sample(logits, o, history, 0, 9).token, 2);
  EXPECT_FALSE(sample(logits, o, history, 0, 9).empty);
}

TEST(Sampler, PenaltiesCountWhatTheyShould) {
  struct Row {
    std::vector<float> logits;
    Set set;
    std::vector<int32_t> history;
    size_t prompt;
    int32_t greedy;
  };
  const Row rows[] = {
      // Repetition: prompt and answer, once however often, dividing positive logits and multiplying negative ones.
      {{2.0f, 1.9f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {}, 0, 0},
      {{2.0f, 1.9f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0}, 1, 1},
      {{2.0f, 1.9f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0}, 0, 1},
      {{2.0f, 1.7f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0, 0, 0, 0}, 2, 0},
      {{2.0f, 1.9f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0, 1}, 1, 0},
      {{-1.0f, -1.05f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0}, 1, 1},
      {{-1.0f, -1.15f}, [](SamplingOptions* o) { o->repetition_penalty = 1.1f; }, {0}, 1, 0},
      {{1.0f, 1.5f}, [](SamplingOptions* o) { o->repetition_penalty = 0.5f; }, {0}, 1, 0},  // below 1 it rewards
      {{2.0f, 1.9f}, [](SamplingOptions* o) { o->repetition_penalty = 1; }, {0}, 1, 0},
      // Frequency: the answer alone, every time.
      {{2.0f, 1.0f}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f; }, {0, 0, 0, 0}, 4, 0},
      {{2.0f, 1.0f}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f; }, {0, 0, 0, 0}, 2, 0},
      {{2.0f, 1.0f}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f; }, {0, 0, 0, 0}, 1, 1},
      {{2.0f, 2.5f}, [](SamplingOptions* o) { o->frequency_penalty = -0.4f; }, {0, 0}, 0, 0},
      // Presence: the answer alone, once.
      {{2.0f, 1.0f}, [](SamplingOptions* o) { o->presence_penalty = 0.8f; }, {0, 0, 0, 0}, 0, 0},
      {{2.0f, 1.3f}, [](SamplingOptions* o) { o->presence_penalty = 0.8f; }, {0, 0, 0, 0}, 3, 1},
      {{2.0f, 1.3f}, [](SamplingOptions* o) { o->presence_penalty = 0.8f; }, {0, 0, 0, 0}, 4, 0},
      // The window bounds all three, by tokens of the session.
      {{2.0f, 1.9f, 0}, [](SamplingOptions* o) { o->repetition_penalty = 2, o->penalty_window = 2; }, {0, 2, 2}, 3, 0},
      {{2.0f, 1.9f, 0}, [](SamplingOptions* o) { o->repetition_penalty = 2, o->penalty_window = 3; }, {0, 2, 2}, 3, 1},
      {{2.0f, 1.0f, 0}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f, o->penalty_window = 4; }, {0, 0, 0, 2, 2}, 0, 0},
      {{2.0f, 1.0f, 0}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f, o->penalty_window = 5; }, {0, 0, 0, 2, 2}, 0, 1},
      {{2.0f, 1.0f, 0}, [](SamplingOptions* o) { o->frequency_penalty = 0.4f, o->penalty_window = 99; }, {0, 0, 0, 2, 2}, 0, 1},
      {{2.0f, 1.0f, 0}, [](SamplingOptions* o) { o->presence_penalty = 5, o->penalty_window = 3; }, {0, 0, 2, 2, 2}, 1, 0},
      // Bias comes first: a logit that it makes positive is divided.
      {{-1.0f, 1.4f},
       [](SamplingOptions* o) {
         o->repetition_penalty = 2, o->logit_bias = {{0, 4.0f}};
       },
       {0},
       1,
       0},
      {{-1.0f, 1.6f},
       [](SamplingOptions* o) {
         o->repetition_penalty = 2, o->logit_bias = {{0, 4.0f}};
       },
       {0},
       1,
       1},
      // Then repetition, then the other two: 4 / 2 - 0.5 = 1.5, not 1.75.
      {{4.0f, 1.6f}, [](SamplingOptions* o) { o->repetition_penalty = 2, o->presence_penalty = 0.5f; }, {0}, 0, 1},
  };
  for (const Row& row : rows) EXPECT_EQ(sample(row.logits, with(row.set), row.history, row.prompt, 0).token, row.greedy) << &row - rows;
}

TEST(Sampler, ExtremesStayFinite) {
  std::vector<float> logits(40, 0.0f);
  logits[7] = FLT_MAX, logits[8] = -FLT_MAX, logits[9] = 1e-45f;
  const std::vector<int32_t> history{7, 8, 9, 10};
  for (float temperature : {0.0f, 1e-45f, 1.0f, 100.0f}) {
    SamplingOptions o;
    o.temperature = temperature, o.top_logprobs = 40, o.logit_bias = {{7, FLT_MAX}, {8, FLT_MAX}};
    EXPECT_EQ(pick(logits, o).token, 7);
    o.repetition_penalty = 1e-3f, o.frequency_penalty = -100, o.presence_penalty = -100;
    const Sample up = sample(logits, o, history, 0, 5);
    EXPECT_TRUE(up.finite && !up.empty && up.token == 7 && up.top.size() == 40);
    for (const TokenValue& t : up.top) EXPECT_FALSE(std::isnan(t.value));
    o.logit_bias = {{7, -FLT_MAX}, {8, -FLT_MAX}};  // 7 is 0 and 8 banned; the rewards lift 7, 9 and 10 by 200
    const int32_t token = sample(logits, o, history, 0, 5).token;
    EXPECT_TRUE(temperature > 1 ? token != 8 : token == 7 || token == 9 || token == 10) << token << " at " << temperature;
  }
}

TEST(Sampler, DrawsDependOnSeedAndPositionAlone) {
  const auto logits = some_logits(500);
  auto o = with([](SamplingOptions* s) { s->temperature = 2, s->top_p = 0.98f; });
  std::vector<int32_t> history;
  int differ = 0;
  for (uint64_t p = 0; p < 300; ++p) {
    const int32_t token = pick(logits, o, p).token;
    for (int i = 0; i < 7; ++i) history.push_back(static_cast<int32_t>(p + 50));
    EXPECT_EQ(sample(logits, o, history, history.size() / 2, p).token, token);  // without penalties the text does not matter
    SamplingOptions other = o;
    other.seed = o.seed + 1;
    differ += pick(logits, other, p).token != token;
  }
  EXPECT_GT(differ, 250);
}

TEST(Sampler, TopListsTheMostProbable) {
  std::vector<float> logits = some_logits(49152);
  logits[40'000] = logits[3] = logits[17'001] = 9.0f;
  auto o = with([](SamplingOptions* s) { s->temperature = 1, s->top_logprobs = kTopLogprobsMax, s->logit_bias = {{3, -kInfinity}}; });
  const Sample s = pick(logits, o, 4);
  ASSERT_EQ(s.top.size(), kTopLogprobsMax);
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  for (size_t i = 0; i < s.top.size(); ++i) {
    EXPECT_EQ(s.top[i].token, order[i]);
    EXPECT_NEAR(s.top[i].value, static_cast<double>(logits[static_cast<size_t>(order[i])]) - std::log(sum), 4e-6);
  }
  o.top_logprobs = 5;
  o.logit_bias.clear();
  const auto few = pick(logs({0.2, 0.5, 0.3}), o).top;  // the whole vocabulary
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[0].token, 1);
  EXPECT_NEAR(few[2].value, std::log(0.2), 1e-6);
  std::vector<float> far(100, -300.0f);  // tokens of no weight are listed too
  far[60] = 0;
  const auto listed = pick(far, o).top;
  ASSERT_EQ(listed.size(), 5u);
  EXPECT_EQ(listed[0].token, 60);
  EXPECT_EQ(listed[4].token, 3);
  EXPECT_EQ(listed[4].value, -300.0f);
}

TEST(Sampler, DescribesATokenChosenElsewhere) {
  const auto logits = some_logits(1003);
  const auto o = with([](SamplingOptions* s) { s->temperature = 1, s->top_logprobs = 7; });
  for (uint64_t p = 0; p < 20; ++p) {
    const Sample own = pick(logits, o, p), other = describe(logits, own.token, 7);
    EXPECT_TRUE(other.finite && !other.empty);
    EXPECT_EQ(other.token, own.token);
    EXPECT_EQ(other.logprob, own.logprob);
    ASSERT_EQ(other.top.size(), 7u);
    for (size_t i = 0; i < 7; ++i) EXPECT_TRUE(other.top[i].token == own.top[i].token && other.top[i].value == own.top[i].value);
  }
  EXPECT_TRUE(describe(logits, 5, 0).top.empty());
}

// The largest distance between the draws' distribution and the uniform one, times the root of their number: above 1.95 with a
// probability of 0.001 (Kolmogorov and Smirnov).
double distance_from_uniform(std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  double far = 0, n = static_cast<double>(draws.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    far = std::max({far, draws[i] - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - draws[i]});
  }
  return far * std::sqrt(n);
}

// Pairs of neighbours over a grid of 16 x 16. Chi-square with 255 degrees of freedom is above 330.5 with a probability of 0.001.
double dependence_of_neighbours(const std::vector<double>& draws) {
  std::vector<double> cell(256);
  for (size_t i = 0; i + 1 < draws.size(); i += 2) ++cell[static_cast<size_t>(draws[i] * 16) * 16 + static_cast<size_t>(draws[i + 1] * 16)];
  double chi = 0, want = static_cast<double>(draws.size() / 2) / 256;
  for (double count : cell) chi += (count - want) * (count - want) / want;
  return chi;
}

TEST(Sampler, UniformDrawsAreUniformOverPositionsAndOverSeeds) {
  constexpr uint64_t kDraws = 100'000;
  for (uint64_t fixed : {uint64_t{0}, uint64_t{1}, uint64_t{12345}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::vector<double> by_position, by_seed, both;
    for (uint64_t i = 0; i < kDraws; ++i) {
      by_position.push_back(uniform_draw(fixed, i));
      by_seed.push_back(uniform_draw(i, fixed));
      both.push_back(uniform_draw(i, i + fixed));
    }
    for (const auto& draws : {by_position, by_seed, both}) {
      EXPECT_GE(*std::min_element(draws.begin(), draws.end()), 0);
      EXPECT_LT(*std::max_element(draws.begin(), draws.end()), 1);
      EXPECT_LT(distance_from_uniform(draws), 1.95) << fixed;
      EXPECT_LT(dependence_of_neighbours(draws), 330.5) << fixed;
    }
  }
  std::vector<double> skewed, stuck;  // both tests can fail
  for (uint64_t i = 0; i < kDraws; ++i) {
    skewed.push_back(std::pow(uniform_draw(5, i), 1.02));
    stuck.push_back(i % 20 == 1 ? stuck.back() : uniform_draw(5, i));
  }
  EXPECT_GT(distance_from_uniform(skewed), 1.95);
  EXPECT_GT(dependence_of_neighbours(stuck), 330.5);
}

}  // namespace
}  // namespace kvrt
