// Tokens that a device draws: the largest logit against the standard library, every other draw against the host's sampler, to the token.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/engine/sampling/sampler.h"
#include "tests/cuda/device_memory.h"

namespace kvrt::test {
namespace {

std::vector<DrawnToken> draw_rows(const std::vector<float>& logits, uint32_t vocab, const std::vector<Draw>& draws = {}) {
  TestStream stream;
  const auto rows = static_cast<uint32_t>(logits.size() / vocab);
  const DeviceArray<float> on_device(logits);
  const DeviceArray<Draw> asked(draws);
  const DeviceArray<DrawnToken> out(rows);
  cuda::draw_rows(stream, on_device.get(), rows, vocab, draws.empty() ? nullptr : asked.get(), out.get());
  return out.to_host();
}

TEST(Draw, LargestLowestAndDenominator) {
  Random random(7);
  for (const uint32_t vocab : {1u, 5u, 1000u, 4096u, 49152u, 70001u}) {
    for (const float size : {0.01f, 8.0f}) {
      std::vector<float> logits = random.floats(3 * vocab, size);
      for (uint32_t i = 0; i < 4; ++i) logits[vocab + random.below(vocab)] = 5 * size;  // one of several
      if (size > 1) std::fill_n(logits.begin() + 2 * vocab, vocab, -1e30f);             // all the same, and far below
      const std::vector<DrawnToken> got = draw_rows(logits, vocab);
      for (uint32_t r = 0; r < 3; ++r) {
        const auto begin = logits.begin() + r * vocab, largest = std::max_element(begin, begin + vocab);
        double sum = 0;
        for (auto at = begin; at < begin + vocab; ++at) sum += std::exp(double{*at} - double{*largest});
        EXPECT_EQ(got[r].finite, 1u);
        EXPECT_EQ(got[r].token, largest - begin) << vocab << " row " << r;
        EXPECT_NEAR(got[r].logprob, -std::log(sum), 1e-6 + std::log(sum) * 0x1p-23) << vocab << " row " << r;
      }
      const std::vector<float> alone(logits.begin() + vocab, logits.begin() + 2 * vocab);
      EXPECT_EQ(std::memcmp(&got[1], draw_rows(alone, vocab).data(), sizeof(DrawnToken)), 0);
    }
  }
}

TEST(Draw, SaysWhatIsNotFinite) {
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    for (const uint32_t at : {0u, 777u, 4999u}) {
      std::vector<float> logits = Random(8).floats(2 * 5000);
      logits[at] = odd;
      const std::vector<Draw> draws(2, *device_draw({.temperature = 1, .top_p = 0.5f}, 5000, 3));
      for (const std::vector<DrawnToken>& got : {draw_rows(logits, 5000), draw_rows(logits, 5000, draws)}) {
        EXPECT_EQ(got[0].finite, 0u) << odd << " at " << at;
        EXPECT_EQ(got[1].finite, 1u);
      }
    }
  }
}

// Rows of every kind: peaked as a model's, flat, of few different logits (ties at every cut), of both zeros, with tokens of no weight, and
// with differences beyond any float.
std::vector<float> row_of(uint32_t kind, uint32_t vocab, Random* random) {
  std::vector<float> row = random->floats(vocab, kind == 0 ? 4.0f : 0.5f);
  for (float& x : row) {
    if (kind == 1) x = 1.5f;
    if (kind == 2) x = std::round(4 * x) / 4;
    if (kind == 3) x = random->below(2) != 0 ? 0.0f : -0.0f;
    if (kind == 4 && random->below(8) != 0) x = -1e30f;
    if (kind == 5 && random->below(2) != 0) x = random->below(2) != 0 ? 3e38f : -3e38f;
  }
  return row;
}

TEST(Draw, TheVeryTokenOfTheHostsSampler) {
  Random random(9);
  const auto one_of = [&random](std::initializer_list<float> values) {
    return *(values.begin() + random.below(static_cast<uint32_t>(values.size())));
  };
  uint32_t others = 0;
  for (const uint32_t vocab : {1u, 2u, 5u, 300u, 1025u, 32000u, 70001u}) {
    for (uint32_t kind = 0; kind < 6; ++kind) {
      constexpr uint32_t kRows = 12;
      std::vector<float> logits;
      std::vector<Draw> draws;
      std::vector<SamplingOptions> options;
      for (uint32_t r = 0; r < kRows; ++r) {
        const std::vector<float> row = row_of(kind, vocab, &random);
        logits.insert(logits.end(), row.begin(), row.end());
        SamplingOptions o;
        o.temperature = one_of({0, 0.01f, 0.5f, 0.8f, 1, 3, 100});
        o.top_k = static_cast<uint32_t>(one_of({0, 0, 1, 5, 40, 3000, 70001}));
        o.top_p = one_of({0, 0, 0.001f, 0.5f, 0.95f, 0.9999f, 1});
        o.min_p = one_of({0, 0, 0.0001f, 0.05f, 0.5f, 1});
        o.seed = random.below(1u << 30);
        options.push_back(o);
        draws.push_back(*device_draw(o, vocab, r));
      }
      const std::vector<DrawnToken> got = draw_rows(logits, vocab, draws);
      for (uint32_t r = 0; r < kRows; ++r) {
        const SamplingOptions& o = options[r];
        const std::span<const float> row(logits.data() + uint64_t{r} * vocab, vocab);
        const Sample want = sample(row, o, {}, 0, r);
        EXPECT_EQ(got[r].token, want.token) << vocab << " kind " << kind << " row " << r << ": temperature " << o.temperature << ", top_k "
                                            << o.top_k << ", top_p " << o.top_p << ", min_p " << o.min_p;
        EXPECT_NEAR(got[r].logprob, want.logprob, 1e-6 + 1e-6 * std::fabs(want.logprob));
        others += want.token != draw_rows({row.begin(), row.end()}, vocab)[0].token;
      }
    }
  }
  EXPECT_GT(others, 100u);  // these are draws, not the largest
}

TEST(Draw, LeavesToTheHostWhatNeedsMoreThanTheRow) {
  EXPECT_TRUE(device_draw({}, 100, 0));
  EXPECT_TRUE(device_draw({.temperature = 1, .top_k = 5, .repetition_penalty = 1}, 100, 0));
  EXPECT_FALSE(device_draw({.repetition_penalty = 1.1f}, 100, 0));
  EXPECT_FALSE(device_draw({.temperature = 1, .presence_penalty = 0.5f}, 100, 0));
  EXPECT_FALSE(device_draw({.temperature = 1, .logit_bias = {{3, 1.0f}}}, 100, 0));
  EXPECT_FALSE(device_draw({.top_logprobs = 2}, 100, 0));
}

}  // namespace
}  // namespace kvrt::test
