// Rows of predictions that do not tell all tokens apart, against sums in long doubles.
#include "bindings/cli/eval/told.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bindings/cli/eval/numbers.h"

namespace cli::eval {
namespace {

std::vector<float> some_logits(uint64_t seed, size_t n, float spread) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

struct FileRow {
  float step, least;
  std::vector<uint16_t> values;
};

// As the format says: values from the least log, at most 16 below the best, in 65,535 steps.
FileRow file_row(const std::vector<float>& logits) {
  const long double most = *std::max_element(logits.begin(), logits.end());
  const long double least = std::max<long double>(*std::min_element(logits.begin(), logits.end()), most - 16);
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x) - most);
  FileRow row{static_cast<float>((most - least) / 65535), static_cast<float>(least - most - std::log(sum)), {}};
  for (const float x : logits) row.values.push_back(static_cast<uint16_t>(std::lround(std::max<long double>(x - least, 0) / row.step)));
  return row;
}

// KL over the tokens of both that are within 16 of their best, and all others as one.
double expected(const std::vector<float>& base, const std::vector<float>& other, bool base_is_whole) {
  const auto sum_of = [](const std::vector<float>& row) {
    long double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<long double>(x));
    return sum;
  };
  const long double p_sum = sum_of(base), q_sum = sum_of(other);
  const float p_least = *std::max_element(base.begin(), base.end()) - 16, q_least = *std::max_element(other.begin(), other.end()) - 16;
  long double kl = 0, p_rest = 0, q_rest = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const long double p = std::exp(static_cast<long double>(base[i])) / p_sum, q = std::exp(static_cast<long double>(other[i])) / q_sum;
    if (other[i] > q_least && (base_is_whole || base[i] > p_least))
      kl += p * std::log(p / q);
    else
      p_rest += p, q_rest += q;
  }
  return static_cast<double>(kl + (p_rest > 0 ? p_rest * std::log(p_rest / q_rest) : 0));
}

TEST(EvalTold, AllOfItIsTheDivergenceOfRows) {
  const std::vector<float> a = some_logits(1, 4000, 3), b = some_logits(2, 4000, 3);
  EXPECT_NEAR(divergence(told_of(a), told_of(b)), divergence(a, b), 1e-12);
  EXPECT_EQ(divergence(told_of(a), told_of(a)), 0);
  EXPECT_EQ(told_of(a).best, best_of(a));
}

TEST(EvalTold, WhatIsFarBelowIsOneOutcome) {
  for (const float spread : {1.0f, 4.0f, 9.0f}) {
    const std::vector<float> a = some_logits(3, 4000, spread);
    std::vector<float> b = a;
    const std::vector<float> off = some_logits(4, 4000, spread / 4);
    for (size_t i = 0; i < b.size(); ++i) b[i] += off[i];
    EXPECT_NEAR(divergence(told_of(a), told_near(b)), expected(a, b, true), 1e-12) << spread;
    EXPECT_NEAR(divergence(told_near(a), told_near(b)), expected(a, b, false), 1e-12) << spread;
    EXPECT_EQ(divergence(told_near(a), told_near(a)), 0);
    EXPECT_LE(divergence(told_of(a), told_near(b)), divergence(a, b) + 1e-12);  // outcomes taken together tell less
  }
}

TEST(EvalTold, RowsOfAFile) {
  for (const float spread : {1.0f, 4.0f, 9.0f}) {
    const std::vector<float> a = some_logits(5, 4000, spread);
    std::vector<float> b = a;
    const std::vector<float> off = some_logits(6, 4000, spread / 4);
    for (size_t i = 0; i < b.size(); ++i) b[i] += off[i];
    const FileRow rows[] = {file_row(a), file_row(b)};
    Told told[2];
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(told_of(rows[i].step, rows[i].least, rows[i].values, &told[i]));
    EXPECT_EQ(told[0].best, best_of(a));
    double sum = told[0].rest;
    for (const double log : told[0].logs) sum += log == kRest ? 0 : std::exp(log);
    EXPECT_NEAR(sum, 1, 1e-12);
    // A log is off by half a step, 1.2e-4, and the errors of many tokens cancel.
    const double want = expected(a, b, true);
    EXPECT_NEAR(divergence(told_of(a), told[1]), want, 2e-4 * want + 1e-7) << spread;
    EXPECT_NEAR(divergence(told[0], told[1]), want, 5e-4 * want + 1e-6) << spread;
    EXPECT_LT(divergence(told_of(a), told[0]), 1e-5);  // what the rest has is told by what is left of 1
    EXPECT_EQ(divergence(told[0], told[0]), 0);
  }
}

TEST(EvalTold, RowsThatAreNone) {
  const FileRow row = file_row(some_logits(7, 1000, 4));
  Told out;
  EXPECT_TRUE(told_of(row.step, row.least, row.values, &out));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    EXPECT_FALSE(told_of(bad, row.least, row.values, &out));
    EXPECT_FALSE(told_of(row.step, bad, row.values, &out));
  }
  EXPECT_FALSE(told_of(-row.step, row.least, row.values, &out));
  EXPECT_FALSE(told_of(row.step, row.least + 1, row.values, &out));  // more than 1 together
  EXPECT_FALSE(told_of(row.step, row.least - 1, row.values, &out));  // less
  EXPECT_FALSE(told_of(1e30f, row.least, row.values, &out));
  EXPECT_FALSE(told_of(row.step, row.least, {}, &out));
  // All tokens alike
  ASSERT_TRUE(told_of(0, -std::log(8.0f), std::vector<uint16_t>(8), &out));
  EXPECT_NEAR(out.logs[5], -std::log(8.0), 1e-6);
  EXPECT_EQ(out.rest, 0);
}

}  // namespace
}  // namespace cli::eval
