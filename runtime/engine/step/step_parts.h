// StepParts: what plans a model's steps and commits their results, joined together.
#pragma once

#include "runtime/engine/step/committer.h"
#include "runtime/engine/step/planner.h"

namespace kvrt {

struct StepOptions {
  uint32_t context = 0;          // see Generations
  uint32_t step_ms_max = 0;      // see Pace
  uint64_t context_cost = 4096;  // likewise: tokens of context that make a row cost twice
  uint64_t unit_bytes = 0;       // see Reports
  PlanLimits plan{};
};

// Engine owns it, and uses it under its lock; planner and committer are the leader's.
struct StepParts {
  StepParts(KvCache* cache, const StepOptions& options);
  StepParts(const StepParts&) = delete;
  StepParts& operator=(const StepParts&) = delete;

  Queue queue;
  Mailboxes mailboxes;
  Reports reports;
  Generations generations;
  Supply supply;
  Pace pace;
  Speculator speculator;
  BoundaryMarker marker;
  Planner planner;
  Committer committer;
};

}  // namespace kvrt
