#include "runtime/engine/loop/pace.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr double kFirstCost = 16;  // rows of a first step, whose speed nobody knows
constexpr double kGrowth = 8;      // a step is at most so many times the largest one that went as predicted
constexpr double kAim = 0.9;       // of a step's time
// A unit of each part is what a step's fixed part is thought to cost before anything was measured: so many decodes, so much prompt.
constexpr double kUnitDecodes = 4, kUnitCost = 8;
constexpr double kLearn = 0.4;  // of what a step took longer or shorter than predicted
// One that took so many times as long, of CPU time or of the wall's, counts as that, and one below the second went as predicted.
constexpr double kClip = 4, kAsPredicted = 2;
// The wall's time over work: of the first so much work its mean, then what so much work takes counts as much as all before it.
constexpr double kStretchNs = 200e6, kStretchMax = 32;
// Sessions that decode wait for a prompt so many times their own step, or so long where that is longer: nobody sees 20 ms. Where a step
// without any prompt takes its time, a prompt still gets its part of that.
constexpr double kPromptPerDecode = 1.5, kPromptNsMin = 20e6, kPromptMin = 0.5;
// Where nobody decodes, and where nobody waits, as far as a prompt alone may take so much work.
constexpr uint64_t kRowsMin = 32, kRowsMinAlone = 64;
constexpr double kNsPerMs = 1e6;
}  // namespace

Pace::Pace(uint32_t step_ms_max, uint64_t context_cost) : step_ns_max_(uint64_t{step_ms_max} * 1'000'000), context_cost_(context_cost) {}

Pace::Parts Pace::units(uint32_t decodes, double cost) { return {1, decodes / kUnitDecodes, cost / kUnitCost}; }

double Pace::predicted(const Parts& units) const { return std::inner_product(units.begin(), units.end(), unit_ns_.begin(), 0.0); }

double Pace::row_ns() const { return unit_ns_[2] / kUnitCost; }

// The wall's time that a step may take.
double Pace::step_ns(const Ask& ask) const {
  if (step_ns_max_) return static_cast<double>(step_ns_max_);
  if (!ask.alone) return kStepMsDefault * kNsPerMs;
  return std::clamp(static_cast<double>(ask.patience_ns), kStepMsDefault * kNsPerMs, kLoneStepMs * kNsPerMs);
}

double Pace::budget(const Ask& ask) const {
  if (row_ns() == 0) return kFirstCost;
  const double base = predicted(units(ask.decodes, 0)), limit = step_ns(ask), lone = kLoneStepMs * kNsPerMs;
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
  // The n of cost(begin, begin + n) = budget: a quadratic's root. What cost says n rows take are n.
  const auto context = static_cast<double>(context_cost_);
  const double first = 1 + static_cast<double>(begin) / context;
  const double rows = 2 * budget / (first + std::sqrt(first * first + 2 * budget / context));
  return std::max<uint64_t>(1, static_cast<uint64_t>(rows + 1e-6));
}

// Normalized least mean squares: the parts move the least that explains kLearn of the difference, so that a small step tells of the fixed
// part and a large one of the prompt's, and steps that are all alike leave what they say nothing of. What is predicted comes nearer to
// what is measured with every step, whatever the steps are; the parts come no further from the true ones.
void Pace::measured(uint32_t decodes, double cost, uint64_t work_ns, uint64_t wall_ns) {
  const double wall = std::max(1.0, static_cast<double>(wall_ns));
  const double work = std::clamp(static_cast<double>(work_ns), wall / kStretchMax, wall);  // a clock may be coarse
  const Parts x = units(decodes, cost);
  const double square = std::inner_product(x.begin(), x.end(), x.begin(), 0.0), told = predicted(x);
  if (told == 0) {
    unit_ns_.fill(work / std::accumulate(x.begin(), x.end(), 0.0));
  } else {
    const double step = kLearn * (std::min(work, kClip * told) - told) / square;
    for (size_t i = 0; i < x.size(); ++i) unit_ns_[i] = std::max(1.0, unit_ns_[i] + step * x[i]);
  }
  stretch_ += (std::min(wall / work, kClip * stretch_) - stretch_) * work / (work + seen_ns_);
  seen_ns_ = std::min(seen_ns_ + work, kStretchNs);
  if (told == 0 || work < kAsPredicted * told) most_ = std::max(most_, cost);
}

}  // namespace kvrt
