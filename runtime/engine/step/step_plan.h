// StepPlan: a step's sessions with their rows, and what is to be done to blocks before they are computed. A value that passes from the
// planner to the device and to the committer.
#pragma once

#include <vector>

#include "runtime/compute/step.h"
#include "runtime/engine/session/session.h"

namespace kvrt {

// One session's part of a plan.
struct PlannedSeq {
  Session* session = nullptr;
  KvRun run;                 // its rows; those past the session's tokens are of tokens that are proposed, and Committer keeps what holds
  uint32_t first_logit = 0;  // index of its first row of logits
  uint32_t logit_rows = 0;
  uint32_t proposed = 0;  // of its rows, those of proposed tokens
};

struct BlockCopy {
  BlockId from, to;
  Session* session;
  uint32_t group, index;  // the place of `to` in the session's tables
  uint32_t filled;        // tokens of `from` that have their KV
};

// Units, as a device copies them.
struct UnitCopy {
  BlockId from, to;
};

// Owns the arrays that Step borrows; refilled by every plan().
struct StepPlan {
  std::vector<PlannedSeq> seqs;
  std::vector<BlockId> clears;        // units with another domain's KV and no copy to overwrite it: zeroed before any write
  std::vector<BlockCopy> copies;      // shared or sealed blocks that must become private before they are written
  std::vector<UnitCopy> unit_copies;  // their units
  std::vector<int32_t> tokens, positions;
  std::vector<uint32_t> logits_rows;
  std::vector<StepSeq> step_seqs;
  std::vector<std::vector<int32_t>> tables;  // by session, with the units of its states
  Step step;
  uint32_t decodes = 0;         // rows of sessions that decode
  double prompt_cost = 0;       // of the other rows (see Pace)
  uint64_t planned_ns = 0;      // the time of the plan
  uint64_t work_ns = 0;         // the leader's CPU time for computing it
  uint64_t wall_ns = 0;         // the wall time for that
  std::vector<Sample> samples;  // by logits row; filled between plan and commit
};

}  // namespace kvrt
