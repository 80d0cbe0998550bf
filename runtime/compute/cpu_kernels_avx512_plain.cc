// AVX-512 matmul on F16, BF16 and F32 panels.
#include "runtime/compute/cpu_kernels_avx512.h"
#include "runtime/compute/cpu_matmul_plain.h"

namespace kvrt::avx512 {

void matmul_f16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  simd::plain_matmul<Simd, simd::PlainF16>(args, panel_begin, panel_end, column_begin, column_end);
}

void matmul_bf16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  simd::plain_matmul<Simd, simd::PlainBf16>(args, panel_begin, panel_end, column_begin, column_end);
}

void matmul_f32(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  simd::plain_matmul<Simd, simd::PlainF32>(args, panel_begin, panel_end, column_begin, column_end);
}

}  // namespace kvrt::avx512
