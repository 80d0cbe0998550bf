// Sampler: one row of logits -> a token. Pure: the result depends on the arguments alone, on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

struct SamplingOptions {
  float temperature = 0;  // 0: greedy
  uint32_t top_k = 0;     // 0: off
  float top_p = 0;        // 0: off
  uint64_t seed = 0;
};

struct Sample {
  int32_t token = 0;
  float logprob = 0;   // of the untempered, untruncated distribution
  bool finite = true;  // false: the row holds a NaN or an infinity, token means nothing
};

// Order: temperature, top_k, top_p (as Hugging Face transformers). Ties go to the lowest id. The random number is a function of
// (seed, position), so a forked or regenerated answer draws its own only by taking another seed.
Sample sample(std::span<const float> logits, const SamplingOptions& options, uint64_t position);

double uniform_draw(uint64_t seed, uint64_t position);  // in [0, 1): SplitMix64's finalizer over both

}  // namespace kvrt
