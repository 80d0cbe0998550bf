// The scheduler's second half: what a finished step means to each session.
#include <algorithm>

#include "runtime/engine/scheduler.h"

namespace kvrt {

namespace {
double ms_between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) * 1e-6 : 0.0; }
}  // namespace

void Scheduler::mark_filled(const PlannedSeq& seq) {
  if (!seq.store_kv) return;
  Session* s = seq.session;
  for (auto i = static_cast<uint32_t>(seq.begin / block_tokens_); uint64_t{i} * block_tokens_ < seq.end; ++i) {
    auto filled = static_cast<uint32_t>(std::min<uint64_t>(block_tokens_, seq.end - uint64_t{i} * block_tokens_));
    s->table.set_filled(i, filled);
    if (filled == block_tokens_) seal(s, i);
  }
}

void Scheduler::commit_prompt(const PlannedSeq& seq, const float* logits, uint32_t vocab) {
  Session* s = seq.session;
  Generation& g = *s->generation;
  g.computed += seq.end - seq.begin;
  if (g.recompute_all) g.next_logits = seq.end;
  if (g.options.prefill_only && g.options.logits != WantLogits::kNone) {
    for (uint32_t r = 0; r < seq.logit_rows; ++r) {
      const float* row = logits + size_t{seq.first_logit + r} * vocab;
      Event event;
      event.type = EventType::kLogits;
      event.position = seq.end - seq.logit_rows + r;
      event.logits.assign(row, row + vocab);
      s->mailbox.push_back(std::move(event));
    }
  }
  Event event;
  event.type = EventType::kProgress;
  event.done = std::min(g.computed, g.report.prefilled);
  event.total = g.report.prefilled;
  s->mailbox.push_back(std::move(event));
}

void Scheduler::commit_token(Session* s, const Sample& sample, const float* row, const Tokenizer& tokenizer, uint64_t now_ns) {
  Generation& g = *s->generation;
  if (!sample.finite) {
    fail(s, error(Code::kDevice, Detail::kNumeric, "logits of position %zu hold a NaN or an infinity; the session keeps its %zu tokens",
                  s->tokens.size() - 1, s->tokens.size()));
    return;
  }
  if (g.options.emit_logits) {
    Event logits;
    logits.type = EventType::kLogits;
    logits.position = s->tokens.size() - 1;
    logits.logits.assign(row, row + tokenizer.vocab_size());
    s->mailbox.push_back(std::move(logits));
  }
  if (!g.first_token_ns) g.first_token_ns = now_ns;
  g.last_token_ns = now_ns;
  ++g.report.generated;
  s->tokens.push_back(sample.token);
  Event event;
  event.type = EventType::kToken;
  event.token = sample.token;
  event.position = s->tokens.size() - 1;
  event.logprob = sample.logprob;
  event.text = g.text.push(tokenizer.piece(sample.token, false));
  s->mailbox.push_back(std::move(event));

  const auto& stops = g.options.stop_tokens;
  if (tokenizer.is_end(sample.token) && !g.options.ignore_eos) {
    finish(s, Reason::kEos, now_ns);
  } else if (g.text.stopped() || std::find(stops.begin(), stops.end(), sample.token) != stops.end()) {
    g.report.stop_tokens = g.text.stop_tokens();
    finish(s, Reason::kStop, now_ns);
  } else if (g.options.max_tokens && g.report.generated >= g.options.max_tokens) {
    finish(s, Reason::kMaxTokens, now_ns);
  } else if (s->tokens.size() >= limits_.context) {
    finish(s, Reason::kContextFull, now_ns);
  }
}

void Scheduler::commit(StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns) {
  uint32_t vocab = tokenizer.vocab_size();
  for (const PlannedSeq& seq : plan->seqs) {
    Session* s = seq.session;
    Generation& g = *s->generation;
    s->in_step = false;
    mark_filled(seq);
    if (s->cancel) {
      finish(s, Reason::kCancelled, now_ns);
      continue;
    }
    if (seq.begin < g.prompt_end) commit_prompt(seq, logits, vocab);
    if (seq.end < s->tokens.size()) continue;
    bool prompt_over = g.recompute_all || s->table.first_missing(g.prompt_end) == g.prompt_end;
    if (g.options.prefill_only) {
      if (prompt_over && (g.options.logits == WantLogits::kNone || seq.logit_rows)) finish(s, Reason::kPrefilled, now_ns);
    } else if (seq.logit_rows) {
      size_t row = seq.first_logit;
      commit_token(s, plan->samples[row], logits + row * vocab, tokenizer, now_ns);
    }
  }
}

void Scheduler::finish(Session* s, Reason reason, uint64_t now_ns) {
  Generation& g = *s->generation;
  Report& r = g.report;
  g.finished = true;
  s->cancel = false;
  r.reason = reason;
  uint64_t first = g.first_step_ns ? g.first_step_ns : now_ns, token = g.first_token_ns ? g.first_token_ns : now_ns;
  r.queue_ms = ms_between(g.begin_ns, first);
  r.prefill_ms = ms_between(first, token);
  r.ttft_ms = g.first_token_ns ? ms_between(g.begin_ns, token) : 0;
  r.decode_ms = g.first_token_ns ? ms_between(token, g.last_token_ns) : 0;
  r.kv_blocks = s->table.blocks_held();
  r.kv_bytes = r.kv_blocks * block_bytes;
  Event event;
  event.type = EventType::kDone;
  event.text = g.text.finish();
  event.report = r;
  s->mailbox.push_back(std::move(event));
}

void Scheduler::fail(Session* s, Status status) {
  s->generation->finished = true;
  s->generation->report.reason = Reason::kFailed;
  s->cancel = false;
  s->failure = std::move(status);
}

}  // namespace kvrt
