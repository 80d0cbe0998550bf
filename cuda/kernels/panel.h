// Panels of weights (runtime/compute/NUMERICS.md §9) as kernels read them: scales of a row, integers out of bit planes, 16 elements of a
// row as numbers. One template over its QuantFormat serves every quantized type.
#pragma once

#include <type_traits>

#include "cuda/kernels/device.h"
#include "runtime/compute/quant/format.h"

namespace kvrt::cuda {

// The layout of a unit of a quantized type's panel.
template <DType type>
struct Unit {
  static constexpr QuantFormat kFormat = *quant_format(type);
  static constexpr uint32_t kBytes = kFormat.unit_bytes(), kBlocks = kFormat.unit_blocks;
  static constexpr uint32_t kMinAt = kPanelRows * kFormat.scale_bytes, kSubAt = kFormat.sub_at();
  static constexpr uint32_t kSubBytes = kPanelRows * kFormat.sub_bytes();  // of a block
  static constexpr uint32_t kBodyAt = kFormat.header_bytes(), kBodyBytes = kFormat.body_bytes();
  static constexpr uint32_t kLow = kFormat.low_bits, kHigh = kFormat.high_bits;  // bits, and so many groups of 64 bytes in a plane
  // A warp of matvec takes eight blocks, whole units, at a time. unit_at and body_at: the places of the unit and the body of block i.
  static constexpr uint32_t kTurnBytes = 8 / kBlocks * kBytes;
  static constexpr uint32_t unit_at(uint32_t i) { return kBlocks == 8 ? 0 : i * kBytes; }
  static constexpr uint32_t body_at(uint32_t i) { return kBodyAt + (kBlocks == 8 ? i * kBodyBytes : i * kBytes); }
  static constexpr uint32_t sub_at(uint32_t i) { return kSubAt + (kBlocks == 8 ? i * kSubBytes : i * kBytes); }
  static constexpr bool kHalves = kFormat.halves(), kTable = kFormat.has_table();
  static constexpr bool kScaleMin = kFormat.sub == SubScales::kScaleMin;
  static constexpr bool kSub = kFormat.sub != SubScales::kNone, kMin = kFormat.min_bytes != 0;
  // Four values of the table.
  static constexpr uint32_t table_word(uint32_t i) {
    uint32_t word = 0;
    for (uint32_t j = 0; j < 4; ++j) word |= static_cast<uint32_t>(static_cast<uint8_t>(kFormat.table()[4 * i + j])) << 8 * j;
    return word;
  }
};

// ---- integers: a *word* is four successive elements of a row, one per byte; word w of a block's 8 holds the elements 4w .. 4w + 3

// Word w out of the group of a plane that holds it.
template <uint32_t bits>
__device__ __forceinline__ uint32_t plane_word(uint32_t group, uint32_t w) {
  if constexpr (bits == 8) return group;
  return group >> bits * (w % (8 / bits)) & ((1u << bits) - 1) * 0x01010101u;
}

// low | high << low_bits, as stored. Not for types with a table.
template <DType type>
__device__ __forceinline__ uint32_t stored_word(uint32_t low_group, uint32_t high_group, uint32_t w) {
  using U = Unit<type>;
  const uint32_t low = plane_word<U::kLow>(low_group, w);
  if constexpr (U::kHigh == 0) {
    return low;
  } else {
    constexpr uint32_t kMask = ((1u << U::kHigh) - 1) * 0x01010101u << U::kLow;  // the mask drops all bits that would cross a byte
    const uint32_t from = U::kHigh * (w % (8 / U::kHigh));
    return low | ((from < U::kLow ? high_group << (U::kLow - from) : high_group >> (from - U::kLow)) & kMask);
  }
}

// The table's values for a group's nibbles, as the two words that it holds. Bit 3 of a selector means something else to __byte_perm.
template <DType type>
__device__ __forceinline__ void look_up(uint32_t group, uint32_t* even, uint32_t* odd) {
  using U = Unit<type>;
  constexpr uint32_t k0 = U::table_word(0), k1 = U::table_word(1), k2 = U::table_word(2), k3 = U::table_word(3);
  const uint32_t in_half = group & 0x77777777u, upper = (group & 0x88888888u) >> 1 | 0x32103210u;
  uint32_t found[2];
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    found[i] = __byte_perm(__byte_perm(k0, k1, in_half >> 16 * i), __byte_perm(k2, k3, in_half >> 16 * i), upper >> 16 * i);
  }
  *even = __byte_perm(found[0], found[1], 0x6420);
  *odd = __byte_perm(found[0], found[1], 0x7531);
}

__device__ __forceinline__ int32_t byte_of(uint32_t word, uint32_t i) { return static_cast<int8_t>(word >> 8 * i); }

// ---- scales

// The scales of a row and block. Element e is scale * half_scale[e / 16] * w + minimum * half_minimum[e / 16]; without halves those are 1.
struct RowScales {
  float scale, minimum;
  int32_t half_scale[2], half_minimum[2];
};

// scale and minimum as stored; sub: the first sub-scale in the low byte, the second above it.
template <DType type>
__device__ __forceinline__ RowScales row_scales(uint32_t scale, uint32_t minimum, uint32_t sub) {
  using U = Unit<type>;
  RowScales s{0, 0, {1, 1}, {1, 1}};
  s.scale = U::kFormat.scale_bytes == 1 ? e8m0_to_float(static_cast<uint8_t>(scale)) : f16_to_float(static_cast<uint16_t>(scale));
  if constexpr (U::kMin) s.minimum = f16_to_float(static_cast<uint16_t>(minimum));
  if constexpr (U::kSub && U::kMin) s.minimum = -s.minimum;
  if constexpr (U::kFormat.sub == SubScales::kScale) s.scale *= static_cast<float>(byte_of(sub, 0));
  if constexpr (U::kScaleMin) {
    s.scale *= static_cast<float>(sub & 0xff);
    s.minimum *= static_cast<float>(sub >> 8 & 0xff);
  }
  if constexpr (U::kFormat.sub == SubScales::kHalves) {
    s.half_scale[0] = byte_of(sub, 0);
    s.half_scale[1] = byte_of(sub, 1);
  }
  if constexpr (U::kFormat.sub == SubScales::kHalvesMin) {
    s.half_scale[0] = static_cast<int32_t>(sub & 15);
    s.half_scale[1] = static_cast<int32_t>(sub >> 8 & 15);
    s.half_minimum[0] = static_cast<int32_t>(sub >> 4 & 15);
    s.half_minimum[1] = static_cast<int32_t>(sub >> 12 & 15);
  }
  return s;
}

// ---- 16 elements of a row as numbers, k a multiple of 16, for embed, dequantize_f16 and gemm. Taken in two steps, so that a kernel can
// load ahead of its computation.

template <DType type>
struct QuantHalfRow {
  using U = Unit<type>;
  static constexpr uint32_t kWords = U::kLow >= 2 ? U::kLow / 2 : 1;
  uint32_t low[kWords], high, scale, minimum, sub, half;

  __device__ __forceinline__ void load(const uint8_t* panel, uint32_t, uint32_t k, uint32_t row) {
    const uint32_t block = k / kQuantBlock;
    const uint8_t *unit = panel + uint64_t{block / U::kBlocks} * U::kBytes, *body = unit + U::kBodyAt + block % U::kBlocks * U::kBodyBytes;
    half = k / 16 % 2;
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < kWords; ++i) low[i] = *reinterpret_cast<const uint32_t*>(body + 64 * (half * kWords + i) + 4 * row);
    const uint32_t high_group = U::kHigh == 2 ? half : 0;
    high = U::kHigh == 0 ? 0 : *reinterpret_cast<const uint32_t*>(body + 64 * (U::kLow + high_group) + 4 * row);
    scale = U::kFormat.scale_bytes == 1 ? unit[row] : *reinterpret_cast<const uint16_t*>(unit + 2 * row);
    minimum = U::kMin ? *reinterpret_cast<const uint16_t*>(unit + U::kMinAt + 2 * row) : 0;
    const uint8_t* subs = unit + U::kSubAt + block % U::kBlocks * U::kSubBytes;
    sub = 0;
    if constexpr (U::kHalves) sub = *reinterpret_cast<const uint16_t*>(subs + 2 * row);
    if constexpr (U::kSub && !U::kHalves) sub = subs[row];
    if constexpr (U::kScaleMin) sub |= static_cast<uint32_t>(subs[kPanelRows + row]) << 8;
  }

  // Each product and sum is rounded, as GGUF defines it.
  __device__ __forceinline__ void numbers(float (&out)[16]) const {
    const RowScales s = row_scales<type>(scale, minimum, sub);
    const float by = s.scale * static_cast<float>(half ? s.half_scale[1] : s.half_scale[0]);
    const float plus = s.minimum * static_cast<float>(half ? s.half_minimum[1] : s.half_minimum[0]);
    uint32_t words[4];
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      if constexpr (U::kTable) {
        if (i % 2 == 0) look_up<type>(low[i / 2], &words[i], &words[i + 1]);
      } else {
        words[i] = stored_word<type>(low[i * kWords / 4], high, 4 * half + i);
      }
    }
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 16; ++i) {
      const int32_t w = byte_of(words[i / 4], i % 4) - (U::kTable ? 0 : U::kFormat.zero);
      out[i] = by * static_cast<float>(w);
      if constexpr (U::kMin) out[i] = out[i] + plus;
    }
  }
};

// Elements of a plain type's panel, [k][16].
template <DType type>
__device__ __forceinline__ float plain_number(uint32_t bits) {
  if constexpr (type == DType::kF32) return __uint_as_float(bits);
  if constexpr (type == DType::kBF16) return bf16_to_float(static_cast<uint16_t>(bits));
  return f16_to_float(static_cast<uint16_t>(bits));
}
template <DType type>
using PlainBits = std::conditional_t<type == DType::kF32, uint32_t, uint16_t>;

// Elements beyond the last column are zeros.
template <DType type>
struct PlainHalfRow {
  PlainBits<type> bits[16];

  __device__ __forceinline__ void load(const uint8_t* panel, uint32_t cols, uint32_t k, uint32_t row) {
    const auto* from = reinterpret_cast<const PlainBits<type>*>(panel) + uint64_t{k} * kPanelRows + row;
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 16; ++i) bits[i] = k + i < cols ? from[i * kPanelRows] : 0;
  }
  __device__ __forceinline__ void numbers(float (&out)[16]) const {
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 16; ++i) out[i] = plain_number<type>(bits[i]);
  }
};

template <DType type>
using HalfRow = std::conditional_t<is_plain(type), PlainHalfRow<type>, QuantHalfRow<type>>;

// ---- host: from a type known at run time to templates over it

// Calls fn.operator()<T>() with the quantized type `type` as T.
template <size_t i = 0, typename F>
void switch_quant_type(DType type, const F& fn) {
  if constexpr (i < sizeof kQuantFormats / sizeof kQuantFormats[0]) {
    if (type == kQuantFormats[i].type) return fn.template operator()<kQuantFormats[i].type>();
    switch_quant_type<i + 1>(type, fn);
  }
}
template <typename F>
void switch_plain_type(DType type, const F& fn) {
  if (type == DType::kF32) return fn.template operator()<DType::kF32>();
  if (type == DType::kF16) return fn.template operator()<DType::kF16>();
  if (type == DType::kBF16) return fn.template operator()<DType::kBF16>();
}
template <typename F>
void switch_type(DType type, const F& fn) {
  is_plain(type) ? switch_plain_type(type, fn) : switch_quant_type(type, fn);
}

}  // namespace kvrt::cuda
