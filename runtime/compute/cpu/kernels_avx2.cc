// The AVX2 table.
#include "runtime/compute/cpu/kernels_avx2.h"
#include "runtime/compute/cpu/table.h"

namespace kvrt {

const CpuKernels* avx2_kernels() {
  static constexpr CpuKernels kTable = simd::kernel_table<avx2::Simd>("avx2", &avx2::kMatmul, avx2::kColumnGroup, avx2::attend_span);
  return &kTable;
}

}  // namespace kvrt
