// A (weight row, x row) pair of a quantized matmul: the terms of NUMERICS.md §3, in its order.
#pragma once

#include "cuda/kernels/matvec.h"

namespace kvrt::cuda {

// A block of 32 of a row of x, without its integers.
struct XScales {
  float d, s;
  int32_t sums[2];  // each half's
};

// What a type's terms need of them beside d.
template <DType type>
inline constexpr bool kNeedsS = Unit<type>::kMin && !Unit<type>::kHalves;
template <DType type>
inline constexpr bool kNeedsSums = (Unit<type>::kMin && Unit<type>::kHalves) || (!Unit<type>::kTable && Unit<type>::kFormat.zero != 0);

__device__ __forceinline__ void split_sums(uint32_t both, XScales* x) {
  x->sums[0] = static_cast<int16_t>(both);
  x->sums[1] = static_cast<int32_t>(both) >> 16;
}

// Those of a row's block, in a group of 1.
template <DType type>
__device__ __forceinline__ XScales x_scales(const MatvecRows& rows, uint32_t x, uint32_t block) {
  const uint32_t at = x * rows.row_blocks + block;
  XScales out{rows.d[at], 0, {0, 0}};
  if constexpr (kNeedsS<type>) out.s = rows.s[at];
  if constexpr (kNeedsSums<type>) split_sums(rows.sums[at], &out);
  return out;
}

// The blocks of two neighbours in a group, from one on.
template <DType type, uint32_t group>
struct XPair {
  const float *d, *s;
  const uint32_t* sums;

  __device__ __forceinline__ void begin(const MatvecRows& rows, uint32_t at) {  // at: of the first one's block, in blocks
    d = rows.d + at;
    s = rows.s + at;
    sums = rows.sums + at;
  }
  __device__ __forceinline__ void advance(uint32_t blocks) {
    d += group * blocks;
    s += group * blocks;
    sums += group * blocks;
  }
  __device__ __forceinline__ void scales(uint32_t i, XScales (&out)[2]) const {
    const float2 two = *reinterpret_cast<const float2*>(d + group * i);
    out[0] = {two.x, 0, {0, 0}};
    out[1] = {two.y, 0, {0, 0}};
    if constexpr (kNeedsS<type>) {
      const float2 both = *reinterpret_cast<const float2*>(s + group * i);
      out[0].s = both.x;
      out[1].s = both.y;
    }
    if constexpr (kNeedsSums<type>) {
      const uint2 both = *reinterpret_cast<const uint2*>(sums + group * i);
      split_sums(both.x, &out[0]);
      split_sums(both.y, &out[1]);
    }
  }
};

// The start of the sum of stored integers times q, so that it ends as the sum of W times q. Half 2: both halves.
template <DType type>
__device__ __forceinline__ int32_t first_sum(const XScales& x, uint32_t half) {
  using U = Unit<type>;
  if constexpr (U::kTable || U::kFormat.zero == 0) return 0;
  return -static_cast<int32_t>(U::kFormat.zero) * (half == 2 ? x.sums[0] + x.sums[1] : x.sums[half]);
}

// Adds the next one or two terms of a chain. Without halves the sum is isum0 alone.
template <DType type>
__device__ __forceinline__ float add_block(const RowScales& w, const XScales& x, int32_t isum0, int32_t isum1, float acc) {
  using U = Unit<type>;
  const int32_t isum = U::kHalves ? w.half_scale[0] * isum0 + w.half_scale[1] * isum1 : isum0;
  acc = fmaf(static_cast<float>(isum), w.scale * x.d, acc);
  if constexpr (U::kMin && !U::kHalves) acc = fmaf(w.minimum, x.s, acc);
  if constexpr (U::kMin && U::kHalves) {
    const int32_t msum = w.half_minimum[0] * x.sums[0] + w.half_minimum[1] * x.sums[1];
    acc = fmaf(static_cast<float>(msum), w.minimum * x.d, acc);
  }
  return acc;
}

}  // namespace kvrt::cuda
