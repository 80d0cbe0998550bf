#include "runtime/engine/step/step_plan.h"

namespace kvrt {

void StepPlan::clear() {
  seqs.clear();
  clears.clear();
  copies.clear();
  unit_copies.clear();
  tokens.clear();
  positions.clear();
  logits_rows.clear();
  step_seqs.clear();
  tables.clear();
  samples.clear();
  decodes = 0;
  prompt_cost = 0;
}

}  // namespace kvrt
