// Actors: prefills and generations, event by event.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/sim/actor.h"

namespace kvrt::test {

namespace {
bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}
// Blocks and sessions that had to make room so far.
uint64_t given_up(Engine* engine) {
  EngineMetrics m = engine->metrics();
  return m.evictions + m.counters.preemptions;
}

}  // namespace

void Actor::prefill() {
  GenerateOptions o;
  o.prefill_only = true;
  o.logits = static_cast<WantLogits>(w_->random->below(3));
  start(std::move(o));
}

void Actor::begin() { start(some_options()); }

// In the middle of a step, by a call that is not the leader's. It is over when the step is.
void Actor::cancel_in_step() {
  w_->engine->driver().cancel(session_);
  running_->cancelled = true;
  w_->note("cancels in a step");
}

void Actor::start(GenerateOptions o) {
  Running run;
  run.options = o;
  run.before = tokens_;
  run.said_before = said_;
  bool opens = o.generation_prompt && !o.prefill_only && !said_.empty() && !said_.back().generated && said_.back().end == tokens_.size();
  const uint64_t pinned = generated_end();
  rows = 0;
  heard_ = bell_ ? bell_->rung.load() : 0;
  run.given_up = given_up(w_->engine);  // first: another thread may evict in between
  run.kv_tokens = w_->engine->sessions().info(session_).kv_tokens;
  if (!w_->alone) run.kv_tokens -= run.kv_tokens % w_->engine->info().kv.block_tokens();  // until it begins its tail can go, uncounted
  Status status = w_->engine->driver().begin(session_, o);
  if (tokens_.size() > w_->room) {
    SIM_CHECK(status.code() == Code::kLimit, "begin with %zu tokens in a room for %zu", tokens_.size(), size_t{w_->room});
    return w_->note("begins of what does not fit");
  }
  if (opens && status.code() == Code::kLimit) return;
  if (opens) {  // single-threaded: no step has run
    tokens_ = w_->engine->conversations().tokens(session_);
    adopt_messages();
    if (status.is_ok()) check_rewrite(run.before, true, pinned == 0);
    w_->note("turns opened");
  }
  SIM_CHECK(status.code() == (tokens_.empty() ? Code::kInvalid : Code::kOk), "begin with %zu tokens: %s", tokens_.size(),
            status.message().c_str());
  if (!status.is_ok()) return;
  run.prompt = tokens_.size();
  for (const SimGrammar& grammar : w_->grammars) {
    if (o.ask.kind == GrammarKind::kGbnf && o.ask.source == grammar.source) run.matcher = std::make_unique<GrammarMatcher>(grammar.masks);
  }
  if (o.sampling.temperature > 0) {  // 0: drawn, and in the report
    run.options.sampling.seed = session_->generation->options.sampling.seed;
    SIM_CHECK(run.options.sampling.seed && (!o.sampling.seed || run.options.sampling.seed == o.sampling.seed), "the seed");
  }
  if (w_->trace) {
    const SamplingOptions& s = o.sampling;
    const SpeculationOptions& p = o.speculation;
    std::printf("  %s%s%s%s, %u to %u proposals\n", run.matcher ? "grammar " : "", p.lookup ? "lookup " : "", p.prediction.c_str(),
                p.draft ? " draft" : "", p.least, p.most);
    std::printf("  begin at %zu: max %u%s%s%s, temperature %g, seed %zu, top_k %u, top_p %g, penalties %g %g %g\n", tokens_.size(),
                o.max_tokens, o.emit_logits ? ", logits" : "", o.host_samples ? ", host" : "", o.all_or_nothing ? ", all or nothing" : "",
                static_cast<double>(s.temperature), size_t{s.seed}, s.top_k, static_cast<double>(s.top_p),
                static_cast<double>(s.repetition_penalty), static_cast<double>(s.frequency_penalty),
                static_cast<double>(s.presence_penalty));
  }
  running_ = std::move(run);
  suspended_ = false;
  w_->note(o.prefill_only ? "prefills" : "generations");
}

void Actor::cancel() {
  SessionInfo before = w_->engine->sessions().info(session_);
  w_->engine->driver().cancel(session_);
  if (!running_) return;
  running_->cancelled = true;
  w_->note("cancels");
  if (!w_->alone) return;
  // No step runs: a generation that was not over is over now, with DONE as the last event.
  SessionInfo info = w_->engine->sessions().info(session_);
  SIM_CHECK(info.unread <= before.unread + 1 && !info.awaits_accept, "cancel: %zu unread events became %zu", size_t{before.unread},
            size_t{info.unread});
  running_->left_after_cancel = info.unread;
}

bool Actor::read(int32_t timeout_ms) {
  Engine* h = w_->engine;
  SessionInfo info = h->sessions().info(session_);
  if (info.awaits_accept && info.unread == 0) {
    if (w_->alone && w_->random->one_in(8)) {
      SIM_CHECK(h->driver().next(session_, timeout_ms).status().code() == Code::kInvalid, "next while accept is due");
      SIM_CHECK(h->driver().accept(session_, -1).code() == Code::kInvalid, "accept of token -1");
    }
    accept();
  }
  auto event = h->driver().next(session_, timeout_ms);
  if (!event.is_ok()) {
    on_failure(event.status());
    return true;
  }
  if (event->type == EventType::kIdle) {
    SIM_CHECK(!running_, "idle while generating");
    return false;
  }
  if (event->type == EventType::kNone) {
    SIM_CHECK(timeout_ms >= 0 && running_, "next came back with nothing");
    SIM_CHECK(running_->left_after_cancel == 0, "cancelled, and no DONE");
    return false;
  }
  SIM_CHECK(running_, "an event of type %u while nothing runs", static_cast<unsigned>(event->type));
  if (w_->alone && bell_ && info.unread == 0 && timeout_ms < 0) SIM_CHECK(bell_->rung > heard_, "a first event, and wake was not called");
  if (w_->alone && bell_ && info.unread > 0) SIM_CHECK(bell_->rung > heard_, "unread events, and wake was not called");
  if (running_->left_after_cancel) --running_->left_after_cancel;
  switch (event->type) {
    case EventType::kProgress:
      SIM_CHECK(event->done <= event->total && event->total <= running_->prompt, "progress %zu of %zu", size_t{event->done},
                size_t{event->total});
      break;
    case EventType::kLogits:
      on_logits(*event);
      break;
    case EventType::kToken:
      on_token(*event);
      break;
    default:
      on_done(*event);
  }
  if (w_->alone && bell_ && h->sessions().info(session_).unread == 0) heard_ = bell_->rung;
  return true;
}

void Actor::accept() {
  Running& g = *running_;
  SIM_CHECK(g.options.host_samples && g.accepted < 0, "accept is due without a question");
  g.accepted = static_cast<int32_t>(w_->random->below(w_->tokenizer->vocab_size()));
  Status status = w_->engine->driver().accept(session_, g.accepted);
  if (!status.is_ok() && !w_->alone) {  // another thread has just cancelled it
    g.accepted = -1;
    return;
  }
  SIM_CHECK(status.is_ok(), "accept: %s", status.message().c_str());
  w_->note("accepted");
}

void Actor::on_logits(const Event& e) {
  Running& g = *running_;
  uint64_t last = tokens_.size() - 1;
  if (g.options.prefill_only) {
    uint64_t want = g.options.logits == WantLogits::kAll ? g.next_logits++ : last;
    SIM_CHECK(e.position == want && g.options.logits != WantLogits::kNone, "logits of position %zu, expected %zu", size_t{e.position},
              size_t{want});
  } else {
    SIM_CHECK(e.position == last && (g.options.emit_logits || g.options.host_samples) && !g.logits_taken,
              "logits of position %zu after %zu tokens", size_t{e.position}, tokens_.size());
    g.logits_taken = true;
  }
  ++g.logits_seen;
  SIM_CHECK(same_bits(e.logits, oracle_row(std::span(tokens_).first(e.position + 1), w_->tokenizer->vocab_size(), w_->windows)),
            "the logits of position %zu of %zu differ", size_t{e.position}, tokens_.size());
  w_->note("rows compared");
}

void Actor::on_token(const Event& e) {
  Running& g = *running_;
  const GenerateOptions& o = g.options;
  SIM_CHECK(g.end == Reason::kNone && !o.prefill_only, "a token after the end");
  SIM_CHECK(g.logits_taken == (o.emit_logits || o.host_samples), "a token without its logits");
  auto row = oracle_row(tokens_, w_->tokenizer->vocab_size(), w_->windows);
  Sample want = o.host_samples ? describe(row, g.accepted, o.sampling.top_logprobs) : oracle_sample(row, o, tokens_, g.prompt, mask());
  SIM_CHECK(e.position == tokens_.size() && e.token == want.token, "token %d at %zu, expected %d at %zu", e.token, size_t{e.position},
            want.token, tokens_.size());
  SIM_CHECK(e.logprob == want.logprob && e.top.size() == want.top.size(), "log probability %g, expected %g", static_cast<double>(e.logprob),
            static_cast<double>(want.logprob));
  tokens_.push_back(e.token);
  g.accepted = -1;
  g.logits_taken = false;
  g.text += e.text;
  if (g.matcher) SIM_CHECK(g.matcher->accept(e.token), "token %d does not fit the grammar", e.token);
  g.end = oracle_end(*w_->tokenizer, o, tokens_, g.prompt, w_->room, &g.stop_tokens);
  w_->note("tokens compared");
}

void Actor::check_report(const Report& r) {
  const Running& g = *running_;
  bool computed = r.prompt_tokens > 0;
  uint64_t generated = tokens_.size() - g.prompt;
  bool wants_logits = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  // Where there are states, the last row waits until its logits are wanted.
  const size_t prompt = g.prompt - (w_->engine->info().kv.shape.has_states() && !wants_logits && g.prompt > 0);
  SIM_CHECK(r.prompt_tokens == (g.prompt >= w_->room && !g.options.prefill_only ? 0 : prompt), "prompt of %zu tokens, expected %zu",
            size_t{r.prompt_tokens}, prompt);
  // One that was cancelled before its first step looked nothing up.
  bool begun = computed && (r.reason != Reason::kCancelled || r.reuse_stopped != ReuseStop::kAll || r.reuse_stopped_at > 0);
  SIM_CHECK(r.prompt_tokens == r.reused_memory + r.reused_disk + r.prefilled, "prompt %zu, memory %zu, disk %zu, prefilled %zu",
            size_t{r.prompt_tokens}, size_t{r.reused_memory}, size_t{r.reused_disk}, size_t{r.prefilled});
  const bool speculates = g.options.speculation.on() && !g.options.prefill_only && !g.options.emit_logits && !g.options.host_samples;
  SIM_CHECK(r.accepted <= r.drafted && r.accepted <= generated && (speculates || r.drafted == 0), "%zu of %zu proposals for %zu tokens",
            size_t{r.accepted}, size_t{r.drafted}, size_t{generated});
  SIM_CHECK(r.generated == generated, "%zu generated, expected %zu", size_t{r.generated}, size_t{generated});
  if (computed && begun && wants_logits) SIM_CHECK(r.prefilled >= 1, "logits without a row");
  if (computed && begun && g.options.logits == WantLogits::kAll) SIM_CHECK(r.prefilled == g.prompt, "reused where every row was wanted");
  if (begun)
    SIM_CHECK((r.reuse_stopped == ReuseStop::kAll) == (r.reuse_stopped_at == prompt) && r.reuse_stopped_at <= prompt,
              "reuse stopped at %zu: %u", size_t{r.reuse_stopped_at}, static_cast<unsigned>(r.reuse_stopped));
  if (r.reuse_stopped == ReuseStop::kWindow) SIM_CHECK(w_->engine->info().kv.shape.has_windows(), "stopped by a window that no layer has");
  if (g.options.sampling.seed) SIM_CHECK(r.seed == g.options.sampling.seed, "the seed");
  if (w_->alone) {  // every row that ran is in the report, once
    uint64_t decodes = generated ? generated - 1 : 0, want = r.prefilled + decodes + r.recomputed + r.drafted - r.accepted;
    bool whole = r.reason != Reason::kCancelled && computed;
    SIM_CHECK(whole ? rows == want : rows <= want + 1,
              "%zu rows ran; %zu prefilled, %zu decoded, %zu recomputed, %zu proposed, %zu of them kept", size_t{rows}, size_t{r.prefilled},
              size_t{decodes}, size_t{r.recomputed}, size_t{r.drafted}, size_t{r.accepted});
  }
  // A state at the end of the prompt is of no use for its last row; and where another thread's session takes the blocks of one that is idle,
  // KV stays in the cache, but no state within a block.
  const bool lost = w_->engine->info().kv.shape.has_states() && (g.kv_tokens == g.prompt || !w_->alone);
  if (g.given_up == given_up(w_->engine) && !lost) {  // its KV in memory stayed there
    SIM_CHECK(r.reused_disk <= from_disk_ + g.prompt - std::min<uint64_t>(g.prompt, g.kv_tokens),
              "%zu tokens from disk; %zu of %zu were in memory", size_t{r.reused_disk}, size_t{g.kv_tokens}, g.prompt);
  }
  if (begun) from_disk_ = 0;
  if (r.recomputed) w_->note("recomputed");
  if (r.reused_disk) w_->note("prompts with blocks from disk");
  if (r.reused_memory) w_->note("prompts with blocks from memory");
  w_->note("reuse stopped: " + std::to_string(static_cast<unsigned>(r.reuse_stopped)));
}

void Actor::on_done(const Event& e) {
  Running& g = *running_;
  const Report& r = e.report;
  g.text += e.text;
  bool empty = tokens_.size() == g.prompt;
  bool expected = false;
  if (g.cancelled && w_->alone) {
    expected = r.reason == Reason::kCancelled;  // also when all was computed, and DONE not yet taken
  } else if (g.end != Reason::kNone && r.reason == g.end) {
    expected = true;
    SIM_CHECK(r.stop_string_tokens == g.stop_tokens, "%u stop tokens, expected %u", r.stop_string_tokens, g.stop_tokens);
  } else if (r.reason == Reason::kCancelled) {
    expected = g.cancelled || !w_->alone;  // others may cancel
  } else if (r.reason == Reason::kPrefilled) {
    uint64_t rows_wanted = g.options.logits == WantLogits::kAll ? g.prompt : g.options.logits == WantLogits::kLast ? 1 : 0;
    expected = g.options.prefill_only && g.logits_seen == rows_wanted;
  } else if (r.reason == Reason::kContextFull) {
    expected = empty && !g.options.prefill_only && g.prompt >= w_->room;
  }
  SIM_CHECK(expected, "done: %u, expected %u", static_cast<unsigned>(r.reason), static_cast<unsigned>(g.end));
  if (!g.options.prefill_only) {
    std::string shown = oracle_shown(*w_->tokenizer, g.options, tokens_, g.prompt);
    SIM_CHECK(g.text == shown, "text \"%s\", expected \"%s\"", g.text.c_str(), shown.c_str());
  }
  check_report(r);
  static const char* const kReasons[] = {
      "", "done: eos", "done: stop", "done: max_tokens", "done: context full", "done: cancelled", "done: prefilled", ""};
  w_->note(kReasons[static_cast<size_t>(r.reason)]);
  leave(r.reason);
  check();
}

void Actor::on_failure(const Status& status) {
  SIM_CHECK(running_, "next: %s", status.message().c_str());
  Running& g = *running_;
  auto row = oracle_row(tokens_, w_->tokenizer->vocab_size(), w_->windows);
  bool nan = std::any_of(row.begin(), row.end(), [](float x) { return std::isnan(x); });
  bool banned = !nan && !g.options.host_samples && oracle_sample(row, g.options, tokens_, g.prompt, mask()).empty;
  Code want = nan ? Code::kDevice : banned ? Code::kInvalid : Code::kOk;
  SIM_CHECK(status.code() == want && g.end == Reason::kNone && !g.options.prefill_only, "next: %s", status.message().c_str());
  failed_ = nan && !g.options.all_or_nothing;
  w_->note("failed");
  leave(Reason::kFailed);
  check();
}

// Leaves the session as it is when a generation is over.
void Actor::leave(Reason reason) {
  Running g = std::move(*running_);
  running_.reset();
  // A generation that did not come to its end may have loaded tokens that its report does not have.
  if (reason == Reason::kCancelled || reason == Reason::kFailed) from_disk_ += g.prompt;
  if (g.options.all_or_nothing && (reason == Reason::kCancelled || reason == Reason::kFailed)) {
    tokens_ = g.before;
    said_ = g.said_before;
    w_->note("undone");
  } else {
    const size_t turns = said_.size();
    if (add_said(tokens_, g, &said_)) w_->note(said_.size() > turns ? "generated turns" : "generated turns gone on");
  }
}

bool Actor::add_said(std::span<const int32_t> tokens, const Running& g, std::vector<Said>* said) const {
  if (said->empty() || g.options.prefill_only || tokens.size() <= g.prompt || said->back().end > g.prompt) return false;
  const bool goes_on = said->back().generated && said->back().end == g.prompt;
  const uint64_t begin = goes_on ? said->back().begin : g.prompt;
  if (goes_on) said->pop_back();
  said->push_back({"assistant", oracle_answer(*w_->tokenizer, g.options, tokens, begin, g.prompt), begin, tokens.size(), true});
  return true;
}

}  // namespace kvrt::test
