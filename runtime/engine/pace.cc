#include "runtime/engine/pace.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr double kFirstCost = 16;  // rows of a first step, whose speed nobody knows
constexpr double kGrowth = 2;      // a step is at most so many times the largest one measured
constexpr double kAim = 0.9;       // of a step's time
// Weight of the newest measurement: what is slow is believed sooner.
constexpr double kSlower = 0.5, kFaster = 0.05;
// Sessions that decode wait for a prompt so many times their own step, or so long where that is longer: nobody sees 20 ms. Where decodes
// alone take a step's time, a prompt still gets its part of theirs.
constexpr double kPromptPerDecode = 1.5, kPromptNsMin = 20e6, kPromptPerDecodeMin = 0.5;

double blend(double old, double fresh) { return old > 0 ? old + (fresh > old ? kSlower : kFaster) * (fresh - old) : fresh; }
}  // namespace

double Pace::decode_ns(uint32_t decodes) const {
  if (decodes == 0) return 0;
  if (decode_rows_ == 0) return decodes * row_ns_;  // not measured yet
  return decode_step_ns_ * std::max(1.0, decodes / decode_rows_);
}

double Pace::budget(uint32_t decodes) const {
  if (row_ns_ == 0) return kFirstCost;
  double decode = decode_ns(decodes), left = kAim * static_cast<double>(step_ns_) - decode;
  if (decode > 0) left = std::clamp(left, kPromptPerDecodeMin * decode, std::max(kPromptPerDecode * decode, kPromptNsMin));
  return std::clamp(left / row_ns_, 1.0, std::max(kFirstCost, kGrowth * most_));
}

double Pace::cost(uint64_t begin, uint64_t end) const {
  auto rows = static_cast<double>(end - begin), mean = static_cast<double>(begin) + rows / 2;
  return rows * (1 + mean / static_cast<double>(context_cost_));
}

uint64_t Pace::rows(uint64_t begin, double budget) const {
  double first = 1 + static_cast<double>(begin) / static_cast<double>(context_cost_);
  double rows = budget / first;                                               // as if all were at `begin`,
  rows = budget / (first + rows / (2 * static_cast<double>(context_cost_)));  // then at the middle of so many
  return std::max<uint64_t>(1, static_cast<uint64_t>(rows));
}

void Pace::measured(uint32_t decodes, double cost, uint64_t elapsed_ns) {
  auto elapsed = static_cast<double>(elapsed_ns);
  if (cost == 0) {
    decode_step_ns_ = blend(decode_step_ns_, elapsed);
    decode_rows_ = blend(decode_rows_, decodes);
    return;
  }
  // Of a mixed step only the sum is known: both estimates are off by the same factor, a machine that slowed down say.
  double decode = decode_ns(decodes), predicted = decode + cost * row_ns_;
  if (decode > 0 && row_ns_ > 0) {
    double factor = blend(1, elapsed / predicted);
    decode_step_ns_ *= factor;
    row_ns_ *= factor;
  } else {
    row_ns_ = blend(row_ns_, elapsed / cost);
  }
  most_ = std::max(most_, cost);
}

}  // namespace kvrt
