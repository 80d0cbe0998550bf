#include "runtime/engine/step/committer.h"

#include <algorithm>
#include <cmath>

namespace kvrt {

namespace {
// The options that left no token, as a subject with its verb. A host that samples applies logit_bias itself.
const char* banning(const Generation& g) {
  if (!g.guide) return "logit_bias leaves";
  return g.options.host_samples || g.options.sampling.logit_bias.empty() ? "the grammar leaves" : "logit_bias and the grammar leave";
}

// The places of a table up to the last one with some KV.
uint32_t places_used(const BlockTable& table) {
  uint32_t end = table.size();
  while (end > 0 && table.filled(end - 1) == 0) --end;
  return end;
}

}  // namespace

// Positions [begin, end) of the run have their KV. A state is there only after the run's last row.
void Committer::take_rows(const PlannedSeq& seq, uint64_t begin, uint64_t end) {
  Session* s = seq.session;
  for (uint32_t group = 0; group < s->kv.shape.n_groups; ++group) {
    const bool state = s->kv.shape.groups[group].state;
    if ((seq.run.stores >> group & 1) == 0 || (state && end < seq.run.end)) continue;
    BlockTable& table = s->kv.tables[group];
    for (auto i = static_cast<uint32_t>((state ? end - 1 : begin) / block_tokens_); uint64_t{i} * block_tokens_ < end; ++i) {
      const auto filled = static_cast<uint32_t>(std::min<uint64_t>(block_tokens_, end - uint64_t{i} * block_tokens_));
      table.set_filled(i, filled);
      cache_->overwritten(table.block(i), s->kv);
      if (filled == block_tokens_) cache_->seal(&s->kv, s->tokens, group, i);
    }
  }
  cache_->boundaries().roll(&s->kv, s->tokens.size(), end);
  Reports::account(s->generation.get(), begin, end);
}

void Committer::commit_prompt(const PlannedSeq& seq, const float* logits, uint32_t vocab) {
  Session* s = seq.session;
  Generation& g = *s->generation;
  if (g.progress.recompute_all) g.progress.next_logits = std::max(g.progress.next_logits, seq.run.end);
  if (g.options.prefill_only && g.options.logits != WantLogits::kNone) {
    for (uint32_t r = 0; r < seq.logit_rows; ++r) {
      const float* row = logits + size_t{seq.first_logit + r} * vocab;
      Event event;
      event.type = EventType::kLogits;
      event.position = seq.run.end - seq.logit_rows + r;
      event.logits.assign(row, row + vocab);
      mailboxes_->push(s, std::move(event));
    }
  }
  Event event;
  event.type = EventType::kProgress;
  event.done = g.progress.computed;
  event.total = g.report.prefilled;
  mailboxes_->push(s, std::move(event));
}

// After logits that are not finite: reused KV may be the cause. It is dropped, for all sessions, and this one computes its own, once.
// False: it did already, or reused none.
bool Committer::compute_again(Session* s) {
  Generation& g = *s->generation;
  if (s->kv.own_only || g.report.reused_memory + g.report.reused_disk == 0) return false;
  cache_->discard(&s->kv, s->tokens);
  s->kv.own_only = true;
  g.warmed = g.admitted = false;
  g.report.reuse_stopped = ReuseStop::kDamaged;
  g.report.reuse_stopped_at = 0;
  s->stored.suspect = s->store != nullptr;
  return true;
}

// Takes the row of the last token: kvrt commits the token it drew, or asks the host for one. True: the answer goes on with a token.
bool Committer::commit_row(Session* s, Sample sample, const float* row, const Tokenizer& tokenizer, uint64_t now_ns) {
  Generation& g = *s->generation;
  std::span<const uint64_t> mask;  // for the host alone: kvrt's own sampler has applied it
  if (g.guide && g.options.host_samples) {
    mask = g.guide->mask();
    sample.empty = !mask.empty() && std::all_of(mask.begin(), mask.end(), [](uint64_t word) { return word == 0; });
  }
  if (!sample.finite) {
    if (compute_again(s)) return false;
    generations_->fail(s, error(Code::kDevice, Detail::kNumeric,
                                "logits of position %zu hold a NaN or an infinity: the model's weights may hold one, or the device failed",
                                s->tokens.size() - 1));
    return false;
  }
  if (sample.empty) {
    Status limit = g.guide ? g.guide->status() : Status();  // the grammar may have been too ambiguous to follow
    generations_->fail(s, !limit.is_ok()
                              ? std::move(limit)
                              : error(Code::kInvalid, Detail::kNone, "%s no token for position %zu", banning(g), s->tokens.size()));
    return false;
  }
  if (g.options.emit_logits || g.options.host_samples) {
    Event logits;
    logits.type = EventType::kLogits;
    logits.position = s->tokens.size() - 1;
    logits.logits.assign(row, row + tokenizer.vocab_size());
    if (g.options.host_samples) g.awaited = logits.logits;
    if (!mask.empty()) apply_mask(logits.logits, mask);
    mailboxes_->push(s, std::move(logits));
  }
  if (g.options.host_samples) return false;
  commit_token(s, sample, tokenizer, now_ns);
  return !g.finished;
}

// Of an answer's rows with logits the first is that of its last token. The others are of tokens that were proposed to follow: each is kept as
// long as it is the one that was taken after the row before, and the session would have gone on.
void Committer::commit_rows(const PlannedSeq& seq, StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns) {
  Session* s = seq.session;
  const size_t end = seq.first_logit + seq.logit_rows;
  for (size_t row = seq.first_logit; row < end; ++row) {
    const uint64_t at = s->tokens.size() - 1;
    if (row > seq.first_logit) {
      if (s->tokens.back() != plan->tokens[plan->logits_rows[row]] || s->mailbox.size() >= kUnreadEventsMax) return;
      ++s->generation->report.accepted;
      marker_->stop_at_boundary(s, {at, at + 1, seq.run.stores});
      take_rows(seq, at, at + 1);
    }
    if (plan->samples[row].no_memory) return generations_->give_up(s);
    if (!commit_row(s, std::move(plan->samples[row]), logits + row * tokenizer.vocab_size(), tokenizer, now_ns)) return;
  }
}

void Committer::accept(Session* s, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns) {
  s->generation->awaited.clear();
  try {
    commit_token(s, sample, tokenizer, now_ns);
  } catch (...) {
    generations_->give_up(s);
  }
}

void Committer::commit_token(Session* s, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns) {
  Generation& g = *s->generation;
  if (!g.times.first_token_ns) reports_->first_token(&g, now_ns);
  g.times.last_token_ns = now_ns;
  ++g.report.generated;
  int32_t previous = s->tokens.empty() ? -1 : s->tokens.back();
  s->tokens.push_back(sample.token);
  Event event;
  event.type = EventType::kToken;
  event.token = sample.token;
  event.position = s->tokens.size() - 1;
  event.logprob = sample.logprob;
  event.top = sample.top;
  const bool control = tokenizer.is_control(sample.token);
  event.text = control && g.parser ? g.text.flush() : std::string();  // a control token ends a part: it may be a marker
  event.text += g.text.push(tokenizer.piece_after(previous, sample.token, false));
  const std::string text = g.parser ? event.text : std::string();
  mailboxes_->push(s, std::move(event));
  mailboxes_->push_parts(s, text, control ? tokenizer.piece(sample.token, true) : "", false);
  if (g.guide) g.guide->accept(sample.token);  // it was in the mask

  const auto& stops = g.options.stop_tokens;
  if (tokenizer.is_end(sample.token) && !g.options.ignore_eos) {
    finish(s, Reason::kEos, now_ns);
  } else if (g.text.stopped() || std::find(stops.begin(), stops.end(), sample.token) != stops.end()) {
    g.report.stop_string_tokens = g.text.stop_tokens();
    finish(s, Reason::kStop, now_ns);
  } else if (g.options.max_tokens && g.report.generated >= g.options.max_tokens) {
    finish(s, Reason::kMaxTokens, now_ns);
  } else if (generations_->is_full(*s)) {
    finish(s, Reason::kContextFull, now_ns);
  }
}

void Committer::commit(StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns) {
  const uint64_t elapsed = now_ns - plan->planned_ns;
  Counters& counters = reports_->counters;
  ++counters.steps;
  counters.step_rows += plan->tokens.size();
  counters.step_ns += elapsed;
  counters.step_ns_longest = std::max(counters.step_ns_longest, elapsed);
  for (const BlockCopy& copy : plan->copies) cache_->drop(copy.from);
  plan->copies.clear();
  if (generations_->speculating > 0) speculator_->measured(plan->decodes, plan->prompt_cost > 0, plan->work_ns);
  for (const PlannedSeq& seq : plan->seqs) {
    seq.session->use.leave_step();
    seq.session->generation->report.drafted += seq.proposed;
    try {
      commit_seq(seq, plan, logits, tokenizer, now_ns);
    } catch (...) {  // no memory: its host's events of this step are not whole
      generations_->give_up(seq.session);
    }
    if (seq.proposed > 0) give_back_ahead(seq.session);
  }
  plan->seqs.clear();
  pace_->measured(plan->decodes, plan->prompt_cost, plan->work_ns, plan->wall_ns);
}

// The blocks that were taken for proposed tokens alone, none of which came.
void Committer::give_back_ahead(Session* s) noexcept {
  const auto blocks = static_cast<uint32_t>((s->tokens.size() + block_tokens_ - 1) / block_tokens_);
  for (BlockTable& table : s->kv.tables) {
    for (uint32_t i = places_used(table); i < table.size(); ++i) {
      if (table.block(i) == kNoBlock) continue;
      cache_->drop(table.block(i));
      table.set(i, kNoBlock, 0);
    }
    table.shrink(blocks);
  }
}

// The report counts what the session holds without proposals.
void Committer::finish(Session* s, Reason reason, uint64_t now_ns) {
  if (s->generation->speculation) give_back_ahead(s);
  generations_->finish(s, reason, now_ns);
}

void Committer::commit_seq(const PlannedSeq& seq, StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns) {
  Session* s = seq.session;
  Generation& g = *s->generation;
  uint32_t vocab = tokenizer.vocab_size();
  const uint64_t computed = g.progress.computed;
  take_rows(seq, seq.run.begin, std::min<uint64_t>(seq.run.end, s->tokens.size()));
  if (g.cancel) {
    if (seq.proposed > 0) give_back_ahead(s);
    return generations_->finish(s, Reason::kCancelled, now_ns);
  }
  if (seq.logit_rows && g.options.prefill_only) {
    const float* rows = logits + size_t{seq.first_logit} * vocab;
    const bool finite = std::all_of(rows, rows + size_t{seq.logit_rows} * vocab, [](float x) { return std::isfinite(x); });
    if (!finite && compute_again(s)) return;
  }
  if (g.progress.computed > computed || (seq.logit_rows && g.options.prefill_only)) commit_prompt(seq, logits, vocab);
  if (seq.run.end < s->tokens.size() - s->leaves_last()) return;
  if (g.options.prefill_only) {
    const bool has_states = s->kv.shape.has_states();  // all before the last row had to be there
    const bool over = g.progress.recompute_all || has_states || s->kv.ready(s->tokens.size()) == s->tokens.size();
    if (over && (!g.options.wants_logits() || seq.logit_rows)) generations_->finish(s, Reason::kPrefilled, now_ns);
  } else if (seq.logit_rows) {
    commit_rows(seq, plan, logits, tokenizer, now_ns);
  }
}

void Committer::abandon(StepPlan* plan) noexcept {
  for (const BlockCopy& copy : plan->copies) {
    cache_->release(&copy.session->kv, copy.index);
    cache_->drop(copy.from);
  }
  plan->copies.clear();
  for (const PlannedSeq& seq : plan->seqs) {
    seq.session->use.leave_step();
    if (seq.run.stores) cache_->release(&seq.session->kv, static_cast<uint32_t>(seq.run.begin / block_tokens_));
    if (seq.proposed > 0) give_back_ahead(seq.session);
  }
  plan->seqs.clear();
}

void Committer::fail_step(StepPlan* plan, const Status& status) {
  std::vector<Session*> ran;
  for (const PlannedSeq& seq : plan->seqs) ran.push_back(seq.session);
  abandon(plan);
  for (Session* s : ran) generations_->fail(s, status.clone());
}

}  // namespace kvrt
