// Driver: begins, drives and ends generations. It has no thread of its own: a caller of next that finds no leader runs steps for all
// sessions, and the others sleep until they have an event.
#pragma once

#include <memory>
#include <optional>

#include "runtime/engine/conversation/grammar_cache.h"
#include "runtime/engine/session/session_gate.h"
#include "runtime/engine/snapshot/warmer.h"
#include "runtime/engine/step/step_parts.h"
#include "runtime/engine/step/step_runner.h"

namespace kvrt {

// Thread-safe; calls on one session do not overlap, but for cancel.
class Driver {
 public:
  // `self` keeps the model, with all that this uses, as long as it is locked. step_ms: the goal for the longest step.
  Driver(std::weak_ptr<Driver> self, EngineLock* lock, Runtime* runtime, const LoadedModel* model, StepRunner* runner, StepParts* step,
         Warmer* warmer, SessionGate* gate, uint32_t step_ms)
      : self_(std::move(self)),
        lock_(lock),
        runtime_(*runtime),
        model_(*model),
        grammars_(model->tokenizer()),
        runner_(runner),
        step_(step),
        warmer_(warmer),
        gate_(gate),
        step_ms_(step_ms) {}

  Status begin(Session* session, GenerateOptions options);
  // timeout_ms < 0: no limit. Gives an event of type kNone if there was none in time, kIdle if the session does not generate.
  Result<Event> next(Session* session, int32_t timeout_ms);
  Status accept(Session* session, int32_t token);
  void cancel(Session* session);
  void cancel(const Cancel& fired) noexcept;  // the generations that were begun with it
  void abandon(Session* session) noexcept;    // an exception left the call that began it
  // Runs steps for at most `ms`, but at least one. Gives the count of sessions that can go on.
  uint32_t step(uint32_t ms);
  // Runs one step, and gives the count of its rows. None: another caller leads one, or nothing could run.
  std::optional<uint64_t> try_step();

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  static void keep_draft(Session* session, const GenerateOptions& options);
  Status speculate(Generation* generation, bool has_states) const;
  bool run_step(uint64_t patience_ns) KVRT_REQUIRES(lock_->mu);
  bool lead(uint64_t patience_ns) KVRT_REQUIRES(lock_->mu);
  void end_step() noexcept KVRT_REQUIRES(lock_->mu);
  void ring() KVRT_REQUIRES(lock_->mu);
  void end(Session* session) KVRT_REQUIRES(lock_->mu);
  bool take_event(Session* session, Event* event, Status* failure) KVRT_REQUIRES(lock_->mu);

  const std::weak_ptr<Driver> self_;
  EngineLock* const lock_;
  Runtime& runtime_;
  const LoadedModel& model_;
  GrammarCache grammars_;
  StepRunner* const runner_;  // the leader's
  StepParts* const step_ KVRT_PT_GUARDED_BY(lock_->mu);
  Warmer* const warmer_ KVRT_PT_GUARDED_BY(lock_->mu);
  SessionGate* const gate_ KVRT_PT_GUARDED_BY(lock_->mu);
  const uint32_t step_ms_;
  bool leader_ KVRT_GUARDED_BY(lock_->mu) = false;
  uint64_t steps_led_ KVRT_GUARDED_BY(lock_->mu) = 0;  // counts the leaders that are done
  StepPlan plan_;                                      // the leader's
};

}  // namespace kvrt
