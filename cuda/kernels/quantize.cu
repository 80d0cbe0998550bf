// Rows for the matmuls: RMSNorm (runtime/compute/NUMERICS.md §4), then integers (§2) or f16. The CPU's operations in the CPU's order, so
// that norm, q, d, s and sums have its bits.
#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/quantize.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kVector = kQuantizeWidth;

// Bytes: 4 read of each element (and the norm's weights), 5/4 + 1/8 written. Dealt: with a norm a block takes a row, its threads four
// elements at a time; without one a row is cut into as many blocks as it has work for.
__global__ void __launch_bounds__(kThreadsMax)
    quantize_kernel(const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, DeviceQuantRows out) {
  KVRT_DYNAMIC_SHARED(shared);
  const uint64_t row = uint64_t{min(blockIdx.x, n - 1)} * cols;
  const uint32_t first = (blockIdx.y * blockDim.x + threadIdx.x) * kVector;
  float4 weight{};
  if (norm != nullptr && first < cols) weight = *reinterpret_cast<const float4*>(norm + first);
  grid_wait();
  grid_launch_next();
  float4 in{};
  if (first < cols) in = *reinterpret_cast<const float4*>(x + row + first);  // loaded before the norm, which waits for the whole row
  const float scale = norm ? norm_scale(x + row, eps, cols, reinterpret_cast<float*>(shared)) : 0;
  const uint32_t lane = threadIdx.x % kWarp;
  const QuantRow to(out, quant_group(n), cols / kQuantBlock, blockIdx.x);
  for (uint32_t i = first; i - lane * kVector < cols; i += gridDim.y * blockDim.x * kVector) {  // a warp stays together
    if (i != first && i < cols) {
      in = *reinterpret_cast<const float4*>(x + row + i);
      if (norm != nullptr) weight = *reinterpret_cast<const float4*>(norm + i);
    }
    float v[kVector] = {in.x, in.y, in.z, in.w};
    if (norm != nullptr) {
      v[0] = (v[0] * scale) * weight.x;
      v[1] = (v[1] * scale) * weight.y;
      v[2] = (v[2] * scale) * weight.z;
      v[3] = (v[3] * scale) * weight.w;
    }
    quantize_four(v, i, i < cols, to);
  }
}

// Bytes: 4 read of each element, 2 written; 2 written of padding. Dealt: as above, one element at a time.
__global__ void __launch_bounds__(kThreadsMax)
    f16_kernel(const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, uint16_t* out) {
  KVRT_DYNAMIC_SHARED(shared);
  const uint64_t row = uint64_t{blockIdx.x} * cols;
  const uint32_t first = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
  grid_wait();
  grid_launch_next();
  if (blockIdx.x >= n) {
    for (uint32_t i = first; i < cols; i += step) out[row + i] = 0;
    return;
  }
  const float scale = norm ? norm_scale(x + row, eps, cols, reinterpret_cast<float*>(shared)) : 0;
  for (uint32_t i = first; i < cols; i += step) {
    const float v = x[row + i];
    out[row + i] = float_to_f16_saturated(norm ? (v * scale) * norm[i] : v);
  }
}

// Threads of a block that has `work` pieces of a row; blocks of a row.
uint32_t threads_of(uint32_t work) { return std::min(kThreadsMax, (work + kWarp - 1) / kWarp * kWarp); }
uint32_t blocks_of(uint32_t work, bool norm) { return norm ? 1 : std::min(65535u, (work + kThreadsMax - 1) / kThreadsMax); }

}  // namespace

void quantize_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t cols, const DeviceQuantRows& out) {
  const uint32_t work = cols / kVector, places = quant_group(n) == 1 ? n : (n + 1) / 2 * 2;
  launch(quantize_kernel, dim3(places, blocks_of(work, norm)), threads_of(work), sizeof(float), stream, x, norm, eps, n, cols, out);
}

void f16_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t padded_n, uint32_t cols, uint16_t* out) {
  launch(f16_kernel, dim3(padded_n, blocks_of(cols, norm)), threads_of(cols), sizeof(float), stream, x, norm, eps, n, cols, out);
}

}  // namespace kvrt::cuda
