// The tiles of attention, over any Simd: R rows x V vectors of keys (q.k) or of head dimensions (p.v), all chains in registers.
#pragma once

#include "runtime/compute/cpu/plain_types.h"

namespace kvrt::simd {

// Accumulators of a tile: with them, a vector of each operand and room for the compiler, the registers are full.
template <typename S>
inline constexpr uint32_t kTileAccumulators = S::kRegisters * 3 / 4;

// K in its place: `at` has the first dimension of each 16 successive keys; one dimension's keys follow another's after `line` bytes.
// far: as many bytes of keys that come later, one after the other, to prefetch.
struct Keys {
  const uint8_t* const* at;
  const uint8_t* const* far;
  uint64_t line;
};

// V in its place: `at` has the dimensions of the first of some successive keys, `far` those of keys that come later.
struct ValueRun {
  const uint8_t *at, *far;
  uint32_t keys;
};
struct Values {
  const ValueRun* runs;
  uint32_t n;
  uint64_t line;  // bytes from one key to the next
};

// The place of the scores (rows kSpanTokens apart), K's scales of these keys or null (int4: [group][kSpanTokens]), and the scale of all.
struct Scores {
  float* to;
  const float* key_scales;
  float scale;
};

// A piece of K or V that was copied, and so lies in the cache.
struct Copied : PlainF32 {};

// Prefetches bytes that come later: K and V are read once and from far away. A copy needs no prefetch.
template <typename T, uint32_t kBytes>
KVRT_INLINE void prefetch_lines(const uint8_t* at) {
  if constexpr (!__is_same(T, Copied)) {
    KVRT_UNROLL for (uint32_t b = 0; b < kBytes; b += 64) prefetch_far(at + b);
  }
}

// acc[r][v] += x[r * stride] * (vector v at from(v)). Whichever side has fewer values stays in registers.
template <typename S, typename T, uint32_t R, uint32_t V, typename From>
KVRT_INLINE void multiply_add(const float* x, uint32_t stride, From from, typename S::F (&acc)[R][V]) {
  typename S::F held[R < V ? R : V];
  if constexpr (R < V) {
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) held[r] = S::broadcast(x + r * stride);
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
      const typename S::F value = T::template load<S>(from(v));
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) acc[r][v] = S::fma(held[r], value, acc[r][v]);
    }
  } else {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) held[v] = T::template load<S>(from(v));
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const typename S::F value = S::broadcast(x + r * stride);
      KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::fma(value, held[v], acc[r][v]);
    }
  }
}

// Scores of R rows (q: [k_dim][R]) against V vectors of keys from 16 * slot on.
template <typename S, typename T, uint32_t R, uint32_t V>
KVRT_INLINE void score_tile(const float* q, uint32_t k_dim, const Keys& k, uint32_t slot, const Scores& scores) {
  constexpr uint32_t kVectors = 16 / S::kLanes, kSlots = V / kVectors;
  const uint8_t *at[kSlots], *far[kSlots];
  KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) {
    at[i] = k.at[slot + i];
    far[i] = k.far[slot + i];
  }
  typename S::F acc[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) { KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::zero(); }
  uint64_t d = 0, ahead = 0;
  for (const float* end = q + uint64_t{k_dim} * R; q < end; q += R, d += k.line, ahead += 16 * T::kBytes) {
    if (ahead % 64 == 0) {
      KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) prefetch_lines<T, 1>(far[i] + ahead);
    }
    const auto from = [&](uint32_t v) __attribute__((always_inline)) {
      return at[v / kVectors] + d + v % kVectors * S::kLanes * T::kBytes;
    };
    multiply_add<S, T, R, V>(q, 1, from, acc);
  }
  const typename S::F scale = S::set1(scores.scale);
  KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
    const uint32_t j = 16 * slot + S::kLanes * v;
    if (scores.key_scales != nullptr) {
      const typename S::F by = S::load(scores.key_scales + j);
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) acc[r][v] = S::mul(acc[r][v], by);
    }
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) S::store(scores.to + r * kSpanTokens + j, S::mul(acc[r][v], scale));
  }
}

// Scores of R rows against 16 * slots keys.
template <typename S, typename T, uint32_t R>
void score_rows(const float* q, uint32_t k_dim, const Keys& k, uint32_t slots, const Scores& scores) {
  constexpr uint32_t kVectors = 16 / S::kLanes;
  uint32_t slot = 0;
  if constexpr (4 * R <= kTileAccumulators<S>) {
    for (; slot + 4 / kVectors <= slots; slot += 4 / kVectors) score_tile<S, T, R, 4>(q, k_dim, k, slot, scores);
  }
  for (; slot + 2 / kVectors <= slots; slot += 2 / kVectors) score_tile<S, T, R, 2>(q, k_dim, k, slot, scores);
  if constexpr (kVectors == 1) {
    if (slot < slots) score_tile<S, T, R, 1>(q, k_dim, k, slot, scores);
  }
}

// Adds what a bias gives to the scores of R rows (q: [pairs][2][R]) for keys [from, end): V vectors of them at a time. lines: a pair's cosines, its sines after them.
template <typename S, uint32_t R, uint32_t V>
KVRT_INLINE void bias_tile(const float* q, uint32_t pairs, const float* const* lines, uint32_t j, float* to) {
  typename S::F acc[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::load(to + r * kSpanTokens + j + S::kLanes * v);
  }
  for (uint32_t i = 0; i < pairs; ++i, q += 2 * R) {
    const auto cosines = [at = lines[i] + j](uint32_t v) __attribute__((always_inline)) {
      return reinterpret_cast<const uint8_t*>(at + S::kLanes * v);
    };
    const auto sines = [at = lines[i] + kSpanTokens + j](uint32_t v) __attribute__((always_inline)) {
      return reinterpret_cast<const uint8_t*>(at + S::kLanes * v);
    };
    multiply_add<S, Copied, R, V>(q, 1, cosines, acc);
    multiply_add<S, Copied, R, V>(q + R, 1, sines, acc);
  }
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) S::store(to + r * kSpanTokens + j + S::kLanes * v, acc[r][v]);
  }
}
template <typename S, uint32_t R>
void score_bias(const float* q, uint32_t pairs, const float* const* lines, uint32_t from, uint32_t end, float* to) {
  if constexpr (4 * R <= kTileAccumulators<S>) {
    for (; from + 4 * S::kLanes <= end; from += 4 * S::kLanes) bias_tile<S, R, 4>(q, pairs, lines, from, to);
  }
  for (; from < end && from + 2 * S::kLanes <= kSpanTokens; from += 2 * S::kLanes) bias_tile<S, R, 2>(q, pairs, lines, from, to);
  if (from < end) bias_tile<S, R, 1>(q, pairs, lines, from, to);
}

// acc[r][0, kLanes V) += p[r][j] * v[j], dimensions from `at` bytes on, keys in order; rows of p are kSpanTokens apart.
template <typename S, typename T, uint32_t R, uint32_t V>
KVRT_INLINE void value_tile(const float* p, const Values& values, uint64_t at, uint32_t v_dim, float* acc) {
  typename S::F sum[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) sum[r][v] = S::load(acc + uint64_t{r} * v_dim + S::kLanes * v);
  }
  for (uint32_t i = 0; i < values.n; ++i) {
    const uint8_t *line = values.runs[i].at + at, *far = values.runs[i].far + at;
    for (const float* end = p + values.runs[i].keys; p < end; ++p, line += values.line, far += values.line) {
      if (S::kLanes * V * T::kBytes >= 64 || at % 64 == 0) prefetch_lines<T, S::kLanes * V * T::kBytes>(far);
      const auto from = [&](uint32_t v) __attribute__((always_inline)) { return line + S::kLanes * T::kBytes * v; };
      multiply_add<S, T, R, V>(p, kSpanTokens, from, sum);
    }
  }
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) S::store(acc + uint64_t{r} * v_dim + S::kLanes * v, sum[r][v]);
  }
}

template <typename S, typename T, uint32_t R>
void add_values(const float* p, const Values& values, uint32_t v_dim, float* acc) {
  constexpr uint32_t kLanes = S::kLanes;
  uint32_t d = 0;
  if constexpr (4 * R <= kTileAccumulators<S>) {
    for (; d + 4 * kLanes <= v_dim; d += 4 * kLanes) value_tile<S, T, R, 4>(p, values, d * T::kBytes, v_dim, acc + d);
  }
  for (; d + 2 * kLanes <= v_dim; d += 2 * kLanes) value_tile<S, T, R, 2>(p, values, d * T::kBytes, v_dim, acc + d);
  if (d < v_dim) value_tile<S, T, R, 1>(p, values, d * T::kBytes, v_dim, acc + d);
}

// One function for each count of rows, 1 to kTileAccumulators / 2.
using ScoreFn = void (*)(const float*, uint32_t, const Keys&, uint32_t, const Scores&);
using ValueFn = void (*)(const float*, const Values&, uint32_t, float*);
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
using BiasFn = void (*)(const float*, uint32_t, const float* const*, uint32_t, uint32_t, float*);
template <typename S>
constexpr ByRows<BiasFn> bias_by_rows() {
  if constexpr (kTileAccumulators<S> < 24) {
    return {{nullptr, score_bias<S, 1>, score_bias<S, 2>, score_bias<S, 3>, score_bias<S, 4>, score_bias<S, 5>, score_bias<S, 6>}};
  } else {
    return {{nullptr, score_bias<S, 1>, score_bias<S, 2>, score_bias<S, 3>, score_bias<S, 4>, score_bias<S, 5>, score_bias<S, 6>,
             score_bias<S, 7>, score_bias<S, 8>, score_bias<S, 9>, score_bias<S, 10>, score_bias<S, 11>, score_bias<S, 12>}};
  }
}
template <typename S, typename T>
inline constexpr ByRows<ScoreFn> kScoreRows = score_by_rows<S, T>();
template <typename S>
inline constexpr ByRows<BiasFn> kScoreBias = bias_by_rows<S>();
template <typename S, typename T>
inline constexpr ByRows<ValueFn> kAddValues = values_by_rows<S, T>();

// `n` elements (a multiple of kLanes) of each of `lines` lines to f32, `stride` apart.
template <typename S, typename T>
KVRT_INLINE void widen(const uint8_t* from, const uint8_t* far, uint64_t line, uint32_t lines, uint32_t n, float* to, uint32_t stride) {
  uint32_t ahead = 0;
  for (uint32_t i = 0; i < lines; ++i, from += line, to += stride) {
    for (uint32_t j = 0; j < n; j += S::kLanes, ahead += S::kLanes * T::kBytes) {
      if (ahead % 64 == 0) prefetch_far(far + ahead);
      S::store(to + j, T::template load<S>(from + j * T::kBytes));
    }
  }
}

}  // namespace kvrt::simd
