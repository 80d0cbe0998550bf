// The AVX-512 table.
#include "runtime/compute/cpu/kernels_avx512.h"
#include "runtime/compute/cpu/table.h"

namespace kvrt {

const CpuKernels* avx512_kernels() {
  static constexpr CpuKernels kTable =
      simd::kernel_table<avx512::Simd>("avx512", &avx512::kMatmul, avx512::kColumnGroup, avx512::attend_span);
  return &kTable;
}

}  // namespace kvrt
