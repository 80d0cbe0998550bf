// The AVX-512 table.
#include "runtime/compute/cpu_kernels_avx512.h"

#include "runtime/compute/cpu_elementwise.h"

namespace kvrt {
const CpuKernels* avx512_kernels() {
  using avx512::Simd;
  static constexpr CpuKernels kTable = {"avx512",
                                        &avx512::kMatmul,
                                        avx512::kColumnGroup,
                                        simd::quantize_row<Simd>,
                                        simd::rmsnorm_row<Simd>,
                                        simd::silu_mul_row<Simd>,
                                        simd::gelu_mul_row<Simd>,
                                        simd::softcap_row<Simd>,
                                        simd::add_scaled_row<Simd>,
                                        simd::rope_head<Simd>,
                                        simd::kv_row<Simd>,
                                        avx512::attend_span,
                                        avx512::merge_span,
                                        avx512::finish_row};
  return &kTable;
}

}  // namespace kvrt
