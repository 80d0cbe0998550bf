// Code that all AVX2 files share. Nothing here may be an ordinary inline function: see simd.h.
#pragma once

#include "runtime/compute/cpu/simd_avx2.h"

namespace kvrt::avx2 {

extern const MatmulTable kMatmul;
inline constexpr uint32_t kColumnGroup = 4;  // columns of a tile of quantized matmul
void attend_span(const AttentionTile& tile);

}  // namespace kvrt::avx2
