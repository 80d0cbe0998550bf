// Q's and K's norms evened out for int8: the same products, and the least product of norms that weights of RoPE's pairs can give.
#include <cmath>

#include "runtime/model/model.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

constexpr uint32_t kHeadDim = 24, kRotated = 20;  // the last four dimensions are not rotated

// The other dimension of d's pair, d where there is none.
uint32_t partner(RopeStyle style, uint32_t d) {
  if (d >= kRotated) return d;
  return style == RopeStyle::kInterleaved ? d ^ 1 : (d + kRotated / 2) % kRotated;
}

double length(const std::vector<float>& x) {
  double sum = 0;
  for (const float f : x) sum += double{f} * f;
  return std::sqrt(sum);
}

TEST(BalanceQk, SameProductsAndTheLeastError) {
  for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
    Random random(3);
    Model model;
    model.arch = find_arch("qwen3");
    model.dims.layers = 1, model.dims.head_dim = kHeadDim;
    model.dims.rope.style = style, model.dims.rope.dims = kRotated;
    Layer& layer = model.layers.emplace_back();
    layer.q_norm.values = random.floats(kHeadDim), layer.k_norm.values = random.floats(kHeadDim);
    layer.k_norm.values[3] = 40.0f;
    const uint32_t pruned = 5;
    layer.k_norm.values[pruned] = layer.k_norm.values[partner(style, pruned)] = 0;
    const std::vector<float> q = layer.q_norm.values, k = layer.k_norm.values;
    balance_qk(&model);
    double bound = 0;  // Cauchy and Schwarz: no weights make |q| |k| less than the sum of its pairs' |q| |k|
    for (uint32_t d = 0; d < kHeadDim; ++d) {
      const uint32_t other = partner(style, d);
      EXPECT_NEAR(layer.q_norm.values[d] * layer.k_norm.values[d], q[d] * k[d], 1e-6 * std::fabs(q[d] * k[d])) << d;
      EXPECT_NEAR(layer.q_norm.values[d] * q[other], layer.q_norm.values[other] * q[d], 1e-6 * std::fabs(layer.q_norm.values[d] * q[other]))
          << d;
      if (d <= other) bound += d == other ? std::fabs(q[d] * k[d]) : std::hypot(q[d], q[other]) * std::hypot(k[d], k[other]);
    }
    EXPECT_EQ(layer.q_norm.values[pruned], q[pruned]);
    std::vector<float> live = layer.q_norm.values;
    live[pruned] = live[partner(style, pruned)] = 0;
    EXPECT_NEAR(length(live) * length(layer.k_norm.values), bound, 1e-5 * bound);
    EXPECT_LT(bound, 0.8 * length(q) * length(k));
  }
}

TEST(BalanceQk, LeavesAloneWhatHasNoNormOfItsHeads) {
  Model model;
  model.arch = find_arch("olmo2");
  model.dims.layers = 1, model.dims.head_dim = 2, model.dims.rope.dims = 2;
  model.layers.emplace_back();
  model.layers[0].q_norm.values = {1, 2, 3, 4}, model.layers[0].k_norm.values = {5, 6};
  balance_qk(&model);
  EXPECT_EQ(model.layers[0].q_norm.values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(model.layers[0].k_norm.values, (std::vector<float>{5, 6}));
}

}  // namespace
}  // namespace kvrt::test
