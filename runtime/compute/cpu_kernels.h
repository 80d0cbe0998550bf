// CpuKernels: one instruction set's kernels as plain function pointers. The scalar table is the definition (NUMERICS.md);
// every other table gives the same bits. Kernels know no threads, no STL and no layers: pointers and counts alone.
#pragma once

#include <cstdint>

#include "runtime/compute/tensor.h"

namespace kvrt {

inline constexpr uint32_t kPanelRows = 16;            // weight rows that lie side by side, one per lane
inline constexpr uint32_t kQuantBlock = 32;           // weights and activations that share a scale
inline constexpr uint32_t kSpanTokens = 512;          // positions of one softmax span, anchored at position 0
inline constexpr uint32_t kQ41PanelBlockBytes = 320;  // d[16] f16, m[16] f16, 4 x 16 rows x 4 bytes
inline constexpr uint32_t kQ80PanelBlockBytes = 544;  // d[16] f16, 8 x 16 rows x 4 bytes

// Quantized activations, one row after the other. q: [n][k] int8 in [-127, 127]; d, s: [n][k / 32].
struct QuantRows {
  int8_t* q;
  float* d;  // scale of the block
  float* s;  // d * sum of the block's q
};

// out[c * out_stride + r] for columns c (rows of x) and weight rows r, from the panels of one tensor.
struct MatmulArgs {
  const uint8_t* panels;
  uint64_t panel_bytes;
  uint32_t rows, k;   // rows: of the tensor; the last panel may be part full
  const float* x;     // F32, F16: [n][k]
  QuantRows xq;       // Q4_1, Q8_0
  const float* bias;  // [rows] or null
  bool accumulate;
  float* out;
  uint64_t out_stride;
};
using MatmulFn = void (*)(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);

// One query tile (tokens x the group's heads) against one span of one KV head.
// Query row i = t * group + g has its q at q + t * q_stride + g * head_dim; with p = first_position + t it sees (p - window, p].
struct AttentionTile {
  const float* q;
  uint64_t q_stride;
  uint32_t tokens, group, head_dim;
  float scale, softcap;    // softcap 0: none
  int64_t first_position;  // of token 0
  int64_t window;          // at least 1; INT64_MAX / 2: all
  const uint8_t* k;        // block b's K of this layer and KV head: k + b * block_bytes, [head_dim][block_tokens] f16
  const uint8_t* v;        // likewise [block_tokens][head_dim] f16
  uint64_t block_bytes;
  uint32_t block_tokens;
  const int32_t* blocks;   // the sequence's block table from the span's first position on
  int64_t span_first;      // a span of which some row sees something
  float* scratch;          // [tokens * group][kSpanTokens]
  float *max, *sum, *acc;  // out: [rows], [rows], [rows][head_dim]; rows that see nothing of the span are left alone
};

struct CpuKernels {
  const char* isa;
  MatmulFn matmul_q4_1, matmul_q8_0, matmul_f16, matmul_f32;
  void (*quantize_row)(const float* x, uint32_t k, int8_t* q, float* d, float* s);
  void (*rmsnorm_row)(const float* x, const float* weight, float eps, uint32_t width, float* out);
  void (*silu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*gelu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*softcap_row)(float cap, uint32_t n, float* x);                        // x = cap * tanh(x / cap)
  void (*add_scaled_row)(float factor, const float* y, uint32_t n, float* x);  // x = fma(factor, y, x)
  // Pair i of a head: interleaved (2i, 2i + 1), else (i, i + pairs).
  void (*rope_head)(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x);
  void (*f32_to_f16_row)(const float* x, uint32_t n, uint16_t* out);
  void (*attend_span)(const AttentionTile& tile);
  // Merges the next span (max2, sum2, acc2) into (max, sum, acc), in place.
  void (*merge_span)(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
  void (*finish_row)(uint32_t head_dim, float sum, const float* acc, float* out);  // out = acc * (1 / sum)
};

const CpuKernels* scalar_kernels();
const CpuKernels* avx2_kernels();  // call its kernels only where the machine has AVX2, FMA and F16C

inline MatmulFn matmul_of(const CpuKernels& kernels, DType type) {
  switch (type) {
    case DType::kQ4_1:
      return kernels.matmul_q4_1;
    case DType::kQ8_0:
      return kernels.matmul_q8_0;
    case DType::kF16:
      return kernels.matmul_f16;
    case DType::kF32:
      return kernels.matmul_f32;
  }
  return nullptr;
}

}  // namespace kvrt
