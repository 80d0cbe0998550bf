// AVX2 attention over one span: keys in lanes for q.k, head dimensions in lanes for p.v. Each block of K and V is read once
// for all rows of the tile. head_dim is a multiple of 8.
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kRowsAtOnce = 6;  // rows x 2 vectors, or up to 3 rows x 4 vectors: at most 12 accumulators

KVRT_INLINE uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

KVRT_INLINE const float* query(const AttentionTile& tile, uint32_t row) {
  return tile.q + row / tile.group * tile.q_stride + row % tile.group * tile.head_dim;
}

// Positions of the span that row `row` sees.
KVRT_INLINE uint32_t visible_keys(const AttentionTile& tile, uint32_t row) {
  const int64_t visible = tile.first_position + row / tile.group + 1 - tile.span_first;
  return visible <= 0 ? 0 : visible < kSpanTokens ? static_cast<uint32_t>(visible) : kSpanTokens;
}

// A decode reads every byte of K and V once and from far away: each line asks for the one `ahead` bytes on, which lies two
// blocks later. A prefill tile has more rows and finds most of them in L2.
constexpr int kPrefetchRows = 3;
constexpr uint32_t kPrefetchBlocks = 2;

KVRT_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// Scores of R rows against 8 V keys: k points at the first key's slot, a line per dimension.
template <int R, int V>
void score_tile(const AttentionTile& tile, uint32_t row, const uint8_t* k, int64_t ahead, float* scores) {
  const float* q[R];
  KVRT_UNROLL for (int r = 0; r < R; ++r) q[r] = query(tile, row + static_cast<uint32_t>(r));
  __m256 acc[R][V];
  KVRT_UNROLL for (int r = 0; r < R; ++r) { KVRT_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_setzero_ps(); }
  const uint64_t line = uint64_t{2} * tile.block_tokens;
  for (uint32_t d = 0; d < tile.head_dim; ++d, k += line) {
    if (R <= kPrefetchRows) prefetch(k + ahead);
    __m256 keys[V];
    KVRT_UNROLL for (int v = 0; v < V; ++v) keys[v] = load_f16x8(k + 16 * v);
    KVRT_UNROLL for (int r = 0; r < R; ++r) {
      const __m256 x = _mm256_broadcast_ss(q[r] + d);
      KVRT_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_fmadd_ps(x, keys[v], acc[r][v]);
    }
  }
  const __m256 scale = _mm256_set1_ps(tile.scale);
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int v = 0; v < V; ++v) _mm256_storeu_ps(scores + r * int{kSpanTokens} + 8 * v, _mm256_mul_ps(acc[r][v], scale));
  }
}

// Scores of R rows against the first `keys` slots of a block (more are computed; nobody reads them).
template <int R>
void score_block(const AttentionTile& tile, uint32_t row, const uint8_t* k, int64_t ahead, uint32_t keys, float* scores) {
  constexpr int kWide = R <= 3 ? 4 : 2;
  uint32_t j = 0;
  for (; j + 8 * kWide <= tile.block_tokens && j < keys; j += 8 * kWide) score_tile<R, kWide>(tile, row, k + 2 * j, ahead, scores + j);
  for (; j < keys; j += 16) score_tile<R, 2>(tile, row, k + 2 * j, ahead, scores + j);
}

// acc[r][0, 8 V) += p[r][j] * v[j] for j < keys, in order.
template <int R, int V>
void value_tile(const float* p, const uint8_t* v, int64_t ahead, uint32_t keys, uint32_t head_dim, float* acc) {
  __m256 sum[R][V];
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int i = 0; i < V; ++i) sum[r][i] = _mm256_loadu_ps(acc + static_cast<uint32_t>(r) * head_dim + 8 * i);
  }
  for (uint32_t j = 0; j < keys; ++j, v += uint64_t{2} * head_dim) {
    if (R <= kPrefetchRows) prefetch(v + ahead);
    __m256 value[V];
    KVRT_UNROLL for (int i = 0; i < V; ++i) value[i] = load_f16x8(v + 16 * i);
    KVRT_UNROLL for (int r = 0; r < R; ++r) {
      const __m256 weight = _mm256_broadcast_ss(p + r * int{kSpanTokens} + j);
      KVRT_UNROLL for (int i = 0; i < V; ++i) sum[r][i] = _mm256_fmadd_ps(weight, value[i], sum[r][i]);
    }
  }
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int i = 0; i < V; ++i) _mm256_storeu_ps(acc + static_cast<uint32_t>(r) * head_dim + 8 * i, sum[r][i]);
  }
}

template <int R>
void value_block(const float* p, const uint8_t* v, int64_t ahead, uint32_t keys, uint32_t head_dim, float* acc) {
  constexpr uint32_t kWide = R <= 3 ? 4 : 2;
  uint32_t d = 0;
  for (; d + 8 * kWide <= head_dim; d += 8 * kWide) value_tile<R, kWide>(p, v + 2 * d, ahead, keys, head_dim, acc + d);
  for (; d < head_dim; d += 8) value_tile<R, 1>(p, v + 2 * d, ahead, keys, head_dim, acc + d);
}

using ScoreFn = void (*)(const AttentionTile&, uint32_t, const uint8_t*, int64_t, uint32_t, float*);
using ValueFn = void (*)(const float*, const uint8_t*, int64_t, uint32_t, uint32_t, float*);
constexpr ScoreFn kScore[] = {nullptr, score_block<1>, score_block<2>, score_block<3>, score_block<4>, score_block<5>, score_block<6>};
constexpr ValueFn kValue[] = {nullptr, value_block<1>, value_block<2>, value_block<3>, value_block<4>, value_block<5>, value_block<6>};

// Scores to weights p = exp(s - max), in place; the row's maximum and sum. Keys beyond `keys` become 0 up to a multiple of 16.
void softmax_row(uint32_t keys, float* p, float* max_out, float* sum_out) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 max8 = lowest;
  const uint32_t whole = keys / 8 * 8;
  for (uint32_t j = 0; j < whole; j += 8) max8 = _mm256_max_ps(_mm256_loadu_ps(p + j), max8);
  if (whole < keys) {
    const __m256 mask = _mm256_castsi256_ps(lanes_below(static_cast<int>(keys - whole)));
    max8 = _mm256_max_ps(_mm256_blendv_ps(lowest, _mm256_loadu_ps(p + whole), mask), max8);
  }
  __m128 max4 = _mm_max_ps(_mm256_castps256_ps128(max8), _mm256_extractf128_ps(max8, 1));
  max4 = _mm_max_ps(max4, _mm_movehl_ps(max4, max4));
  max4 = _mm_max_ss(max4, _mm_shuffle_ps(max4, max4, 1));
  const __m256 max = _mm256_broadcastss_ps(max4);
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (uint32_t j = 0; j < keys; j += 16) {
    KVRT_UNROLL for (uint32_t i = 0; i < 2; ++i) {
      __m256 e = exp_ps(_mm256_sub_ps(_mm256_loadu_ps(p + j + 8 * i), max));
      if (j + 16 > keys) e = _mm256_and_ps(e, _mm256_castsi256_ps(lanes_below(static_cast<int>(keys) - static_cast<int>(j + 8 * i))));
      _mm256_storeu_ps(p + j + 8 * i, e);
      sums[i] = _mm256_add_ps(sums[i], e);
    }
  }
  *max_out = _mm_cvtss_f32(max4);
  *sum_out = sum_lanes(sums[0], sums[1]);
}

// The values of one block's slots [0, keys) for R rows, of which row i sees visible[i] of the span; `first` is the block's
// first position in the span. What every row sees goes through the tile; a key that only some rows see goes row by row, so
// that whatever lies in a slot beyond a row's position, be it NaN, cannot reach it.
void value_rows(const AttentionTile& tile, uint32_t row, uint32_t rows, const uint8_t* v, int64_t ahead, uint32_t first, uint32_t keys) {
  const float* p = tile.scratch + uint64_t{row} * kSpanTokens + first;
  float* acc = tile.acc + uint64_t{row} * tile.head_dim;
  const uint32_t least = visible_keys(tile, row);  // positions do not descend with the row
  const uint32_t common = least <= first ? 0 : min_u32(keys, least - first);
  if (common > 0) kValue[rows](p, v, ahead, common, tile.head_dim, acc);
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t seen = visible_keys(tile, row + r), end = seen <= first ? 0 : min_u32(keys, seen - first);
    if (end <= common) continue;
    kValue[1](p + uint64_t{r} * kSpanTokens + common, v + uint64_t{2} * common * tile.head_dim, 0, end - common, tile.head_dim,
              acc + uint64_t{r} * tile.head_dim);
  }
}

}  // namespace

void attend_span(const AttentionTile& tile) {
  const uint32_t rows = tile.tokens * tile.group, keys = visible_keys(tile, rows - 1);
  const uint32_t blocks = (keys + tile.block_tokens - 1) / tile.block_tokens;
  const auto at = [&tile](const uint8_t* base, uint32_t block) {
    return base + static_cast<uint64_t>(tile.blocks[block]) * tile.block_bytes;
  };
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint8_t* k = at(tile.k, b);
    const uint8_t* next =
        b + kPrefetchBlocks < blocks ? at(tile.k, b + kPrefetchBlocks) : at(tile.v, min_u32(b + kPrefetchBlocks - blocks, blocks - 1));
    const uint32_t j = b * tile.block_tokens;
    for (uint32_t row = 0; row < rows; row += kRowsAtOnce) {
      float* scores = tile.scratch + uint64_t{row} * kSpanTokens + j;
      kScore[min_u32(kRowsAtOnce, rows - row)](tile, row, k, next - k, min_u32(tile.block_tokens, keys - j), scores);
    }
  }
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t seen = visible_keys(tile, row);
    if (seen == 0) continue;
    softmax_row(seen, tile.scratch + uint64_t{row} * kSpanTokens, tile.max + row, tile.sum + row);
    float* acc = tile.acc + uint64_t{row} * tile.head_dim;
    for (uint32_t d = 0; d < tile.head_dim; d += 8) _mm256_storeu_ps(acc + d, _mm256_setzero_ps());
  }
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint8_t* v = at(tile.v, b);
    const int64_t ahead = at(tile.v, min_u32(b + kPrefetchBlocks, blocks - 1)) - v;
    const uint32_t j = b * tile.block_tokens;
    for (uint32_t row = 0; row < rows; row += kRowsAtOnce) {
      value_rows(tile, row, min_u32(kRowsAtOnce, rows - row), v, ahead, j, min_u32(tile.block_tokens, keys - j));
    }
  }
}

void merge_span(uint32_t head_dim, float* max, float* sum, float* acc, float max2, float sum2, const float* acc2) {
  const float both = max2 > *max ? max2 : *max;
  const float a = exp_one(*max - both), b = exp_one(max2 - both);
  *sum = __builtin_fmaf(*sum, a, sum2 * b);
  const __m256 a8 = _mm256_set1_ps(a), b8 = _mm256_set1_ps(b);
  for (uint32_t d = 0; d < head_dim; d += 8) {
    const __m256 second = _mm256_mul_ps(_mm256_loadu_ps(acc2 + d), b8);
    _mm256_storeu_ps(acc + d, _mm256_fmadd_ps(_mm256_loadu_ps(acc + d), a8, second));
  }
  *max = both;
}

void finish_row(uint32_t head_dim, float sum, const float* acc, float* out) {
  const __m256 inverse = _mm256_set1_ps(1.0f / sum);
  for (uint32_t d = 0; d < head_dim; d += 8) _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(acc + d), inverse));
}

}  // namespace kvrt::avx2
