// Step: one ragged batch as flat arrays. Rows of several sequences, prefill chunks and decodes together.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/compute/kv_format.h"

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

// K, or V, as it is stored: rows of dim elements, one for each token and KV head.
struct KvRows {
  uint32_t dim = 0;
  KvFormat format = KvFormat::kF16;
  [[gnu::always_inline]] uint32_t cell_bytes() const { return kv_row_of(format).cell_bytes; }
  // A row's cells: elements, or pairs of them in whole groups: cell i of a group has its element i, and above it element kInt4Group / 2 + i.
  [[gnu::always_inline]] uint32_t cells() const {
    const KvFormatRow& row = kv_row_of(format);
    return row.cell_elems == 1 ? dim : scales() * row.scale_elems / row.cell_elems;
  }
  [[gnu::always_inline]] uint32_t scales() const {  // a row's
    const uint32_t elems = kv_row_of(format).scale_elems;
    return elems == 0 ? 0 : elems == kWholeRow ? 1 : (dim + elems - 1) / elems;
  }
  uint32_t scale_bytes() const { return scales() * kKvScaleBytes; }                           // a row's
  [[gnu::always_inline]] uint64_t bytes() const { return uint64_t{cells()} * cell_bytes(); }  // a row's cells
  bool operator==(const KvRows&) const = default;
};

// The layout of the pool: unit u starts at base + u * block_bytes(); inside, per layer K [kv_head][cell][token], V
// [kv_head][token][cell], then K's scales [kv_head][scale][token], then V's; after the layers the padding.
// Latents: per layer rows [kv_head][token][cell], each K of a token, whose first v.dim elements are its V; then their scales.
struct KvGeometry {
  uint32_t layers = 0, kv_heads = 0, block_tokens = 0;
  KvRows k, v;
  bool latent = false;      // of one format
  bool bias_apart = false;  // as KvFormats
  uint64_t padding = 0;     // bytes

  KvGeometry() = default;
  KvGeometry(uint32_t layers_, uint32_t kv_heads_, KvRows k_, KvRows v_, uint32_t block_tokens_)
      : layers(layers_), kv_heads(kv_heads_), block_tokens(block_tokens_), k(k_), v(v_) {}
  KvGeometry(uint32_t layers_, uint32_t kv_heads_, uint32_t head_dim, uint32_t block_tokens_, KvFormats formats = {})
      : KvGeometry(layers_, kv_heads_, {head_dim, formats.k}, {head_dim, formats.v}, block_tokens_) {
    bias_apart = formats.bias_apart;
  }

  // Of one layer and KV head of a block.
  uint64_t head_bytes(const KvRows& rows) const { return block_tokens * rows.bytes(); }
  uint64_t head_scale_bytes(const KvRows& rows) const { return uint64_t{block_tokens} * rows.scale_bytes(); }
  // What has V's elements and scales: rows of their own, or K's.
  const KvRows& v_rows() const { return latent ? k : v; }
  bool transforms_keys() const { return !latent && (kv_row_of(k.format).transforms_keys || (bias_apart && k.format == KvFormat::kF8)); }
  bool transforms_values() const { return !latent && kv_row_of(v.format).transforms_values; }
  // Where they begin in a layer's part of a block; K is its begin.
  uint64_t v_at() const { return latent ? 0 : kv_heads * head_bytes(k); }
  uint64_t k_scales_at() const { return v_at() + kv_heads * head_bytes(v_rows()); }
  uint64_t v_scales_at() const { return k_scales_at() + (latent ? 0 : kv_heads * head_scale_bytes(k)); }
  uint64_t layer_bytes() const { return v_scales_at() + kv_heads * head_scale_bytes(v_rows()); }
  uint64_t block_bytes() const { return layers * layer_bytes() + padding; }
  bool same_layers(const KvGeometry& other) const {
    return kv_heads == other.kv_heads && k == other.k && v == other.v && latent == other.latent && bias_apart == other.bias_apart;
  }
  uint64_t blocks_for(uint64_t tokens) const { return tokens / block_tokens + (tokens % block_tokens != 0); }
  uint64_t token_bytes() const {
    const uint64_t row = k.bytes() + k.scale_bytes();
    return uint64_t{layers} * kv_heads * (latent ? row : row + v.bytes() + v.scale_bytes());
  }
};

}  // namespace kvrt
