// AVX2 attention over one span: keys in lanes for q.k, head dimensions in lanes for p.v. Each block of K and V is read once
// for all rows of the tile. head_dim is a multiple of 8, at most 512.
#include "runtime/compute/cpu_kernels_avx2.h"
#include "runtime/compute/cpu_kernels_scalar.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kRowsAtOnce = 6;  // rows x 2 vectors, or up to 3 rows x 4 vectors: at most 12 accumulators

KVRT_INLINE uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
KVRT_INLINE uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Where rows [row, row + R) have their queries; one division for all.
template <int R>
KVRT_INLINE void queries(const AttentionTile& tile, uint32_t row, const float** q) {
  uint32_t t = row / tile.group, g = row - t * tile.group;
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    q[r] = tile.q + t * tile.q_stride + g * tile.head_dim;
    const bool next = ++g == tile.group;
    t += next;
    g = next ? 0 : g;
  }
}

// Positions [first, end) of the span that row `row` sees. Neither descends with the row.
struct Seen {
  uint32_t first, end;
};
KVRT_INLINE uint32_t within_span(int64_t j) { return j <= 0 ? 0 : j < kSpanTokens ? static_cast<uint32_t>(j) : kSpanTokens; }
KVRT_INLINE Seen seen_by(const AttentionTile& tile, uint32_t row) {
  const int64_t end = tile.first_position + row / tile.group + 1 - tile.span_first;
  return {within_span(end - tile.window), within_span(end)};
}

// A decode reads every byte of K and V once and from far away: each line asks for the one `ahead` bytes on, which lies two
// blocks later. A tile of more rows converts a piece to f32 first, for all of them.
constexpr uint32_t kPrefetchBlocks = 2;
constexpr uint32_t kPieceKeys = 16, kPieceValues = 32;
constexpr uint32_t kHeadDimMax = 512;

KVRT_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// What K and V are read as.
struct F16 {
  static constexpr uint32_t kBytes = 2;
  KVRT_INLINE __m256 load(const uint8_t* p) { return load_f16x8(p); }
  KVRT_INLINE void touch(const uint8_t* p) { prefetch(p); }
};
struct F32 {
  static constexpr uint32_t kBytes = 4;
  KVRT_INLINE __m256 load(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  KVRT_INLINE void touch(const uint8_t*) {}
};

// K (or V) as `tokens` per dimension (or dimensions per token) in lines of `line` bytes, and where to prefetch.
struct Lines {
  const uint8_t* at;
  uint64_t line;
  int64_t ahead;
};

// acc[r][v] += x[r][i] * line[v]. Whichever side has fewer values stays in registers: 12 accumulators leave room for four.
template <typename T, int R, int V>
KVRT_INLINE void multiply_add(const float* const* x, uint32_t i, const uint8_t* line, __m256 (*acc)[V]) {
  __m256 held[R < V ? R : V];
  if (R < V) {
    KVRT_UNROLL for (int r = 0; r < R; ++r) held[r] = _mm256_broadcast_ss(x[r] + i);
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) {
      const __m256 value = T::load(line + 8 * T::kBytes * v);
      KVRT_UNROLL for (int r = 0; r < R; ++r) acc[r][v] = _mm256_fmadd_ps(held[r], value, acc[r][v]);
    }
  } else {
    KVRT_UNROLL for (uint32_t v = 0; v < V; ++v) held[v] = T::load(line + 8 * T::kBytes * v);
    KVRT_UNROLL for (int r = 0; r < R; ++r) {
      const __m256 value = _mm256_broadcast_ss(x[r] + i);
      KVRT_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_fmadd_ps(value, held[v], acc[r][v]);
    }
  }
}

// Scores of R rows against 8 V keys: k.at points at the first key's slot, a line per dimension.
template <typename T, int R, int V>
void score_tile(const AttentionTile& tile, uint32_t row, Lines k, float* scores) {
  const float* q[R];
  queries<R>(tile, row, q);
  __m256 acc[R][V];
  KVRT_UNROLL for (int r = 0; r < R; ++r) { KVRT_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_setzero_ps(); }
  const uint32_t head_dim = tile.head_dim;
  for (uint32_t d = 0; d < head_dim; ++d, k.at += k.line) {
    T::touch(k.at + k.ahead);
    multiply_add<T, R, V>(q, d, k.at, acc);
  }
  const __m256 scale = _mm256_set1_ps(tile.scale);
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int v = 0; v < V; ++v) _mm256_storeu_ps(scores + r * int{kSpanTokens} + 8 * v, _mm256_mul_ps(acc[r][v], scale));
  }
}

// Scores of R rows against the first `keys` of `slots` slots, a multiple of 16 (more are computed; nobody reads them).
template <typename T, int R>
void score_rows(const AttentionTile& tile, uint32_t row, Lines k, uint32_t slots, uint32_t keys, float* scores) {
  constexpr int kWide = R <= 3 ? 4 : 2;
  uint32_t j = 0;
  for (; j + 8 * kWide <= slots && j < keys; j += 8 * kWide, k.at += 8 * kWide * T::kBytes)
    score_tile<T, R, kWide>(tile, row, k, scores + j);
  for (; j < keys; j += 16, k.at += 16 * T::kBytes) score_tile<T, R, 2>(tile, row, k, scores + j);
}

// acc[r][0, 8 V) += p[r][j] * v[j] for j < keys, in order.
template <typename T, int R, int V>
void value_tile(const float* p, Lines v, uint32_t keys, uint32_t head_dim, float* acc) {
  __m256 sum[R][V];
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int i = 0; i < V; ++i) sum[r][i] = _mm256_loadu_ps(acc + static_cast<uint32_t>(r) * head_dim + 8 * i);
  }
  const float* weights[R];
  KVRT_UNROLL for (int r = 0; r < R; ++r) weights[r] = p + r * int{kSpanTokens};
  for (uint32_t j = 0; j < keys; ++j, v.at += v.line) {
    T::touch(v.at + v.ahead);
    multiply_add<T, R, V>(weights, j, v.at, sum);
  }
  KVRT_UNROLL for (int r = 0; r < R; ++r) {
    KVRT_UNROLL for (int i = 0; i < V; ++i) _mm256_storeu_ps(acc + static_cast<uint32_t>(r) * head_dim + 8 * i, sum[r][i]);
  }
}

template <typename T, int R>
void value_rows(const float* p, Lines v, uint32_t keys, uint32_t head_dim, float* acc) {
  constexpr uint32_t kWide = R <= 3 ? 4 : 2;
  uint32_t d = 0;
  for (; d + 8 * kWide <= head_dim; d += 8 * kWide, v.at += 8 * kWide * T::kBytes) value_tile<T, R, kWide>(p, v, keys, head_dim, acc + d);
  for (; d < head_dim; d += 8, v.at += 8 * T::kBytes) value_tile<T, R, 1>(p, v, keys, head_dim, acc + d);
}

using ScoreFn = void (*)(const AttentionTile&, uint32_t, Lines, uint32_t, uint32_t, float*);
using ValueFn = void (*)(const float*, Lines, uint32_t, uint32_t, float*);
template <typename T>
constexpr ScoreFn kScore[] = {nullptr,          score_rows<T, 1>, score_rows<T, 2>, score_rows<T, 3>,
                              score_rows<T, 4>, score_rows<T, 5>, score_rows<T, 6>};
template <typename T>
constexpr ValueFn kValue[] = {nullptr,          value_rows<T, 1>, value_rows<T, 2>, value_rows<T, 3>,
                              value_rows<T, 4>, value_rows<T, 5>, value_rows<T, 6>};

// `lines` lines of `n` f16 (a multiple of 8) to f32, without gaps.
void widen(Lines from, uint32_t lines, uint32_t n, float* to) {
  for (uint32_t i = 0; i < lines; ++i, from.at += from.line, to += n) {
    for (uint32_t j = 0; j < n; j += 8) {
      if (j % 32 == 0) prefetch(from.at + from.ahead + 2 * j);  // a line is 32 elements
      _mm256_storeu_ps(to + j, load_f16x8(from.at + 2 * j));
    }
  }
}

// The lanes of 8 keys from j on that are seen.
KVRT_INLINE __m256 seen_lanes(Seen seen, uint32_t j) {
  const __m256i below_end = lanes_below(static_cast<int>(seen.end) - static_cast<int>(j));
  return _mm256_castsi256_ps(_mm256_andnot_si256(lanes_below(static_cast<int>(seen.first) - static_cast<int>(j)), below_end));
}
KVRT_INLINE bool all_seen(Seen seen, uint32_t j, uint32_t n) { return j >= seen.first && j + n <= seen.end; }

// Scores to weights p = exp(s - max), in place; the row's maximum and sum. Keys that are not seen become 0, from a multiple of 16 to
// a multiple of 16.
void softmax_row(Seen seen, float* p, float* max_out, float* sum_out) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 max8 = lowest;
  for (uint32_t j = seen.first / 8 * 8; j < seen.end; j += 8) {
    const __m256 scores = _mm256_loadu_ps(p + j);
    max8 = _mm256_max_ps(all_seen(seen, j, 8) ? scores : _mm256_blendv_ps(lowest, scores, seen_lanes(seen, j)), max8);
  }
  __m128 max4 = _mm_max_ps(_mm256_castps256_ps128(max8), _mm256_extractf128_ps(max8, 1));
  max4 = _mm_max_ps(max4, _mm_movehl_ps(max4, max4));
  max4 = _mm_max_ss(max4, _mm_shuffle_ps(max4, max4, 1));
  const __m256 max = _mm256_broadcastss_ps(max4);
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (uint32_t j = seen.first / 16 * 16; j < seen.end; j += 16) {
    KVRT_UNROLL for (uint32_t i = 0; i < 2; ++i) {
      __m256 e = exp_ps(_mm256_sub_ps(_mm256_loadu_ps(p + j + 8 * i), max));
      if (!all_seen(seen, j, 16)) e = _mm256_and_ps(e, seen_lanes(seen, j + 8 * i));
      _mm256_storeu_ps(p + j + 8 * i, e);
      sums[i] = _mm256_add_ps(sums[i], e);
    }
  }
  *max_out = _mm_cvtss_f32(max4);
  *sum_out = sum_lanes(sums[0], sums[1]);
}

// The values of `keys` positions from the span's position `first` on, for rows [row, row + rows). What every row sees goes through
// the tile; a key that only some rows see goes row by row, so that whatever lies in a slot beyond a row's position, be it NaN,
// cannot reach it.
template <typename T>
void add_values(const AttentionTile& tile, uint32_t row, uint32_t rows, Lines v, uint32_t first, uint32_t keys) {
  const Lines from = v;
  const auto add = [&](uint32_t r, uint32_t n, uint32_t begin, uint32_t end) {
    if (begin >= end) return;
    v.at = from.at + (begin - first) * from.line;
    kValue<T>[n](tile.scratch + uint64_t{row + r} * kSpanTokens + begin, v, end - begin, tile.head_dim,
                 tile.acc + uint64_t{row + r} * tile.head_dim);
  };
  const uint32_t last = first + keys;
  const uint32_t common_begin = max_u32(first, seen_by(tile, row + rows - 1).first), common_end = min_u32(last, seen_by(tile, row).end);
  if (common_begin == first && common_end == last) return add(0, rows, first, last);
  const bool common = common_begin < common_end;
  for (uint32_t r = 0; r < rows; ++r) {  // in order for each row: what comes before the common keys, those, what comes after
    add(r, 1, max_u32(first, seen_by(tile, row + r).first), common ? common_begin : min_u32(last, seen_by(tile, row + r).end));
  }
  if (!common) return;
  add(0, rows, common_begin, common_end);
  for (uint32_t r = 0; r < rows; ++r) add(r, 1, common_end, min_u32(last, seen_by(tile, row + r).end));
}

// Softmax of the rows that see something, their accumulators at zero.
void begin_values(const AttentionTile& tile, uint32_t rows) {
  for (uint32_t row = 0; row < rows; ++row) {
    const Seen seen = seen_by(tile, row);
    if (seen.first == seen.end) continue;
    float* p = tile.scratch + uint64_t{row} * kSpanTokens;
    if (tile.softcap > 0) softcap_row(tile.softcap, seen.end - seen.first, p + seen.first);
    softmax_row(seen, p, tile.max + row, tile.sum + row);
    float* acc = tile.acc + uint64_t{row} * tile.head_dim;
    for (uint32_t d = 0; d < tile.head_dim; d += 8) _mm256_storeu_ps(acc + d, _mm256_setzero_ps());
  }
}

KVRT_INLINE const uint8_t* block_at(const AttentionTile& tile, const uint8_t* base, uint32_t block) {
  return base + static_cast<uint64_t>(tile.blocks[block]) * tile.block_bytes;
}

// K of block b, prefetching K two blocks on, at the end the first blocks of V; and V of block b.
KVRT_INLINE Lines keys_of(const AttentionTile& tile, uint32_t b, uint32_t blocks) {
  const uint8_t* k = block_at(tile, tile.k, b);
  const uint32_t next = b + kPrefetchBlocks;
  const uint8_t* ahead = next < blocks ? block_at(tile, tile.k, next) : block_at(tile, tile.v, min_u32(next - blocks, blocks - 1));
  return {k, uint64_t{2} * tile.block_tokens, ahead - k};
}

KVRT_INLINE Lines values_of(const AttentionTile& tile, uint32_t b, uint32_t blocks) {
  const uint8_t* v = block_at(tile, tile.v, b);
  return {v, uint64_t{2} * tile.head_dim, block_at(tile, tile.v, min_u32(b + kPrefetchBlocks, blocks - 1)) - v};
}

// A decode: up to kRowsAtOnce rows, straight from f16.
void attend_few(const AttentionTile& tile, uint32_t rows, Seen seen, uint32_t blocks) {
  for (uint32_t b = seen.first / tile.block_tokens; b < blocks; ++b) {
    const uint32_t j = b * tile.block_tokens, skip = seen.first <= j ? 0 : (seen.first - j) / 16 * 16;
    Lines k = keys_of(tile, b, blocks);
    k.at += 2 * skip;
    kScore<F16>[rows](tile, 0, k, tile.block_tokens - skip, min_u32(tile.block_tokens, seen.end - j) - skip, tile.scratch + j + skip);
  }
  begin_values(tile, rows);
  for (uint32_t b = seen.first / tile.block_tokens; b < blocks; ++b) {
    const uint32_t j = b * tile.block_tokens;
    add_values<F16>(tile, 0, rows, values_of(tile, b, blocks), j, min_u32(tile.block_tokens, seen.end - j));
  }
}

// A prefill tile: each piece of K and V is widened once and stays in L1 for all rows.
void attend_many(const AttentionTile& tile, uint32_t rows, Seen seen, uint32_t blocks) {
  alignas(64) float piece[kPieceValues * kHeadDimMax];
  const uint8_t* widened = reinterpret_cast<const uint8_t*>(piece);
  for (uint32_t j = seen.first / kPieceKeys * kPieceKeys; j < seen.end; j += kPieceKeys) {
    Lines k = keys_of(tile, j / tile.block_tokens, blocks);
    k.at += 2 * (j % tile.block_tokens);
    widen(k, tile.head_dim, kPieceKeys, piece);
    for (uint32_t row = 0; row < rows; row += kRowsAtOnce) {
      kScore<F32>[min_u32(kRowsAtOnce, rows - row)](tile, row, {widened, 4 * kPieceKeys, 0}, kPieceKeys, min_u32(kPieceKeys, seen.end - j),
                                                    tile.scratch + uint64_t{row} * kSpanTokens + j);
    }
  }
  begin_values(tile, rows);
  const uint32_t step = min_u32(kPieceValues, tile.block_tokens);
  for (uint32_t j = seen.first / step * step; j < seen.end; j += step) {
    Lines v = values_of(tile, j / tile.block_tokens, blocks);
    v.at += j % tile.block_tokens * v.line;
    const uint32_t n = min_u32(step, seen.end - j);
    widen(v, n, tile.head_dim, piece);
    for (uint32_t row = 0; row < rows; row += kRowsAtOnce) {
      add_values<F32>(tile, row, min_u32(kRowsAtOnce, rows - row), {widened, uint64_t{4} * tile.head_dim, 0}, j, n);
    }
  }
}

}  // namespace

void attend_span(const AttentionTile& tile) {
  if (tile.format != KvFormat::kF16) return scalar::attend_span(tile);
  const uint32_t rows = tile.tokens * tile.group;
  const Seen seen = {seen_by(tile, 0).first, seen_by(tile, rows - 1).end};  // by any row
  const uint32_t blocks = (seen.end + tile.block_tokens - 1) / tile.block_tokens;
  rows <= kRowsAtOnce ? attend_few(tile, rows, seen, blocks) : attend_many(tile, rows, seen, blocks);
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
