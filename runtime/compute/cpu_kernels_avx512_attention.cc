#include "runtime/compute/cpu_kernels_avx2.h"
#include "runtime/compute/cpu_kernels_avx512.h"
namespace kvrt::avx512 {
void attend_span(const AttentionTile& tile) { avx2::attend_span(tile); }
void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  avx2::merge_span(head_dim, max, sum, acc, max2, sum2, acc2);
}
void finish_row(uint32_t head_dim, float sum, const float* acc, float* out) { avx2::finish_row(head_dim, sum, acc, out); }
}  // namespace kvrt::avx512
