// Scalar attention: the definition (NUMERICS.md §7).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/compute/cpu_kernels_scalar.h"
#include "runtime/compute/quants.h"

namespace kvrt::scalar {
namespace {

float load_f16(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return f16_to_f32(h);
}

// scores[j] of the span's positions [first, end); returns their maximum.
float score_keys(const AttentionTile& tile, const float* q, uint32_t first, uint32_t end, float* scores) {
  float max = -INFINITY;
  for (uint32_t j = first; j < end; ++j) {
    const uint32_t slot = j % tile.block_tokens;
    const uint8_t* k = tile.k + static_cast<uint64_t>(tile.blocks[j / tile.block_tokens]) * tile.block_bytes + 2 * slot;
    float dot = 0;
    for (uint32_t d = 0; d < tile.head_dim; ++d) dot = std::fmaf(q[d], load_f16(k + uint64_t{2} * d * tile.block_tokens), dot);
    scores[j] = dot * tile.scale;
    if (tile.softcap > 0) softcap_row(tile.softcap, 1, scores + j);
    max = scores[j] > max ? scores[j] : max;
  }
  return max;
}

}  // namespace

void attend_span(const AttentionTile& tile) {
  for (uint32_t row = 0; row < tile.tokens * tile.group; ++row) {
    const uint32_t t = row / tile.group, g = row % tile.group;
    const int64_t last = tile.first_position + t - tile.span_first;  // it sees (last - window, last] of the span
    const auto first = static_cast<uint32_t>(std::clamp<int64_t>(last + 1 - tile.window, 0, kSpanTokens));
    const auto end = static_cast<uint32_t>(std::clamp<int64_t>(last + 1, 0, kSpanTokens));
    if (first == end) continue;
    float* p = tile.scratch + uint64_t{row} * kSpanTokens;
    const float max = score_keys(tile, tile.q + t * tile.q_stride + g * tile.head_dim, first, end, p);
    float lanes[16] = {};
    for (uint32_t j = first; j < end; ++j) {
      p[j] = exp(p[j] - max);
      lanes[j % 16] = lanes[j % 16] + p[j];
    }
    float* acc = tile.acc + uint64_t{row} * tile.head_dim;
    std::fill_n(acc, tile.head_dim, 0.0f);
    for (uint32_t j = first; j < end; ++j) {
      const uint64_t block = static_cast<uint64_t>(tile.blocks[j / tile.block_tokens]);
      const uint8_t* v = tile.v + block * tile.block_bytes + uint64_t{2} * (j % tile.block_tokens) * tile.head_dim;
      for (uint32_t d = 0; d < tile.head_dim; ++d) acc[d] = std::fmaf(p[j], load_f16(v + 2 * d), acc[d]);
    }
    tile.max[row] = max;
    tile.sum[row] = sum_lanes(lanes);
  }
}

void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  const float both = max2 > *max ? max2 : *max;
  const float a = exp(*max - both), b = exp(max2 - both);
  *sum = std::fmaf(*sum, a, sum2 * b);
  for (uint32_t d = 0; d < head_dim; ++d) acc[d] = std::fmaf(acc[d], a, acc2[d] * b);
  *max = both;
}

void finish_row(uint32_t head_dim, float sum, const float* acc, float* out) {
  const float inverse = 1.0f / sum;
  for (uint32_t d = 0; d < head_dim; ++d) out[d] = acc[d] * inverse;
}

}  // namespace kvrt::scalar

namespace kvrt {

const CpuKernels* scalar_kernels() {
  static const CpuKernels table = {"scalar",
                                   &scalar::kMatmul,
                                   scalar::quantize_row,
                                   scalar::rmsnorm_row,
                                   scalar::silu_mul_row,
                                   scalar::gelu_mul_row,
                                   scalar::softcap_row,
                                   scalar::add_scaled_row,
                                   scalar::rope_head,
                                   scalar::f32_to_f16_row,
                                   scalar::attend_span,
                                   scalar::merge_span,
                                   scalar::finish_row};
  return &table;
}

}  // namespace kvrt
