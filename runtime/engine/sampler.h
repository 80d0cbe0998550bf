// Sampler: one row of logits -> a token. Pure: the result depends on the arguments alone, on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

struct TokenValue {
  int32_t token = 0;
  float value = 0;
};

struct SamplingOptions {
  float temperature = 0;  // 0: greedy
  uint32_t top_k = 0;     // 0: off
  float top_p = 0, min_p = 0;
  float repetition_penalty = 0;
  float frequency_penalty = 0, presence_penalty = 0;
  uint32_t penalty_window = 0;
  std::vector<TokenValue> logit_bias;
  uint32_t top_logprobs = 0;
  uint64_t seed = 0;
};

struct Sample {
  int32_t token = 0;
  float logprob = 0;
  bool finite = true;
  bool empty = false;
  std::vector<TokenValue> top;
};

Sample sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> history, size_t prompt_tokens,
              uint64_t position);
Sample describe(std::span<const float> logits, int32_t token, uint32_t top_logprobs);

double uniform_draw(uint64_t seed, uint64_t position);  // in [0, 1): SplitMix64's finalizer over both

}  // namespace kvrt
