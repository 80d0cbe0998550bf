// Rotary positions: the CPU's bits (runtime/compute/NUMERICS.md §6).
#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// inv_freq [pairs], cos and sin [rows][pairs]. A thread per angle. Bytes: 8 per angle.
__global__ void __launch_bounds__(kThreads)
    angles(const int32_t* positions, uint32_t n, const double* inv_freq, uint32_t pairs, double amplitude, float* cos, float* sin) {
  grid_wait();
  grid_launch_next();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  double s, c;
  rope_sincos(static_cast<double>(positions[i / pairs]) * inv_freq[i % pairs], &s, &c);
  sin[i] = static_cast<float>(s * amplitude);
  cos[i] = static_cast<float>(c * amplitude);
}

// Heads of head_dim at x + row * stride. A thread per pair. Bytes: 16 per pair; cos and sin [rows][pairs] once per row.
template <RopeStyle style>
__global__ void __launch_bounds__(kThreads)
    rotate(const float* cos, const float* sin, uint32_t pairs, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) {
  grid_wait();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (i >= heads * pairs) return;
  const uint32_t pair = i % pairs;
  x += uint64_t{row} * stride + uint64_t{i / pairs} * head_dim;
  float* a = style == RopeStyle::kInterleaved ? x + 2 * pair : x + pair;
  float* b = style == RopeStyle::kInterleaved ? a + 1 : a + pairs;
  const float c = cos[uint64_t{row} * pairs + pair], s = sin[uint64_t{row} * pairs + pair], x0 = *a, x1 = *b;
  grid_launch_next();
  *a = fmaf(x0, c, -(x1 * s));
  *b = fmaf(x0, s, x1 * c);
}

// A thread per number. Bytes: 8 per number.
__global__ void __launch_bounds__(kThreads)
    temper_rows(Temperature t, const int32_t* positions, uint32_t width, uint32_t stride, float* x) {
  grid_wait();
  grid_launch_next();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (i < width) x[uint64_t{row} * stride + i] *= temperature_at(t, positions[row]);
}

}  // namespace

void temper(Stream* stream, const Temperature& t, const int32_t* positions, uint32_t rows, uint32_t width, uint32_t stride, float* x) {
  launch(temper_rows, dim3((width + kThreads - 1) / kThreads, rows), dim3(kThreads), 0, stream, t, positions, width, stride, x);
}

void rope_table(Stream* stream, const int32_t* positions, uint32_t rows, const double* inv_freq, uint32_t pairs, double amplitude,
                float* cos, float* sin) {
  const uint32_t n = rows * pairs;
  launch(angles, dim3((n + kThreads - 1) / kThreads), dim3(kThreads), 0, stream, positions, n, inv_freq, pairs, amplitude, cos, sin);
}

void rope(Stream* stream, const float* cos, const float* sin, uint32_t pairs, RopeStyle style, uint32_t rows, uint32_t heads,
          uint32_t head_dim, uint32_t stride, float* x) {
  const auto kernel = style == RopeStyle::kInterleaved ? rotate<RopeStyle::kInterleaved> : rotate<RopeStyle::kHalves>;
  launch(kernel, dim3((heads * pairs + kThreads - 1) / kThreads, rows), dim3(kThreads), 0, stream, cos, sin, pairs, heads, head_dim, stride,
         x);
}

}  // namespace kvrt::cuda
