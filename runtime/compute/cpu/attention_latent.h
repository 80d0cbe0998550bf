// Scores of latents over any Simd. A token's K lies in one row, so rows of queries are in the lanes, and each element of K goes to all of
// them: the heads share one latent, so that even a decode has many rows.
#pragma once

#include "runtime/compute/cpu/attention.h"

namespace kvrt::simd {

template <typename S, typename T>
struct LatentKeyPass : Attention<S> {
  using Base = Attention<S>;
  using Base::blocks, Base::packed, Base::rows, Base::scales, Base::seen, Base::tile;
  using F = typename S::F;
  // The piece copied at a time. Its rows are a constant apart: the tile has no register for each.
  static constexpr uint32_t kLanes = S::kLanes, kPieceKeys = kTileAccumulators<S>, kPieceRow = kHeadDimMax;
  uint32_t blocks_ahead;

  explicit LatentKeyPass(const Base& base) : Base(base), blocks_ahead(base.ahead(base.tile.k_cells() * T::kBytes)) {
    if (T::kScaled) base.load_scales(tile.k_scales, T::kPairs ? (tile.k_dim + kInt4Group - 1) / kInt4Group : 1);
    for (uint32_t row = 0; row < rows; row += kLanes) pack(row, min_u32(kLanes, rows - row));
  }

  // kLanes rows [k_dim][kLanes]; lanes without a row are zeros.
  KVRT_INLINE_MEMBER void pack(uint32_t row, uint32_t n) const {
    float* to = packed + uint64_t{row} * tile.k_dim;
    for (uint32_t r = 0; r < kLanes; ++r) {
      const uint32_t t = (row + r) / tile.group, g = (row + r) - t * tile.group;
      const float* q = tile.q + t * tile.q_stride + g * tile.k_dim;
      for (uint32_t d = 0; d < tile.k_dim; ++d) to[uint64_t{d} * kLanes + r] = r < n ? q[d] : 0.0f;
    }
  }

  // `n` keys from position j on, as f32 [n][kPieceRow].
  KVRT_INLINE_MEMBER void copy(uint32_t j, uint32_t n, float* piece) const {
    for (const uint32_t end = j + n; j < end; ++j, piece += kPieceRow) {
      const uint64_t at = uint64_t{j % tile.block_tokens} * tile.k_cells() * T::kBytes;
      const uint32_t far = min_u32(j / tile.block_tokens + blocks_ahead, blocks - 1);
      const uint8_t *row = block_at(tile, tile.k, j / tile.block_tokens) + at, *later = block_at(tile, tile.k, far) + at;
      if constexpr (T::kPairs) {
        widen_row<S>(row, later, tile.k_dim, scales + j, piece);
        continue;
      } else {
        copy_row(row, later, piece);
      }
    }
  }
  KVRT_INLINE_MEMBER void copy_row(const uint8_t* row, const uint8_t* later, float* piece) const {
    uint32_t d = 0;
    for (; d + kLanes <= tile.k_dim; d += kLanes) {
      if (d * T::kBytes % 64 == 0) prefetch_far(later + d * T::kBytes);
      S::store(piece + d, T::template load<S>(row + d * T::kBytes));
    }
    if (d == tile.k_dim) return;
    alignas(64) uint8_t rest[kLanes * T::kBytes] = {};
    __builtin_memcpy(rest, row + d * T::kBytes, (tile.k_dim - d) * T::kBytes);
    alignas(64) float wide[kLanes];
    S::store(wide, T::template load<S>(rest));
    __builtin_memcpy(piece + d, wide, (tile.k_dim - d) * sizeof(float));
  }

  // Scores of `V` times kLanes rows against kPieceKeys / V keys of the piece; n of them go to position j on.
  template <uint32_t V>
  KVRT_INLINE_MEMBER void score(uint32_t row, const float* keys, uint32_t j, uint32_t n) const {
    constexpr uint32_t kKeys = kPieceKeys / V;
    constexpr bool kScaledHere = T::kScaled && !T::kPairs;  // int4's are in the copy
    F acc[kKeys][V];
    KVRT_UNROLL for (uint32_t k = 0; k < kKeys; ++k) { KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[k][v] = S::zero(); }
    const float* q = packed + uint64_t{row} * tile.k_dim;
    for (const float* end = keys + tile.k_dim; keys < end; ++keys, q += kLanes) {
      F held[V];
      KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) held[v] = S::load(q + uint64_t{v} * kLanes * tile.k_dim);
      KVRT_UNROLL for (uint32_t k = 0; k < kKeys; ++k) {
        const F key = S::broadcast(keys + k * kPieceRow);
        KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) acc[k][v] = S::fma(held[v], key, acc[k][v]);
      }
    }
    alignas(64) float out[kKeys][V * kLanes];
    const F scale = S::set1(tile.scale);
    KVRT_UNROLL for (uint32_t k = 0; k < kKeys; ++k) {
      const F by = S::set1(kScaledHere && k < n ? scales[j + k] : 1.0f);
      KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
        S::store(out[k] + v * kLanes, S::mul(kScaledHere ? S::mul(acc[k][v], by) : acc[k][v], scale));
      }
    }
    const uint32_t count = min_u32(V * kLanes, rows - row);
    for (uint32_t r = 0; r < count; ++r) {
      float* to = tile.scratch + uint64_t{row + r} * kSpanTokens + j;
      for (uint32_t k = 0; k < n; ++k) to[k] = out[k][r];
    }
  }
  template <uint32_t V>
  KVRT_INLINE_MEMBER void score_piece(uint32_t row, const float* piece, uint32_t j, uint32_t n) const {
    for (uint32_t k = 0; k < n; k += kPieceKeys / V) {
      score<V>(row, piece + k * kPieceRow, j + k, min_u32(kPieceKeys / V, n - k));
    }
  }

  void many() const {
    alignas(64) float piece[kPieceKeys * kPieceRow] = {};
    for (uint32_t j = seen.first; j < seen.end; j += kPieceKeys) {
      const uint32_t n = min_u32(kPieceKeys, seen.end - j);
      copy(j, n, piece);
      uint32_t row = 0;
      for (; row + kLanes < rows; row += 2 * kLanes) score_piece<2>(row, piece, j, n);
      if (row < rows) score_piece<1>(row, piece, j, n);
    }
  }
  static constexpr uint32_t kFewRowsMax = 0;
  void few() const { many(); }
};

template <typename S>
KVRT_INLINE void attend_latents(const AttentionTile& tile) {
  const Attention<S> attention(tile);
  run_pass<LatentKeyPass>(tile.k_format, attention);
  run_pass<ValuePass>(tile.k_format, attention);
}

}  // namespace kvrt::simd
