// Scalar attention: the definition (NUMERICS.md §7).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt::scalar {
namespace {

constexpr float kF16Max = 65504.0f;

template <KvFormat format>
float element(const uint8_t* row, uint64_t i) {
  const uint8_t* at = row + i * kv_elem_bytes(format);
  switch (format) {
    case KvFormat::kF16:
      return f16_to_f32(load<uint16_t>(at));
    case KvFormat::kBF16:
      return bf16_to_f32(load<uint16_t>(at));
    case KvFormat::kF32:
      return load<float>(at);
    case KvFormat::kI8:
      return load<int8_t>(at);
    case KvFormat::kF8:
      return f16_to_f32(fp8_as_f16(*at));
  }
}

// The block of the span's position j, where `base` points into block 0.
const uint8_t* block_at(const AttentionTile& tile, const uint8_t* base, uint32_t j) {
  return base + static_cast<uint64_t>(tile.blocks[j / tile.block_tokens]) * tile.block_bytes;
}

float scale_at(const AttentionTile& tile, const uint8_t* scales, uint32_t j) {
  return f16_to_f32(load<uint16_t>(block_at(tile, scales, j) + kKvScaleBytes * (j % tile.block_tokens)));
}

// scores[j] of the span's positions [first, end); returns their maximum.
template <KvFormat format>
float score_keys(const AttentionTile& tile, const float* q, uint32_t first, uint32_t end, float* scores) {
  float max = -INFINITY;
  for (uint32_t j = first; j < end; ++j) {
    const uint8_t* k = block_at(tile, tile.k, j);
    const uint64_t slot = j % tile.block_tokens, at = tile.latent ? slot * tile.k_dim : slot, line = tile.latent ? 1 : tile.block_tokens;
    float dot = 0;
    for (uint32_t d = 0; d < tile.k_dim; ++d) dot = std::fmaf(q[d], element<format>(k, at + d * line), dot);
    if (kv_scaled(format)) dot = dot * scale_at(tile, tile.k_scales, j);
    scores[j] = dot * tile.scale;
    if (tile.softcap > 0) softcap_row(tile.softcap, 1, scores + j);
    max = scores[j] > max ? scores[j] : max;
  }
  return max;
}

// acc += weights[j] * V of position j, for the span's positions [first, end).
template <KvFormat format>
void add_values(const AttentionTile& tile, const float* weights, uint32_t first, uint32_t end, float* acc) {
  for (uint32_t j = first; j < end; ++j) {
    const uint8_t* v = block_at(tile, tile.v, j);
    const uint64_t row_at = uint64_t{j % tile.block_tokens} * tile.v_line();
    const float weight = kv_scaled(format) ? weights[j] * scale_at(tile, tile.v_scales, j) : weights[j];
    for (uint32_t d = 0; d < tile.v_dim; ++d) acc[d] = std::fmaf(weight, element<format>(v, row_at + d), acc[d]);
  }
}

// Calls fn.operator()<F>() with `format` as F.
template <typename Fn>
void with_format(KvFormat format, const Fn& fn) {
  switch (format) {
    case KvFormat::kF16:
      return fn.template operator()<KvFormat::kF16>();
    case KvFormat::kBF16:
      return fn.template operator()<KvFormat::kBF16>();
    case KvFormat::kF32:
      return fn.template operator()<KvFormat::kF32>();
    case KvFormat::kI8:
      return fn.template operator()<KvFormat::kI8>();
    case KvFormat::kF8:
      return fn.template operator()<KvFormat::kF8>();
  }
}

// put(v) of v = x_i * unit / scale, within ±top * unit (NUMERICS.md §7).
template <typename Put>
uint16_t scaled_row(float top, float unit, const float* x, uint32_t n, uint8_t* out, Put put) {
  float max = 0;
  for (uint32_t i = 0; i < n; ++i) max = std::fabs(x[i]) > max ? std::fabs(x[i]) : max;
  const float wanted = max / top, most = top * unit;
  const uint16_t scale = f32_to_f16(wanted < kF16Max ? wanted : kF16Max);
  const float inverse = scale > 0 ? unit / f16_to_f32(scale) : 0.0f;
  for (uint32_t i = 0; i < n; ++i) {
    float v = x[i] * inverse;
    v = v < most ? v : most;
    v = v > -most ? v : -most;
    out[i] = put(v);
  }
  return scale;
}
uint8_t to_int8(float v) { return static_cast<uint8_t>(static_cast<int8_t>((v + kRoundMagic) - kRoundMagic)); }

}  // namespace

void kv_row(KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale) {
  switch (format) {
    case KvFormat::kF16:
    case KvFormat::kBF16:
      for (uint32_t i = 0; i < n; ++i) {
        const uint16_t h = format == KvFormat::kF16 ? f32_to_f16(x[i]) : f32_to_bf16(x[i]);
        std::memcpy(out + 2 * i, &h, sizeof h);
      }
      return;
    case KvFormat::kF32:
      std::memcpy(out, x, n * sizeof *x);
      return;
    case KvFormat::kI8:
      *scale = scaled_row(top, 1, x, n, out, to_int8);
      return;
    case KvFormat::kF8:
      *scale = scaled_row(kFp8Top, kFp8Unit, x, n, out, f32_to_e4m3);
  }
}

void attend_span(const AttentionTile& tile) {
  for (uint32_t row = 0; row < tile.tokens * tile.group; ++row) {
    const uint32_t t = row / tile.group, g = row % tile.group;
    const int64_t last = tile.first_position + t - tile.span_first;  // it sees (last - window, last] of the span
    const auto first = static_cast<uint32_t>(std::clamp<int64_t>(last + 1 - tile.window, 0, kSpanTokens));
    const auto end = static_cast<uint32_t>(std::clamp<int64_t>(last + 1, 0, kSpanTokens));
    if (first == end) continue;
    const float* q = tile.q + t * tile.q_stride + g * tile.k_dim;
    float* p = tile.scratch + uint64_t{row} * kSpanTokens;
    float max = 0;
    with_format(tile.k_format, [&]<KvFormat format>() { max = score_keys<format>(tile, q, first, end, p); });
    float lanes[16] = {};
    for (uint32_t j = first; j < end; ++j) {
      p[j] = exp(p[j] - max);
      lanes[j % 16] = lanes[j % 16] + p[j];
    }
    float* acc = tile.acc + uint64_t{row} * tile.v_dim;
    std::fill_n(acc, tile.v_dim, 0.0f);
    with_format(tile.v_format, [&]<KvFormat format>() { add_values<format>(tile, p, first, end, acc); });
    tile.max[row] = max;
    tile.sum[row] = sum_lanes(lanes);
  }
}

void merge_span(uint32_t v_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  const float both = max2 > *max ? max2 : *max;
  const float a = exp(*max - both), b = exp(max2 - both);
  *sum = std::fmaf(*sum, a, sum2 * b);
  for (uint32_t d = 0; d < v_dim; ++d) acc[d] = std::fmaf(acc[d], a, acc2[d] * b);
  *max = both;
}

void finish_row(uint32_t v_dim, float sum, const float* acc, float* out) {
  const float inverse = 1.0f / sum;
  for (uint32_t d = 0; d < v_dim; ++d) out[d] = acc[d] * inverse;
}

}  // namespace kvrt::scalar

namespace kvrt {

const CpuKernels* scalar_kernels() {
  static const CpuKernels table = {"scalar",
                                   &scalar::kMatmul,
                                   1,
                                   scalar::quantize_row,
                                   scalar::rmsnorm_row,
                                   scalar::layernorm_row,
                                   scalar::silu_mul_row,
                                   scalar::gelu_mul_row,
                                   scalar::clamped_swiglu_row,
                                   scalar::gelu_row,
                                   scalar::softcap_row,
                                   scalar::add_scaled_row,
                                   scalar::rope_head,
                                   scalar::kv_row,
                                   scalar::attend_span,
                                   scalar::merge_span,
                                   scalar::finish_row,
                                   scalar::decay_row,
                                   scalar::sigmoid_row,
                                   scalar::silu_row,
                                   scalar::unit_row,
                                   scalar::conv_rows,
                                   scalar::scan_head,
                                   scalar::delta_head};
  return &table;
}

}  // namespace kvrt
