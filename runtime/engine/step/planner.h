// Planner: chooses the sessions and the rows of a step. Continuous batching: a step serves every session that generates, prompts and decodes
// together.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/engine/step/boundary_marker.h"
#include "runtime/engine/step/generations.h"
#include "runtime/engine/step/pace.h"
#include "runtime/engine/step/queue.h"
#include "runtime/engine/step/reports.h"
#include "runtime/engine/step/speculator.h"
#include "runtime/engine/step/step_plan.h"
#include "runtime/engine/step/supply.h"

namespace kvrt {

struct PlanLimits {
  uint32_t prefill_chunk = 0;        // prompt rows of one session per step
  uint32_t rows_max = 0;             // rows per step
  uint32_t logits_max = 0;           // rows per step that want logits
  uint32_t rows_alike = UINT32_MAX;  // see Backend: a step with proposed rows has no more
  uint64_t boundary_every = kStateEvery;
};

// Guarded by Engine's lock. Bookkeeping only: it never touches the bytes of a block.
class Planner {
 public:
  Planner(KvCache* cache, const PlanLimits& limits, Queue* queue, Supply* supply, Reports* reports, Generations* generations,
          const Pace* pace, const Speculator* speculator, BoundaryMarker* marker)
      : cache_(cache),
        block_tokens_(cache->block_tokens()),
        limits_(limits),
        marker_(marker),
        queue_(queue),
        supply_(supply),
        reports_(reports),
        generations_(generations),
        pace_(pace),
        speculator_(speculator) {}

  // Fills `plan` from these runnable, warm sessions with as many rows as fit the step's time; its leader accepts a step of up to patience_ns.
  void plan(const std::vector<Session*>& order, uint64_t now_ns, uint64_t patience_ns, StepPlan* plan);

 private:
  friend struct Probe;                          // tests/sim reads everything after every step
  static constexpr uint64_t kRowsToDecide = 1;  // a token is decided by the row of the one before
  // A session with the rows that it needs next.
  struct Turn {
    Session* session;
    KvRun run;
    uint32_t ahead = 0;  // proposed tokens that may be checked with it
    uint64_t rows() const { return run.end - run.begin; }
    // The run goes on from one token to the next: it does not wait for a prompt. A longer one is a prompt's, and shares the step's budget.
    bool decodes() const { return rows() <= kRowsToDecide; }
  };

  KvRun next_run(const Session& session) const;
  void take_turns(const std::vector<Session*>& order);
  void choose_proposals();
  bool waits_for_other(const Session& session, const KvRun& run) const;
  void claim(const Session* session, uint32_t group, uint64_t block);
  void claim_begun_blocks();
  Pace::Ask ask_for(uint64_t patience_ns) const;
  bool finish_prefill(const Turn& turn, uint64_t now_ns);
  bool plan_turn(const Turn& turn, StepPlan* plan);
  uint64_t rows_of(const Turn& turn) const;
  uint32_t logits_of(const Session& session, const KvRun& run) const;
  void take(const Turn& turn, const KvRun& run, StepPlan* plan);
  void add_proposals(StepPlan* plan);
  void add_rows(StepPlan* plan) const;
  std::vector<int32_t> tables_of(const KvSequence& kv, const KvRun& run) const;
  void fail_starved(Session* starved, const StepPlan& plan);
  uint32_t vocab_wanted(const StepPlan& plan) const;
  void fill_step(StepPlan* plan) const;

  KvCache* const cache_;
  const uint32_t block_tokens_;
  const PlanLimits limits_;
  BoundaryMarker* const marker_;
  Queue* const queue_;
  Supply* const supply_;
  Reports* const reports_;
  Generations* const generations_;
  const Pace* const pace_;
  const Speculator* const speculator_;
  // This and the next ones: of a plan.
  std::vector<Turn> turns_;
  uint64_t rows_ = 0, logits_ = 0;                                                          // so far, and those with logits
  std::unordered_map<const ChainLink*, std::array<const Session*, kKvGroupsMax>> claimed_;  // who computes the blocks of a link, by group
  std::optional<double> budget_;  // the prompt cost that is left; none: no prompt asked for it yet
};

}  // namespace kvrt
