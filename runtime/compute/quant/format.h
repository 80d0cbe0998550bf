// QuantFormat: a quantized GGUF type as data. Every one of them is blocks of 32 small integers with scales; kernels, packing and
// dequantization are written once over this table (NUMERICS.md §3 and §9 have the fields' meaning for results and panels).
// Constants alone, and functions that are always inlined: the files of every instruction set include it.
#pragma once

#include <cstdint>

#include "runtime/compute/tensor.h"

namespace kvrt {

inline constexpr uint32_t kPanelRows = 16;   // weight rows that lie side by side, one per lane
inline constexpr uint32_t kQuantBlock = 32;  // weights and activations that share a scale

// The scales of a block besides the f16 scale and minimum of its unit.
enum class SubScales : uint8_t {
  kNone,
  kScale,      // i8: times the scale
  kScaleMin,   // u8 times the scale, u8 times the minimum
  kHalves,     // an i8 for each half of 16
  kHalvesMin,  // for each half, times the scale in the low nibble, times the minimum in the high one
};

// The meaning of the stored integers; kLinear: a number less `zero`.
enum class QuantValues : uint8_t { kLinear, kIq4, kE2m1 };
inline constexpr int8_t kQuantValues[3][16] = {
    {},
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},  // twice the value
};

struct QuantFormat {
  DType type;
  uint8_t unit_blocks;  // blocks of 32 under one scale: 1, or the 8 of a superblock
  uint8_t scale_bytes;  // 2: f16. 1: e8m0, a power of two
  uint8_t min_bytes;    // 2: f16. 0: there is none
  SubScales sub;
  uint8_t low_bits, high_bits;  // a stored integer is low | high << low_bits
  uint8_t zero;                 // subtracted from it; where there is a table: added to its values, none is negative
  QuantValues values;

  [[gnu::always_inline]] constexpr bool has_table() const { return values != QuantValues::kLinear; }
  [[gnu::always_inline]] constexpr const int8_t* table() const { return kQuantValues[static_cast<uint32_t>(values)]; }
  [[gnu::always_inline]] constexpr bool halves() const { return sub == SubScales::kHalves || sub == SubScales::kHalvesMin; }
  [[gnu::always_inline]] constexpr uint32_t sub_bytes() const {  // the bytes of one row's sub-scales in a block
    return sub == SubScales::kNone ? 0 : sub == SubScales::kScale ? 1 : 2;
  }
  // A panel's unit: a header (scales, minimums, sub-scales block by block), then a body for each block.
  [[gnu::always_inline]] constexpr uint32_t sub_at() const { return kPanelRows * (scale_bytes + min_bytes); }
  [[gnu::always_inline]] constexpr uint32_t header_bytes() const { return sub_at() + unit_blocks * kPanelRows * sub_bytes(); }
  [[gnu::always_inline]] constexpr uint32_t body_bytes() const { return kPanelRows * 4 * (low_bits + high_bits); }
  [[gnu::always_inline]] constexpr uint32_t unit_bytes() const { return header_bytes() + unit_blocks * body_bytes(); }
  [[gnu::always_inline]] constexpr uint32_t unit_elems() const { return unit_blocks * kQuantBlock; }
};

inline constexpr QuantFormat kQuantFormats[] = {
    {DType::kQ4_0, 1, 2, 0, SubScales::kNone, 4, 0, 8, QuantValues::kLinear},
    {DType::kQ4_1, 1, 2, 2, SubScales::kNone, 4, 0, 0, QuantValues::kLinear},
    {DType::kQ5_0, 1, 2, 0, SubScales::kNone, 4, 1, 16, QuantValues::kLinear},
    {DType::kQ5_1, 1, 2, 2, SubScales::kNone, 4, 1, 0, QuantValues::kLinear},
    {DType::kQ8_0, 1, 2, 0, SubScales::kNone, 8, 0, 0, QuantValues::kLinear},
    {DType::kQ2_K, 8, 2, 2, SubScales::kHalvesMin, 2, 0, 0, QuantValues::kLinear},
    {DType::kQ3_K, 8, 2, 0, SubScales::kHalves, 2, 1, 4, QuantValues::kLinear},
    {DType::kQ4_K, 8, 2, 2, SubScales::kScaleMin, 4, 0, 0, QuantValues::kLinear},
    {DType::kQ5_K, 8, 2, 2, SubScales::kScaleMin, 4, 1, 0, QuantValues::kLinear},
    {DType::kQ6_K, 8, 2, 0, SubScales::kHalves, 4, 2, 32, QuantValues::kLinear},
    {DType::kIQ4_NL, 1, 2, 0, SubScales::kNone, 4, 0, 0, QuantValues::kIq4},
    {DType::kIQ4_XS, 8, 2, 0, SubScales::kScale, 4, 0, 0, QuantValues::kIq4},
    {DType::kMXFP4, 1, 1, 0, SubScales::kNone, 4, 0, 12, QuantValues::kE2m1},
};

[[gnu::always_inline]] constexpr bool is_plain(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

// Null for the plain types.
[[gnu::always_inline]] constexpr const QuantFormat* quant_format(DType type) {
  for (const QuantFormat& format : kQuantFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

}  // namespace kvrt
