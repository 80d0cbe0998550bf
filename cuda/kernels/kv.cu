// Stores K and V of a step's rows in the pool.
#include "cuda/kernels/kv.h"

namespace kvrt::cuda {
namespace {

// k, v at + row * stride: [kv_head][head_dim]. A block per row, head and K (z 0) or V (z 1). Bytes: 4 read and those of the format
// written per element; K's elements lie a row of the block apart.
template <KvFormat format>
__global__ void __launch_bounds__(kStoreThreads)
    store_heads(KvLayer kv, uint8_t* pool, DeviceStep step, const float* k, const float* v, uint32_t stride) {
  grid_wait();
  grid_launch_next();
  const uint32_t head = blockIdx.x, row = blockIdx.y;
  const bool key = blockIdx.z == 0;
  store_head<format>(kv, pool, step, row, head, key, (key ? k : v) + uint64_t{row} * stride + uint64_t{head} * kv.head_dim);
}

}  // namespace

void kv_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows, const float* k,
              const float* v, uint32_t stride) {
  switch_format(kv.format, [&]<KvFormat format>() {
    launch(store_heads<format>, dim3(kv.kv_heads, rows, 2), dim3(kStoreThreads), 0, stream, kv_layer(kv, layer), pool, step, k, v, stride);
  });
}

}  // namespace kvrt::cuda
