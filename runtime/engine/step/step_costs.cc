#include "runtime/engine/step/step_costs.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr double kFewShare = 0.08, kManyShare = 0.2;  // of a step of one row, that a row is thought to cost beside few and many others
constexpr double kStepClip = 1.5;                     // a step counts as so many times what was expected at most
constexpr double kLearnPace = 0.15;                   // of that difference, for all steps: the machine or the context changed
constexpr double kLearnTimes = 0.1;                   // of it, for steps of so many rows; more as long as few were measured
constexpr double kGuessWorth = 0.4;                   // measurements that a guess is worth
constexpr uint32_t kFreshSteps = 200;                 // a count of rows is known for so many steps
constexpr double kForgetTimes = 0.9995;               // then it is thought cheaper with each step, until it is tried again

// times(rows) before anything was measured: low for few rows, so that they are tried.
double guessed_times(uint32_t rows) { return std::max(1 + kFewShare * (rows - 1), kManyShare * rows); }
}  // namespace

double StepCosts::times(uint32_t rows) const {
  uint32_t below = rows, above = rows;
  while (below > 1 && times_[below] == 0) --below;
  while (above <= kRowsMax && times_[above] == 0) ++above;
  const double least = below > 1 ? times_[below] : 1;
  if (above > kRowsMax) return least * guessed_times(rows) / guessed_times(below);
  return above == below ? least : least + (times_[above] - least) * (rows - below) / (above - below);
}

double StepCosts::of(uint32_t rows) const { return ns_ * times(std::clamp(rows, 1u, kRowsMax)); }

void StepCosts::measured(uint32_t rows, uint64_t work_ns) {
  if (rows == 0 || rows > kRowsMax || work_ns == 0) return;
  const auto work = static_cast<double>(work_ns);
  if (ns_ == 0) {
    ns_ = work / guessed_times(rows);
    return;
  }
  const double off = std::clamp(work / of(rows), 1 / kStepClip, kStepClip) - 1, known = times(rows);
  ns_ *= 1 + off * kLearnPace;
  if (rows > 1) times_[rows] = std::max(1.0, known * (1 + off * std::max(kLearnTimes, 1 / (kGuessWorth + ++seen_[rows]))));
  steps_[rows] = ++step_;
  double fewer = 1;
  for (uint32_t other = 2; other <= kRowsMax; ++other) {
    if (times_[other] == 0) continue;
    if (step_ - steps_[other] > kFreshSteps) times_[other] = 1 + (times_[other] - 1) * kForgetTimes;
    if (other < rows) times_[other] = std::min(times_[other], times_[rows]);
    times_[other] = fewer = std::max(fewer, times_[other]);  // more rows cost no less
  }
}

}  // namespace kvrt
