// What the AVX2 files share. Nothing here may be an ordinary inline function: see cpu_simd.h.
#pragma once

#include "runtime/compute/cpu_simd_avx2.h"

namespace kvrt::avx2 {

void matmul_f16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
void matmul_bf16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
void matmul_f32(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
extern const MatmulTable kMatmul;
inline constexpr uint32_t kColumnGroup = 4;  // columns of a tile of quantized matmul
void attend_span(const AttentionTile& tile);
void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
void finish_row(uint32_t head_dim, float sum, const float* acc, float* out);

}  // namespace kvrt::avx2
