// StepRunner: computes a planned step: clears and copies its blocks, runs the forward pass, draws the tokens.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/step/step_plan.h"

namespace kvrt {

// Computes the rows of a step: the model's pass, or a toy's in its place.
class ForwardPass {
 public:
  virtual ~ForwardPass() = default;
  // Writes KV into the blocks of `pool`, and logits [step.logits_rows.size(), vocab]. One thread at a time. After an error neither counts
  // as written. With step.draws, on a device whose memory the host does not reach, it writes `drawn` instead of logits.
  virtual Status run(const Step& step, uint8_t* pool, float* logits, DrawnToken* drawn) = 0;
  virtual uint64_t bytes() const = 0;  // of its scratch memory
};

// One thread at a time: the leader of a step. It holds no lock but the runtime's step_mutex. Of a session it reads the tokens, and of its
// generation `options` and `prompt_end`; `guide` it asks. No other thread changes these while the session is in a step.
class StepRunner {
 public:
  // Takes the memory that steps need. `toy`: instead of the model's own forward pass; else null. `pool` holds the blocks.
  static Result<std::unique_ptr<StepRunner>> make(Runtime* runtime, const LoadedModel& model, const KvGroups& kv, Buffer* pool,
                                                  std::unique_ptr<ForwardPass> toy);
  // Computes the plan: fills in its samples and its times.
  Status run(StepPlan* plan);
  const float* logits() const { return logits_.data(); }  // of the last step, by logits row
  uint64_t scratch_bytes() const { return forward_->bytes() + logits_.size() * sizeof(float) + device_scratch_bytes_; }

 private:
  StepRunner(Runtime* runtime, const LoadedModel& model, const KvGroups& kv, Buffer* pool)
      : runtime_(runtime), model_(model), kv_(kv), pool_(pool) {}
  void plan_draws(const StepPlan& plan);
  void choose(const PlannedSeq& seq, StepPlan* plan);
  uint8_t* unit_data(BlockId unit) const { return pool_->data() + static_cast<uint64_t>(unit) * kv_.unit_bytes(); }

  Runtime* const runtime_;
  const LoadedModel& model_;
  const KvGroups kv_;
  Buffer* const pool_;
  std::unique_ptr<ForwardPass> forward_;
  uint64_t device_scratch_bytes_ = 0;  // the backend's own
  std::unique_ptr<Buffer> logits_buffer_, drawn_buffer_;
  std::span<float> logits_;
  DrawnToken* drawn_ = nullptr;
  std::vector<Draw> draws_;  // of the step's logits rows; empty: the host samples
};

}  // namespace kvrt
