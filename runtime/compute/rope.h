// Sines and cosines of rotary positions. Computed in double by our own exp, log, sin and cos: the same bits on every machine, and on a
// device whose code is compiled without contracting products and sums.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/compute/natural_log.h"

namespace kvrt {

enum class RopeStyle : uint32_t { kInterleaved, kHalves };  // pairs (2i, 2i+1) as in GGUF's llama, or (i, i + dims/2) as in neox
enum class RopeScaling : uint32_t { kNone, kLinear, kYarn };

struct RopeParams {
  RopeStyle style = RopeStyle::kInterleaved;
  uint32_t dims = 0;  // rotated dimensions, even, ≤ head_dim
  float freq_base = 10000.0f;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;                     // linear, yarn: how much longer contexts may become
  float original_context = 0;              // yarn: the context before
  float beta_fast = 32, beta_slow = 1;     // yarn: rotations over it from which on a frequency stays, below which it is divided
  float attention_factor = 1.0f;           // sines and cosines times this (yarn, longrope)
  bool whole_ramp = true;                  // yarn: the first and the last pair of the ramp are whole numbers
  std::vector<float> frequency_factors{};  // [dims / 2] divisors of the frequencies (llama3, longrope), or empty
  bool operator==(const RopeParams&) const = default;
};

// Q grows with its position, so that attention stays as sharp over more tokens: times 1 + scale * log(1 + floor(position / length)).
struct Temperature {
  float scale = 0;  // 0: it does not
  uint32_t length = 1;
};

// In double, rounded once.
[[gnu::always_inline]] KVRT_HOST_DEVICE inline float temperature_at(const Temperature& t, int32_t position) {
  const double turns = static_cast<double>(static_cast<uint32_t>(position) / t.length);
  return static_cast<float>(1.0 + static_cast<double>(t.scale) * plain_log(1.0 + turns));
}

double rope_exp(double x);  // |x| ≤ 700

// 1.5 * 2^52: adding and subtracting it rounds |x| < 2^51 to an integer, to nearest even.
inline constexpr double kRopeRoundMagic = 6755399441055744.0;

// |x| ≤ 2^26
[[gnu::always_inline]] KVRT_HOST_DEVICE inline void rope_sincos(double x, double* sin, double* cos) {
  // pi / 2 in three parts; a multiple below 2^26 of the first two (27 bits each) is exact.
  constexpr double kPio2A = 0x1.921fb54000000p+0, kPio2B = 0x1.10b4610000000p-30, kPio2C = 0x1.a62633145c06ep-58;
  const double n = (x * 0x1.45f306dc9c883p-1 + kRopeRoundMagic) - kRopeRoundMagic;
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

// inv_freq[i] for i < dims / 2: base^(-2i / dims), scaled as the parameters say.
void rope_frequencies(const RopeParams& params, double* inv_freq);
// The factor of all sines and cosines.
double rope_amplitude(const RopeParams& params);

// Tables that turn a part of K's bias by any position (NUMERICS.md §7): first by that of its span of kTurnTokens, then by the rest. Cosines
// and sines without the amplitude, of the pairs that inv_freq has, in double and rounded once.
inline constexpr uint32_t kTurnTokens = 512;
void rope_offsets(std::span<const double> inv_freq, float* out);  // [pairs][2][kTurnTokens]: of each position in a span
// [end - first][pairs][2]: of the first positions of the spans [first, end).
void rope_turns(std::span<const double> inv_freq, uint32_t first, uint32_t end, float* out);

}  // namespace kvrt
