#include "runtime/compute/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvrt {

double rope_exp(double x) {
  const double n = (x * 0x1.71547652b82fep+0 + kRopeRoundMagic) - kRopeRoundMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0;
  for (int i = 14; i >= 1; --i) p = 1.0 + p * r / i;  // Taylor: |r| ≤ 0.347, the next term is below 2^-60
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  return p * std::bit_cast<double>(exponent << 52);
}

namespace {

constexpr double kTwoPi = 6.283185307179586;

// The pair (not a whole number) that turns `rotations` times over the original context.
double pair_of(const RopeParams& p, double log_base, float rotations) {
  const double turns = static_cast<double>(p.original_context) / (static_cast<double>(rotations) * kTwoPi);
  return static_cast<double>(p.dims) * plain_log(turns) / (2.0 * log_base);
}

void put_turn(double angle, float* cos_at, float* sin_at) {
  double sin, cos;
  rope_sincos(angle, &sin, &cos);
  *cos_at = static_cast<float>(cos);
  *sin_at = static_cast<float>(sin);
}

}  // namespace

void rope_frequencies(const RopeParams& p, double* inv_freq) {
  const double log_base = plain_log(static_cast<double>(p.freq_base)), factor = static_cast<double>(p.factor);
  double low = 0, high = 0;  // yarn: pairs up to low keep their frequency, from high on it is divided, between them a ramp
  if (p.scaling == RopeScaling::kYarn) {
    low = pair_of(p, log_base, p.beta_fast), high = pair_of(p, log_base, p.beta_slow);
    if (p.whole_ramp) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, static_cast<double>(p.dims) - 1.0);
    if (low == high) high += 0.001;
  }
  for (uint32_t i = 0; i < p.dims / 2; ++i) {
    double f = rope_exp(-(2.0 * i / p.dims) * log_base);
    if (!p.frequency_factors.empty()) f = f / static_cast<double>(p.frequency_factors[i]);
    if (p.scaling == RopeScaling::kLinear) f = f / factor;
    if (p.scaling == RopeScaling::kYarn) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      f = f / factor * ramp + f * (1.0 - ramp);
    }
    inv_freq[i] = f;
  }
}

void rope_offsets(std::span<const double> inv_freq, float* out) {
  for (const double f : inv_freq) {
    for (uint32_t j = 0; j < kTurnTokens; ++j) put_turn(j * f, out + j, out + kTurnTokens + j);
    out += uint64_t{2} * kTurnTokens;
  }
}

void rope_turns(std::span<const double> inv_freq, uint32_t first, uint32_t end, float* out) {
  for (uint64_t span = first; span < end; ++span) {
    for (const double f : inv_freq) {
      put_turn(static_cast<double>(span * kTurnTokens) * f, out, out + 1);
      out += 2;
    }
  }
}

double rope_amplitude(const RopeParams& p) {
  const double given = static_cast<double>(p.attention_factor);
  return p.scaling == RopeScaling::kYarn && p.factor > 1 ? given * (1.0 + 0.1 * plain_log(static_cast<double>(p.factor))) : given;
}

}  // namespace kvrt
