// A quantized GGUF block taken apart eight elements at a time: the one place that knows how the file's bytes lie. Packing and
// dequantization are made of it. All fields are little-endian; "f16" and "u16" are two bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/compute/quant/format.h"

namespace kvrt {

// One block of 32 of a row, as stored.
struct QuantWords {
  uint16_t scale = 0, minimum = 0;  // f16 bits; an e8m0 scale is its byte
  uint8_t sub[2] = {0, 0};          // as the format's SubScales says
  uint64_t u[4];                    // byte i of u[w]: element 8w + i, low | high << low_bits
};

inline constexpr uint64_t kEveryByte = 0x0101010101010101;

// `bits` bits of each of 8 bytes, from bit `shift` on.
[[gnu::always_inline]] inline uint64_t bits_of(const uint8_t* p, uint32_t shift, uint32_t bits) {
  return load<uint64_t>(p) >> shift & ((1u << bits) - 1) * kEveryByte;
}

// Bit i becomes the lowest bit of byte i.
[[gnu::always_inline]] inline uint64_t spread(uint8_t bits) {
  const uint64_t apart = bits * kEveryByte & 0x8040201008040201;
  return (apart + 0x7f * kEveryByte) >> 7 & kEveryByte;
}

// 16 bytes: the low nibbles are elements 0..15, the high ones 16..31.
[[gnu::always_inline]] inline void nibbles(const uint8_t* p, uint64_t* u) {
  for (uint32_t w = 0; w < 4; ++w) u[w] = bits_of(p + w % 2 * 8, w / 2 * 4, 4);
}

// Two bits per element: byte i of 32 holds element i of four successive blocks, the first in its lowest bits.
[[gnu::always_inline]] inline uint64_t two_bits(const uint8_t* p, uint32_t block, uint32_t w) {
  return bits_of(p + block / 4 * 32 + w * 8, block % 4 * 2, 2);
}

// Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4: the scale (f16, or one byte), f16 minimum where there is one, u32 of fifth bits where there are
// some, 16 bytes of nibbles.
[[gnu::always_inline]] inline void nibble_block(const QuantFormat& f, const uint8_t* p, QuantWords* out) {
  out->scale = f.scale_bytes == 1 ? *p : load<uint16_t>(p);
  p += f.scale_bytes;
  if (f.min_bytes) out->minimum = load<uint16_t>(p);
  p += f.min_bytes;
  nibbles(f.high_bits ? p + 4 : p, out->u);
  for (uint32_t w = 0; f.high_bits && w < 4; ++w) out->u[w] |= spread(p[w]) << 4;
}

// f16 scale, 32 signed bytes.
[[gnu::always_inline]] inline void q8_0_block(const uint8_t* p, QuantWords* out) {
  out->scale = load<uint16_t>(p);
  for (uint32_t w = 0; w < 4; ++w) out->u[w] = load<uint64_t>(p + 2 + 8 * w);
}

// 16 bytes, for each half block scale | minimum << 4; 64 bytes of two bits; f16 scale, f16 minimum.
[[gnu::always_inline]] inline void q2_k_block(const uint8_t* p, uint32_t b, QuantWords* out) {
  out->scale = load<uint16_t>(p + 80);
  out->minimum = load<uint16_t>(p + 82);
  for (uint32_t h = 0; h < 2; ++h) out->sub[h] = p[2 * b + h];
  for (uint32_t w = 0; w < 4; ++w) out->u[w] = two_bits(p + 16, b, w);
}

// 32 bytes of third bits (bit b of byte i: element i of block b); 64 bytes of two bits; 12 bytes of 16 scales (+ 32): low nibbles in
// the nibbles of 8 bytes, high two bits in 4 bytes; f16 scale.
[[gnu::always_inline]] inline void q3_k_block(const uint8_t* p, uint32_t b, QuantWords* out) {
  const uint8_t* scales = p + 96;
  out->scale = load<uint16_t>(p + 108);
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t i = 2 * b + h;
    const int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
    out->sub[h] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  for (uint32_t w = 0; w < 4; ++w) out->u[w] = two_bits(p + 32, b, w) | bits_of(p + 8 * w, b, 1) << 2;
}

// Q4_K, Q5_K: f16 scale, f16 minimum; 12 bytes of 8 scales and 8 minimums of six bits each; in Q5_K 32 bytes of fifth bits (bit b of
// byte i: element i of block b); 128 bytes of nibbles: of 32, the low ones are one block, the high ones the next.
[[gnu::always_inline]] inline void q45_k_block(const QuantFormat& f, const uint8_t* p, uint32_t b, QuantWords* out) {
  const uint8_t *packed = p + 4, *high = p + 16, *low = f.high_bits ? p + 48 : p + 16;
  out->scale = load<uint16_t>(p);
  out->minimum = load<uint16_t>(p + 2);
  if (b < 4) {
    out->sub[0] = packed[b] & 63;
    out->sub[1] = packed[b + 4] & 63;
  } else {  // low nibbles in the last four bytes, the rest in the upper bits of the first eight
    out->sub[0] = static_cast<uint8_t>((packed[b + 4] & 15) | packed[b - 4] >> 6 << 4);
    out->sub[1] = static_cast<uint8_t>(packed[b + 4] >> 4 | packed[b] >> 6 << 4);
  }
  for (uint32_t w = 0; w < 4; ++w) {
    out->u[w] = bits_of(low + b / 2 * 32 + 8 * w, b % 2 * 4, 4);
    if (f.high_bits) out->u[w] |= bits_of(high + 8 * w, b, 1) << 4;
  }
}

// 128 bytes of nibbles: of 64, the low ones are two blocks, the high ones the next two; 64 bytes of the upper two bits; 16 scales, i8;
// f16 scale.
[[gnu::always_inline]] inline void q6_k_block(const uint8_t* p, uint32_t b, QuantWords* out) {
  out->scale = load<uint16_t>(p + 208);
  for (uint32_t h = 0; h < 2; ++h) out->sub[h] = p[192 + 2 * b + h];
  for (uint32_t w = 0; w < 4; ++w) {
    out->u[w] = bits_of(p + b / 4 * 64 + b % 2 * 32 + 8 * w, b % 4 / 2 * 4, 4) | two_bits(p + 128, b, w) << 4;
  }
}

// f16 scale; u16 and 4 bytes: upper two bits and low nibbles of 8 scales (+ 32); 16 bytes of nibbles for each block.
[[gnu::always_inline]] inline void iq4_xs_block(const uint8_t* p, uint32_t b, QuantWords* out) {
  out->scale = load<uint16_t>(p);
  const int low = p[4 + b / 2] >> b % 2 * 4 & 15, high = load<uint16_t>(p + 2) >> 2 * b & 3;
  out->sub[0] = static_cast<uint8_t>((low | high << 4) - 32);
  nibbles(p + 8 + 16 * b, out->u);
}

// Block `b` of 32 of the file's block (a superblock holds 8, the others are one).
template <DType T>
[[gnu::always_inline]] inline void decode_block(const uint8_t* p, uint32_t b, QuantWords* out) {
  constexpr QuantFormat kFormat = *quant_format(T);
  if constexpr (T == DType::kQ8_0) {
    q8_0_block(p, out);
  } else if constexpr (T == DType::kQ2_K) {
    q2_k_block(p, b, out);
  } else if constexpr (T == DType::kQ3_K) {
    q3_k_block(p, b, out);
  } else if constexpr (T == DType::kQ4_K || T == DType::kQ5_K) {
    q45_k_block(kFormat, p, b, out);
  } else if constexpr (T == DType::kQ6_K) {
    q6_k_block(p, b, out);
  } else if constexpr (T == DType::kIQ4_XS) {
    iq4_xs_block(p, b, out);
  } else {
    nibble_block(kFormat, p, out);
  }
}

// Calls fn.operator()<T>() for the quantized type that `type` is; nothing for others.
template <size_t I = 0, typename F>
void with_quant_type(DType type, F&& fn) {
  if constexpr (I < std::size(kQuantFormats)) {
    if (type == kQuantFormats[I].type) return fn.template operator()<kQuantFormats[I].type>();
    with_quant_type<I + 1>(type, fn);
  }
}

}  // namespace kvrt
