#include "bindings/cli/eval/told.h"

#include <algorithm>
#include <cmath>

#include "bindings/cli/eval/numbers.h"

namespace cli::eval {

namespace {

constexpr double kSumOff = 1e-2;         // the most that the probabilities of a file's row may be off 1 together
constexpr double kLeastShare = 0x1p-10;  // the rest of a row has at least this share of the most that it may have: rounding may hide it

}  // namespace

Told told_of(std::span<const float> logits) {
  Told out;
  const double sum = log_sum_exp(logits);
  out.best = best_of(logits);
  for (const float x : logits) out.logs.push_back(static_cast<double>(x) - sum);
  return out;
}

Told told_near(std::span<const float> logits) {
  Told out = told_of(logits);
  const double least = out.logs[out.best] - kToldNats;
  for (double& log : out.logs) {
    if (log > least) continue;
    out.rest += exp_of(log);
    log = kRest;
  }
  return out;
}

bool told_of(float step, float least, std::span<const uint16_t> values, Told* out) {
  if (!std::isfinite(step) || !std::isfinite(least) || step < 0 || values.empty()) return false;
  *out = {};
  out->best = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  double sum = 0;
  uint64_t untold = 0;
  for (const uint16_t value : values) {
    const bool told = value > 0 || step == 0;  // without a step all are the same
    const double log = told ? static_cast<double>(least) + static_cast<double>(step) * value : kRest;
    if (told && log > kSumOff) return false;
    sum += told ? exp_of(log) : 0;
    untold += !told;
    out->logs.push_back(log);
  }
  // What is left of 1 has the error of all roundings: the rest has no more than `most`.
  const double most = static_cast<double>(untold) * exp_of(std::min(static_cast<double>(least), 0.0));
  if (!(sum <= 1 + kSumOff && sum + most >= 1 - kSumOff)) return false;
  out->rest = std::clamp(1 - sum, kLeastShare * most, most);
  const double all = log_of(sum + out->rest);
  for (double& log : out->logs) log -= log == kRest ? 0 : all;
  out->rest /= sum + out->rest;
  return true;
}

double divergence(const Told& base, const Told& other) {
  double sum = 0, its = base.rest, rest = other.rest;
  for (size_t i = 0; i < base.logs.size(); ++i) {
    const double p = base.logs[i], q = other.logs[i];
    if (p != kRest && q != kRest) {
      sum += exp_of(p) * (p - q);
      continue;
    }
    if (p != kRest) its += exp_of(p);
    if (q != kRest) rest += exp_of(q);
  }
  constexpr double kTiny = 1e-300;
  if (its > 0) sum += its * (log_of(std::max(its, kTiny)) - log_of(std::max(rest, kTiny)));
  return std::max(sum, 0.0);
}

}  // namespace cli::eval
