// AVX2 norm, activation, rotation, quantization, and the AVX2 table.
#include "runtime/compute/cpu_kernels_avx2.h"
#include "runtime/compute/cpu_kernels_scalar.h"

namespace kvrt::avx2 {
namespace {

KVRT_INLINE __m256 abs_ps(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

KVRT_INLINE float max_lanes(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// x / (1 + exp(-t)) * up
KVRT_INLINE __m256 gate_mul(__m256 x, __m256 t, __m256 up) {
  const __m256 e = exp_ps(_mm256_or_ps(t, _mm256_set1_ps(-0.0f)));
  const __m256 negative = _mm256_cmp_ps(t, _mm256_setzero_ps(), _CMP_LT_OQ);
  const __m256 numerator = _mm256_blendv_ps(x, _mm256_mul_ps(x, e), negative);
  return _mm256_mul_ps(_mm256_div_ps(numerator, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}
KVRT_INLINE __m256 silu_mul(__m256 x, __m256 up) { return gate_mul(x, x, up); }
KVRT_INLINE __m256 gelu_mul(__m256 x, __m256 up) {
  const __m256 slope = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0x1.2444f2p-4f), _mm256_set1_ps(0x1.988454p+0f));
  return gate_mul(x, _mm256_mul_ps(slope, x), up);
}

using GateMul = __m256 (*)(__m256, __m256);
template <GateMul mul>
KVRT_INLINE void act_mul_row(const float* gate, const float* up, uint32_t width, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= width; i += 8) _mm256_storeu_ps(out + i, mul(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  if (i < width) {
    const __m256i mask = lanes_below(static_cast<int>(width - i));
    _mm256_maskstore_ps(out + i, mask, mul(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask)));
  }
}

}  // namespace

void quantize_row(const float* x, uint32_t k, const QuantRows& out) {
  const __m256 top = _mm256_set1_ps(127.0f), bottom = _mm256_set1_ps(-127.0f);
  for (uint32_t b = 0; b < k / kQuantBlock; ++b, x += kQuantBlock) {
    __m256 v[4], largest = _mm256_setzero_ps();
    KVRT_UNROLL for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu_ps(x + 8 * i);
      largest = _mm256_max_ps(abs_ps(v[i]), largest);  // a NaN keeps the second operand, as in scalar
    }
    const float amax = max_lanes(largest);
    const __m256 inverse = _mm256_set1_ps(amax > 0 ? 127.0f / amax : 0.0f);
    __m256i n[4];
    KVRT_UNROLL for (int i = 0; i < 4; ++i) {
      n[i] = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(_mm256_mul_ps(v[i], inverse), top), bottom));
    }
    // Lanes 0 and 1 of `four` add up to the sum of the first half, 2 and 3 to that of the second.
    const __m256i eight = _mm256_hadd_epi32(_mm256_add_epi32(n[0], n[1]), _mm256_add_epi32(n[2], n[3]));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    const int first = _mm_cvtsi128_si32(two), second = _mm_extract_epi32(two, 2);
    // Packing works within 128-bit halves; the last permutation undoes what that did to the order.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    const __m256i ordered = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + b * kQuantBlock), ordered);
    out.d[b] = amax / 127.0f;
    out.s[b] = out.d[b] * static_cast<float>(first + second);
    out.sums[2 * b] = static_cast<int16_t>(first);
    out.sums[2 * b + 1] = static_cast<int16_t>(second);
  }
}

void rmsnorm_row(const float* x, const float* weight, float eps, uint32_t width, float* out) {
  __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
  const uint32_t whole = width / 16 * 16;
  for (uint32_t i = 0; i < whole; i += 16) {
    const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  if (whole < width) {  // absent elements are zeros: fma(0, 0, lane) is the lane
    const int rest = static_cast<int>(width - whole);
    const __m256 a = _mm256_maskload_ps(x + whole, lanes_below(rest)), b = _mm256_maskload_ps(x + whole + 8, lanes_below(rest - 8));
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  const float mean = sum_lanes(low, high) / static_cast<float>(width);
  const __m256 scale = _mm256_div_ps(_mm256_set1_ps(1.0f), _mm256_sqrt_ps(_mm256_set1_ps(mean + eps)));
  for (uint32_t i = 0; i < width; i += 8) {
    const __m256i mask = lanes_below(width - i < 8 ? static_cast<int>(width - i) : 8);
    const __m256 normal = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), scale);
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(normal, _mm256_maskload_ps(weight + i, mask)));
  }
}

void silu_mul_row(const float* gate, const float* up, uint32_t width, float* out) { act_mul_row<silu_mul>(gate, up, width, out); }

void gelu_mul_row(const float* gate, const float* up, uint32_t width, float* out) { act_mul_row<gelu_mul>(gate, up, width, out); }

void softcap_row(float cap, uint32_t n, float* x) {
  const __m256 caps = _mm256_set1_ps(cap);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(x + i, softcap_ps(_mm256_loadu_ps(x + i), caps));
  if (i < n) {
    const __m256i mask = lanes_below(static_cast<int>(n - i));
    _mm256_maskstore_ps(x + i, mask, softcap_ps(_mm256_maskload_ps(x + i, mask), caps));
  }
}

void add_scaled_row(float factor, const float* y, uint32_t n, float* x) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i mask = lanes_below(n - i < 8 ? static_cast<int>(n - i) : 8);
    _mm256_maskstore_ps(x + i, mask, _mm256_fmadd_ps(factors, _mm256_maskload_ps(y + i, mask), _mm256_maskload_ps(x + i, mask)));
  }
}

void rope_head(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x) {
  uint32_t i = 0;
  if (interleaved) {
    for (; i + 4 <= pairs; i += 4) {
      const __m256 v = _mm256_loadu_ps(x + 2 * i);
      const __m128 c = _mm_loadu_ps(cos + i), s = _mm_loadu_ps(sin + i);
      const __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
      const __m256 sc = _mm256_set_m128(_mm_unpackhi_ps(s, c), _mm_unpacklo_ps(s, c));
      const __m256 x1 = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);  // even lanes x1 * s, odd ones x1 * c
      _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, x1));
    }
  } else {
    for (; i + 8 <= pairs; i += 8) {
      const __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + pairs + i);
      const __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
      _mm256_storeu_ps(x + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
      _mm256_storeu_ps(x + pairs + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)));
    }
  }
  for (; i < pairs; ++i) {
    float* a = interleaved ? x + 2 * i : x + i;
    float* b = interleaved ? a + 1 : a + pairs;
    const float x0 = *a, x1 = *b;
    *a = __builtin_fmaf(x0, cos[i], -(x1 * sin[i]));
    *b = __builtin_fmaf(x0, sin[i], x1 * cos[i]);
  }
}

void kv_row(KvFormat format, const float* x, uint32_t n, uint8_t* to, uint16_t* scale) {
  if (format != KvFormat::kF16) return scalar::kv_row(format, x, n, to, scale);
  auto* out = reinterpret_cast<uint16_t*>(to);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) out[i] = static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x[i]), _MM_FROUND_TO_NEAREST_INT)));
}

}  // namespace kvrt::avx2

namespace kvrt {

const CpuKernels* avx2_kernels() {
  static constexpr CpuKernels kTable = {"avx2",
                                        &avx2::kMatmul,
                                        avx2::quantize_row,
                                        avx2::rmsnorm_row,
                                        avx2::silu_mul_row,
                                        avx2::gelu_mul_row,
                                        avx2::softcap_row,
                                        avx2::add_scaled_row,
                                        avx2::rope_head,
                                        avx2::kv_row,
                                        avx2::attend_span,
                                        avx2::merge_span,
                                        avx2::finish_row};
  return &kTable;
}

}  // namespace kvrt
