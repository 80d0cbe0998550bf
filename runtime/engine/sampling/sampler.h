// Sampler: one row of logits -> a token. Pure: the result depends on the arguments alone, on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/compute/step.h"

namespace kvrt {

struct TokenValue {
  int32_t token = 0;
  float value = 0;
};

// Zero means off in every field. They apply in this order: mask, logit_bias, repetition, frequency and presence, temperature, top_k, top_p,
// min_p (as Hugging Face transformers).
struct SamplingOptions {
  float temperature = 0;                    // 0: greedy, after bias and penalties
  uint32_t top_k = 0;                       // the k best
  float top_p = 0;                          // the fewest best that have this share of the probability
  float min_p = 0;                          // those with at least this share of the best one's probability
  float repetition_penalty = 0;             // divides the positive logits of tokens seen in prompt or answer, multiplies the negative ones
  float frequency_penalty = 0;              // subtracted for every time that the answer has the token,
  float presence_penalty = 0;               // and once if it has it at all
  uint32_t penalty_window = 0;              // the penalties look at so many of the last tokens; 0: at all
  std::vector<TokenValue> logit_bias = {};  // added to the raw logits; -infinity bans a token
  uint32_t top_logprobs = 0;                // the count of alternatives to report
  uint64_t seed = 0;
};

struct Sample {
  int32_t token = 0;
  float logprob = 0;            // of the model's own distribution: no bias, penalty, temperature or truncation
  bool finite = true;           // false: the row has a NaN or an infinity, the rest means nothing
  bool empty = false;           // true: mask and logit_bias ban every token, the rest means nothing
  bool no_memory = false;       // true: there was no memory to choose a token, the rest means nothing
  std::vector<TokenValue> top;  // the top_logprobs most probable tokens of that distribution with their logprobs, best first
};

// `history`: the session's tokens so far; the first prompt_tokens were there when the generation began. Its tokens and those of
// logit_bias are within the row. Ties go to the lowest id, at every cut. The random number is a function of (seed, position), so a forked
// or regenerated answer differs only with another seed. mask: a bit per token, set if it may be taken; empty: all may.
Sample sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> history, size_t prompt_tokens,
              uint64_t position, std::span<const uint64_t> mask = {});

// The draw with which a device takes the same token as sample(), from a row of `vocab` logits alone. None if the options ask for more:
// bias, penalties, alternatives.
std::optional<Draw> device_draw(const SamplingOptions& options, size_t vocab, uint64_t position);

// Sets the logits of tokens whose bit is not set to -infinity.
void apply_mask(std::span<float> logits, std::span<const uint64_t> mask);

// The same report as sample()'s, for a token that was chosen elsewhere.
Sample describe(std::span<const float> logits, int32_t token, uint32_t top_logprobs);

double uniform_draw(uint64_t seed, uint64_t position);  // in [0, 1): SplitMix64's finalizer over both

}  // namespace kvrt
