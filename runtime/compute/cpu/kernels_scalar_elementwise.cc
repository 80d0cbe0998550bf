// Scalar exp, tanh, norms, activations, rotation: the definition (NUMERICS.md §1, §4 to §6).
#include <bit>
#include <cmath>

#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt::scalar {

float exp(float x) {
  x = -64.0f > x ? -64.0f : x;
  constexpr float kLog2e = 0x1.715476p+0f;
  const float shifted = std::fmaf(x, kLog2e, kRoundMagic);
  const float n = shifted - kRoundMagic;
  const float r = std::fmaf(x, kLog2e, -n);
  float p = 0x1.5bb9b6p-10f;
  for (const float c : {0x1.3ceae2p-7f, 0x1.c6b756p-5f, 0x1.ebf9bap-3f, 0x1.62e42ap-1f, 1.0f}) p = std::fmaf(p, r, c);
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundMagic) + 127u;
  return p * std::bit_cast<float>(exponent << 23);
}

float tanh(float x) {
  const float a = std::fabs(x);
  if (a < 0.625f) {
    const float z = x * x;
    float p = -0x1.75e1cap-8f;
    p = std::fmaf(p, z, 0x1.52269ap-6f);
    p = std::fmaf(p, z, -0x1.b83c5ap-5f);
    p = std::fmaf(p, z, 0x1.110726p-3f);
    p = std::fmaf(p, z, -0x1.555532p-2f);
    return std::fmaf(p * z, x, x);
  }
  const float e = exp(-2.0f * a);
  return std::copysign(1.0f - (e + e) / (1.0f + e), x);
}

float sum_lanes(const float lanes[16]) {
  float t[16];
  for (int i = 0; i < 16; ++i) t[i] = lanes[i];
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
  }
  return t[0];
}

void rmsnorm_row(const float* x, const float* weight, float eps, uint32_t width, float* out) {
  float lanes[16] = {};
  for (uint32_t i = 0; i < width; ++i) lanes[i % 16] = std::fmaf(x[i], x[i], lanes[i % 16]);
  const float mean = sum_lanes(lanes) / static_cast<float>(width);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (uint32_t i = 0; i < width; ++i) out[i] = (x[i] * scale) * weight[i];
}

void layernorm_row(const float* x, const float* weight, const float* bias, float eps, uint32_t width, float* out) {
  float lanes[16] = {}, squares[16] = {};
  for (uint32_t i = 0; i < width; ++i) lanes[i % 16] = lanes[i % 16] + x[i];
  const float mean = sum_lanes(lanes) / static_cast<float>(width);
  for (uint32_t i = 0; i < width; ++i) squares[i % 16] = std::fmaf(x[i] - mean, x[i] - mean, squares[i % 16]);
  const float variance = sum_lanes(squares) / static_cast<float>(width);
  const float scale = 1.0f / std::sqrt(variance + eps);
  for (uint32_t i = 0; i < width; ++i) {
    const float normal = (x[i] - mean) * scale;
    out[i] = bias ? std::fmaf(normal, weight[i], bias[i]) : normal * weight[i];
  }
}

// x / (1 + exp(-t)) * up: the exponent is never positive, so that nothing overflows.
static float gate_mul(float x, float t, float up) {
  const float fall = -std::fabs(t), e = -64.0f < fall ? exp(fall) : 0.0f;
  return ((t < 0.0f ? x * e : x) / (1.0f + e)) * up;
}

void silu_mul_row(const float* gate, const float* up, uint32_t width, float* out) {
  for (uint32_t i = 0; i < width; ++i) out[i] = gate_mul(gate[i], gate[i], up[i]);
}

void gelu_mul_row(const float* gate, const float* up, uint32_t width, float* out) {
  for (uint32_t i = 0; i < width; ++i) {
    const float x = gate[i];
    out[i] = gate_mul(x, std::fmaf(x * x, 0x1.2444f2p-4f, 0x1.988454p+0f) * x, up[i]);
  }
}

void gelu_row(uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; ++i) x[i] = gate_mul(x[i], std::fmaf(x[i] * x[i], 0x1.2444f2p-4f, 0x1.988454p+0f) * x[i], 1.0f);
}

// Comparisons that are false let a NaN through.
void clamped_swiglu_row(const float* gate, const float* up, uint32_t width, float* out) {
  for (uint32_t i = 0; i < width; ++i) {
    const float g = kSwigluLimit < gate[i] ? kSwigluLimit : gate[i], low = kSwigluLimit < up[i] ? kSwigluLimit : up[i];
    out[i] = gate_mul(g, kSwigluSlope * g, (-kSwigluLimit > low ? -kSwigluLimit : low) + 1.0f);
  }
}

void softcap_row(float cap, uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; ++i) x[i] = cap * tanh(x[i] / cap);
}

void add_scaled_row(float factor, const float* y, uint32_t n, float* x) {
  for (uint32_t i = 0; i < n; ++i) x[i] = std::fmaf(factor, y[i], x[i]);
}

void rope_head(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x) {
  for (uint32_t i = 0; i < pairs; ++i) {
    float* a = interleaved ? x + 2 * i : x + i;
    float* b = interleaved ? a + 1 : a + pairs;
    const float x0 = *a, x1 = *b;
    *a = std::fmaf(x0, cos[i], -(x1 * sin[i]));
    *b = std::fmaf(x0, sin[i], x1 * cos[i]);
  }
}

}  // namespace kvrt::scalar
