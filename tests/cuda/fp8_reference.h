// The right e4m3 rows (cuda/NUMERICS.md §3), from the numbers' definition, in double; and the bound of their product.
#pragma once

#include "tests/cuda/matmul_reference.h"

namespace kvrt::test {

// The number of a code, by its sign, exponent and fraction; not for the NaN's.
inline double e4m3_number(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
  const double magnitude = exponent == 0 ? fraction * 0x1p-9 : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// The nearest, of two as near the even code; 448 for all beyond; NaN for NaN.
inline uint8_t to_e4m3(double x) {
  const uint32_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return static_cast<uint8_t>(sign | 0x7f);
  const double magnitude = std::fabs(x);
  uint32_t above = 0;
  while (above < 126 && e4m3_number(above) < magnitude) ++above;
  if (above == 0 || magnitude >= 448) return static_cast<uint8_t>(sign | above);
  const double up = e4m3_number(above) - magnitude, down = magnitude - e4m3_number(above - 1);
  const uint32_t code = up < down || (up == down && above % 2 == 0) ? above : above - 1;
  return static_cast<uint8_t>(sign | code);
}

struct E4m3Rows {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  double number(size_t at, uint32_t cols) const { return e4m3_number(codes[at]) * scales[at / cols]; }
};

// A row's scale is the smallest power of two, of 2^-100 and above, that leaves nothing beyond 448; NaN do not count, infinities as the largest f32.
inline E4m3Rows e4m3_rows_of(const std::vector<float>& x, uint32_t cols) {
  E4m3Rows out;
  for (size_t row = 0; row < x.size() / cols; ++row) {
    double largest = 0;
    for (size_t i = row * cols; i < (row + 1) * cols; ++i) {
      if (!std::isnan(x[i])) largest = std::max(largest, std::min<double>(std::fabs(x[i]), std::numeric_limits<float>::max()));
    }
    int exponent = -100;
    while (std::ldexp(448.0, exponent) < largest) ++exponent;
    out.scales.push_back(std::ldexp(1.0f, exponent));
    for (size_t i = row * cols; i < (row + 1) * cols; ++i) out.codes.push_back(to_e4m3(std::ldexp(double{x[i]}, -exponent)));
  }
  return out;
}

// The bound of the e4m3 numbers' own product. A device's tensor cores keep fewer bits of a sum of FP8 products than f32 has: they shift the 32
// products of a step and the sum so far to the exponent of the largest and cut them off, after 13 bits as an H100 shows it; NVIDIA does not
// document it.
inline double fp8_bound(const Product& product) {
#ifdef KVRT_CUDA_EMULATION
  return 2 * product.bound();
#else
  return std::ceil(product.terms / 32) * 33 * 0x1p-13 * product.largest + 2 * product.bound();
#endif
}

}  // namespace kvrt::test
