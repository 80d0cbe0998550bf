#include "runtime/engine/driver.h"

#include <algorithm>
#include <chrono>

#include "runtime/base/fp_env.h"
#include "runtime/engine/cancel.h"
#include "runtime/engine/conversation/answer.h"
#include "runtime/engine/conversation/edit.h"
#include "runtime/engine/session/activity.h"

namespace kvrt {

namespace {
constexpr std::chrono::milliseconds kBlocksRetry{5};
constexpr uint64_t kMs = 1'000'000;  // in ns

uint64_t drawn_seed(Env* env) {
  uint8_t drawn[8];
  env->random(drawn);
  uint64_t seed = 0;
  for (uint8_t byte : drawn) seed = seed << 8 | byte;
  return seed == 0 ? 1 : seed;
}
}  // namespace

// What its options ask for, where tokens can be proposed.
Status Driver::speculate(Generation* g, bool has_states) const {
  const GenerateOptions& o = g->options;
  if (!o.speculation.on() || o.prefill_only || o.emit_logits || o.host_samples || has_states) return {};
  g->speculation = std::make_unique<Speculation>();
  if (!o.speculation.lookup) return {};
  std::vector<int32_t> before;
  KVRT_TRY(model_.tokenizer().encode(o.speculation.prediction, false, &before));
  g->speculation->lookup.emplace(before);
  return {};
}

// A draft of another model, or one that an answer does not want any more, goes. The session keeps the model, so that it does not go under a lock.
void Driver::keep_draft(Session* session, const GenerateOptions& options) {
  if (options.prefill_only) return;
  if (session->draft_model != options.speculation.draft) {
    session->draft = nullptr;  // before its model
    session->draft_model = options.speculation.draft;
  }
  if (session->draft) session->draft->next_generation();
}

Status Driver::begin(Session* session, GenerateOptions options) {
  Conversation said;
  size_t chain = 0;  // its links, and the last key
  BlockKey chain_end;
  {
    Lock lock(lock_->mu);
    KVRT_TRY(gate_->enter(session, options.prefill_only ? "prefill" : "begin"));
    KVRT_TRY(gate_->check_room(session->tokens.size(), 0));  // one that was resumed may be too long
    said = *session;
    chain = session->kv.chain.size();
    chain_end = chain ? session->kv.chain.back()->key : session->kv.root;
  }
  const bool continues = options.ask.kind == GrammarKind::kContinue;
  if (continues && !said.grammar.bound) {
    return error(Code::kInvalid, Detail::kState,
                 "grammar_kind is CONTINUE, the session's last generation had no grammar or was truncated away");
  }
  const bool answers = !options.prefill_only && !continues;  // a new answer
  said.dropped = 0;
  if (answers && options.generation_prompt) KVRT_TRY(open_turn(model_, session->arguments, &said));
  model_.tell_dropped(said.dropped);
  if (said.tokens.empty()) {
    return error(Code::kInvalid, Detail::kState, "%s: the session has no tokens: append some", options.prefill_only ? "prefill" : "begin");
  }
  if (options.sampling.seed == 0 && options.sampling.temperature > 0) options.sampling.seed = drawn_seed(runtime_.env());
  KVRT_ASSIGN(Answer answer, begin_answer(model_, &grammars_, session->arguments.tools, &said, &options));
  auto generation = std::make_unique<Generation>(std::move(options));
  generation->guide = std::move(answer.guide);
  generation->parser = std::move(answer.parser);
  generation->answer.style = std::move(answer.style);
  generation->answer.begin = answer.begin;
  KVRT_TRY(speculate(generation.get(), session->kv.shape.has_states()));
  const uint32_t block_tokens = session->kv.shape.block_tokens;
  const auto known = std::span(session->tokens).first(chain * block_tokens);  // none but this call changes them
  if (said.tokens.size() >= known.size() && std::equal(known.begin(), known.end(), said.tokens.begin())) {
    generation->ahead = hash_ahead(chain_end, chain, said.tokens, block_tokens);
  }
  keep_draft(session, generation->options);
  const std::shared_ptr<Cancel> cancel = generation->options.cancel;
  Lock lock(lock_->mu);
  if (said.tokens.size() > session->tokens.size()) KVRT_TRY(gate_->check_room(said.tokens.size(), 0));
  if (generation->options.all_or_nothing) generation->before.emplace(*session);
  if (cancel) cancel->watch(self_);
  gate_->become(session, std::move(said));  // nothing fails from here on
  session->generation = std::move(generation);
  step_->generations.start(session, runtime_.env()->now_ns());
  if (cancel && cancel->fired()) end(session);
  ring();
  return {};
}

// Ends the session's generation, if there is one, at its last accepted token.
void Driver::end(Session* session) {
  if (session->state != SessionState::kGenerating || session->generation->abandoned) return;
  if (session->generation->finished) return step_->generations.cancel_finished(session);
  step_->generations.stop(session, runtime_.env()->now_ns());
  session->changed.notify_all();
}

void Driver::cancel(Session* session) {
  Lock lock(lock_->mu);
  end(session);
  ring();
}

void Driver::cancel(const Cancel& fired) noexcept {
  Lock lock(lock_->mu);
  for (Session* s : step_->queue.sessions()) {
    if (s->generation && s->generation->options.cancel.get() == &fired) end(s);
  }
  ring();
}

Status Driver::accept(Session* session, int32_t token) {
  Lock lock(lock_->mu);
  bool due = session->state == SessionState::kGenerating && !session->generation->finished && !session->generation->awaited.empty();
  if (!due)
    return error(Code::kInvalid, Detail::kState,
                 "accept: the session asks for no token: it does after a LOGITS event of a "
                 "generation with sampler HOST");
  if (token < 0 || static_cast<uint32_t>(token) >= model_.tokenizer().vocab_size()) {
    return error(Code::kInvalid, Detail::kNone, "accept: token %d, the vocabulary has %u", token, model_.tokenizer().vocab_size());
  }
  Generation& g = *session->generation;
  const auto mask = g.guide ? g.guide->mask() : std::span<const uint64_t>();
  if (!mask.empty() && !(mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1)) {
    return error(Code::kInvalid, Detail::kNone, "accept: token %d does not fit the grammar after position %zu", token,
                 session->tokens.size() - 1);
  }
  const FpEnv fp_env;
  Sample sample = describe(g.awaited, token, g.options.sampling.top_logprobs);
  step_->committer.accept(session, sample, model_.tokenizer(), runtime_.env()->now_ns());
  session->changed.notify_all();
  ring();
  return {};
}

// Wakes the hosts of sessions with a first unread event. Gives the lock back for each call.
void Driver::ring() {
  while (auto wake = step_->mailboxes.take_woken()) {
    Unlocked unlocked(lock_->mu);
    wake->ring();
    wake.reset();  // without the lock: the last reference's end calls the host to free its user data
  }
}

// Ends a generation whose caller has gone, for want of memory. The work that needs memory waits for the session's next call.
void Driver::abandon(Session* session) noexcept {
  Lock lock(lock_->mu);
  if (session->state != SessionState::kGenerating) return;
  if (!session->generation->finished && session->use.in_step()) session->generation->cancel = true;
  while (session->use.in_step()) lock_->step_over.wait(lock_->mu);
  if (!session->generation->finished) step_->generations.give_up(session);
  session->generation->report.reason = Reason::kFailed;  // also where its DONE was ready: the caller did not get it
  session->generation->abandoned = true;
}

bool Driver::take_event(Session* session, Event* event, Status* failure) {
  Session& s = *session;
  if (!s.mailbox.empty()) {
    if (s.mailbox.front().type == EventType::kDone) gate_->take_done(session);  // first: it needs memory
    *event = std::move(s.mailbox.front());
    s.mailbox.pop_front();
    return true;
  }
  if (s.generation && s.generation->no_memory) {
    *failure = error(Code::kNoMemory, Detail::kNone, "the generation ended at token %zu: the system gave no memory", s.tokens.size());
    gate_->take_done(session);
    s.last_error = failure->clone();
    return true;
  }
  if (s.failure.is_ok()) return false;
  s.last_error = s.failure.clone();
  // Logits that are not finite break a session, unless the generation leaves no trace. Limits and a failed device leave it sound.
  bool broken = s.failure.detail() == Detail::kNumeric && !s.generation->before;
  gate_->take_done(session);
  *failure = std::move(s.failure);
  s.failure = Status();
  if (broken) s.state = SessionState::kFailed;
  return true;
}

Result<Event> Driver::next(Session* session, int32_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  auto deadline = timeout_ms < 0 ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(timeout_ms);
  const uint64_t patience_ns = timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms) * kMs;
  Lock lock(lock_->mu);
  gate_->settle(session);
  Event event;
  Status failure;
  for (;;) {
    if (take_event(session, &event, &failure)) {
      if (!failure.is_ok()) return failure;
      return event;
    }
    if (session->state != SessionState::kGenerating) {
      event.type = EventType::kIdle;
      return event;
    }
    if (!session->generation->awaited.empty()) {
      return error(Code::kInvalid, Detail::kState, "next: the session waits for kvrt_session_accept to say what follows position %zu",
                   session->tokens.size() - 1);
    }
    if (timeout_ms == 0 || (timeout_ms > 0 && Clock::now() >= deadline)) return event;
    if (!leader_ && run_step(patience_ns)) continue;
    // Another caller leads; or a save or a resume holds the blocks that it needs, which is rare and short.
    auto until = leader_ ? deadline : std::min(deadline, Clock::now() + kBlocksRetry);
    if (!session->mailbox.empty() || session->state != SessionState::kGenerating || session->generation->finished) continue;
    if (until == Clock::time_point::max()) {
      session->changed.wait(lock_->mu);
    } else {
      session->changed.wait_until(lock_->mu, until);
    }
  }
}

uint32_t Driver::step(uint32_t ms) {
  auto deadline = runtime_.env()->now_ns() + ms * kMs;
  Lock lock(lock_->mu);
  for (;;) {
    uint64_t start = runtime_.env()->now_ns();
    if (leader_) {
      for (const uint64_t seen = steps_led_; steps_led_ == seen;) lock_->step_over.wait(lock_->mu);
    } else if (step_->queue.runnable_count() == 0 || !run_step(ms * kMs)) {
      break;
    }
    uint64_t now = runtime_.env()->now_ns();
    if (now + (now - start) > deadline) break;  // one more step would end late
  }
  return step_->queue.runnable_count();
}

std::optional<uint64_t> Driver::try_step() {
  Lock lock(lock_->mu);
  const uint64_t rows = step_->reports.counters.step_rows;
  if (leader_ || !run_step(0)) return std::nullopt;
  return step_->reports.counters.step_rows - rows;
}

// The caller leads one step, and accepts one of up to patience_ns. False: nothing could run.
bool Driver::run_step(uint64_t patience_ns) {
  leader_ = true;
  bool ran = false;
  try {
    ran = lead(patience_ns);
  } catch (...) {  // memory ran out half-way
    end_step();
    throw;
  }
  end_step();
  ring();
  return ran;
}

bool Driver::lead(uint64_t patience_ns) {
  const uint64_t warm_until = runtime_.env()->now_ns() + step_ms_ * (kMs / 4);  // for a quarter of a step's time
  Session* const cold = step_->queue.next_cold();
  bool ran = cold && warmer_->warm_cold(lock_, cold, warm_until);
  const uint64_t done = step_->reports.counters.done_count();
  if (step_->generations.speculating > 0) step_->speculator.propose(lock_, runtime_, model_, patience_ns);
  if (runtime_.step_mutex().wanted()) patience_ns = 0;  // another model's step waits for this one
  step_->planner.plan(step_->queue.order(), runtime_.env()->now_ns(), patience_ns, &plan_);
  ran |= step_->reports.counters.done_count() > done;
  if (step_->queue.starved()) lock_->pressed.notify_all();
  if (plan_.seqs.empty()) return ran;
  Status computed;
  {
    Unlocked unlocked(lock_->mu);
    computed = runner_->run(&plan_);
  }
  if (computed.is_ok()) {
    step_->committer.commit(&plan_, runner_->logits(), model_.tokenizer(), runtime_.env()->now_ns());
  } else {
    step_->committer.fail_step(&plan_, computed);
  }
  return true;
}

// What is left of the plan is taken back; all who wait for the step look again.
void Driver::end_step() noexcept {
  step_->committer.abandon(&plan_);
  leader_ = false;
  ++steps_led_;
  lock_->step_over.notify_all();
  for (Session* s : step_->queue.sessions()) {
    if (s->state != SessionState::kGenerating) continue;
    // A cancel that came meanwhile waits for the step's commit. There was none if an exception ended the step.
    if (s->generation->cancel && !s->generation->finished) step_->generations.stop(s, runtime_.env()->now_ns());
    s->changed.notify_all();
    if (s->use.take_stepped()) note_activity(s, runtime_.env());  // one that waits for its host is idle
  }
}

}  // namespace kvrt
