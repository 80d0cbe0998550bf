// Scheduler: plans each step, and commits its results. Continuous batching: a step serves every session that generates, prefill chunks and
// decodes together.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/engine/step/boundary_marker.h"
#include "runtime/engine/step/generations.h"
#include "runtime/engine/step/mailboxes.h"
#include "runtime/engine/step/pace.h"
#include "runtime/engine/step/queue.h"
#include "runtime/engine/step/reports.h"
#include "runtime/engine/step/step_plan.h"
#include "runtime/engine/step/supply.h"
#include "runtime/engine/session/session.h"
#include "runtime/kv/kv_cache.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

struct SchedulerLimits {
  uint32_t context = 0;
  uint32_t prefill_chunk = 0;    // prompt rows of one session per step
  uint32_t step_ms_max = 0;      // see Pace
  uint64_t context_cost = 4096;  // tokens of context that make a row cost twice
  uint32_t rows_max = 0;         // rows per step
  uint32_t logits_max = 0;       // rows per step that want logits
  uint64_t boundary_every = kStateEvery;
  uint64_t unit_bytes = 0;  // of the pool, for reports
};

// Engine owns it, and calls it under its lock; plan and commit are the leader's. Bookkeeping only: it never touches the bytes of a block.
// It has a method for each moment at which a session's turn or blocks change: added, begun, planned, committed, accepted, ended, removed.
class Scheduler {
 public:
  Scheduler(KvCache* cache, const SchedulerLimits& limits);

  // Fills `plan` from the runnable, warm sessions with as many rows as fit the step's time; its leader accepts a step of up to patience_ns.
  // When blocks run short, idle sessions give theirs first, then generations that wait for their host, then the youngest: the oldest always
  // goes on.
  void plan(StepPlan* plan, uint64_t now_ns, uint64_t patience_ns);
  // Takes in the step's results: tokens, seals, stop rules, events. `logits` are the rows of the step.
  void commit(StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);
  // Instead of commit, if compute did not come to its end.
  void abandon(StepPlan* plan) noexcept;
  // Likewise if the device failed: the step's generations end with `status`; their sessions keep tokens and earlier KV.
  void fail_step(StepPlan* plan, const Status& status);
  // Takes the host's token for the row that the session awaits it for.
  void accept(Session* session, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns);

  Queue queue;
  Mailboxes mailboxes;
  Reports reports;
  Generations generations;
  Supply supply;

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  KvRun next_run(const Session& session) const;
  std::vector<Session*> order_of_service();
  double budget_for(const std::vector<Session*>& order, uint64_t patience_ns);
  bool finish_prefill(Session* session, uint64_t now_ns);
  bool plan_session(Session* session, StepPlan* plan);
  void add_rows(Session* session, const KvRun& run, StepPlan* plan);
  std::vector<int32_t> tables_of(const KvSequence& kv, const KvRun& run) const;
  void mark_filled(const PlannedSeq& seq);
  void commit_seq(const PlannedSeq& seq, StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);
  void commit_prompt(const PlannedSeq& seq, const float* logits, uint32_t vocab);
  void commit_row(Session* session, Sample sample, const float* row, const Tokenizer& tokenizer, uint64_t now_ns);
  bool compute_again(Session* session);
  void commit_token(Session* session, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns);

  KvCache* const cache_;
  const uint32_t block_tokens_;
  SchedulerLimits limits_;
  BoundaryMarker marker_;
  Pace pace_;
  double budget_ = 0;  // of a plan: the prompt cost that is left
};

}  // namespace kvrt
