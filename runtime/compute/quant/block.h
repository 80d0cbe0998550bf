// One row's block of 32 in its three forms: the file's bytes, the panel's lane, numbers. Code that dequantization, packing and the
// scalar kernels share.
#pragma once

#include <cstring>

#include "runtime/compute/quant/format.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt {

// As stored.
struct RawBlock {
  uint16_t scale = 0, minimum = 0;  // f16 bits; an e8m0 scale is its byte
  uint8_t sub[2] = {0, 0};          // as the format's SubScales says
  uint8_t u[kQuantBlock] = {};      // low | high << low_bits
};

// As numbers: element i is scale * half_scale[i / 16] * w[i] + minimum * half_minimum[i / 16]. Where the format has no halves, those
// are 1, and scale and minimum are the block's own. The products of scales are exact.
struct QuantBlock {
  float scale, minimum;
  int8_t half_scale[2], half_minimum[2];
  int8_t w[kQuantBlock];
};

// Takes a block of the file apart: format.unit_blocks blocks of 32.
void decode_unit(DType type, const uint8_t* block, RawBlock* out);

// Element 4j + i of a plane of 1, 2, 4 or 8 bits per element lies in byte (j / q, lane, i), q = 8 / bits, at bit bits * (j % q).
[[gnu::always_inline]] inline uint32_t plane_byte(uint32_t bits, uint32_t element, uint32_t lane) {
  return element / 4 / (8 / bits) * 64 + lane * 4 + element % 4;
}
[[gnu::always_inline]] inline uint32_t plane_shift(uint32_t bits, uint32_t element) { return bits * (element / 4 % (8 / bits)); }

// The place of a lane's two sub-scales in a unit: rows side by side, or the two halves of a row.
[[gnu::always_inline]] inline uint32_t sub_offset(const QuantFormat& f, uint32_t block, uint32_t lane, uint32_t i) {
  const uint32_t within = f.halves() ? lane * 2 + i : i * kPanelRows + lane;
  return f.sub_at() + block * kPanelRows * f.sub_bytes() + within;
}

[[gnu::always_inline]] inline RawBlock read_lane(const QuantFormat& f, const uint8_t* unit, uint32_t block, uint32_t lane) {
  RawBlock raw;
  std::memcpy(&raw.scale, unit + lane * f.scale_bytes, f.scale_bytes);
  std::memcpy(&raw.minimum, unit + kPanelRows * f.scale_bytes + lane * f.min_bytes, f.min_bytes);
  for (uint32_t i = 0; i < f.sub_bytes(); ++i) raw.sub[i] = unit[sub_offset(f, block, lane, i)];
  const uint8_t *low = unit + f.header_bytes() + block * f.body_bytes(), *high = low + 64 * f.low_bits;
  for (uint32_t e = 0; e < kQuantBlock; ++e) {
    uint32_t u = low[plane_byte(f.low_bits, e, lane)] >> plane_shift(f.low_bits, e) & ((1u << f.low_bits) - 1);
    if (f.high_bits) {
      u |= (high[plane_byte(f.high_bits, e, lane)] >> plane_shift(f.high_bits, e) & ((1u << f.high_bits) - 1)) << f.low_bits;
    }
    raw.u[e] = static_cast<uint8_t>(u);
  }
  return raw;
}

[[gnu::always_inline]] inline QuantBlock to_numbers(const QuantFormat& f, const RawBlock& raw) {
  QuantBlock b{f.scale_bytes == 1 ? e8m0_to_f32(static_cast<uint8_t>(raw.scale)) : f16_to_f32(raw.scale),
               f16_to_f32(raw.minimum),
               {1, 1},
               {1, 1},
               {}};
  for (uint32_t i = 0; i < kQuantBlock; ++i) {
    b.w[i] = f.has_table() ? f.table()[raw.u[i]] : static_cast<int8_t>(raw.u[i] - f.zero);
  }
  if (f.sub != SubScales::kNone) b.minimum = -b.minimum;  // minimums with sub-scales are subtracted
  if (f.sub == SubScales::kScale) b.scale *= static_cast<float>(static_cast<int8_t>(raw.sub[0]));
  if (f.sub == SubScales::kScaleMin) {
    b.scale *= static_cast<float>(raw.sub[0]);
    b.minimum *= static_cast<float>(raw.sub[1]);
  }
  for (uint32_t h = 0; f.halves() && h < 2; ++h) {
    b.half_scale[h] = static_cast<int8_t>(f.sub == SubScales::kHalves ? raw.sub[h] : raw.sub[h] & 15);
    b.half_minimum[h] = static_cast<int8_t>(raw.sub[h] >> 4);
  }
  return b;
}

// 32 values, each product and sum rounded, as GGUF defines it.
[[gnu::always_inline]] inline void dequantize_block(const QuantFormat& f, const QuantBlock& b, float* out) {
  for (uint32_t i = 0; i < kQuantBlock; ++i) {
    out[i] = b.scale * static_cast<float>(b.half_scale[i / 16]) * static_cast<float>(b.w[i]);
    if (f.min_bytes) out[i] = out[i] + b.minimum * static_cast<float>(b.half_minimum[i / 16]);
  }
}

}  // namespace kvrt
