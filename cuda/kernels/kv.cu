// Stores K and V of a step's rows in the pool.
#include "cuda/kernels/kv.h"

namespace kvrt::cuda {
namespace {

// k, v at + row * stride: [kv_head][k_dim or v_dim]. A block per row, head and K (z 0) or V (z 1). Bytes: 4 read and those of the format
// written per element; K's elements lie a row of the block apart.
template <typename Kv>
__global__ void __launch_bounds__(kStoreThreads)
    store_heads(KvLayer kv, uint8_t* pool, DeviceStep step, const float* k, const float* v, uint32_t stride) {
  grid_wait();
  grid_launch_next();
  const uint32_t head = blockIdx.x, row = blockIdx.y;
  const bool key = blockIdx.z == 0;
  const float* from = key ? k + uint64_t{head} * kv.k_dim : v + uint64_t{head} * kv.v_dim;
  store_head<Kv>(kv, pool, step, row, head, key, from + uint64_t{row} * stride);
}

}  // namespace

void kv_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows, const float* k,
              const float* v, uint32_t stride) {
  with_formats(kv, [&]<typename Kv>() {
    launch(store_heads<Kv>, dim3(kv.kv_heads, rows, kv.latent ? 1 : 2), dim3(kStoreThreads), 0, stream, kv_layer(kv, layer), pool, step, k,
           v, stride);
  });
}

}  // namespace kvrt::cuda
