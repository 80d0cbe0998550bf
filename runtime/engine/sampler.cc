#include "runtime/engine/sampler.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kvrt {

namespace {

constexpr size_t kLanes = 16;
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // Cephes' split of ln 2

// e^x for x <= 0 within 2 ulp; 0 below -64. Branch-free, so that the loops over a vocabulary vectorize.
inline float exp_negative(float x) {
  float clamped = x < -64.0f ? -64.0f : x;
  float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer in the low mantissa bits
  float n = shifted - 12582912.0f;
  float r = clamped - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4f;  // Cephes expf, degree 5
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -64.0f ? 0.0f : p * scale;
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

struct RowStats {
  float max = 0;
  bool finite = true;
};

RowStats row_stats(std::span<const float> logits) {
  float lane_max[kLanes], lane_bad[kLanes];
  for (size_t l = 0; l < kLanes; ++l) lane_max[l] = logits[0], lane_bad[l] = 0;
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      float v = logits[i + l];
      lane_max[l] = v > lane_max[l] ? v : lane_max[l];
      lane_bad[l] += v - v;  // NaN once a value is NaN or infinite
    }
  }
  for (; i < logits.size(); ++i) {
    lane_max[0] = std::max(lane_max[0], logits[i]);
    lane_bad[0] += logits[i] - logits[i];
  }
  RowStats stats{*std::max_element(lane_max, lane_max + kLanes), true};
  for (float bad : lane_bad) stats.finite &= bad == 0;
  return stats;
}

float log_sum_exp_above(std::span<const float> logits, float max) {  // ln(sum e^(x - max)), >= 0
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += exp_negative(logits[i + l] - max);
  }
  double sum = 0;
  for (; i < logits.size(); ++i) sum += exp_negative(logits[i] - max);
  for (float lane : lanes) sum += lane;
  return static_cast<float>(log_above_one(sum));
}

int32_t first_at(std::span<const float> logits, float max) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

// Draws from softmax(logits / temperature) cut to top_k and top_p.
int32_t draw(std::span<const float> logits, float max, const SamplingOptions& o, uint64_t position) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto better = [&](int32_t a, int32_t b) {
    float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  size_t keep = o.top_k && o.top_k < order.size() ? o.top_k : order.size();
  if (keep < order.size()) std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(keep), order.end(), better);
  order.resize(keep);
  std::sort(order.begin(), order.end(), better);
  std::vector<double> weights(keep);
  double sum = 0;
  for (size_t i = 0; i < keep; ++i) {
    weights[i] = exp_negative((logits[static_cast<size_t>(order[i])] - max) / o.temperature);
    sum += weights[i];
  }
  if (o.top_p > 0 && o.top_p < 1) {
    double target = o.top_p * sum, reached = 0;
    for (size_t i = 0; i < keep; ++i) {
      reached += weights[i];
      if (reached >= target) {
        keep = i + 1;
        sum = reached;
        break;
      }
    }
  }
  double left = uniform_draw(o.seed, position) * sum;
  for (size_t i = 0; i < keep; ++i) {
    if ((left -= weights[i]) < 0) return order[i];
  }
  return order[keep - 1];  // rounding left a crumb
}

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

double uniform_draw(uint64_t seed, uint64_t position) {
  uint64_t bits = mix(mix(seed + 0x9e3779b97f4a7c15ull) ^ mix(position * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Sample describe(std::span<const float> logits, int32_t token, uint32_t) {
  RowStats stats = row_stats(logits);
  Sample result;
  result.finite = stats.finite;
  result.token = token;
  result.logprob = logits[static_cast<size_t>(token)] - stats.max - log_sum_exp_above(logits, stats.max);
  return result;
}

Sample sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t>, size_t, uint64_t position) {
  RowStats stats = row_stats(logits);
  Sample result;
  result.finite = stats.finite;
  if (!stats.finite) return result;
  result.token = options.temperature > 0 ? draw(logits, stats.max, options, position) : first_at(logits, stats.max);
  result.logprob = logits[static_cast<size_t>(result.token)] - stats.max - log_sum_exp_above(logits, stats.max);
  return result;
}

}  // namespace kvrt
