// The tiles of attention over int4, over any Simd. A cell has elements i and kInt4Group / 2 + i of its group, so that a load of 16 cells gives
// two runs of 16. A row has a scale for each group: it multiplies the group's part of a score, and the weights of the group's values. A
// decode reads cells; a prefill reads their elements from a copy in f32, whose lines are in the order of the cells.
#pragma once

#include "runtime/compute/cpu/attention_tiles.h"

namespace kvrt::simd {

// Rows of a tile over cells: what is left of the registers beside their elements.
template <typename S>
inline constexpr uint32_t kPairRows = S::kLanes == 16 ? 8 : 3;

// The sums of a tile's scores over groups: in registers where there is room, else where the scores go.
template <typename S, uint32_t R, uint32_t V>
struct PairSums {
  using F = typename S::F;
  static constexpr bool kHeld = 2 * R * V <= kTileAccumulators<S>;
  F sum[kHeld ? R : 1][kHeld ? V : 1];
  float* to;

  KVRT_INLINE_MEMBER void begin(uint32_t slot, const Scores& scores) {
    to = scores.to + 16 * slot;
    for_each([&](uint32_t r, uint32_t v, float* at)
                 __attribute__((always_inline)) { kHeld ? void(sum[kHeld ? r : 0][kHeld ? v : 0] = S::zero()) : S::store(at, S::zero()); });
  }
  KVRT_INLINE_MEMBER void add(const float* by, const F (&part)[R][V]) {
    F scale[V];
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) scale[v] = S::load(by + S::kLanes * v);
    for_each([&](uint32_t r, uint32_t v, float* at) __attribute__((always_inline)) {
      F& held = sum[kHeld ? r : 0][kHeld ? v : 0];
      kHeld ? void(held = S::fma(part[r][v], scale[v], held)) : S::store(at, S::fma(part[r][v], scale[v], S::load(at)));
    });
  }
  KVRT_INLINE_MEMBER void end(float scale) {
    const F whole = S::set1(scale);
    for_each([&](uint32_t r, uint32_t v, float* at)
                 __attribute__((always_inline)) { S::store(at, S::mul(kHeld ? sum[kHeld ? r : 0][kHeld ? v : 0] : S::load(at), whole)); });
  }

 private:
  template <typename Fn>
  KVRT_INLINE_MEMBER void for_each(Fn fn) {
    asm("" : "+r"(to));  // else each row's place has a register, or a place on the stack
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
      KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) fn(r, v, to + r * kSpanTokens + S::kLanes * v);
    }
  }
};

// From: PairsI4, or Copied.
// Scores of R rows (q: [dims][R] in the order of the cells, dims of whole groups) against V vectors of keys from 16 * slot on.
template <typename S, typename From, uint32_t R, uint32_t V>
[[gnu::noinline]] void score_pairs_tile(const float* q, uint32_t dims, const Keys& k, uint32_t slot, const Scores& scores) {
  using F = typename S::F;
  constexpr uint32_t kVectors = 16 / S::kLanes, kSlots = V / kVectors;
  const uint8_t *at[kSlots], *far[kSlots];
  KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) {
    at[i] = k.at[slot + i];
    far[i] = k.far[slot + i];
  }
  const float *by = scores.key_scales + 16 * slot, *end = q + uint64_t{dims} * R;
  PairSums<S, R, V> sums;
  sums.begin(slot, scores);
  uint64_t d = 0, ahead = 0;
  for (; q < end; by += kSpanTokens) {
    for (const uint64_t next = ahead + kInt4Group / 2 * 16; From::kPairs && ahead < next; ahead += 64) {
      KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) prefetch_far(far[i] + ahead);
    }
    F part[R][V];
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) { KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) part[r][v] = S::zero(); }
    for (const float* group = q + kInt4Group * R; q < group; q += 2 * R) {
      F low[V], high[V];
      if constexpr (From::kPairs) {
        KVRT_UNROLL for (uint32_t i = 0; i < kSlots; ++i) S::load_pairs(at[i] + d, low + i * kVectors, high + i * kVectors);
        d += k.line;
      } else {
        KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
          const uint8_t* line = at[v / kVectors] + d + v % kVectors * S::kLanes * sizeof(float);
          low[v] = From::template load<S>(line);
          high[v] = From::template load<S>(line + k.line);
        }
        d += 2 * k.line;
      }
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
        const F first = S::broadcast(q + r);
        KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) part[r][v] = S::fma(first, low[v], part[r][v]);
      }
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
        const F second = S::broadcast(q + R + r);
        KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) part[r][v] = S::fma(second, high[v], part[r][v]);
      }
    }
    sums.add(by, part);
  }
  sums.end(scores.scale);
}

template <typename S, typename From, uint32_t R>
void score_pairs(const float* q, uint32_t dims, const Keys& k, uint32_t slots, const Scores& scores) {
  constexpr uint32_t kVectors = 16 / S::kLanes;
  uint32_t slot = 0;
  if constexpr (kVectors == 1 && R <= 3) {
    for (; slot + 4 <= slots; slot += 4) score_pairs_tile<S, From, R, 4>(q, dims, k, slot, scores);
  }
  for (; slot + 2 / kVectors <= slots; slot += 2 / kVectors) score_pairs_tile<S, From, R, 2>(q, dims, k, slot, scores);
  if constexpr (kVectors == 1) {
    if (slot < slots) score_pairs_tile<S, From, R, 1>(q, dims, k, slot, scores);
  }
}

// acc[r] += w[g][r][j] * v[j], of G groups (kHalf: of one, the low elements alone), keys in order; w: rows of kSpanTokens.
template <typename S, typename From, uint32_t R, uint32_t G, bool kHalf>
KVRT_INLINE void value_pairs_tile(const float* w, const Values& values, uint64_t at, uint32_t v_dim, float* acc) {
  using F = typename S::F;
  constexpr uint32_t kVectors = 16 / S::kLanes, kAll = kHalf ? kVectors : 2 * kVectors * G;
  F sum[R][kAll];
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < kAll; ++v) sum[r][v] = S::load(acc + uint64_t{r} * v_dim + S::kLanes * v);
  }
  for (uint32_t i = 0; i < values.n; ++i) {
    const uint8_t *line = values.runs[i].at + at, *far = values.runs[i].far + at;
    for (const float* end = w + values.runs[i].keys; w < end; ++w, line += values.line, far += values.line) {
      if (From::kPairs && at % 64 == 0) prefetch_far(far);
      KVRT_UNROLL for (uint32_t g = 0; g < G; ++g) {
        F v[2 * kVectors];
        if constexpr (From::kPairs) {
          S::load_pairs(line + g * (kInt4Group / 2), v, v + kVectors);
        } else {
          KVRT_UNROLL for (uint32_t n = 0; n < (kHalf ? 1 : 2) * kVectors; ++n) {
            v[n] = From::template load<S>(line + (g * kInt4Group + n * S::kLanes) * sizeof(float));
          }
        }
        KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
          const F weight = S::broadcast(w + (g * R + r) * kSpanTokens);
          KVRT_UNROLL for (uint32_t n = 0; n < (kHalf ? 1 : 2) * kVectors; ++n) {
            sum[r][g * 2 * kVectors + n] = S::fma(weight, v[n], sum[r][g * 2 * kVectors + n]);
          }
        }
      }
    }
  }
  KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
    KVRT_UNROLL for (uint32_t v = 0; v < kAll; ++v) S::store(acc + uint64_t{r} * v_dim + S::kLanes * v, sum[r][v]);
  }
}

// Weights p (rows kSpanTokens apart) of n keys to w, times the scales of G groups, each [kSpanTokens].
template <typename S, uint32_t R, uint32_t G>
KVRT_INLINE void weigh_groups(const float* p, const float* scales, uint32_t n, float* w) {
  for (uint32_t g = 0; g < G; ++g, scales += kSpanTokens) {
    for (uint32_t r = 0; r < R; ++r, w += kSpanTokens) {
      for (uint32_t j = 0; j < n; j += S::kLanes) S::store(w + j, S::mul(S::load(p + r * kSpanTokens + j), S::load(scales + j)));
    }
  }
}

// v_dim is a multiple of 16. scales: [group][kSpanTokens] from p's first key on; p and scales may be read a vector past the last key. w has room
// for the weights.
template <typename S, typename From, uint32_t R>
void add_pairs(const float* p, const Values& values, uint32_t v_dim, const float* scales, float* w, float* acc) {
  constexpr uint32_t kGroups = R * 4 * (16 / S::kLanes) <= kTileAccumulators<S> ? 2 : 1;
  uint32_t keys = 0;
  for (uint32_t i = 0; i < values.n; ++i) keys += values.runs[i].keys;
  static_assert(!From::kPairs || R * 2 * (16 / S::kLanes) <= kTileAccumulators<S>);
  uint32_t d = 0;
  const auto bytes = [](uint32_t dims) { return uint64_t{dims} * (From::kPairs ? 1 : 2 * sizeof(float)) / 2; };
  if constexpr (kGroups == 2) {
    for (; d + 2 * kInt4Group <= v_dim; d += 2 * kInt4Group) {
      weigh_groups<S, R, 2>(p, scales + d / kInt4Group * kSpanTokens, keys, w);
      value_pairs_tile<S, From, R, 2, false>(w, values, bytes(d), v_dim, acc + d);
    }
  }
  for (; d < v_dim; d += kInt4Group) {
    weigh_groups<S, R, 1>(p, scales + d / kInt4Group * kSpanTokens, keys, w);
    constexpr bool kWhole = R * 2 * (16 / S::kLanes) <= kTileAccumulators<S>;
    const bool half = d + kInt4Group > v_dim;
    if constexpr (kWhole) {
      if (!half) {
        value_pairs_tile<S, From, R, 1, false>(w, values, bytes(d), v_dim, acc + d);
        continue;
      }
    }
    value_pairs_tile<S, From, R, 1, true>(w, values, bytes(d), v_dim, acc + d);
    constexpr uint32_t kHalf = kInt4Group / 2;
    if (!half) value_pairs_tile<S, From, R, 1, true>(w, values, bytes(d + kHalf), v_dim, acc + d + kHalf);  // of a copy
  }
}

// One function for each count of rows: over cells 1 to kPairRows, over a copy 1 to kTileAccumulators / 2.
using PairValueFn = void (*)(const float*, const Values&, uint32_t, const float*, float*, float*);
template <typename S, typename From>
inline constexpr uint32_t kPairRowsMax = From::kPairs ? kPairRows<S> : kTileAccumulators<S> / 2;
template <typename S, typename From>
constexpr ByRows<ScoreFn> score_pairs_by_rows() {
  if constexpr (kPairRowsMax<S, From> == 3) {
    return {{nullptr, score_pairs<S, From, 1>, score_pairs<S, From, 2>, score_pairs<S, From, 3>}};
  } else if constexpr (kPairRowsMax<S, From> == 6) {
    return {{nullptr, score_pairs<S, From, 1>, score_pairs<S, From, 2>, score_pairs<S, From, 3>, score_pairs<S, From, 4>,
             score_pairs<S, From, 5>, score_pairs<S, From, 6>}};
  } else if constexpr (kPairRowsMax<S, From> == 8) {
    return {{nullptr, score_pairs<S, From, 1>, score_pairs<S, From, 2>, score_pairs<S, From, 3>, score_pairs<S, From, 4>,
             score_pairs<S, From, 5>, score_pairs<S, From, 6>, score_pairs<S, From, 7>, score_pairs<S, From, 8>}};
  } else {
    return {{nullptr, score_pairs<S, From, 1>, score_pairs<S, From, 2>, score_pairs<S, From, 3>, score_pairs<S, From, 4>,
             score_pairs<S, From, 5>, score_pairs<S, From, 6>, score_pairs<S, From, 7>, score_pairs<S, From, 8>, score_pairs<S, From, 9>,
             score_pairs<S, From, 10>, score_pairs<S, From, 11>, score_pairs<S, From, 12>}};
  }
}
template <typename S, typename From>
constexpr ByRows<PairValueFn> add_pairs_by_rows() {
  if constexpr (kPairRowsMax<S, From> == 3) {
    return {{nullptr, add_pairs<S, From, 1>, add_pairs<S, From, 2>, add_pairs<S, From, 3>}};
  } else if constexpr (kPairRowsMax<S, From> == 6) {
    return {{nullptr, add_pairs<S, From, 1>, add_pairs<S, From, 2>, add_pairs<S, From, 3>, add_pairs<S, From, 4>, add_pairs<S, From, 5>,
             add_pairs<S, From, 6>}};
  } else if constexpr (kPairRowsMax<S, From> == 8) {
    return {{nullptr, add_pairs<S, From, 1>, add_pairs<S, From, 2>, add_pairs<S, From, 3>, add_pairs<S, From, 4>, add_pairs<S, From, 5>,
             add_pairs<S, From, 6>, add_pairs<S, From, 7>, add_pairs<S, From, 8>}};
  } else {
    return {{nullptr, add_pairs<S, From, 1>, add_pairs<S, From, 2>, add_pairs<S, From, 3>, add_pairs<S, From, 4>, add_pairs<S, From, 5>,
             add_pairs<S, From, 6>, add_pairs<S, From, 7>, add_pairs<S, From, 8>, add_pairs<S, From, 9>, add_pairs<S, From, 10>,
             add_pairs<S, From, 11>, add_pairs<S, From, 12>}};
  }
}
template <typename S, typename From>
inline constexpr ByRows<ScoreFn> kScorePairs = score_pairs_by_rows<S, From>();
template <typename S, typename From>
inline constexpr ByRows<PairValueFn> kAddPairs = add_pairs_by_rows<S, From>();

// Cells of 16 keys to the elements of their dimensions, in the order of the cells; a dimension's keys are `stride` apart from another's.
template <typename S>
[[gnu::noinline]] void widen_keys(const uint8_t* from, const uint8_t* far, uint64_t line, uint32_t cells, float* to, uint32_t stride) {
  for (uint32_t i = 0; i < cells; ++i, from += line, to += uint64_t{2} * stride) {
    if (i % 4 == 0) prefetch_far(far + uint64_t{16} * i);
    typename S::F low[16 / S::kLanes], high[16 / S::kLanes];
    S::load_pairs(from, low, high);
    KVRT_UNROLL for (uint32_t v = 0; v < 16 / S::kLanes; ++v) {
      S::store(to + S::kLanes * v, low[v]);
      S::store(to + stride + S::kLanes * v, high[v]);
    }
  }
}

// A row to its first v_dim elements, times the scales of its groups, kSpanTokens apart, or as they are where that is null. A function of its
// own, so that a pass over rows keeps its registers.
template <typename S>
[[gnu::noinline]] void widen_row(const uint8_t* from, const uint8_t* far, uint32_t v_dim, const float* scales, float* to) {
  constexpr uint32_t kVectors = 2 * 16 / S::kLanes;
  alignas(64) float rest[kInt4Group];
  for (uint32_t d = 0; d < v_dim; d += kInt4Group, from += kInt4Group / 2) {
    if (d % 128 == 0) prefetch_far(far + d / 2);
    typename S::F v[kVectors];
    S::load_pairs(from, v, v + kVectors / 2);
    if (scales) {
      const typename S::F scale = S::broadcast(scales + uint64_t{d} / kInt4Group * kSpanTokens);
      KVRT_UNROLL for (uint32_t n = 0; n < kVectors; ++n) v[n] = S::mul(v[n], scale);
    }
    float* out = d + kInt4Group <= v_dim ? to + d : rest;
    KVRT_UNROLL for (uint32_t n = 0; n < kVectors; ++n) S::store(out + S::kLanes * n, v[n]);
  }
  if (v_dim % kInt4Group != 0) __builtin_memcpy(to + v_dim / kInt4Group * kInt4Group, rest, v_dim % kInt4Group * sizeof(float));
}

}  // namespace kvrt::simd
