// The scheduler's first half: admits generations, and takes blocks from sessions.
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
    ++reports.counters.preemptions;
  }
  return true;
}

BlockId Scheduler::alloc(const Session* for_session, uint32_t group) {
  BlockId block;
  while ((block = cache_->alloc(for_session->kv, group)) == kNoBlock && reclaim(for_session)) continue;
  return block;
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

}  // namespace kvrt
