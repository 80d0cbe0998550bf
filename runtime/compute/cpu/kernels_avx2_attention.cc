// AVX2 attention.
#include "runtime/compute/cpu/attention_latent.h"
#include "runtime/compute/cpu/kernels_avx2.h"

namespace kvrt::avx2 {

void attend_span(const AttentionTile& tile) { tile.latent ? simd::attend_latents<Simd>(tile) : simd::attend_span<Simd>(tile); }

}  // namespace kvrt::avx2
