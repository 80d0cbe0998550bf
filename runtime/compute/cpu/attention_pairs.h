// The tiles of attention over int4, over any Simd: a cell has elements i and kInt4Group / 2 + i of its group, so that a load of 16 cells
// gives two runs of 16. A row's groups have scales of their own, so they multiply the elements, not the sums: exact in f32.
#pragma once

#include "runtime/compute/cpu/attention_tiles.h"

namespace kvrt::simd {

// Rows of a tile: what is left of the registers beside a group's elements.
template <typename S>
inline constexpr uint32_t kPairRows = S::kLanes == 16 ? 8 : 3;

// Of 16 cells, times the scales by(v) of their vectors.
template <typename S, typename By>
KVRT_INLINE void load_scaled(const uint8_t* at, By by, typename S::F* low, typename S::F* high) {
  S::load_pairs(at, low, high);
  KVRT_UNROLL for (uint32_t i = 0; i < 16 / S::kLanes; ++i) {
    low[i] = S::mul(low[i], by(i));
    high[i] = S::mul(high[i], by(i));
  }
}

// Scores of R rows (q: [dims][R] in the order of the cells, dims of whole groups) against V vectors of keys from 16 * slot on.
template <typename S, uint32_t R, uint32_t V>
KVRT_INLINE void score_pairs_tile(const float* q, uint32_t dims, const Keys& k, uint32_t slot, const Scores& scores) {
  using F = typename S::F;
  constexpr uint32_t kVectors = 16 / S::kLanes, kSlots = V / kVectors;
  const uint8_t *at[kSlots], *far[kSlots];
  KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) {
    at[i] = k.at[slot + i];
    far[i] = k.far[slot + i];
  }
  F acc[R][V];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) { KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::zero(); }
  const float *by = scores.key_scales + 16 * slot, *end = q + uint64_t{dims} * R;
  uint64_t d = 0, ahead = 0;
  for (; q < end; by += kSpanTokens) {
    F scale[V];
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) scale[v] = S::load(by + S::kLanes * v);
    for (const float* group = q + kInt4Group * R; q < group; q += 2 * R, d += k.line, ahead += 16) {
      if (ahead % 64 == 0) {
        KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) prefetch_far(far[i] + ahead);
      }
      F low[V], high[V];
      KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) {
        const auto own = [&](uint32_t v) __attribute__((always_inline)) { return scale[i * kVectors + v]; };
        load_scaled<S>(at[i] + d, own, low + i * kVectors, high + i * kVectors);
      }
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
        const F first = S::broadcast(q + r), second = S::broadcast(q + R + r);
        KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[r][v] = S::fma(second, high[v], S::fma(first, low[v], acc[r][v]));
      }
    }
  }
  put_scores<S, R, V>(slot, scores, nullptr, acc);
}

template <typename S, uint32_t R>
void score_pairs(const float* q, uint32_t dims, const Keys& k, uint32_t slots, const Scores& scores) {
  constexpr uint32_t kVectors = 16 / S::kLanes;
  uint32_t slot = 0;
  if constexpr (kVectors == 1 && R <= 4) {
    for (; slot + 4 <= slots; slot += 4) score_pairs_tile<S, R, 4>(q, dims, k, slot, scores);
  }
  for (; slot + 2 / kVectors <= slots; slot += 2 / kVectors) score_pairs_tile<S, R, 2>(q, dims, k, slot, scores);
  if constexpr (kVectors == 1) {
    if (slot < slots) score_pairs_tile<S, R, 1>(q, dims, k, slot, scores);
  }
}

// acc[r] += p[r][j] * v[j], G groups from the first on (kHalf: of the last one the low elements alone), keys in order.
template <typename S, uint32_t R, uint32_t G, bool kHalf>
KVRT_INLINE void value_pairs_tile(const float* p, const Values& values, uint32_t group, uint32_t v_dim, const float* scales, float* acc) {
  using F = typename S::F;
  constexpr uint32_t kVectors = 16 / S::kLanes, kAll = kHalf ? kVectors : 2 * kVectors * G;
  F sum[R][kAll];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < kAll; ++v) sum[r][v] = S::load(acc + uint64_t{r} * v_dim + S::kLanes * v);
  }
  const uint64_t at = uint64_t{group} * (kInt4Group / 2);
  scales += uint64_t{group} * kSpanTokens;
  for (uint32_t i = 0; i < values.n; ++i) {
    const uint8_t *line = values.runs[i].at + at, *far = values.runs[i].far + at;
    for (const float* end = p + values.runs[i].keys; p < end; ++p, ++scales, line += values.line, far += values.line) {
      if (at % 64 == 0) prefetch_far(far);
      KVRT_UNROLL for (uint32_t g = 0; g < G; ++g) {
        const F scale = S::broadcast(scales + g * kSpanTokens);
        F low[kVectors], high[kVectors];
        load_scaled<S>(
            line + g * (kInt4Group / 2), [scale](uint32_t) __attribute__((always_inline)) { return scale; }, low, high);
        KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
          const F weight = S::broadcast(p + r * kSpanTokens);
          F* to = sum[r] + g * 2 * kVectors;
          KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) to[v] = S::fma(weight, low[v], to[v]);
          if constexpr (!kHalf) {
            KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) to[kVectors + v] = S::fma(weight, high[v], to[kVectors + v]);
          }
        }
      }
    }
  }
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < kAll; ++v) S::store(acc + uint64_t{r} * v_dim + S::kLanes * v, sum[r][v]);
  }
}

// v_dim is a multiple of 16. scales: [group][kSpanTokens] from p's first key on.
template <typename S, uint32_t R>
void add_pairs(const float* p, const Values& values, uint32_t v_dim, const float* scales, float* acc) {
  uint32_t group = 0;
  const auto next = [&](uint32_t groups) __attribute__((always_inline)) {
    group += groups;
    acc += groups * kInt4Group;
  };
  if constexpr (R * 4 * (16 / S::kLanes) <= kTileAccumulators<S>) {
    for (; (group + 2) * kInt4Group <= v_dim; next(2)) value_pairs_tile<S, R, 2, false>(p, values, group, v_dim, scales, acc);
  }
  for (; (group + 1) * kInt4Group <= v_dim; next(1)) value_pairs_tile<S, R, 1, false>(p, values, group, v_dim, scales, acc);
  if (group * kInt4Group < v_dim) value_pairs_tile<S, R, 1, true>(p, values, group, v_dim, scales, acc);
}

// One function for each count of rows, 1 to kPairRows.
using PairValueFn = void (*)(const float*, const Values&, uint32_t, const float*, float*);
template <typename S>
constexpr ByRows<ScoreFn> pairs_by_rows() {
  if constexpr (kPairRows<S> == 3) {
    return {{nullptr, score_pairs<S, 1>, score_pairs<S, 2>, score_pairs<S, 3>}};
  } else {
    return {{nullptr, score_pairs<S, 1>, score_pairs<S, 2>, score_pairs<S, 3>, score_pairs<S, 4>, score_pairs<S, 5>, score_pairs<S, 6>,
             score_pairs<S, 7>, score_pairs<S, 8>}};
  }
}
template <typename S>
constexpr ByRows<PairValueFn> add_pairs_by_rows() {
  if constexpr (kPairRows<S> == 3) {
    return {{nullptr, add_pairs<S, 1>, add_pairs<S, 2>, add_pairs<S, 3>}};
  } else {
    return {{nullptr, add_pairs<S, 1>, add_pairs<S, 2>, add_pairs<S, 3>, add_pairs<S, 4>, add_pairs<S, 5>, add_pairs<S, 6>, add_pairs<S, 7>,
             add_pairs<S, 8>}};
  }
}
template <typename S>
inline constexpr ByRows<ScoreFn> kScorePairs = pairs_by_rows<S>();
template <typename S>
inline constexpr ByRows<PairValueFn> kAddPairs = add_pairs_by_rows<S>();

// Keys: dims dimensions, in the order of the cells, of 16 keys, to f32; a dimension's keys are `stride` apart from another's.
template <typename S>
KVRT_INLINE void widen_keys(const uint8_t* from, const uint8_t* far, uint64_t line, uint32_t dims, const float* scales, float* to,
                            uint32_t stride) {
  for (uint32_t i = 0; i < dims / 2; ++i, from += line, to += uint64_t{2} * stride) {
    const float* by = scales + uint64_t{i} / (kInt4Group / 2) * kSpanTokens;
    if (i % 4 == 0) prefetch_far(far + 16 * i);
    typename S::F low[16 / S::kLanes], high[16 / S::kLanes];
    load_scaled<S>(
        from, [by](uint32_t v) __attribute__((always_inline)) { return S::load(by + S::kLanes * v); }, low, high);
    KVRT_UNROLL for (uint32_t v = 0; v < 16 / S::kLanes; ++v) {
      S::store(to + S::kLanes * v, low[v]);
      S::store(to + stride + S::kLanes * v, high[v]);
    }
  }
}

// The rows of a run to f32, [keys][v_dim]; of the last group's elements those that there are.
template <typename S>
KVRT_INLINE void widen_values(const ValueRun& run, uint64_t line, uint32_t v_dim, const float* scales, float* to) {
  constexpr uint32_t kVectors = 16 / S::kLanes;
  const uint8_t *from = run.at, *far = run.far;
  for (uint32_t key = 0; key < run.keys; ++key, from += line, far += line, to += v_dim) {
    prefetch_far(far);
    for (uint32_t d = 0; d < v_dim; d += kInt4Group) {
      const typename S::F scale = S::broadcast(scales + uint64_t{d} / kInt4Group * kSpanTokens + key);
      alignas(64) float wide[kInt4Group];
      typename S::F low[kVectors], high[kVectors];
      load_scaled<S>(
          from + d / 2, [scale](uint32_t) __attribute__((always_inline)) { return scale; }, low, high);
      float* out = d + kInt4Group <= v_dim ? to + d : wide;
      KVRT_UNROLL for (uint32_t v = 0; v < kVectors; ++v) {
        S::store(out + S::kLanes * v, low[v]);
        S::store(out + 16 + S::kLanes * v, high[v]);
      }
      if (out == wide) __builtin_memcpy(to + d, wide, (v_dim - d) * sizeof(float));
    }
  }
}

}  // namespace kvrt::simd
