// StepParts: what plans a model's steps and commits their results, joined together.
#pragma once

#include "runtime/engine/step/committer.h"
#include "runtime/engine/step/planner.h"

namespace kvrt {

// Engine owns it, and uses it under its lock; planner and committer are the leader's.
struct StepParts {
  StepParts(KvCache* cache, const StepLimits& limits);
  StepParts(const StepParts&) = delete;
  StepParts& operator=(const StepParts&) = delete;

  Queue queue;
  Mailboxes mailboxes;
  Reports reports;
  Generations generations;
  Supply supply;
  Pace pace;
  Planner planner;
  Committer committer;
};

}  // namespace kvrt
