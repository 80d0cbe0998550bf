// All work between the projection of Q, K and V and attention, in one launch: norms (runtime/compute/NUMERICS.md §4), rotation (§6), the
// factors of Q and K, and the store of K and V in the pool (§7). The bits are those of rmsnorm_heads, rope, multiply and kv_store one after the other.
#include <algorithm>

#include "cuda/kernels/kv.h"
#include "cuda/kernels/quantize.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kHeadsChunk = 2048;  // of norm_scale: its blocks are many and small

struct RopeStoreArgs {
  KvLayer kv;
  uint8_t* pool;
  DeviceStep step;
  DeviceRopeStore params;
  uint32_t q_heads, q_blocks;  // heads of Q per block; blocks of a row that have heads of Q
  uint32_t kv_heads, stride;
  float* qkv;
};

// Calls put(i, value) for each element i of the heads at x: normalized where there are norm weights, which go on from head to head as x
// does, and rotated. The thread that puts an element has read it before.
template <typename Put>
__device__ __forceinline__ void rotate_heads(const RopeStoreArgs& a, uint32_t row, const float* x, uint32_t heads, const float* norm,
                                             float scale, const Put& put) {
  const uint32_t pairs = a.params.pairs, k_dim = a.kv.k_dim, rest = k_dim - 2 * pairs;
  const bool interleaved = a.params.style == RopeStyle::kInterleaved;
  const auto element = [&](uint32_t i) { return norm != nullptr ? (x[i] * scale) * norm[i] : x[i]; };
  for (uint32_t i = threadIdx.x; i < heads * pairs; i += kStoreThreads) {
    const uint32_t pair = i % pairs, first = i / pairs * k_dim + (interleaved ? 2 * pair : pair);
    const uint32_t second = first + (interleaved ? 1 : pairs);
    const float c = a.params.cos[uint64_t{row} * pairs + pair], s = a.params.sin[uint64_t{row} * pairs + pair];
    const float x0 = element(first), x1 = element(second);
    put(first, fmaf(x0, c, -(x1 * s)));
    put(second, fmaf(x0, s, x1 * c));
  }
  for (uint32_t i = threadIdx.x; i < heads * rest; i += kStoreThreads) {
    const uint32_t at = i / rest * k_dim + 2 * pairs + i % rest;
    put(at, element(at));
  }
}

// qkv at + row * stride. The blocks of a row (y) take some heads of Q each, then one head of K each, then one of V. With a norm over all
// heads of a row one block takes all of Q, since it writes where the norm reads, and each of K's blocks computes the norm itself. Bytes: 8
// per element of Q, 4 of K and V, and the writes of kv_store.
template <typename Kv>
__global__ void __launch_bounds__(kStoreThreads) rope_store_kernel(RopeStoreArgs a) {
  __shared__ float rotated[kHeadDimMax];
  grid_wait();
  grid_launch_next();
  const DeviceRopeStore& p = a.params;
  const uint32_t k_dim = a.kv.k_dim, row = blockIdx.y;
  float* q = a.qkv + uint64_t{row} * a.stride;
  if (blockIdx.x < a.q_blocks) {
    const uint32_t first = blockIdx.x * a.q_heads, heads = min(a.q_heads, p.heads - first);
    float* x = q + first * k_dim;
    const float scale = p.q_norm != nullptr ? norm_scale<kHeadsChunk>(x, heads * k_dim, p.eps) : 0.0f;
    const float* factors = p.factors != nullptr ? p.factors + first * k_dim : nullptr;
    rotate_heads(a, row, x, heads, p.q_norm, scale,
                 [&](uint32_t i, float value) { x[i] = factors != nullptr ? value * factors[i] : value; });
    return;
  }
  const uint32_t index = blockIdx.x - a.q_blocks, head = index % a.kv_heads;
  const bool key = index < a.kv_heads;
  const float* k = q + p.heads * k_dim;
  const float* from = k + min(index, a.kv_heads) * k_dim + (index - min(index, a.kv_heads)) * a.kv.v_dim;  // V's heads follow K's
  if (key) {
    const uint32_t normed = p.norm_rows ? a.kv_heads * k_dim : k_dim;
    const float scale = p.k_norm != nullptr ? norm_scale<kHeadsChunk>(p.norm_rows ? k : from, normed, p.eps) : 0.0f;
    const float* norm = p.k_norm != nullptr && p.norm_rows ? p.k_norm + head * k_dim : p.k_norm;
    const float* factors = p.factors != nullptr ? p.factors + (p.heads + head) * k_dim : nullptr;
    rotate_heads(a, row, from, 1, norm, scale,
                 [&](uint32_t i, float value) { rotated[i] = factors != nullptr ? value * factors[i] : value; });
    __syncthreads();
  }
  store_head<Kv>(a.kv, a.pool, a.step, row, head, key, key ? rotated : from);
}

}  // namespace

void rope_store(Stream* stream, const KvGeometry& kv, uint8_t* pool, uint32_t layer, const DeviceStep& step, uint32_t rows,
                const DeviceRopeStore& params, uint32_t stride, float* qkv) {
  RopeStoreArgs a{kv_layer(kv, layer), pool, step, params, 1, 0, kv.kv_heads, stride, qkv};
  if (params.q_norm == nullptr) a.q_heads = std::clamp(kStoreThreads / std::max(params.pairs, 1u), 1u, params.heads);
  if (params.q_norm != nullptr && params.norm_rows) a.q_heads = params.heads;
  a.q_blocks = (params.heads + a.q_heads - 1) / a.q_heads;
  with_formats(kv, [&]<typename Kv>() {
    launch(rope_store_kernel<Kv>, dim3(a.q_blocks + 2 * kv.kv_heads, rows), dim3(kStoreThreads), 0, stream, a);
  });
}

}  // namespace kvrt::cuda
