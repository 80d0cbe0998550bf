#include "runtime/engine/scheduler.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt {

void StepPlan::clear() {
  seqs.clear();
  copies.clear();
  tokens.clear();
  positions.clear();
  logits_rows.clear();
  step_seqs.clear();
  tables.clear();
  samples.clear();
}

Scheduler::Scheduler(uint32_t blocks, uint32_t block_tokens, const SchedulerLimits& limits)
    : pool_(blocks), block_tokens_(block_tokens), limits_(limits) {}

void Scheduler::add(Session* session) { sessions_.push_back(session); }

void Scheduler::remove(Session* session) {
  release_blocks(session, 0);
  sessions_.erase(std::find(sessions_.begin(), sessions_.end(), session));
}

bool Scheduler::runnable(const Session& s) const {
  return s.state == SessionState::kGenerating && !s.generation->finished && s.mailbox.size() < kUnreadEventsMax;
}

Session* Scheduler::next_cold() const {
  auto cold = std::find_if(sessions_.begin(), sessions_.end(), [&](const Session* s) { return runnable(*s) && !s->generation->warmed; });
  return cold == sessions_.end() ? nullptr : *cold;
}

std::span<const int32_t> Scheduler::block_tokens_of(const Session& s, uint32_t i) const {
  return std::span(s.tokens).subspan(size_t{i} * block_tokens_, block_tokens_);
}

void Scheduler::extend_keys(Session* s) {
  while ((s->keys.size() + 1) * block_tokens_ <= s->tokens.size()) {
    auto i = static_cast<uint32_t>(s->keys.size());
    s->keys.push_back(chain_key(i ? s->keys[i - 1] : s->root, block_tokens_of(*s, i)));
  }
}

// ---- blocks

void Scheduler::drop(BlockId block) { pool_.unref(block, index_.contains(block)); }

// Last block first: leaves of the prefix tree are the oldest in the LRU, so that a chain is given up from its end.
void Scheduler::release_blocks(Session* s, uint32_t from_block) {
  for (uint32_t i = s->table.size(); i-- > from_block;) {
    if (s->table.block(i) != kNoBlock) drop(s->table.block(i));
  }
  s->table.shrink(from_block);
}

BlockId Scheduler::alloc(const Session* for_session) {
  for (;;) {
    BlockId block = pool_.alloc();
    if (block != kNoBlock) return block;
    BlockId oldest = pool_.oldest_cached();
    if (oldest != kNoBlock) {
      index_.erase(oldest);
      pool_.evict(oldest);
      continue;
    }
    Session* victim = nullptr;
    for (Session* s : sessions_) {
      bool busy =
          s == for_session || s->pins || s->table.blocks_held() == 0 || (s->state == SessionState::kGenerating && !s->generation->finished);
      if (!busy && (!victim || s->last_used < victim->last_used)) victim = s;
    }
    if (!victim) return kNoBlock;
    release_blocks(victim, 0);
    victim->was_evicted = true;
  }
}

void Scheduler::seal(Session* s, uint32_t i) {
  BlockId own = s->table.block(i);
  if (!s->share || index_.contains(own)) return;
  extend_keys(s);
  auto tokens = block_tokens_of(*s, i);
  BlockId resident = index_.lookup(s->keys[i], tokens);
  if (resident != kNoBlock) {  // another session sealed the same block first
    pool_.ref(resident);
    drop(own);
    s->table.set(i, resident, block_tokens_);
    return;
  }
  if (pool_.refs(own) == 1) index_.insert(own, s->keys[i], i ? s->keys[i - 1] : s->root, tokens);
}

void Scheduler::adopt_resident(Session* s) {
  extend_keys(s);
  if (!s->share) return;
  for (uint32_t i = 0; i < s->keys.size(); ++i) {
    if (s->table.filled(i) == block_tokens_) continue;
    BlockId resident = index_.lookup(s->keys[i], block_tokens_of(*s, i));
    if (resident == kNoBlock) continue;
    pool_.ref(resident);
    if (s->table.block(i) != kNoBlock) drop(s->table.block(i));
    s->table.set(i, resident, block_tokens_);
  }
}

ReuseStop Scheduler::why_stopped(const Session& s, uint64_t* at) const {
  if (s.damaged) return ReuseStop::kDamaged;
  if (s.other_numerics && *at < s.resumed_tokens) return ReuseStop::kOtherNumerics;
  if (s.was_evicted) return ReuseStop::kEvicted;
  if (s.not_stored) return ReuseStop::kNotStored;
  auto i = static_cast<uint32_t>(*at / block_tokens_);
  if (!s.share || *at % block_tokens_ != 0 || i > s.keys.size()) return ReuseStop::kNewTokens;
  auto rest = std::span(s.tokens).subspan(*at, std::min<size_t>(block_tokens_, s.tokens.size() - *at));
  auto shared = index_.shared_with_sibling(i ? s.keys[i - 1] : s.root, rest);
  if (!shared || *shared == rest.size()) return ReuseStop::kNewTokens;
  *at += *shared;
  return ReuseStop::kDifferentToken;
}

void Scheduler::count_reuse(Session* s) {
  Generation& g = *s->generation;
  uint64_t n = g.prompt_end;
  uint64_t covered = s->table.covered(n);
  bool last_runs = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  uint64_t reused = last_runs ? std::min(covered, n - 1) : covered;
  g.report.prompt_tokens = n;
  g.report.reused_disk = std::min(s->disk_tokens, reused);
  g.report.reused_memory = reused - g.report.reused_disk;
  g.report.prefilled = n - reused;
  g.report.reuse_stopped_at = s->table.first_missing(n);
  g.report.reuse_stopped = g.report.reuse_stopped_at == n ? ReuseStop::kAll : why_stopped(*s, &g.report.reuse_stopped_at);
  s->disk_tokens = 0;
  s->was_evicted = s->damaged = s->not_stored = false;
}

// ---- plan

// The rows that a session needs next: its first hole, or its last token again, as a query alone, when all its KV is there.
Scheduler::Run Scheduler::next_run(const Session& s) const {
  const Generation& g = *s.generation;
  uint64_t n = s.tokens.size();
  if (g.recompute_all) return {g.next_logits, n, true};
  uint64_t begin = s.table.first_missing(n);
  if (begin < n) return {begin, s.table.missing_end(begin, n), true};
  return {n - 1, n, false};
}

// Gives the run private blocks as far as the pool has them; returns where the writable part ends.
uint64_t Scheduler::make_writable(Session* s, const Run& run, StepPlan* plan) {
  for (auto i = static_cast<uint32_t>(run.begin / block_tokens_); uint64_t{i} * block_tokens_ < run.end; ++i) {
    BlockId have = s->table.block(i);
    if (have != kNoBlock && pool_.refs(have) == 1 && !index_.contains(have)) continue;
    BlockId fresh = alloc(s);
    if (fresh == kNoBlock && have != kNoBlock && pool_.refs(have) == 1) {  // nobody else needs it as it was: it stops being shared
      index_.erase(have);
      continue;
    }
    if (fresh == kNoBlock) return std::max(run.begin, uint64_t{i} * block_tokens_);
    uint32_t filled = s->table.filled(i);
    if (have != kNoBlock) {
      if (filled) plan->copies.push_back({have, fresh});  // copies run in order before anything is written
      drop(have);
    }
    s->table.set(i, fresh, filled);
  }
  return run.end;
}

bool Scheduler::plan_session(Session* s, StepPlan* plan) {
  Generation& g = *s->generation;
  Run run = next_run(*s);
  auto rows_left = limits_.rows_max - static_cast<uint32_t>(plan->tokens.size());
  auto logits_left = limits_.logits_max - static_cast<uint32_t>(plan->logits_rows.size());
  uint64_t rows = std::min<uint64_t>({run.end - run.begin, rows_left, limits_.prefill_chunk});
  if (g.recompute_all) rows = std::min<uint64_t>({rows, logits_left, kUnreadEventsMax - s->mailbox.size()});
  run.end = run.begin + rows;
  if (run.store_kv) run.end = make_writable(s, run, plan);
  if (run.end == run.begin) return false;
  bool last = run.end == s->tokens.size();
  bool wants_last = last && (!g.options.prefill_only || g.options.logits != WantLogits::kNone);
  if (wants_last && logits_left == 0 && --run.end == run.begin) return false;

  auto first_row = static_cast<uint32_t>(plan->tokens.size());
  PlannedSeq seq{s, run.begin, run.end, run.store_kv, static_cast<uint32_t>(plan->logits_rows.size()), 0};
  for (uint64_t p = run.begin; p < run.end; ++p) {
    plan->tokens.push_back(s->tokens[p]);
    plan->positions.push_back(static_cast<int32_t>(p));
    if (g.recompute_all || (wants_last && p + 1 == s->tokens.size())) {
      plan->logits_rows.push_back(static_cast<uint32_t>(plan->tokens.size()) - 1);
      ++seq.logit_rows;
    }
  }
  plan->seqs.push_back(seq);
  plan->tables.emplace_back(s->table.data(), s->table.data() + s->table.size());
  plan->step_seqs.push_back(
      {first_row, static_cast<uint32_t>(run.end - run.begin), static_cast<int32_t>(run.begin), nullptr, 0, run.store_kv});
  return true;
}

void Scheduler::plan(StepPlan* plan, uint64_t now_ns) {
  plan->clear();
  std::vector<Session*> order;
  for (Session* s : sessions_) {
    if (runnable(*s) && s->generation->warmed) order.push_back(s);
  }
  if (order.empty()) return;
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn_++ % order.size()), order.end());
  // Decodes first: one row each, and nobody waits for somebody's prompt.
  std::stable_partition(order.begin(), order.end(), [&](Session* s) {
    Run run = next_run(*s);
    return run.end - run.begin == 1;
  });
  Session* starved = nullptr;
  for (Session* s : order) {
    s->last_used = ++clock_;
    if (s->generation->options.prefill_only && !s->generation->recompute_all && s->generation->options.logits == WantLogits::kNone &&
        s->table.first_missing(s->tokens.size()) == s->tokens.size()) {
      finish(s, Reason::kPrefilled, now_ns);
      continue;
    }
    if (plan->tokens.size() >= limits_.rows_max) continue;
    if (plan_session(s, plan)) {
      if (!s->generation->first_step_ns) s->generation->first_step_ns = now_ns;
    } else if (plan->logits_rows.size() < limits_.logits_max) {
      starved = s;
    }
  }
  if (plan->seqs.empty() && starved) {
    fail(starved,
         error(Code::kLimit, Detail::kNone,
               "the pool of %u KV blocks of %u tokens has none left for this session of %zu tokens: raise kv_bytes_max of model_open, "
               "or close sessions",
               pool_.size(), block_tokens_, starved->tokens.size()));
  }
  for (size_t i = 0; i < plan->seqs.size(); ++i) {
    plan->seqs[i].session->in_step = true;
    plan->step_seqs[i].blocks = plan->tables[i].data();
    plan->step_seqs[i].n_blocks = static_cast<uint32_t>(plan->tables[i].size());
  }
  plan->step = {plan->step_seqs, plan->tokens, plan->positions, plan->logits_rows};
}

}  // namespace kvrt
