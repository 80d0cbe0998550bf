#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/rope.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

// Distance in units of the last place of `want` rounded to float.
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  const float unit = std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity()) - std::fabs(rounded);
  return std::fabs((double{got} - want) / double{unit});
}

// The bounds that NUMERICS.md names.
TEST(Exp, WithinItsBoundAndLevelBelow64) {
  double relative = 0, absolute = 0;
  for (float x = -64.0f; x <= 88.0f; x += 0.0013f) {
    const double want = std::exp(double{x}), error = std::fabs(scalar::exp(x) - want);
    relative = std::max(relative, error / want - std::ldexp(std::fabs(x), -26));
    if (x <= 0) absolute = std::max(absolute, error);
  }
  EXPECT_LT(relative, std::ldexp(1, -22));
  EXPECT_LT(absolute, std::ldexp(1, -22));
  EXPECT_EQ(scalar::exp(0.0f), 1.0f);
  EXPECT_EQ(scalar::exp(-0.0f), 1.0f);
  const float least = scalar::exp(-64.0f);
  EXPECT_GT(least, 0.0f);
  EXPECT_EQ(scalar::exp(std::nextafter(-64.0f, -100.0f)), least);
  EXPECT_EQ(scalar::exp(-std::numeric_limits<float>::infinity()), least);
  EXPECT_TRUE(std::isnan(scalar::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Rope, FunctionsAgreeWithLibm) {
  for (double x : {1e-30, 0.1, 0.7071, 1.0, 1.4142, 1.5, 10000.0, 100000.0, 500000.0, 1e7, 1e30}) {
    EXPECT_NEAR(plain_log(x), std::log(x), 4e-16 * std::fabs(std::log(x)) + 1e-17) << x;
  }
  for (double x = -40; x < 40; x += 0.0371) EXPECT_NEAR(rope_exp(x) / std::exp(x), 1.0, 2e-15) << x;
  double worst = 0;
  for (double x = 0; x < 1.6e7; x = x * 1.0007 + 0.011) {
    double s, c;
    rope_sincos(x, &s, &c);
    worst = std::max({worst, std::fabs(s - std::sin(x)), std::fabs(c - std::cos(x))});
  }
  EXPECT_LT(worst, 1e-15);
}

// Published values: sin and cos of 1 and 1000, ln 10, e.
TEST(Rope, KnownValues) {
  double s, c;
  rope_sincos(1.0, &s, &c);
  EXPECT_DOUBLE_EQ(s, 0.84147098480789650665);
  EXPECT_DOUBLE_EQ(c, 0.54030230586813971740);
  rope_sincos(1000.0, &s, &c);
  EXPECT_DOUBLE_EQ(s, 0.82687954053200256026);
  EXPECT_DOUBLE_EQ(c, 0.56237907629070299111);
  EXPECT_DOUBLE_EQ(plain_log(10.0), 2.30258509299404568402);
  EXPECT_DOUBLE_EQ(rope_exp(1.0), 2.71828182845904523536);
}

TEST(Rope, BothStylesAgainstFloat64AndScalar) {
  Random random(1);
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
    for (const uint32_t dims : {4u, 16u, 48u, 64u}) {
      constexpr uint32_t kHeads = 3, kDim = 64, kStride = kHeads * kDim + 5;
      const RopeParams params{style, dims, 10000.0f};
      const std::vector<int32_t> positions = {0, 1, 77, 8191, 131071};
      const std::vector<float> x = random.floats(positions.size() * kStride);
      std::vector<float> first;
      for (const std::string& isa : all_isas()) {
        const auto backend = open_backend(isa, 2);
        if (backend == nullptr) continue;
        std::vector<float> y = x;
        backend->run({}, [&] {
          backend->prepare_rope(params, Step{{}, {}, positions, {}});
          backend->rope(params, 0, 2, kHeads, kDim, kStride, y.data());
          backend->rope(params, 2, 3, kHeads, kDim, kStride, y.data() + 2 * kStride);
        });
        if (first.empty()) first = y;
        EXPECT_SAME_BITS(first, y) << isa;
      }
      std::vector<double> want(x.begin(), x.end());
      for (size_t row = 0; row < positions.size(); ++row) {
        for (uint32_t h = 0; h < kHeads; ++h) {
          for (uint32_t i = 0; i < dims / 2; ++i) {
            const size_t at = row * kStride + h * kDim;
            const size_t a = at + (style == RopeStyle::kInterleaved ? 2 * i : i);
            const size_t b = style == RopeStyle::kInterleaved ? a + 1 : a + dims / 2;
            const double angle = positions[row] * std::pow(10000.0, -2.0 * i / dims), x0 = x[a], x1 = x[b];
            want[a] = x0 * std::cos(angle) - x1 * std::sin(angle);
            want[b] = x0 * std::sin(angle) + x1 * std::cos(angle);
          }
        }
      }
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first[i], want[i], 2e-6) << i;  // beyond dims, and between rows: untouched
    }
  }
}

TEST(RmsNorm, BitEqualAndWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(2);
  for (const uint32_t width : {1u, 7u, 16u, 17u, 40u, 576u, 1000u}) {
    constexpr uint32_t kRows = 11;
    const std::vector<float> x = random.floats(kRows * width, 3.0f), w = random.floats(width);
    std::vector<float> a(x.size()), b(x.size());
    scalar->run({}, [&] { scalar->rmsnorm(x.data(), w.data(), 1e-5f, kRows, width, a.data()); });
    for (const auto& backend : backends) {
      backend->run({}, [&] { backend->rmsnorm(x.data(), w.data(), 1e-5f, kRows, width, b.data()); });
      EXPECT_SAME_BITS(a, b) << backend->isa() << " " << width;
    }
    for (uint32_t r = 0; r < kRows; ++r) {
      double squares = 0;
      for (uint32_t i = 0; i < width; ++i) squares += double{x[r * width + i]} * x[r * width + i];
      const double scale = 1.0 / std::sqrt(squares / width + 1e-5);
      for (uint32_t i = 0; i < width; ++i) {
        const double want = x[r * width + i] * scale * w[i];
        ASSERT_NEAR(a[r * width + i], want, std::fabs(want) * 1e-6);
      }
    }
  }
}

TEST(SiluMul, BitEqualAndWithinBoundOfFloat64) {
  constexpr uint32_t kWidth = 20003;
  std::vector<float> gate_up(2 * kWidth), a(kWidth), b(kWidth);
  for (uint32_t i = 0; i < kWidth; ++i) {
    gate_up[i] = -100.0f + 0.01f * static_cast<float>(i);
    gate_up[kWidth + i] = 1.0f + static_cast<float>(i % 7);
  }
  gate_up[0] = -0.0f;
  gate_up[1] = 1e30f;
  gate_up[2] = -1e30f;
  gate_up[3] = 1e-42f;
  scalar_kernels()->silu_mul_row(gate_up.data(), gate_up.data() + kWidth, kWidth, a.data());
  for (const CpuKernels* kernels : vector_tables()) {
    kernels->silu_mul_row(gate_up.data(), gate_up.data() + kWidth, kWidth, b.data());
    EXPECT_SAME_BITS(a, b) << kernels->isa;
  }
  for (uint32_t i = 0; i < kWidth; ++i) {
    const double x = gate_up[i], want = x / (1.0 + std::exp(-x)) * gate_up[kWidth + i];
    ASSERT_NEAR(a[i], want, std::fabs(want) * (5e-7 + std::ldexp(std::min(std::fabs(x), 100.0), -26)) + 1e-25) << x;  // exp's bound
  }
}

TEST(Tanh, WithinTwoUlps) {
  double worst = 0;
  for (float x = -12.0f; x <= 12.0f; x += 0.00037f) worst = std::max(worst, ulps(scalar::tanh(x), std::tanh(double{x})));
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(scalar::tanh(0.0f), 0.0f);
  EXPECT_EQ(scalar::tanh(100.0f), 1.0f);
  EXPECT_EQ(scalar::tanh(-std::numeric_limits<float>::infinity()), -1.0f);
  EXPECT_EQ(scalar::tanh(1e-42f), 1e-42f);
  EXPECT_TRUE(std::isnan(scalar::tanh(std::numeric_limits<float>::quiet_NaN())));
}

TEST(GeluMul, BitEqualAndWithinBoundOfFloat64) {
  constexpr uint32_t kWidth = 20003;
  std::vector<float> gate_up(2 * kWidth), a(kWidth), b(kWidth);
  for (uint32_t i = 0; i < kWidth; ++i) {
    gate_up[i] = -10.0f + 0.001f * static_cast<float>(i);
    gate_up[kWidth + i] = 1.0f + static_cast<float>(i % 7);
  }
  gate_up[0] = -0.0f;
  gate_up[1] = 1e30f;
  gate_up[2] = -1e30f;
  gate_up[3] = 1e-42f;
  scalar_kernels()->gelu_mul_row(gate_up.data(), gate_up.data() + kWidth, kWidth, a.data());
  for (const CpuKernels* kernels : vector_tables()) {
    kernels->gelu_mul_row(gate_up.data(), gate_up.data() + kWidth, kWidth, b.data());
    EXPECT_SAME_BITS(a, b) << kernels->isa;
  }
  for (uint32_t i = 0; i < kWidth; ++i) {
    const double x = gate_up[i], u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    const double want = x * 0.5 * (1 + std::tanh(u)) * gate_up[kWidth + i];
    // An error of exp's argument counts as often as the argument is long; 1 + tanh in double ends at 1e-16.
    ASSERT_NEAR(a[i], want, std::fabs(want) * (5e-7 + 4e-7 * std::min(std::fabs(u), 100.0)) + std::fabs(x) * 1e-14) << x;
  }
}

TEST(Softcap, BitEqualAndWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(4);
  for (const float cap : {30.0f, 50.0f, 1.5f}) {
    std::vector<float> x = random.extremes(3 * 1003), a = x, b = x;
    scalar->run({}, [&] { scalar->softcap(cap, 3, 1003, a.data()); });
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = double{cap} * std::tanh(double{x[i]} / double{cap});
      ASSERT_NEAR(a[i], want, std::fabs(want) * 4e-7 + double{cap} * 2e-45) << x[i];
    }
    for (const auto& backend : backends) {
      b = x;
      backend->run({}, [&] { backend->softcap(cap, 3, 1003, b.data()); });
      EXPECT_SAME_BITS(a, b) << backend->isa();
    }
  }
}

TEST(RmsNormHeads, IsRmsNormOfEachHeadInPlace) {
  Random random(5);
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    constexpr uint32_t kRows = 9, kHeads = 3, kDim = 20, kStride = kHeads * kDim + 7;
    const std::vector<float> x = random.floats(kRows * kStride), w = random.floats(kDim);
    std::vector<float> got = x, want = x;
    backend->run({}, [&] {
      backend->rmsnorm_heads(w.data(), 1e-6f, kRows, kHeads, kDim, kStride, got.data());
      for (uint32_t r = 0; r < kRows; ++r) {
        for (uint32_t h = 0; h < kHeads; ++h) {
          const uint64_t at = r * kStride + h * kDim;
          backend->rmsnorm(x.data() + at, w.data(), 1e-6f, 1, kDim, want.data() + at);
        }
      }
    });
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

TEST(LayerNormHeads, IsLayerNormOfEachHeadWithItsWeightsInPlace) {
  Random random(7);
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    constexpr uint32_t kRows = 9, kHeads = 3, kDim = 20, kStride = kHeads * kDim + 7;
    const std::vector<float> x = random.floats(kRows * kStride), w = random.floats(kHeads * kDim);
    std::vector<float> got = x, want = x;
    backend->run({}, [&] {
      backend->layernorm_heads(w.data(), 1e-5f, kRows, kHeads, kDim, kStride, got.data());
      for (uint32_t i = 0; i < kRows * kHeads; ++i) {
        const uint64_t at = i / kHeads * kStride + i % kHeads * kDim;
        backend->layernorm(x.data() + at, w.data() + i % kHeads * kDim, nullptr, 1e-5f, 1, kDim, want.data() + at);
      }
    });
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

TEST(AddAndScale, OneRoundingEach) {
  const auto backend = open_backend("scalar", 2);
  Random random(6);
  const std::vector<float> y = random.extremes(11 * 70), x = random.extremes(11 * 70);
  std::vector<float> sum = x, product = x;
  backend->run({}, [&] {
    backend->add(y.data(), 11, 70, sum.data());
    backend->scale(0.3f, 11, 70, product.data());
  });
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(sum[i], static_cast<float>(double{x[i]} + double{y[i]}));
    EXPECT_EQ(product[i], static_cast<float>(double{x[i]} * double{0.3f}));
  }
}

// One logit that is no number must not be lost among the others: the row's weights are none either, whichever experts are chosen.
TEST(Route, ANaNIsNotLost) {
  const auto backend = open_backend("scalar", 1);
  for (const bool sigmoid : {false, true}) {
    for (const bool normalize : {false, true}) {
      std::vector<float> logits{3, 2, 1, 0, -1, std::numeric_limits<float>::quiet_NaN(), 3, 2, 1, 0, -1, -2};
      Routes routes;
      backend->run({}, [&] { backend->route(logits.data(), 2, {6, 2, sigmoid, normalize}, &routes); });
      ASSERT_EQ(routes.rows.size(), 4u);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(routes.weights[i]), routes.rows[i] == 0) << sigmoid << normalize << i;
    }
  }
}

// A row's experts and weights, one by one, against sorting in float64; and the rows in the order of the experts.
TEST(Route, TakesTheLargestAndGroupsRowsByExpert) {
  const auto backend = open_backend("scalar", 2);
  Random random(7);
  constexpr uint32_t kRows = 37, kExperts = 11, kUsed = 4;
  std::vector<float> logits = random.floats(kRows * kExperts, 2.0f);
  std::fill_n(logits.begin(), kExperts, 0.5f);                                                // a tie: the first four
  std::fill_n(logits.begin() + kExperts, kExperts, std::numeric_limits<float>::quiet_NaN());  // still four of them
  for (const bool normalize : {false, true}) {
    Routes routes;
    backend->run({}, [&] { backend->route(logits.data(), kRows, {kExperts, kUsed, false, normalize}, &routes); });
    ASSERT_EQ(routes.first.size(), kExperts + 1);
    ASSERT_EQ(routes.first.back(), kRows * kUsed);
    std::vector<std::vector<std::pair<uint32_t, float>>> by_row(kRows);
    for (uint32_t e = 0; e < kExperts; ++e) {
      for (uint32_t i = routes.first[e]; i < routes.first[e + 1]; ++i) {
        EXPECT_TRUE(i == routes.first[e] || routes.rows[i - 1] < routes.rows[i]);
        by_row[routes.rows[i]].push_back({e, routes.weights[i]});
      }
    }
    for (uint32_t e = 0; e < kUsed; ++e) EXPECT_EQ(by_row[0][e].first, e);
    EXPECT_EQ(by_row[1].size(), kUsed);
    for (uint32_t row = 2; row < kRows; ++row) {
      std::vector<std::pair<double, uint32_t>> order;
      double all = 0, used = 0;
      for (uint32_t e = 0; e < kExperts; ++e) order.push_back({-std::exp(double{logits[row * kExperts + e]}), e});
      std::sort(order.begin(), order.end());
      for (uint32_t e = 0; e < kExperts; ++e) all -= order[e].first, used -= e < kUsed ? order[e].first : 0;
      ASSERT_EQ(by_row[row].size(), kUsed);
      for (uint32_t n = 0; n < kUsed; ++n) {
        const auto found = std::find_if(by_row[row].begin(), by_row[row].end(), [&](const auto& p) { return p.first == order[n].second; });
        ASSERT_NE(found, by_row[row].end());
        EXPECT_NEAR(found->second, -order[n].first / (normalize ? used : all), 1e-6);
      }
    }
    // Alone, a row goes where it went among the others.
    Routes alone;
    backend->run({}, [&] { backend->route(logits.data() + 5 * kExperts, 1, {kExperts, kUsed, false, normalize}, &alone); });
    for (uint32_t e = 0, n = 0; e < kExperts; ++e) {
      if (alone.first[e] == alone.first[e + 1]) continue;
      EXPECT_EQ(by_row[5][n].first, e);
      EXPECT_EQ(by_row[5][n].second, alone.weights[alone.first[e]]);
      ++n;
    }
  }
}

TEST(AddRows, OneFmaEach) {
  Random random(8);
  const std::vector<float> y = random.floats(3 * 21), x = random.floats(6 * 21), weights = {0.3f, -1.7f, 1e-30f};
  const std::vector<uint32_t> rows = {0, 3, 5};
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    std::vector<float> got = x, want = x;
    backend->run({}, [&] { backend->add_rows(y.data(), rows, weights, 21, got.data()); });
    for (uint32_t i = 0; i < 3 * 21; ++i) {
      float& to = want[rows[i / 21] * 21 + i % 21];
      to = std::fmaf(weights[i / 21], y[i], to);
    }
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

// Two kinds of layers ask in turn; the factor of yarn's amplitude by its published formula, its frequencies at both ends.
TEST(Rope, ScalingOfFrequencies) {
  RopeParams plain{RopeStyle::kHalves, 64, 10000.0f}, linear = plain, llama3 = plain, yarn = plain;
  linear.scaling = RopeScaling::kLinear, linear.factor = 8;
  llama3.frequency_factors = std::vector<float>(32, 1.0f), llama3.frequency_factors[31] = 4;
  yarn.scaling = RopeScaling::kYarn, yarn.factor = 4, yarn.original_context = 4096;
  std::vector<double> base(32), by_linear(32), by_factors(32), by_yarn(32);
  rope_frequencies(plain, base.data());
  rope_frequencies(linear, by_linear.data());
  rope_frequencies(llama3, by_factors.data());
  rope_frequencies(yarn, by_yarn.data());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(base[i] / std::pow(10000.0, -2.0 * i / 64), 1.0, 2e-15);
    EXPECT_DOUBLE_EQ(by_linear[i], base[i] / 8);
    EXPECT_DOUBLE_EQ(by_factors[i], i == 31 ? base[i] / 4 : base[i]);
    const double turns = 4096 * base[i] / (2 * std::acos(-1.0));  // of a pair over the original context
    EXPECT_TRUE(turns < 40 || by_yarn[i] == base[i]) << i;
    EXPECT_TRUE(turns > 0.7 || by_yarn[i] == base[i] / 4) << i;
    EXPECT_LE(by_yarn[i], base[i]);
    EXPECT_GE(by_yarn[i], base[i] / 4);
  }
  // A ramp that is not rounded begins and ends where a pair turns 32 times and once, whole or not: the published formula.
  yarn.whole_ramp = false;
  rope_frequencies(yarn, by_yarn.data());
  const auto pair = [](double turns) { return 32 * std::log(4096 / (turns * 2 * std::acos(-1.0))) / std::log(10000.0); };
  for (uint32_t i = 0; i < 32; ++i) {
    const double ramp = std::clamp((i - pair(32)) / (pair(1) - pair(32)), 0.0, 1.0);
    EXPECT_NEAR(by_yarn[i] / (base[i] / 4 * ramp + base[i] * (1 - ramp)), 1.0, 1e-13) << i;
  }
  EXPECT_DOUBLE_EQ(rope_amplitude(plain), 1.0);
  EXPECT_DOUBLE_EQ(rope_amplitude(linear), 1.0);
  EXPECT_DOUBLE_EQ(rope_amplitude(yarn), 0.1 * std::log(4.0) + 1);
  const auto backend = open_backend("scalar");
  const std::vector<int32_t> positions = {3, 90};
  const std::vector<float> x = Random(9).floats(2 * 64);
  std::vector<float> first[3];
  backend->run({}, [&] {
    for (int turn = 0; turn < 6; ++turn) {
      const RopeParams* kinds[] = {&plain, &linear, &yarn};
      std::vector<float> y = x;
      backend->prepare_rope(*kinds[turn % 3], Step{{}, {}, positions, {}});
      backend->rope(*kinds[turn % 3], 0, 2, 1, 64, 64, y.data());
      if (turn < 3) first[turn] = y;
      EXPECT_SAME_BITS(first[turn % 3], y);
    }
  });
  EXPECT_NE(first_difference(first[0], first[1]), -1);
}

TEST(GatherRows, Copies) {
  const auto backend = open_backend("scalar");
  const std::vector<float> x = Random(3).floats(5 * 7);
  const std::vector<uint32_t> rows = {1, 4};
  std::vector<float> out(14);
  backend->gather_rows(x.data(), rows, 7, out.data());
  std::vector<float> want(x.begin() + 7, x.begin() + 14);
  want.insert(want.end(), x.begin() + 28, x.end());
  EXPECT_SAME_BITS(want, out);
}

}  // namespace
}  // namespace kvrt::test
