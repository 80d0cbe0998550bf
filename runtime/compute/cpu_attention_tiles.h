// The tiles of attention, over any Simd: R rows x V vectors of keys (q.k) or of head dimensions (p.v), all chains in registers.
#pragma once

#include "runtime/compute/cpu_plain_types.h"

namespace kvrt::simd {

// Accumulators of a tile: with them, a vector of each operand and room for the compiler, the registers are full.
template <typename S>
inline constexpr uint32_t kTileAccumulators = S::kRegisters * 3 / 4;

// K (or V) as keys per dimension (or dimensions per key) in lines of `line` bytes, and how far ahead to prefetch (0: not at all).
struct Lines {
  const uint8_t* at;
  uint64_t line;
  int64_t ahead;
};

// Where scores go (rows kSpanTokens apart), K's scales of these keys or null, and the scale of all.
struct Scores {
  float* to;
  const float* key_scales;
  float scale;
};

// What is read once, from far away, asks for the line that comes `ahead` bytes later; a copy in f32 lies in the cache.
template <typename T, uint32_t kBytes>
KVRT_INLINE void prefetch_line(const Lines& lines) {
  if (lines.ahead == 0) return;
  KVRT_UNROLL for (uint32_t b = 0; b < kBytes; b += 64) prefetch_far(lines.at + lines.ahead + b);
}

// acc[r][v] += x[r] * line[v], x[r] at x + r * kStride.
template <typename S, typename T, uint32_t R, uint32_t V>
KVRT_INLINE void multiply_add(const float* x, uint32_t stride, const uint8_t* line, typename S::F (&acc)[R][V]) {
  typename S::F held[R < V ? R : V];  // whichever side has fewer values stays in registers
  if constexpr (R < V) {
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) held[r] = S::broadcast(x + r * stride);
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
      const typename S::F value = T::template load<S>(line + S::kLanes * T::kBytes * v);
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) acc[r][v] = S::fma(held[r], value, acc[r][v]);
    }
  } else {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) held[v] = T::template load<S>(line + S::kLanes * T::kBytes * v);
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const typename S::F value = S::broadcast(x + r * stride);
      KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::fma(value, held[v], acc[r][v]);
    }
  }
}

// Scores of R rows (q: [head_dim][R]) against V vectors of keys: k.at points at the first key's slot, a line per dimension.
template <typename S, typename T, uint32_t R, uint32_t V>
KVRT_INLINE void score_tile(const float* q, uint32_t head_dim, Lines k, const Scores& scores, uint32_t j) {
  typename S::F acc[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) { KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::zero(); }
  for (const float* end = q + uint64_t{head_dim} * R; q < end; q += R, k.at += k.line) {
    prefetch_line<T, S::kLanes * V * T::kBytes>(k);
    multiply_add<S, T, R, V>(q, 1, k.at, acc);
  }
  const typename S::F scale = S::set1(scores.scale);
  KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
    const uint32_t at = j + S::kLanes * v;
    if (scores.key_scales != nullptr) {
      const typename S::F by = S::load(scores.key_scales + at);
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) acc[r][v] = S::mul(acc[r][v], by);
    }
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) S::store(scores.to + r * kSpanTokens + at, S::mul(acc[r][v], scale));
  }
}

// Scores of R rows against the first `keys` keys of a run of a multiple of 16 (more are computed; nobody reads them).
template <typename S, typename T, uint32_t R>
void score_rows(const float* q, uint32_t head_dim, Lines k, uint32_t keys, const Scores& scores) {
  constexpr uint32_t kLanes = S::kLanes;
  const uint32_t slots = (keys + 15) / 16 * 16;
  uint32_t j = 0;
  if constexpr (4 * R <= kTileAccumulators<S>) {
    for (; j + 4 * kLanes <= slots; j += 4 * kLanes, k.at += 4 * kLanes * T::kBytes) score_tile<S, T, R, 4>(q, head_dim, k, scores, j);
  }
  for (; j + 2 * kLanes <= slots; j += 2 * kLanes, k.at += 2 * kLanes * T::kBytes) score_tile<S, T, R, 2>(q, head_dim, k, scores, j);
  if constexpr (kLanes == 16) {
    if (j < slots) score_tile<S, T, R, 1>(q, head_dim, k, scores, j);
  }
}

// acc[r][0, kLanes V) += p[r][j] * v[j] for j < keys, in order; rows of p are kSpanTokens apart.
template <typename S, typename T, uint32_t R, uint32_t V>
KVRT_INLINE void value_tile(const float* p, Lines v, uint32_t keys, uint32_t head_dim, float* acc) {
  typename S::F sum[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t i = 0; i < V; ++i) sum[r][i] = S::load(acc + uint64_t{r} * head_dim + S::kLanes * i);
  }
  for (const float* end = p + keys; p < end; ++p, v.at += v.line) {
    prefetch_line<T, S::kLanes * V * T::kBytes>(v);
    multiply_add<S, T, R, V>(p, kSpanTokens, v.at, sum);
  }
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t i = 0; i < V; ++i) S::store(acc + uint64_t{r} * head_dim + S::kLanes * i, sum[r][i]);
  }
}

template <typename S, typename T, uint32_t R>
void add_values(const float* p, Lines v, uint32_t keys, uint32_t head_dim, float* acc) {
  constexpr uint32_t kLanes = S::kLanes;
  uint32_t d = 0;
  if constexpr (4 * R <= kTileAccumulators<S>) {
    for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes, v.at += 4 * kLanes * T::kBytes) {
      value_tile<S, T, R, 4>(p, v, keys, head_dim, acc + d);
    }
  }
  for (; d + 2 * kLanes <= head_dim; d += 2 * kLanes, v.at += 2 * kLanes * T::kBytes) {
    value_tile<S, T, R, 2>(p, v, keys, head_dim, acc + d);
  }
  if (d < head_dim) value_tile<S, T, R, 1>(p, v, keys, head_dim, acc + d);
}

// By rows, 1 to kTileAccumulators / 2.
using ScoreFn = void (*)(const float*, uint32_t, Lines, uint32_t, const Scores&);
using ValueFn = void (*)(const float*, Lines, uint32_t, uint32_t, float*);
template <typename Fn>
struct ByRows {
  Fn fn[13];
  KVRT_INLINE_MEMBER constexpr Fn operator[](uint32_t rows) const { return fn[rows]; }
};
template <typename S, typename T>
constexpr ByRows<ScoreFn> score_by_rows() {
  if constexpr (kTileAccumulators<S> < 24) {
    return {{nullptr, score_rows<S, T, 1>, score_rows<S, T, 2>, score_rows<S, T, 3>, score_rows<S, T, 4>, score_rows<S, T, 5>,
             score_rows<S, T, 6>}};
  } else {
    return {{nullptr, score_rows<S, T, 1>, score_rows<S, T, 2>, score_rows<S, T, 3>, score_rows<S, T, 4>, score_rows<S, T, 5>,
             score_rows<S, T, 6>, score_rows<S, T, 7>, score_rows<S, T, 8>, score_rows<S, T, 9>, score_rows<S, T, 10>, score_rows<S, T, 11>,
             score_rows<S, T, 12>}};
  }
}
template <typename S, typename T>
constexpr ByRows<ValueFn> values_by_rows() {
  if constexpr (kTileAccumulators<S> < 24) {
    return {{nullptr, add_values<S, T, 1>, add_values<S, T, 2>, add_values<S, T, 3>, add_values<S, T, 4>, add_values<S, T, 5>,
             add_values<S, T, 6>}};
  } else {
    return {{nullptr, add_values<S, T, 1>, add_values<S, T, 2>, add_values<S, T, 3>, add_values<S, T, 4>, add_values<S, T, 5>,
             add_values<S, T, 6>, add_values<S, T, 7>, add_values<S, T, 8>, add_values<S, T, 9>, add_values<S, T, 10>, add_values<S, T, 11>,
             add_values<S, T, 12>}};
  }
}
template <typename S, typename T>
inline constexpr ByRows<ScoreFn> kScoreRows = score_by_rows<S, T>();
template <typename S, typename T>
inline constexpr ByRows<ValueFn> kAddValues = values_by_rows<S, T>();

// `lines` lines of `n` elements (a multiple of kLanes) to f32, `stride` apart.
template <typename S, typename T>
KVRT_INLINE void widen(Lines from, uint32_t lines, uint32_t n, float* to, uint32_t stride) {
  for (uint32_t i = 0; i < lines; ++i, from.at += from.line, to += stride) {
    for (uint32_t j = 0; j < n; j += S::kLanes) {
      if (j * T::kBytes % 64 == 0) prefetch_far(from.at + from.ahead + j * T::kBytes);
      S::store(to + j, T::template load<S>(from.at + j * T::kBytes));
    }
  }
}

}  // namespace kvrt::simd
