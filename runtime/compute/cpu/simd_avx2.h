// Simd for AVX2, FMA and F16C: 8 lanes. See simd.h.
#pragma once

#include "runtime/compute/cpu/simd.h"

namespace kvrt::avx2 {

struct Simd {
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kRegisters = 16;
  using F = __m256;
  using I = __m256i;     // integers in 32-bit lanes
  using Mask = __m256;   // all ones or all zeros, lane by lane
  using Half = __m128i;  // kLanes f16 or bf16

  KVRT_INLINE F zero() { return _mm256_setzero_ps(); }
  KVRT_INLINE F set1(float x) { return _mm256_set1_ps(x); }
  KVRT_INLINE F broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  KVRT_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  KVRT_INLINE void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  // The first n lanes, n of any size: below 1 none, from kLanes on all. Lanes that are not loaded are +0.
  KVRT_INLINE F load_n(const float* p, int n) { return _mm256_maskload_ps(p, int_lanes(n)); }
  KVRT_INLINE void store_n(float* p, int n, F v) {
    n >= 8 ? store(p, v) : _mm256_maskstore_ps(p, int_lanes(n), v);  // AMD's masked stores take a dozen cycles
  }

  KVRT_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
  KVRT_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  KVRT_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  KVRT_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
  KVRT_INLINE F sqrt(F a) { return _mm256_sqrt_ps(a); }
  KVRT_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }          // a * b + c
  KVRT_INLINE F fmsub(F a, F b, F c) { return _mm256_fmsub_ps(a, b, c); }        // a * b - c
  KVRT_INLINE F fmaddsub(F a, F b, F c) { return _mm256_fmaddsub_ps(a, b, c); }  // even lanes - c, odd ones + c
  KVRT_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }                    // a > b ? a : b: with a NaN, b
  KVRT_INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }                    // a < b ? a : b: with a NaN, b
  KVRT_INLINE F abs(F a) { return _mm256_andnot_ps(set1(-0.0f), a); }
  KVRT_INLINE F negative_abs(F a) { return _mm256_or_ps(set1(-0.0f), a); }
  KVRT_INLINE F with_sign_of(F magnitude, F from) { return _mm256_or_ps(magnitude, _mm256_and_ps(set1(-0.0f), from)); }  // magnitude >= +0

  KVRT_INLINE Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  KVRT_INLINE Mask first_lanes(int n) { return _mm256_castsi256_ps(int_lanes(n)); }
  KVRT_INLINE Mask and_not(Mask a, Mask b) { return _mm256_andnot_ps(b, a); }  // a and not b
  KVRT_INLINE F select(Mask m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }
  KVRT_INLINE F keep(Mask m, F a) { return _mm256_and_ps(m, a); }  // elsewhere +0

  KVRT_INLINE I set1_int(int x) { return _mm256_set1_epi32(x); }
  KVRT_INLINE I round_to_int(F a) { return _mm256_cvtps_epi32(a); }  // ties to even
  KVRT_INLINE F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  // p * 2^n, the result normal, n whole; shifted = n + 1.5 * 2^23, whose low bits are n's. A NaN p stays one, whatever n is then.
  KVRT_INLINE F times_power_of_two(F p, F, F shifted) {
    const I power = _mm256_add_epi32(set1_int(0x3f800000), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
  }

  // kLanes values from or to another type.
  KVRT_INLINE Half load_half(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  KVRT_INLINE F load_f16(const void* p) { return _mm256_cvtph_ps(load_half(p)); }
  KVRT_INLINE F load_bf16(const void* p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p)), 16)); }
  KVRT_INLINE I load_i8_int(const void* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))); }
  KVRT_INLINE F load_i8(const void* p) { return to_float(load_i8_int(p)); }
  KVRT_INLINE F load_e4m3(const void* p) {  // over 256: as f16, whose bits they have one place up, but for the sign
    static constexpr uint16_t kMask[8] = {0xbfff, 0xbfff, 0xbfff, 0xbfff, 0xbfff, 0xbfff, 0xbfff, 0xbfff};
    Half bits = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(p))), 7);
    asm("vpand %1, %0, %0" : "+x"(bits) : "m"(kMask));  // from memory: tiles have no register for it
    return _mm256_cvtph_ps(bits);
  }
  // The elements of 16 cells of int4: low[2] those in the low four bits, high[2] the others.
  KVRT_INLINE void load_pairs(const void* p, F* low, F* high) {
    const __m128i levels = _mm_load_si128(reinterpret_cast<const __m128i*>(kInt4Levels));
    const __m128i cells = _mm_loadu_si128(static_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15);
    const __m128i below = _mm_shuffle_epi8(levels, _mm_and_si128(cells, mask));
    const __m128i above = _mm_shuffle_epi8(levels, _mm_and_si128(_mm_srli_epi16(cells, 4), mask));
    low[0] = to_float(_mm256_cvtepi8_epi32(below));
    low[1] = to_float(_mm256_cvtepi8_epi32(_mm_srli_si128(below, 8)));
    high[0] = to_float(_mm256_cvtepi8_epi32(above));
    high[1] = to_float(_mm256_cvtepi8_epi32(_mm_srli_si128(above, 8)));
  }
  KVRT_INLINE void store_f16(void* p, F v) {  // to nearest even
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  KVRT_INLINE void store_bf16(void* p, F v) {  // to nearest even; a NaN stays one
    const I bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), set1_int(1));
    const I rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, set1_int(0x7fff))), 16);
    const I nan = _mm256_or_si256(_mm256_srli_epi32(bits, 16), set1_int(0x40));
    const I is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)), out = _mm256_blendv_epi8(rounded, nan, is_nan);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi32(_mm256_castsi256_si128(out), _mm256_extracti128_si256(out, 1)));
  }
  KVRT_INLINE void store_e4m3(void* p, F v) {  // to nearest even, |v| <= 448; below 2^-6 in steps of 2^-9, which adding 2^14 rounds to
    const F magnitude = abs(v);
    const I bits = _mm256_castps_si256(magnitude), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), set1_int(1));
    const I rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, set1_int(0x7ffff))), 20);
    const I normal = _mm256_sub_epi32(rounded, set1_int((127 - 7) << 3));
    const I small = _mm256_sub_epi32(_mm256_castps_si256(add(magnitude, set1(0x1p14f))), set1_int((127 + 14) << 23));
    const I is_small = _mm256_castps_si256(less(magnitude, set1(0x1p-6f))), out = _mm256_blendv_epi8(normal, small, is_small);
    const I sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(v), 24), set1_int(0x80)), all = _mm256_or_si256(out, sign);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(words, words));
  }
  KVRT_INLINE void store_i8(void* p, I v) {  // lanes within [-128, 127]
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  KVRT_INLINE uint16_t to_f16(float x) {
    return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT)));
  }
  KVRT_INLINE float from_f16(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

  KVRT_INLINE float first(F v) { return _mm256_cvtss_f32(v); }
  KVRT_INLINE float max_lanes(F v) {  // v has no NaN
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  KVRT_INLINE int sum_int_lanes(I v) {
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
  }
  KVRT_INLINE I add_int(I a, I b) { return _mm256_add_epi32(a, b); }

  // Within pairs of lanes (2i, 2i + 1).
  KVRT_INLINE F even_lanes_twice(F v) { return _mm256_moveldup_ps(v); }
  KVRT_INLINE F odd_lanes_twice(F v) { return _mm256_movehdup_ps(v); }
  // a[0] b[0] a[1] b[1] ... of kLanes / 2 each
  KVRT_INLINE F interleave(const float* a, const float* b) {
    const __m128 x = _mm_loadu_ps(a), y = _mm_loadu_ps(b);
    return _mm256_set_m128(_mm_unpackhi_ps(x, y), _mm_unpacklo_ps(x, y));
  }

  // 16 virtual lanes and their fixed tree (NUMERICS.md §0).
  struct Lanes16 {
    F v[2];
  };
  KVRT_INLINE Lanes16 zero16() { return {{zero(), zero()}}; }
  KVRT_INLINE float sum16(const Lanes16& lanes) {
    const F eight = add(lanes.v[0], lanes.v[1]);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  // Entry `index` of a table of 16.
  KVRT_INLINE F look_up(const float* table, I index) {
    const F low = _mm256_permutevar8x32_ps(load(table), index), high = _mm256_permutevar8x32_ps(load(table + 8), index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  }
  KVRT_INLINE I select_int(Mask m, I yes, I no) { return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m)); }

  // Keeps g++ from hoisting all loads of an unrolled block and spilling the accumulators. Only inside a fully unrolled block:
  // in a rolled loop it forces them to the stack instead.
  KVRT_INLINE void pin(F& v) { asm volatile("" : "+x"(v)); }
  KVRT_INLINE void pin(I& v) { asm volatile("" : "+x"(v)); }

 private:
  KVRT_INLINE I int_lanes(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
};

}  // namespace kvrt::avx2
