#include "runtime/engine/step/generations.h"

#include <utility>

namespace kvrt {

namespace {
constexpr double kLearnTokens = 0.1;
}  // namespace

void Generations::start(Session* s, uint64_t now_ns) {
  Generation& g = *s->generation;
  g.times.begin_ns = now_ns;
  g.prompt_end = g.progress.decoded_end = s->tokens.size() - s->leaves_last();
  g.progress.recompute_all = g.options.prefill_only && g.options.logits == WantLogits::kAll;
  reports_->begin(s);
  s->kv.own_only = false;
  s->state = SessionState::kGenerating;
  speculating += g.speculation != nullptr;
  queue_->begin(s);
  if (!g.options.prefill_only && is_full(*s)) {
    g.report.prompt_tokens = g.report.prefilled = 0;  // nothing is computed
    finish(s, Reason::kContextFull, now_ns);
  }
}

void Generations::finish(Session* s, Reason reason, uint64_t now_ns) {
  try {
    push_done(s, reason, now_ns);
  } catch (...) {
    give_up(s);
  }
}

// Once: finish may turn into give_up half-way.
void Generations::end(Session* s) noexcept {
  Generation& g = *s->generation;
  speculating -= !g.finished && g.speculation;
  g.finished = true;
  g.awaited.clear();
}

void Generations::push_done(Session* s, Reason reason, uint64_t now_ns) {
  Generation& g = *s->generation;
  Report& r = g.report;
  end(s);
  r.reason = reason;
  if (!g.options.prefill_only && !s->drafts) usual_tokens_ += (static_cast<double>(r.generated) - usual_tokens_) * kLearnTokens;
  reports_->set_times(&g, now_ns);
  reports_->set_held(s);
  Event event;
  event.type = EventType::kDone;
  event.text = g.text.finish();
  mailboxes_->push_parts(s, event.text, "", true);
  event.report = r;
  mailboxes_->push(s, std::move(event));
  reports_->sum_up(*s);
}

void Generations::give_up(Session* s) noexcept {
  s->generation->no_memory = true;
  end_without_done(s);
}

void Generations::end_without_done(Session* s) noexcept {
  Generation& g = *s->generation;
  end(s);
  g.report.reason = Reason::kFailed;
  reports_->set_times(&g, g.times.last_token_ns);
  reports_->sum_up(*s);
  mailboxes_->wake(s);
}

void Generations::stop(Session* s, uint64_t now_ns) {
  if (s->use.in_step()) {
    s->generation->cancel = true;
  } else {
    finish(s, Reason::kCancelled, now_ns);
  }
}

void Generations::cancel_finished(Session* s) {
  if (s->mailbox.empty() || s->mailbox.back().type != EventType::kDone) return;  // it failed
  Report& r = s->generation->report;
  if (!s->drafts) {  // as in sum_up
    --reports_->counters.done[static_cast<size_t>(r.reason)];
    ++reports_->counters.done[static_cast<size_t>(Reason::kCancelled)];
  }
  r.reason = Reason::kCancelled;
  r.stop_string_tokens = 0;
  s->mailbox.back().report = r;
}

void Generations::fail(Session* s, Status status) {
  s->failure = std::move(status);
  end_without_done(s);
}

}  // namespace kvrt
