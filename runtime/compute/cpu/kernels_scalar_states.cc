// Scalar kernels of recurrent layers: the definition (NUMERICS.md §11).
#include <cmath>

#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/natural_log.h"

namespace kvrt::scalar {

// A NaN comes out as it is: no bits of it go through exp.
static float softplus(float x) { return x <= 20.0f ? static_cast<float>(plain_log(1.0 + static_cast<double>(exp(x)))) : x; }

void decay_row(const float* x, const float* bias, const float* a, uint32_t n, float* step, float* decay) {
  for (uint32_t i = 0; i < n; ++i) {
    step[i] = softplus(x[i] + bias[i]);
    const float t = step[i] * a[i];
    decay[i] = t == t ? exp(0.0f < t ? 0.0f : t) : t;
  }
}

void sigmoid_row(const float* x, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    const float e = exp(-std::fabs(x[i]));
    out[i] = x[i] == x[i] ? (x[i] < 0.0f ? e : 1.0f) / (1.0f + e) : x[i];
  }
}

void silu_row(uint32_t n, float* x) {
  constexpr float kOne = 1.0f;
  for (uint32_t i = 0; i < n; ++i) silu_mul_row(x + i, &kOne, 1, x + i);
}

void unit_row(const float* x, float eps, float divisor, uint32_t n, float* out) {
  float lanes[16] = {};
  for (uint32_t i = 0; i < n; ++i) lanes[i % 16] = std::fmaf(x[i], x[i], lanes[i % 16]);
  const float scale = 1.0f / std::sqrt(sum_lanes(lanes) + eps) / divisor;
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] * scale;
}

void conv_rows(const ConvArgs& a) {
  const uint32_t kept = a.taps - 1;
  for (uint32_t i = 0; i < kept; ++i) {
    for (uint32_t c = 0; c < a.channels; ++c) a.to[i * a.to_stride + c] = a.from[i * a.from_stride + c];
  }
  for (uint32_t row = 0; row < a.rows; ++row) {
    float* x = a.x + row * a.stride;
    for (uint32_t c = 0; c < a.channels; ++c) {
      const float in = x[c];
      float sum = a.bias ? a.bias[c] : 0.0f;
      for (uint32_t i = 0; i < kept; ++i) sum = std::fmaf(a.weight[i * a.weight_stride + c], a.to[i * a.to_stride + c], sum);
      x[c] = std::fmaf(a.weight[kept * a.weight_stride + c], in, sum);
      for (uint32_t i = 0; i + 1 < kept; ++i) a.to[i * a.to_stride + c] = a.to[(i + 1) * a.to_stride + c];
      a.to[(kept - 1) * a.to_stride + c] = in;
    }
  }
}

void scan_head(const ScanArgs& a) {
  const float* from = a.from;
  for (uint32_t row = 0; row < a.rows; ++row, from = a.to) {
    const float *x = a.x + row * a.stride, *b = a.b + row * a.stride, *c = a.c + row * a.stride;
    const float step = a.step[row * a.gate_stride], decay = a.decay[row * a.gate_stride];
    float* out = a.out + row * a.out_stride;
    for (uint32_t d = 0; d < a.head_dim; ++d) {
      const float in = step * x[d];
      float sum = 0;
      for (uint32_t n = 0; n < a.state; ++n) {
        const uint64_t at = uint64_t{n} * a.head_dim + d;
        a.to[at] = std::fmaf(in, b[n], from[at] * decay);
        sum = std::fmaf(a.to[at], c[n], sum);
      }
      out[d] = std::fmaf(a.skip, x[d], sum);
    }
  }
}

void delta_head(const DeltaArgs& a) {
  const float* from = a.from;
  for (uint32_t row = 0; row < a.rows; ++row, from = a.to) {
    const float *q = a.q + row * a.key_stride, *k = a.k + row * a.key_stride, *v = a.v + row * a.stride;
    const float decay = a.decay[row * a.gate_stride], rate = a.rate[row * a.gate_stride];
    float* out = a.out + row * a.out_stride;
    for (uint32_t d = 0; d < a.value_dim; ++d) {
      float known = 0, sum = 0;
      for (uint32_t n = 0; n < a.key_dim; ++n) known = std::fmaf(from[uint64_t{n} * a.value_dim + d] * decay, k[n], known);
      const float change = (v[d] - known) * rate;
      for (uint32_t n = 0; n < a.key_dim; ++n) {
        const uint64_t at = uint64_t{n} * a.value_dim + d;
        a.to[at] = std::fmaf(k[n], change, from[at] * decay);
        sum = std::fmaf(a.to[at], q[n], sum);
      }
      out[d] = sum;
    }
  }
}

}  // namespace kvrt::scalar
