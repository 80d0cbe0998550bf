// Draws of the sampler, for tests/golden/sampler_distribution.py.
// usage: sampler_dump < cases > tokens     a case is a Case and its arrays, in order; an answer is one i32 per draw
#include <cstdint>
#include <cstdio>
#include <vector>

#include "runtime/engine/sampling/sampler.h"

using namespace kvrt;

struct Case {
  uint64_t seed, first_position;
  float temperature, top_p, min_p, repetition, frequency, presence;
  uint32_t top_k, window;
  uint32_t draws, logits, biases, history, prompt, reserved;
};

template <class T>
static bool read_array(uint32_t count, std::vector<T>* out) {
  out->resize(count);
  return fread(out->data(), sizeof(T), count, stdin) == count;
}

int main() {
  Case c;
  while (fread(&c, sizeof c, 1, stdin) == 1) {
    SamplingOptions o;
    o.seed = c.seed, o.temperature = c.temperature, o.top_k = c.top_k, o.top_p = c.top_p, o.min_p = c.min_p;
    o.repetition_penalty = c.repetition, o.frequency_penalty = c.frequency, o.presence_penalty = c.presence, o.penalty_window = c.window;
    std::vector<float> logits;
    std::vector<int32_t> history, tokens;
    if (!read_array(c.logits, &logits) || !read_array(c.biases, &o.logit_bias) || !read_array(c.history, &history)) {
      return fprintf(stderr, "input ends within a case\n"), 1;
    }
    for (uint64_t p = c.first_position; p < c.first_position + c.draws; ++p) {
      tokens.push_back(sample(logits, o, history, c.prompt, p).token);
    }
    fwrite(tokens.data(), sizeof(int32_t), tokens.size(), stdout);
  }
}
