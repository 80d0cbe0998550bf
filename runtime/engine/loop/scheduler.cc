#include "runtime/engine/loop/scheduler.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt {

void StepPlan::clear() {
  seqs.clear();
  clears.clear();
  copies.clear();
  tokens.clear();
  positions.clear();
  logits_rows.clear();
  step_seqs.clear();
  tables.clear();
  samples.clear();
  decodes = 0;
  prompt_cost = 0;
}

Scheduler::Scheduler(KvCache* cache, const SchedulerLimits& limits)
    : cache_(cache), block_tokens_(cache->block_tokens()), limits_(limits), pace_(limits.step_ms_max, limits.context_cost) {
  limits_.context = static_cast<uint32_t>(std::min<uint64_t>(limits_.context, uint64_t{cache->size()} * block_tokens_));
}

void Scheduler::add(Session* session) { sessions_.push_back(session); }

void Scheduler::remove(Session* session) {
  cache_->release(&session->kv, 0);
  session->kv.chain.clear();
  for (Session** at = &woken_; *at; at = &(*at)->next_woken) {
    if (*at != session) continue;
    *at = session->next_woken;
    break;
  }
  sessions_.erase(std::find(sessions_.begin(), sessions_.end(), session));
  if (starved_ == session) starved_ = nullptr;
}

bool Scheduler::runnable(const Session& s) const {
  return s.state == SessionState::kGenerating && !s.generation->finished && s.generation->awaited.empty() &&
         s.mailbox.size() < kUnreadEventsMax;
}

uint32_t Scheduler::runnable_count() const {
  return static_cast<uint32_t>(std::count_if(sessions_.begin(), sessions_.end(), [&](const Session* s) { return runnable(*s); }));
}

void Scheduler::start(Session* s, uint64_t now_ns) {
  Generation& g = *s->generation;
  g.order = ++begun_;
  g.begin_ns = now_ns;
  g.prompt_end = g.decoded_end = s->tokens.size();
  g.recompute_all = g.options.prefill_only && g.options.logits == WantLogits::kAll;
  g.report.prompt_tokens = g.report.prefilled = g.prompt_end;  // all is to be computed until count_reuse counted the rest
  g.report.seed = g.options.sampling.seed;
  g.report.pool_bytes_begin = pool_bytes_used();
  s->kv.own_only = false;
  s->state = SessionState::kGenerating;
  ++(g.options.prefill_only ? counters_.prefills : counters_.generations);
  touch(s);
  if (!g.options.prefill_only && s->tokens.size() >= limits_.context) {
    g.report.prompt_tokens = g.report.prefilled = 0;  // nothing is computed
    finish(s, Reason::kContextFull, now_ns);
  }
}

// The rows that a session needs next: its first hole; or, if all its KV is there, its last token again, as a query alone.
Scheduler::Run Scheduler::next_run(const Session& s) const {
  const Generation& g = *s.generation;
  uint64_t n = s.tokens.size();
  if (g.recompute_all) {
    uint64_t lost = s.kv.table.first_missing(g.next_logits);  // it had to give up its blocks
    if (lost < g.next_logits) return {lost, g.next_logits, true};
    return {g.next_logits, n, true};
  }
  uint64_t begin = s.kv.table.first_missing(n);
  if (begin < n) return {begin, s.kv.table.missing_end(begin, n), true};
  return {n - 1, n, false};
}

// Decodes first, one row each: they do not wait for a prompt. A starved session comes before all, so that younger sessions give way.
std::vector<Session*> Scheduler::order_of_service() {
  std::vector<Session*> order;
  for (Session* s : sessions_) {
    if (runnable(*s) && s->use.may_step() && s->generation->warmed) order.push_back(s);
  }
  if (order.empty()) return order;
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn_++ % order.size()), order.end());
  std::stable_partition(order.begin(), order.end(), [&](Session* s) {
    Run run = next_run(*s);
    return run.end - run.begin == 1;
  });
  auto starved = std::find(order.begin(), order.end(), starved_);
  if (starved != order.end()) std::rotate(order.begin(), starved, starved + 1);
  return order;
}

// Two sessions that need the same block at once compute it once: the second waits for it, and adopts it when it is sealed.
bool Scheduler::waits_for_other(Session* s, const Run& run) {
  if (!s->kv.adopts() || s->generation->recompute_all || !run.store_kv) return false;
  auto i = run.begin / block_tokens_;
  if (i >= s->kv.chain.size()) return false;  // no other session has the same tail
  auto claim = claimed_.find(s->kv.chain[i].get());
  return claim != claimed_.end() && claim->second != s;
}

// Gives the run blocks of its own as far as the pool has them. Returns the end of the writable part. Of a block that is to be written, what
// stands before the run counts as filled, and nothing after it: a save beside the step must not take what is copied or written meanwhile.
uint64_t Scheduler::make_writable(Session* s, const Run& run, StepPlan* plan) {
  for (auto i = static_cast<uint32_t>(run.begin / block_tokens_); uint64_t{i} * block_tokens_ < run.end; ++i) {
    BlockId have = s->kv.table.block(i);
    const uint32_t filled = s->kv.table.filled(i);
    const auto stays = static_cast<uint32_t>(std::min<uint64_t>(filled, run.begin - std::min(run.begin, uint64_t{i} * block_tokens_)));
    plan->clears.reserve(plan->clears.size() + 1);
    plan->copies.reserve(plan->copies.size() + 1);  // before any change: it needs memory
    if (have != kNoBlock && cache_->writable(have)) {
      if (cache_->is_foreign(have) && !filled) plan->clears.push_back(have);  // its step was planned but never ran
      s->kv.table.set_filled(i, stays);
      continue;
    }
    s->kv.table.grow(i + 1);
    BlockId fresh = alloc(s);
    if (fresh == kNoBlock && have != kNoBlock && cache_->unshare(have)) {  // nobody else needs it as it was
      s->kv.table.set_filled(i, stays);
      continue;
    }
    if (fresh == kNoBlock) return std::max(run.begin, uint64_t{i} * block_tokens_);
    if (cache_->is_foreign(fresh) && !filled) plan->clears.push_back(fresh);
    if (have != kNoBlock && filled) {
      plan->copies.push_back({have, fresh, s, i});  // copies run before any write; the reference is kept until then
    } else if (have != kNoBlock) {
      cache_->drop(have);
    }
    s->kv.table.set(i, fresh, stays);
  }
  return run.end;
}

void Scheduler::add_rows(Session* s, const Run& run, StepPlan* plan) {
  const Generation& g = *s->generation;
  bool decides = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  plan->seqs.reserve(plan->seqs.size() + 1);
  PlannedSeq seq{s, run.begin, run.end, run.store_kv, static_cast<uint32_t>(plan->logits_rows.size()), 0};
  auto first_row = static_cast<uint32_t>(plan->tokens.size());
  for (uint64_t p = run.begin; p < run.end; ++p) {
    plan->tokens.push_back(s->tokens[p]);
    plan->positions.push_back(static_cast<int32_t>(p));
    if ((g.recompute_all && p >= g.next_logits) || (decides && p + 1 == s->tokens.size())) {
      plan->logits_rows.push_back(static_cast<uint32_t>(plan->tokens.size()) - 1);
      ++seq.logit_rows;
    }
  }
  for (uint64_t i = run.begin / block_tokens_; s->kv.share && i < s->kv.chain.size() && i * block_tokens_ < run.end; ++i) {
    claimed_.emplace(s->kv.chain[i].get(), s);
  }
  plan->seqs.push_back(seq);
  s->use.enter_step();  // with its place in the plan: abandon() takes both back
  plan->tables.emplace_back(s->kv.table.data(), s->kv.table.data() + s->kv.table.size());
  plan->step_seqs.push_back(
      {first_row, static_cast<uint32_t>(run.end - run.begin), static_cast<int32_t>(run.begin), nullptr, 0, run.store_kv});
}

// Adds as many of the session's next rows as fit. False: it got no block.
bool Scheduler::plan_session(Session* s, StepPlan* plan) {
  Generation& g = *s->generation;
  Run run = next_run(*s);
  if (waits_for_other(s, run)) return true;
  bool decodes = run.end - run.begin == 1;
  uint64_t rows = std::min<uint64_t>({run.end - run.begin, limits_.rows_max - plan->tokens.size(), limits_.prefill_chunk});
  uint64_t logits_left = limits_.logits_max - plan->logits_rows.size();
  if (g.recompute_all) rows = std::min<uint64_t>({rows, logits_left, kUnreadEventsMax - s->mailbox.size()});
  if (!decodes) {
    if (budget_ < 1 && !plan->tokens.empty()) return true;  // the step is full
    rows = std::min(rows, pace_.rows(run.begin, budget_));
    uint64_t edge = (run.begin + rows) / block_tokens_ * block_tokens_;  // whole blocks, if there is a choice: others can adopt them
    if (run.begin + rows < run.end && edge >= run.begin + (rows + 1) / 2) rows = edge - run.begin;
  }
  bool decides = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  if (decides && logits_left == 0 && run.begin + rows == s->tokens.size()) --rows;
  if (rows == 0) return true;
  run.end = run.begin + rows;
  if (run.store_kv) run.end = make_writable(s, run, plan);
  if (run.end == run.begin) return false;
  if (decodes) {
    ++plan->decodes;
  } else {
    double cost = pace_.cost(run.begin, run.end);
    plan->prompt_cost += cost;
    budget_ -= cost;
  }
  add_rows(s, run, plan);
  return true;
}

// True while pinned blocks will come back: a save copies them out, or a resume reads into them.
bool Scheduler::blocks_come_back() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const Session* s) { return s->use.pinned(); });
}

// A prefill that wants no logits ends when all its KV is there.
bool Scheduler::finish_prefill(Session* s, uint64_t now_ns) {
  const GenerateOptions& o = s->generation->options;
  if (!o.prefill_only || o.logits != WantLogits::kNone || s->kv.table.first_missing(s->tokens.size()) < s->tokens.size()) return false;
  finish(s, Reason::kPrefilled, now_ns);
  return true;
}

// The prompt cost that a step of these sessions may include.
double Scheduler::budget_for(const std::vector<Session*>& order, uint64_t patience_ns) {
  Pace::Ask ask{.patience_ns = patience_ns};
  bool prompt = false;
  for (Session* s : order) {
    Run run = next_run(*s);
    bool decodes = run.end - run.begin == 1;
    ask.decodes += decodes;
    if (!decodes && !std::exchange(prompt, true)) ask.begin = run.begin;
    // A session within a block of its own goes on with it. A shared block needs a copy first, for which there may be no block.
    auto i = static_cast<uint32_t>(run.begin / block_tokens_);
    bool within = run.store_kv && s->kv.table.filled(i) > 0 && cache_->writable(s->kv.table.block(i));
    if (s->kv.share && within && i < s->kv.chain.size()) claimed_.emplace(s->kv.chain[i].get(), s);
  }
  // Sessions that wait for their host count, too: it may answer at once.
  ask.alone = std::count_if(sessions_.begin(), sessions_.end(),
                            [](const Session* s) { return s->state == SessionState::kGenerating && !s->generation->finished; }) == 1;
  return pace_.budget(ask);
}

void Scheduler::plan(StepPlan* plan, uint64_t now_ns, uint64_t patience_ns) {
  plan->clear();
  plan->planned_ns = now_ns;
  std::vector<Session*> order = order_of_service();
  claimed_.clear();
  budget_ = budget_for(order, patience_ns);
  Session* starved = nullptr;
  for (Session* s : order) {
    if (!runnable(*s) || !s->generation->warmed) continue;  // it gave its blocks to another session of this plan
    s->last_used = ++clock_;
    if (!s->generation->recompute_all) {
      uint64_t had = s->kv.table.covered(s->tokens.size());
      cache_->adopt(&s->kv, s->tokens);
      if (s->kv.table.covered(s->tokens.size()) > had) count_reuse(s);
    }
    if (finish_prefill(s, now_ns) || plan->tokens.size() >= limits_.rows_max) continue;
    if (!plan_session(s, plan)) {
      if (!starved || s->generation->order < starved->generation->order) starved = s;
    } else if (s->use.in_step() && !s->generation->first_step_ns) {
      s->generation->first_step_ns = now_ns;
    }
  }
  starved_ = starved;
  // Only the oldest has had every block it can get: any other waits for those that began before it.
  bool oldest = starved && std::none_of(sessions_.begin(), sessions_.end(), [&](const Session* s) {
                  return runnable(*s) && s->generation->order < starved->generation->order;
                });
  if (oldest && plan->seqs.empty() && !blocks_come_back()) {
    fail(starved, error(Code::kLimit, Detail::kNone,
                        "the pool of %u KV blocks of %u tokens has none left for this session of %zu tokens: raise kv_bytes_max of "
                        "model_open, or close sessions",
                        cache_->size(), block_tokens_, starved->tokens.size()));
  }
  for (size_t i = 0; i < plan->seqs.size(); ++i) {
    plan->step_seqs[i].blocks = plan->tables[i].data();
    plan->step_seqs[i].n_blocks = static_cast<uint32_t>(plan->tables[i].size());
  }
  plan->step = {plan->step_seqs, plan->tokens, plan->positions, plan->logits_rows};
}

}  // namespace kvrt
