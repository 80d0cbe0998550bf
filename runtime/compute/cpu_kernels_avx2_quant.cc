// The AVX2 matmul of every quantized type, and the table of all.
#include "runtime/compute/cpu_kernels_avx2_quant.h"

namespace kvrt::avx2 {
namespace {

template <DType type>
constexpr MatmulFn kernel() {
  if constexpr (type == DType::kF32) return matmul_f32;
  if constexpr (type == DType::kF16) return matmul_f16;
  if constexpr (type == DType::kBF16) return matmul_bf16;
  if constexpr (!is_plain(type)) return matmul_quantized<type>;
}

template <DType... types>
constexpr MatmulTable table(DTypeList<types...>) {
  MatmulTable t{};
  ((t.by_type[static_cast<uint32_t>(types)] = kernel<types>()), ...);
  return t;
}

}  // namespace

const MatmulTable kMatmul = table(AllDTypes{});

}  // namespace kvrt::avx2
