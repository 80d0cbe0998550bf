// Sines and cosines of rotary positions. Computed in double by our own exp, log, sin and cos: the same bits on every machine.
#pragma once

#include <cstdint>
#include <vector>

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
  std::vector<float> frequency_factors{};  // [dims / 2] divisors of the frequencies (llama3, longrope), or empty
  bool operator==(const RopeParams&) const = default;
};

double rope_log(double x);  // x positive and normal
double rope_exp(double x);  // |x| ≤ 700
// |x| ≤ 2^26
void rope_sincos(double x, double* sin, double* cos);

// inv_freq[i] for i < dims / 2: base^(-2i / dims), scaled as the parameters say.
void rope_frequencies(const RopeParams& params, double* inv_freq);
// What sines and cosines are multiplied by.
double rope_amplitude(const RopeParams& params);

}  // namespace kvrt
