// Matmul on F16, BF16 and F32 panels over any Simd: one chain over K per output, rows in lanes. P panels x C columns at a time:
// enough chains to hide the latency of fma, few enough to stay in registers.
#pragma once

#include "runtime/compute/cpu/matmul.h"
#include "runtime/compute/cpu/plain_types.h"

namespace kvrt::simd {

// The distance of prefetches in a panel's stream, in bytes, and the columns of the widest tile.
inline constexpr uint32_t kPlainAhead = 6 << 10, kPlainColumns = 6;

// Vector v of the 16 rows of the p-th panel from `w` on.
template <typename S, typename T>
KVRT_INLINE typename S::F panel_vector(const MatmulArgs& args, const uint8_t* w, uint32_t p, uint32_t v) {
  return T::template load<S>(w + p * args.panel_bytes + S::kLanes * T::kBytes * v);
}

template <typename S, typename T, uint32_t P, uint32_t C>
void plain_tile(const MatmulArgs& args, uint32_t panel, uint32_t column) {
  using F = typename S::F;
  constexpr uint32_t kVectors = 16 / S::kLanes;
  const uint8_t* w = args.panels + panel * args.panel_bytes;
  const float* x[C];
  typename S::Lanes16 acc[P][C];
  KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
    x[c] = args.x + uint64_t{column + c} * args.k;
    KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) acc[p][c] = S::zero16();
  }
  for (uint32_t k = 0; k < args.k; ++k, w += kPanelRows * T::kBytes) {
    KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) prefetch(w + p * args.panel_bytes + kPlainAhead);
    if constexpr (C == 1) {  // no value serves twice
      const F xk = S::broadcast(x[0] + k);
      KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
        KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) acc[p][0].v[v] = S::fma(panel_vector<S, T>(args, w, p, v), xk, acc[p][0].v[v]);
      }
    } else {
      F values[P][kVectors];
      KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
        KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) values[p][v] = panel_vector<S, T>(args, w, p, v);
      }
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const F xk = S::broadcast(x[c] + k);
        KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
          KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) acc[p][c].v[v] = S::fma(values[p][v], xk, acc[p][c].v[v]);
        }
      }
    }
  }
  KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
    KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) store_column<S>(args, panel + p, column + c, acc[p][c]);
  }
}

// P panels against all columns: they are read from memory once and stay in the cache.
template <typename S, typename T, uint32_t P>
void plain_panels(const MatmulArgs& args, uint32_t panel, uint32_t column, uint32_t column_end) {
  for (; column + kPlainColumns <= column_end; column += kPlainColumns) plain_tile<S, T, P, kPlainColumns>(args, panel, column);
  const uint32_t rest = column_end - column;
  if (rest == 5) plain_tile<S, T, P, 5>(args, panel, column);
  if (rest == 4) plain_tile<S, T, P, 4>(args, panel, column);
  if (rest == 3) plain_tile<S, T, P, 3>(args, panel, column);
  if (rest == 2) plain_tile<S, T, P, 2>(args, panel, column);
  if (rest == 1) plain_tile<S, T, P, 1>(args, panel, column);
}

// A single column needs more panels at a time for as many chains; with 16 registers many columns leave room for one panel.
template <typename S, typename T>
void plain_matmul(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  uint32_t p = panel_begin;
  if constexpr (S::kRegisters == 32) {
    for (; p + 4 <= panel_end; p += 4) plain_panels<S, T, 4>(args, p, column_begin, column_end);
  } else if (column_end - column_begin == 1) {
    for (; p + 4 <= panel_end; p += 4) plain_tile<S, T, 4, 1>(args, p, column_begin);
  }
  for (; p < panel_end; ++p) plain_panels<S, T, 1>(args, p, column_begin, column_end);
}

}  // namespace kvrt::simd
