// Scalar matmul and activation quantization: the definition of both (NUMERICS.md §2, §3).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/quant/block.h"

namespace kvrt::scalar {
namespace {

constexpr uint32_t kColumns = 8;  // a block is taken apart once for so many

using Chains = float[kPanelRows];

// Stores 16 chains of one column: bias after the chain, then the sum with the old value, each rounded once.
void store_panel(const MatmulArgs& args, uint32_t panel, uint32_t column, const Chains& acc) {
  const uint32_t first = panel * kPanelRows;
  for (uint32_t r = 0; r < kPanelRows && first + r < args.rows; ++r) {
    float* out = args.out + column * args.out_stride + first + r;
    float value = acc[r];
    if (args.bias) value = value + args.bias[first + r];
    *out = args.accumulate ? *out + value : value;
  }
}

int32_t dot16(const int8_t* w, const int8_t* q) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < 16; ++i) sum += w[i] * q[i];
  return sum;
}

// One block of one row and one column: the next one or two terms of the chain.
float add_block(const QuantFormat& f, const QuantBlock& w, const int8_t* q, float d, float s, const int16_t* sums, float acc) {
  const int32_t isum = w.half_scale[0] * dot16(w.w, q) + w.half_scale[1] * dot16(w.w + 16, q + 16);
  acc = std::fmaf(static_cast<float>(isum), w.scale * d, acc);
  if (f.min_bytes == 0) return acc;
  if (!f.halves()) return std::fmaf(w.minimum, s, acc);
  const int32_t msum = w.half_minimum[0] * sums[0] + w.half_minimum[1] * sums[1];
  return std::fmaf(static_cast<float>(msum), w.minimum * d, acc);
}

template <DType type>
void panel_quantized(const MatmulArgs& args, const uint8_t* panel, uint32_t column, uint32_t columns, Chains* acc) {
  constexpr QuantFormat kFormat = *quant_format(type);
  const uint64_t blocks = args.k / kQuantBlock;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint8_t* unit = panel + b / kFormat.unit_blocks * kFormat.unit_bytes();
    for (uint32_t r = 0; r < kPanelRows; ++r) {
      const QuantBlock w = to_numbers(kFormat, read_lane(kFormat, unit, b % kFormat.unit_blocks, r));
      for (uint32_t c = 0; c < columns; ++c) {
        const uint64_t at = (column + c) * blocks + b;
        acc[c][r] = add_block(kFormat, w, args.xq.q + at * kQuantBlock, args.xq.d[at], args.xq.s[at], args.xq.sums + 2 * at, acc[c][r]);
      }
    }
  }
}

template <DType type>
float load(const uint8_t* p) {
  uint32_t bits = 0;
  std::memcpy(&bits, p, type == DType::kF32 ? 4 : 2);
  if (type == DType::kF16) return f16_to_f32(static_cast<uint16_t>(bits));
  return std::bit_cast<float>(type == DType::kBF16 ? bits << 16 : bits);
}

template <DType type>
void panel_plain(const MatmulArgs& args, const uint8_t* panel, uint32_t column, uint32_t columns, Chains* acc) {
  for (uint32_t k = 0; k < args.k; ++k) {
    for (uint32_t r = 0; r < kPanelRows; ++r) {
      const float w = load<type>(panel + (k * kPanelRows + r) * (type == DType::kF32 ? 4 : 2));
      for (uint32_t c = 0; c < columns; ++c) acc[c][r] = std::fmaf(w, args.x[uint64_t{column + c} * args.k + k], acc[c][r]);
    }
  }
}

template <DType type>
void matmul(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    const uint8_t* panel = args.panels + p * args.panel_bytes;
    for (uint32_t c = column_begin; c < column_end; c += kColumns) {
      const uint32_t columns = std::min(kColumns, column_end - c);
      Chains acc[kColumns] = {};
      if constexpr (is_plain(type)) {
        panel_plain<type>(args, panel, c, columns, acc);
      } else {
        panel_quantized<type>(args, panel, c, columns, acc);
      }
      for (uint32_t i = 0; i < columns; ++i) store_panel(args, p, c + i, acc[i]);
    }
  }
}

template <DType... types>
constexpr MatmulTable table(DTypeList<types...>) {
  MatmulTable t{};
  ((t.by_type[static_cast<uint32_t>(types)] = matmul<types>), ...);
  return t;
}

}  // namespace

const MatmulTable kMatmul = table(AllDTypes{});

void quantize_row(const float* x, uint32_t k, const QuantRow& out) {
  for (uint32_t b = 0; b < k / kQuantBlock; ++b, x += kQuantBlock) {
    const uint32_t at = b * out.group;
    int8_t* q = out.q + at * kQuantBlock;
    float amax = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      const float a = std::fabs(x[i]);
      amax = a > amax ? a : amax;
    }
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    int16_t sums[2] = {0, 0};
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      float v = x[i] * inverse;
      v = v < 127.0f ? v : 127.0f;  // in this order a NaN comes out as 127
      v = v > -127.0f ? v : -127.0f;
      const float rounded = (v + kRoundMagic) - kRoundMagic;  // to nearest, ties to even
      q[i / 4 * 4 * out.group + i % 4] = static_cast<int8_t>(rounded);
      sums[i / 16] = static_cast<int16_t>(sums[i / 16] + static_cast<int16_t>(rounded));
    }
    out.d[at] = amax / 127.0f;
    out.s[at] = out.d[at] * static_cast<float>(sums[0] + sums[1]);
    std::copy_n(sums, 2, out.sums + 2 * at);
  }
}

}  // namespace kvrt::scalar
