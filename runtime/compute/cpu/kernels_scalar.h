// The scalar kernels by name; scalar_kernels() gathers them into a table.
#pragma once

#include "runtime/compute/cpu/kernels.h"

namespace kvrt::scalar {

// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to an integer, to nearest even.
inline constexpr float kRoundMagic = 12582912.0f;

extern const MatmulTable kMatmul;
void quantize_row(const float* x, uint32_t k, const QuantRow& out);
void rmsnorm_row(const float* x, const float* weight, float eps, uint32_t width, float* out);
void layernorm_row(const float* x, const float* weight, const float* bias, float eps, uint32_t width, float* out);
void silu_mul_row(const float* gate, const float* up, uint32_t width, float* out);
void gelu_mul_row(const float* gate, const float* up, uint32_t width, float* out);
void clamped_swiglu_row(const float* gate, const float* up, uint32_t width, float* out);
void gelu_row(uint32_t n, float* x);
void softcap_row(float cap, uint32_t n, float* x);
void add_scaled_row(float factor, const float* y, uint32_t n, float* x);
void rope_head(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x);
void kv_row(KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale);
void attend_span(const AttentionTile& tile);
void merge_span(uint32_t v_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
void finish_row(uint32_t v_dim, float sum, const float* acc, float* out);
void decay_row(const float* x, const float* bias, const float* a, uint32_t n, float* step, float* decay);
void sigmoid_row(const float* x, uint32_t n, float* out);
void silu_row(uint32_t n, float* x);
void unit_row(const float* x, float eps, float divisor, uint32_t n, float* out);
void conv_rows(const ConvArgs& args);
void scan_head(const ScanArgs& args);
void delta_head(const DeltaArgs& args);
float exp(float x);  // x ≤ 88; 0 below -64
float tanh(float x);
float sum_lanes(const float lanes[16]);  // the fixed tree

}  // namespace kvrt::scalar
