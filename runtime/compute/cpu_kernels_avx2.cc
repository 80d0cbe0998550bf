// The AVX2 table.
#include "runtime/compute/cpu_kernels_avx2.h"
#include "runtime/compute/cpu_elementwise.h"

namespace kvrt {

const CpuKernels* avx2_kernels() {
  using avx2::Simd;
  static constexpr CpuKernels kTable = {"avx2",
                                        &avx2::kMatmul,
                                        avx2::kColumnGroup,
                                        simd::quantize_row<Simd>,
                                        simd::rmsnorm_row<Simd>,
                                        simd::silu_mul_row<Simd>,
                                        simd::gelu_mul_row<Simd>,
                                        simd::softcap_row<Simd>,
                                        simd::add_scaled_row<Simd>,
                                        simd::rope_head<Simd>,
                                        simd::kv_row<Simd>,
                                        avx2::attend_span,
                                        avx2::merge_span,
                                        avx2::finish_row};
  return &kTable;
}

}  // namespace kvrt
