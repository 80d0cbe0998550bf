// The AVX-512 table. A machine with AVX-512 has AVX2: what gains nothing from wider vectors is taken from that table.
#include "runtime/compute/cpu_kernels_avx512.h"

#include "runtime/compute/cpu_elementwise.h"
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt {
namespace {

template <DType type>
void quantized_of_avx2(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  avx2::kMatmul.by_type[static_cast<uint32_t>(type)](args, panel_begin, panel_end, column_begin, column_end);
}

template <DType type>
constexpr MatmulFn kernel() {
  if constexpr (type == DType::kF32) return avx512::matmul_f32;
  if constexpr (type == DType::kF16) return avx512::matmul_f16;
  if constexpr (type == DType::kBF16) return avx512::matmul_bf16;
  if constexpr (!is_plain(type)) return quantized_of_avx2<type>;
}

template <DType... types>
constexpr MatmulTable table(DTypeList<types...>) {
  MatmulTable t{};
  ((t.by_type[static_cast<uint32_t>(types)] = kernel<types>()), ...);
  return t;
}

}  // namespace

constinit const MatmulTable avx512::kMatmul = table(AllDTypes{});

const CpuKernels* avx512_kernels() {
  using avx512::Simd;
  static constexpr CpuKernels kTable = {"avx512",
                                        &avx512::kMatmul,
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
