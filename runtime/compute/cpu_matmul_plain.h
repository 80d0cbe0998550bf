// Matmul on F16, BF16 and F32 panels over any Simd: one chain over K per output, rows in lanes. P panels x C columns are P C chains
// of 16 rows at a time: enough of them to hide the latency of fma, few enough to stay in registers.
#pragma once

#include "runtime/compute/cpu_matmul.h"
#include "runtime/compute/cpu_plain_types.h"

namespace kvrt::simd {

// A panel's rows [16][k] from its bytes [k][16]: `at`, one panel every `panel_bytes`.
struct PlainPanels {
  const uint8_t* at;
  uint64_t panel_bytes;
  uint32_t k;
};

// The chains of P panels x C columns, going on from what is in `chains`. x: [C] rows of stride x_stride.
template <typename S, typename T, uint32_t P, uint32_t C, bool kStream>
KVRT_INLINE void plain_chains(const PlainPanels& w, const float* x, uint64_t x_stride, typename S::Lanes16 (&acc)[P][C]) {
  constexpr uint32_t kVectors = 16 / S::kLanes, kAhead = 6 << 10;
  const uint8_t* at = w.at;
  for (uint32_t k = 0; k < w.k; ++k, at += kPanelRows * T::kBytes) {
    KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
      const uint8_t* line = at + p * w.panel_bytes;
      if (kStream) prefetch(line + kAhead);
      typename S::F values[kVectors];
      KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) values[v] = T::template load<S>(line + S::kLanes * T::kBytes * v);
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const typename S::F xk = S::broadcast(x + c * x_stride + k);
        KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) acc[p][c].v[v] = S::fma(values[v], xk, acc[p][c].v[v]);
      }
    }
  }
}

template <typename S, typename T, uint32_t P, uint32_t C>
void plain_tile(const MatmulArgs& args, uint32_t panel, uint32_t column) {
  typename S::Lanes16 acc[P][C];
  KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) { KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) acc[p][c] = S::zero16(); }
  const PlainPanels w{args.panels + panel * args.panel_bytes, args.panel_bytes, args.k};
  plain_chains<S, T, P, C, true>(w, args.x + uint64_t{column} * args.k, args.k, acc);
  KVRT_UNROLL for (uint32_t p = 0; p < P; ++p) {
    KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) store_column<S>(args, panel + p, column + c, acc[p][c]);
  }
}

template <typename S, typename T>
void plain_matmul(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  uint32_t p = panel_begin;
  if (column_end - column_begin == 1) {
    for (; p + 4 <= panel_end; p += 4) plain_tile<S, T, 4, 1>(args, p, column_begin);
  }
  for (; p < panel_end; ++p) {
    uint32_t c = column_begin;
    for (; c + 5 <= column_end; c += 5) plain_tile<S, T, 1, 5>(args, p, c);
    for (; c + 2 <= column_end; c += 2) plain_tile<S, T, 1, 2>(args, p, c);
    if (c < column_end) plain_tile<S, T, 1, 1>(args, p, c);
  }
}

}  // namespace kvrt::simd
