// The choice of experts by sigmoid, groups and a bias, against sorting in float64. (By softmax alone: elementwise_test.cc.)
#include <numeric>

#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

struct Chosen {
  std::vector<uint32_t> ids;  // ascending
  std::vector<double> weights;
};

Chosen choose(const RouteParams& r, const float* logits) {
  std::vector<double> p(r.experts), by(r.experts);
  double all = 0, used = 0;
  for (uint32_t e = 0; e < r.experts; ++e) all += std::exp(double{logits[e]});
  for (uint32_t e = 0; e < r.experts; ++e) {
    p[e] = r.sigmoid ? 1 / (1 + std::exp(-double{logits[e]})) : std::exp(double{logits[e]}) / all;
    by[e] = p[e] + (r.bias ? double{r.bias[e]} : 0);
  }
  const uint32_t n = r.experts / r.groups;
  std::vector<std::pair<double, uint32_t>> groups, order;
  for (uint32_t g = 0; g < r.groups; ++g) {
    std::vector<double> of(by.begin() + g * n, by.begin() + (g + 1) * n);
    std::sort(of.rbegin(), of.rend());
    groups.push_back({-(r.sigmoid && n > 1 ? of[0] + of[1] : of[0]), g});
  }
  std::sort(groups.begin(), groups.end());
  for (uint32_t i = 0; i < r.groups_used; ++i) {
    for (uint32_t e = groups[i].second * n; e < (groups[i].second + 1) * n; ++e) order.push_back({-by[e], e});
  }
  std::sort(order.begin(), order.end());
  Chosen chosen;
  for (uint32_t i = 0; i < r.used; ++i) chosen.ids.push_back(order[i].second);
  std::sort(chosen.ids.begin(), chosen.ids.end());
  for (const uint32_t e : chosen.ids) used += p[e];
  for (const uint32_t e : chosen.ids) chosen.weights.push_back(p[e] / (r.normalize ? used : 1) * double{r.scale});
  return chosen;
}

TEST(Route, BySigmoidGroupsAndBias) {
  const auto backend = open_backend("scalar", 2);
  Random random(9);
  constexpr uint32_t kRows = 41, kExperts = 24;
  const std::vector<float> bias = random.floats(kExperts, 0.3f), logits = random.floats(kRows * kExperts, 2.0f);
  for (uint32_t variant = 0; variant < 32; ++variant) {
    RouteParams r{
        kExperts, 5, (variant & 1) != 0, (variant & 2) != 0, variant & 4 ? 2.5f : 1.0f, 1, 1, variant & 8 ? bias.data() : nullptr};
    if (variant & 16) r.groups = 6, r.groups_used = 2;
    Routes routes;
    backend->run({}, [&] { backend->route(logits.data(), kRows, r, &routes); });
    std::vector<Chosen> found(kRows);
    for (uint32_t e = 0; e < kExperts; ++e) {
      for (uint32_t i = routes.first[e]; i < routes.first[e + 1]; ++i) {
        found[routes.rows[i]].ids.push_back(e);
        found[routes.rows[i]].weights.push_back(double{routes.weights[i]});
      }
    }
    for (uint32_t row = 0; row < kRows; ++row) {
      const Chosen want = choose(r, logits.data() + row * kExperts);
      ASSERT_EQ(found[row].ids, want.ids) << "variant " << variant << " row " << row;
      for (size_t i = 0; i < want.ids.size(); ++i) EXPECT_NEAR(found[row].weights[i], want.weights[i], 2e-6) << "variant " << variant;
    }
  }
}

// A logit that is far below or a NaN leaves weights of which each is a number, and experts that differ.
TEST(Route, ExtremeLogitsGiveDifferentExperts) {
  const auto backend = open_backend("scalar");
  std::vector<float> logits(16, -1e30f);
  logits[3] = std::numeric_limits<float>::quiet_NaN(), logits[9] = 1e30f;
  const std::vector<float> bias(16, 0.0f);
  const RouteParams r{16, 4, true, true, 1, 4, 2, bias.data()};
  Routes routes;
  backend->run({}, [&] { backend->route(logits.data(), 1, r, &routes); });
  ASSERT_EQ(routes.first.back(), 4u);
  for (uint32_t e = 0; e < 16; ++e) EXPECT_LE(routes.first[e + 1] - routes.first[e], 1u);
}

}  // namespace
}  // namespace kvrt::test
