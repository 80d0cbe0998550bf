#include "runtime/engine/step/step_costs.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr double kRowShare = 0.2;    // of a step of one row, that a row more is thought to cost before it was measured: so it is tried
constexpr double kLearnCost = 0.25;  // of the difference between a step and what was known
constexpr double kCostClip = 1.5;    // a step counts as so many times what was known at most
constexpr double kDrift = 0.05;      // of that difference, for steps of other rows: the machine or the context changed
constexpr double kForget = 0.999;    // what was long not measured is thought cheaper, until it is tried again
}  // namespace

double StepCosts::of(uint32_t rows) const {
  rows = std::clamp(rows, 1u, kRowsMax);
  if (ns_[rows] > 0) return ns_[rows];
  uint32_t below = rows, above = rows;
  while (below > 0 && ns_[below] == 0) --below;
  while (above <= kRowsMax && ns_[above] == 0) ++above;
  const auto guess = [](uint32_t n) { return 1 + kRowShare * (n - 1); };
  if (below == 0 && above > kRowsMax) return 0;
  if (below == 0) return ns_[above] * guess(rows) / guess(above);
  if (above > kRowsMax) return ns_[below] * guess(rows) / guess(below);
  return ns_[below] + (ns_[above] - ns_[below]) * (rows - below) / (above - below);
}

void StepCosts::measured(uint32_t rows, uint64_t work_ns) {
  if (rows == 0 || rows > kRowsMax) return;
  const double known = of(rows);
  const auto work = static_cast<double>(work_ns);
  if (known == 0) {
    ns_[rows] = work;
    return;
  }
  const bool first = ns_[rows] == 0;
  const double taken = first ? work : std::clamp(work, known / kCostClip, known * kCostClip), off = taken / known - 1;
  for (double& ns : ns_) ns *= (1 + std::clamp(off, -kDrift, kDrift) * kDrift) * kForget;
  ns_[rows] = first ? taken : known + kLearnCost * (taken - known);
}

}  // namespace kvrt
