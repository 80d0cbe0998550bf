// The stream of K and V that a warp of a decode's attention reads, its queries, and their products on tensor cores (attention_decode.cu).
#pragma once

#include <algorithm>

#include "cuda/kernels/attention_bias.h"

namespace kvrt::cuda {

inline constexpr uint32_t kPartThreads = 128, kPartWarps = kPartThreads / kWarp, kWarpKeys = kSplitTokens / kPartWarps;
inline constexpr uint32_t kStepRows = 16, kStepCols = 64;        // a step's
inline constexpr uint32_t kRingBytes = 8192;                     // a warp's
inline constexpr float kQueryUp = 1024.0f, kWeightUp = 4096.0f;  // so that the rest of a rounding is no denormal
static_assert(kWarpKeys == kStepCols);

// The results of parts, at (row * heads + head) * splits + part: largest score, sum of weights, their sum over V.
struct Parts {
  float *max, *sum, *acc;
  uint32_t splits;
};

struct DecodeArgs {
  KvLayer kv;
  DeviceStep step;
  Parts parts;
  const uint8_t* pool;
  const float* q;
  float* out;
  uint32_t group, heads, stride, window;
  float scale, softcap;
  const float* sinks;  // [heads], or null
  ScoreBias bias;

  __device__ __forceinline__ float capped(float score) const { return softcap > 0 ? softcap_of(score, softcap) : score; }
  // Stores element i of a head's result: of the part, or, where there is only one (`only`), of the row.
  __device__ __forceinline__ void put(bool only, uint32_t row, uint32_t head, uint32_t i, float acc, float sum) const {
    const uint64_t at = uint64_t{row} * heads + head;
    if (only) {
      out[at * kv.v_dim + i] = acc * (1.0f / sum);
    } else {
      parts.acc[(at * parts.splits + blockIdx.x) * kv.v_dim + i] = acc;
    }
  }
  __device__ __forceinline__ void put_sums(uint32_t row, uint32_t head, float max, float sum) const {
    const uint64_t at = (uint64_t{row} * heads + head) * parts.splits + blockIdx.x;
    parts.max[at] = max;
    parts.sum[at] = sum;
  }
};

// The part of a row that a block works on.
struct Part {
  const int32_t* table;
  Seen seen;
  int32_t first;  // position
  bool none, only;
};
__device__ __forceinline__ Part part_of(const DecodeArgs& a) {
  const uint32_t row = blockIdx.z;
  Part part{};
  part.table = a.step.tables + a.step.tables_at[row];
  part.seen = seen_from(a.step.positions[row], a.window);
  part.first = static_cast<int32_t>(blockIdx.x * kSplitTokens);
  part.none = !part.seen.any(part.first, kSplitTokens);
  part.only = a.sinks == nullptr && part.seen.first / int32_t{kSplitTokens} == part.seen.last / int32_t{kSplitTokens};
  return part;
}

// A position's scale of K (k_scales_at) or V.
__device__ __forceinline__ float scale_of(const DecodeArgs& a, const Part& part, uint64_t scales_at, uint32_t head, int32_t position) {
  return f16_to_float(*reinterpret_cast<const uint16_t*>(a.pool + a.kv.scale_at(scales_at, part.table, head, position)));
}

// ---- the stream of a warp

template <typename Kv>
struct Ring {
  static constexpr uint32_t kStepBytes = kStepRows * kStepCols * Kv::kElemMax, kSteps = kRingBytes / kStepBytes;

  const KvLayer& kv;
  uint8_t* ring;
  const uint8_t *k, *v;     // the lane's pieces: of its keys' first dimension, and of the first of its 16 tokens
  int32_t v_first, v_last;  // the first and last of these tokens that are seen
  uint32_t k_row, v_row;    // bytes
  uint32_t k_steps, steps;

  // Where a lane has its piece of 16 bytes when the warp copies some rows of a step at a time: row and piece; the count of these rows.
  struct Lane {
    uint32_t row, piece, rows;
    __device__ __forceinline__ Lane(uint32_t elem, uint32_t lane)
        : row(elem == 2 ? lane / 8 : lane / 4), piece(elem == 2 ? lane % 8 : lane % 4), rows(elem == 2 ? 4 : 8) {}
  };
  static_assert(kStepCols == 64);
  // The place of a piece in a row of 64 columns: no two lanes of a read meet in a bank.
  static __device__ __forceinline__ uint32_t place(uint32_t elem, uint32_t row, uint32_t piece) {
    return elem == 2 ? 16 * (row * 8 + (piece ^ 2 * (row % 4))) : 16 * (row * 4 + (piece ^ row / 2 % 2 * 2));
  }
  __device__ __forceinline__ uint32_t k_elem() const { return kv_cell_bytes(Kv::k(kv)); }
  __device__ __forceinline__ uint32_t v_elem() const { return kv_cell_bytes(Kv::v(kv)); }

  __device__ __forceinline__ Ring(const DecodeArgs& a, const Part& part, uint32_t head, uint8_t* shared) : kv(a.kv) {
    const uint32_t warp = threadIdx.x / kWarp;
    const Lane of_k(k_elem(), threadIdx.x % kWarp), of_v(v_elem(), threadIdx.x % kWarp);
    const int32_t keys = part.first + static_cast<int32_t>(warp * kWarpKeys), piece_keys = k_elem() == 2 ? 8 : 16;
    const int32_t key = keys + static_cast<int32_t>(of_k.piece) * piece_keys, token = keys + static_cast<int32_t>(of_v.row % 4 * 16);
    ring = shared + warp * kRingBytes;
    k_row = a.kv.k_row_bytes();
    v_row = a.kv.v_row_bytes();
    k = part.seen.any(key, piece_keys) ? a.pool + a.kv.key_at(part.table, head, key) : nullptr;
    v = part.seen.any(token, 16) ? a.pool + a.kv.value_at(part.table, head, token) + of_v.piece * 16 : nullptr;
    v_first = part.seen.first - token;
    v_last = v == nullptr ? -1 : part.seen.last - token;
    k_steps = (a.kv.k_dim + kStepRows - 1) / kStepRows;
    steps = k_steps + (a.kv.v_dim + kStepCols - 1) / kStepCols * (kWarpKeys / kStepRows);
  }

  // Starts the copy of step s. Rows that do not exist, or are not seen, are zero: the content of an unused slot never comes near a sum.
  __device__ __forceinline__ void start(uint32_t s) const {
    const uint32_t elem = s < k_steps ? k_elem() : v_elem();
    const Lane lane(elem, threadIdx.x % kWarp);
    uint8_t* to = ring + s % kSteps * kStepBytes;
#pragma unroll
    for (uint32_t i = 0; i < kStepRows / lane.rows; ++i) {
      const uint32_t row = i * lane.rows + lane.row;
      const uint8_t* from = nullptr;
      if (s < k_steps) {  // dimension 16 s + row
        if (k != nullptr && s * kStepRows + row < kv.k_dim) from = k + uint64_t{s * kStepRows + row} * k_row;
      } else if (s < steps) {  // token 16 (row % 4) + 4 quarter + row / 4: the lanes of a column hold the weights of 16 in sequence
        const uint32_t chunk = (s - k_steps) / 4, token = (s - k_steps) % 4 * 4 + row / 4, at = chunk * kStepCols * elem;
        const bool seen = static_cast<int32_t>(token) >= v_first && static_cast<int32_t>(token) <= v_last;
        if (seen && at + lane.piece * 16 < v_row) from = v + uint64_t{token} * v_row + at;
      }
      auto* slot = reinterpret_cast<uint4*>(to + place(elem, row, lane.piece));
      if (from != nullptr) {
        copy_async(slot, from);
      } else if (s < steps) {
        *slot = make_uint4(0, 0, 0, 0);
      }
    }
    copy_async_commit();
  }

  // Waits for step s, and starts the one that takes the place of s - 1.
  __device__ __forceinline__ const uint8_t* wait(uint32_t s) const {
    copy_async_wait<static_cast<int>(kSteps) - 2>();
    __syncwarp();
    start(s + kSteps - 1);
    return ring + s % kSteps * kStepBytes;
  }

  // Fragments of 8 products of 16 rows x 8 columns: the j-th has columns 8 c + j for c < 8, and rows t, t + 4, t + 8, t + 12 where
  // mma_16x8x16 has 2t, 2t + 1, 2t + 8, 2t + 9.
  static __device__ __forceinline__ void fragments(KvFormat format, const uint8_t* step, uint32_t (&b)[8][2]) {
    const uint32_t lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      if (kv_cell_bytes(format) == 2) {
        const uint4 x = *reinterpret_cast<const uint4*>(step + place(2, 8 * half + t, g));
        const uint4 y = *reinterpret_cast<const uint4*>(step + place(2, 8 * half + 4 + t, g));
        const uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (uint32_t w = 0; w < 4; ++w) {
          b[2 * w][half] = __byte_perm(xs[w], ys[w], 0x5410);
          b[2 * w + 1][half] = __byte_perm(xs[w], ys[w], 0x7632);
        }
      } else {
        const uint2 x = *reinterpret_cast<const uint2*>(step + place(1, 8 * half + t, g / 2) + g % 2 * 8);
        const uint2 y = *reinterpret_cast<const uint2*>(step + place(1, 8 * half + 4 + t, g / 2) + g % 2 * 8);
        const uint32_t xs[2] = {x.x, x.y}, ys[2] = {y.x, y.y};
#pragma unroll
        for (uint32_t w = 0; w < 2; ++w) {
          const uint32_t low = __byte_perm(xs[w], ys[w], 0x5140), high = __byte_perm(xs[w], ys[w], 0x7362);
          b[4 * w][half] = byte_pair<true>(format, low);
          b[4 * w + 1][half] = byte_pair<false>(format, low);
          b[4 * w + 2][half] = byte_pair<true>(format, high);
          b[4 * w + 3][half] = byte_pair<false>(format, high);
        }
      }
    }
  }
};

// ---- heads and the rest of their numbers: up to 8 have both in one fragment (rows g and g + 8), up to 16 in two

template <bool wide>
struct Heads {
  static constexpr uint32_t kCount = wide ? 16 : 8;
  static constexpr uint32_t kMine = wide ? 2 : 1;  // a lane's heads: g and g + 8
};

// acc += a · b for all 8 columns. a has for each of the lane's heads a pair of rows 2t, 2t + 1, one of 2t + 8, 2t + 9; then their rests.
template <bool bf16, bool wide>
__device__ __forceinline__ void multiply(float (&acc)[8][4], const uint32_t (&pair)[Heads<wide>::kMine][2],
                                         const uint32_t (&rest)[Heads<wide>::kMine][2], const uint32_t (&b)[8][2]) {
  constexpr uint32_t kLast = Heads<wide>::kMine - 1;
  const auto& second = wide ? pair : rest;
  const uint32_t a[4] = {pair[0][0], second[kLast][0], pair[0][1], second[kLast][1]};
  const uint32_t more[4] = {rest[0][0], rest[kLast][0], rest[0][1], rest[kLast][1]};
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    mma_16x8x16<bf16>(acc[j], a, b[j]);
    if constexpr (wide) mma_16x8x16<bf16>(acc[j], more, b[j]);
  }
}
template <bool wide>
__device__ __forceinline__ void multiply(bool bf16, float (&acc)[8][4], const uint32_t (&pair)[Heads<wide>::kMine][2],
                                         const uint32_t (&rest)[Heads<wide>::kMine][2], const uint32_t (&b)[8][2]) {
  bf16 ? multiply<true, wide>(acc, pair, rest, b) : multiply<false, wide>(acc, pair, rest, b);
}
// The lane's result of its i-th head in column 16 t + 8 * second + j.
template <bool wide>
__device__ __forceinline__ float result(const float (&acc)[8][4], uint32_t i, uint32_t second, uint32_t j) {
  return wide ? acc[j][2 * i + second] : acc[j][second] + acc[j][2 + second];
}

// ---- queries

// A block's shared memory: the rings; queries as fragments; then queries on their way there, and later the warps' sums of 64 columns; then
// queries turned, where K is stored without a bias.
template <bool wide>
struct Shared {
  uint4* queries;
  float* rows;
  float2* turned;  // [heads][pairs]
  static __host__ __device__ __forceinline__ uint32_t query_bytes(uint32_t k_dim) {
    return (k_dim + kStepRows - 1) / kStepRows * kWarp * Heads<wide>::kMine * static_cast<uint32_t>(sizeof(uint4));
  }
  static __host__ __device__ __forceinline__ uint32_t row_bytes(uint32_t k_dim) {
    return Heads<wide>::kCount * std::max(k_dim, kPartWarps * kStepCols) * 4;
  }
  static uint32_t bytes(uint32_t k_dim, uint32_t bias_pairs) {
    return kPartWarps * kRingBytes + query_bytes(k_dim) + row_bytes(k_dim) + Heads<wide>::kCount * bias_pairs * 8;
  }
  __device__ __forceinline__ Shared(uint8_t* shared, uint32_t k_dim)
      : queries(reinterpret_cast<uint4*>(shared + kPartWarps * kRingBytes)),
        rows(reinterpret_cast<float*>(shared + kPartWarps * kRingBytes + query_bytes(k_dim))),
        turned(reinterpret_cast<float2*>(shared + kPartWarps * kRingBytes + query_bytes(k_dim) + row_bytes(k_dim))) {}
};

// Loads the queries of heads [first, first + n) as fragments, each head over a power of two, units[head]; and, with a bias, turned.
template <typename Kv, bool wide, bool biased>
__device__ __forceinline__ void load_queries(const DecodeArgs& a, uint32_t kv_head, uint32_t first, uint32_t n, uint32_t span,
                                             const Shared<wide>& shared, float* units) {
  const bool bf16 = Kv::k(a.kv) == KvFormat::kBF16;
  const uint32_t k_dim = a.kv.k_dim, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float* q = a.q + uint64_t{blockIdx.z} * a.stride + uint64_t{first} * k_dim;
  for (uint32_t i = threadIdx.x; i < Heads<wide>::kCount * k_dim; i += kPartThreads) shared.rows[i] = i < n * k_dim ? q[i] : 0.0f;
  if constexpr (biased) {
    __syncthreads();
    turn_queries(a.bias, kv_head, Heads<wide>::kCount, k_dim, span, shared.rows, shared.turned);
  }
  if (Kv::kScaled && a.kv.transforms_keys) hadamard(hadamard_dim(k_dim), Heads<wide>::kCount * k_dim, shared.rows);
  __syncthreads();
  for (uint32_t head = warp; head < Heads<wide>::kCount; head += kPartWarps) {
    float* row = shared.rows + head * k_dim;
    float most = 0;
    for (uint32_t i = lane; i < k_dim; i += kWarp) most = fmaxf(fabsf(row[i]), most);
    const float unit = power_in(warp_max(most)), up = kQueryUp / unit;
    for (uint32_t i = lane; i < k_dim; i += kWarp) row[i] = row[i] * up;
    if (lane == 0) units[head] = unit / kQueryUp;
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < (k_dim + kStepRows - 1) / kStepRows * kWarp; i += kPartThreads) {
    const uint32_t g = i % kWarp / 4, first_dim = i / kWarp * kStepRows + i % 4;
    for (uint32_t mine = 0; mine < Heads<wide>::kMine; ++mine) {
      float x[4];
      for (uint32_t j = 0; j < 4; ++j) {
        x[j] = first_dim + 4 * j < k_dim ? shared.rows[(g + 8 * mine) * k_dim + first_dim + 4 * j] : 0.0f;
      }
      const uint32_t low = to_pair(bf16, x[0], x[1]), high = to_pair(bf16, x[2], x[3]);
      shared.queries[i * Heads<wide>::kMine + mine] =
          make_uint4(low, high, to_rest(bf16, low, x[0], x[1]), to_rest(bf16, high, x[2], x[3]));
    }
  }
  __syncthreads();
}

}  // namespace kvrt::cuda
