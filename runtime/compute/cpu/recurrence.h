// Recurrent layers over any Simd (NUMERICS.md §11): gates, convolutions, and the recurrences of a head. Columns, which are channels or a
// head's dimensions, lie in lanes; all sums are chains of their own.
#pragma once

#include "runtime/compute/cpu/elementwise.h"
#include "runtime/compute/natural_log.h"

namespace kvrt::simd {

// A NaN comes out as it is: its bits are not for exp, which counts on a number's.
template <typename S>
void decay_row(const float* x, const float* bias, const float* a, uint32_t n, float* step, float* decay) {
  using F = typename S::F;
  for (uint32_t i = 0; i < n; i += S::kLanes) {
    const int left = static_cast<int>(n - i), lanes = left < int{S::kLanes} ? left : int{S::kLanes};
    alignas(64) float sum[S::kLanes], e[S::kLanes];
    const F v = S::add(S::load_n(x + i, left), S::load_n(bias + i, left));
    S::store(sum, v);
    S::store(e, exp<S>(v));
    for (int j = 0; j < lanes; ++j) {
      step[i + static_cast<uint32_t>(j)] = sum[j] <= 20.0f ? static_cast<float>(plain_log(1.0 + static_cast<double>(e[j]))) : sum[j];
    }
    const F t = S::min(S::zero(), S::mul(S::load_n(step + i, left), S::load_n(a + i, left)));
    S::store_n(decay + i, left, S::select(S::less(t, S::set1(1.0f)), exp<S>(t), t));
  }
}

template <typename S>
void sigmoid_row(const float* x, uint32_t n, float* out) {
  using F = typename S::F;
  const F one = S::set1(1.0f);
  for (uint32_t i = 0; i < n; i += S::kLanes) {
    const int left = static_cast<int>(n - i);
    const F v = S::load_n(x + i, left), fall = S::negative_abs(v), e = exp<S>(fall);
    const F p = S::div(S::select(S::less(v, S::zero()), e, one), S::add(one, e));
    S::store_n(out + i, left, S::select(S::less(fall, one), p, v));
  }
}

template <typename S>
void silu_row(uint32_t n, float* x) {
  using F = typename S::F;
  map_rows<S>(
      x, x, n, x, [](F a, F) __attribute__((always_inline)) { return silu_mul<S>(a, S::set1(1.0f)); });
}

template <typename S>
void unit_row(const float* x, float eps, float divisor, uint32_t n, float* out) {
  using F = typename S::F;
  const float squares = sum_row<S>(
      x, n, [](F a, int, F lane) __attribute__((always_inline)) { return S::fma(a, a, lane); });
  const F scale = S::set1(1.0f / S::first(S::sqrt(S::set1(squares + eps))) / divisor);
  map_rows<S>(
      x, x, n, out, [scale](F a, F) __attribute__((always_inline)) { return S::mul(a, scale); });
}

// kVectors vectors of columns from `at` on. Not whole: one, of the last columns, fewer than its lanes.
template <typename S, uint32_t kVectors_, bool kWhole>
struct Strip {
  using Simd = S;
  using F = typename S::F;
  static constexpr uint32_t kVectors = kVectors_;
  uint32_t at;
  int left = 0;
  KVRT_INLINE_MEMBER F load(const float* row, uint32_t v) const {
    return kWhole ? S::load(row + at + S::kLanes * v) : S::load_n(row + at, left);
  }
  KVRT_INLINE_MEMBER void store(float* row, uint32_t v, F value) const {
    kWhole ? S::store(row + at + S::kLanes * v, value) : S::store_n(row + at, left, value);
  }
};

// fn(strip) for strips that cover n columns, wide ones first.
template <typename S, uint32_t kVectors, typename Fn>
KVRT_INLINE void for_strips(uint32_t n, Fn fn) {
  uint32_t at = 0;
  for (; at + kVectors * S::kLanes <= n; at += kVectors * S::kLanes) fn(Strip<S, kVectors, true>{at});
  for (; at + S::kLanes <= n; at += S::kLanes) fn(Strip<S, 1, true>{at});
  if (at < n) fn(Strip<S, 1, false>{at, static_cast<int>(n - at)});
}

inline constexpr uint32_t kConvRows = 8;  // rows that go through all channels together: their lines stay in L1

// The inputs that are reached back to stay in registers over the rows.
template <uint32_t kKept, typename Strip>
KVRT_INLINE void conv_strip(const ConvArgs& a, const Strip& strip, uint32_t first, uint32_t rows) {
  using S = typename Strip::Simd;
  using F = typename S::F;
  F weight[kKept + 1], kept[kKept];
  KVRT_UNROLL for (uint32_t i = 0; i <= kKept; ++i) weight[i] = strip.load(a.weight + i * a.weight_stride, 0);
  KVRT_UNROLL for (uint32_t i = 0; i < kKept; ++i) kept[i] = strip.load(a.to + i * a.to_stride, 0);
  const F bias = a.bias ? strip.load(a.bias, 0) : S::zero();
  float* x = a.x + first * a.stride;
  for (uint32_t row = 0; row < rows; ++row, x += a.stride) {
    const F in = strip.load(x, 0);
    F sum = bias;
    KVRT_UNROLL for (uint32_t i = 0; i < kKept; ++i) sum = S::fma(weight[i], kept[i], sum);
    strip.store(x, 0, S::fma(weight[kKept], in, sum));
    if constexpr (kKept > 2) kept[kKept - 3] = kept[kKept - 2];  // no loop: clang would keep them on the stack
    kept[kKept - 2] = kept[kKept - 1];
    kept[kKept - 1] = in;
  }
  KVRT_UNROLL for (uint32_t i = 0; i < kKept; ++i) strip.store(a.to + i * a.to_stride, 0, kept[i]);
}

// Any number of taps.
template <typename Strip>
KVRT_INLINE void conv_strip_taps(const ConvArgs& a, const Strip& strip, uint32_t first, uint32_t rows) {
  using S = typename Strip::Simd;
  using F = typename S::F;
  const uint32_t last = a.taps - 1;
  const F bias = a.bias ? strip.load(a.bias, 0) : S::zero();
  float* x = a.x + first * a.stride;
  for (uint32_t row = 0; row < rows; ++row, x += a.stride) {
    const F in = strip.load(x, 0);
    F sum = bias;
    for (uint32_t i = 0; i < last; ++i) {
      const F kept = strip.load(a.to + i * a.to_stride, 0);
      sum = S::fma(strip.load(a.weight + i * a.weight_stride, 0), kept, sum);
      if (i > 0) strip.store(a.to + (i - 1) * a.to_stride, 0, kept);
    }
    strip.store(a.to + (last - 1) * a.to_stride, 0, in);
    strip.store(x, 0, S::fma(strip.load(a.weight + last * a.weight_stride, 0), in, sum));
  }
}

template <typename S>
void conv_rows(const ConvArgs& a) {
  for (uint32_t i = 0; a.from != a.to && i + 1 < a.taps; ++i) {
    __builtin_memcpy(a.to + i * a.to_stride, a.from + i * a.from_stride, a.channels * sizeof(float));
  }
  for (uint32_t row = 0; row < a.rows; row += kConvRows) {
    const uint32_t rows = min_u32(kConvRows, a.rows - row);
    for_strips<S, 1>(
        a.channels, [&](auto strip) __attribute__((always_inline)) {
          if (a.taps == 4) return conv_strip<3>(a, strip, row, rows);
          if (a.taps == 3) return conv_strip<2>(a, strip, row, rows);
          conv_strip_taps(a, strip, row, rows);
        });
  }
}

inline constexpr uint32_t kStateAhead = 8192;  // bytes

// A state that was not used since the last step is in memory: all of a row some rows ahead. What follows a head's is the next one's.
KVRT_INLINE void prefetch_state(const float* row, uint32_t width) {
  const char* at = reinterpret_cast<const char*>(row) + kStateAhead;
  for (uint32_t i = 0; i < width * sizeof(float); i += 64) prefetch(at + i);
}

// One row; in[v] is step * x.
template <bool kCold, typename Strip, typename F>
KVRT_INLINE void scan_row(const ScanArgs& a, const Strip& strip, uint32_t row, const float* from, const F (&in)[Strip::kVectors],
                          F (&sum)[Strip::kVectors]) {
  using S = typename Strip::Simd;
  const float *b = a.b + row * a.stride, *c = a.c + row * a.stride;
  const F decay = S::broadcast(a.decay + row * a.gate_stride);
  float* to = a.to;
  for (uint32_t n = 0; n < a.state; ++n, from += a.head_dim, to += a.head_dim) {
    if (kCold) prefetch_state(from, a.head_dim);
    const F bs = S::broadcast(b + n), cs = S::broadcast(c + n);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      const F state = S::fma(in[v], bs, S::mul(strip.load(from, v), decay));
      strip.store(to, v, state);
      sum[v] = S::fma(state, cs, sum[v]);
    }
  }
}

template <typename Strip>
void scan_strip(const ScanArgs& a, const Strip& strip) {
  using S = typename Strip::Simd;
  using F = typename S::F;
  const F skip = S::set1(a.skip);
  for (uint32_t row = 0; row < a.rows; ++row) {
    const float* x = a.x + row * a.stride;
    const F step = S::broadcast(a.step + row * a.gate_stride);
    F in[Strip::kVectors], sum[Strip::kVectors];
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      in[v] = S::mul(step, strip.load(x, v));
      sum[v] = S::zero();
    }
    row == 0 && strip.at == 0 ? scan_row<true>(a, strip, row, a.from, in, sum)
                              : scan_row<false>(a, strip, row, row == 0 ? a.from : a.to, in, sum);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      strip.store(a.out + row * a.out_stride, v, S::fma(skip, strip.load(x, v), sum[v]));
    }
  }
}

template <typename S>
void scan_head(const ScanArgs& a) {
  for_strips<S, 4>(
      a.head_dim, [&](auto strip) __attribute__((always_inline)) { scan_strip(a, strip); });
}

// The first row's decay, and what the state then knows of its key: to the row's place in `out`.
template <bool kCold, typename Strip>
KVRT_INLINE void delta_begin(const DeltaArgs& a, const Strip& strip) {
  using S = typename Strip::Simd;
  using F = typename S::F;
  const F decay = S::broadcast(a.decay);
  F known[Strip::kVectors];
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) known[v] = S::zero();
  const float* from = a.from;
  float* to = a.to;
  for (uint32_t n = 0; n < a.key_dim; ++n, from += a.value_dim, to += a.value_dim) {
    if (kCold) prefetch_state(from, a.value_dim);
    const F k = S::broadcast(a.k + n);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      const F state = S::mul(strip.load(from, v), decay);
      strip.store(to, v, state);
      known[v] = S::fma(state, k, known[v]);
    }
  }
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) strip.store(a.out, v, known[v]);
}

// A row whose decay the state has already. Unless it is the last one, the state gets the next row's, and `known` becomes that row's, so
// that the state is read and written once for a row.
template <bool kLast, typename Strip, typename F>
KVRT_INLINE void delta_row(const DeltaArgs& a, const Strip& strip, uint32_t row, F (&known)[Strip::kVectors]) {
  using S = typename Strip::Simd;
  const float *k = a.k + row * a.key_stride, *q = a.q + row * a.key_stride, *next = kLast ? k : k + a.key_stride;
  const F rate = S::broadcast(a.rate + row * a.gate_stride), decay = S::broadcast(a.decay + (row + !kLast) * a.gate_stride);
  F change[Strip::kVectors], sum[Strip::kVectors];
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
    change[v] = S::mul(S::sub(strip.load(a.v + row * a.stride, v), known[v]), rate);
    sum[v] = S::zero();
    known[v] = S::zero();
  }
  float* to = a.to;
  for (uint32_t n = 0; n < a.key_dim; ++n, to += a.value_dim) {
    const F ks = S::broadcast(k + n), qs = S::broadcast(q + n), nexts = S::broadcast(next + n);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      F state = S::fma(ks, change[v], strip.load(to, v));
      sum[v] = S::fma(state, qs, sum[v]);
      if (!kLast) {
        state = S::mul(state, decay);
        known[v] = S::fma(state, nexts, known[v]);
      }
      strip.store(to, v, state);
    }
  }
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) strip.store(a.out + row * a.out_stride, v, sum[v]);
}

template <typename Strip>
void delta_strip(const DeltaArgs& a, const Strip& strip) {
  typename Strip::F known[Strip::kVectors];
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) known[v] = strip.load(a.out, v);
  for (uint32_t row = 0; row + 1 < a.rows; ++row) delta_row<false>(a, strip, row, known);
  delta_row<true>(a, strip, a.rows - 1, known);
}

inline constexpr uint32_t kRowsAhead = 16;

// A row alone, whose state comes from memory: while a strip is computed, from the cache the second time, the next one is on its way; behind
// the last one that is the next head's first.
template <typename Strip>
void delta_one(const DeltaArgs& a, const Strip& strip) {
  using S = typename Strip::Simd;
  using F = typename S::F;
  constexpr uint32_t kWidth = Strip::kVectors * S::kLanes;
  const F decay = S::broadcast(a.decay), rate = S::broadcast(a.rate);
  const float* next = a.from + (strip.at + kWidth < a.value_dim ? strip.at + kWidth : uint64_t{a.key_dim} * a.value_dim);
  F known[Strip::kVectors], sum[Strip::kVectors];
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) known[v] = sum[v] = S::zero();
  for (uint32_t n = 0; n < a.key_dim; ++n) {
    const float* from = a.from + uint64_t{n} * a.value_dim;
    for (uint32_t i = 0; i < kWidth; i += 16) prefetch(from + kRowsAhead * a.value_dim + strip.at + i);
    prefetch_far(next + uint64_t{n} * a.value_dim);
    const F k = S::broadcast(a.k + n);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) known[v] = S::fma(S::mul(strip.load(from, v), decay), k, known[v]);
  }
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) known[v] = S::mul(S::sub(strip.load(a.v, v), known[v]), rate);
  for (uint32_t n = 0; n < a.key_dim; ++n) {
    const float* from = a.from + uint64_t{n} * a.value_dim;
    for (uint32_t i = 16; i < kWidth; i += 16) prefetch_far(next + uint64_t{n} * a.value_dim + i);
    const F k = S::broadcast(a.k + n), q = S::broadcast(a.q + n);
    KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) {
      const F state = S::fma(k, known[v], S::mul(strip.load(from, v), decay));
      strip.store(a.to + uint64_t{n} * a.value_dim, v, state);
      sum[v] = S::fma(state, q, sum[v]);
    }
  }
  KVRT_UNROLL for (uint32_t v = 0; v < Strip::kVectors; ++v) strip.store(a.out, v, sum[v]);
}

template <typename S>
void delta_head(const DeltaArgs& a) {
  constexpr uint32_t kVectors = S::kRegisters >= 32 ? 4 : 2;
  if (a.rows == 1) {
    return for_strips<S, 32 / S::kLanes>(
        a.value_dim, [&](auto strip) __attribute__((always_inline)) { delta_one(a, strip); });
  }
  for_strips<S, 4>(
      a.value_dim, [&](auto strip)
                       __attribute__((always_inline)) { strip.at == 0 ? delta_begin<true>(a, strip) : delta_begin<false>(a, strip); });
  for_strips<S, kVectors>(
      a.value_dim, [&](auto strip) __attribute__((always_inline)) { delta_strip(a, strip); });
}

}  // namespace kvrt::simd
