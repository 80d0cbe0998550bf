// K and V of a step's rows into the pool, rounded as the CPU rounds them (runtime/compute/NUMERICS.md §7).
#include "cuda/attention.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// A row of a head as whole numbers and one scale: into `to` from element to element by `step` bytes.
__device__ __forceinline__ void store_int8(const float* row, uint32_t head_dim, bool key, uint8_t* to, uint32_t step, uint16_t* scale_at) {
  __shared__ float x[kHeadDimMax];
  __shared__ float maxima[kThreads / kWarp];
  for (uint32_t i = threadIdx.x; i < head_dim; i += kThreads) x[i] = row[i];
  if (key) hadamard(hadamard_dim(head_dim), head_dim, x);
  __syncthreads();
  float max = 0;
  for (uint32_t i = threadIdx.x; i < head_dim; i += kThreads) max = fmaxf(fabsf(x[i]), max);
  max = warp_max(max);
  if (threadIdx.x % kWarp == 0) maxima[threadIdx.x / kWarp] = max;
  __syncthreads();
  for (uint32_t w = 0; w < kThreads / kWarp; ++w) max = fmaxf(maxima[w], max);
  const float top = key ? kInt8Top : int8_value_top(head_dim);
  const uint16_t scale = float_to_f16(fminf(max / top, 65504.0f));
  const float inverse = scale > 0 ? 1.0f / f16_to_float(scale) : 0.0f, magic = 12582912.0f;
  for (uint32_t i = threadIdx.x; i < head_dim; i += kThreads) {
    float v = x[i] * inverse;
    v = v < top ? v : top;
    v = v > -top ? v : -top;
    to[uint64_t{i} * step] = static_cast<uint8_t>(static_cast<int8_t>((v + magic) - magic));
  }
  if (threadIdx.x == 0) *scale_at = scale;
}

// k, v at + row * stride: [kv_head][head_dim]. A block a row, a head and K (z 0) or V (z 1). Bytes: 4 read and those of the format
// written per element; K's lie a row of the block apart.
template <KvFormat format>
__global__ void __launch_bounds__(kThreads)
    store_head(KvLayer kv, uint8_t* pool, DeviceStep step, const float* k, const float* v, uint32_t stride) {
  grid_wait();
  grid_launch_next();
  const uint32_t head = blockIdx.x, row = blockIdx.y;
  const bool key = blockIdx.z == 0;
  if (step.stores[row] == 0) return;
  const int32_t position = step.positions[row];
  const int32_t* table = step.tables + step.tables_at[row];
  const float* from = (key ? k : v) + uint64_t{row} * stride + uint64_t{head} * kv.head_dim;
  uint8_t* to = pool + (key ? kv.key_at(table, head, position) : kv.value_at(table, head, position));
  const uint32_t apart = key ? kv.k_row_bytes() : kv.elem;
  if constexpr (format == KvFormat::kI8) {
    uint8_t* scale = pool + kv.scale_at(key ? kv.k_scales_at : kv.v_scales_at, table, head, position);
    store_int8(from, kv.head_dim, key, to, apart, reinterpret_cast<uint16_t*>(scale));
  } else {
    for (uint32_t i = threadIdx.x; i < kv.head_dim; i += kThreads) {
      uint8_t* at = to + uint64_t{i} * apart;
      if constexpr (format == KvFormat::kF16) *reinterpret_cast<uint16_t*>(at) = float_to_f16(from[i]);
      if constexpr (format == KvFormat::kBF16) *reinterpret_cast<uint16_t*>(at) = float_to_bf16(from[i]);
      if constexpr (format == KvFormat::kF32) *reinterpret_cast<float*>(at) = from[i];
    }
  }
}

}  // namespace

void kv_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows, const float* k,
              const float* v, uint32_t stride) {
  const auto start = [&](auto kernel) {
    launch(kernel, dim3(kv.kv_heads, rows, 2), dim3(kThreads), 0, stream, kv_layer(kv, layer), pool, step, k, v, stride);
  };
  switch (kv.format) {
    case KvFormat::kF16:
      return start(store_head<KvFormat::kF16>);
    case KvFormat::kBF16:
      return start(store_head<KvFormat::kBF16>);
    case KvFormat::kF32:
      return start(store_head<KvFormat::kF32>);
    case KvFormat::kI8:
      return start(store_head<KvFormat::kI8>);
  }
}

}  // namespace kvrt::cuda
