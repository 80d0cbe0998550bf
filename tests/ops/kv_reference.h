// What K and V are stored as, written a second time from NUMERICS.md.
#pragma once

#include <bit>

#include "runtime/compute/step.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {

// The Walsh-Hadamard transform as its recursion has it: of the halves, then their sum and difference.
inline std::vector<float> hadamard(const std::vector<float>& x) {
  if (x.size() == 1) return x;
  const auto middle = x.begin() + static_cast<ptrdiff_t>(x.size() / 2);
  const std::vector<float> a = hadamard({x.begin(), middle}), b = hadamard({middle, x.end()});
  std::vector<float> out(x.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i], out[i + a.size()] = a[i] - b[i];
  return out;
}

inline uint32_t power_of_two_in(uint32_t n) { return n % 2 != 0 ? 1 : 2 * power_of_two_in(n / 2); }

inline double bf16(float f) {  // 8 bits of mantissa, fewer below 2^-126; ties to even
  int exponent = 0;
  std::frexp(double{f}, &exponent);
  const int unit = std::max(exponent - 8, -133);
  return std::ldexp(std::nearbyint(std::ldexp(double{f}, -unit)), unit);
}

// int8 as NUMERICS.md has it: the integers that a head becomes, and their scale.
inline std::vector<int8_t> int8_of(std::vector<float> x, bool key, float* scale) {
  const uint32_t n = power_of_two_in(static_cast<uint32_t>(x.size()));
  const float top = key || x.size() > 64 ? 127 : 63;
  for (uint32_t i = 0; key && i < x.size(); i += n) {
    const std::vector<float> run = hadamard({x.begin() + i, x.begin() + i + n});
    std::copy(run.begin(), run.end(), x.begin() + i);
  }
  float max = 0;
  for (const float f : x) max = std::fmax(max, std::fabs(f));
  *scale = f16_to_f32(f32_to_f16(std::fmin(max / top, 65504.0f)));
  std::vector<int8_t> q;
  for (const float f : x) {
    const float v = *scale > 0 ? f * (1 / *scale) : 0;
    q.push_back(static_cast<int8_t>(std::isnan(v) ? top : std::nearbyint(std::fmax(-top, std::fmin(top, v)))));
  }
  return q;
}

// A head of K or V as attention has to see it.
inline std::vector<double> as_stored(KvFormat format, const float* x, uint32_t n, bool key) {
  std::vector<double> out(n);
  if (format == KvFormat::kI8) {
    float scale;
    const std::vector<int8_t> q = int8_of({x, x + n}, key, &scale);
    const uint32_t dim = power_of_two_in(n);
    for (uint32_t i = 0; i < n; ++i) {
      if (!key) out[i] = q[i] * double{scale};
      for (uint32_t j = 0; key && j < dim; ++j) {  // the transform's inverse, from its matrix
        const int sign = std::popcount(i % dim & j) % 2 != 0 ? -1 : 1;
        out[i] += sign * q[i / dim * dim + j] * double{scale} / dim;
      }
    }
    return out;
  }
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = format == KvFormat::kF16 ? double{f16_to_f32(f32_to_f16(x[i]))} : format == KvFormat::kBF16 ? bf16(x[i]) : double{x[i]};
  }
  return out;
}

}  // namespace kvrt::test
