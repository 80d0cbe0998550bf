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

// Where an element lies in its row, and the scale of it.
struct RowAt {
  uint64_t cell;
  bool high;       // int4: of the cell's two elements the one above
  uint32_t scale;  // of the row's
};
template <KvFormat format>
RowAt row_at(uint32_t d) {
  if (format != KvFormat::kI4) return {d, false, 0};
  const uint32_t half = kInt4Group / 2, in_group = d % kInt4Group;
  return {uint64_t{d} / kInt4Group * half + in_group % half, in_group >= half, d / kInt4Group};
}

template <KvFormat format>
float element(const uint8_t* at, bool high) {
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
    case KvFormat::kI4:
      return kInt4Levels[high ? *at >> 4 : *at & 15];
  }
}

// The block of the span's position j, where `base` points into block 0.
const uint8_t* block_at(const AttentionTile& tile, const uint8_t* base, uint32_t j) {
  return base + static_cast<uint64_t>(tile.blocks[j / tile.block_tokens]) * tile.block_bytes;
}

// A row's scale number `i`.
float scale_at(const AttentionTile& tile, const uint8_t* scales, uint32_t j, uint32_t i) {
  return f16_to_f32(load<uint16_t>(block_at(tile, scales, j) + kKvScaleBytes * (uint64_t{i} * tile.block_tokens + j % tile.block_tokens)));
}

// A score of the span's position j and what the bias that K is stored without gives.
float with_bias(const AttentionTile& tile, const float* bias, uint32_t j, float score) {
  for (uint32_t i = 0; i < tile.bias.pairs; ++i) {
    const uint64_t pair = tile.bias.pair(i);
    const float* turn = tile.bias.turns + 2 * pair;
    const float along = bias[2 * i], across = bias[2 * i + 1];
    const float* cos = tile.bias.offsets + 2 * pair * kSpanTokens;
    score = std::fmaf(std::fmaf(along, turn[0], across * turn[1]), cos[j], score);
    score = std::fmaf(std::fmaf(across, turn[0], -(along * turn[1])), cos[kSpanTokens + j], score);
  }
  return score;
}

// q·k of position j. int4: of each group, times its scale; a latent's elements are times it, in their own order.
template <KvFormat format>
float dot_key(const AttentionTile& tile, const float* q, uint32_t j) {
  const uint64_t slot = j % tile.block_tokens, line = tile.latent ? 1 : tile.block_tokens, at = tile.latent ? slot * tile.k_cells() : slot;
  const uint8_t* k = block_at(tile, tile.k, j);
  const auto value = [&](uint32_t d) {
    const RowAt row = row_at<format>(d);
    return element<format>(k + (at + row.cell * line) * kv_cell_bytes(format), row.high);
  };
  if (format != KvFormat::kI4) {
    float dot = 0;
    for (uint32_t d = 0; d < tile.k_dim; ++d) dot = std::fmaf(q[d], value(d), dot);
    return kv_scaled(format) ? dot * scale_at(tile, tile.k_scales, j, 0) : dot;
  }
  float dot = 0;
  for (uint32_t first = 0; first < tile.k_dim; first += kInt4Group) {
    const float scale = scale_at(tile, tile.k_scales, j, first / kInt4Group);
    float part = 0;
    for (uint32_t i = 0; i < kInt4Group; ++i) {
      const uint32_t d = first + (tile.latent ? i : i / 2 + i % 2 * (kInt4Group / 2));
      if (d >= tile.k_dim) continue;
      if (tile.latent) dot = std::fmaf(q[d], value(d) * scale, dot);
      if (!tile.latent) part = std::fmaf(q[d], value(d), part);
    }
    if (!tile.latent) dot = std::fmaf(part, scale, dot);
  }
  return dot;
}

// scores[j] of the span's positions [first, end); returns their maximum.
template <KvFormat format>
float score_keys(const AttentionTile& tile, const float* q, const float* bias, uint32_t first, uint32_t end, float* scores) {
  float max = -INFINITY;
  for (uint32_t j = first; j < end; ++j) {
    scores[j] = with_bias(tile, bias, j, dot_key<format>(tile, q, j) * tile.scale);
    if (tile.softcap > 0) softcap_row(tile.softcap, 1, scores + j);
    max = scores[j] > max ? scores[j] : max;
  }
  return max;
}

// acc += weights[j] * V of position j, for the span's positions [first, end).
template <KvFormat format>
void add_values(const AttentionTile& tile, const float* weights, uint32_t first, uint32_t end, float* acc) {
  for (uint32_t j = first; j < end; ++j) {
    const uint8_t* v = block_at(tile, tile.v, j) + uint64_t{j % tile.block_tokens} * tile.v_row_bytes();
    for (uint32_t d = 0; d < tile.v_dim; ++d) {
      const RowAt row = row_at<format>(d);
      const float weight = kv_scaled(format) ? weights[j] * scale_at(tile, tile.v_scales, j, row.scale) : weights[j];
      acc[d] = std::fmaf(weight, element<format>(v + row.cell * kv_cell_bytes(format), row.high), acc[d]);
    }
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
    case KvFormat::kI4:
      return fn.template operator()<KvFormat::kI4>();
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
// The codes of a group of int4 under a scale, one a byte; gives the squared error.
float int4_codes(const float* x, uint32_t n, float scale, uint8_t* codes) {
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  float errors[16] = {};
  for (uint32_t i = 0; i < n; ++i) {
    const float v = x[i] * inverse;
    codes[i] = 0;
    for (uint32_t entry = 1; entry < 16; ++entry) codes[i] += v > kInt4Between[entry];
    const float off = std::fmaf(kInt4Entries[codes[i]], -scale, x[i]);
    errors[i % 16] = i < 16 ? off * off : std::fmaf(off, off, errors[i % 16]);
  }
  return sum_lanes(errors);
}

// A group of int4: its codes and its scale (NUMERICS.md §7).
uint16_t int4_group(const float* x, uint32_t n, uint8_t* codes) {
  float most = 0, least = 0;
  for (uint32_t i = 0; i < n; ++i) {
    most = x[i] > most ? x[i] : most;
    least = x[i] < least ? x[i] : least;
  }
  const float largest = (most >= -least ? most : least) / kInt4Top;
  float best = 0, scale = 0;
  for (const float times : kInt4Tries) {
    float tried = largest * times;
    tried = tried < kF16Max ? tried : kF16Max;
    tried = f16_to_f32(f32_to_f16(tried > -kF16Max ? tried : -kF16Max));
    uint8_t found[kInt4Group];
    const float error = int4_codes(x, n, tried, found);
    if (times != kInt4Tries[0] && !(error < best)) continue;
    best = error, scale = tried;
    std::copy_n(found, n, codes);
  }
  float with[16] = {}, own = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const float entry = kInt4Entries[codes[i]];
    with[i % 16] = i < 16 ? x[i] * entry : std::fmaf(x[i], entry, with[i % 16]);
    own += entry * entry;
  }
  const float fit = sum_lanes(with) / own;  // of all scales the one with the least squared error
  return f32_to_f16(std::fabs(fit) < kF16Max && scale != 0 ? fit : scale);
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
      return;
    case KvFormat::kI4:
      for (uint32_t i = 0; i < n; i += kInt4Group) *scale++ = int4_group(x + i, n - i < kInt4Group ? n - i : kInt4Group, out + i);
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
    const float* bias = tile.bias.row(t, g);
    with_format(tile.k_format, [&]<KvFormat format>() { max = score_keys<format>(tile, q, bias, first, end, p); });
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
