// Attention of tiles of query rows, online over tiles of keys that are anchored at position 0: a row's result is the same in any tile.
// A warp takes 16 rows; scores and weights stay in its registers, K and V come to shared memory once for all four warps, as 16-bit
// numbers. The products sum over their rows: head dimensions of K, tokens of V.
#include <algorithm>
#include <type_traits>

#include "cuda/kernels/prefill_tiles.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kWarpRows = 16;
static_assert(kPrefillTileRows == kTileThreads / kWarp * kWarpRows);

// ---- a warp's 16 rows. A lane has rows g and g + 8 (i = 0, 1) and of each 8 columns the two from 2 t on.

// Transforms a row whose elements 16 k + {2t, 2t + 1, 2t + 8, 2t + 9} its lanes hold, in the order of hadamard().
template <uint32_t kSteps>
__device__ __forceinline__ void hadamard_fragments(uint32_t dim, float (&x)[kSteps][4]) {
  const auto cross = [](float& low, float& high) {
    const float a = low, b = high;
    low = a + b;
    high = a - b;
  };
#pragma unroll
  for (uint32_t k = 0; k < kSteps; ++k) {
    cross(x[k][0], x[k][1]);
    cross(x[k][2], x[k][3]);
#pragma unroll
    for (uint32_t lanes = 1; lanes < 4; lanes *= 2) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) {
        const float other = __shfl_xor_sync(kFullWarp, x[k][j], static_cast<int>(lanes));
        x[k][j] = (threadIdx.x & lanes) != 0 ? other - x[k][j] : x[k][j] + other;
      }
    }
    cross(x[k][0], x[k][2]);
    cross(x[k][1], x[k][3]);
  }
#pragma unroll
  for (uint32_t half = 1; half < kSteps; half *= 2) {
    if (16 * half >= dim) continue;
#pragma unroll
    for (uint32_t k = 0; k < kSteps; ++k) {
      if ((k & half) != 0) continue;
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) cross(x[k][j], x[k + half][j]);
    }
  }
}

template <typename Kv, uint32_t kDims, bool biased>
struct Warp {
  using T = Tiles<Kv, kDims>;
  static constexpr uint32_t kSteps = kDims / 16, kKeyTiles = T::kKeys / 8;

  uint32_t q[kSteps][4] = {};
  float o[kDims / 8][4];
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};  // the sum is over the lane's keys
  float unit[2] = {power_in(0), power_in(0)};          // with scales: o is over this
  int32_t first, last;                                 // positions of the warp's rows

  static __device__ __forceinline__ bool k_bf16(const PrefillArgs& a) { return Kv::k(a.kv) == KvFormat::kBF16; }
  static __device__ __forceinline__ bool v_bf16(const PrefillArgs& a) { return Kv::v(a.kv) == KvFormat::kBF16; }

  // The factor of weights and of their sum: few f16 weights are denormal then.
  static __device__ __forceinline__ float weights_up(bool bf16) { return bf16 ? 1.0f : 4096.0f; }

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (auto& columns : o) {
      for (float& x : columns) x = 0;
    }
  }

  // Loads q of the rows; rows from n on are zero. One row after the other: there are too few registers for both.
  __device__ __forceinline__ void load_queries(const PrefillArgs& a, const PrefillTile& tile, uint32_t head, uint32_t warp) {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll 1
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = warp * kWarpRows + g + 8 * i;
      const float* from = a.q + uint64_t{tile.first_row + row} * a.stride + uint64_t{head} * a.kv.k_dim + 2 * t;
      float x[kSteps][4];
#pragma unroll
      for (uint32_t k = 0; k < kSteps; ++k) {
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) x[k][j] = row < tile.n && 16 * k < a.kv.k_dim ? from[16 * k + 8 * (j / 2) + j % 2] : 0.0f;
      }
      if (Kv::kScaled && a.kv.transforms_keys) hadamard_fragments(hadamard_dim(a.kv.k_dim), x);
#pragma unroll
      for (uint32_t k = 0; k < kSteps; ++k) {
        if (!k_bf16(a)) {
#pragma unroll
          for (float& e : x[k]) e = within_f16(e);
        }
        const uint32_t low = to_pair(k_bf16(a), x[k][0], x[k][1]), high = to_pair(k_bf16(a), x[k][2], x[k][3]);
        q[k][0] = i == 0 ? low : q[k][0];
        q[k][1] = low;
        q[k][2] = i == 0 ? high : q[k][2];
        q[k][3] = high;
      }
    }
  }

  __device__ __forceinline__ void multiply_keys(const T& tiles, float (&s)[kKeyTiles][4]) const {
    k_bf16(tiles.a) ? multiply_keys_as<true>(tiles, s) : multiply_keys_as<false>(tiles, s);
  }
  template <bool bf16>
  __device__ __forceinline__ void multiply_keys_as(const T& tiles, float (&s)[kKeyTiles][4]) const {
#pragma unroll
    for (uint32_t k = 0; k < kSteps; ++k) {
      if (16 * k >= tiles.a.kv.k_dim) break;
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; n += 2) {
        uint32_t b[4];
        fragments<T::kKeyChunks>(tiles.k, 16 * k, n, b);
        mma_16x8x16<bf16>(s[n], q[k], {b[0], b[1]});
        mma_16x8x16<bf16>(s[n + 1], q[k], {b[2], b[3]});
      }
    }
  }

  // Adds what K's bias gives to the scores of the lane's rows. Their queries are turned again for each tile: that costs a quarter of the sums
  // over its keys, and no memory. Rows beyond the tile's last are as that.
  __device__ __forceinline__ void add_bias(const T& tiles, const float* q_at, int32_t base, float (&s)[kKeyTiles][4]) const {
    const ScoreBias& bias = tiles.a.bias;
    const int32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const float* rows[2] = {q_at + static_cast<uint64_t>(min(g, last - first)) * tiles.a.stride,
                            q_at + static_cast<uint64_t>(min(g + 8, last - first)) * tiles.a.stride};
#pragma unroll 1
    for (uint32_t i = 0; i < bias.of.pairs; ++i) {
      const float* pair = bias.pair(tiles.kv_head, i);
      const float2 by[2] = {bias.turned(pair, rows[0], span_of(base)), bias.turned(pair, rows[1], span_of(base))};
      const float* at = bias.offset(pair, base + 2 * t);
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        const float2 cos = *reinterpret_cast<const float2*>(at + 8 * n), sin = *reinterpret_cast<const float2*>(at + kTurnTokens + 8 * n);
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) {
          s[n][c] = fmaf(by[c / 2].y, c % 2 == 0 ? sin.x : sin.y, fmaf(by[c / 2].x, c % 2 == 0 ? cos.x : cos.y, s[n][c]));
        }
      }
    }
  }

  // Turns q · k into scores; -infinity for keys that a row does not see. q_at: the queries of the warp's first row.
  __device__ __forceinline__ void score(const T& tiles, const float* q_at, int32_t base, float (&s)[kKeyTiles][4]) const {
    const PrefillArgs& a = tiles.a;
    const int32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const Seen seen[2] = {seen_from(first + g, a.window), seen_from(first + g + 8, a.window)};
    const bool whole = base + int32_t{T::kKeys} - 1 <= first && base >= seen_from(first + 15, a.window).first;
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n) {
      float2 scale = make_float2(1, 1);
      if (tiles.bytes(false)) scale = tiles.scale_pair(false, n);
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c) {
        if (tiles.bytes(false)) s[n][c] = s[n][c] * (c % 2 == 0 ? scale.x : scale.y);
        s[n][c] = s[n][c] * a.scale;
      }
    }
    if constexpr (biased) add_bias(tiles, q_at, base, s);
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c) {
        if (a.softcap > 0) s[n][c] = softcap_of(s[n][c], a.softcap);
        if (!whole && !seen[c / 2].has(base + static_cast<int32_t>(8 * n + c % 2) + 2 * t)) s[n][c] = -INFINITY;
      }
    }
  }

  // Turns scores into weights, in pairs as the next product reads them; the rows' sums so far are rescaled to the new maximum.
  __device__ __forceinline__ void weigh(const T& tiles, float (&s)[kKeyTiles][4], uint32_t (&p)[kKeyTiles][2]) {
    const bool bf16 = v_bf16(tiles.a), scaled = tiles.bytes(true);
    const float up = weights_up(bf16);
    float keep_o[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float most = -INFINITY, most_scale = 0;
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        most = fmaxf(fmaxf(s[n][2 * i], s[n][2 * i + 1]), most);
        if (scaled) {
          const float2 scale = tiles.scale_pair(true, n);
          if (s[n][2 * i] != -INFINITY) most_scale = fmaxf(scale.x, most_scale);
          if (s[n][2 * i + 1] != -INFINITY) most_scale = fmaxf(scale.y, most_scale);
        }
      }
      most = fmaxf(warp_max(most, 4), max[i]);
      const float from = most == -INFINITY ? 0.0f : most, keep = exp_of(max[i] - from);  // keep is 1 where the maximum stays
      float inverse = 1;
      keep_o[i] = keep;
      if (scaled) {
        const float both = fmaxf(power_in(warp_max(most_scale, 4)), unit[i]);
        keep_o[i] = keep * (unit[i] / both);
        inverse = 1 / both;
        unit[i] = both;
      }
      max[i] = most;
      sum[i] = sum[i] * keep;
#pragma unroll
      for (uint32_t n = 0; n < kKeyTiles; ++n) {
        float w[2];
#pragma unroll
        for (uint32_t j = 0; j < 2; ++j) {
          w[j] = s[n][2 * i + j] == -INFINITY ? 0.0f : exp_of(s[n][2 * i + j] - from) * up;
          sum[i] = sum[i] + w[j];
        }
        if (scaled) {
          const float2 scale = tiles.scale_pair(true, n);
          w[0] = w[0] == 0 ? 0 : w[0] * (scale.x * inverse);
          w[1] = w[1] == 0 ? 0 : w[1] * (scale.y * inverse);
        }
        p[n][i] = to_pair(bf16, w[0], w[1]);
      }
    }
    if (!__any_sync(kFullWarp, keep_o[0] != 1 || keep_o[1] != 1)) return;
#pragma unroll
    for (auto& columns : o) {
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c) columns[c] = columns[c] * keep_o[c / 2];
    }
  }

  __device__ __forceinline__ void add_values(const T& tiles, int32_t base, const uint32_t (&p)[kKeyTiles][2]) {
    v_bf16(tiles.a) ? add_values_as<true>(tiles, base, p) : add_values_as<false>(tiles, base, p);
  }
  template <bool bf16>
  __device__ __forceinline__ void add_values_as(const T& tiles, int32_t base, const uint32_t (&p)[kKeyTiles][2]) {
#pragma unroll
    for (uint32_t n = 0; n < kKeyTiles; n += 2) {
      if (base + static_cast<int32_t>(8 * n) > last) break;  // no row sees the keys from here on
      const uint32_t weights[4] = {p[n][0], p[n][1], p[n + 1][0], p[n + 1][1]};
#pragma unroll
      for (uint32_t d = 0; d < kDims / 8; d += 2) {
        if (8 * d >= tiles.a.kv.v_dim) break;
        uint32_t b[4];
        fragments<T::kDimChunks>(tiles.v(), 8 * n, d, b);
        mma_16x8x16<bf16>(o[d], weights, {b[0], b[1]});
        mma_16x8x16<bf16>(o[d + 1], weights, {b[2], b[3]});
      }
    }
  }

  // A row that sees an infinity or a NaN in V is NaN.
  __device__ __forceinline__ void take_odd_keys(const T& tiles, int32_t base) {
    if (tiles.bytes(true)) return;
    const int32_t g = threadIdx.x % kWarp / 4;
    const auto* words = reinterpret_cast<const uint32_t*>(tiles.odd_keys());
    for (uint32_t word = 0; word < T::kKeys / 4; ++word) {
      if (words[word] == 0) continue;
      for (uint32_t key = 4 * word; key < 4 * word + 4; ++key) {
        const auto seen = [&](int32_t row) { return seen_from(first + row, tiles.a.window).has(base + static_cast<int32_t>(key)); };
        if (tiles.odd_keys()[key] != 0 && seen(g)) sum[0] = NAN;
        if (tiles.odd_keys()[key] != 0 && seen(g + 8)) sum[1] = NAN;
      }
    }
  }

  __device__ __forceinline__ void store(const T& tiles, const PrefillTile& tile, uint32_t head, uint32_t warp) {
    const PrefillArgs& a = tiles.a;
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = warp * kWarpRows + g + 8 * i;
      float total = warp_sum(sum[i], 4), keep = tiles.bytes(true) ? unit[i] : 1.0f;
      if (a.sinks != nullptr) {
        const float sink = a.sinks[head], most = fmaxf(sink, max[i]), down = exp_of(max[i] - most);
        total = fmaf(total, down, exp_of(sink - most) * weights_up(v_bf16(a)));
        keep = keep * down;
      }
      const float inverse = keep / total;
      if (row >= tile.n) continue;
      float* to = a.out + (uint64_t{tile.first_row + row} * a.heads + head) * a.kv.v_dim + 2 * t;
#pragma unroll
      for (uint32_t d = 0; d < kDims / 8; ++d) {
        if (8 * d < a.kv.v_dim) *reinterpret_cast<float2*>(to + 8 * d) = make_float2(o[d][2 * i] * inverse, o[d][2 * i + 1] * inverse);
      }
    }
  }
};

// The number of blocks that share a multiprocessor, as far as registers allow.
[[maybe_unused]] constexpr uint32_t blocks_of(bool scaled, uint32_t dims) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  const uint32_t most = 2;
#else
  const uint32_t most = scaled ? 3 : 4;
#endif
  return dims <= 64 ? most : dims <= 128 ? most - 1 : 2;
}

// A block per head (x) and tile of rows (y), in the order of `tiles`, the longest first. q at + row * stride: [heads][k_dim]. Bytes: K
// and V that the tile sees once, from the L2 cache where the group's other heads have asked for them, and 8 per element of q.
template <typename Kv, uint32_t kDims, bool biased>
__global__ void __launch_bounds__(kTileThreads, blocks_of(Kv::kScaled, kDims)) attend_tile(PrefillArgs a) {
  KVRT_DYNAMIC_SHARED(memory);
  using T = Tiles<Kv, kDims>;
  grid_wait();
  const uint32_t head = blockIdx.x, warp = threadIdx.x / kWarp;
  const PrefillTile tile = a.tiles[blockIdx.y];
  const int32_t last = tile.first_position + static_cast<int32_t>(tile.n) - 1;
  const T tiles{a, a.step.tables_at[tile.first_row], head / a.group, {seen_from(tile.first_position, a.window).first, last}, memory};
  const int32_t begin = tiles.seen.first / int32_t{T::kKeys} * int32_t{T::kKeys};
  tiles.clear_odd_keys();
  tiles.load_keys(begin);
  tiles.load_values(begin);
  Warp<Kv, kDims, biased> rows;
  rows.first = tile.first_position + static_cast<int32_t>(warp * kWarpRows);
  rows.last = min(rows.first + int32_t{kWarpRows} - 1, last);
  rows.load_queries(a, tile, head, warp);
  rows.begin();
  const float* q_at = a.q + uint64_t{tile.first_row + warp * kWarpRows} * a.stride + uint64_t{head} * a.kv.k_dim;
  const int32_t rows_see = seen_from(rows.first, a.window).first;
  grid_launch_next();
  for (int32_t base = begin; base <= last; base += int32_t{T::kKeys}) {
    const bool active = rows.first <= last && base <= rows.last && base + int32_t{T::kKeys} > rows_see;
    float s[T::kKeys / 8][4] = {};
    uint32_t p[T::kKeys / 8][2];
    copy_async_wait<1>();
    tiles.widen_keys();
    __syncthreads();
    if (active) rows.multiply_keys(tiles, s);
    if (active) rows.score(tiles, q_at, base, s);
    copy_async_wait<0>();
    tiles.widen_values();
    const bool whole = base + int32_t{T::kKeys} - 1 <= tile.first_position && base >= seen_from(last, a.window).first;
    if (!whole) tiles.find_odd_keys();
    __syncthreads();  // every warp has read K, and V has come
    if (base + int32_t{T::kKeys} <= last) tiles.load_keys(base + int32_t{T::kKeys});
    if (active) rows.weigh(tiles, s, p);
    if (active) rows.add_values(tiles, base, p);
    if (active && !whole) rows.take_odd_keys(tiles, base);
    __syncthreads();
    tiles.clear_odd_keys();
    if (base + int32_t{T::kKeys} <= last) tiles.load_values(base + int32_t{T::kKeys});
  }
  rows.store(tiles, tile, head, warp);
}

template <typename Kv, uint32_t kDims, bool biased>
void start(Stream* stream, const PrefillArgs& a, uint32_t n_tiles) {
  constexpr uint32_t kBytes = Tiles<Kv, kDims>::kBytes;
  const auto kernel = attend_tile<Kv, kDims, biased>;
  if (kBytes > 48 * 1024) stream->check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch(kernel, dim3(a.heads, n_tiles), dim3(kTileThreads), kBytes, stream, a);
}

// Tiles of 256 dimensions in fp8 need more registers than devices before sm_90 have.
template <typename Kv>
inline constexpr uint32_t kDimMax = std::is_same_v<Kv, Alike<KvFormat::kF8>> ? 128 : 256;

template <typename Kv, bool biased>
void start_tiles(Stream* stream, const PrefillArgs& a, uint32_t n_tiles) {
  const uint32_t dims = std::max(a.kv.k_dim, a.kv.v_dim);
  if (dims <= 64) return start<Kv, 64, biased>(stream, a, n_tiles);
  if (dims <= 128) return start<Kv, 128, biased>(stream, a, n_tiles);
  if constexpr (kDimMax < Kv >> 128) start<Kv, 256, biased>(stream, a, n_tiles);
}

}  // namespace

bool prefill_supported(const KvGeometry& kv) {
  uint32_t most = 0;
  with_formats(kv, [&]<typename Kv>() { most = kDimMax<Kv>; });
  const auto fits = [&](const KvRows& rows) { return on_tensor_cores(rows.format) && rows.dim % 16 == 0 && rows.dim <= most; };
  return fits(kv.k) && fits(kv.v);
}

void prefill_attention(Stream* stream, const KvGeometry& kv, const uint8_t* pool, uint32_t layer, const DeviceStep& step,
                       const PrefillTile* tiles, uint32_t n_tiles, const DeviceAttention& params, const float* q, uint32_t stride,
                       float* out) {
  PrefillArgs a{};
  a.kv = kv_layer(kv, layer);
  a.step = step;
  a.tiles = tiles;
  a.pool = pool;
  a.q = q;
  a.out = out;
  a.heads = params.heads;
  a.group = params.heads / kv.kv_heads;
  a.stride = stride;
  a.window = params.window;
  a.scale = score_scale(kv, params.scale);
  a.softcap = params.softcap;
  a.sinks = params.sinks;
  a.bias = {params.key_bias, params.scale};
  with_formats(kv, [&]<typename Kv>() {
    if constexpr (Kv::kTensor && Kv::kScaled) {
      if (a.bias.of.pairs > 0) return start_tiles<Kv, true>(stream, a, n_tiles);
    }
    if constexpr (Kv::kTensor) start_tiles<Kv, false>(stream, a, n_tiles);
  });
}

}  // namespace kvrt::cuda
