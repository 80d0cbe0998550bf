// What the AVX2 files share. Everything here has internal linkage: were it an ordinary inline function, the linker might keep
// the copy compiled with AVX2 for the whole program. For the same reason these files use no STL and no other header's code.
#pragma once

#include <immintrin.h>

#include "runtime/compute/cpu_kernels.h"

// Unrolls the next loop whole: accumulators in an array stay in registers only if every index is a constant.
// Not under sanitizers: with a check at every access, unrolled tiles take the compiler minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVRT_UNROLL
#else
#define KVRT_UNROLL _Pragma("GCC unroll 32")
#endif
#define KVRT_INLINE [[gnu::always_inline]] static inline

namespace kvrt::avx2 {

KVRT_INLINE __m256 load_f16x8(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
KVRT_INLINE __m256i load_i8x32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// Four activations in every 32-bit lane.
KVRT_INLINE __m256i broadcast_word(const int8_t* p) {
  int word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

// Keeps g++ from hoisting all loads of an unrolled block and spilling the accumulators. Only inside a fully unrolled block:
// in a rolled loop it forces them to the stack instead.
KVRT_INLINE void pin(__m256i& v) { asm volatile("" : "+x"(v)); }

// exp(x), x ≤ 88; 0 below -64 (NUMERICS.md §1).
KVRT_INLINE __m256 exp_ps(__m256 x) {
  const __m256 magic = _mm256_set1_ps(12582912.0f);
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), magic);
  const __m256 n = _mm256_sub_ps(shifted, magic);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e4p-1f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
  p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
  const __m256i bias = _mm256_set1_epi32(127 - 0x4b400000);  // 0x4b400000: the bits of magic
  const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(shifted), bias), 23);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(exponent));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-64.0f), _CMP_LT_OQ), p);
}

// tanh(x) (NUMERICS.md §1).
KVRT_INLINE __m256 tanh_ps(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f), a = _mm256_andnot_ps(sign, x), z = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(-0x1.75e1cap-8f);
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(0x1.52269ap-6f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-0x1.b83c5ap-5f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(0x1.110726p-3f));
  p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-0x1.555532p-2f));
  const __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
  const __m256 e = exp_ps(_mm256_mul_ps(_mm256_set1_ps(-2.0f), a));
  const __m256 far = _mm256_sub_ps(one, _mm256_div_ps(_mm256_add_ps(e, e), _mm256_add_ps(one, e)));
  const __m256 signed_far = _mm256_or_ps(far, _mm256_and_ps(sign, x));
  return _mm256_blendv_ps(signed_far, near, _mm256_cmp_ps(a, _mm256_set1_ps(0.625f), _CMP_LT_OQ));
}

// cap * tanh(x / cap)
KVRT_INLINE __m256 softcap_ps(__m256 x, __m256 cap) { return _mm256_mul_ps(cap, tanh_ps(_mm256_div_ps(x, cap))); }

// The fixed tree over 16 lanes: i + 8, then i + 4, i + 2, i + 1.
KVRT_INLINE float sum_lanes(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// One lane of exp_ps: the same bits as any other lane.
KVRT_INLINE float exp_one(float x) { return _mm256_cvtss_f32(exp_ps(_mm256_set1_ps(x))); }

// Lanes below n (0..8) all ones.
KVRT_INLINE __m256i lanes_below(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

// Stores a column of one panel's 16 chains: bias after the chain, then the sum with what is there, each rounded once.
KVRT_INLINE void store_column(const MatmulArgs& args, uint32_t panel, uint32_t column, __m256 low, __m256 high) {
  const uint32_t first = panel * kPanelRows;
  const int rows = args.rows - first < kPanelRows ? static_cast<int>(args.rows - first) : static_cast<int>(kPanelRows);
  const __m256i mask_low = lanes_below(rows), mask_high = lanes_below(rows - 8);
  float* out = args.out + column * args.out_stride + first;
  if (args.bias) {
    low = _mm256_add_ps(low, _mm256_maskload_ps(args.bias + first, mask_low));
    high = _mm256_add_ps(high, _mm256_maskload_ps(args.bias + first + 8, mask_high));
  }
  if (args.accumulate) {
    low = _mm256_add_ps(_mm256_maskload_ps(out, mask_low), low);
    high = _mm256_add_ps(_mm256_maskload_ps(out + 8, mask_high), high);
  }
  _mm256_maskstore_ps(out, mask_low, low);
  _mm256_maskstore_ps(out + 8, mask_high, high);
}

void matmul_f16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
void matmul_bf16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
void matmul_f32(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
extern const MatmulTable kMatmul;
void quantize_row(const float* x, uint32_t k, const QuantRows& out);
void rmsnorm_row(const float* x, const float* weight, float eps, uint32_t width, float* out);
void silu_mul_row(const float* gate, const float* up, uint32_t width, float* out);
void gelu_mul_row(const float* gate, const float* up, uint32_t width, float* out);
void softcap_row(float cap, uint32_t n, float* x);
void add_scaled_row(float factor, const float* y, uint32_t n, float* x);
void rope_head(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x);
void kv_row(KvFormat format, const float* x, uint32_t n, uint8_t* out, uint16_t* scale);
void attend_span(const AttentionTile& tile);
void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
void finish_row(uint32_t head_dim, float sum, const float* acc, float* out);

}  // namespace kvrt::avx2
