// log in double by plain operations: the same bits on every machine, and on a device whose code is compiled without contracting products and
// sums.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define KVRT_HOST_DEVICE __host__ __device__
#else
#define KVRT_HOST_DEVICE
#endif

namespace kvrt {

inline constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;  // the high part has 32 bits

// x positive and normal. x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(z), z = (m - 1) / (m + 1), |z| < 0.172.
[[gnu::always_inline]] KVRT_HOST_DEVICE inline double plain_log(double x) {
  const auto bits = __builtin_bit_cast(uint64_t, x);
  int64_t e = static_cast<int64_t>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    e += 1;
  }
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;
  double p = 1.0 / 21.0;
  p = p * z2 + 1.0 / 19.0;
  p = p * z2 + 1.0 / 17.0;
  p = p * z2 + 1.0 / 15.0;
  p = p * z2 + 1.0 / 13.0;
  p = p * z2 + 1.0 / 11.0;
  p = p * z2 + 1.0 / 9.0;
  p = p * z2 + 1.0 / 7.0;
  p = p * z2 + 1.0 / 5.0;
  p = p * z2 + 1.0 / 3.0;
  const double log_m = 2.0 * (z + z * (z2 * p));
  return static_cast<double>(e) * kLn2High + (static_cast<double>(e) * kLn2Low + log_m);
}

}  // namespace kvrt
