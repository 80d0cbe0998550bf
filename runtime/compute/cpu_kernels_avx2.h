// What the AVX2 files share. Nothing here may be an ordinary inline function: see cpu_simd.h.
#pragma once

#include "runtime/compute/cpu_simd_avx2.h"

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
inline constexpr uint32_t kColumnGroup = 4;
void attend_span(const AttentionTile& tile);
void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
void finish_row(uint32_t head_dim, float sum, const float* acc, float* out);

}  // namespace kvrt::avx2
