#include "runtime/engine/step/pace.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr double kFirstCost = 16;  // rows of the first step, when no speed is known
constexpr double kGrowth = 8;      // a step is at most so many times the largest one whose time was as predicted
constexpr double kAim = 0.9;       // a plan fills this share of a step's time
// The scale of each part: so many decodes, or so much prompt, are assumed to cost as much as a step's fixed part until a step was measured.
constexpr double kDecodesScale = 4, kCostScale = 8;
constexpr double kLearn = 0.4;  // of the difference between a step's time and its prediction
// A step that took more than kClip times the prediction, in CPU or wall time, counts as that; below kAsPredicted times it was as predicted.
constexpr double kClip = 4, kAsPredicted = 2;
// Wall time over work: its mean over the first kStretchNs of work; later each step weighs by its work against kStretchNs of older work.
constexpr double kStretchNs = 200e6, kStretchMax = 32;
// Sessions that decode wait for a prompt at most kPromptPerDecode times their own step, or kPromptNsMin if that is longer: 20 ms are not
// seen. If a step without any prompt is slow already, a prompt still gets kPromptMin times that step.
constexpr double kPromptPerDecode = 1.5, kPromptNsMin = 20e6, kPromptMin = 0.5;
// The fewest prompt rows of a step without decodes, and of one that may take kLoneStepMs; both as far as kLoneStepMs of work allow.
constexpr uint64_t kRowsMin = 32, kRowsMinAlone = 64;
constexpr double kNsPerMs = 1e6;
}  // namespace

Pace::Pace(uint32_t step_ms_max, uint64_t context_cost) : step_ns_max_(uint64_t{step_ms_max} * 1'000'000), context_cost_(context_cost) {}

Pace::Parts Pace::scaled(uint32_t decodes, double cost) { return {1, decodes / kDecodesScale, cost / kCostScale}; }

double Pace::predicted(const Parts& scaled) const { return std::inner_product(scaled.begin(), scaled.end(), scaled_ns_.begin(), 0.0); }

double Pace::row_ns() const { return scaled_ns_[2] / kCostScale; }

// The wall time that a step may take.
double Pace::step_ns(const Ask& ask) const {
  if (step_ns_max_) return static_cast<double>(step_ns_max_);
  if (!ask.alone) return kStepMsDefault * kNsPerMs;
  return std::clamp(static_cast<double>(ask.patience_ns), kStepMsDefault * kNsPerMs, kLoneStepMs * kNsPerMs);
}

double Pace::budget(const Ask& ask) const {
  if (row_ns() == 0) return kFirstCost;
  const double base = predicted(scaled(ask.decodes, 0)), limit = step_ns(ask), lone = kLoneStepMs * kNsPerMs;
  double left = std::max(kAim * limit / stretch_ - base, kPromptMin * base);
  if (ask.decodes > 0) left = std::min(left, std::max(kPromptPerDecode * base, kPromptNsMin / stretch_));
  double cost = left / row_ns();
  if (ask.decodes == 0 && step_ns_max_ == 0) {
    const uint64_t rows = limit < lone ? kRowsMin : kRowsMinAlone;
    cost = std::max(cost, std::min((kAim * lone - base) / row_ns(), this->cost(ask.begin, ask.begin + rows)));
  }
  return std::clamp(cost, 1.0, std::max(kFirstCost, kGrowth * most_));
}

double Pace::cost(uint64_t begin, uint64_t end) const {
  auto rows = static_cast<double>(end - begin), mean = static_cast<double>(begin) + rows / 2;
  return rows * (1 + mean / static_cast<double>(context_cost_));
}

uint64_t Pace::rows(uint64_t begin, double budget) const {
  // The n of cost(begin, begin + n) = budget: a quadratic's root. A budget of exactly the cost of n rows gives n.
  const auto context = static_cast<double>(context_cost_);
  const double first = 1 + static_cast<double>(begin) / context;
  const double rows = 2 * budget / (first + std::sqrt(first * first + 2 * budget / context));
  return std::max<uint64_t>(1, static_cast<uint64_t>(rows + 1e-6));
}

// Normalized least mean squares: the parts move by the least that explains kLearn of the difference. So a small step corrects the fixed
// part, a large one the prompt's, and steps that are all alike leave parts that they do not involve. With every step, whatever the steps
// are, the prediction comes nearer to the measurement, and the parts get no further from the true ones.
void Pace::measured(uint32_t decodes, double cost, uint64_t work_ns, uint64_t wall_ns) {
  const double wall = std::max(1.0, static_cast<double>(wall_ns));
  const double work = std::clamp(static_cast<double>(work_ns), wall / kStretchMax, wall);  // a clock may be coarse
  const Parts x = scaled(decodes, cost);
  const double square = std::inner_product(x.begin(), x.end(), x.begin(), 0.0), told = predicted(x);
  if (told == 0) {
    scaled_ns_.fill(work / std::accumulate(x.begin(), x.end(), 0.0));
  } else {
    const double step = kLearn * (std::min(work, kClip * told) - told) / square;
    for (size_t i = 0; i < x.size(); ++i) scaled_ns_[i] = std::max(1.0, scaled_ns_[i] + step * x[i]);
  }
  stretch_ += (std::min(wall / work, kClip * stretch_) - stretch_) * work / (work + seen_ns_);
  seen_ns_ = std::min(seen_ns_ + work, kStretchNs);
  if (told == 0 || work < kAsPredicted * told) most_ = std::max(most_, cost);
}

}  // namespace kvrt
