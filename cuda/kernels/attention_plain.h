// Attention of a part of any dimensions and formats, without tensor cores: the CPU's arithmetic in its order, so that a row that sees one
// part has the CPU's bits (attention_decode.cu).
#pragma once

#include <type_traits>

#include "cuda/kernels/attention_ring.h"

namespace kvrt::cuda {

constexpr uint32_t kPlainHeads = 4;  // heads that share a read of K and V
// Rows of K or tokens of V at a time, as registers allow.
template <typename Kv>
constexpr uint32_t kPlainRows = std::is_same_v<Kv, Unlike>                 ? 1
                                : std::is_same_v<Kv, Alike<KvFormat::kI4>> ? 1
                                : std::is_same_v<Kv, Alike<KvFormat::kF8>> ? 2
                                                                           : 4;
template <typename Kv>
constexpr uint32_t kPlainTokens = kPlainRows<Kv> < 4 ? 1 : 4;

// q · k of a position of int4, for all heads: of each group in the order of the cells, times its scale; a latent's in that of the elements.
__device__ __forceinline__ void int4_dots(const DecodeArgs& a, const Part& part, uint32_t kv_head, int32_t position, const float* q,
                                          float (&dot)[kPlainHeads]) {
  constexpr uint32_t kHalf = kInt4Group / 2;
  const uint8_t* k = a.pool + a.kv.key_at(part.table, kv_head, position);
  const auto* scale_at = reinterpret_cast<const uint16_t*>(a.pool + a.kv.scales_of(false, part.table, kv_head, position));
  for (uint32_t first = 0; first < a.kv.k_dim; first += kInt4Group, k += kHalf * a.kv.k_row_bytes(), scale_at += 1u << a.kv.token_shift) {
    const float scale = f16_to_float(*scale_at), each = a.kv.latent ? scale : 1.0f;
    float part_dot[kPlainHeads] = {};
    for (uint32_t i = 0; i < kInt4Group; ++i) {
      const uint32_t cell = a.kv.latent ? i % kHalf : i / 2, high = a.kv.latent ? i / kHalf : i % 2, d = first + cell + kHalf * high;
      if (d >= a.kv.k_dim) continue;
      const float x = int4_level(k[cell * a.kv.k_row_bytes()] >> 4 * high & 15) * each;
#pragma unroll
      for (uint32_t h = 0; h < kPlainHeads; ++h) {
        float& sum = a.kv.latent ? dot[h] : part_dot[h];
        sum = fmaf(q[h * a.kv.k_dim + d], x, sum);
      }
    }
#pragma unroll
    for (uint32_t h = 0; h < kPlainHeads && !a.kv.latent; ++h) dot[h] = fmaf(part_dot[h], scale, dot[h]);
  }
}

// Likewise of any other format, times the position's scale.
template <typename Kv>
__device__ __forceinline__ void element_dots(const DecodeArgs& a, const Part& part, uint32_t kv_head, int32_t position, const float* q,
                                             float (&dot)[kPlainHeads]) {
  const uint8_t* k = a.pool + a.kv.key_at(part.table, kv_head, position);
#pragma unroll(kPlainRows <Kv>)
  for (uint32_t d = 0; d < a.kv.k_dim; ++d, k += a.kv.k_row_bytes()) {
    const float x = kv_element(Kv::k(a.kv), k);
#pragma unroll
    for (uint32_t h = 0; h < kPlainHeads; ++h) dot[h] = fmaf(q[h * a.kv.k_dim + d], x, dot[h]);
  }
  float scale = 1;
  if (one_scale(Kv::k(a.kv))) scale = scale_of(a, part, a.kv.k_scales_at, kv_head, position);
#pragma unroll
  for (uint32_t h = 0; h < kPlainHeads; ++h) dot[h] = dot[h] * scale;
}

// Adds what K's bias gives to the scores of a position.
__device__ __forceinline__ void add_plain_bias(const ScoreBias& bias, uint32_t kv_head, int32_t position, const float2* turned,
                                               float (&score)[kPlainHeads]) {
  for (uint32_t i = 0; i < bias.of.pairs; ++i) {
    const float* at = bias.offset(bias.pair(kv_head, i), position);
    const float cos = at[0], sin = at[kTurnTokens];
#pragma unroll
    for (uint32_t h = 0; h < kPlainHeads; ++h) {
      const float2 by = turned[h * bias.of.pairs + i];
      score[h] = fmaf(by.y, sin, fmaf(by.x, cos, score[h]));
    }
  }
}

// Puts the scores of `n` heads at the part's position i into weights[head][i]; the thread has the positions i and i + kPartThreads.
template <typename Kv, bool biased>
__device__ __forceinline__ void plain_scores(const DecodeArgs& a, const Part& part, uint32_t kv_head, const float* q, const float2* turned,
                                             float* weights) {
  for (uint32_t i = threadIdx.x; i < kSplitTokens; i += kPartThreads) {
    const int32_t position = part.first + static_cast<int32_t>(i);
    if (!part.seen.has(position)) continue;
    float dot[kPlainHeads] = {};
    if (Kv::k(a.kv) == KvFormat::kI4) {
      int4_dots(a, part, kv_head, position, q, dot);
    } else {
      element_dots<Kv>(a, part, kv_head, position, q, dot);
    }
#pragma unroll
    for (float& score : dot) score = score * a.scale;
    if constexpr (biased) add_plain_bias(a.bias, kv_head, position, turned, dot);
#pragma unroll
    for (uint32_t h = 0; h < kPlainHeads; ++h) weights[h * kSplitTokens + i] = a.capped(dot[h]);
  }
}

// Turns scores into weights, and gives each head's largest score and, by 16 virtual lanes, its sum of weights. Then the weights are
// multiplied by the scales of V, where it has them. They are 0 for positions that are not seen.
__device__ __forceinline__ void plain_weights(const DecodeArgs& a, const Part& part, bool scaled, uint32_t kv_head, float* weights,
                                              float* maxima, float* sums) {
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  static_assert(kPlainHeads == kPartWarps);
  __syncthreads();
  float max = -INFINITY, sum = 0;
  for (uint32_t i = lane; i < kSplitTokens; i += kWarp) {
    if (part.seen.has(part.first + static_cast<int32_t>(i))) max = fmaxf(weights[warp * kSplitTokens + i], max);
  }
  max = warp_max(max);
  for (uint32_t i = lane; i < kSplitTokens; i += kWarp) {
    float& at = weights[warp * kSplitTokens + i];
    at = part.seen.has(part.first + static_cast<int32_t>(i)) ? exp_of(at - max) : 0.0f;
  }
  __syncwarp();
  for (uint32_t i = lane % 16; i < kSplitTokens; i += 16) sum = sum + weights[warp * kSplitTokens + i];
  sum = warp_sum(sum, 16);
  if (lane == 0) maxima[warp] = max, sums[warp] = sum;
  __syncthreads();
  if (scaled) {
    for (uint32_t i = threadIdx.x; i < kSplitTokens; i += kPartThreads) {
      const int32_t position = part.first + static_cast<int32_t>(i);
      if (!part.seen.has(position)) continue;
      const float scale = scale_of(a, part, a.kv.v_scales_at, kv_head, position);
      for (uint32_t h = 0; h < kPlainHeads; ++h) weights[h * kSplitTokens + i] = weights[h * kSplitTokens + i] * scale;
    }
    __syncthreads();
  }
}

// A thread per dimension sums over V, token after token. Heads [first, first + n).
template <typename Kv>
__device__ __forceinline__ void plain_values(const DecodeArgs& a, const Part& part, uint32_t kv_head, uint32_t first, uint32_t n,
                                             const float* weights, const float* sums) {
  const int32_t begin = max(part.first, part.seen.first), end = min(part.first + int32_t{kSplitTokens}, part.seen.last + 1);
  const bool int4 = Kv::v(a.kv) == KvFormat::kI4;
  for (uint32_t d = threadIdx.x; d < a.kv.v_dim; d += kPartThreads) {
    float acc[kPlainHeads] = {};
    const uint8_t* v = nullptr;
    const uint32_t half = kInt4Group / 2, group = d / kInt4Group, high = d / half % 2, cell = int4 ? group * half + d % half : d;
#pragma unroll(kPlainTokens <Kv>)
    for (int32_t at = begin; at < end; ++at, v += a.kv.v_row_bytes()) {
      if (at == begin || a.kv.slot(at) == 0) v = a.pool + a.kv.value_at(part.table, kv_head, at);
      float x = 0, scale = 1;
      if (int4) {
        const uint64_t scales = a.kv.scales_of(true, part.table, kv_head, at) + (group * kKvScaleBytes << a.kv.token_shift);
        x = int4_level(v[cell] >> 4 * high & 15);
        scale = f16_to_float(*reinterpret_cast<const uint16_t*>(a.pool + scales));
      } else {
        x = kv_element(Kv::v(a.kv), v + cell * a.kv.v_elem);
      }
#pragma unroll
      for (uint32_t h = 0; h < kPlainHeads; ++h) acc[h] = fmaf(weights[h * kSplitTokens + at - part.first] * scale, x, acc[h]);
    }
    for (uint32_t h = 0; h < n; ++h) a.put(part.only, blockIdx.z, first + h, d, acc[h], sums[h]);
  }
}

// Like attend_part; K and V are read once for each kPlainHeads heads of a group.
template <typename Kv, bool biased>
__global__ void __launch_bounds__(kPartThreads, 8) attend_part_plain(DecodeArgs a) {
  KVRT_DYNAMIC_SHARED(memory);
  __shared__ float maxima[kPlainHeads], sums[kPlainHeads];
  grid_wait();
  const Part part = part_of(a);
  if (part.none) return;
  auto* weights = reinterpret_cast<float*>(memory);
  float* q = weights + kPlainHeads * kSplitTokens;
  const uint32_t kv_head = blockIdx.y, last = (kv_head + 1) * a.group, k_dim = a.kv.k_dim;
  auto* turned = reinterpret_cast<float2*>(q + kPlainHeads * k_dim);
  for (uint32_t head = kv_head * a.group; head < last; head += kPlainHeads) {
    const uint32_t n = min(kPlainHeads, last - head);
    const float* from = a.q + uint64_t{blockIdx.z} * a.stride + uint64_t{head} * k_dim;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kPlainHeads * k_dim; i += kPartThreads) q[i] = i < n * k_dim ? from[i] : 0.0f;
    if constexpr (biased) {
      __syncthreads();
      turn_queries(a.bias, kv_head, kPlainHeads, k_dim, span_of(part.first), q, turned);
    }
    if (Kv::kScaled && a.kv.transforms_keys) hadamard(hadamard_dim(k_dim), kPlainHeads * k_dim, q);
    __syncthreads();
    plain_scores<Kv, biased>(a, part, kv_head, q, turned, weights);
    plain_weights(a, part, one_scale(Kv::v(a.kv)), kv_head, weights, maxima, sums);
    if (!part.only && threadIdx.x < n) a.put_sums(blockIdx.z, head + threadIdx.x, maxima[threadIdx.x], sums[threadIdx.x]);
    plain_values<Kv>(a, part, kv_head, head, n, weights, sums);
  }
}

}  // namespace kvrt::cuda
