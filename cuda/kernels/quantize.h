// RMSNorm (runtime/compute/NUMERICS.md §4) and quantization (§2) of a row: the CPU's operations in the CPU's order, for the kernels of
// quantize.cu and for a matvec that makes its own rows.
#pragma once

#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {

inline constexpr uint32_t kQuantizeWidth = 4;  // elements that a thread takes at a time; 8 lanes have a block of 32

// Adds the squares of n elements to the sums of 16 virtual lanes, by a whole warp: lanes i and i + 16 do the same. n is a multiple of 16,
// except at the end of a row. The chains are serial: kAhead loads are under way while as many are added.
template <uint32_t kAhead>
__device__ __forceinline__ float add_squares(const float* x, uint32_t n, float lane) {
  constexpr uint32_t kLanes = 16;
  const auto load = [&](uint32_t i, float(&to)[kAhead]) {
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) to[j] = i + kLanes * j < n ? x[i + kLanes * j] : 0.0f;  // fma(0, 0, sum) is the sum
  };
  float now[kAhead];
  load(threadIdx.x % kLanes, now);
  for (uint32_t i = threadIdx.x % kLanes; i < n; i += kAhead * kLanes) {
    float next[kAhead];
    load(i + kAhead * kLanes, next);
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) lane = fmaf(now[j], now[j], lane);
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) now[j] = next[j];
  }
  return lane;
}

// 1 / rms of a row of n elements, from each lane's sum of squares.
__device__ __forceinline__ float rms_scale(float lane, uint32_t n, float eps) {
  const float mean = warp_sum(lane, 16) / static_cast<float>(n);
  return 1.0f / sqrtf(mean + eps);
}

// 1 / rms of a row, for a whole block.
__device__ __forceinline__ float norm_scale(const float* x, float eps, uint32_t cols, float* shared) {
  if (threadIdx.x < kWarp) {
    const float scale = rms_scale(add_squares<16>(x, cols, 0.0f), cols, eps);  // the other warps bring the row into the L1 cache
    if (threadIdx.x == 0) *shared = scale;
  }
  __syncthreads();
  return *shared;
}

// The places of row `row`, with `blocks` blocks of 32. Each block is `group` blocks behind the one before.
struct QuantRow {
  int8_t* q;
  float *d, *s;
  int16_t* sums;
  uint32_t group;

  __device__ __forceinline__ QuantRow(const DeviceQuantRows& rows, uint32_t group_of_rows, uint32_t blocks, uint32_t row)
      : group(group_of_rows) {
    const uint32_t in_group = row & (group - 1);
    const uint64_t at = uint64_t{row - in_group} * blocks + in_group;
    q = rows.q + at * kQuantBlock, d = rows.d + at, s = rows.s + at, sums = rows.sums + at * 2;
  }
};

// Quantizes the lane's four elements, from column `at` on, of the block of 32 that its 8 lanes have. For a whole warp.
__device__ __forceinline__ void quantize_four(const float (&v)[kQuantizeWidth], uint32_t at, bool store, const QuantRow& out) {
  float a = 0;
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < kQuantizeWidth; ++i) a = fmaxf(a, fabsf(v[i]));  // a NaN is passed over
  a = warp_max(a, 8);
  const float inverse = a > 0 ? 127.0f / a : 0.0f, magic = 12582912.0f;
  uint32_t word = 0;
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < kQuantizeWidth; ++i) {
    float q = v[i] * inverse;
    q = q < 127.0f ? q : 127.0f;  // in this order a NaN becomes 127
    q = q > -127.0f ? q : -127.0f;
    word |= (__float_as_uint(q + magic) & 0xff) << 8 * i;  // to nearest, ties to even: the lowest bits of the sum
  }
  int32_t half = dot4(static_cast<int32_t>(word), 0x01010101, 0);
  half += __shfl_xor_sync(kFullWarp, half, 1);
  half += __shfl_xor_sync(kFullWarp, half, 2);
  const int32_t other = __shfl_xor_sync(kFullWarp, half, 4);
  if (!store) return;
  const uint32_t block = at / kQuantBlock * out.group, in_block = at % kQuantBlock;
  *reinterpret_cast<uint32_t*>(out.q + block * kQuantBlock + in_block) = word;
  if (at % 16 == 0) out.sums[2 * block + in_block / 16] = static_cast<int16_t>(half);
  if (in_block == 0) {
    const float d = a / 127.0f;
    out.d[block] = d;
    out.s[block] = d * static_cast<float>(half + other);
  }
}

}  // namespace kvrt::cuda
