// Step: one ragged batch as flat arrays. Rows of several sequences, prefill chunks and decodes together.
#pragma once

#include <cstdint>
#include <span>

namespace kvrt {

// A sequence's part of a step: rows [first_row, first_row + n_rows) hold consecutive positions starting at first_position.
struct StepSeq {
  uint32_t first_row = 0, n_rows = 0;
  int32_t first_position = 0;  // KV of positions [0, first_position) is in the pool already
  // The block tables of KvGroups, one after the other, n_blocks entries each. Entry i: the unit of the pool with the KV of positions
  // [i * block_tokens, (i + 1) * block_tokens).
  const int32_t* blocks = nullptr;
  uint32_t n_blocks = 0;  // covers first_position + n_rows positions
  uint32_t stores = ~0u;  // bit g: the rows' KV in group g is stored. 0: every position of these rows has it already
  // The units of the blocks with the state before the first row, and for the state after the last one; they may be the same. Null: the
  // sequence begins, and its state is 0. Both are null where the model has no states.
  const int32_t *state_from = nullptr, *state_to = nullptr;
  const int32_t* table(uint32_t i) const { return blocks + uint64_t{i} * n_blocks; }
};

// Where a layer has its KV.
struct KvPlace {
  uint32_t layer = 0;  // of the units
  uint32_t table = 0;  // of a sequence's block tables: it names the units
  uint32_t group = 0;
};

// A token's draw from a row of logits: temperature, top_k, top_p and min_p of runtime/engine/sampling/sampler.h, ready for a device.
struct Draw {
  float scale = 0;     // a token's weight is 2^((logit - largest) * scale); 0: the largest is taken, the lowest id of several
  float ones = 0;      // the weight 1 as an integer
  uint32_t top_k = 0;  // 0: off
  float top_p = 0;     // 0: off
  double lowest = 0;   // log2(min_p); -infinity: off
  double chance = 0;   // the random number in [0, 1)
};

struct DrawnToken {
  int32_t token;
  float logprob;    // by the row as it is: no temperature, no cut
  uint32_t finite;  // 0: the row holds a NaN or an infinity, the rest means nothing
};

// A logit that a step did not want: finite, and below all that a model gives.
inline constexpr float kLogitUnwanted = -1e30f;

struct Step {
  std::span<const StepSeq> seqs;          // in row order, covering every row
  std::span<const int32_t> tokens;        // [rows]
  std::span<const int32_t> positions;     // [rows]
  std::span<const uint32_t> logits_rows;  // rows whose logits are wanted, ascending
  std::span<const Draw> draws = {};       // a draw for each of them, where the device draws tokens and the host gets no logits; else empty
  uint32_t n_tables = 1, n_groups = 1;    // block tables of each sequence; groups of layers
  uint32_t state_units = 0;               // of each state_from and state_to; 0: the model has no states
  uint32_t vocab_wanted = 0;              // of a row's logits the leading ones, 0: all; a backend may compute all
  uint32_t n_rows() const { return static_cast<uint32_t>(tokens.size()); }
};

// A block, and the block that becomes its copy.
struct BlockPair {
  uint8_t* to;
  const uint8_t* from;
};

// The formats that K and V are rounded to when they are stored (NUMERICS.md §7).
enum class KvFormat : uint32_t { kF16, kBF16, kF32, kI8, kF8 };
inline constexpr KvFormat kKvFormats[] = {KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32, KvFormat::kI8, KvFormat::kF8};
[[gnu::always_inline]] constexpr bool kv_scaled(KvFormat format) { return format == KvFormat::kI8 || format == KvFormat::kF8; }
inline constexpr uint32_t kKvScaleBytes = 2;                      // where scaled: an f16 per token and KV head, of K and of V
inline constexpr float kInt8Top = 127.0f, kInt8SmallTop = 63.0f;  // int8: the largest integer; in V of small heads
inline constexpr uint32_t kInt8SmallHead = 64;
[[gnu::always_inline]] constexpr float int8_value_top(uint32_t head_dim) { return head_dim <= kInt8SmallHead ? kInt8SmallTop : kInt8Top; }

// fp8: an element is e4m3, and stands for a kFp8Unit-th of that, which f16 has with the same bits; kFp8Top is the largest.
inline constexpr float kFp8Top = 1.75f, kFp8Unit = 256.0f;
// That f16: the biases are 8 apart, so only the sign moves another way than the rest.
[[gnu::always_inline]] constexpr uint16_t fp8_as_f16(uint8_t element) {
  return static_cast<uint16_t>((element & 0x80) << 8 | (element & 0x7f) << 7);
}

[[gnu::always_inline]] constexpr uint32_t kv_elem_bytes(KvFormat format) {
  return format == KvFormat::kF32 ? 4 : kv_scaled(format) ? 1 : 2;
}

// Those of K and of V, which may differ.
struct KvFormats {
  KvFormat k = KvFormat::kF16, v = KvFormat::kF16;
  KvFormats() = default;
  KvFormats(KvFormat both) : k(both), v(both) {}
  KvFormats(KvFormat k_, KvFormat v_) : k(k_), v(v_) {}
};

// K, or V, as it is stored: rows of dim elements, one for each token and KV head.
struct KvRows {
  uint32_t dim = 0;
  KvFormat format = KvFormat::kF16;
  uint32_t elem_bytes() const { return kv_elem_bytes(format); }
  uint32_t scale_bytes() const { return kv_scaled(format) ? kKvScaleBytes : 0; }  // a row's
  uint64_t bytes() const { return uint64_t{dim} * elem_bytes(); }                 // a row's elements
  bool operator==(const KvRows&) const = default;
};

// The layout of the pool: unit u starts at base + u * block_bytes(); inside, per layer K [kv_head][k.dim][token], V
// [kv_head][token][v.dim], then where scaled K's scales [kv_head][token], then where scaled V's; after the layers the padding.
// Latents: per layer rows [kv_head][token][k.dim], each K of a token, whose first v.dim elements are its V; then where scaled their scales.
struct KvGeometry {
  uint32_t layers = 0, kv_heads = 0, block_tokens = 0;
  KvRows k, v;
  bool latent = false;   // of one format
  uint64_t padding = 0;  // bytes

  KvGeometry() = default;
  KvGeometry(uint32_t layers_, uint32_t kv_heads_, KvRows k_, KvRows v_, uint32_t block_tokens_)
      : layers(layers_), kv_heads(kv_heads_), block_tokens(block_tokens_), k(k_), v(v_) {}
  KvGeometry(uint32_t layers_, uint32_t kv_heads_, uint32_t head_dim, uint32_t block_tokens_, KvFormats formats = {})
      : KvGeometry(layers_, kv_heads_, {head_dim, formats.k}, {head_dim, formats.v}, block_tokens_) {}

  // Of one layer and KV head of a block.
  uint64_t head_bytes(const KvRows& rows) const { return block_tokens * rows.bytes(); }
  uint64_t head_scale_bytes(const KvRows& rows) const { return uint64_t{block_tokens} * rows.scale_bytes(); }
  // What has V's elements and scales: rows of their own, or K's.
  const KvRows& v_rows() const { return latent ? k : v; }
  // Where they begin in a layer's part of a block; K is its begin.
  uint64_t v_at() const { return latent ? 0 : kv_heads * head_bytes(k); }
  uint64_t k_scales_at() const { return v_at() + kv_heads * head_bytes(v_rows()); }
  uint64_t v_scales_at() const { return k_scales_at() + (latent ? 0 : kv_heads * head_scale_bytes(k)); }
  uint64_t layer_bytes() const { return v_scales_at() + kv_heads * head_scale_bytes(v_rows()); }
  uint64_t block_bytes() const { return layers * layer_bytes() + padding; }
  bool same_layers(const KvGeometry& other) const {
    return kv_heads == other.kv_heads && k == other.k && v == other.v && latent == other.latent;
  }
  uint64_t blocks_for(uint64_t tokens) const { return tokens / block_tokens + (tokens % block_tokens != 0); }
  uint64_t token_bytes() const {
    const uint64_t row = k.bytes() + k.scale_bytes();
    return uint64_t{layers} * kv_heads * (latent ? row : row + v.bytes() + v.scale_bytes());
  }
};

}  // namespace kvrt
