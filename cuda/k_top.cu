// Greedy sampling's part of a row of logits: its largest element and the logarithm of the softmax's denominator.
#include "cuda/device.h"
#include "cuda/kernels.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 1024, kWarps = kThreads / kWarp;
constexpr uint32_t kBatch = 16;  // elements that a thread has under way, four loads of four
constexpr float kLowest = -3.402823466e38f;

// The largest of some elements, the lowest index of several, and the sum of exp(x - max). bad: 0 while all are finite, else NaN.
struct Top {
  float max = kLowest, sum = 0, bad = 0;
  uint32_t index = UINT32_MAX;

  __device__ __forceinline__ void take(const Top& o) {
    const float both = fmaxf(max, o.max);
    sum = sum * exp_of(max - both) + o.sum * exp_of(o.max - both);
    bad = bad + o.bad;
    if (o.max > max || (o.max == max && o.index < index)) index = o.index;
    max = both;
  }
};

// Elements [first, first + 4) of a row; those beyond its end are `kLowest`, which has no part in what follows.
__device__ __forceinline__ float4 load_four(const float* row, uint32_t first, uint32_t n, bool aligned) {
  if (aligned && first + 4 <= n) return *reinterpret_cast<const float4*>(row + first);
  float4 v = make_float4(kLowest, kLowest, kLowest, kLowest);
  if (first < n) v.x = row[first];
  if (first + 1 < n) v.y = row[first + 1];
  if (first + 2 < n) v.z = row[first + 2];
  if (first + 3 < n) v.w = row[first + 3];
  return v;
}

// kBatch elements from `first` on, in runs of four that lie 4 * kThreads apart, to what the thread has.
__device__ __forceinline__ void take_batch(const float* row, uint32_t first, uint32_t n, bool aligned, Top* top) {
  float x[kBatch];
#pragma unroll
  for (uint32_t i = 0; i < kBatch; i += 4) {
    const float4 v = load_four(row, first + i * kThreads, n, aligned);
    x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
  }
  const float before = top->max;
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i) {
    top->bad = top->bad + (x[i] - x[i]);
    if (x[i] > top->max) top->max = x[i], top->index = first + i / 4 * (4 * kThreads) + i % 4;
  }
  float sum = top->sum * exp_of(before - top->max);
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i) {
    if (first + i / 4 * (4 * kThreads) + i % 4 < n) sum = sum + exp_of(x[i] - top->max);
  }
  top->sum = sum;
}

// logits [rows][vocab]. A block a row: threads deal runs of four elements, then lanes and warps merge in a fixed order.
// Bytes: 4 per element, read once.
__global__ void __launch_bounds__(kThreads) top_row(const float* logits, uint32_t vocab, TopLogit* out) {
  __shared__ float maxima[kWarps], sums[kWarps], bads[kWarps];
  __shared__ uint32_t indices[kWarps];
  grid_wait();
  const float* row = logits + uint64_t{blockIdx.x} * vocab;
  const bool aligned = reinterpret_cast<uintptr_t>(row) % sizeof(float4) == 0;
  Top top;
  for (uint32_t first = 4 * threadIdx.x; first < vocab; first += kBatch * kThreads) take_batch(row, first, vocab, aligned, &top);
  grid_launch_next();
  const auto merge_lanes = [&top] {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      Top other;
      other.max = __shfl_down_sync(kFullWarp, top.max, static_cast<uint32_t>(lanes));
      other.sum = __shfl_down_sync(kFullWarp, top.sum, static_cast<uint32_t>(lanes));
      other.bad = __shfl_down_sync(kFullWarp, top.bad, static_cast<uint32_t>(lanes));
      other.index = __shfl_down_sync(kFullWarp, top.index, static_cast<uint32_t>(lanes));
      top.take(other);
    }
  };
  merge_lanes();
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) maxima[warp] = top.max, sums[warp] = top.sum, bads[warp] = top.bad, indices[warp] = top.index;
  __syncthreads();
  if (warp != 0) return;
  top.max = maxima[lane], top.sum = sums[lane], top.bad = bads[lane], top.index = indices[lane];
  merge_lanes();
  if (lane != 0) return;
  TopLogit result{0, 0.0f, 0.0f, 0};
  if (top.bad == 0 && top.index < vocab) {
    const double log_sum = rope_log(static_cast<double>(top.sum)) + static_cast<double>(top.max);
    result = {static_cast<int32_t>(top.index), top.max, static_cast<float>(log_sum), 1};
  }
  out[blockIdx.x] = result;
}

}  // namespace

void top_rows(Stream* stream, const float* logits, uint32_t rows, uint32_t vocab, TopLogit* out) {
  launch(top_row, dim3(rows), dim3(kThreads), 0, stream, logits, vocab, out);
}

}  // namespace kvrt::cuda
