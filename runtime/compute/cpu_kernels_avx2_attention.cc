// AVX2 attention.
#include "runtime/compute/cpu_attention.h"
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {

void attend_span(const AttentionTile& tile) { simd::attend_span<Simd>(tile); }

void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  simd::merge_span<Simd>(head_dim, max, sum, acc, max2, sum2, acc2);
}

void finish_row(uint32_t head_dim, float sum, const float* acc, float* out) { simd::finish_row<Simd>(head_dim, sum, acc, out); }

}  // namespace kvrt::avx2
