#include "runtime/engine/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstring>
#include <limits>
#include <utility>

namespace kvrt {

namespace {

// Vectors of 16 bytes, which every compiler has, and which give the same bits on every machine.
typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(32)));
typedef uint64_t Longs __attribute__((vector_size(32)));

// 2^x for x <= 0 within 2 ulp; 0 below -63. A minimax polynomial on [-1/2, 1/2], its exponent field raised by the integer part.
inline Floats exp2_negative(Floats x) {
  Floats shifted = x + 12582912.0f;  // 1.5 * 2^23: rounds to an integer in the low mantissa bits
  Floats f = x - (shifted - 12582912.0f);
  Floats p = f * 1.53533620e-4f + 1.33988739e-3f;
  p = p * f + 9.61843692e-3f;
  p = p * f + 5.55033237e-2f;
  p = p * f + 2.40226477e-1f;
  p = p * f + 6.93147182e-1f;
  p = p * f + 1.0f;
  Bits bits = std::bit_cast<Bits>(p) + (std::bit_cast<Bits>(shifted) << 23);
  return std::bit_cast<Floats>(bits & std::bit_cast<Bits>(x >= -63.0f));
}

// ln x for x >= 1: atanh series after the exponent is taken out. Double, as one is needed per token.
double log_above_one(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  double z = (m - 1.0) / (m + 1.0), z2 = z * z, term = z, sum = 0;
  for (int k = 1; k < 60; k += 2) {
    sum += term / k;
    term *= z2;
  }
  return exponent * 0.6931471805599453 + 2.0 * sum;
}

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

struct RowStats {
  float max = 0;
  bool finite = true;
};

RowStats row_stats(std::span<const float> logits) {
  Floats max = Floats{} + logits[0], bad{};
  auto take = [&](Floats v) {
    max = v > max ? v : max;
    bad += v - v;  // NaN once a value is NaN or infinite
  };
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) take(load(&logits[i]));
  for (; i < logits.size(); ++i) take(Floats{} + logits[i]);
  RowStats stats{max[0], true};
  for (size_t l = 0; l < 4; ++l) {
    stats.max = std::max(stats.max, max[l]);
    stats.finite &= bad[l] == 0;
  }
  return stats;
}

int32_t first_at(std::span<const float> logits, float max) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

// ---- bias and penalties

// Calls fn(token, count) once for each distinct token of the text, in the order of their first appearance.
template <class F>
void for_each_distinct(std::span<const int32_t> text, size_t vocab, F fn) {
  std::vector<uint32_t> count(vocab);
  for (int32_t token : text) ++count[static_cast<size_t>(token)];
  for (int32_t token : text) {
    if (uint32_t times = std::exchange(count[static_cast<size_t>(token)], 0)) fn(static_cast<size_t>(token), times);
  }
}

bool adjusts(const SamplingOptions& o) {
  bool repetition = o.repetition_penalty != 0 && o.repetition_penalty != 1;
  return !o.logit_bias.empty() || repetition || o.frequency_penalty != 0 || o.presence_penalty != 0;
}

// A logit may become -infinity, which bans its token, but never +infinity or NaN.
void adjust(std::span<float> logits, const SamplingOptions& o, std::span<const int32_t> history, size_t prompt_tokens) {
  for (const TokenValue& bias : o.logit_bias) {
    float& x = logits[static_cast<size_t>(bias.token)];
    x = std::min(x + bias.value, FLT_MAX);
  }
  size_t from = o.penalty_window && o.penalty_window < history.size() ? history.size() - o.penalty_window : 0;
  if (o.repetition_penalty != 0 && o.repetition_penalty != 1) {
    for_each_distinct(history.subspan(from), logits.size(), [&](size_t token, uint32_t) {
      float& x = logits[token];
      x = x > 0 ? std::min(x / o.repetition_penalty, FLT_MAX) : x * o.repetition_penalty;
    });
  }
  if (o.frequency_penalty != 0 || o.presence_penalty != 0) {
    for_each_distinct(
        history.subspan(std::max(from, std::min(prompt_tokens, history.size()))), logits.size(),
        [&](size_t token, uint32_t times) { logits[token] -= o.frequency_penalty * static_cast<float>(times) + o.presence_penalty; });
  }
}

// ---- weights
//
// The weight of a token is e^((logit - max) / temperature) in units of 2^-k, rounded to an integer. k is such that the sum of a row fits in
// 53 bits: 37 for 49,152 tokens, so that a token 10^11 times less probable than the best weighs nothing. A sum of integers is the same in
// any order.

struct Weigher {
  float max, scale;  // log2(weight) = (logit - max) * scale
  double rounder;    // 1.5 * 2^(52 - k): adding it leaves the weight in the low bits of the sum

  Weigher(float max_logit, float temperature, size_t vocab)
      : max(max_logit),
        scale(static_cast<float>(std::min(1.4426950408889634 / temperature, static_cast<double>(FLT_MAX)))),
        rounder(1.5 * static_cast<double>(std::bit_floor(std::max<size_t>(vocab, 2)))) {}

  Floats scaled(Floats logits) const { return (logits - max) * scale; }
  float scaled(float logit) const { return (logit - max) * scale; }
  uint64_t weight(float logit) const {
    double sum = exp2_negative(Floats{} + scaled(logit))[0] + rounder;
    return std::bit_cast<uint64_t>(sum) - std::bit_cast<uint64_t>(rounder);
  }
};

constexpr float kDepths[] = {7, 11, 16, 24, 36, 54, std::numeric_limits<float>::infinity()};  // 2^-54 weighs nothing in any vocabulary

uint64_t total_weight(std::span<const float> logits, Weigher weigher) {
  const Doubles rounder = Doubles{} + weigher.rounder;
  Longs sums{};  // with the bits of the rounder in every term
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) {
    Doubles with = __builtin_convertvector(exp2_negative(weigher.scaled(load(&logits[i]))), Doubles) + rounder;
    sums += __builtin_bit_cast(Longs, with);
  }
  uint64_t total = sums[0] + sums[1] + sums[2] + sums[3] - i * std::bit_cast<uint64_t>(weigher.rounder);
  for (; i < logits.size(); ++i) total += weigher.weight(logits[i]);
  return total;
}

struct Candidate {
  float logit;
  int32_t token;
  uint64_t weight;
};

bool better(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; }

double sum_of(std::span<const Candidate> candidates) {
  uint64_t sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return static_cast<double>(sum);
}

// All tokens with a scaled logit of at least -depth.
void gather(std::span<const float> logits, Weigher weigher, float depth, std::vector<Candidate>* out) {
  constexpr size_t kGroup = 16;
  out->clear();
  out->reserve(logits.size());
  for (size_t i = 0; i < logits.size(); i += kGroup) {
    size_t end = std::min(i + kGroup, logits.size());
    if (i + kGroup == end) {
      Bits some{};
      for (size_t k = i; k < end; k += 4) some |= std::bit_cast<Bits>(weigher.scaled(load(&logits[k])) >= -depth);
      auto halves = std::bit_cast<std::array<uint64_t, 2>>(some);
      if ((halves[0] | halves[1]) == 0) continue;
    }
    for (size_t k = i; k < end; ++k) {
      if (weigher.scaled(logits[k]) >= -depth) out->push_back({logits[k], static_cast<int32_t>(k), weigher.weight(logits[k])});
    }
  }
}

// ---- the draw
//
// The definition: the tokens are ordered by logit, ties by id; top_k, top_p and min_p each keep a prefix of that order; among the rest the
// first token is drawn at which the running sum of the weights exceeds uniform_draw times their total. Sorting a vocabulary for every
// token would cost milliseconds. It is not needed; the code below finds the same token:
// * As sums are exact, the place where the running sum reaches a value can be found by partitions (best_weighing) in place of sorting.
// * (logit - max) * scale is monotone in the logit, so the tokens with at least -depth are a prefix of the order too. A cut or a draw that
//   falls within such a prefix is the same as in the whole vocabulary: few tokens have to be looked at one by one.

void keep_best(std::vector<Candidate>* candidates, size_t count) {
  if (count >= candidates->size()) return;
  std::nth_element(candidates->begin(), candidates->begin() + static_cast<ptrdiff_t>(count), candidates->end(), better);
  candidates->resize(count);
}

// The count of the best that together weigh `need`, or of all. Reorders: these come first, the last of them at the end. Quickselect by
// weight; the partition has no branch to mispredict, and no order of the input is bad for its pivots.
size_t best_weighing(std::span<Candidate> candidates, double need) {
  size_t from = 0, to = candidates.size();  // the answer is in (from, to]; those before `from` are better than the rest
  uint64_t reached = 0;
  while (from < to) {
    Candidate& last = candidates[to - 1];
    std::swap(candidates[from + mix(to - from) % (to - from)], last);
    const Candidate pivot = last;
    size_t middle = from;
    uint64_t with = reached;
    for (size_t i = from; i + 1 < to; ++i) {
      const Candidate c = candidates[i];
      const bool up = (c.logit > pivot.logit) | ((c.logit == pivot.logit) & (c.token < pivot.token));
      candidates[i] = candidates[middle];
      candidates[middle] = c;
      middle += up;
      with += up ? c.weight : 0;
    }
    std::swap(candidates[middle], last);
    if (static_cast<double>(with) >= need) {
      to = middle;
    } else if (static_cast<double>(with + pivot.weight) >= need) {
      return middle + 1;
    } else {
      reached = with + pivot.weight;
      from = middle + 1;
    }
  }
  return to;
}

// log2(min_p): the least scaled logit that min_p keeps.
double lowest_scaled(const SamplingOptions& o) {
  return o.min_p > 0 ? -1.4426950408889634 * log_above_one(1.0 / o.min_p) : -std::numeric_limits<double>::infinity();
}

int32_t draw(std::span<const float> logits, float max, const SamplingOptions& o, uint64_t position) {
  const Weigher weigher(max, o.temperature, logits.size());
  const double chance = uniform_draw(o.seed, position);
  const auto exceeding = [](double x) { return static_cast<double>(static_cast<uint64_t>(x) + 1); };  // the least integer above x
  const bool top_k = o.top_k != 0 && o.top_k < logits.size();
  const bool top_p = o.top_p > 0 && o.top_p < 1;
  const bool min_p = o.min_p > 0;
  const double lowest = lowest_scaled(o);
  double total = top_k ? 0 : static_cast<double>(total_weight(logits, weigher));
  const double need = top_p ? o.top_p * total : min_p ? total : exceeding(chance * total);
  std::vector<Candidate> candidates;
  for (float depth : kDepths) {
    gather(logits, weigher, depth, &candidates);
    if (top_k ? candidates.size() >= o.top_k : sum_of(candidates) >= need || (min_p && lowest >= -depth)) break;
  }
  if (top_k) {
    keep_best(&candidates, o.top_k);
    total = sum_of(candidates);
  }
  if (top_p) candidates.resize(best_weighing(candidates, o.top_p * total));
  if (min_p) std::erase_if(candidates, [&](const Candidate& c) { return weigher.scaled(c.logit) < lowest; });
  if (top_p || min_p) total = sum_of(candidates);
  return candidates[best_weighing(candidates, exceeding(chance * total)) - 1].token;
}

// ---- the report

Sample report(std::span<const float> logits, float max, int32_t token, uint32_t top_logprobs) {
  const Weigher weigher(max, 1, logits.size());
  const auto log_sum =
      static_cast<float>(log_above_one(static_cast<double>(total_weight(logits, weigher)) / static_cast<double>(weigher.weight(max))));
  Sample result;
  result.token = token;
  result.logprob = logits[static_cast<size_t>(token)] - max - log_sum;
  const size_t count = std::min<size_t>(top_logprobs, logits.size());
  if (count == 0) return result;
  std::vector<Candidate> candidates;
  for (float depth : kDepths) {
    gather(logits, weigher, depth, &candidates);
    if (candidates.size() >= count) break;
  }
  keep_best(&candidates, count);
  std::sort(candidates.begin(), candidates.end(), better);
  for (const Candidate& c : candidates) result.top.push_back({c.token, c.logit - max - log_sum});
  return result;
}

Sample not_finite() {
  Sample result;
  result.finite = false;
  return result;
}

}  // namespace

double uniform_draw(uint64_t seed, uint64_t position) {
  uint64_t bits = mix(mix(seed + 0x9e3779b97f4a7c15ull) ^ mix(position * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void apply_mask(std::span<float> logits, std::span<const uint64_t> mask) {
  for (size_t i = 0; i < logits.size(); i += 64) {
    uint64_t banned = ~mask[i / 64];
    if (logits.size() - i < 64) banned &= (uint64_t{1} << (logits.size() - i)) - 1;
    for (; banned; banned &= banned - 1)
      logits[i + static_cast<size_t>(std::countr_zero(banned))] = -std::numeric_limits<float>::infinity();
  }
}

std::optional<Draw> device_draw(const SamplingOptions& o, size_t vocab, uint64_t position) {
  if (o.top_logprobs != 0 || adjusts(o)) return std::nullopt;
  Draw draw;
  if (o.temperature <= 0) return draw;
  const Weigher weigher(0, o.temperature, vocab);
  draw.scale = weigher.scale;
  draw.ones = static_cast<float>(weigher.weight(0));
  draw.top_k = o.top_k < vocab ? o.top_k : 0;
  draw.top_p = o.top_p > 0 && o.top_p < 1 ? o.top_p : 0;
  draw.lowest = lowest_scaled(o);
  draw.chance = uniform_draw(o.seed, position);
  return draw;
}

Sample sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> history, size_t prompt_tokens,
              uint64_t position, std::span<const uint64_t> mask) {
  const RowStats raw = row_stats(logits);
  if (!raw.finite) return not_finite();
  std::span<const float> row = logits;
  float max = raw.max;
  std::vector<float> adjusted;
  if (adjusts(options) || !mask.empty()) {
    adjusted.assign(logits.begin(), logits.end());
    if (!mask.empty()) apply_mask(adjusted, mask);
    adjust(adjusted, options, history, prompt_tokens);
    row = adjusted;
    max = row_stats(row).max;
    if (max == -std::numeric_limits<float>::infinity()) {
      Sample result;
      result.empty = true;
      return result;
    }
  }
  int32_t token = options.temperature > 0 ? draw(row, max, options, position) : first_at(row, max);
  return report(logits, raw.max, token, options.top_logprobs);
}

Sample describe(std::span<const float> logits, int32_t token, uint32_t top_logprobs) {
  const RowStats raw = row_stats(logits);
  return raw.finite ? report(logits, raw.max, token, top_logprobs) : not_finite();
}

}  // namespace kvrt
