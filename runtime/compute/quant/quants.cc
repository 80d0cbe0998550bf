#include "runtime/compute/quant/quants.h"

#include <bit>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/compute/quant/block.h"

namespace kvrt {
namespace {

constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, "F32", 1, 4},       {DType::kF16, "F16", 1, 2},         {DType::kBF16, "BF16", 1, 2},
    {DType::kQ4_0, "Q4_0", 32, 18},   {DType::kQ4_1, "Q4_1", 32, 20},     {DType::kQ5_0, "Q5_0", 32, 22},
    {DType::kQ5_1, "Q5_1", 32, 24},   {DType::kQ8_0, "Q8_0", 32, 34},     {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110}, {DType::kQ4_K, "Q4_K", 256, 144},   {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210}, {DType::kIQ4_NL, "IQ4_NL", 32, 18}, {DType::kIQ4_XS, "IQ4_XS", 256, 136},
    {DType::kMXFP4, "MXFP4", 32, 17},
};

uint16_t load_u16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

}  // namespace

const DTypeInfo* dtype_info(uint32_t ggml_type) {
  for (const DTypeInfo& info : kDTypes) {
    if (static_cast<uint32_t>(info.type) == ggml_type) return &info;
  }
  return nullptr;
}

std::span<const DTypeInfo> dtypes() { return kDTypes; }

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

float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(uint32_t{h} << 16); }

uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN, quiet
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

uint8_t f32_to_e4m3(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
  if (magnitude < (127u - 6) << 23) {  // steps of 2^-9, as f32 has from 2^14 on: the addition rounds to them
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - ((127u + 14) << 23)));
  }
  const uint32_t rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1)) >> 20;
  return static_cast<uint8_t>(sign | (rounded - ((127u - 7) << 3)));
}

// 2^(e - 128), denormal below 2.
float e8m0_to_f32(uint8_t e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }

void dequantize_row(DType type, const uint8_t* row, uint64_t n, float* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, row, n * sizeof(float));
      return;
    case DType::kF16:
      for (uint64_t i = 0; i < n; ++i) out[i] = f16_to_f32(load_u16(row + 2 * i));
      return;
    case DType::kBF16:
      for (uint64_t i = 0; i < n; ++i) out[i] = bf16_to_f32(load_u16(row + 2 * i));
      return;
    default:
      break;
  }
  const QuantFormat* format = quant_format(type);
  KVRT_CHECK(format != nullptr && n % format->unit_elems() == 0);
  RawBlock raw[8];
  for (uint64_t i = 0; i < n; row += dtype_info(static_cast<uint32_t>(type))->block_bytes) {
    decode_unit(type, row, raw);
    for (uint32_t b = 0; b < format->unit_blocks; ++b, i += kQuantBlock) dequantize_block(*format, to_numbers(*format, raw[b]), out + i);
  }
}

void dequantize_row(const TensorView& table, int32_t row, float* out) {
  KVRT_CHECK(row >= 0 && static_cast<uint64_t>(row) < table.rows());
  const uint64_t bytes = table.data.size() / table.rows();
  dequantize_row(table.type, table.data.data() + static_cast<uint64_t>(row) * bytes, table.cols(), out);
}

}  // namespace kvrt
