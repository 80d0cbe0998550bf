// Rows for the matmuls: RMSNorm (runtime/compute/NUMERICS.md §4), then integers (§2) or f16. The CPU's operations in the CPU's order, so
// that norm, q, d, s and sums have its bits.
#include <algorithm>

#include "cuda/device.h"
#include "cuda/kernels.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kVector = 4;  // elements of a thread at a time; 8 lanes have a block of 32

// Sum of squares by 16 virtual lanes, for a whole warp: lanes i and i + 16 do the same. The chains are serial: 16 loads are under way
// while 16 are added, and the other warps of the block bring the row into the L1 cache.
__device__ float sum_of_squares(const float* x, uint32_t cols) {
  constexpr uint32_t kAhead = 16, kLanes = 16;
  const auto load = [&](uint32_t i, float(&to)[kAhead]) {
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) to[j] = i + kLanes * j < cols ? x[i + kLanes * j] : 0.0f;  // fma(0, 0, sum) is the sum
  };
  float now[kAhead], sum = 0;
  load(threadIdx.x % kLanes, now);
  for (uint32_t i = threadIdx.x % kLanes; i < cols; i += kAhead * kLanes) {
    float next[kAhead];
    load(i + kAhead * kLanes, next);
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) sum = fmaf(now[j], now[j], sum);
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) now[j] = next[j];
  }
  return warp_sum(sum, kLanes);
}

// 1 / rms of a row, for a whole block.
__device__ float norm_scale(const float* x, float eps, uint32_t cols, float* shared) {
  if (threadIdx.x < kWarp) {
    const float mean = sum_of_squares(x, cols) / static_cast<float>(cols);
    if (threadIdx.x == 0) *shared = 1.0f / sqrtf(mean + eps);
  }
  __syncthreads();
  return *shared;
}

// Four elements of the lane, of the block of 32 of its 8 lanes.
__device__ void quantize_four(const float (&v)[kVector], uint64_t at, bool store, const DeviceQuantRows& out) {
  float a = 0;
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < kVector; ++i) a = fmaxf(a, fabsf(v[i]));  // a NaN loses
  a = warp_max(a, 8);
  const float inverse = a > 0 ? 127.0f / a : 0.0f, magic = 12582912.0f;
  uint32_t word = 0;
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < kVector; ++i) {
    float q = v[i] * inverse;
    q = q < 127.0f ? q : 127.0f;  // in this order a NaN comes out as 127
    q = q > -127.0f ? q : -127.0f;
    word |= (__float_as_uint(q + magic) & 0xff) << 8 * i;  // to nearest, ties to even: the lowest bits of the sum
  }
  int32_t half = dot4(static_cast<int32_t>(word), 0x01010101, 0);
  half += __shfl_xor_sync(kFullWarp, half, 1);
  half += __shfl_xor_sync(kFullWarp, half, 2);
  const int32_t other = __shfl_xor_sync(kFullWarp, half, 4);
  if (!store) return;
  *reinterpret_cast<uint32_t*>(out.q + at) = word;
  if (at % 16 == 0) out.sums[at / 16] = static_cast<int16_t>(half);
  if (at % 32 == 0) {
    const float d = a / 127.0f;
    out.d[at / 32] = d;
    out.s[at / 32] = d * static_cast<float>(half + other);
  }
}

// Bytes: 4 of each element in (the norm's weights beside them), 5/4 + 1/8 out. Dealt: with a norm a block has a row, its threads four elements
// at a time; without one a row is cut into as many blocks as it has work for.
__global__ void __launch_bounds__(kThreadsMax)
    quantize_kernel(const float* x, const float* norm, float eps, uint32_t cols, DeviceQuantRows out) {
  KVRT_DYNAMIC_SHARED(shared);
  const uint64_t row = uint64_t{blockIdx.x} * cols;
  const uint32_t first = (blockIdx.y * blockDim.x + threadIdx.x) * kVector;
  float4 weight{};
  if (norm != nullptr && first < cols) weight = *reinterpret_cast<const float4*>(norm + first);
  grid_wait();
  grid_launch_next();
  float4 in{};
  if (first < cols) in = *reinterpret_cast<const float4*>(x + row + first);  // before the norm, which waits for the whole row
  const float scale = norm ? norm_scale(x + row, eps, cols, reinterpret_cast<float*>(shared)) : 0;
  const uint32_t lane = threadIdx.x % kWarp;
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
    quantize_four(v, row + i, i < cols, out);
  }
}

// Bytes: 4 of each element in, 2 out; padding 2 out. Dealt: as above, one element at a time.
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
  const uint32_t work = cols / kVector;
  launch(quantize_kernel, dim3(n, blocks_of(work, norm)), threads_of(work), sizeof(float), stream, x, norm, eps, cols, out);
}

void f16_rows(Stream* stream, const float* x, const float* norm, float eps, uint32_t n, uint32_t padded_n, uint32_t cols, uint16_t* out) {
  launch(f16_kernel, dim3(padded_n, blocks_of(cols, norm)), threads_of(cols), sizeof(float), stream, x, norm, eps, n, cols, out);
}

}  // namespace kvrt::cuda
