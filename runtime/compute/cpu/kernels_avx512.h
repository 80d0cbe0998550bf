// Code that all AVX-512 files share. Nothing here may be an ordinary inline function: see simd.h.
#pragma once

#include "runtime/compute/cpu/simd_avx512.h"

namespace kvrt::avx512 {

extern const MatmulTable kMatmul;
inline constexpr uint32_t kColumnGroup = 8;  // columns of a tile of quantized matmul
void attend_span(const AttentionTile& tile);

}  // namespace kvrt::avx512
