// The sum of the experts' results (runtime/compute/NUMERICS.md §10).
#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// A thread per element: y [n, width] is read, x's rows are read and written: 12 bytes per element.
__global__ void __launch_bounds__(kThreads)
    add_scaled_rows_kernel(const float* y, const uint32_t* rows, const float* weights, uint32_t width, float* x) {
  grid_wait();
  const uint32_t i = blockIdx.y, at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= width) return;
  float* to = x + uint64_t{rows[i]} * width + at;
  *to = fmaf(weights[i], y[uint64_t{i} * width + at], *to);
}

}  // namespace

void add_scaled_rows(Stream* stream, const float* y, const uint32_t* rows, const float* weights, uint32_t n, uint32_t width, float* x) {
  launch(add_scaled_rows_kernel, dim3((width + kThreads - 1) / kThreads, n), dim3(kThreads), 0, stream, y, rows, weights, width, x);
}

}  // namespace kvrt::cuda
