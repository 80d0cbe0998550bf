// Attention over one span, over any Simd: keys in lanes for q.k, head dimensions in lanes for p.v (NUMERICS.md §7). Each block of
// K and V is read once for all rows of the tile. v_dim is a multiple of kLanes, k_dim and v_dim are at most kHeadDimMax.
#pragma once

#include "runtime/base/limits.h"
#include "runtime/compute/cpu/attention_pairs.h"
#include "runtime/compute/cpu/attention_tiles.h"
#include "runtime/compute/cpu/elementwise.h"

namespace kvrt::simd {

// Positions [first, end) of the span that a row sees. Neither descends with the row.
struct Seen {
  uint32_t first, end;
};
KVRT_INLINE uint32_t within_span(int64_t j) { return j <= 0 ? 0 : j < kSpanTokens ? static_cast<uint32_t>(j) : kSpanTokens; }
KVRT_INLINE Seen seen_by(const AttentionTile& tile, uint32_t row) {
  const int64_t end = tile.first_position + row / tile.group + 1 - tile.span_first;
  return {within_span(end - tile.window), within_span(end)};
}
KVRT_INLINE bool all_seen(Seen seen, uint32_t j, uint32_t n) { return j >= seen.first && j + n <= seen.end; }
template <typename S>
KVRT_INLINE typename S::Mask seen_lanes(Seen seen, uint32_t j) {
  const int at = static_cast<int>(j);
  return S::and_not(S::first_lanes(static_cast<int>(seen.end) - at), S::first_lanes(static_cast<int>(seen.first) - at));
}

// Turns scores into weights p = exp(s - max), in place; gives the row's maximum and sum. value_scales of the span's keys, where V
// has them, go into the weights. The weights of keys that are not seen are not meant to be read.
template <typename S>
void softmax_row(Seen seen, const float* value_scales, float* p, float* max_out, float* sum_out) {
  using F = typename S::F;
  constexpr uint32_t kLanes = S::kLanes;
  const F lowest = S::set1(-__builtin_inff());
  F largest = lowest;
  for (uint32_t j = seen.first / kLanes * kLanes; j < seen.end; j += kLanes) {
    const F scores = S::load(p + j);
    largest = S::max(all_seen(seen, j, kLanes) ? scores : S::select(seen_lanes<S>(seen, j), scores, lowest), largest);
  }
  *max_out = S::max_lanes(largest);
  const F max = S::set1(*max_out);
  typename S::Lanes16 sums = S::zero16();
  const auto weigh = [&](uint32_t j, auto keep) __attribute__((always_inline)) {
    KVRT_UNROLL for (uint32_t i = 0; i < 16 / kLanes; ++i, j += kLanes) {
      const F e = keep(exp<S>(S::sub(S::load(p + j), max)), j);
      sums.v[i] = S::add(sums.v[i], e);
      S::store(p + j, value_scales == nullptr ? e : S::mul(e, S::load(value_scales + j)));
    }
  };
  for (uint32_t j = seen.first / 16 * 16; j < seen.end; j += 16) {
    if (all_seen(seen, j, 16)) {
      weigh(j, [](F e, uint32_t) { return e; });
    } else {
      weigh(j, [&](F e, uint32_t at) { return S::keep(seen_lanes<S>(seen, at), e); });
    }
  }
  *sum_out = S::sum16(sums);
}

KVRT_INLINE const uint8_t* block_at(const AttentionTile& tile, const uint8_t* base, uint32_t block) {
  return base + static_cast<uint64_t>(tile.blocks[block]) * tile.block_bytes;
}

// One span of one tile: KeyPass gives scores, then ValuePass their weights and sums. Each knows the format of its own side alone.
template <typename S>
struct Attention {
  static constexpr uint32_t kRows = kTileAccumulators<S> / 2;  // rows of the widest tile
  static constexpr uint32_t kFewRows = kRows < 8 ? kRows : 8;  // up to here straight from K and V, without a copy in f32
  static constexpr uint32_t kPieceKeys = 32, kPieceFloats = kPieceKeys * kHeadDimMax;  // the piece copied at a time: of K, of V
  static constexpr uint32_t kPrefetchBytes = 8 << 10;

  const AttentionTile& tile;
  uint32_t rows;
  Seen seen;                // the positions that any row sees
  uint32_t blocks, q_dim;   // of the packed queries: int4 has whole groups
  float* packed;            // the queries: of each kRows rows [q_dim][rows]; of latents as their pass has them
  float *scales, *weights;  // of the pass that runs: of the keys, or of each group [kSpanTokens]; of two groups

  explicit Attention(const AttentionTile& t)
      : tile(t),
        rows(t.tokens * t.group),
        seen{seen_by(t, 0).first, seen_by(t, rows - 1).end},
        blocks((seen.end + t.block_tokens - 1) / t.block_tokens),
        q_dim(t.k_format == KvFormat::kI4 ? 2 * t.k_cells() : t.k_dim),
        packed(t.scratch + uint64_t{rows} * kSpanTokens),
        scales(packed + packed_floats(rows, t.k_dim)),
        weights(scales + kScaleFloats) {
    prefetch_scales(tile.k_scales, KvRows{tile.k_dim, tile.k_format}.scales());
    if (tile.latent) return;
    prefetch_scales(tile.v_scales, KvRows{tile.v_dim, tile.v_format}.scales());
    for (uint32_t row = 0; row < rows; row += kRows) pack_queries(row, min_u32(kRows, rows - row));
  }

  KVRT_INLINE_MEMBER void pack_queries(uint32_t row, uint32_t n) const {
    float* to = packed + uint64_t{row} * q_dim;
    for (uint32_t r = 0; r < n; ++r) {
      const uint32_t t = (row + r) / tile.group, g = (row + r) - t * tile.group;
      const float* q = tile.q + t * tile.q_stride + g * tile.k_dim;
      if (tile.k_format != KvFormat::kI4) {
        for (uint32_t d = 0; d < tile.k_dim; ++d) to[uint64_t{d} * n + r] = q[d];
        continue;
      }
      for (uint32_t i = 0; i < q_dim; ++i) {  // in the order of the cells
        const uint32_t d = i / kInt4Group * kInt4Group + i % kInt4Group / 2 + i % 2 * (kInt4Group / 2);
        to[uint64_t{i} * n + r] = d < tile.k_dim ? q[d] : 0.0f;
      }
    }
  }

  // Adds what the bias of K gives to the scores of rows [row, row + n): keys whose dimensions are cosines and sines, the same for all heads and
  // layers. The queries are packed no longer.
  void add_bias(uint32_t row, uint32_t n) const {
    for (uint32_t r = 0; r < n; ++r) {
      const uint32_t t = (row + r) / tile.group, g = (row + r) - t * tile.group;
      const float* parts = tile.bias.row(t, g);
      for (uint32_t i = 0; i < tile.bias.pairs; ++i) {
        const float* turn = tile.bias.turns + uint64_t{2} * tile.bias.pair(i);
        const float along = parts[2 * i], across = parts[2 * i + 1], cos = turn[0], sin = turn[1];
        packed[uint64_t{2} * i * n + r] = __builtin_fmaf(along, cos, across * sin);
        packed[(uint64_t{2} * i + 1) * n + r] = __builtin_fmaf(across, cos, -(along * sin));
      }
    }
    const float* lines[kHeadDimMax / 2];
    for (uint32_t i = 0; i < tile.bias.pairs; ++i) lines[i] = tile.bias.offsets + uint64_t{2} * tile.bias.pair(i) * kSpanTokens;
    kScoreBias<S>[n](packed, tile.bias.pairs, lines, seen.first / 16 * 16, seen.end, tile.scratch + uint64_t{row} * kSpanTokens);
  }

  // How many blocks early rows of so many bytes are prefetched.
  KVRT_INLINE_MEMBER uint32_t ahead(uint32_t row_bytes) const { return max_u32(1, kPrefetchBytes / (tile.block_tokens * row_bytes)); }
  // They lie beside K and V, read once and from far away: so that their lines come all at a time, and while other work is done.
  KVRT_INLINE_MEMBER void prefetch_scales(const uint8_t* from, uint32_t n) const {
    const uint32_t bytes = n * kKvScaleBytes * tile.block_tokens;
    for (uint32_t b = seen.first / tile.block_tokens; b < blocks; ++b) {
      for (uint32_t i = 0; i < bytes; i += 64) prefetch_far(block_at(tile, from, b) + i);
    }
  }
  // K's or V's scales of the span's keys, n of each.
  KVRT_INLINE_MEMBER void load_scales(const uint8_t* from, uint32_t n) const {
    for (uint32_t j = seen.first / 16 * 16; j < seen.end; j += 16) {
      const uint8_t* at = block_at(tile, from, j / tile.block_tokens) + uint64_t{kKvScaleBytes} * (j % tile.block_tokens);
      for (uint32_t g = 0; g < n; ++g, at += kKvScaleBytes * tile.block_tokens) {
        KVRT_UNROLL for (uint32_t i = 0; i < 16; i += S::kLanes) {
          S::store(scales + g * kSpanTokens + j + i, S::load_f16(at + kKvScaleBytes * i));
        }
      }
    }
  }
};

template <typename S, typename T>
inline constexpr uint32_t kFewRowsOf = T::kPairs ? kPairRows<S> : Attention<S>::kFewRows;

// Scores of all rows, from K of format T.
template <typename S, typename T>
struct KeyPass : Attention<S> {
  using Base = Attention<S>;
  using Base::blocks, Base::kPieceKeys, Base::kRows, Base::packed, Base::q_dim, Base::rows, Base::scales, Base::seen, Base::tile;
  uint32_t key_bytes, blocks_ahead, value_bytes;  // bytes of a position's K; of its V, which is prefetched after the last of K

  explicit KeyPass(const Base& base)
      : Base(base),
        key_bytes(base.tile.k_cells() * T::kBytes),
        blocks_ahead(base.ahead(key_bytes)),
        value_bytes(static_cast<uint32_t>(base.tile.v_row_bytes())) {
    if (rows <= kFewRowsMax) prefetch_first();
    if (T::kScaled) base.load_scales(tile.k_scales, T::kPairs ? q_dim / kInt4Group : 1);
  }

  // Of a decode the blocks for which no earlier one asks.
  KVRT_INLINE_MEMBER void prefetch_first() const {
    const uint32_t first = seen.first / tile.block_tokens, bytes = tile.block_tokens * key_bytes;
    for (uint32_t b = first; b < min_u32(first + blocks_ahead, blocks); ++b) {
      for (uint32_t i = 0; i < bytes; i += 64) prefetch_far(block_at(tile, tile.k, b) + i);
    }
  }

  // The place of position j of the span, and the bytes to prefetch with it: of the block blocks_ahead later, after K's last V's first ones.
  KVRT_INLINE_MEMBER const uint8_t* key_at(uint32_t j) const {
    return block_at(tile, tile.k, j / tile.block_tokens) + T::kBytes * (j % tile.block_tokens);
  }
  KVRT_INLINE_MEMBER const uint8_t* key_far(uint32_t j) const {
    const uint32_t next = j / tile.block_tokens + blocks_ahead;
    if (next < blocks) return block_at(tile, tile.k, next) + uint64_t{key_bytes} * (j % tile.block_tokens);
    return block_at(tile, tile.v, min_u32(next - blocks, blocks - 1)) + uint64_t{value_bytes} * (j % tile.block_tokens);
  }

  // Scores of rows [row, row + n) against `slots` times 16 keys from position j on.
  template <typename From>
  KVRT_INLINE_MEMBER void score(uint32_t row, uint32_t n, const Keys& k, uint32_t j, uint32_t slots) const {
    const Scores to{tile.scratch + uint64_t{row} * kSpanTokens + j, T::kScaled ? scales + j : nullptr, tile.scale};
    const float* q = packed + uint64_t{row} * q_dim;
    if constexpr (T::kPairs) {
      kScorePairs<S, From>[n](q, q_dim, k, slots, to);
    } else {
      kScoreRows<S, From>[n](q, q_dim, k, slots, to);
    }
  }

  static constexpr uint32_t kFewRowsMax = kFewRowsOf<S, T>;
  // A decode: straight from K as it lies.
  void few() const {
    const uint32_t from = seen.first / 16 * 16;
    const uint8_t *at[kSpanTokens / 16], *far[kSpanTokens / 16];
    uint32_t slots = 0;
    for (uint32_t j = from; j < seen.end; j += 16, ++slots) {
      at[slots] = key_at(j);
      far[slots] = key_far(j);
    }
    score<T>(0, rows, {at, far, uint64_t{T::kBytes} * tile.block_tokens}, from, slots);
  }

  // A prefill tile: each piece of K is copied to f32 once for all rows.
  void many() const {
    alignas(64) float piece[Base::kPieceFloats];
    const auto* copy = reinterpret_cast<const uint8_t*>(piece);
    const uint8_t* const at[] = {copy, copy + 16 * sizeof(float)};
    for (uint32_t j = seen.first / kPieceKeys * kPieceKeys; j < seen.end; j += kPieceKeys) {
      for (uint32_t i = 0; i < kPieceKeys && j + i < seen.end; i += 16) {
        const uint64_t line = uint64_t{T::kBytes} * tile.block_tokens;
        if constexpr (T::kPairs) {
          widen_keys<S>(key_at(j + i), key_far(j + i), line, q_dim / 2, piece + i, kPieceKeys);
        } else {
          widen<S, T>(key_at(j + i), key_far(j + i), line, tile.k_dim, 16, piece + i, kPieceKeys);
        }
      }
      for (uint32_t row = 0; row < rows; row += kRows) {
        const uint32_t n = min_u32(kRows, rows - row), end = seen_by(tile, row + n - 1).end;
        if (j + kPieceKeys <= seen_by(tile, row).first || j >= end) continue;
        score<Copied>(row, n, {at, at, sizeof(float) * kPieceKeys}, j, (min_u32(kPieceKeys, end - j) + 15) / 16);
      }
    }
  }
};

// Weights of the scores, and the sums over V of format T.
template <typename S, typename T>
struct ValuePass : Attention<S> {
  using Base = Attention<S>;
  using Base::blocks, Base::kRows, Base::rows, Base::scales, Base::seen, Base::tile;
  uint32_t blocks_ahead;

  explicit ValuePass(const Base& base) : Base(base), blocks_ahead(base.ahead(static_cast<uint32_t>(base.tile.v_row_bytes()))) {
    if (T::kScaled) base.load_scales(tile.v_scales, T::kPairs ? (tile.v_dim + kInt4Group - 1) / kInt4Group : 1);
  }

  KVRT_INLINE_MEMBER uint64_t line() const { return tile.v_row_bytes(); }
  KVRT_INLINE_MEMBER ValueRun value_run(uint32_t j, uint32_t end) const {
    const uint32_t block = j / tile.block_tokens, slot = j % tile.block_tokens;
    const uint64_t at = slot * line();
    const uint8_t* far = block_at(tile, tile.v, min_u32(block + blocks_ahead, blocks - 1)) + at;
    return {block_at(tile, tile.v, block) + at, far, min_u32(tile.block_tokens - slot, end - j)};
  }

  // Softmax of the rows that see something; sets their accumulators to zero.
  void begin(uint32_t row, uint32_t n) const {
    for (const uint32_t end = row + n; row < end; ++row) {
      const Seen sees = seen_by(tile, row);
      if (sees.first == sees.end) continue;
      float* p = tile.scratch + uint64_t{row} * kSpanTokens;
      if (tile.softcap > 0) softcap_row<S>(tile.softcap, sees.end - sees.first, p + sees.first);
      softmax_row<S>(sees, T::kScaled && !T::kPairs ? scales : nullptr, p, tile.max + row, tile.sum + row);
      float* acc = tile.acc + uint64_t{row} * tile.v_dim;
      for (uint32_t d = 0; d < tile.v_dim; d += S::kLanes) S::store(acc + d, S::zero());
    }
  }

  // Adds the values of positions [first, last), for rows [row, row + n); add(row, n, begin, end) adds values that all these rows see.
  // A key that only some rows see goes row by row, so that the bytes in a slot beyond a row's position, be they NaN, cannot reach it.
  template <typename Add>
  KVRT_INLINE_MEMBER void add_seen(uint32_t row, uint32_t n, uint32_t first, uint32_t last, Add add) const {
    const uint32_t common_begin = max_u32(first, seen_by(tile, row + n - 1).first), common_end = min_u32(last, seen_by(tile, row).end);
    if (common_begin == first && common_end == last) return add(row, n, first, last);
    const bool common = common_begin < common_end;
    for (uint32_t r = row; r < row + n; ++r) {  // in order for each row: keys before the common ones, those, keys after them
      const Seen sees = seen_by(tile, r);
      add(r, 1, max_u32(first, sees.first), common ? common_begin : min_u32(last, sees.end));
    }
    if (!common) return;
    add(row, n, common_begin, common_end);
    for (uint32_t r = row; r < row + n; ++r) add(r, 1, common_end, min_u32(last, seen_by(tile, r).end));
  }
  template <typename From>
  KVRT_INLINE_MEMBER void add_runs(uint32_t row, uint32_t n, uint32_t begin, const Values& values) const {
    const float* p = tile.scratch + uint64_t{row} * kSpanTokens + begin;
    float* acc = tile.acc + uint64_t{row} * tile.v_dim;
    if constexpr (T::kPairs) {
      kAddPairs<S, From>[n](p, values, tile.v_dim, scales + begin, Base::weights, acc);
    } else {
      kAddValues<S, From>[n](p, values, tile.v_dim, acc);
    }
  }

  static constexpr uint32_t kFewRowsMax = kFewRowsOf<S, T>;
  // A decode: straight from V as it lies.
  void few() const {
    begin(0, rows);
    add_seen(0, rows, seen.first, seen.end, [&](uint32_t row, uint32_t n, uint32_t first, uint32_t end) {
      ValueRun runs[kSpanTokens / 16 + 1];
      uint32_t count = 0;
      for (uint32_t j = first; j < end; j += runs[count++].keys) runs[count] = value_run(j, end);
      if (count > 0) add_runs<T>(row, n, first, {runs, count, line()});
    });
  }

  // A prefill tile: each piece of V is copied to f32 once for all rows.
  void many() const {
    alignas(64) float piece[Base::kPieceFloats];
    const uint32_t step = Base::kPieceFloats / tile.v_dim / 16 * 16, from = seen.first / 16 * 16;
    for (uint32_t first = from; first < seen.end; first += step) {
      const uint32_t last = min_u32(first + step, seen.end);
      for (uint32_t j = first; j < last;) {
        const ValueRun run = value_run(j, last);
        float* to = piece + uint64_t{j - first} * tile.v_dim;
        if constexpr (T::kPairs) {
          for (uint32_t key = 0; key < run.keys; ++key) {
            widen_row<S>(run.at + key * line(), run.far + key * line(), tile.v_dim, nullptr, to + uint64_t{key} * tile.v_dim);
          }
        } else {
          widen<S, T>(run.at, run.far, line(), run.keys, tile.v_dim, to, tile.v_dim);
        }
        j += run.keys;
      }
      for (uint32_t row = 0; row < rows; row += kRows) {
        const uint32_t n = min_u32(kRows, rows - row);
        if (first == from) begin(row, n);
        add_seen(row, n, first, last, [&](uint32_t r, uint32_t count, uint32_t start, uint32_t end) {
          if (start >= end) return;
          const auto* at = reinterpret_cast<const uint8_t*>(piece + uint64_t{start - first} * tile.v_dim);
          const ValueRun run{at, at, end - start};
          add_runs<Copied>(r, count, start, {&run, 1, sizeof(float) * tile.v_dim});
        });
      }
    }
  }
};

// A function for each, so that the registers of one are no concern of the others.
template <typename Pass, typename S>
[[gnu::noinline]] void run_pass(const Attention<S>& attention) {
  const Pass pass(attention);
  attention.rows <= Pass::kFewRowsMax ? pass.few() : pass.many();
}

template <typename S>
[[gnu::noinline]] void add_bias(const Attention<S>& attention) {
  constexpr uint32_t kRows = Attention<S>::kRows;
  for (uint32_t row = 0; row < attention.rows; row += kRows) attention.add_bias(row, min_u32(kRows, attention.rows - row));
}

// Does the pass of one side, whose format this is.
template <template <typename, typename> typename Pass, typename S>
KVRT_INLINE void run_pass(KvFormat format, const Attention<S>& attention) {
  switch (format) {
    case KvFormat::kF16:
      return run_pass<Pass<S, PlainF16>>(attention);
    case KvFormat::kBF16:
      return run_pass<Pass<S, PlainBf16>>(attention);
    case KvFormat::kF32:
      return run_pass<Pass<S, PlainF32>>(attention);
    case KvFormat::kI8:
      return run_pass<Pass<S, PlainI8>>(attention);
    case KvFormat::kF8:
      return run_pass<Pass<S, PlainF8>>(attention);
    case KvFormat::kI4:
      return run_pass<Pass<S, PairsI4>>(attention);
  }
}

template <typename S>
KVRT_INLINE void attend_span(const AttentionTile& tile) {
  const Attention<S> attention(tile);
  run_pass<KeyPass>(tile.k_format, attention);
  if (tile.bias.pairs > 0) add_bias(attention);
  run_pass<ValuePass>(tile.v_format, attention);
}

}  // namespace kvrt::simd
