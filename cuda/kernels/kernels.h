// The functions that start kernels: each queues one on a stream and returns. Pointers are device memory unless they say
// host; f32, row-major, one row per row of the step. A row's result depends on no other row: neither on their number nor on their order.
// The bytes that a kernel must move stand beside it in its .cu; cuda/NUMERICS.md has the results and the orders of sums.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/kernels/launch.h"
#include "runtime/compute/head_rows.h"
#include "runtime/compute/quant/format.h"
#include "runtime/compute/rope.h"
#include "runtime/compute/state_layout.h"
#include "runtime/compute/step.h"
#include "runtime/compute/tensor.h"

namespace kvrt::cuda {

inline constexpr uint32_t kFewRows = 16;        // of x that a matvec takes at a time
inline constexpr uint32_t kSplitTokens = 256;   // positions of one part of a decode's attention, anchored at position 0
inline constexpr uint32_t kWeightPartsMax = 4;  // tensors stacked in a weight

// ---- the step, as the device has it (k_step: cuda_backend.cc uploads it in one copy)

// A sequence of a step: its rows, and where in `units` the blocks begin that its state comes from and goes to.
inline constexpr uint32_t kNoState = ~0u;  // the sequence begins
struct DeviceStateSeq {
  uint32_t first_row, n_rows, from_at, to_at;
};
struct DeviceStep {
  const int32_t* tokens = nullptr;             // [rows]
  const int32_t* positions = nullptr;          // [rows]
  const uint32_t* tables_at = nullptr;         // [rows] the place in `tables` of the block table of the row's sequence; of the op's layer
  const int32_t* tables = nullptr;             // unit of positions [i * block_tokens, (i + 1) * block_tokens)
  const uint32_t* stores = nullptr;            // [rows] 0: the row's K and V are in the pool already; of the op's layer
  const uint32_t* logits_rows = nullptr;       // [n_logits] ascending
  const Draw* draws = nullptr;                 // [n_logits] where the step has them
  const DeviceStateSeq* state_seqs = nullptr;  // [rows] the sequences; their blocks' units are in `tables`, too
};

// The states of one layer. Of n_seqs sequences, those that the step does not have are of no rows.
struct DeviceStates {
  StateLayout layout;
  uint8_t* pool;
  uint32_t layer, n_seqs;
  const DeviceStateSeq* seqs;
  const int32_t* units;
};

// ---- weights: 16-row panels, as the CPU's (runtime/compute/NUMERICS.md §9)

struct DevicePart {
  DType type;
  uint32_t row_begin, rows, panels;
  uint64_t panel_bytes;
  const uint8_t* data;
};
struct DeviceWeight {  // host memory
  uint32_t rows = 0, cols = 0, n_parts = 0;
  DevicePart parts[kWeightPartsMax] = {};
};

// ---- rows (rows.cu)

// out[i] = row tokens[i] of the table.
void embed(Stream* stream, const DeviceWeight& table, const int32_t* tokens, uint32_t rows, float* out);
// out = x / rms(x) * weight; in and out may be the same.
void rmsnorm(Stream* stream, const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out);
// LayerNorm; bias may be null.
void layernorm(Stream* stream, const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width,
               float* out);
// RMSNorm in place, for each of `heads` runs of head_dim at x + row * stride; one weight[head_dim] for all.
void rmsnorm_heads(Stream* stream, const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                   float* x);
// LayerNorm likewise, without a bias; each head has weights of its own, weight[heads * head_dim].
void layernorm_heads(Stream* stream, const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                     float* x);
void add(Stream* stream, const float* y, uint64_t n, float* x);  // x += y
void scale(Stream* stream, float factor, uint64_t n, float* x);  // x *= factor
void softcap(Stream* stream, float cap, uint64_t n, float* x);   // x = cap * tanh(x / cap)
void gelu(Stream* stream, uint64_t n, float* x);
void relu_squared(Stream* stream, uint64_t n, float* x);
// x[i] = x[rows[i]] for i < n, in place or not: rows ascend.
void gather_rows(Stream* stream, const float* x, const uint32_t* rows, uint32_t n, uint32_t width, float* out);
// x[rows[i]] += weights[i] * y[i], each one fma; no row twice (experts.cu).
void add_scaled_rows(Stream* stream, const float* y, const uint32_t* rows, const float* weights, uint32_t n, uint32_t width, float* x);
// Copies `width` numbers of each head of n rows: row i's head h at x + i * stride + h * apart.
void copy_heads(Stream* stream, uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out);
// cos and sin [rows][pairs] of positions[row] * inv_freq[pair], in double by the operations of rope.h, times amplitude, rounded once.
void rope_table(Stream* stream, const int32_t* positions, uint32_t rows, const double* inv_freq, uint32_t pairs, double amplitude,
                float* cos, float* sin);
// Rotates `heads` heads of head_dim at x + row * stride.
void rope(Stream* stream, const float* cos, const float* sin, uint32_t pairs, RopeStyle style, uint32_t rows, uint32_t heads,
          uint32_t head_dim, uint32_t stride, float* x);
// Multiplies `width` numbers at x + row * stride by the temperature at positions[row].
void temper(Stream* stream, const Temperature& t, const int32_t* positions, uint32_t rows, uint32_t width, uint32_t stride, float* x);
// Copies `bytes` (a multiple of 16) for each of up to kCopyPairs pairs, none of which touches a block that another one writes: blocks that
// were shared become private.
inline constexpr uint32_t kCopyPairs = 64;
void copy_blocks(Stream* stream, std::span<const BlockPair> pairs, uint64_t bytes);
// Draws a token of each row as its Draw says; draws null: the largest.
void draw_rows(Stream* stream, const float* logits, uint32_t rows, uint32_t vocab, const Draw* draws, DrawnToken* out);

// ---- recurrent layers (states.cu): the ops of Backend, with the CPU's bits

void conv(Stream* stream, const DeviceStates& states, const ConvParams& params, uint32_t stride, float* x);
void scan(Stream* stream, const DeviceStates& states, const ScanParams& params, uint32_t stride, const float* x, const float* dt,
          float* out);
void delta(Stream* stream, const DeviceStates& states, const DeltaParams& params, uint32_t stride, const float* qkv, uint32_t gate_stride,
           const float* beta, const float* alpha, float* out);
void multiply(Stream* stream, Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride,
              float* out, uint32_t out_stride);

// ---- matmuls (quantize.cu, matvec.cu, gemm/gemm.cu)

// Rows for a matvec with quantized weights (runtime/compute/NUMERICS.md §2), in groups of 1 or 8: q [groups][cols / 32][group][32], d and s
// [groups][cols / 32][group], sums [groups][cols / 32][group][2]. So what 8 rows have of a block lies together, as a warp reads it. The last
// group has room for all of its rows.
constexpr uint32_t quant_group(uint32_t n) { return n <= 2 ? 1 : 8; }
constexpr uint32_t quant_room(uint32_t n) { return (n + quant_group(n) - 1) / quant_group(n) * quant_group(n); }  // rows
struct DeviceQuantRows {
  int8_t* q;
  float *d, *s;
  int16_t* sums;
};
// RMSNorm where norm is not null, then quantized. Of an odd number above 2 the last is there twice, so that pairs of rows can be read.
void quantize_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, const DeviceQuantRows& out);
// RMSNorm where norm is not null, then f16 (beyond 65,504: that), padded with zero rows up to padded_n. For gemm.
void f16_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t padded_n, uint32_t cols, uint16_t* out);

// The input of matvec: `quantized` for quantized types, `plain` [n][cols] for F32, F16 and BF16 (after the norm).
// Or, where matvec_takes_rows, `plain` before the norm for all types, with quantized null: then matvec itself does the work of
// quantize_rows and rmsnorm, to the same bits. The output must not overlap it.
struct MatvecInput {
  const float* plain;
  DeviceQuantRows quantized;
  uint32_t n;                   // at most kFewRows
  const float* norm = nullptr;  // for rows before the norm; may be null
  float eps = 0;
};
// True: that costs less than a kernel of its own. It depends on the shapes alone.
bool matvec_takes_rows(const DeviceWeight& w, uint32_t n);
// out[n, w.rows] = in · wᵀ (+ bias); accumulate: out += that.
void matvec(Stream* stream, const DeviceWeight& w, const float* bias, const MatvecInput& in, bool accumulate, float* out);
enum class DeviceActivation : uint32_t { kSilu, kGeluTanh, kClampedSwiglu };
// Silu and gelu: out[n, ff] = act(gate) * up, gate_up holding ff rows of gate, then ff of up (two parts, or one of 2 ff rows).
void matvec_act(Stream* stream, const DeviceWeight& gate_up, DeviceActivation act, const MatvecInput& in, float* out);
// out[n, ff] = act(gate_up[:, :ff]) * gate_up[:, ff:]
void act_mul(Stream* stream, const float* gate_up, DeviceActivation act, uint32_t n, uint32_t ff, float* out);

// out[n, w.rows] = x · wᵀ (+ bias), x f16 [n, cols], weights dequantized to f16 on the way, sums in f32 on tensor cores, K ascending in
// steps of 16. Each output is one chain: no row depends on n.
void gemm(Stream* stream, const DeviceWeight& w, const float* bias, const uint16_t* x, uint32_t n, bool accumulate, float* out);
// The weight's rows as f16, [rows][cols], cols a multiple of 8: for a library's gemm.
void dequantize_f16(Stream* stream, const DeviceWeight& w, uint16_t* out);
// x [n, rows] += bias, or x += y + bias, after a library's gemm. bias may be null.
void add_bias(Stream* stream, const float* bias, uint32_t n, uint32_t rows, float* x);

// ---- prompts in FP8 (gemm/fp8.cu)

// Rows of x, after RMSNorm where norm is not null, and rows of a weight as e4m3, each over a power of two of its own, scales [n] or [rows]
// (NUMERICS.md §3); cols is a multiple of 16.
void e4m3_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, uint8_t* out, float* scales);
void dequantize_e4m3(Stream* stream, const DeviceWeight& w, uint8_t* out, float* scales);
// out[n, rows] = products * x_scales[n] * w_scales[rows] (+ bias); accumulate: out += that. rows a multiple of 4; out may be products.
void scale_products(Stream* stream, const float* products, const float* x_scales, const float* w_scales, const float* bias, uint32_t n,
                    uint32_t rows, bool accumulate, float* out);

// ---- attention (kv.cu, rope_store.cu, attention_decode.cu, attention_prefill.cu)

// Rounds K and V of the rows (at k, v + row * stride) to the pool's formats at their positions. `pool` begins at block 0, layer 0.
void kv_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows, const float* k,
              const float* v, uint32_t stride);

// All work between the projection and attention, with the bits of rmsnorm_heads, rope and kv_store. qkv at + row * stride has heads of Q,
// then of K, then of V; Q is rotated in place, K only in the pool (rope_store.cu).
struct DeviceRopeStore {
  const float *cos, *sin;  // [rows][pairs]
  uint32_t pairs;
  RopeStyle style;
  uint32_t heads;
  const float *q_norm, *k_norm;  // both or neither may be null
  bool norm_rows;                // one norm over all heads of a row: for few rows
  float eps;
  const float* factors = nullptr;  // [(heads + kv_heads) * k.dim] for Q and K after all that; null: none
};
void rope_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows,
                const DeviceRopeStore& params, uint32_t stride, float* qkv);

// The bias that K is stored without (KeyBias), and the tables that turn it (rope.h). K has scales then.
struct DeviceKeyBias {
  uint32_t pairs = 0;             // of each KV head; 0: K has all of it
  const float* values = nullptr;  // [kv_heads][pairs][3]
  uint32_t rope_pairs = 0;        // of the tables
  RopeStyle style = RopeStyle::kInterleaved;
  const float *offsets = nullptr, *turns = nullptr;  // offsets aligned to 16 bytes; turns of each span that a row sees
};
struct DeviceAttention {
  uint32_t heads;
  float scale, softcap;          // softcap 0: none
  uint32_t window;               // 0: all
  const float* sinks = nullptr;  // [heads], or null
  DeviceKeyBias key_bias{};
};
// The number of floats of `partials` for decode_attention.
uint64_t decode_partials(const KvGeometry& kv, uint32_t heads, uint32_t rows, uint32_t splits);
// Row by row over parts of kSplitTokens positions, `splits` parts at most (a row of position p needs p / kSplitTokens + 1), merged in
// order. q at q + row * stride; out [rows, heads * v.dim].
void decode_attention(Stream* stream, const KvGeometry& kv, const uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows,
                      uint32_t splits, const DeviceAttention& params, const float* q, uint32_t stride, float* partials, float* out);

// A tile of query rows of one sequence: rows [first_row, first_row + n), positions from first_position on.
struct PrefillTile {
  uint32_t first_row, n;
  int32_t first_position;
};
inline constexpr uint32_t kPrefillTileRows = 64;  // rows of a tile at most
// In tiles on tensor cores: scores and p · V of f16 or bf16 fragments, sums in f32, keys in tiles of 64 (of 32 where a dimension is above
// 128) anchored at position 0; tiles are begun in their order. False: the dimensions or the formats have none, and decode_attention takes the rows.
bool prefill_supported(const KvGeometry& kv);
void prefill_attention(Stream* stream, const KvGeometry& kv, const uint8_t* pool, uint32_t layer, const DeviceStep& step,
                       const PrefillTile* tiles, uint32_t n_tiles, const DeviceAttention& params, const float* q, uint32_t stride,
                       float* out);

}  // namespace kvrt::cuda
