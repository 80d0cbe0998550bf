// Prompts in FP8 (NUMERICS.md §3): rows of x and of a weight as e4m3, each over a power of two of its own, and the scaling of a library's
// product of them. Columns are multiples of 16.
#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/panel.h"
#include "cuda/kernels/quantize.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kVector = kQuantizeWidth;
constexpr uint32_t kRun = 16;  // elements of a weight's row that a thread takes at a time
constexpr uint32_t kWideThreads = 512, kWideStep = kWideThreads / kPanelRows * kRun;
constexpr uint32_t kScaleThreads = 256;

struct Codes {
  uint8_t* e4m3;
  float* scales;  // [rows]
};

// Bytes: 4 read of each element (the second time from a cache), 1 written. A block takes a row, its threads four elements at a time.
__global__ void __launch_bounds__(kThreadsMax) e4m3_kernel(const float* x, const float* norm, float eps, uint32_t cols, Codes out) {
  __shared__ float of_warps[kWarp];
  grid_wait();
  grid_launch_next();
  x += uint64_t{blockIdx.x} * cols;
  const float scale = norm ? norm_scale<kNormChunk>(x, cols, eps) : 0;
  const auto load = [&](uint32_t i) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    if (norm == nullptr) return v;
    const float4 w = *reinterpret_cast<const float4*>(norm + i);
    return make_float4((v.x * scale) * w.x, (v.y * scale) * w.y, (v.z * scale) * w.z, (v.w * scale) * w.w);
  };
  const uint32_t first = threadIdx.x * kVector, step = blockDim.x * kVector, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float largest = 0;
  for (uint32_t i = first; i < cols; i += step) {
    const float4 v = load(i);
    largest = fmaxf(fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));  // a NaN is passed over
  }
  largest = warp_max(largest);
  if (lane == 0) of_warps[warp] = largest;
  __syncthreads();
  largest = warp_max(lane < blockDim.x / kWarp ? of_warps[lane] : 0.0f);
  const float power = e4m3_scale(largest), inverse = e4m3_inverse(power);
  for (uint32_t i = first; i < cols; i += step) {
    const float4 v = load(i);
    const uint32_t low = float_to_e4m3(v.x * inverse) | static_cast<uint32_t>(float_to_e4m3(v.y * inverse)) << 8;
    const uint32_t high = float_to_e4m3(v.z * inverse) | static_cast<uint32_t>(float_to_e4m3(v.w * inverse)) << 8;
    *reinterpret_cast<uint32_t*>(out.e4m3 + uint64_t{blockIdx.x} * cols + i) = low | high << 16;
  }
  if (threadIdx.x == 0) out.scales[blockIdx.x] = power;
}

// Bytes: the panels (twice, the second time from a cache), 1 of each element. A block takes a panel: its largest magnitudes first.
template <DType type>
__global__ void __launch_bounds__(kWideThreads) e4m3_weight_kernel(const DevicePart part, uint32_t cols, uint8_t* out, float* scales) {
  __shared__ float largest_of[kWideThreads];
  grid_wait();
  grid_launch_next();
  const uint32_t row = threadIdx.x % kPanelRows, first = threadIdx.x / kPanelRows * kRun;
  const uint8_t* panel = part.data + blockIdx.x * part.panel_bytes;
  float numbers[kRun], largest = 0;
  for (uint32_t k = first; k < cols; k += kWideStep) {
    HalfRow<type> half;
    half.load(panel, cols, k, row);
    half.numbers(numbers);
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < kRun; ++i) largest = fmaxf(largest, fabsf(numbers[i]));
  }
  largest_of[threadIdx.x] = largest;
  __syncthreads();
  for (uint32_t i = row; i < kWideThreads; i += kPanelRows) largest = fmaxf(largest, largest_of[i]);
  const uint32_t at = blockIdx.x * kPanelRows + row;
  if (at >= part.rows) return;
  const float power = e4m3_scale(largest), inverse = e4m3_inverse(power);
  if (first == 0) scales[at] = power;
  for (uint32_t k = first; k < cols; k += kWideStep) {
    HalfRow<type> half;
    half.load(panel, cols, k, row);
    half.numbers(numbers);
    uint32_t words[4] = {};
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < kRun; ++i) words[i / 4] |= static_cast<uint32_t>(float_to_e4m3(numbers[i] * inverse)) << 8 * (i % 4);
    *reinterpret_cast<uint4*>(out + uint64_t{at} * cols + k) = {words[0], words[1], words[2], words[3]};
  }
}

// Bytes: 8 of each element, 12 where it accumulates. A thread takes four columns of a row.
__global__ void __launch_bounds__(kScaleThreads) scale_products_kernel(const float* products, const float* x_scales, const float* w_scales,
                                                                       const float* bias, uint32_t rows, bool accumulate, float* out) {
  grid_wait();
  grid_launch_next();
  const uint32_t row = 4 * (blockIdx.y * kScaleThreads + threadIdx.x);
  if (row >= rows) return;
  const uint64_t at = uint64_t{blockIdx.x} * rows + row;
  const float x_scale = x_scales[blockIdx.x];
  const float4 w = *reinterpret_cast<const float4*>(w_scales + row);
  float4 v = *reinterpret_cast<const float4*>(products + at);
  v = make_float4((v.x * x_scale) * w.x, (v.y * x_scale) * w.y, (v.z * x_scale) * w.z, (v.w * x_scale) * w.w);
  const auto add = [&v](const float* p) {
    const float4 more = *reinterpret_cast<const float4*>(p);
    v = make_float4(more.x + v.x, more.y + v.y, more.z + v.z, more.w + v.w);
  };
  if (bias != nullptr) add(bias + row);
  if (accumulate) add(out + at);
  *reinterpret_cast<float4*>(out + at) = v;
}

}  // namespace

void e4m3_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, uint8_t* out, float* scales) {
  const uint32_t threads = std::min(kThreadsMax, (cols / kVector + kWarp - 1) / kWarp * kWarp);
  launch(e4m3_kernel, dim3(n), threads, 0, stream, x, norm, eps, cols, Codes{out, scales});
}

void dequantize_e4m3(Stream* stream, const DeviceWeight& w, uint8_t* out, float* scales) {
  for (uint32_t p = 0; p < w.n_parts; ++p) {
    const DevicePart& part = w.parts[p];
    switch_type(part.type, [&]<DType T>() {
      launch(e4m3_weight_kernel<T>, dim3(part.panels), kWideThreads, 0, stream, part, w.cols, out + uint64_t{part.row_begin} * w.cols,
             scales + part.row_begin);
    });
  }
}

void scale_products(Stream* stream, const float* products, const float* x_scales, const float* w_scales, const float* bias, uint32_t n,
                    uint32_t rows, bool accumulate, float* out) {
  const dim3 grid(n, (rows / 4 + kScaleThreads - 1) / kScaleThreads);
  launch(scale_products_kernel, grid, kScaleThreads, 0, stream, products, x_scales, w_scales, bias, rows, accumulate, out);
}

}  // namespace kvrt::cuda
