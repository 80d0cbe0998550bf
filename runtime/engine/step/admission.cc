// The scheduler's first half: takes blocks from sessions.
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
  for (Session* s : queue.sessions()) {
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

}  // namespace kvrt
