#include "runtime/engine/step/draft_costs.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr double kPromptSeen = 16;  // rows of a prompt, by which these are measured
constexpr double kLearnToken = 0.15, kLearnRow = 0.4;
constexpr double kDraftClip = 3;       // a measurement counts as so many times what was known at most
constexpr double kForgetDear = 0.002;  // of what it is above the expected
constexpr double kDraftLeast = 1e-4;   // steps
constexpr double kDraftStake = 0.5;    // of what a draft is thought to save, what it may take for the tokens that it has to see first

void approach(double* known, double measured, double weight) {
  *known += (std::clamp(measured, std::max(*known / kDraftClip, kDraftLeast), *known * kDraftClip) - *known) * weight;
}

void sink(double* known, double to) { *known -= std::max(*known - to, 0.0) * kForgetDear; }
}  // namespace

void DraftCosts::expect(double draft_bytes, double model_bytes) {
  if (token_ > 0) return;
  expected_ = token_ = std::max(draft_bytes / std::max(model_bytes, 1.0), 2 * kDraftLeast);
  row_ = std::max(token_ * kPromptShare, 2 * kDraftLeast);
}

void DraftCosts::forget() {
  sink(&token_, expected_);
  sink(&row_, expected_ * kPromptShare);
}

void DraftCosts::measured(const StepCosts& steps, double work_ns, uint64_t rows, uint64_t tokens, uint64_t most) {
  if (steps.of(1) == 0 || token_ == 0) return;
  const double work = work_ns / steps.of(1), prompt = rows > tokens ? static_cast<double>(rows - tokens) : 0;
  if (prompt >= kPromptSeen) {
    approach(&row_, (work - static_cast<double>(most) * token_) / prompt, kLearnRow);
  } else if (most > 0) {
    approach(&token_, work / static_cast<double>(most), kLearnToken);
  }
}

double DraftCosts::gain(const StepCosts& steps, double right, uint32_t most, Rows rows) const {
  double best = 1, more = 0, chance = 1;  // more: tokens of one session
  for (uint32_t k = 1; k <= most && rows.with(k) <= StepCosts::kRowsMax; ++k) {
    chance *= right;
    more += chance;
    const double tokens = 1 + more * rows.drafted / rows.all();
    best = std::max(best, tokens * steps.of(rows.all()) / (steps.of(rows.with(k)) + k * token_ * steps.of(1)));
  }
  return best;
}

uint64_t DraftCosts::rows_worth(double gain, double tokens) const {
  return row_ > 0 ? static_cast<uint64_t>(std::max((1 - 1 / gain) * kDraftStake * tokens / row_, 0.0)) : 0;
}

}  // namespace kvrt
