// What a part of K's bias gives to scores where K is stored without it: runtime/compute/NUMERICS.md §7, in its order of sums.
#pragma once

#include "cuda/kernels/attention.h"

namespace kvrt::cuda {

// Of attention's arguments; `pairs` 0: K has all of its bias.
struct ScoreBias {
  DeviceKeyBias of;
  float scale;  // of the scores of queries that are not transformed

  // The number, and the two biases, of the i-th pair of a KV head.
  __device__ __forceinline__ const float* pair(uint32_t kv_head, uint32_t i) const {
    return of.values + (uint64_t{kv_head} * of.pairs + i) * 3;
  }
  // A head's q along the pair's bias and across it, turned by the first position of a span: the factors of cos and sin. q: not transformed.
  __device__ __forceinline__ float2 turned(const float* pair, const float* q, uint32_t span) const {
    const auto number = static_cast<uint32_t>(pair[0]);
    const bool interleaved = of.style == RopeStyle::kInterleaved;
    const uint32_t first = interleaved ? 2 * number : number, second = first + (interleaved ? 1 : of.rope_pairs);
    const float* turn = of.turns + 2 * (uint64_t{span} * of.rope_pairs + number);
    const float along = (q[first] * pair[1] + q[second] * pair[2]) * scale, across = (q[second] * pair[1] - q[first] * pair[2]) * scale;
    return make_float2(fmaf(along, turn[0], across * turn[1]), fmaf(across, turn[0], -(along * turn[1])));
  }
  // cos of the position's place in its span; its sin lies kTurnTokens further.
  __device__ __forceinline__ const float* offset(const float* pair, int32_t position) const {
    return of.offsets + static_cast<uint32_t>(pair[0]) * (2 * kTurnTokens) + static_cast<uint32_t>(position) % kTurnTokens;
  }
};
static_assert(kTurnTokens % kSplitTokens == 0);  // a part lies in one span

__device__ __forceinline__ uint32_t span_of(int32_t position) { return static_cast<uint32_t>(position) / kTurnTokens; }

// A block turns the queries of `heads` heads of a KV head, [heads][k_dim] in shared memory and not transformed yet, to [heads][pairs]. A
// barrier must come before, and after.
__device__ __forceinline__ void turn_queries(const ScoreBias& bias, uint32_t kv_head, uint32_t heads, uint32_t k_dim, uint32_t span,
                                             const float* q, float2* turned) {
  for (uint32_t i = threadIdx.x; i < heads * bias.of.pairs; i += blockDim.x) {
    const uint32_t head = i / bias.of.pairs;
    turned[i] = bias.turned(bias.pair(kv_head, i - head * bias.of.pairs), q + head * k_dim, span);
  }
}

}  // namespace kvrt::cuda
