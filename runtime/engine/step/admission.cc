// The scheduler's first half: admits generations, takes blocks from sessions, and counts the reused KV of a prompt.
#include <algorithm>

#include "runtime/engine/step/scheduler.h"

namespace kvrt {

namespace {

// The order of giving up blocks: idle sessions, then generations that wait for their host, then those that could run, the youngest first.
struct Rank {
  int kind = 0;        // 0 idle, 1 waits, 2 runs
  uint64_t since = 0;  // idle, waits: the least recently used first. Runs: the last to begin first
  bool operator<(const Rank& other) const { return kind != other.kind ? kind < other.kind : since < other.since; }
};

}  // namespace

// Makes one session of lower rank than `for_session` give up its blocks. Its tokens stay, and it is warmed again before its next step.
bool Scheduler::reclaim(const Session* for_session) {
  bool generates = for_session->generation && !for_session->generation->finished;
  Session* victim = nullptr;
  Rank least;
  for (Session* s : sessions_) {
    if (s == for_session || s->use.pinned() || s->use.in_step() || s->kv.blocks_held() == 0) continue;
    bool idle = s->state != SessionState::kGenerating || s->generation->finished;
    Rank rank{idle ? 0 : s->runnable() ? 2 : 1, s->last_used};
    if (rank.kind == 2) {
      if (!generates || s->generation->order < for_session->generation->order) continue;
      rank.since = UINT64_MAX - s->generation->order;
    }
    if (!victim || rank < least) victim = s, least = rank;
  }
  if (!victim) return false;
  cache_->release(&victim->kv, 0);
  victim->stored.was_evicted = true;
  if (least.kind > 0) {
    victim->generation->warmed = victim->generation->admitted = false;
    ++counters_.preemptions;
  }
  return true;
}

BlockId Scheduler::alloc(const Session* for_session, uint32_t group) {
  BlockId block;
  while ((block = cache_->alloc(for_session->kv, group)) == kNoBlock && reclaim(for_session)) continue;
  return block;
}

ReuseStop Scheduler::why_stopped(const Session& s, uint64_t* at) const {
  if (s.stored.damaged) return ReuseStop::kDamaged;
  if (s.stored.other_numerics && *at < s.stored.resumed_tokens) return ReuseStop::kOtherNumerics;
  if (s.stored.was_evicted) return ReuseStop::kEvicted;
  if (s.stored.not_stored) return ReuseStop::kNotStored;
  if (s.stored.behind_window || s.kv.behind_window(*at)) return ReuseStop::kWindow;
  const auto shared = cache_->shared_with_sibling(s.kv, s.tokens, *at);
  const uint64_t n = s.generation ? s.generation->prompt_end : s.tokens.size();
  if (!shared || *shared >= std::min<uint64_t>(block_tokens_, n - std::min(n, *at))) return ReuseStop::kNewTokens;
  *at += *shared;
  return ReuseStop::kDifferentToken;
}

// A generation may begin when its blocks can be had without taking them from others that run: else it and they would take turns in
// computing the same again. The oldest always may.
bool Scheduler::admit(Session* session) {
  cache_->extend(&session->kv, session->tokens);
  const KvCache::Resident shares = cache_->resident(session->kv);
  auto wanted = [](const Session& s) { return s.kv.shape.units_for(s.tokens.size() + 1); };
  uint64_t have = cache_->free_count() + cache_->cached_count() - shares.cached + session->kv.units_held(), promised = 0;
  bool oldest = true;
  for (const Session* s : sessions_) {
    if (s == session) continue;
    const uint64_t held = s->kv.units_held();
    if (!s->runnable()) {
      have += s->use.pinned() ? 0 : held;
    } else if (s->generation->admitted) {
      oldest &= s->generation->order > session->generation->order;
      promised += wanted(*s) > held ? wanted(*s) - held : 0;
    }
  }
  return oldest || have >= wanted(*session) - std::min(shares.units, wanted(*session)) + promised;
}

Session* Scheduler::next_cold() {
  for (Session* s : sessions_) {
    if (!s->runnable() || !s->use.may_step() || s->generation->warmed || !admit(s)) continue;
    s->generation->admitted = true;
    return s;
  }
  return nullptr;
}

// Positions with KV that the report does not count yet are reused; the others are to be computed. Until the first of these ran, the reason
// why reuse stopped is looked for again. The last position always runs if its logits are wanted.
void Scheduler::count_reuse(Session* s) {
  Generation& g = *s->generation;
  Report& r = g.report;
  uint64_t n = g.prompt_end, fresh = 0;
  bool first = g.accounted.empty(), last_runs = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  g.accounted.resize(n);
  const uint64_t all = s->tokens.size();
  const std::vector<KvRun> runs = last_runs || s->kv.ready(all) < all ? s->kv.runs(all) : std::vector<KvRun>();
  auto run = runs.begin();
  for (uint64_t p = 0; p < n - (last_runs ? 1 : 0); ++p) {
    while (run != runs.end() && run->end <= p) ++run;
    if (g.accounted[p] || (run != runs.end() && run->begin <= p)) continue;
    g.accounted[p] = true;
    ++fresh;
  }
  uint64_t disk = std::min(s->stored.disk_tokens, fresh);
  s->stored.disk_tokens = 0;
  r.reused_disk += disk;
  r.reused_memory += fresh - disk;
  r.prefilled = n - r.reused_disk - r.reused_memory;
  uint64_t missing = s->kv.ready(all);
  if (last_runs && s->kv.shape.has_states()) {
    missing = runs.front().begin;
    if (missing + 1 == n && s->kv.without_window(n) == n) missing = n;  // it has run, and always runs again
  }
  missing = std::min(n, missing);
  if (g.computed == 0 && (first || missing > r.reuse_stopped_at)) {
    r.reuse_stopped_at = missing;
    r.reuse_stopped = missing == n ? ReuseStop::kAll : why_stopped(*s, &r.reuse_stopped_at);
  }
  s->stored.was_evicted = s->stored.damaged = s->stored.not_stored = s->stored.behind_window = false;
}

}  // namespace kvrt
