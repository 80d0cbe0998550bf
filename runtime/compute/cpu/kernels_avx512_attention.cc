// AVX-512 attention.
#include "runtime/compute/cpu/attention_latent.h"
#include "runtime/compute/cpu/kernels_avx2.h"
#include "runtime/compute/cpu/kernels_avx512.h"

namespace kvrt::avx512 {

// V's dimensions in lanes: half a vector of them is AVX2's work.
void attend_span(const AttentionTile& tile) {
  if (tile.v_dim % Simd::kLanes != 0) return avx2::attend_span(tile);
  tile.latent ? simd::attend_latents<Simd>(tile) : simd::attend_span<Simd>(tile);
}

}  // namespace kvrt::avx512
