// DraftCosts: what a draft's work costs, by measured times. Pure arithmetic over its arguments.
#pragma once

#include <cstdint>

#include "runtime/engine/step/step_costs.h"

namespace kvrt {

// In steps of one row, so that it moves with the machine as they do. Not thread-safe: guarded by its owner's lock.
class DraftCosts {
 public:
  // Before anything was measured: a draft of so many bytes of weights, for a model of so many.
  void expect(double draft_bytes, double model_bytes);
  // A step goes by: what was thought dearer than was expected becomes cheaper, so that it is tried again.
  void forget();
  // Drafts took so long together for `rows`, of which `tokens` were drafted, `most` by one of them.
  void measured(const StepCosts& steps, double work_ns, uint64_t rows, uint64_t tokens, uint64_t most);

  double token() const { return token_; }  // 0: nothing was expected yet
  // The rows of a step without proposals: of sessions that have drafts, and of others.
  struct Rows {
    uint32_t drafted = 1, others = 0;
    uint32_t all() const { return drafted + others; }
    uint32_t with(uint32_t proposed) const { return drafted * (proposed + 1) + others; }
  };
  // The tokens that these give in a time by the best count of drafted tokens, up to `most`, over those that they give without drafts. `right`:
  // the share of drafted tokens that come.
  double gain(const StepCosts& steps, double right, uint32_t most, Rows rows) const;
  // The rows of a prompt that a draft may compute for what it saves in so many tokens.
  uint64_t rows_worth(double gain, double tokens) const;

 private:
  static constexpr double kPromptShare = 0.12;  // of a token, a row of a prompt, before it was measured
  double expected_ = 0;                         // of a token
  double row_ = 0, token_ = 0;                  // for a row of a prompt, and for a token
};

}  // namespace kvrt
