// The scheduler's blocks: whose they are, who has to give them up, and what the others share.
#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/engine/loop/scheduler.h"

namespace kvrt {

std::span<const int32_t> Scheduler::block_tokens_of(const Session& s, uint32_t i) const {
  return std::span(s.tokens).subspan(size_t{i} * block_tokens_, block_tokens_);
}

void Scheduler::extend_keys(Session* s) {
  while ((s->chain.size() + 1) * block_tokens_ <= s->tokens.size()) {
    auto i = static_cast<uint32_t>(s->chain.size());
    s->chain.push_back(index_.link(i ? s->chain[i - 1] : nullptr, s->root, block_tokens_of(*s, i)));
  }
}

void Scheduler::drop(BlockId block) { pool_.unref(block, index_.contains(block)); }

// Last block first: leaves of the prefix tree are the oldest in the LRU, so that a chain is given up from its end.
void Scheduler::release_blocks(Session* s, uint32_t from_block) {
  for (uint32_t i = s->table.size(); i-- > from_block;) {
    if (s->table.block(i) != kNoBlock) drop(s->table.block(i));
  }
  s->table.shrink(from_block);
}

void Scheduler::drop_kv(Session* s) {
  extend_keys(s);
  for (const ChainRef& link : s->chain) {
    const BlockId block = index_.lookup(link);
    if (block == kNoBlock) continue;
    index_.erase(block);
    if (pool_.refs(block) == 0) pool_.evict(block);
  }
  release_blocks(s, 0);
}

namespace {

// Who gives up blocks first: idle sessions, then generations that wait for their host, then those that could run, the youngest first.
struct Rank {
  int kind = 0;        // 0 idle, 1 waits, 2 runs
  uint64_t since = 0;  // idle, waits: the least recently used first. Runs: the last to begin first
  bool operator<(const Rank& other) const { return kind != other.kind ? kind < other.kind : since < other.since; }
};

}  // namespace

// Makes one session that matters less than `for_session` give up its blocks; its tokens stay, and its next step warms again.
bool Scheduler::reclaim(const Session* for_session) {
  bool generates = for_session->generation && !for_session->generation->finished;
  Session* victim = nullptr;
  Rank least;
  for (Session* s : sessions_) {
    if (s == for_session || s->pins || s->in_step || s->table.blocks_held() == 0) continue;
    bool idle = s->state != SessionState::kGenerating || s->generation->finished;
    Rank rank{idle ? 0 : runnable(*s) ? 2 : 1, s->last_used};
    if (rank.kind == 2) {
      if (!generates || s->generation->order < for_session->generation->order) continue;
      rank.since = UINT64_MAX - s->generation->order;
    }
    if (!victim || rank < least) victim = s, least = rank;
  }
  if (!victim) return false;
  release_blocks(victim, 0);
  victim->was_evicted = true;
  if (least.kind > 0) {
    victim->generation->warmed = victim->generation->admitted = false;
    ++counters_.preemptions;
  }
  return true;
}

uint64_t Scheduler::domain_of(const Session& session) {
  uint64_t bits;
  std::memcpy(&bits, session.root.bytes.data(), sizeof bits);
  return bits > kForeign ? bits : kForeign + 1;
}

BlockId Scheduler::alloc(const Session* for_session) {
  const uint64_t domain = domain_of(*for_session);
  for (;;) {
    BlockId block = pool_.alloc();
    if (block != kNoBlock) {
      uint64_t& held = held_[static_cast<size_t>(block)];
      held = held == 0 || held == domain ? domain : kForeign;
      return block;
    }
    BlockId oldest = pool_.oldest_cached();
    if (oldest != kNoBlock) {
      index_.erase(oldest);
      pool_.evict(oldest);
      ++counters_.evictions;
    } else if (!reclaim(for_session)) {
      return kNoBlock;
    }
  }
}

void Scheduler::seal(Session* s, uint32_t i) {
  BlockId own = s->table.block(i);
  if (!s->share || index_.contains(own)) return;
  extend_keys(s);
  BlockId resident = index_.lookup(s->chain[i]);
  if (resident != kNoBlock && s->generation && s->generation->own_kv) return;
  if (resident != kNoBlock) {  // another session sealed the same block first
    pool_.ref(resident);
    drop(own);
    s->table.set(i, resident, block_tokens_);
    return;
  }
  if (pool_.refs(own) == 1) index_.insert(own, s->chain[i]);
}

void Scheduler::adopt_resident(Session* s) {
  extend_keys(s);
  if (!s->share) return;
  s->table.grow(static_cast<uint32_t>(s->chain.size()));
  for (uint32_t i = 0; i < s->chain.size(); ++i) {
    if (s->table.filled(i) == block_tokens_) continue;
    BlockId resident = index_.lookup(s->chain[i]);
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
  if (!s.share || *at % block_tokens_ != 0 || i > s.chain.size()) return ReuseStop::kNewTokens;
  auto rest = std::span(s.tokens).subspan(*at, std::min<size_t>(block_tokens_, s.tokens.size() - *at));
  auto shared = index_.shared_with_sibling(i ? s.chain[i - 1] : nullptr, s.root, rest);
  if (!shared || *shared == rest.size()) return ReuseStop::kNewTokens;
  *at += *shared;
  return ReuseStop::kDifferentToken;
}

// A generation begins when its blocks can be had without taking them from others that run: else it and they would take turns in computing
// the same again. The oldest always may.
bool Scheduler::admit(Session* session) {
  extend_keys(session);
  uint64_t resident = 0, cached = 0;  // leading blocks that it will share; of them, held by nobody
  for (uint32_t i = 0; session->share && !session->generation->own_kv && i < session->chain.size(); ++i) {
    BlockId block = index_.lookup(session->chain[i]);
    if (block == kNoBlock) break;
    ++resident;
    cached += pool_.refs(block) == 0;
  }
  auto wanted = [&](const Session& s) { return s.tokens.size() / block_tokens_ + 1; };
  uint64_t have = pool_.free_count() + pool_.cached_count() - cached + session->table.blocks_held(), promised = 0;
  bool oldest = true;
  for (const Session* s : sessions_) {
    if (s == session) continue;
    uint64_t held = s->table.blocks_held();
    if (!runnable(*s)) {
      have += s->pins ? 0 : held;
    } else if (s->generation->admitted) {
      oldest &= s->generation->order > session->generation->order;
      promised += wanted(*s) > held ? wanted(*s) - held : 0;
    }
  }
  return oldest || have >= wanted(*session) - std::min(resident, wanted(*session)) + promised;
}

Session* Scheduler::next_cold() {
  for (Session* s : sessions_) {
    if (!runnable(*s) || s->held || s->generation->warmed || !admit(s)) continue;
    s->generation->admitted = true;
    return s;
  }
  return nullptr;
}

// Positions with KV that the report has not yet are reused; the others are to be computed. Until the first of them ran, why reuse stopped
// is looked at again. The last position always runs where its logits are wanted.
void Scheduler::count_reuse(Session* s) {
  Generation& g = *s->generation;
  Report& r = g.report;
  uint64_t n = g.prompt_end, fresh = 0;
  bool first = g.accounted.empty(), last_runs = !g.options.prefill_only || g.options.logits != WantLogits::kNone;
  g.accounted.resize(n);
  for (uint64_t p = 0; p < n - (last_runs ? 1 : 0); ++p) {
    if (g.accounted[p] || p % block_tokens_ >= s->table.filled(static_cast<uint32_t>(p / block_tokens_))) continue;
    g.accounted[p] = true;
    ++fresh;
  }
  uint64_t disk = std::min(s->disk_tokens, fresh);
  s->disk_tokens = 0;
  r.reused_disk += disk;
  r.reused_memory += fresh - disk;
  r.prefilled = n - r.reused_disk - r.reused_memory;
  uint64_t missing = s->table.first_missing(n);
  if (g.computed == 0 && (first || missing > r.reuse_stopped_at)) {
    r.reuse_stopped_at = missing;
    r.reuse_stopped = missing == n ? ReuseStop::kAll : why_stopped(*s, &r.reuse_stopped_at);
  }
  s->was_evicted = s->damaged = s->not_stored = false;
}

}  // namespace kvrt
