// The norms and activations of fewer architectures: LayerNorm, gelu without a gate, the clamped SwiGLU.
#include <bit>

#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

TEST(LayerNorm, BitEqualAndWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(3);
  for (const uint32_t width : {2u, 7u, 16u, 17u, 40u, 576u, 1000u}) {
    constexpr uint32_t kRows = 11;
    std::vector<float> x = random.floats(kRows * width, 3.0f);
    for (float& f : x) f += 5;  // the mean counts
    const std::vector<float> w = random.floats(width), bias = random.floats(width);
    for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> want(x.size()), got(x.size());
      scalar->run({}, [&] { scalar->layernorm(x.data(), w.data(), b, 1e-5f, kRows, width, want.data()); });
      for (const auto& backend : backends) {
        backend->run({}, [&] { backend->layernorm(x.data(), w.data(), b, 1e-5f, kRows, width, got.data()); });
        EXPECT_SAME_BITS(want, got) << backend->isa() << " " << width;
        got = x;
        backend->run({}, [&] { backend->layernorm(got.data(), w.data(), b, 1e-5f, kRows, width, got.data()); });
        EXPECT_SAME_BITS(want, got) << backend->isa() << " " << width << " in place";
      }
      for (uint32_t r = 0; r < kRows; ++r) {
        const float* row = x.data() + r * width;
        double mean = 0, variance = 0;
        for (uint32_t i = 0; i < width; ++i) mean += double{row[i]} / width;
        for (uint32_t i = 0; i < width; ++i) variance += (row[i] - mean) * (row[i] - mean) / width;
        for (uint32_t i = 0; i < width; ++i) {
          const double exact = (row[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + (b ? double{b[i]} : 0);
          ASSERT_NEAR(want[r * width + i], exact, 1e-5) << width;
        }
      }
    }
  }
}

// Without a gate: the same as with an up of 1.
TEST(Gelu, BitEqualAndGeluMulsOfOne) {
  Random random(5);
  const std::vector<float> x = random.extremes(1003), ones(1003, 1.0f);
  std::vector<float> want(1003);
  scalar_kernels()->gelu_mul_row(x.data(), ones.data(), 1003, want.data());
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    std::vector<float> got = x;
    backend->run({}, [&] { backend->gelu(17, 59, got.data()); });
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

TEST(ReluSquared, IsItsFormula) {
  Random random(6);
  const std::vector<float> x = random.extremes(1003);
  std::vector<float> want = x, got = x;
  for (float& value : want) value = value < 0 ? 0 : value * value;  // a NaN stays one
  const auto backend = open_backend("", 2);
  backend->run({}, [&] { backend->relu_squared(17, 59, got.data()); });
  EXPECT_SAME_BITS(want, got);
}

// Positions on both sides of each multiple of the length; what lies between the rows stays.
TEST(Temper, IsItsFormula) {
  constexpr uint32_t kRows = 9, kWidth = 37, kStride = 41, kFirst = 2;
  const Temperature t{0.1f, 8192};
  const std::vector<int32_t> positions{0, 1, 0, 8191, 8192, 16383, 16384, 100000, 262143, 0, 5}, tokens(positions.size());
  const StepSeq seq{};
  Step step{{&seq, 1}, tokens, positions, {}};
  Random random(7);
  const std::vector<float> x = random.extremes(kRows * kStride);
  std::vector<float> want = x;
  for (uint32_t row = 0; row < kRows; ++row) {
    const int32_t position = positions[kFirst + row];
    const double exact = 1 + static_cast<double>(t.scale) * std::log(1 + std::floor(position / 8192.0));
    EXPECT_EQ(temperature_at(t, position), static_cast<float>(exact)) << position;
    for (uint32_t i = 0; i < kWidth; ++i) want[row * kStride + i] *= static_cast<float>(exact);
  }
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    std::vector<float> got = x;
    backend->run({}, [&] { backend->temper(t, step, kFirst, kRows, kWidth, kStride, got.data()); });
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

// Around both limits, and far beyond them.
TEST(ClampedSwiglu, BitEqualAndWithinBoundOfFloat64) {
  constexpr uint32_t kRows = 3, kFf = 4001;
  std::vector<float> gate_up(2 * kRows * kFf), want(kRows * kFf), got(kRows * kFf);
  for (uint32_t i = 0; i < kRows * kFf; ++i) {
    gate_up[i / kFf * 2 * kFf + i % kFf] = -20.0f + 0.0025f * static_cast<float>(i);
    gate_up[i / kFf * 2 * kFf + kFf + i % kFf] = static_cast<float>(static_cast<int>(i % 19) - 9);
  }
  gate_up[0] = 1e30f, gate_up[1] = -1e30f, gate_up[2] = -0.0f, gate_up[kFf] = 1e30f, gate_up[kFf + 1] = -1e30f;
  const auto scalar = open_backend("scalar");
  scalar->run({}, [&] { scalar->act_mul(Activation::kClampedSwiglu, gate_up.data(), kRows, kFf, want.data()); });
  for (const auto& backend : vector_backends(2)) {
    backend->run({}, [&] { backend->act_mul(Activation::kClampedSwiglu, gate_up.data(), kRows, kFf, got.data()); });
    EXPECT_SAME_BITS(want, got) << backend->isa();
  }
  for (uint32_t i = 0; i < kRows * kFf; ++i) {
    const float* row = gate_up.data() + i / kFf * 2 * kFf + i % kFf;
    const double g = std::min(double{row[0]}, 7.0), up = std::clamp(double{row[kFf]}, -7.0, 7.0);
    const double exact = (up + 1) * g / (1 + std::exp(-1.702 * g));
    ASSERT_NEAR(want[i], exact, std::fabs(exact) * 2e-6 + 1e-25) << row[0] << " " << row[kFf];
  }
  const float nan = std::numeric_limits<float>::quiet_NaN(), one[2] = {nan, 1}, two[2] = {1, nan};
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa);
    if (backend == nullptr) continue;
    float out[2];
    backend->run({}, [&] {
      backend->act_mul(Activation::kClampedSwiglu, one, 1, 1, out);
      backend->act_mul(Activation::kClampedSwiglu, two, 1, 1, out + 1);
    });
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1])) << isa;
  }
}

// Whatever bits a NaN has: those below the quiet bit must not become an exponent in exp.
TEST(NaN, StaysOneWhateverItsBits) {
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa);
    if (backend == nullptr) continue;
    for (const uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0x7fc000ffu, 0xffc00100u, 0x7fffffffu, 0xffffffffu}) {
      std::vector<float> capped(37, std::bit_cast<float>(bits)), gate_up(2 * capped.size(), std::bit_cast<float>(bits)), out(capped.size());
      for (const Activation act : {Activation::kSilu, Activation::kGeluTanh}) {
        backend->run({}, [&] { backend->act_mul(act, gate_up.data(), 1, static_cast<uint32_t>(out.size()), out.data()); });
        for (const float value : out) EXPECT_TRUE(std::isnan(value)) << isa << " " << bits;
      }
      backend->run({}, [&] { backend->softcap(30, 1, static_cast<uint32_t>(capped.size()), capped.data()); });
      for (const float value : capped) EXPECT_TRUE(std::isnan(value)) << isa << " " << bits;
    }
  }
}

}  // namespace
}  // namespace kvrt::test
