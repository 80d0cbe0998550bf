// A kernel table over any Simd.
#pragma once

#include "runtime/compute/cpu/elementwise.h"
#include "runtime/compute/cpu/recurrence.h"

namespace kvrt::simd {

template <typename S>
constexpr CpuKernels kernel_table(const char* isa, const MatmulTable* matmul, uint32_t column_group,
                                  void (*attend_span)(const AttentionTile& tile)) {
  return {isa,
          matmul,
          column_group,
          quantize_row<S>,
          rmsnorm_row<S>,
          layernorm_row<S>,
          silu_mul_row<S>,
          gelu_mul_row<S>,
          clamped_swiglu_row<S>,
          gelu_row<S>,
          softcap_row<S>,
          add_scaled_row<S>,
          rope_head<S>,
          kv_row<S>,
          attend_span,
          merge_span<S>,
          finish_row<S>,
          decay_row<S>,
          sigmoid_row<S>,
          silu_row<S>,
          unit_row<S>,
          conv_rows<S>,
          scan_head<S>,
          delta_head<S>};
}

}  // namespace kvrt::simd
