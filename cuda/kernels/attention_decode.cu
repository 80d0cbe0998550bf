// Attention of single rows: a block takes a part of kSplitTokens positions for the heads of a group, and the parts' results are merged in
// order (runtime/compute/NUMERICS.md §7, with parts of 256 for spans of 512).
//
// A warp takes 64 of the part's keys. K and V come to it as one stream of steps of 16 rows x 64 columns, rows being head dimensions of K
// and then tokens of V, several steps ahead, so that no phase waits for memory with nothing under way. Tensor cores do both products:
// columns stand for 8 keys (or dimensions), and the sums run over rows. Queries and weights keep their precision: each is a 16-bit number
// and a second one for the rest; up to 8 heads have these in the two halves of a fragment, more in two fragments.
#include "cuda/kernels/attention_plain.h"
#include "cuda/kernels/attention_ring.h"

namespace kvrt::cuda {
namespace {

// ---- a part on tensor cores

// The scales of 16 positions, from `first` on; 0 for those that are not seen.
__device__ __forceinline__ void load_scales(const DecodeArgs& a, const Part& part, uint64_t scales_at, uint32_t head, int32_t first,
                                            float (&scales)[16]) {
  uint4 x[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
  if (part.seen.any(first, 16)) {
    const auto* at = reinterpret_cast<const uint4*>(a.pool + a.kv.scale_at(scales_at, part.table, head, first));
    x[0] = at[0], x[1] = at[1];
  }
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint4 four = x[i / 4];
    const uint32_t pair = i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
    const auto at = first + static_cast<int32_t>(2 * i);
    scales[2 * i] = part.seen.has(at) ? f16_to_float(static_cast<uint16_t>(pair)) : 0.0f;
    scales[2 * i + 1] = part.seen.has(at + 1) ? f16_to_float(static_cast<uint16_t>(pair >> 16)) : 0.0f;
  }
}

// The numbers of a head that a block's warps exchange.
template <bool wide>
struct Stats {
  float units[Heads<wide>::kCount], max[kPartWarps][Heads<wide>::kCount], sum[kPartWarps][Heads<wide>::kCount];
  __device__ __forceinline__ float all_max(uint32_t head) const {
    return fmaxf(fmaxf(fmaxf(max[0][head], max[1][head]), max[2][head]), max[3][head]);
  }
  __device__ __forceinline__ float all_sum(uint32_t head) const { return sum[0][head] + sum[1][head] + sum[2][head] + sum[3][head]; }
};

// Adds what K's bias gives to the scores of the lane's heads and its 16 positions from `first` on.
template <bool wide>
__device__ __forceinline__ void add_bias(const DecodeArgs& a, uint32_t kv_head, int32_t first, const float2* turned,
                                         float (&p)[Heads<wide>::kMine][16]) {
  const uint32_t g = threadIdx.x % kWarp / 4;
  for (uint32_t pair = 0; pair < a.bias.of.pairs; ++pair) {
    const float* at = a.bias.offset(a.bias.pair(kv_head, pair), first);
    float4 cos[4], sin[4];
#pragma unroll
    for (uint32_t four = 0; four < 4; ++four) {
      cos[four] = *reinterpret_cast<const float4*>(at + 4 * four);
      sin[four] = *reinterpret_cast<const float4*>(at + kTurnTokens + 4 * four);
    }
#pragma unroll
    for (uint32_t i = 0; i < Heads<wide>::kMine; ++i) {
      const float2 by = turned[(g + 8 * i) * a.bias.of.pairs + pair];
      const auto add = [&](float c, float s, float* score) { *score = fmaf(by.y, s, fmaf(by.x, c, *score)); };
#pragma unroll
      for (uint32_t four = 0; four < 4; ++four) {
        add(cos[four].x, sin[four].x, &p[i][4 * four]);
        add(cos[four].y, sin[four].y, &p[i][4 * four + 1]);
        add(cos[four].z, sin[four].z, &p[i][4 * four + 2]);
        add(cos[four].w, sin[four].w, &p[i][4 * four + 3]);
      }
    }
  }
}

// Turns q · k of the lane's 16 positions from `first` on and heads into scores, before the cap.
template <typename Kv, bool wide, bool biased>
__device__ __forceinline__ void score(const DecodeArgs& a, const Part& part, uint32_t kv_head, int32_t first, const float (&acc)[8][4],
                                      const float2* turned, const Stats<wide>& stats, float (&p)[Heads<wide>::kMine][16]) {
  const uint32_t g = threadIdx.x % kWarp / 4;
  const bool k_scaled = kv_scaled(Kv::k(a.kv));
  float scales[16] = {};
  if (k_scaled) load_scales(a, part, a.kv.k_scales_at, kv_head, first, scales);
#pragma unroll
  for (uint32_t i = 0; i < Heads<wide>::kMine; ++i) {
    const float unit = stats.units[g + 8 * i];
#pragma unroll
    for (uint32_t j = 0; j < 16; ++j) {
      float dot = result<wide>(acc, i, j / 8, j % 8) * unit;
      if (k_scaled) dot = dot * scales[j];
      p[i][j] = dot * a.scale;
    }
  }
  if constexpr (biased) add_bias<wide>(a, kv_head, first, turned, p);
}

// Turns q · k of the lane's 16 positions and heads into weights, times V's scales if it has them; all are over the returned power of two.
template <typename Kv, bool wide, bool biased>
__device__ __forceinline__ float weigh(const DecodeArgs& a, const Part& part, uint32_t kv_head, const float (&acc)[8][4],
                                       const float2* turned, Stats<wide>* stats, float (&p)[Heads<wide>::kMine][16]) {
  const uint32_t warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int32_t first = part.first + static_cast<int32_t>(warp * kWarpKeys + 16 * t);
  const bool v_scaled = kv_scaled(Kv::v(a.kv));
  score<Kv, wide, biased>(a, part, kv_head, first, acc, turned, *stats, p);
#pragma unroll
  for (uint32_t i = 0; i < Heads<wide>::kMine; ++i) {
    float max = -INFINITY;
#pragma unroll
    for (uint32_t j = 0; j < 16; ++j) {
      p[i][j] = a.capped(p[i][j]);
      if (part.seen.has(first + static_cast<int32_t>(j))) max = fmaxf(p[i][j], max);
    }
    max = warp_max(max, 4);
    if (t == 0) stats->max[warp][g + 8 * i] = max;
  }
  float unit = 1 / kWeightUp;
  float scales[16] = {};
  if (v_scaled) {
    load_scales(a, part, a.kv.v_scales_at, kv_head, first, scales);
    float most = 0;
    for (const float s : scales) most = fmaxf(s, most);
    unit = power_in(warp_max(most, 4)) / kWeightUp;
  }
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < Heads<wide>::kMine; ++i) {
    const float max = stats->all_max(g + 8 * i);
    float sum = 0;
#pragma unroll
    for (uint32_t j = 0; j < 16; ++j) {
      const float e = part.seen.has(first + static_cast<int32_t>(j)) ? exp_of(p[i][j] - max) : 0.0f;
      sum = sum + e;
      p[i][j] = v_scaled ? e * (scales[j] * (1 / unit)) : e * kWeightUp;
    }
    sum = warp_sum(sum, 4);
    if (t == 0) stats->sum[warp][g + 8 * i] = sum;
  }
  return unit;
}

// Weights times V of heads [first, first + n), 64 dimensions at a time: each warp sums its own tokens, then the sums are added in order.
template <typename Kv, bool wide>
__device__ __forceinline__ void add_values(const DecodeArgs& a, const Part& part, const Ring<Kv>& ring, uint32_t first, uint32_t n,
                                           const float (&p)[Heads<wide>::kMine][16], float unit, const Stats<wide>& stats, float* rows) {
  const KvFormat format = Kv::v(a.kv);
  const bool bf16 = format == KvFormat::kBF16;
  constexpr uint32_t kMine = Heads<wide>::kMine, kCount = Heads<wide>::kCount;
  const uint32_t warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  uint32_t pair[4][kMine][2], rest[4][kMine][2];
#pragma unroll
  for (uint32_t i = 0; i < 8 * kMine; ++i) {
    const uint32_t mine = i / 8, at = i % 8 * 2;
    pair[at / 4][mine][i % 2] = to_pair(bf16, p[mine][at], p[mine][at + 1]);
    rest[at / 4][mine][i % 2] = to_rest(bf16, pair[at / 4][mine][i % 2], p[mine][at], p[mine][at + 1]);
  }
  for (uint32_t s = ring.k_steps, column = 0; s < ring.steps; s += 4, column += kStepCols) {
    float acc[8][4] = {};
#pragma unroll
    for (uint32_t quarter = 0; quarter < 4; ++quarter) {
      uint32_t b[8][2];
      Ring<Kv>::fragments(format, ring.wait(s + quarter), b);
      multiply<wide>(bf16, acc, pair[quarter], rest[quarter], b);
    }
#pragma unroll
    for (uint32_t i = 0; i < kMine * 16; ++i) {
      rows[(warp * kCount + g + i / 16 * 8) * kStepCols + 16 * t + i % 16] = result<wide>(acc, i / 16, i % 16 / 8, i % 8) * unit;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n * kStepCols; i += kPartThreads) {
      const uint32_t head = i / kStepCols, dim = column + i % kStepCols;
      const float* mine = rows + i;
      const float sum = mine[0] + mine[kCount * kStepCols] + mine[2 * kCount * kStepCols] + mine[3 * kCount * kStepCols];
      if (dim < a.kv.v_dim) a.put(part.only, blockIdx.z, first + head, dim, sum, stats.all_sum(head));
    }
    __syncthreads();
  }
}

// A block per part (x), KV head (y) and row (z). q at + row * stride: [heads][k_dim]. Bytes: K and V of the part once (for groups above
// 16 heads once for each 16), and 4 per element of a part's result, which is 1 / 64 of that with 4 heads of f16 to a group.
template <typename Kv, bool wide, bool biased>
__global__ void __launch_bounds__(kPartThreads, wide ? 3 : 4) attend_part(DecodeArgs a) {
  KVRT_DYNAMIC_SHARED(memory);
  __shared__ Stats<wide> stats;
  grid_wait();
  const Part part = part_of(a);
  if (part.none) return;
  const Shared<wide> shared(memory, a.kv.k_dim);
  const uint32_t kv_head = blockIdx.y, last = (kv_head + 1) * a.group;
  for (uint32_t head = kv_head * a.group; head < last; head += Heads<wide>::kCount) {
    const uint32_t n = min(Heads<wide>::kCount, last - head);
    const Ring<Kv> ring(a, part, kv_head, memory);
    for (uint32_t s = 0; s + 1 < Ring<Kv>::kSteps; ++s) ring.start(s);
    load_queries<Kv, wide, biased>(a, kv_head, head, n, span_of(part.first), shared, stats.units);
    float acc[8][4] = {};
    for (uint32_t s = 0; s < ring.k_steps; ++s) {
      uint32_t b[8][2], pair[Heads<wide>::kMine][2], rest[Heads<wide>::kMine][2];
#pragma unroll
      for (uint32_t i = 0; i < Heads<wide>::kMine; ++i) {
        const uint4 q = shared.queries[(s * kWarp + threadIdx.x % kWarp) * Heads<wide>::kMine + i];
        pair[i][0] = q.x, pair[i][1] = q.y, rest[i][0] = q.z, rest[i][1] = q.w;
      }
      Ring<Kv>::fragments(Kv::k(a.kv), ring.wait(s), b);
      multiply<wide>(Kv::k(a.kv) == KvFormat::kBF16, acc, pair, rest, b);
    }
    grid_launch_next();
    float p[Heads<wide>::kMine][16];
    const float unit = weigh<Kv, wide, biased>(a, part, kv_head, acc, shared.turned, &stats, p);
    __syncthreads();
    if (!part.only && threadIdx.x < n) a.put_sums(blockIdx.z, head + threadIdx.x, stats.all_max(threadIdx.x), stats.all_sum(threadIdx.x));
    add_values<Kv, wide>(a, part, ring, head, n, p, unit, stats, shared.rows);
  }
}

// ---- the parts of a row, in order

constexpr int32_t kMergeAtOnce = 16;  // parts whose sums over V are loaded at a time

// A row of one part, if there is no sink, has its result already. A block per head (x) and row (y), a thread per dimension. A lane has the
// maximum and sum of a part, 32 parts at a time, and from them the factors of both sides of its merge. Bytes: 4 per element of each part's result, and of the row's.
__global__ void __launch_bounds__(kHeadDimMax) merge_parts(DecodeArgs a) {
  grid_wait();
  grid_launch_next();
  const uint32_t row = blockIdx.y, dim = min(threadIdx.x, a.kv.v_dim - 1), lane = threadIdx.x % kWarp;
  const Seen seen = seen_from(a.step.positions[row], a.window);
  const int32_t first = seen.first / int32_t{kSplitTokens}, last = seen.last / int32_t{kSplitTokens};
  if (first == last && a.sinks == nullptr) return;
  const uint64_t head = uint64_t{row} * a.heads + blockIdx.x, at = head * a.parts.splits;
  float before = -INFINITY, sum = 0, acc = 0;
  for (int32_t batch = first; batch <= last; batch += int32_t{kWarp}) {
    const int32_t mine = min(batch + static_cast<int32_t>(lane), last), n = min(last - batch + 1, int32_t{kWarp});
    const float max = a.parts.max[at + mine], sum2 = a.parts.sum[at + mine];
    float most = max;  // the maximum of the parts up to the lane's
    for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
      const float other = __shfl_up_sync(kFullWarp, most, lanes);
      if (lane >= lanes) most = fmaxf(other, most);
    }
    most = fmaxf(before, most);
    float old_most = __shfl_up_sync(kFullWarp, most, 1);
    if (lane == 0) old_most = before;
    const float keep = exp_of(old_most - most), add = exp_of(max - most);  // the first part is added to a sum of 0
    before = __shfl_sync(kFullWarp, most, n - 1);
    for (int32_t i = 0; i < n; i += kMergeAtOnce) {
      float v[kMergeAtOnce];
#pragma unroll
      for (int32_t j = 0; j < kMergeAtOnce; ++j) v[j] = i + j < n ? a.parts.acc[(at + batch + i + j) * a.kv.v_dim + dim] : 0.0f;
#pragma unroll
      for (int32_t j = 0; j < kMergeAtOnce; ++j) {
        const float x = __shfl_sync(kFullWarp, keep, i + j), y = __shfl_sync(kFullWarp, add, i + j);
        const float z = __shfl_sync(kFullWarp, sum2, i + j);
        if (i + j >= n) continue;
        sum = fmaf(sum, x, z * y);
        acc = fmaf(acc, x, v[j] * y);
      }
    }
  }
  if (a.sinks != nullptr) {  // a last part of one weight, whose value is 0
    const float sink = a.sinks[blockIdx.x], most = fmaxf(sink, before), keep = exp_of(before - most);
    sum = fmaf(sum, keep, exp_of(sink - most));
    acc = fmaf(acc, keep, 0.0f);
  }
  if (threadIdx.x < a.kv.v_dim) a.out[head * a.kv.v_dim + dim] = acc * (1.0f / sum);
}

// V is stored as its transform: so is what attention gives, and comes back. A block per head (x) and row (y). Bytes: 8 per element.
__global__ void __launch_bounds__(kPartThreads) transform_back(uint32_t dim, float* out) {
  __shared__ float x[kHeadDimMax];
  grid_wait();
  grid_launch_next();
  float* at = out + (uint64_t{blockIdx.y} * gridDim.x + blockIdx.x) * dim;
  for (uint32_t i = threadIdx.x; i < dim; i += kPartThreads) x[i] = at[i];
  hadamard(hadamard_dim(dim), dim, x);
  const float factor = 1 / static_cast<float>(hadamard_dim(dim));  // exact: a power of two
  for (uint32_t i = threadIdx.x; i < dim; i += kPartThreads) at[i] = x[i] * factor;
}

template <typename Kernel>
void start(Stream* stream, Kernel kernel, const DecodeArgs& a, dim3 grid, uint32_t shared) {
  // A block may have this much by default, less its static part.
  if (shared > 44 * 1024)
    stream->check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  launch(kernel, grid, dim3(kPartThreads), shared, stream, a);
}

// False where the device's blocks have too little shared memory: 64 KiB of sm_75 are not enough for 512 dimensions.
template <typename Kv, bool wide, bool biased>
bool start_ring(Stream* stream, const DecodeArgs& a, dim3 grid) {
  const uint32_t bytes = Shared<wide>::bytes(a.kv.k_dim, a.bias.of.pairs);
  if (bytes + sizeof(Stats<wide>) > stream->shared_max) return false;
  start(stream, attend_part<Kv, wide, biased>, a, grid, bytes);
  return true;
}

template <typename Kv, bool biased>
void start_parts(Stream* stream, const DecodeArgs& a, dim3 grid) {
  const uint32_t k_dim = a.kv.k_dim;
  if constexpr (Kv::kTensor) {
    const bool plain = a.kv.latent || !on_tensor_cores(Kv::k(a.kv)) || !on_tensor_cores(Kv::v(a.kv));
    if (!plain && a.kv.v_row_bytes() % 16 == 0) {  // rows of V must be whole pieces of 16 bytes
      const bool narrow = a.group <= Heads<false>::kCount;
      if (narrow ? start_ring<Kv, false, biased>(stream, a, grid) : start_ring<Kv, true, biased>(stream, a, grid)) return;
    }
  }
  start(stream, attend_part_plain<Kv, biased>, a, grid,
        kPlainHeads * (kSplitTokens + k_dim + 2 * a.bias.of.pairs) * static_cast<uint32_t>(sizeof(float)));
}

}  // namespace

uint64_t decode_partials(const KvGeometry& kv, uint32_t heads, uint32_t rows, uint32_t splits) {
  return uint64_t{rows} * heads * splits * (kv.v.dim + 2);
}

void decode_attention(Stream* stream, const KvGeometry& kv, const uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows,
                      uint32_t splits, const DeviceAttention& params, const float* q, uint32_t stride, float* partials, float* out) {
  const uint64_t results = uint64_t{rows} * params.heads * splits;
  DecodeArgs a{};
  a.kv = kv_layer(kv, layer);
  a.step = step;
  a.parts = {partials, partials + results, partials + 2 * results, splits};
  a.pool = pool;
  a.q = q;
  a.out = out;
  a.group = params.heads / kv.kv_heads;
  a.heads = params.heads;
  a.stride = stride;
  a.window = params.window;
  a.scale = score_scale(kv, params.scale);
  a.softcap = params.softcap;
  a.sinks = params.sinks;
  a.bias = {params.key_bias, params.scale};
  const dim3 grid(splits, kv.kv_heads, rows);
  with_formats(kv, [&]<typename Kv>() {
    if constexpr (Kv::kScaled) {
      if (a.bias.of.pairs > 0) return start_parts<Kv, true>(stream, a, grid);
    }
    start_parts<Kv, false>(stream, a, grid);
  });
  if (splits > 1 || params.sinks != nullptr)
    launch(merge_parts, dim3(params.heads, rows), dim3((kv.v.dim + kWarp - 1) / kWarp * kWarp), 0, stream, a);
  if (kv.transforms_values()) launch(transform_back, dim3(params.heads, rows), dim3(kPartThreads), 0, stream, kv.v.dim, out);
}

}  // namespace kvrt::cuda
