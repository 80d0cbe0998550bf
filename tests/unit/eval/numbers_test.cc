// exp, log and divergences against the C library's, in long doubles.
#include "bindings/cli/eval/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cli::eval {
namespace {

TEST(EvalNumbers, ExpAndLogAreTheCLibrarysToTwoUnits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = -700 + 1400 * (static_cast<double>(random() >> 11) * 0x1p-53);
    const double want = static_cast<double>(std::exp(static_cast<long double>(x)));
    ASSERT_NEAR(exp_of(x), want, 2 * want * 0x1p-52) << x;
    const double y = std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, static_cast<int>(random() % 600) - 300);
    const double log_y = static_cast<double>(std::log(static_cast<long double>(y)));
    ASSERT_NEAR(log_of(y), log_y, 2 * std::max(std::fabs(log_y), 0x1p-30) * 0x1p-52) << y;
  }
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_EQ(log_of(1), 0);
  EXPECT_EQ(exp_of(-701), 0);
}

TEST(EvalNumbers, DivergenceOfRows) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> a(5000), b(5000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = normal(random), b[i] = a[i] + 0.1f * normal(random);
  long double sum_a = 0, sum_b = 0, want = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum_a += std::exp(static_cast<long double>(a[i])), sum_b += std::exp(static_cast<long double>(b[i]));
  for (size_t i = 0; i < a.size(); ++i) {
    const long double p = std::exp(static_cast<long double>(a[i])) / sum_a;
    want += p * (std::log(p) - (static_cast<long double>(b[i]) - std::log(sum_b)));
  }
  EXPECT_NEAR(divergence(a, b), static_cast<double>(want), 1e-12);
  EXPECT_EQ(divergence(a, a), 0);
  EXPECT_EQ(best_of(std::vector<float>{1, 3, 3, 2}), 1u);
}

TEST(EvalNumbers, MeansAndRanks) {
  const Mean m = mean_of(std::vector<double>{1, 2, 3, 4});
  EXPECT_EQ(m.value, 2.5);
  EXPECT_NEAR(m.half_width, 3.182 * std::sqrt(5.0 / 3 / 4), 1e-12);
  // Values that stand twice say no more than once.
  const std::vector<double> twice = {1, 1, 2, 2, 3, 3, 4, 4};
  EXPECT_NEAR(mean_of(twice, std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3}).half_width, m.half_width, 1e-12);
  EXPECT_LT(mean_of(twice).half_width, m.half_width);
  EXPECT_EQ(m.n, 4u);
  EXPECT_EQ(mean_of({}).n, 0u);
  std::vector<double> thousand;
  for (int i = 1; i <= 1000; ++i) thousand.push_back(i);
  EXPECT_EQ(per_mille(thousand, 999), 999);
  EXPECT_EQ(per_mille(thousand, 1000), 1000);
  EXPECT_EQ(per_mille({7}, 999), 7);
}

}  // namespace
}  // namespace cli::eval
