// The block layouts of GGUF, taken apart. All fields are little-endian; "f16" and "u16" below are two bytes.
#include "runtime/base/check.h"
#include "runtime/compute/quant_block.h"

namespace kvrt {
namespace {

uint16_t load_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

uint32_t load_u32(const uint8_t* p) { return load_u16(p) | uint32_t{load_u16(p + 2)} << 16; }

// 16 bytes: the low nibbles are elements 0..15, the high ones 16..31.
void nibbles(const uint8_t* p, uint8_t* u) {
  for (int i = 0; i < 16; ++i) {
    u[i] = p[i] & 15;
    u[i + 16] = p[i] >> 4;
  }
}

// Bit i is the fifth bit of element i.
void fifth_bits(uint32_t bits, uint8_t* u) {
  for (int i = 0; i < 32; ++i) u[i] = static_cast<uint8_t>(u[i] | (bits >> i & 1) << 4);
}

// Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4: the scale (f16, or one byte), f16 minimum where there is one, u32 of fifth bits where there are
// some, 16 bytes of nibbles.
void decode_nibbles(const QuantFormat& f, const uint8_t* p, RawBlock* out) {
  out->scale = f.scale_bytes == 1 ? *p : load_u16(p);
  p += f.scale_bytes;
  if (f.min_bytes) out->minimum = load_u16(p);
  p += f.min_bytes;
  nibbles(f.high_bits ? p + 4 : p, out->u);
  if (f.high_bits) fifth_bits(load_u32(p), out->u);
}

// f16 scale, 32 signed bytes.
void decode_q8_0(const uint8_t* p, RawBlock* out) {
  out->scale = load_u16(p);
  std::memcpy(out->u, p + 2, kQuantBlock);
}

// Two bits per element: byte i of 32 holds element i of four successive blocks, the first in its lowest bits.
uint8_t two_bits(const uint8_t* p, uint32_t block, uint32_t i) { return p[block / 4 * 32 + i] >> block % 4 * 2 & 3; }

// 16 bytes, for each half block scale | minimum << 4; 64 bytes of two bits; f16 scale, f16 minimum.
void decode_q2_k(const uint8_t* p, RawBlock* out) {
  for (uint32_t b = 0; b < 8; ++b) {
    out[b].scale = load_u16(p + 80);
    out[b].minimum = load_u16(p + 82);
    for (uint32_t h = 0; h < 2; ++h) out[b].sub[h] = p[2 * b + h];
    for (uint32_t i = 0; i < kQuantBlock; ++i) out[b].u[i] = two_bits(p + 16, b, i);
  }
}

// 32 bytes of third bits (bit b of byte i: element i of block b); 64 bytes of two bits; 12 bytes of 16 scales (+ 32): low nibbles in
// the nibbles of 8 bytes, high two bits in 4 bytes; f16 scale.
void decode_q3_k(const uint8_t* p, RawBlock* out) {
  const uint8_t* scales = p + 96;
  for (uint32_t b = 0; b < 8; ++b) {
    out[b].scale = load_u16(p + 108);
    for (uint32_t h = 0; h < 2; ++h) {
      const uint32_t i = 2 * b + h;
      const int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
      out[b].sub[h] = static_cast<uint8_t>((low | high << 4) - 32);
    }
    for (uint32_t i = 0; i < kQuantBlock; ++i) out[b].u[i] = static_cast<uint8_t>(two_bits(p + 32, b, i) | (p[i] >> b & 1) << 2);
  }
}

// Q4_K, Q5_K: f16 scale, f16 minimum; 12 bytes of 8 scales and 8 minimums of six bits each; in Q5_K 32 bytes of fifth bits (bit b of
// byte i: element i of block b); 128 bytes of nibbles: of 32, the low ones are one block, the high ones the next.
void decode_q45_k(const QuantFormat& f, const uint8_t* p, RawBlock* out) {
  const uint8_t *packed = p + 4, *high = p + 16, *low = f.high_bits ? p + 48 : p + 16;
  for (uint32_t b = 0; b < 8; ++b) {
    out[b].scale = load_u16(p);
    out[b].minimum = load_u16(p + 2);
    if (b < 4) {
      out[b].sub[0] = packed[b] & 63;
      out[b].sub[1] = packed[b + 4] & 63;
    } else {  // low nibbles in the last four bytes, the rest in the upper bits of the first eight
      out[b].sub[0] = static_cast<uint8_t>((packed[b + 4] & 15) | packed[b - 4] >> 6 << 4);
      out[b].sub[1] = static_cast<uint8_t>(packed[b + 4] >> 4 | packed[b] >> 6 << 4);
    }
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      const int fifth = f.high_bits ? high[i] >> b & 1 : 0;
      out[b].u[i] = static_cast<uint8_t>((low[b / 2 * 32 + i] >> b % 2 * 4 & 15) | fifth << 4);
    }
  }
}

// 128 bytes of nibbles: of 64, the low ones are two blocks, the high ones the next two; 64 bytes of the upper two bits; 16 scales, i8;
// f16 scale.
void decode_q6_k(const uint8_t* p, RawBlock* out) {
  for (uint32_t b = 0; b < 8; ++b) {
    out[b].scale = load_u16(p + 208);
    for (uint32_t h = 0; h < 2; ++h) out[b].sub[h] = p[192 + 2 * b + h];
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      const int low = p[b / 4 * 64 + b % 2 * 32 + i] >> b % 4 / 2 * 4 & 15;
      out[b].u[i] = static_cast<uint8_t>(low | two_bits(p + 128, b, i) << 4);
    }
  }
}

// f16 scale; u16 and 4 bytes: upper two bits and low nibbles of 8 scales (+ 32); 16 bytes of nibbles for each block.
void decode_iq4_xs(const uint8_t* p, RawBlock* out) {
  for (uint32_t b = 0; b < 8; ++b) {
    out[b].scale = load_u16(p);
    const int low = p[4 + b / 2] >> b % 2 * 4 & 15, high = load_u16(p + 2) >> 2 * b & 3;
    out[b].sub[0] = static_cast<uint8_t>((low | high << 4) - 32);
    nibbles(p + 8 + 16 * b, out[b].u);
  }
}

}  // namespace

void decode_unit(DType type, const uint8_t* block, RawBlock* out) {
  const QuantFormat* format = quant_format(type);
  KVRT_CHECK(format != nullptr);
  switch (type) {
    case DType::kQ8_0:
      return decode_q8_0(block, out);
    case DType::kQ2_K:
      return decode_q2_k(block, out);
    case DType::kQ3_K:
      return decode_q3_k(block, out);
    case DType::kQ4_K:
    case DType::kQ5_K:
      return decode_q45_k(*format, block, out);
    case DType::kQ6_K:
      return decode_q6_k(block, out);
    case DType::kIQ4_XS:
      return decode_iq4_xs(block, out);
    default:
      return decode_nibbles(*format, block, out);
  }
}

}  // namespace kvrt
