// Norm, activation, rotation and quantization of rows, their rounding to a KV format, and the merging and finishing of span results, over
// any Simd (NUMERICS.md §2, §4 to §7).
#pragma once

#include "runtime/compute/cpu/math.h"

namespace kvrt::simd {

template <typename S>
void quantize_row(const float* x, uint32_t k, const QuantRow& out) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr uint32_t kVectors = kQuantBlock / S::kLanes;
  const F top = S::set1(127.0f), bottom = S::set1(-127.0f);
  alignas(64) int8_t q[kQuantBlock];
  for (uint32_t b = 0; b < k / kQuantBlock; ++b, x += kQuantBlock) {
    F v[kVectors], largest = S::zero();
    KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) {
      v[i] = S::load(x + S::kLanes * i);
      largest = S::max(S::abs(v[i]), largest);  // a NaN keeps the second operand, as in scalar
    }
    const float amax = S::max_lanes(largest);
    const F inverse = S::set1(amax > 0 ? 127.0f / amax : 0.0f);
    I n[kVectors];
    KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) {
      n[i] = S::round_to_int(S::max(S::min(S::mul(v[i], inverse), top), bottom));
      S::store_i8(q + S::kLanes * i, n[i]);
    }
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) __builtin_memcpy(out.q + (8 * b + j) * 4 * out.group, q + 4 * j, 4);
    I half[2] = {n[0], n[kVectors / 2]};
    KVRT_UNROLL for (uint32_t i = 1; i < kVectors / 2; ++i) {
      half[0] = S::add_int(half[0], n[i]);
      half[1] = S::add_int(half[1], n[kVectors / 2 + i]);
    }
    const int first = S::sum_int_lanes(half[0]), second = S::sum_int_lanes(half[1]);
    const uint32_t at = b * out.group;
    out.d[at] = amax / 127.0f;
    out.s[at] = out.d[at] * static_cast<float>(first + second);
    out.sums[2 * at] = static_cast<int16_t>(first);
    out.sums[2 * at + 1] = static_cast<int16_t>(second);
  }
}

template <typename S>
void rmsnorm_row(const float* x, const float* weight, float eps, uint32_t width, float* out) {
  using F = typename S::F;
  typename S::Lanes16 squares = S::zero16();
  const int n = static_cast<int>(width);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    KVRT_UNROLL for (uint32_t v = 0; v < 16 / S::kLanes; ++v) {
      const F a = S::load(x + i + S::kLanes * v);
      squares.v[v] = S::fma(a, a, squares.v[v]);
    }
  }
  KVRT_UNROLL for (uint32_t v = 0; v < 16 / S::kLanes; ++v, i += S::kLanes) {  // absent elements are zeros: fma(0, 0, lane) is the lane
    const F a = S::load_n(x + i, n - i);
    squares.v[v] = S::fma(a, a, squares.v[v]);
  }
  const float mean = S::sum16(squares) / static_cast<float>(width);
  const F scale = S::div(S::set1(1.0f), S::sqrt(S::set1(mean + eps)));
  i = 0;
  for (; i + int{S::kLanes} <= n; i += S::kLanes) S::store(out + i, S::mul(S::mul(S::load(x + i), scale), S::load(weight + i)));
  if (i < n) S::store_n(out + i, n - i, S::mul(S::mul(S::load_n(x + i, n - i), scale), S::load_n(weight + i, n - i)));
}

// A sum over a row by 16 virtual lanes: lane = f(elements, how many of them there are, lane); absent ones are zeros.
template <typename S, typename Fn>
KVRT_INLINE float sum_row(const float* x, uint32_t width, Fn f) {
  typename S::Lanes16 lanes = S::zero16();
  const int n = static_cast<int>(width);
  for (int i = 0; i < n; i += 16) {
    KVRT_UNROLL for (int v = 0; v < int{16 / S::kLanes}; ++v) {
      const int at = i + int{S::kLanes} * v;
      lanes.v[v] = f(S::load_n(x + at, n - at), n - at, lanes.v[v]);
    }
  }
  return S::sum16(lanes);
}

// The distance of an absent element from the mean is made zero too: it leaves its lane as it is.
template <typename S>
void layernorm_row(const float* x, const float* weight, const float* bias, float eps, uint32_t width, float* out) {
  using F = typename S::F;
  const float sum = sum_row<S>(
      x, width, [](F a, int, F lane) __attribute__((always_inline)) { return S::add(lane, a); });
  const F mean = S::set1(sum / static_cast<float>(width));
  const float squares = sum_row<S>(
      x, width, [mean](F a, int n, F lane) __attribute__((always_inline)) {
        const F d = S::keep(S::first_lanes(n), S::sub(a, mean));
        return S::fma(d, d, lane);
      });
  const F scale = S::div(S::set1(1.0f), S::sqrt(S::set1(squares / static_cast<float>(width) + eps)));
  const int n = static_cast<int>(width);
  for (int i = 0; i < n; i += S::kLanes) {
    const F normal = S::mul(S::sub(S::load_n(x + i, n - i), mean), scale), w = S::load_n(weight + i, n - i);
    S::store_n(out + i, n - i, bias ? S::fma(normal, w, S::load_n(bias + i, n - i)) : S::mul(normal, w));
  }
}

// x / (1 + exp(-t)) * up; exp(-|t|) is 0 where exp stops falling, for an x of any size
template <typename S>
KVRT_INLINE typename S::F gate_mul(typename S::F x, typename S::F t, typename S::F up) {
  const typename S::F fall = S::negative_abs(t), e = S::keep(S::less(S::set1(-64.0f), fall), exp<S>(fall));
  const typename S::F numerator = S::select(S::less(t, S::zero()), S::mul(x, e), x);
  return S::mul(S::div(numerator, S::add(S::set1(1.0f), e)), up);
}
template <typename S>
KVRT_INLINE typename S::F silu_mul(typename S::F x, typename S::F up) {
  return gate_mul<S>(x, x, up);
}
template <typename S>
KVRT_INLINE typename S::F gelu_mul(typename S::F x, typename S::F up) {
  const typename S::F slope = S::fma(S::mul(x, x), S::set1(0x1.2444f2p-4f), S::set1(0x1.988454p+0f));
  return gate_mul<S>(x, S::mul(slope, x), up);
}

// out[i] = f(a[i], b[i]) for i < n.
template <typename S, typename Fn>
KVRT_INLINE void map_rows(const float* a, const float* b, uint32_t n, float* out, Fn f) {
  uint32_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) S::store(out + i, f(S::load(a + i), S::load(b + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) S::store_n(out + i, rest, f(S::load_n(a + i, rest), S::load_n(b + i, rest)));
}

template <typename S>
void silu_mul_row(const float* gate, const float* up, uint32_t width, float* out) {
  using F = typename S::F;
  map_rows<S>(
      gate, up, width, out, [](F g, F u) __attribute__((always_inline)) { return silu_mul<S>(g, u); });
}

template <typename S>
void gelu_mul_row(const float* gate, const float* up, uint32_t width, float* out) {
  using F = typename S::F;
  map_rows<S>(
      gate, up, width, out, [](F g, F u) __attribute__((always_inline)) { return gelu_mul<S>(g, u); });
}

template <typename S>
void clamped_swiglu_row(const float* gate, const float* up, uint32_t width, float* out) {
  using F = typename S::F;
  const F top = S::set1(kSwigluLimit), bottom = S::set1(-kSwigluLimit), slope = S::set1(kSwigluSlope), one = S::set1(1.0f);
  map_rows<S>(
      gate, up, width, out, [=](F g, F u) __attribute__((always_inline)) {
        const F x = S::min(top, g);  // a NaN stays: it is the second operand
        return gate_mul<S>(x, S::mul(slope, x), S::add(S::max(bottom, S::min(top, u)), one));
      });
}

template <typename S>
void gelu_row(uint32_t n, float* x) {
  using F = typename S::F;
  map_rows<S>(
      x, x, n, x, [](F a, F) __attribute__((always_inline)) { return gelu_mul<S>(a, S::set1(1.0f)); });
}

template <typename S>
void softcap_row(float cap, uint32_t n, float* x) {
  using F = typename S::F;
  const F caps = S::set1(cap);
  map_rows<S>(
      x, x, n, x, [caps](F a, F) __attribute__((always_inline)) { return softcap<S>(a, caps); });
}

template <typename S>
void add_scaled_row(float factor, const float* y, uint32_t n, float* x) {
  using F = typename S::F;
  const F factors = S::set1(factor);
  map_rows<S>(
      y, x, n, x, [factors](F a, F b) __attribute__((always_inline)) { return S::fma(factors, a, b); });
}

template <typename S>
void rope_head(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x) {
  using F = typename S::F;
  constexpr uint32_t kHalf = S::kLanes / 2;
  uint32_t i = 0;
  if (interleaved) {
    for (; i + kHalf <= pairs; i += kHalf) {
      const F v = S::load(x + 2 * i), cs = S::interleave(cos + i, sin + i), sc = S::interleave(sin + i, cos + i);
      const F x1 = S::mul(S::odd_lanes_twice(v), sc);  // even lanes x1 * s, odd ones x1 * c
      S::store(x + 2 * i, S::fmaddsub(S::even_lanes_twice(v), cs, x1));
    }
  } else {
    for (; i < pairs; i += S::kLanes) {
      const int n = static_cast<int>(pairs - i);
      const F x0 = S::load_n(x + i, n), x1 = S::load_n(x + pairs + i, n), c = S::load_n(cos + i, n), s = S::load_n(sin + i, n);
      S::store_n(x + i, n, S::fmsub(x0, c, S::mul(x1, s)));
      S::store_n(x + pairs + i, n, S::fma(x0, s, S::mul(x1, c)));
    }
  }
  for (; i < pairs; ++i) {  // the last pairs, interleaved
    const float x0 = x[2 * i], x1 = x[2 * i + 1];
    x[2 * i] = __builtin_fmaf(x0, cos[i], -(x1 * sin[i]));
    x[2 * i + 1] = __builtin_fmaf(x0, sin[i], x1 * cos[i]);
  }
}

// store(p, i, n): elements [i, i + n) to p, a whole vector. The last one overlaps the one before; a row that is less than one goes
// by way of a buffer.
template <typename S, typename Store>
KVRT_INLINE void store_rows(uint32_t n, uint32_t elem_bytes, uint8_t* out, Store store) {
  constexpr uint32_t kLanes = S::kLanes;
  if (n < kLanes) {
    uint8_t whole[kLanes * 4];
    store(whole, 0, static_cast<int>(n));
    __builtin_memcpy(out, whole, n * elem_bytes);
    return;
  }
  for (uint32_t i = 0; i + kLanes <= n; i += kLanes) store(out + i * elem_bytes, i, int{kLanes});
  if (n % kLanes != 0) store(out + (n - kLanes) * elem_bytes, n - kLanes, int{kLanes});
}

// One row to elements with one scale (NUMERICS.md §7): put(p, v) stores v = x * unit / scale, which is within ±top * unit.
template <typename S, typename Put>
[[gnu::noinline]] uint16_t scaled_row(float top, float unit, const float* x, uint32_t n, uint8_t* out, Put put) {
  using F = typename S::F;
  F largest = S::zero();
  for (uint32_t i = 0; i < n; i += S::kLanes) largest = S::max(S::abs(S::load_n(x + i, static_cast<int>(n - i))), largest);
  const float wanted = S::max_lanes(largest) / top;
  const uint16_t scale = S::to_f16(wanted < 65504.0f ? wanted : 65504.0f);
  const F inverse = S::set1(scale > 0 ? unit / S::from_f16(scale) : 0.0f), most = S::set1(top * unit), least = S::set1(-top * unit);
  store_rows<S>(
      n, 1, out, [=](uint8_t * p, uint32_t i, int lanes) __attribute__((always_inline)) {
        put(p, S::max(S::min(S::mul(S::load_n(x + i, lanes), inverse), most), least));
      });
  return scale;
}

// The number of the entry of int4 nearest to v; of two the lower one. A NaN's is 0.
template <typename S>
KVRT_INLINE typename S::I int4_code(typename S::F v) {
  typename S::I code = S::set1_int(0);
  KVRT_UNROLL for (int step = 8; step > 0; step /= 2) {
    const typename S::I above = S::add_int(code, S::set1_int(step));
    code = S::select_int(S::less(S::look_up(kInt4Between, above), v), above, code);
  }
  return code;
}

// A group of at most kInt4Group elements to int4: a code a byte. Gives its scale (NUMERICS.md §7).
template <typename S>
[[gnu::noinline]] uint16_t int4_group(const float* x, uint32_t n, uint8_t* codes) {
  using F = typename S::F;
  constexpr uint32_t kLanes = S::kLanes, kVectors = kInt4Group / kLanes, kHalf = kVectors / 2;
  F given[kVectors], most = S::zero(), least = S::zero();
  KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) {
    given[i] = S::load_n(x + i * kLanes, static_cast<int>(n) - static_cast<int>(i * kLanes));
    most = S::max(given[i], most);
    least = S::min(given[i], least);
  }
  const float up = S::max_lanes(most), down = S::max_lanes(S::sub(S::zero(), least)), largest = (up >= down ? up : -down) / kInt4Top;
  float best = 0, scale = 0;
  uint8_t out[kInt4Group] = {};
  for (uint32_t t = 0; t < sizeof kInt4Tries / sizeof *kInt4Tries; ++t) {
    float tried = largest * kInt4Tries[t];
    tried = tried < 65504.0f ? tried : 65504.0f;
    tried = S::from_f16(S::to_f16(tried > -65504.0f ? tried : -65504.0f));
    const F inverse = S::set1(tried != 0 ? 1.0f / tried : 0.0f), less = S::set1(-tried);
    typename S::Lanes16 errors = S::zero16();
    typename S::I code[kVectors];
    KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) {
      code[i] = int4_code<S>(S::mul(given[i], inverse));
      const auto there = S::first_lanes(static_cast<int>(n) - static_cast<int>(i * kLanes));
      const F off = S::keep(there, S::fma(S::look_up(kInt4Entries, code[i]), less, given[i]));
      F& sum = errors.v[i % kHalf];
      sum = i < kHalf ? S::mul(off, off) : S::fma(off, off, sum);
    }
    const float error = S::sum16(errors);
    if (t > 0 && !(error < best)) continue;
    best = error, scale = tried;
    KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) S::store_i8(out + i * kLanes, code[i]);
  }
  __builtin_memcpy(codes, out, n);
  typename S::Lanes16 with = S::zero16(), own = S::zero16();
  KVRT_UNROLL for (uint32_t i = 0; i < kVectors; ++i) {
    const auto there = S::first_lanes(static_cast<int>(n) - static_cast<int>(i * kLanes));
    const F entry = S::keep(there, S::look_up(kInt4Entries, S::load_i8_int(out + i * kLanes)));
    F& sum = with.v[i % kHalf];
    sum = i < kHalf ? S::mul(given[i], entry) : S::fma(given[i], entry, sum);
    own.v[i % kHalf] = S::add(own.v[i % kHalf], S::mul(entry, entry));
  }
  const float fit = S::sum16(with) / S::sum16(own);
  return S::to_f16(__builtin_fabsf(fit) < 65504.0f && scale != 0 ? fit : scale);
}

template <typename S>
void kv_row(KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale) {
  switch (format) {
    case KvFormat::kF16:
      return store_rows<S>(
          n, 2, out, [=](uint8_t * p, uint32_t i, int lanes) __attribute__((always_inline)) { S::store_f16(p, S::load_n(x + i, lanes)); });
    case KvFormat::kBF16:
      return store_rows<S>(
          n, 2, out, [=](uint8_t * p, uint32_t i, int lanes) __attribute__((always_inline)) { S::store_bf16(p, S::load_n(x + i, lanes)); });
    case KvFormat::kF32:
      __builtin_memcpy(out, x, n * sizeof *x);
      return;
    case KvFormat::kI8:
      *scale = scaled_row<S>(
          top, 1, x, n, out, [](uint8_t * p, typename S::F v) __attribute__((always_inline)) { S::store_i8(p, S::round_to_int(v)); });
      return;
    case KvFormat::kF8:
      *scale = scaled_row<S>(
          kFp8Top, kFp8Unit, x, n, out, [](uint8_t * p, typename S::F v) __attribute__((always_inline)) { S::store_e4m3(p, v); });
      return;
    case KvFormat::kI4:
      for (uint32_t i = 0; i < n; i += kInt4Group) *scale++ = int4_group<S>(x + i, n - i < kInt4Group ? n - i : kInt4Group, out + i);
  }
}

template <typename S>
void merge_span(uint32_t v_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  using F = typename S::F;
  const float both = max2 > *max ? max2 : *max;
  const float a = exp_one<S>(*max - both), b = exp_one<S>(max2 - both);
  *sum = __builtin_fmaf(*sum, a, sum2 * b);
  const F first = S::set1(a), second = S::set1(b);
  map_rows<S>(
      acc, acc2, v_dim, acc, [=](F x, F y) __attribute__((always_inline)) { return S::fma(x, first, S::mul(y, second)); });
  *max = both;
}

template <typename S>
void finish_row(uint32_t v_dim, float sum, const float* acc, float* out) {
  using F = typename S::F;
  const F inverse = S::set1(1.0f / sum);
  map_rows<S>(
      acc, acc, v_dim, out, [=](F x, F) __attribute__((always_inline)) { return S::mul(x, inverse); });
}

}  // namespace kvrt::simd
