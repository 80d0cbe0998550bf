// Elementwise ops and norms of rows, in the CPU's orders: equal to its results bit for bit (runtime/compute/NUMERICS.md §1, §4).
#include <algorithm>

#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kLanes = 16;        // the virtual lanes of a sum of squares
constexpr uint32_t kNormChunk = 4096;  // elements of a row that lie in shared memory at a time
constexpr uint32_t kGatherRows = 8;    // rows that a thread loads at a time
constexpr uint32_t kCopyUnroll = 8;

// 1 / rms from the squares that 16 lanes have summed; each of them gets it.
__device__ __forceinline__ float norm_scale(float lane, uint32_t width, float eps) {
  const float mean = warp_sum(lane, kLanes) / static_cast<float>(width);
  return 1.0f / sqrtf(mean + eps);
}

// A sum over the whole row by 16 virtual lanes, for every thread: lane = f(lane, element). `chunk` holds kNormChunk elements.
template <typename Fn>
__device__ __forceinline__ float lanes_sum(const float* x, uint32_t width, float* chunk, Fn f) {
  __shared__ float result;
  float lane = 0;
  for (uint32_t first = 0; first < width; first += kNormChunk) {
    const uint32_t n = min(kNormChunk, width - first);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += kThreads) chunk[i] = x[first + i];
    __syncthreads();
    if (threadIdx.x < kLanes) {
#pragma unroll 8
      for (uint32_t i = threadIdx.x; i < n; i += kLanes) lane = f(lane, chunk[i]);
    }
  }
  if (threadIdx.x < kWarp) {
    const float sum = warp_sum(lane, kLanes);
    if (threadIdx.x == 0) result = sum;
  }
  __syncthreads();
  return result;
}

// x, out [rows][width], weight, bias [width]. A block per row. Bytes: 8 per element (further reads of x come from the cache), the weights once.
__global__ void __launch_bounds__(kThreads)
    layer_norm_row(const float* x, const float* weight, const float* bias, float eps, uint32_t width, float* out) {
  __shared__ float chunk[kNormChunk];
  grid_wait();
  x += uint64_t{blockIdx.x} * width;
  out += uint64_t{blockIdx.x} * width;
  const auto n = static_cast<float>(width);
  const float mean = lanes_sum(x, width, chunk, [](float lane, float a) { return lane + a; }) / n;
  const float variance = lanes_sum(x, width, chunk, [mean](float lane, float a) { return fmaf(a - mean, a - mean, lane); }) / n;
  grid_launch_next();
  const float scale = 1.0f / sqrtf(variance + eps);
  for (uint32_t i = threadIdx.x; i < width; i += kThreads) {
    const float normal = (x[i] - mean) * scale;
    out[i] = bias != nullptr ? fmaf(normal, weight[i], bias[i]) : normal * weight[i];
  }
}

// x, out [rows][width], weight [width]. A block per row: all threads bring it to shared memory, 16 sum its squares, each a virtual lane.
// Bytes: 8 per element (the second read of x comes from the cache), the weights once.
__global__ void __launch_bounds__(kThreads) norm_row(const float* x, const float* weight, float eps, uint32_t width, float* out) {
  __shared__ float chunk[kNormChunk];
  grid_wait();
  x += uint64_t{blockIdx.x} * width;
  out += uint64_t{blockIdx.x} * width;
  const float mean = lanes_sum(x, width, chunk, [](float lane, float a) { return fmaf(a, a, lane); }) / static_cast<float>(width);
  grid_launch_next();
  const float scale = 1.0f / sqrtf(mean + eps);
  for (uint32_t i = threadIdx.x; i < width; i += kThreads) out[i] = (x[i] * scale) * weight[i];
}

// Heads of head_dim at x + row * stride, in place. 16 threads per head, each a virtual lane. Bytes: 8 per element.
__global__ void __launch_bounds__(kThreads)
    norm_heads(const float* weight, float eps, uint32_t total, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) {
  grid_wait();
  const uint32_t index = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes, head = min(index, total - 1);
  const uint32_t first = threadIdx.x % kLanes;
  x += uint64_t{head / heads} * stride + uint64_t{head % heads} * head_dim;
  float lane = 0;
  for (uint32_t i = first; i < head_dim; i += kLanes) lane = fmaf(x[i], x[i], lane);
  const float scale = norm_scale(lane, head_dim, eps);
  if (index >= total) return;
  for (uint32_t i = first; i < head_dim; i += kLanes) x[i] = (x[i] * scale) * weight[i];
}

// LayerNorm of heads, each with weights of its own; threads and bytes as norm_heads, and the weights once.
__global__ void __launch_bounds__(kThreads)
    layer_norm_heads(const float* weight, float eps, uint32_t total, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) {
  grid_wait();
  const uint32_t index = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes, head = min(index, total - 1);
  const uint32_t first = threadIdx.x % kLanes;
  const auto n = static_cast<float>(head_dim);
  x += uint64_t{head / heads} * stride + uint64_t{head % heads} * head_dim;
  weight += uint64_t{head % heads} * head_dim;
  float sum = 0, squares = 0;
  for (uint32_t i = first; i < head_dim; i += kLanes) sum += x[i];
  const float mean = warp_sum(sum, kLanes) / n;
  for (uint32_t i = first; i < head_dim; i += kLanes) squares = fmaf(x[i] - mean, x[i] - mean, squares);
  const float scale = norm_scale(squares, head_dim, eps);
  if (index >= total) return;
  for (uint32_t i = first; i < head_dim; i += kLanes) x[i] = ((x[i] - mean) * scale) * weight[i];
}

struct Add {
  __device__ __forceinline__ float operator()(float x, float y) const { return x + y; }
};
struct Scale {
  float factor;
  __device__ __forceinline__ float operator()(float x, float) const { return x * factor; }
};
struct Gelu {
  __device__ __forceinline__ float operator()(float x, float) const { return gelu_mul_of(x, 1.0f); }
};
struct ReluSquared {
  __device__ __forceinline__ float operator()(float x, float) const { return x < 0.0f ? 0.0f : x * x; }
};
struct Cap {
  float cap;
  __device__ __forceinline__ float operator()(float x, float) const { return softcap_of(x, cap); }
};

// x[i] = f(x[i], y[i]) for i < n, four per thread where both are aligned. Bytes: 8 per element and 4 for y.
template <typename Fn, bool reads_y>
__global__ void __launch_bounds__(kThreads) map(Fn f, const float* y, uint64_t n, bool aligned, float* x) {
  grid_wait();
  const uint64_t first = 4 * (uint64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (aligned && first + 4 <= n) {
    float4 a = *reinterpret_cast<const float4*>(x + first), b = a;
    if (reads_y) b = *reinterpret_cast<const float4*>(y + first);
    *reinterpret_cast<float4*>(x + first) = make_float4(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
    return;
  }
  for (uint64_t i = first; i < first + 4 && i < n; ++i) x[i] = f(x[i], reads_y ? y[i] : 0.0f);
}

template <bool reads_y, typename Fn>
void start_map(Stream* stream, Fn f, const float* y, uint64_t n, float* x) {
  const bool aligned = (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % sizeof(float4) == 0;
  const uint64_t per_block = uint64_t{4} * kThreads;
  launch(map<Fn, reads_y>, dim3(static_cast<uint32_t>((n + per_block - 1) / per_block)), dim3(kThreads), 0, stream, f, y, n, aligned, x);
}

// x [..][width], out [n][width]. A thread per column goes through `per_block` rows from the first on. In place one block takes all rows, in
// order, and reads kGatherRows of them before it writes one: rows[i] ≥ i, so no row that it writes is read later. Bytes: 8 per element.
__global__ void __launch_bounds__(kThreads)
    gather(const float* x, const uint32_t* rows, uint32_t n, uint32_t per_block, uint32_t width, float* out) {
  grid_wait();
  const uint32_t column = blockIdx.x * kThreads + threadIdx.x, begin = blockIdx.y * per_block, end = min(n, begin + per_block);
  if (column >= width) return;
  for (uint32_t i = begin; i < end; i += kGatherRows) {
    float v[kGatherRows];
#pragma unroll
    for (uint32_t j = 0; j < kGatherRows; ++j) v[j] = i + j < end ? x[uint64_t{rows[i + j]} * width + column] : 0.0f;
#pragma unroll
    for (uint32_t j = 0; j < kGatherRows; ++j) {
      if (i + j < end) out[uint64_t{i + j} * width + column] = v[j];
    }
  }
}

struct Pairs {
  BlockPair pair[kCopyPairs];
};

// Copies `pieces` of 16 bytes of each pair, kCopyUnroll per thread, by `parts` blocks per pair. Bytes: 2 * 16 * pieces per pair.
__global__ void __launch_bounds__(kThreads) copy_pairs(const Pairs pairs, uint64_t pieces, uint32_t parts) {
  grid_wait();
  const BlockPair pair = pairs.pair[blockIdx.x / parts];
  const auto* from = reinterpret_cast<const uint4*>(pair.from);
  auto* to = reinterpret_cast<uint4*>(pair.to);
  const uint64_t first = uint64_t{blockIdx.x % parts} * kThreads * kCopyUnroll + threadIdx.x;
  uint4 v[kCopyUnroll];
#pragma unroll
  for (uint32_t i = 0; i < kCopyUnroll; ++i) {
    if (first + i * kThreads < pieces) v[i] = from[first + i * kThreads];
  }
#pragma unroll
  for (uint32_t i = 0; i < kCopyUnroll; ++i) {
    if (first + i * kThreads < pieces) to[first + i * kThreads] = v[i];
  }
}

// A block per head (x) and row (y). Bytes: 8 per number.
__global__ void __launch_bounds__(kThreads) copy_runs(uint32_t width, HeadRows in, HeadRows out) {
  grid_wait();
  grid_launch_next();
  const float* from = in.x + uint64_t{blockIdx.y} * in.stride + uint64_t{blockIdx.x} * in.apart;
  float* to = out.x + uint64_t{blockIdx.y} * out.stride + uint64_t{blockIdx.x} * out.apart;
  for (uint32_t i = threadIdx.x; i < width; i += kThreads) to[i] = from[i];
}

}  // namespace

void rmsnorm(Stream* stream, const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) {
  launch(norm_row, dim3(rows), dim3(kThreads), 0, stream, x, weight, eps, width, out);
}

void layernorm(Stream* stream, const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width,
               float* out) {
  launch(layer_norm_row, dim3(rows), dim3(kThreads), 0, stream, x, weight, bias, eps, width, out);
}

void rmsnorm_heads(Stream* stream, const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                   float* x) {
  const uint32_t total = rows * heads, per_block = kThreads / kLanes;
  launch(norm_heads, dim3((total + per_block - 1) / per_block), dim3(kThreads), 0, stream, weight, eps, total, heads, head_dim, stride, x);
}

void layernorm_heads(Stream* stream, const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                     float* x) {
  const uint32_t total = rows * heads, per_block = kThreads / kLanes;
  launch(layer_norm_heads, dim3((total + per_block - 1) / per_block), dim3(kThreads), 0, stream, weight, eps, total, heads, head_dim,
         stride, x);
}

void add(Stream* stream, const float* y, uint64_t n, float* x) { start_map<true>(stream, Add{}, y, n, x); }
void scale(Stream* stream, float factor, uint64_t n, float* x) { start_map<false>(stream, Scale{factor}, nullptr, n, x); }
void gelu(Stream* stream, uint64_t n, float* x) { start_map<false>(stream, Gelu{}, nullptr, n, x); }
void relu_squared(Stream* stream, uint64_t n, float* x) { start_map<false>(stream, ReluSquared{}, nullptr, n, x); }
void softcap(Stream* stream, float cap, uint64_t n, float* x) { start_map<false>(stream, Cap{cap}, nullptr, n, x); }

void gather_rows(Stream* stream, const float* x, const uint32_t* rows, uint32_t n, uint32_t width, float* out) {
  if (n == 0) return;
  const uint32_t per_block = x == out ? n : kGatherRows;
  launch(gather, dim3((width + kThreads - 1) / kThreads, (n + per_block - 1) / per_block), dim3(kThreads), 0, stream, x, rows, n, per_block,
         width, out);
}

void copy_heads(Stream* stream, uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) {
  if (n > 0) launch(copy_runs, dim3(heads, n), dim3(kThreads), 0, stream, width, in, out);
}

void copy_blocks(Stream* stream, std::span<const BlockPair> pairs, uint64_t bytes) {
  const auto count = static_cast<uint32_t>(pairs.size());
  Pairs listed{};
  std::copy(pairs.begin(), pairs.end(), listed.pair);
  const uint64_t pieces = bytes / sizeof(uint4), per_block = uint64_t{kThreads} * kCopyUnroll;
  const auto parts = static_cast<uint32_t>((pieces + per_block - 1) / per_block);
  launch(copy_pairs, dim3(count * parts), dim3(kThreads), 0, stream, listed, pieces, parts);
}

}  // namespace kvrt::cuda
