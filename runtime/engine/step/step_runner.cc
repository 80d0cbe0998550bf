#include "runtime/engine/step/step_runner.h"

#include "runtime/base/fp_env.h"
#include "runtime/base/limits.h"
#include "runtime/engine/resources/memory_cost.h"

namespace kvrt {

namespace {

class ModelForward final : public ForwardPass {
 public:
  ModelForward(const Model& model, Backend* backend, const KvGroups& kv, std::unique_ptr<ForwardScratch> scratch)
      : model_(model), backend_(backend), kv_(kv), scratch_(std::move(scratch)) {}
  Status run(const Step& step, uint8_t* pool, float* logits, DrawnToken* drawn) override {
    forward(model_, backend_, kv_, pool, step, scratch_.get(), logits, drawn);
    return backend_->sync();
  }
  uint64_t bytes() const override { return scratch_->bytes(); }

 private:
  const Model& model_;
  Backend* backend_;
  const KvGroups& kv_;
  std::unique_ptr<ForwardScratch> scratch_;
};

// A reading of both clocks, wall time and the work of this thread.
struct Clocks {
  uint64_t wall_ns, work_ns;
  // A device works while its host waits: its work is wall time.
  explicit Clocks(const Runtime& runtime)
      : wall_ns(runtime.env()->now_ns()), work_ns(runtime.backend()->unified() ? runtime.env()->cpu_ns() : wall_ns) {}
};

}  // namespace

Result<std::unique_ptr<StepRunner>> StepRunner::make(Runtime* runtime, const LoadedModel& model, const KvGroups& kv, Buffer* pool,
                                                     std::unique_ptr<ForwardPass> toy) {
  std::unique_ptr<StepRunner> made(new StepRunner(runtime, model, kv, pool));
  Backend* backend = runtime->backend();
  made->forward_ = std::move(toy);
  if (!made->forward_) {
    KVRT_ASSIGN(auto scratch, make_scratch(*model.weights(), backend, kStepRowsMax));
    const StepShape shape = step_shape(model.dims(), kStepRowsMax);
    Lock device(runtime->step_mutex());
    const FpEnv fp_env;
    KVRT_TRY(backend->reserve_steps(shape));
    made->device_scratch_bytes_ = backend->step_memory(shape);
    made->forward_ = std::make_unique<ModelForward>(*model.weights(), backend, made->kv_, std::move(scratch));
  }
  // Its pages come on their first use: few steps want many rows.
  const uint64_t bytes = logits_bytes(model.dims());
  KVRT_ASSIGN(made->logits_buffer_, backend->alloc_host(bytes));
  made->logits_ = {reinterpret_cast<float*>(made->logits_buffer_->data()), bytes / sizeof(float)};
  KVRT_ASSIGN(made->drawn_buffer_, backend->alloc_host(kLogitsRowsMax * sizeof(DrawnToken)));
  made->drawn_ = reinterpret_cast<DrawnToken*>(made->drawn_buffer_->data());
  return made;
}

// Lets a device draw the tokens if each depends on its row of logits alone: the host then does not wait for the rows.
void StepRunner::plan_draws(const StepPlan& plan) {
  draws_.clear();
  if (runtime_->backend()->unified()) return;
  draws_.resize(plan.logits_rows.size());
  for (const PlannedSeq& seq : plan.seqs) {
    if (seq.logit_rows == 0) continue;
    const Generation& g = *seq.session->generation;
    const GenerateOptions& o = g.options;
    for (uint32_t r = 0; r < seq.logit_rows; ++r) {
      const auto draw = device_draw(o.sampling, model_.dims().vocab, seq.session->tokens.size() + r + o.draw_offset);
      if (o.prefill_only || o.host_samples || o.emit_logits || g.guide || !draw) return draws_.clear();
      draws_[seq.first_logit + r] = *draw;
    }
  }
}

// A row's token depends on those before it: rows of proposed tokens are drawn one after the other, up to the first whose token is another one
// than was proposed. The generation's own guide goes on by Committer alone.
void StepRunner::choose(const PlannedSeq& seq, StepPlan* plan) {
  const Session& s = *seq.session;
  Generation& g = *s.generation;
  const size_t vocab = model_.dims().vocab;
  std::optional<AnswerGuide> ahead;
  std::vector<int32_t> with_ahead;
  std::span<const int32_t> tokens = s.tokens;  // they do not change: only this step's commit adds to them
  for (uint32_t r = 0; r < seq.logit_rows; ++r) {
    const size_t row_index = seq.first_logit + r;
    const auto row = std::span(logits_).subspan(row_index * vocab, vocab);
    Sample& chosen = plan->samples[row_index];
    try {
      std::span<const uint64_t> mask;
      if (g.guide) mask = ahead ? ahead->mask() : g.guide->mask();
      chosen = g.options.host_samples ? describe(row, 0, 0)
                                      : sample(row, g.options.sampling, tokens, g.prompt_end, tokens.size() + g.options.draw_offset, mask);
      if (r + 1 == seq.logit_rows || !chosen.finite || chosen.empty) return;
      if (chosen.token != plan->tokens[plan->logits_rows[row_index + 1]]) return;
      if (g.guide && !ahead) ahead.emplace(*g.guide);
      if (ahead) ahead->accept(chosen.token);
      if (r == 0) with_ahead.assign(tokens.begin(), tokens.end());
      with_ahead.push_back(chosen.token);
      tokens = with_ahead;
    } catch (...) {  // this generation ends alone
      chosen.no_memory = true;
      return;
    }
  }
}

Status StepRunner::run(StepPlan* plan) {
  const FpEnv fp_env;  // tokens are drawn outside of the backend's run
  Lock device(runtime_->step_mutex());
  const Clocks begin(*runtime_);
  Backend* backend = runtime_->backend();
  backend->set_threads(runtime_->threads());
  for (const BlockId unit : plan->clears) backend->clear(unit_data(unit), kv_.unit_bytes());
  std::vector<BlockPair> copies;
  for (const UnitCopy& copy : plan->unit_copies) copies.push_back({unit_data(copy.to), unit_data(copy.from)});
  backend->copy(copies, kv_.unit_bytes());
  plan_draws(*plan);
  plan->step.draws = draws_;
  KVRT_TRY(forward_->run(plan->step, pool_->data(), logits_.data(), drawn_));
  plan->samples.resize(plan->logits_rows.size());
  for (const PlannedSeq& seq : plan->seqs) {
    const GenerateOptions& o = seq.session->generation->options;
    if (o.prefill_only || seq.logit_rows == 0) continue;
    if (draws_.empty()) {
      choose(seq, plan);
      continue;
    }
    for (uint32_t r = seq.first_logit; r < seq.first_logit + seq.logit_rows; ++r) {
      Sample& chosen = plan->samples[r];
      chosen.token = drawn_[r].token;
      chosen.logprob = drawn_[r].logprob;
      chosen.finite = drawn_[r].finite != 0;
    }
  }
  const Clocks end(*runtime_);
  plan->wall_ns = end.wall_ns - begin.wall_ns;
  plan->work_ns = end.work_ns - begin.work_ns;
  return {};
}

}  // namespace kvrt
