#include "runtime/compute/cpu_kernels_scalar.h"
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

TEST(Exp, WithinTwoUlpsAndZeroBelow64) {
  double worst = 0;
  for (float x = -64.0f; x <= 88.0f; x += 0.0013f) worst = std::max(worst, ulps(scalar::exp(x), std::exp(double{x})));
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(scalar::exp(0.0f), 1.0f);
  EXPECT_EQ(scalar::exp(-0.0f), 1.0f);
  EXPECT_GT(scalar::exp(-64.0f), 0.0f);
  EXPECT_EQ(scalar::exp(std::nextafter(-64.0f, -100.0f)), 0.0f);
  EXPECT_EQ(scalar::exp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isnan(scalar::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Rope, FunctionsAgreeWithLibm) {
  for (double x : {1e-30, 0.1, 0.7071, 1.0, 1.4142, 1.5, 10000.0, 100000.0, 500000.0, 1e7, 1e30}) {
    EXPECT_NEAR(rope_log(x), std::log(x), 4e-16 * std::fabs(std::log(x)) + 1e-17) << x;
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
  EXPECT_DOUBLE_EQ(rope_log(10.0), 2.30258509299404568402);
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
      for (const char* isa : {"scalar", "avx2"}) {
        const auto backend = open_backend(isa, 2);
        if (backend == nullptr) continue;
        std::vector<float> y = x;
        backend->run(0, [&] { backend->rope(params, positions, kHeads, kDim, kStride, y.data()); });
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
  const auto scalar = open_backend("scalar"), avx2 = open_backend("avx2", 2);
  Random random(2);
  for (const uint32_t width : {1u, 7u, 16u, 17u, 40u, 576u, 1000u}) {
    constexpr uint32_t kRows = 11;
    const std::vector<float> x = random.floats(kRows * width, 3.0f), w = random.floats(width);
    std::vector<float> a(x.size()), b(x.size());
    scalar->run(0, [&] { scalar->rmsnorm(x.data(), w.data(), 1e-5f, kRows, width, a.data()); });
    if (avx2 != nullptr) {
      avx2->run(0, [&] { avx2->rmsnorm(x.data(), w.data(), 1e-5f, kRows, width, b.data()); });
      EXPECT_SAME_BITS(a, b) << width;
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
  const auto scalar = open_backend("scalar"), avx2 = open_backend("avx2");
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
  scalar->run(0, [&] { scalar->silu_mul(gate_up.data(), 1, kWidth, a.data()); });
  if (avx2 != nullptr) {
    avx2->run(0, [&] { avx2->silu_mul(gate_up.data(), 1, kWidth, b.data()); });
    EXPECT_SAME_BITS(a, b);
  }
  for (uint32_t i = 0; i < kWidth; ++i) {
    const double x = gate_up[i], want = x / (1.0 + std::exp(-x)) * gate_up[kWidth + i];
    ASSERT_NEAR(a[i], want, std::fabs(want) * 5e-7 + 1e-25) << x;
  }
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
