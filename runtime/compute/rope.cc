#include "runtime/compute/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvrt {
namespace {

// 1.5 * 2^52: adding and subtracting it rounds |x| < 2^51 to an integer, to nearest even.
constexpr double kRoundMagic = 6755399441055744.0;
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;  // the high part has 32 bits
// pi / 2 in three parts; a multiple below 2^26 of the first two (27 bits each) is exact.
constexpr double kPio2A = 0x1.921fb54000000p+0, kPio2B = 0x1.10b4610000000p-30, kPio2C = 0x1.a62633145c06ep-58;

}  // namespace

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(z), z = (m - 1) / (m + 1), |z| < 0.172.
double rope_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t e = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    e += 1;
  }
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;
  double p = 1.0 / 21.0;
  for (int n = 19; n >= 3; n -= 2) p = p * z2 + 1.0 / n;
  const double log_m = 2.0 * (z + z * (z2 * p));
  return static_cast<double>(e) * kLn2High + (static_cast<double>(e) * kLn2Low + log_m);
}

double rope_exp(double x) {
  const double n = (x * 0x1.71547652b82fep+0 + kRoundMagic) - kRoundMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0;
  for (int i = 14; i >= 1; --i) p = 1.0 + p * r / i;  // Taylor: |r| ≤ 0.347, the next term is below 2^-60
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  return p * std::bit_cast<double>(exponent << 52);
}

void rope_sincos(double x, double* sin, double* cos) {
  const double n = (x * 0x1.45f306dc9c883p-1 + kRoundMagic) - kRoundMagic;
  const double r = ((x - n * kPio2A) - n * kPio2B) - n * kPio2C;
  const double r2 = r * r;
  double s = 1.0, c = 1.0;  // Taylor, nested; |r| ≤ 0.786
  for (int i = 18; i >= 2; i -= 2) s = 1.0 - s * r2 / (i * (i + 1));
  s = s * r;
  for (int i = 19; i >= 1; i -= 2) c = 1.0 - c * r2 / (i * (i + 1));
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      *sin = s, *cos = c;
      break;
    case 1:
      *sin = c, *cos = -s;
      break;
    case 2:
      *sin = -s, *cos = -c;
      break;
    default:
      *sin = -c, *cos = s;
      break;
  }
}

namespace {

constexpr double kTwoPi = 6.283185307179586;

// The pair (not a whole number) that turns `rotations` times over the original context.
double pair_of(const RopeParams& p, double log_base, float rotations) {
  const double turns = static_cast<double>(p.original_context) / (static_cast<double>(rotations) * kTwoPi);
  return static_cast<double>(p.dims) * rope_log(turns) / (2.0 * log_base);
}

}  // namespace

void rope_frequencies(const RopeParams& p, double* inv_freq) {
  const double log_base = rope_log(static_cast<double>(p.freq_base)), factor = static_cast<double>(p.factor);
  double low = 0, high = 0;  // yarn: pairs up to low keep their frequency, from high on it is divided, between them a ramp
  if (p.scaling == RopeScaling::kYarn) {
    low = std::max(std::floor(pair_of(p, log_base, p.beta_fast)), 0.0);
    high = std::min(std::ceil(pair_of(p, log_base, p.beta_slow)), static_cast<double>(p.dims) - 1.0);
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

double rope_amplitude(const RopeParams& p) {
  const double given = static_cast<double>(p.attention_factor);
  return p.scaling == RopeScaling::kYarn && p.factor > 1 ? given * (1.0 + 0.1 * rope_log(static_cast<double>(p.factor))) : given;
}

}  // namespace kvrt
