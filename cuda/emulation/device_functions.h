// The functions that cuda/kernels/device.h calls in place of a device's own operations.
#pragma once

#include <cstdint>

#include "runtime/compute/quant/quants.h"

namespace kvrt::emulation {

uint8_t* dynamic_shared();  // the running block's; aligned to 16

inline float f16_to_float(uint16_t h) { return f16_to_f32(h); }
inline uint16_t float_to_f16(float f) { return f32_to_f16(f); }
inline uint16_t float_to_bf16(float f) { return f32_to_bf16(f); }

// sum += a · b of four signed bytes each; wraps.
inline int32_t dot4(int32_t a, int32_t b, int32_t sum) {
  int32_t dot = 0;
  for (int i = 0; i < 32; i += 8) dot += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(dot));
}

// d += a · b for the whole warp, whose lanes' fragments cuda/kernels/device.h describes; each output is one chain of fma, K ascending.
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool bf16);
// Likewise for signed bytes, exact: a[0], a[1] rows g and g + 8 of cols 4t .. 4t + 3, b rows 4t .. 4t + 3 of column g. One collective.
void mma_s8_16x8x16(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b);

// Copies 16 bytes to shared memory for the current thread: they come at the wait that covers them, and until then all bits there are ones.
// After the wait all groups except the last `left` have come.
void copy_async(void* shared, const void* global);
void copy_async_commit();
void copy_async_wait(uint32_t left);

}  // namespace kvrt::emulation
