// conv, scan, delta and multiply: within a bound of the papers' formulas in double, and the same bits for every instruction set, number of
// threads and cut of the sequences.
#include "runtime/compute/cpu/kernels_scalar.h"
#include "tests/ops/states_rig.h"

namespace kvrt::test {
namespace {

TEST(States, SameBitsForEveryCutThreadAndInstructionSet) {
  Random random(11);
  const auto scalar = open_backend("scalar");
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& isa : all_isas()) {
    for (const uint32_t threads : {1u, 2u, 3u}) backends.push_back(open_backend(isa, threads));
  }
  for (const StateOp& op : state_ops(&random)) {
    const auto inputs = state_inputs(op, {19, 1, 26}, &random);
    const std::vector<float> want = alone(scalar.get(), op, inputs);
    for (const float f : want) ASSERT_TRUE(std::isfinite(f)) << op.name;
    for (size_t b = 0; b < backends.size(); ++b) {
      Backend* backend = backends[b].get();
      for (uint32_t rows = 1; rows < 30; rows += b % 3 == 0 && !kSanitized ? 1 + rows / 6 : 14) {
        StateRig rig(backend, op, inputs, rows);
        rig.finish(rows);
        EXPECT_SAME_BITS(want, rig.all()) << op.name << ", " << backend->isa() << ", " << b % 3 + 1 << " threads, " << rows << " rows";
      }
      StateRig rig(backend, op, inputs, static_cast<uint32_t>(b));
      for (uint32_t i = 0; i < 6; ++i) {  // some of the sequences, in pieces of any size
        std::vector<Piece> pieces;
        for (uint32_t s = 0; s < inputs.size(); ++s) {
          if (rig.left(s) > 0 && random.below(2)) pieces.push_back({s, 1 + random.below(std::min(rig.left(s), 9u))});
        }
        if (!pieces.empty()) rig.step(pieces);
      }
      rig.finish(4);
      EXPECT_SAME_BITS(want, rig.all()) << op.name << ", " << backend->isa() << ", " << b % 3 + 1 << " threads, cut at random";
    }
  }
}

// Numbers that no model computes: they spread as IEEE says, and nothing else happens.
TEST(States, ExtremesGiveTheSameNumbers) {
  Random random(12);
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  const float extremes[] = {
      std::bit_cast<float>(0x7fc00001u), -std::numeric_limits<float>::infinity(), 3e38f, -3e38f, 1e30f, -0.0f, 1e-42f};
  for (const StateOp& op : state_ops(&random)) {
    for (const bool infinity : {false, true}) {
      auto inputs = state_inputs(op, {5, 3}, &random);
      for (auto& input : inputs) {
        for (uint32_t i = 0; i < (infinity ? input.size() / 40 : input.size() / 20); ++i) {
          input[random.below(static_cast<uint32_t>(input.size()))] = extremes[infinity ? random.below(7) : 2 + random.below(5)];
        }
      }
      const auto run = [&](Backend* backend) {
        StateRig rig(backend, op, inputs, 3);
        rig.finish(2);
        return rig.all();
      };
      const std::vector<float> want = run(scalar.get());
      for (const auto& backend : backends) expect_same_numbers(want, run(backend.get()), op.name + ", " + backend->isa());
    }
  }
}

// ---- against the papers' formulas in double

double exact_softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }
double exact_silu(double x) { return x / (1 + std::exp(-x)); }

// The largest error, over the size of the results.
void expect_near(const std::vector<double>& want, const std::vector<float>& got, double bound, const std::string& what) {
  ASSERT_EQ(want.size(), got.size());
  double size = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    size = std::max(size, std::fabs(want[i]));
    error = std::max(error, std::fabs(want[i] - double{got[i]}));
  }
  EXPECT_LE(error, bound * size) << what;
}

constexpr uint32_t kTokens = 30;

TEST(Conv, WithinBoundOfFloat64) {
  Random random(13);
  constexpr uint32_t kChannels = 48, kTaps = 4, kIn = kChannels + 3;
  for (const bool bias : {false, true}) {
    for (const bool silu : {false, true}) {
      const StateOp op = conv_op(kChannels, kTaps, 1, 2, bias, silu, &random);
      const auto inputs = state_inputs(op, {kTokens}, &random);
      std::vector<double> want;
      for (uint32_t t = 0; t < kTokens; ++t) {
        for (uint32_t c = 0; c < kIn; ++c) {
          double sum = bias ? double{op.constants[kTaps * kChannels + c % kChannels]} : 0;
          for (uint32_t back = 0; back < kTaps && back <= t; ++back) {
            sum += double{op.constants[(kTaps - 1 - back) * kChannels + c % kChannels]} * inputs[0][(t - back) * kIn + c];
          }
          want.push_back(c >= kChannels ? double{inputs[0][t * kIn + c]} : silu ? exact_silu(sum) : sum);
        }
      }
      const auto backend = open_backend("scalar");
      StateRig rig(backend.get(), op, inputs, 1);
      rig.finish(7);
      expect_near(want, rig.out(0), 1e-6, op.name);
      const auto last = inputs[0].end() - (kTaps - 1) * kIn;
      std::vector<float> state;
      for (uint32_t i = 0; i < kTaps - 1; ++i) state.insert(state.end(), last + i * kIn, last + i * kIn + kChannels);
      EXPECT_SAME_BITS(state, rig.state(0, 2));
    }
  }
}

// State space duality: the recurrence as an attention with decays for a mask.
TEST(Scan, WithinBoundOfFloat64) {
  Random random(14);
  const ScanParams p{6, 16, 24, 2};
  const StateOp op = scan_op(p, 4, &random);
  const auto inputs = state_inputs(op, {kTokens}, &random);
  const uint32_t b_at = p.heads * p.head_dim, c_at = b_at + p.groups * p.state, dt_at = c_at + p.groups * p.state;
  const auto in = [&](uint32_t t, uint32_t i) { return double{inputs[0][t * op.in + i]}; };
  std::vector<double> want(kTokens * op.out), state(p.heads * p.state * p.head_dim);
  for (uint32_t h = 0; h < p.heads; ++h) {
    const uint32_t g = h / (p.heads / p.groups);
    const double a = op.constants[p.heads + h], skip = op.constants[2 * p.heads + h];
    const auto step = [&](uint32_t t) { return exact_softplus(in(t, dt_at + h) + op.constants[h]); };
    const auto decay = [&](uint32_t after, uint32_t to) {
      double sum = 0;
      for (uint32_t t = after + 1; t <= to; ++t) sum += step(t);
      return std::exp(a * sum);
    };
    for (uint32_t t = 0; t < kTokens; ++t) {
      for (uint32_t s = 0; s <= t; ++s) {
        double dot = 0;
        for (uint32_t n = 0; n < p.state; ++n) dot += in(t, c_at + g * p.state + n) * in(s, b_at + g * p.state + n);
        const double weight = dot * decay(s, t) * step(s);
        for (uint32_t d = 0; d < p.head_dim; ++d) want[t * op.out + h * p.head_dim + d] += weight * in(s, h * p.head_dim + d);
      }
      for (uint32_t d = 0; d < p.head_dim; ++d) want[t * op.out + h * p.head_dim + d] += skip * in(t, h * p.head_dim + d);
      for (uint32_t n = 0; n < p.state; ++n) {
        const double weight = decay(t, kTokens - 1) * step(t) * in(t, b_at + g * p.state + n);
        for (uint32_t d = 0; d < p.head_dim; ++d) state[(h * p.state + n) * p.head_dim + d] += weight * in(t, h * p.head_dim + d);
      }
    }
  }
  const auto backend = open_backend("scalar");
  StateRig rig(backend.get(), op, inputs, 1);
  rig.finish(9);
  expect_near(want, rig.out(0), 2e-6, op.name);
  expect_near(state, rig.state(0, 1), 2e-6, op.name + ", state");
}

// The paper's form: S_t = decay * S_t-1 (I - rate k k^T) + rate v k^T, out = S q, S [value][key].
void check_delta(DeltaParams p, Random* random) {
  const StateOp op = delta_op(p, 4, random);
  const auto inputs = state_inputs(op, {kTokens}, random);
  const uint32_t dim = p.key_dim, k_at = p.key_heads * dim, v_at = 2 * k_at, beta_at = v_at + p.heads * p.value_dim;
  const auto in = [&](uint32_t t, uint32_t i) { return double{inputs[0][t * op.in + i]}; };
  const auto unit = [&](uint32_t t, uint32_t at) {
    std::vector<double> x(dim);
    double squares = 1e-6;
    for (uint32_t i = 0; i < dim; ++i) squares += in(t, at + i) * in(t, at + i);
    for (uint32_t i = 0; i < dim; ++i) x[i] = in(t, at + i) / std::sqrt(squares);
    return x;
  };
  std::vector<double> want(kTokens * op.out), states;
  for (uint32_t h = 0; h < p.heads; ++h) {
    const uint32_t key = p.tiled ? h % p.key_heads : h / (p.heads / p.key_heads);
    std::vector<double> s(p.value_dim * dim);
    for (uint32_t t = 0; t < kTokens; ++t) {
      const auto q = unit(t, key * dim), k = unit(t, k_at + key * dim);
      const double rate = 1 / (1 + std::exp(-in(t, beta_at + h)));
      const double decay = std::exp(op.constants[p.heads + h] * exact_softplus(in(t, beta_at + p.heads + h) + op.constants[h]));
      for (uint32_t d = 0; d < p.value_dim; ++d) {
        double along = 0, out = 0;
        for (uint32_t n = 0; n < dim; ++n) along += s[d * dim + n] * k[n];
        for (uint32_t n = 0; n < dim; ++n) {
          double& cell = s[d * dim + n];
          cell = decay * (cell - rate * along * k[n]) + rate * in(t, v_at + h * p.value_dim + d) * k[n];
          out += cell * q[n] / std::sqrt(static_cast<double>(dim));
        }
        want[t * op.out + h * p.value_dim + d] = out;
      }
    }
    for (uint32_t n = 0; n < dim; ++n) {
      for (uint32_t d = 0; d < p.value_dim; ++d) states.push_back(s[d * dim + n]);
    }
  }
  const auto backend = open_backend("scalar");
  StateRig rig(backend.get(), op, inputs, 1);
  rig.finish(11);
  expect_near(want, rig.out(0), 3e-6, op.name);
  expect_near(states, rig.state(0, 0), 3e-6, op.name + ", state");
}
TEST(Delta, WithinBoundOfFloat64) {
  Random random(15);
  check_delta({6, 3, 32, 24}, &random);
  check_delta({6, 3, 16, 8, true}, &random);
}

// ---- rows

// Numbers of every size, a limit of softplus, and what is none.
std::vector<float> gate_inputs() {
  std::vector<float> x;
  for (float f = -110; f < 110; f += 0.37f) x.push_back(f);
  for (const float f : {20.0f, std::nextafter(20.0f, 21.0f), 1e30f, -1e30f, 1e-30f, 0.0f, -0.0f, HUGE_VALF, -HUGE_VALF}) x.push_back(f);
  x.push_back(std::bit_cast<float>(0x7fc00001u));
  return x;
}

TEST(Gates, BitEqualAndWithinBoundOfFloat64) {
  const std::vector<float> x = gate_inputs();
  const auto n = static_cast<uint32_t>(x.size());
  std::vector<float> bias(n, 0.0f), a(n, -0.5f), step(n), decay(n), rate(n), got(n), got_decay(n);
  scalar::decay_row(x.data(), bias.data(), a.data(), n, step.data(), decay.data());
  scalar::sigmoid_row(x.data(), n, rate.data());
  for (uint32_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(step[i]) && std::isnan(decay[i]) && std::isnan(rate[i]));
      continue;
    }
    if (std::isinf(x[i])) continue;
    EXPECT_NEAR(step[i], exact_softplus(x[i]), 4e-7 * std::fabs(exact_softplus(x[i])) + 1e-15) << x[i];
    EXPECT_NEAR(decay[i], std::exp(-0.5 * exact_softplus(x[i])), 4e-7) << x[i];
    EXPECT_NEAR(rate[i], 1 / (1 + std::exp(-double{x[i]})), 4e-7) << x[i];
  }
  for (const CpuKernels* kernels : vector_tables()) {
    for (uint32_t size = n; size + 20 > n; --size) {
      kernels->decay_row(x.data() + n - size, bias.data(), a.data(), size, got.data() + n - size, got_decay.data() + n - size);
      expect_same_numbers({step.end() - size, step.end()}, {got.end() - size, got.end()}, "step");
      expect_same_numbers({decay.end() - size, decay.end()}, {got_decay.end() - size, got_decay.end()}, "decay");
      kernels->sigmoid_row(x.data() + n - size, size, got.data() + n - size);
      expect_same_numbers({rate.end() - size, rate.end()}, {got.end() - size, got.end()}, "sigmoid");
    }
  }
}

// A coefficient above zero, which no model has, makes no state grow.
TEST(Gates, DecayIsAtMostOne) {
  const float x[] = {1, 50, 1e30f}, bias[3] = {}, a[] = {2, 100, 1e30f};
  for (const std::string& isa : all_isas()) {
    for (const CpuKernels* kernels : {scalar_kernels(), avx2_kernels(), avx512_kernels()}) {
      float step[3], decay[3];
      if (isa != kernels->isa) continue;
      kernels->decay_row(x, bias, a, 3, step, decay);
      for (const float d : decay) EXPECT_EQ(d, 1.0f) << isa;
    }
  }
}

TEST(Multiply, BitEqualAndTheFormula) {
  constexpr uint32_t kRows = 50, kWidth = 83, kXStride = 90, kYStride = 84, kOutStride = 100;
  Random random(16);
  const std::vector<float> x = random.floats(kRows * kXStride), y = random.floats(kRows * kYStride, 4.0f);
  for (const Gate gate : {Gate::kPlain, Gate::kSilu, Gate::kSigmoid}) {
    for (const bool in_place : {false, true}) {
      const uint32_t stride = in_place ? kXStride : kOutStride;
      std::vector<float> want = in_place ? x : std::vector<float>(kRows * kOutStride, 3.0f);
      const std::vector<float> start = want;
      for (uint32_t i = 0; i < kRows * kWidth; ++i) {
        const uint32_t row = i / kWidth, at = i % kWidth;
        const float a = x[row * kXStride + at], b = y[row * kYStride + at];
        float* to = &want[row * stride + at];
        float factor = b;
        if (gate == Gate::kSigmoid) scalar::sigmoid_row(&b, 1, &factor);
        *to = a * factor;
        if (gate == Gate::kSilu) scalar::silu_mul_row(&b, &a, 1, to);
        const double exact = gate == Gate::kPlain ? b : gate == Gate::kSilu ? exact_silu(b) : 1 / (1 + std::exp(-double{b}));
        EXPECT_NEAR(*to, a * exact, 4e-7 * std::fabs(a * std::max(1.0f, std::fabs(b))) + 1e-30);
      }
      for (const std::string& isa : all_isas()) {
        const auto b = open_backend(isa, 2);
        std::vector<float> got = start;
        b->run({}, [&] {
          b->multiply(gate, kRows, kWidth, in_place ? got.data() : x.data(), kXStride, y.data(), kYStride, got.data(), stride);
        });
        EXPECT_SAME_BITS(want, got) << isa << static_cast<int>(gate) << in_place;
      }
    }
  }
}

}  // namespace
}  // namespace kvrt::test
