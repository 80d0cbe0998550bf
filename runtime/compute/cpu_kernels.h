// CpuKernels: one instruction set's kernels as plain function pointers. The scalar table is the definition (NUMERICS.md);
// every other table gives the same bits. Kernels know no threads, no STL and no layers: pointers and counts alone.
#pragma once

#include <cstdint>

#include "runtime/compute/quant_format.h"
#include "runtime/compute/step.h"
#include "runtime/compute/tensor.h"

namespace kvrt {

inline constexpr uint32_t kSpanTokens = 512;  // positions of one softmax span, anchored at position 0

// Quantized activations, one row after the other. q: [n][k] int8 in [-127, 127]; d, s: [n][k / 32]; sums: [n][k / 16].
struct QuantRows {
  int8_t* q;
  float* d;       // scale of the block
  float* s;       // d * sum of the block's q
  int16_t* sums;  // of q, over each half of a block
};

// out[c * out_stride + r] for columns c (rows of x) and weight rows r, from the panels of one tensor.
struct MatmulArgs {
  const uint8_t* panels;
  uint64_t panel_bytes;
  uint32_t rows, k;   // rows: of the tensor; the last panel may be part full
  const float* x;     // F32, F16, BF16: [n][k]
  QuantRows xq;       // every other type
  const float* bias;  // [rows] or null
  bool accumulate;
  float* out;
  uint64_t out_stride;
};
using MatmulFn = void (*)(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end);

// A table of matmul kernels is filled from this list.
template <DType... types>
struct DTypeList {};
using AllDTypes =
    DTypeList<DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,
              DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4>;
struct MatmulTable {
  MatmulFn by_type[kDTypeEnd];
};

// One query tile (tokens x the group's heads) against one span of one KV head.
// Query row i = t * group + g has its q at q + t * q_stride + g * head_dim; with p = first_position + t it sees (p - window, p].
struct AttentionTile {
  const float* q;
  uint64_t q_stride;
  uint32_t tokens, group, head_dim;
  float scale, softcap;     // softcap 0: none
  int64_t first_position;   // of token 0
  int64_t window;           // at least 1; INT64_MAX / 2: all
  KvFormat format;          // of the elements of k and v
  const uint8_t* k;         // block b's K of this layer and KV head: k + b * block_bytes, [head_dim][block_tokens]
  const uint8_t* v;         // likewise [block_tokens][head_dim]
  const uint8_t* k_scales;  // int8: likewise [block_tokens] f16; else null
  const uint8_t* v_scales;
  uint64_t block_bytes;
  uint32_t block_tokens;
  const int32_t* blocks;   // the sequence's block table from the span's first position on
  int64_t span_first;      // a span of which some row sees something
  float* scratch;          // [tokens * group][kSpanTokens]
  float *max, *sum, *acc;  // out: [rows], [rows], [rows][head_dim]; rows that see nothing of the span are left alone
};

struct CpuKernels {
  const char* isa;
  const MatmulTable* matmul;
  void (*quantize_row)(const float* x, uint32_t k, const QuantRows& out);
  void (*rmsnorm_row)(const float* x, const float* weight, float eps, uint32_t width, float* out);
  void (*silu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*gelu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*softcap_row)(float cap, uint32_t n, float* x);                        // x = cap * tanh(x / cap)
  void (*add_scaled_row)(float factor, const float* y, uint32_t n, float* x);  // x = fma(factor, y, x)
  // Pair i of a head: interleaved (2i, 2i + 1), else (i, i + pairs).
  void (*rope_head)(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x);
  // One head of K or V as stored: n elements to out (aligned to an element); int8: their scale, an f16, to *scale.
  void (*kv_row)(KvFormat format, const float* x, uint32_t n, uint8_t* out, uint16_t* scale);
  void (*attend_span)(const AttentionTile& tile);
  // Merges the next span (max2, sum2, acc2) into (max, sum, acc), in place.
  void (*merge_span)(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
  void (*finish_row)(uint32_t head_dim, float sum, const float* acc, float* out);  // out = acc * (1 / sum)
};

const CpuKernels* scalar_kernels();
const CpuKernels* avx2_kernels();  // call its kernels only where the machine has AVX2, FMA and F16C

inline MatmulFn matmul_of(const CpuKernels& kernels, DType type) { return kernels.matmul->by_type[static_cast<uint32_t>(type)]; }

}  // namespace kvrt
