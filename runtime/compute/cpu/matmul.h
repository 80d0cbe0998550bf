// Code that all matmul kernels share, for any Simd.
#pragma once

#include "runtime/compute/cpu/simd.h"

namespace kvrt::simd {

// Stores a column of one panel's 16 chains: bias after the chain, then the sum with the old value, each rounded once.
template <typename S>
KVRT_INLINE void store_column(const MatmulArgs& args, uint32_t panel, uint32_t column, typename S::Lanes16 chains) {
  const uint32_t first = panel * kPanelRows;
  const int rows = static_cast<int>(min_u32(args.rows - first, kPanelRows));
  float* out = args.out + column * args.out_stride + first;
  KVRT_UNROLL for (uint32_t i = 0; i < 16 / S::kLanes; ++i) {
    const uint32_t at = i * S::kLanes;
    const int n = rows - static_cast<int>(at);
    if (args.bias) chains.v[i] = S::add(chains.v[i], S::load_n(args.bias + first + at, n));
    if (args.accumulate) chains.v[i] = S::add(S::load_n(out + at, n), chains.v[i]);
    S::store_n(out + at, n, chains.v[i]);
  }
}

}  // namespace kvrt::simd
