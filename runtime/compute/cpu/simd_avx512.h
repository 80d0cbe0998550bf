// Simd for AVX-512 F, BW and VL: 16 lanes. See simd.h, and simd_avx2.h for the promise of each function.
#pragma once

#include "runtime/compute/cpu/simd.h"

namespace kvrt::avx512 {

struct Simd {
  static constexpr uint32_t kLanes = 16;
  static constexpr uint32_t kRegisters = 32;
  using F = __m512;
  using I = __m512i;
  using Mask = __mmask16;
  using Half = __m256i;

  KVRT_INLINE F zero() { return _mm512_setzero_ps(); }
  KVRT_INLINE F set1(float x) { return _mm512_set1_ps(x); }
  KVRT_INLINE F broadcast(const float* p) { return _mm512_set1_ps(*p); }
  KVRT_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  KVRT_INLINE void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  KVRT_INLINE F load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
  KVRT_INLINE void store_n(float* p, int n, F v) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

  KVRT_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  KVRT_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  KVRT_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  KVRT_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  KVRT_INLINE F sqrt(F a) { return _mm512_sqrt_ps(a); }
  KVRT_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  KVRT_INLINE F fmsub(F a, F b, F c) { return _mm512_fmsub_ps(a, b, c); }
  KVRT_INLINE F fmaddsub(F a, F b, F c) { return _mm512_fmaddsub_ps(a, b, c); }
  KVRT_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  KVRT_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  KVRT_INLINE F abs(F a) { return bits_andnot(set1(-0.0f), a); }
  KVRT_INLINE F negative_abs(F a) { return bits_or(set1(-0.0f), a); }
  KVRT_INLINE F with_sign_of(F magnitude, F from) {
    const I sign = _mm512_and_si512(_mm512_castps_si512(set1(-0.0f)), _mm512_castps_si512(from));
    return bits_or(magnitude, _mm512_castsi512_ps(sign));
  }

  KVRT_INLINE Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  KVRT_INLINE Mask first_lanes(int n) { return static_cast<Mask>(n <= 0 ? 0u : n >= 16 ? 0xffffu : (1u << n) - 1u); }
  KVRT_INLINE Mask and_not(Mask a, Mask b) { return static_cast<Mask>(a & ~b); }
  KVRT_INLINE F select(Mask m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
  KVRT_INLINE F keep(Mask m, F a) { return _mm512_maskz_mov_ps(m, a); }

  KVRT_INLINE I set1_int(int x) { return _mm512_set1_epi32(x); }
  KVRT_INLINE I round_to_int(F a) { return _mm512_cvtps_epi32(a); }
  KVRT_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  KVRT_INLINE F times_power_of_two(F p, F n, F) { return _mm512_scalef_ps(p, n); }

  KVRT_INLINE Half load_half(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  KVRT_INLINE F load_f16(const void* p) { return _mm512_cvtph_ps(load_half(p)); }
  KVRT_INLINE F load_bf16(const void* p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(p)), 16)); }
  KVRT_INLINE I load_i8_int(const void* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
  KVRT_INLINE F load_i8(const void* p) { return to_float(load_i8_int(p)); }
  KVRT_INLINE F load_e4m3(const void* p) {
    static constexpr uint64_t kMask = 0xbfffbfffbfffbfff;
    Half bits = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 7);
    asm("vpandq %1%{1to4%}, %0, %0" : "+v"(bits) : "m"(kMask));
    return _mm512_cvtph_ps(bits);
  }
  KVRT_INLINE void load_pairs(const void* p, F* low, F* high) {
    const F levels = load(kInt4Entries);
    const I codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));  // of an index the low four bits count
    *low = _mm512_permutexvar_ps(codes, levels);
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), levels);
  }
  KVRT_INLINE void store_f16(void* p, F v) { _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
  KVRT_INLINE void store_bf16(void* p, F v) {
    const I bits = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), set1_int(1));
    const I rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, set1_int(0x7fff))), 16);
    const I nan = _mm512_or_si512(_mm512_srli_epi32(bits, 16), set1_int(0x40));
    const I out = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, nan);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(out));
  }
  KVRT_INLINE void store_e4m3(void* p, F v) {
    const F magnitude = abs(v);
    const I bits = _mm512_castps_si512(magnitude), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), set1_int(1));
    const I rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, set1_int(0x7ffff))), 20);
    const I normal = _mm512_sub_epi32(rounded, set1_int((127 - 7) << 3));
    const I small = _mm512_sub_epi32(_mm512_castps_si512(add(magnitude, set1(0x1p14f))), set1_int((127 + 14) << 23));
    const I out = _mm512_mask_blend_epi32(less(magnitude, set1(0x1p-6f)), normal, small);
    const I sign = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(v), 24), set1_int(0x80));
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_or_si512(out, sign)));
  }
  KVRT_INLINE void store_i8(void* p, I v) { _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v)); }
  KVRT_INLINE uint16_t to_f16(float x) {
    return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT)));
  }
  KVRT_INLINE float from_f16(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

  KVRT_INLINE float first(F v) { return _mm512_cvtss_f32(v); }
  KVRT_INLINE float max_lanes(F v) { return _mm512_reduce_max_ps(v); }
  KVRT_INLINE int sum_int_lanes(I v) { return _mm512_reduce_add_epi32(v); }
  KVRT_INLINE I add_int(I a, I b) { return _mm512_add_epi32(a, b); }

  KVRT_INLINE F even_lanes_twice(F v) { return _mm512_moveldup_ps(v); }
  KVRT_INLINE F odd_lanes_twice(F v) { return _mm512_movehdup_ps(v); }
  KVRT_INLINE F interleave(const float* a, const float* b) {
    const I order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(_mm256_loadu_ps(a)), order, _mm512_castps256_ps512(_mm256_loadu_ps(b)));
  }

  struct Lanes16 {
    F v[1];
  };
  KVRT_INLINE Lanes16 zero16() { return {{zero()}}; }
  KVRT_INLINE float sum16(const Lanes16& lanes) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(lanes.v[0]), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes.v[0]), high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  // Entry `index` of a table of 16.
  KVRT_INLINE F look_up(const float* table, I index) { return _mm512_permutexvar_ps(index, load(table)); }
  KVRT_INLINE I select_int(Mask m, I yes, I no) { return _mm512_mask_blend_epi32(m, no, yes); }

  KVRT_INLINE void pin(F& v) { asm volatile("" : "+v"(v)); }
  KVRT_INLINE void pin(I& v) { asm volatile("" : "+v"(v)); }

 private:
  // Logic on integers: the forms for floats need DQ.
  KVRT_INLINE F bits_andnot(F a, F b) { return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_castps_si512(a), _mm512_castps_si512(b))); }
  KVRT_INLINE F bits_or(F a, F b) { return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(a), _mm512_castps_si512(b))); }
};

}  // namespace kvrt::avx512
