// FpEnv: the floating-point environment of numeric code: round to nearest, denormals kept, no traps.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvrt {

// Sets the default environment for its lifetime and then gives the thread's own back: a host may run with FTZ and DAZ on.
class FpEnv {
 public:
#if defined(__x86_64__)
  FpEnv() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FpEnv() { _mm_setcsr(saved_); }

 private:
  static constexpr uint32_t kDefault = 0x1f80;  // MXCSR after reset
  uint32_t saved_;
#else
  FpEnv() = default;
#endif

 public:
  FpEnv(const FpEnv&) = delete;
  FpEnv& operator=(const FpEnv&) = delete;
};

}  // namespace kvrt
