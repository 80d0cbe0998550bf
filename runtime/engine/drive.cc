// ModelHost: begin, next, cancel, and the step: plan (locked), compute (unlocked), commit (locked).
#include <chrono>

#include "runtime/engine/messages.h"
#include "runtime/engine/model_host.h"

namespace kvrt {

Status ModelHost::begin(Session* session, GenerateOptions options) {
  if (options.generation_prompt && !options.prefill_only) {
    {
      std::lock_guard lock(mu_);
      KVRT_TRY(require(*session, "begin"));
    }
    KVRT_TRY(open_turn(session));
  }
  if (options.sampling.seed == 0 && options.sampling.temperature > 0) {
    uint8_t drawn[8];
    engine_->env()->random(drawn);
    for (uint8_t byte : drawn) options.sampling.seed = options.sampling.seed << 8 | byte;
    if (options.sampling.seed == 0) options.sampling.seed = 1;
  }
  std::lock_guard lock(mu_);
  KVRT_TRY(require(*session, options.prefill_only ? "prefill" : "begin"));
  Session& s = *session;
  if (s.tokens.empty()) {
    return error(Code::kInvalid, Detail::kState, "%s: the session has no tokens: append some", options.prefill_only ? "prefill" : "begin");
  }
  auto g = std::make_unique<Generation>(std::move(options));
  g->prompt_end = s.tokens.size();
  g->recompute_all = g->options.prefill_only && g->options.logits == WantLogits::kAll;
  g->report.prompt_tokens = g->prompt_end;
  g->report.seed = g->options.sampling.seed;
  g->begin_ns = engine_->env()->now_ns();
  s.generation = std::move(g);
  s.state = SessionState::kGenerating;
  s.cancel = false;
  scheduler_->touch(&s);
  if (!s.generation->options.prefill_only && s.tokens.size() >= model_->dims.context) {
    s.generation->warmed = true;
    s.generation->report.prompt_tokens = 0;  // nothing is computed
    scheduler_->finish(&s, Reason::kContextFull, s.generation->begin_ns);
  }
  return {};
}

void ModelHost::cancel(Session* session) {
  std::lock_guard lock(mu_);
  if (session->state != SessionState::kGenerating || session->generation->finished) return;
  stop(session);
  session->changed.notify_all();
}

// Ends what the session generates: now, or when the step that it is in is over.
void ModelHost::stop(Session* session) {
  if (session->in_step) {
    session->cancel = true;
  } else {
    scheduler_->finish(session, Reason::kCancelled, engine_->env()->now_ns());
  }
}

// After DONE: the session is idle again, and what was generated is a message of its own.
void ModelHost::take_done(Session* session) {
  Session& s = *session;
  Generation& g = *s.generation;
  if (!s.messages.empty() && !g.options.prefill_only && g.report.generated > 0 && s.messages.back().end <= g.prompt_end) {
    s.messages.push_back({assistant_message(g.text.shown()), g.prompt_end, s.tokens.size(), true});
  }
  s.generation.reset();
  s.state = SessionState::kIdle;
}

bool ModelHost::take_event(Session* session, Event* event, Status* failure) {
  Session& s = *session;
  if (!s.mailbox.empty()) {
    *event = std::move(s.mailbox.front());
    s.mailbox.pop_front();
    if (event->type == EventType::kDone) take_done(session);
    return true;
  }
  if (s.failure.is_ok()) return false;
  s.last_error = s.failure.clone();
  bool broken = s.failure.code() != Code::kLimit;
  *failure = std::move(s.failure);
  s.failure = Status();
  take_done(session);
  if (broken) s.state = SessionState::kFailed;
  return true;
}

Result<Event> ModelHost::next(Session* session, int32_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms < 0 ? 0 : timeout_ms);
  std::unique_lock lock(mu_);
  Event event;
  Status failure;
  for (;;) {
    if (take_event(session, &event, &failure)) {
      if (!failure.is_ok()) return failure;
      return event;
    }
    if (session->state != SessionState::kGenerating || timeout_ms == 0) return event;
    if (timeout_ms > 0 && Clock::now() >= deadline) return event;
    if (!leader_) {
      run_step(lock);
    } else if (timeout_ms < 0) {
      session->changed.wait(lock);
    } else {
      session->changed.wait_until(lock, deadline);
    }
  }
}

// The caller becomes the leader for one step. mu_ is held on entry and exit.
void ModelHost::run_step(std::unique_lock<std::mutex>& lock) {
  struct Leader {
    ModelHost* host;
    explicit Leader(ModelHost* h) : host(h) { h->leader_ = true; }
    ~Leader() {  // also when memory ran out half-way
      host->leader_ = false;
      host->step_over_.notify_all();
      for (Session* s : host->scheduler_->sessions()) {
        s->in_step = false;
        if (s->state == SessionState::kGenerating) s->changed.notify_all();
      }
    }
  } leader(this);
  plan_.clear();

  while (Session* s = scheduler_->next_cold()) {
    s->in_step = true;
    warm(s, lock);  // without the lock for a while: sessions come and go
    s->in_step = false;
    if (s->cancel) scheduler_->finish(s, Reason::kCancelled, engine_->env()->now_ns());
  }
  scheduler_->plan(&plan_, engine_->env()->now_ns());
  if (plan_.seqs.empty()) return;
  {
    Unlocked unlocked(lock);
    compute(&plan_);
  }
  scheduler_->commit(&plan_, logits_.data(), *tokenizer_, engine_->env()->now_ns());
}

void ModelHost::compute(StepPlan* plan) {
  std::lock_guard device(engine_->step_mutex());
  Backend* backend = engine_->backend();
  for (const BlockCopy& copy : plan->copies) backend->copy(block_data(copy.to), block_data(copy.from), kv_.block_bytes());
  forward(*model_, backend, kv_, pool_buffer_->data(), plan->step, scratch_.get(), logits_.data());
  plan->samples.resize(plan->logits_rows.size());
  for (const PlannedSeq& seq : plan->seqs) {
    const GenerateOptions& o = seq.session->generation->options;
    if (o.prefill_only || seq.logit_rows == 0) continue;
    size_t vocab = model_->dims.vocab;
    plan->samples[seq.first_logit] = sample(std::span(logits_).subspan(seq.first_logit * vocab, vocab), o.sampling, seq.end);
  }
}

}  // namespace kvrt
