#include "runtime/compute/quants.h"

#include <bit>
#include <cstring>

#include "runtime/base/check.h"

namespace kvrt {
namespace {

constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, "F32", 1, 4},
    {DType::kF16, "F16", 1, 2},
    {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ8_0, "Q8_0", 32, 34},
};

float load_f16(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return f16_to_f32(h);
}

// 32 elements: f16 scale, f16 minimum, 16 bytes; the low nibbles are elements 0..15, the high ones 16..31.
void dequantize_q4_1(const uint8_t* block, float* out) {
  const float scale = load_f16(block), minimum = load_f16(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(block[4 + i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(block[4 + i] >> 4) + minimum;
  }
}

// 32 elements: f16 scale, 32 signed bytes.
void dequantize_q8_0(const uint8_t* block, float* out) {
  const float scale = load_f16(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

}  // namespace

const DTypeInfo* dtype_info(uint32_t ggml_type) {
  for (const DTypeInfo& info : kDTypes) {
    if (static_cast<uint32_t>(info.type) == ggml_type) return &info;
  }
  return nullptr;
}

// Like the hardware's conversion: exact, and a signalling NaN comes out quiet.
float f16_to_f32(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ffu;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << 13 : 0u));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));  // NaN, quiet
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on nearest-even is infinity
  uint32_t kept, shift;
  if (magnitude >= 0x38800000u) {  // normal in f16: rebias, drop 13 bits
    kept = magnitude - (112u << 23);
    shift = 13;
  } else {  // subnormal in f16: the result counts units of 2^-24
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return sign;  // below half the smallest subnormal
    kept = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - exponent;
  }
  const uint32_t half = 1u << (shift - 1), rest = kept & ((1u << shift) - 1);
  uint32_t rounded = kept >> shift;
  if (rest > half || (rest == half && (rounded & 1))) ++rounded;  // a carry into the exponent is the right answer
  return static_cast<uint16_t>(sign | rounded);
}

void dequantize_row(DType type, const uint8_t* row, uint64_t n, float* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, row, n * sizeof(float));
      return;
    case DType::kF16:
      for (uint64_t i = 0; i < n; ++i) out[i] = load_f16(row + 2 * i);
      return;
    case DType::kQ4_1:
      KVRT_CHECK(n % 32 == 0);
      for (uint64_t i = 0; i < n; i += 32) dequantize_q4_1(row + i / 32 * 20, out + i);
      return;
    case DType::kQ8_0:
      KVRT_CHECK(n % 32 == 0);
      for (uint64_t i = 0; i < n; i += 32) dequantize_q8_0(row + i / 32 * 34, out + i);
      return;
  }
  KVRT_CHECK(false);
}

}  // namespace kvrt
