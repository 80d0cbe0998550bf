// CpuKernels: one instruction set's kernels as plain function pointers. The scalar table is the definition (NUMERICS.md);
// every other table gives the same bits. Kernels know no threads, no STL and no layers: pointers and counts alone.
#pragma once

#include <cstdint>

#include "runtime/base/limits.h"
#include "runtime/compute/quant/format.h"
#include "runtime/compute/step.h"
#include "runtime/compute/tensor.h"

namespace kvrt {

inline constexpr uint32_t kSpanTokens = 512;  // positions of one softmax span, anchored at position 0

inline constexpr float kSwigluLimit = 7.0f, kSwigluSlope = 1.702f;  // of clamped_swiglu

// Quantized activations of n rows of k. Rows lie in groups of `column_group` (of the table; the last group may be smaller) side by side,
// so that a kernel that works on a group reads all of it in order. In a group of g rows: q [k / 4][g][4] int8 in [-127, 127];
// d, s: [k / 32][g]; sums: [k / 32][g][2].
struct QuantRows {
  int8_t* q;
  float* d;       // scale of the block
  float* s;       // d * sum of the block's q
  int16_t* sums;  // the sums of q over each half of a block
};

// One row's place in its group.
struct QuantRow {
  int8_t* q;
  float *d, *s;
  int16_t* sums;
  uint32_t group;  // rows in it
};

// out[c * out_stride + r] for columns c (rows of x) and weight rows r, from the panels of one tensor.
struct MatmulArgs {
  const uint8_t* panels;
  uint64_t panel_bytes;
  uint32_t rows, k;   // rows: of the tensor; the last panel may be part full
  const float* x;     // F32, F16, BF16: [n][k]
  QuantRows xq;       // every other type: columns are its rows
  const float* bias;  // [rows] or null
  bool accumulate;
  float* out;
  uint64_t out_stride;
};
// Columns begin at a multiple of the table's column_group and end at one, or with the last.
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

// A part of K's bias that K is stored without (KeyBias), for the rows of a tile. With q and b of a pair, q turned by its row's position and
// b not: a row has q·b, and q's part along b after a quarter turn, q1 b0 - q0 b1, both times the scale of the scores. To a key at position span_first + j it gives these two
// turned by the angle of span_first, times cos and sin of j's.
struct TileBias {
  uint32_t pairs = 0;             // 0: K is stored whole
  const float* values = nullptr;  // of the KV head: [pairs][3], the first of the three is the number of RoPE's pair
  const float* rows = nullptr;    // token t's, of head g: rows + t * stride + g * 2 * pairs, [pairs][2]
  uint64_t stride = 0;
  const float* turns = nullptr;    // by RoPE's pairs, [..][2] cosine and sine of the span's first position
  const float* offsets = nullptr;  // [..][2][kSpanTokens] cosine and sine of j
  [[gnu::always_inline]] uint32_t pair(uint32_t i) const { return static_cast<uint32_t>(values[3 * i]); }
  [[gnu::always_inline]] const float* row(uint32_t t, uint32_t g) const { return rows + t * stride + uint64_t{g} * 2 * pairs; }
  // Of all rows and KV heads: the part of those from a row on, of a KV head that `group` heads read.
  [[gnu::always_inline]] TileBias of(uint64_t row, uint32_t kv_head, uint32_t group) const {
    TileBias part = *this;
    if (pairs == 0) return part;
    part.rows += row * stride + uint64_t{kv_head} * group * 2 * pairs;
    part.values += uint64_t{kv_head} * 3 * pairs;
    return part;
  }
};

// Where K and V of a layer and KV head lie in the pool.
struct TileKv {
  uint32_t k_dim, v_dim;
  KvFormat k_format, v_format;
  const uint8_t* k;         // block b's K of this layer and KV head: k + b * block_bytes, [cells][block_tokens]
  const uint8_t* v;         // likewise [block_tokens][cells]
  bool latent;              // instead k is [block_tokens][cells], and v the same rows
  const uint8_t* k_scales;  // where scaled: likewise [scales][block_tokens] f16; else null
  const uint8_t* v_scales;
  uint64_t block_bytes;
  uint32_t block_tokens;
};

// One query tile (tokens x the group's heads) against one span of one KV head.
// Query row i = t * group + g has its q at q + t * q_stride + g * k_dim; with p = first_position + t it sees (p - window, p].
struct AttentionTile : TileKv {
  const float* q;
  uint64_t q_stride;
  uint32_t tokens, group;
  float scale, softcap;    // softcap 0: none
  int64_t first_position;  // token 0's
  int64_t window;          // at least 1; INT64_MAX / 2: all
  TileBias bias;
  [[gnu::always_inline]] uint32_t k_cells() const { return KvRows{k_dim, k_format}.cells(); }
  [[gnu::always_inline]] uint64_t v_row_bytes() const {  // from one position's V to the next
    return KvRows{latent ? k_dim : v_dim, v_format}.bytes();
  }
  const int32_t* blocks;   // the sequence's block table from the span's first position on
  int64_t span_first;      // a span of which some row sees something
  float* scratch;          // attention_scratch(rows, k_dim) floats; rows are tokens * group
  float *max, *sum, *acc;  // out: [rows], [rows], [rows][v_dim]; rows that see nothing of the span are left alone
};

// The floats of the scores, of the packed queries, of the scales of a span (int4: of each group), and of the weights of two groups of int4.
inline constexpr uint32_t kScratchVector = 16, kScaleFloats = kHeadDimMax / kInt4Group * kSpanTokens + kScratchVector;
inline constexpr uint32_t kWeightFloats = 2 * 12 * kSpanTokens + kScratchVector;
[[gnu::always_inline]] constexpr uint64_t packed_floats(uint64_t rows, uint32_t k_dim) {
  return (rows + 15) / 16 * 16 * ((k_dim + kInt4Group - 1) / kInt4Group * kInt4Group);
}
[[gnu::always_inline]] constexpr uint64_t attention_scratch(uint64_t rows, uint32_t k_dim) {
  return rows * kSpanTokens + packed_floats(rows, k_dim) + kScaleFloats + kWeightFloats;
}

// A run of rows of one sequence through `channels` channels of a convolution, in place, without an activation. The states, which may be
// the same: [taps - 1][channels], a tap's `from_stride` or `to_stride` apart.
struct ConvArgs {
  float* x;
  uint64_t stride;
  uint32_t rows, channels, taps;
  const float *weight, *bias;  // [taps], weight_stride apart; bias: or null
  uint64_t weight_stride;
  const float* from;
  uint64_t from_stride;
  float* to;
  uint64_t to_stride;
};

// A run of rows of one sequence through one head. The states may be the same: [state][head_dim].
struct ScanArgs {
  const float *x, *b, *c;
  uint64_t stride;
  const float *step, *decay;  // of each row, gate_stride apart
  uint64_t gate_stride;
  float skip;
  uint32_t rows, head_dim, state;
  const float* from;
  float *to, *out;
  uint64_t out_stride;
};

// Likewise [key_dim][value_dim]; q and k are divided by their lengths.
struct DeltaArgs {
  const float *q, *k;
  uint64_t key_stride;
  const float* v;
  uint64_t stride;
  const float *decay, *rate;
  uint64_t gate_stride;
  uint32_t rows, key_dim, value_dim;
  const float* from;
  float *to, *out;
  uint64_t out_stride;
};

struct CpuKernels {
  const char* isa;
  const MatmulTable* matmul;
  uint32_t column_group;
  void (*quantize_row)(const float* x, uint32_t k, const QuantRow& out);
  void (*rmsnorm_row)(const float* x, const float* weight, float eps, uint32_t width, float* out);
  void (*layernorm_row)(const float* x, const float* weight, const float* bias, float eps, uint32_t width, float* out);  // bias: or null
  void (*silu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*gelu_mul_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*clamped_swiglu_row)(const float* gate, const float* up, uint32_t width, float* out);
  void (*gelu_row)(uint32_t n, float* x);                                      // x = gelu(x)
  void (*softcap_row)(float cap, uint32_t n, float* x);                        // x = cap * tanh(x / cap)
  void (*add_scaled_row)(float factor, const float* y, uint32_t n, float* x);  // x = fma(factor, y, x)
  // Pair i of a head: interleaved (2i, 2i + 1), else (i, i + pairs).
  void (*rope_head)(const float* cos, const float* sin, uint32_t pairs, bool interleaved, float* x);
  // One head of K or V as stored: n elements to out (aligned to an element; int4: a byte each), the scales, f16, to *scale; int8: within ±top.
  void (*kv_row)(KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale);
  void (*attend_span)(const AttentionTile& tile);
  // Merges the next span (max2, sum2, acc2) into (max, sum, acc), in place.
  void (*merge_span)(uint32_t v_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2);
  void (*finish_row)(uint32_t v_dim, float sum, const float* acc, float* out);  // out = acc * (1 / sum)
  // step = softplus(x + bias), decay = exp(step * a)
  void (*decay_row)(const float* x, const float* bias, const float* a, uint32_t n, float* step, float* decay);
  void (*sigmoid_row)(const float* x, uint32_t n, float* out);
  void (*silu_row)(uint32_t n, float* x);
  void (*unit_row)(const float* x, float eps, float divisor, uint32_t n, float* out);  // out = x / (its length * divisor)
  void (*conv_rows)(const ConvArgs& args);
  void (*scan_head)(const ScanArgs& args);
  void (*delta_head)(const DeltaArgs& args);
};

const CpuKernels* scalar_kernels();
const CpuKernels* avx2_kernels();    // call its kernels only where the machine has AVX2, FMA and F16C
const CpuKernels* avx512_kernels();  // likewise AVX-512 F, BW, VL and VNNI, and all that avx2 needs

inline QuantRow quant_row(const CpuKernels& kernels, const QuantRows& rows, uint32_t n, uint32_t k, uint32_t row) {
  const uint32_t i = row % kernels.column_group, first = row - i, left = n - first;
  const uint64_t at = uint64_t{first} * (k / kQuantBlock) + i;
  return {rows.q + uint64_t{first} * k + 4 * i, rows.d + at, rows.s + at, rows.sums + 2 * at,
          left < kernels.column_group ? left : kernels.column_group};
}

inline MatmulFn matmul_of(const CpuKernels& kernels, DType type) { return kernels.matmul->by_type[static_cast<uint32_t>(type)]; }

}  // namespace kvrt
