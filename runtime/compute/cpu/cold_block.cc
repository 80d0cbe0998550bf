#include "runtime/compute/cold_block.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/compute/kv_rows.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt {

namespace {

// A row of K or of V of one token and KV head in a layer's part of a block: its cells and scales, each `stride` and `scale_stride` apart.
struct RowPlace {
  uint64_t cells, stride, scales, scale_stride;
};

RowPlace key_place(const KvGeometry& kv, uint32_t head, uint32_t token) {
  const uint64_t slots = kv.block_tokens;
  return {head * kv.head_bytes(kv.k) + uint64_t{token} * kv.k.cell_bytes(), slots * kv.k.cell_bytes(),
          kv.k_scales_at() + head * kv.head_scale_bytes(kv.k) + uint64_t{token} * kKvScaleBytes, slots * kKvScaleBytes};
}

RowPlace value_place(const KvGeometry& kv, uint32_t head, uint32_t token) {
  const uint64_t slots = kv.block_tokens;
  return {kv.v_at() + (head * slots + token) * kv.v.bytes(), kv.v.cell_bytes(),
          kv.v_scales_at() + head * kv.head_scale_bytes(kv.v) + uint64_t{token} * kKvScaleBytes, slots * kKvScaleBytes};
}

float wide_number(KvFormat format, const uint8_t* at) {
  uint16_t half;
  float number;
  std::memcpy(&half, at, sizeof half);
  if (format == KvFormat::kF16) return f16_to_f32(half);
  if (format == KvFormat::kBF16) return bf16_to_f32(half);
  std::memcpy(&number, at, sizeof number);
  return number;
}

void put_wide_number(KvFormat format, float x, uint8_t* at) {
  if (format == KvFormat::kF32) {
    std::memcpy(at, &x, sizeof x);
    return;
  }
  const uint16_t half = format == KvFormat::kF16 ? f32_to_f16(x) : f32_to_bf16(x);
  std::memcpy(at, &half, sizeof half);
}

void read_wide(const KvRows& rows, const uint8_t* layer, const RowPlace& at, float* x) {
  for (uint32_t d = 0; d < rows.dim; ++d) x[d] = wide_number(rows.format, layer + at.cells + d * at.stride);
}

void write_wide(const KvRows& rows, const float* x, const RowPlace& at, uint8_t* layer) {
  for (uint32_t d = 0; d < rows.dim; ++d) put_wide_number(rows.format, x[d], layer + at.cells + d * at.stride);
}

// The numbers that a rounded row stands for.
void read_cold(const KvRows& rows, const uint8_t* layer, const RowPlace& at, float* x) {
  constexpr uint32_t kHalf = kInt4Group / 2;
  for (uint32_t d = 0; d < rows.dim; ++d) {
    const bool pairs = rows.format == KvFormat::kI4;
    const uint32_t group = pairs ? d / kInt4Group : 0, in_group = d % kInt4Group;
    uint16_t scale;
    std::memcpy(&scale, layer + at.scales + group * at.scale_stride, sizeof scale);
    const uint8_t cell = layer[at.cells + (pairs ? group * kHalf + in_group % kHalf : d) * at.stride];
    const int number = pairs ? kInt4Levels[in_group < kHalf ? cell & 15 : cell >> 4] : static_cast<int8_t>(cell);
    x[d] = f16_to_f32(scale) * static_cast<float>(number);
  }
}

void write_cold(RoundRow round, const KvRows& rows, float top, const float* x, const RowPlace& at, uint8_t* layer) {
  uint8_t codes[kHeadDimMax], cells[kHeadDimMax];
  uint16_t scales[(kHeadDimMax + kInt4Group - 1) / kInt4Group];
  round(rows.format, top, x, rows.dim, codes, scales);
  const uint8_t* from = codes;
  if (rows.format == KvFormat::kI4) {
    pack_pairs(codes, rows.dim, cells);
    from = cells;
  }
  for (uint32_t i = 0; i < rows.cells(); ++i) layer[at.cells + i * at.stride] = from[i];
  for (uint32_t i = 0; i < rows.scales(); ++i) std::memcpy(layer + at.scales + i * at.scale_stride, scales + i, sizeof *scales);
}

// Calls fn(head, token, what K's row has in common with others, or null).
template <typename Row>
void for_cold_rows(const ColdLayer& layer, Row row) {
  const uint32_t heads = layer.wide.kv_heads, dim = layer.wide.k.dim;
  KVRT_CHECK(!layer.wide.latent && std::max(dim, layer.wide.v.dim) <= kHeadDimMax && heads == layer.cold.kv_heads);
  for (uint32_t token = 0; token < layer.tokens; ++token) {
    for (uint32_t head = 0; head < heads; ++head) {
      row(head, token, layer.alike.empty() ? nullptr : layer.alike.data() + (uint64_t{token} * heads + head) * dim);
    }
  }
}

}  // namespace

void round_layer(const ColdLayer& layer, RoundRow round, const uint8_t* wide, uint8_t* cold) {
  float x[kHeadDimMax];
  const auto transform = [&](uint32_t dim) { hadamard(hadamard_dim(dim), dim, x); };
  for_cold_rows(layer, [&](uint32_t head, uint32_t token, const float* alike) {
    read_wide(layer.wide.k, wide, key_place(layer.wide, head, token), x);
    for (uint32_t d = 0; alike && d < layer.wide.k.dim; ++d) x[d] -= alike[d];
    if (layer.cold.transforms_keys()) transform(layer.cold.k.dim);
    write_cold(round, layer.cold.k, kInt8Top, x, key_place(layer.cold, head, token), cold);
    read_wide(layer.wide.v, wide, value_place(layer.wide, head, token), x);
    if (layer.cold.transforms_values()) transform(layer.cold.v.dim);
    write_cold(round, layer.cold.v, int8_value_top(layer.cold.v.dim), x, value_place(layer.cold, head, token), cold);
  });
}

void widen_layer(const ColdLayer& layer, const uint8_t* cold, uint8_t* wide) {
  float x[kHeadDimMax];
  for_cold_rows(layer, [&](uint32_t head, uint32_t token, const float* alike) {
    read_cold(layer.cold.k, cold, key_place(layer.cold, head, token), x);
    if (layer.cold.transforms_keys()) transform_back(layer.cold.k.dim, x);
    for (uint32_t d = 0; alike && d < layer.wide.k.dim; ++d) x[d] += alike[d];
    write_wide(layer.wide.k, x, key_place(layer.wide, head, token), wide);
    read_cold(layer.cold.v, cold, value_place(layer.cold, head, token), x);
    if (layer.cold.transforms_values()) transform_back(layer.cold.v.dim, x);
    write_wide(layer.wide.v, x, value_place(layer.wide, head, token), wide);
  });
}

}  // namespace kvrt
