// Scalar matmul and activation quantization: the definition of both (NUMERICS.md §2, §3).
#include <cmath>
#include <cstring>

#include "runtime/compute/cpu_kernels_scalar.h"
#include "runtime/compute/quants.h"

namespace kvrt::scalar {
namespace {

float load_f16(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return f16_to_f32(h);
}

float load_f32(const uint8_t* p) {
  float f;
  std::memcpy(&f, p, sizeof f);
  return f;
}

// Stores 16 chains of one column: bias after the chain, then the sum with what is there, each rounded once.
void store_panel(const MatmulArgs& args, uint32_t panel, uint32_t column, const float* acc) {
  const uint32_t first = panel * kPanelRows;
  for (uint32_t r = 0; r < kPanelRows && first + r < args.rows; ++r) {
    float* out = args.out + column * args.out_stride + first + r;
    float value = acc[r];
    if (args.bias) value = value + args.bias[first + r];
    *out = args.accumulate ? *out + value : value;
  }
}

using PanelFn = void (*)(const uint8_t* panel, const MatmulArgs& args, uint32_t column, float* acc);

template <PanelFn fn>
void matmul(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    for (uint32_t c = column_begin; c < column_end; ++c) {
      float acc[kPanelRows] = {};
      fn(args.panels + p * args.panel_bytes, args, c, acc);
      store_panel(args, p, c, acc);
    }
  }
}

void panel_q4_1(const uint8_t* panel, const MatmulArgs& args, uint32_t column, float* acc) {
  const uint32_t blocks = args.k / kQuantBlock;
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint8_t* w = panel + b * kQ41PanelBlockBytes;
    const int8_t* q = args.xq.q + uint64_t{column} * args.k + b * kQuantBlock;
    const float dx = args.xq.d[uint64_t{column} * blocks + b], s = args.xq.s[uint64_t{column} * blocks + b];
    int32_t sums[kPanelRows] = {};
    for (uint32_t j = 0; j < 4; ++j) {
      for (uint32_t r = 0; r < kPanelRows; ++r) {
        for (uint32_t i = 0; i < 4; ++i) {
          const int32_t byte = w[64 + j * 64 + r * 4 + i];
          sums[r] += (byte & 15) * q[8 * j + i] + (byte >> 4) * q[8 * j + 4 + i];
        }
      }
    }
    for (uint32_t r = 0; r < kPanelRows; ++r) {
      const float dw = load_f16(w + 2 * r), mw = load_f16(w + 32 + 2 * r);
      acc[r] = std::fmaf(static_cast<float>(sums[r]), dw * dx, acc[r]);
      acc[r] = std::fmaf(mw, s, acc[r]);
    }
  }
}

void panel_q8_0(const uint8_t* panel, const MatmulArgs& args, uint32_t column, float* acc) {
  const uint32_t blocks = args.k / kQuantBlock;
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint8_t* w = panel + b * kQ80PanelBlockBytes;
    const int8_t* q = args.xq.q + uint64_t{column} * args.k + b * kQuantBlock;
    const float dx = args.xq.d[uint64_t{column} * blocks + b];
    int32_t sums[kPanelRows] = {};
    for (uint32_t j = 0; j < 8; ++j) {
      for (uint32_t r = 0; r < kPanelRows; ++r) {
        for (uint32_t i = 0; i < 4; ++i) sums[r] += static_cast<int8_t>(w[32 + j * 64 + r * 4 + i]) * q[4 * j + i];
      }
    }
    for (uint32_t r = 0; r < kPanelRows; ++r) acc[r] = std::fmaf(static_cast<float>(sums[r]), load_f16(w + 2 * r) * dx, acc[r]);
  }
}

void panel_f16(const uint8_t* panel, const MatmulArgs& args, uint32_t column, float* acc) {
  const float* x = args.x + uint64_t{column} * args.k;
  for (uint32_t k = 0; k < args.k; ++k) {
    for (uint32_t r = 0; r < kPanelRows; ++r) acc[r] = std::fmaf(load_f16(panel + (k * kPanelRows + r) * 2), x[k], acc[r]);
  }
}

void panel_f32(const uint8_t* panel, const MatmulArgs& args, uint32_t column, float* acc) {
  const float* x = args.x + uint64_t{column} * args.k;
  for (uint32_t k = 0; k < args.k; ++k) {
    for (uint32_t r = 0; r < kPanelRows; ++r) acc[r] = std::fmaf(load_f32(panel + (k * kPanelRows + r) * 4), x[k], acc[r]);
  }
}

}  // namespace

const MatmulFn kMatmulQ41 = matmul<panel_q4_1>;
const MatmulFn kMatmulQ80 = matmul<panel_q8_0>;
const MatmulFn kMatmulF16 = matmul<panel_f16>;
const MatmulFn kMatmulF32 = matmul<panel_f32>;

void quantize_row(const float* x, uint32_t k, int8_t* q, float* d, float* s) {
  for (uint32_t b = 0; b < k / kQuantBlock; ++b, x += kQuantBlock, q += kQuantBlock) {
    float amax = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      const float a = std::fabs(x[i]);
      amax = a > amax ? a : amax;
    }
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    int32_t sum = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      float v = x[i] * inverse;
      v = v < 127.0f ? v : 127.0f;  // in this order a NaN comes out as 127
      v = v > -127.0f ? v : -127.0f;
      const float rounded = (v + kRoundMagic) - kRoundMagic;  // to nearest, ties to even
      q[i] = static_cast<int8_t>(rounded);
      sum += q[i];
    }
    d[b] = amax / 127.0f;
    s[b] = d[b] * static_cast<float>(sum);
  }
}

}  // namespace kvrt::scalar
