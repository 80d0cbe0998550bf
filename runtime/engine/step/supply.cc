#include "runtime/engine/step/supply.h"

#include <algorithm>

namespace kvrt {

namespace {

// The order of giving up blocks: drafts, then idle sessions, then generations that wait for their host, then those that could run, the
// youngest first.
struct Rank {
  int kind = 0;        // -1 a draft's, 0 idle, 1 waits, 2 runs
  uint64_t since = 0;  // idle, waits: the least recently used first. Runs: the last to begin first
  bool operator<(const Rank& other) const { return kind != other.kind ? kind < other.kind : since < other.since; }
};

bool generating(const Session& s) { return s.state == SessionState::kGenerating && !s.generation->finished; }

}  // namespace

// Makes one session of lower rank than `for_session` give up its blocks. Its tokens stay, and it is warmed again before its next step.
bool Supply::reclaim(const Session* for_session) {
  bool generates = for_session->generation && !for_session->generation->finished;
  Session* victim = nullptr;
  Rank least;
  for (Session* s : queue_->sessions()) {
    if (s == for_session || s->use.pinned() || s->use.in_step() || s->kv.blocks_held() == 0) continue;
    if (for_session->drafts && !s->drafts) continue;
    const bool gives_way = s->drafts && !for_session->drafts;
    Rank rank{gives_way ? -1 : !generating(*s) ? 0 : s->runnable() ? 2 : 1, s->last_used};
    if (rank.kind == 2) {
      if (!generates || s->generation->order < for_session->generation->order) continue;
      rank.since = UINT64_MAX - s->generation->order;
    }
    if (!victim || rank < least) victim = s, least = rank;
  }
  if (!victim) return false;
  cache_->release(&victim->kv, 0, Hole::kEvicted);
  if (generating(*victim)) {
    victim->generation->warmed = victim->generation->admitted = false;
    ++reports_->counters.preemptions;
  }
  return true;
}

BlockId Supply::alloc(const Session* for_session, uint32_t group) {
  BlockId block;
  while ((block = cache_->alloc(for_session->kv, group)) == kNoBlock && reclaim(for_session)) continue;
  return block;
}

uint64_t Supply::make_writable(Session* s, const KvRun& run, StepPlan* plan) {
  const size_t copies = plan->copies.size();
  const uint64_t end = make_all_writable(s, run, plan);
  if (end == run.begin) take_back_copies(plan, copies);
  return end;
}

// The state comes first: rows can be fewer, but without a place for it none can run.
uint64_t Supply::make_all_writable(Session* s, KvRun run, StepPlan* plan) {
  const KvShape& shape = s->kv.shape;
  const uint32_t states = shape.states();
  const auto block_of = [&](uint64_t end) { return static_cast<uint32_t>((end - 1) / block_tokens_); };
  const uint64_t block_end = (run.begin + block_tokens_ - 1) / block_tokens_ * block_tokens_;  // of the block with the state before the run
  if (states) {
    plan->copies.reserve(plan->copies.size() + 1);  // before any change: it needs memory
    s->kv.tables.back().grow(block_of(run.end) + 1);
    if (!make_state_writable(s, run, kNoBlock, plan)) {
      run.end = std::min(run.end, block_end);
      if (run.end == run.begin || !make_state_writable(s, run, kNoBlock, plan)) return run.begin;
    }
  }
  const uint32_t at = states ? block_of(run.end) : 0;
  for (uint32_t group = 0; group < shape.n_groups; ++group) {
    if ((run.stores & ~states) >> group & 1) run.end = make_kv_writable(s, group, run, plan);
  }
  if (!states || (run.end > run.begin && block_of(run.end) == at)) return run.end;
  BlockTable& table = s->kv.tables.back();
  if (run.begin > uint64_t{at} * block_tokens_) {  // nothing runs: the state before the run is not written over
    table.set_filled(at, static_cast<uint32_t>(run.begin - uint64_t{at} * block_tokens_));
    return run.end;
  }
  plan->copies.reserve(plan->copies.size() + 1);
  const BlockId spare = table.block(at);
  table.set(at, kNoBlock, 0);
  if (run.end > run.begin) {
    make_state_writable(s, run, spare, plan);
  } else {
    cache_->drop(spare);
  }
  return run.end;
}

// A block of a group for the run, where the pool has one. While a save copies the tail, no other session gives one up for a copy of it.
BlockId Supply::alloc_for(Session* s, uint32_t group, const KvRun& run) {
  if (s->use.tail_read()) return cache_->alloc(s->kv, group);
  const BlockId block = alloc(s, group);
  return block == kNoBlock && cache_->boundaries().shed(&s->kv, run) ? alloc(s, group) : block;
}

// Gives the run blocks of its own in a group, as far as the pool has them. Returns the end of the writable part. Of a block that is to be
// written, what stands before the run counts as filled, and nothing after it: a save beside the step must not take what is copied or
// written meanwhile.
uint64_t Supply::make_kv_writable(Session* s, uint32_t group, const KvRun& run, StepPlan* plan) {
  BlockTable& table = s->kv.tables[group];
  for (auto i = static_cast<uint32_t>(run.begin / block_tokens_); uint64_t{i} * block_tokens_ < run.end; ++i) {
    BlockId have = table.block(i);
    const uint32_t filled = table.filled(i);
    const auto stays = static_cast<uint32_t>(std::min<uint64_t>(filled, run.begin - std::min(run.begin, uint64_t{i} * block_tokens_)));
    plan->clears.reserve(plan->clears.size() + s->kv.shape.groups[group].units);
    plan->copies.reserve(plan->copies.size() + 1);  // before any change: it needs memory
    if (have != kNoBlock && cache_->writable(have)) {
      if (!filled) clear_foreign(have, plan);  // its step was planned but never ran
      table.set_filled(i, stays);
      continue;
    }
    table.grow(i + 1);
    const BlockId fresh = alloc_for(s, group, run);
    if (fresh == kNoBlock && have != kNoBlock && cache_->unshare(have)) {  // nobody else needs it as it was
      table.set_filled(i, stays);
      continue;
    }
    if (fresh == kNoBlock) return std::max(run.begin, uint64_t{i} * block_tokens_);
    if (!filled) clear_foreign(fresh, plan);
    if (have != kNoBlock && filled) {
      plan->copies.push_back({have, fresh, s, group, i, filled});  // copies run before any write; the reference is kept until then
    } else if (have != kNoBlock) {
      cache_->drop(have);
    }
    table.set(i, fresh, stays);
  }
  return run.end;
}

uint64_t Supply::make_ahead_writable(Session* s, const KvRun& run, StepPlan* plan) {
  const KvShape& shape = s->kv.shape;
  for (auto i = static_cast<uint32_t>((run.begin + block_tokens_ - 1) / block_tokens_); uint64_t{i} * block_tokens_ < run.end; ++i) {
    const uint64_t end = uint64_t{i} * block_tokens_;
    if (cache_->free_count() + cache_->cached_count() < shape.units()) return end;
    plan->clears.reserve(plan->clears.size() + shape.units());  // before any change: it needs memory
    for (BlockTable& table : s->kv.tables) table.grow(i + 1);
    for (uint32_t group = 0; group < shape.n_groups; ++group) {
      const BlockId fresh = cache_->alloc(s->kv, group);
      if (fresh != kNoBlock) {
        clear_foreign(fresh, plan);
        s->kv.tables[group].set(i, fresh, 0);
        continue;
      }
      while (group-- > 0) {
        cache_->drop(s->kv.tables[group].block(i));
        s->kv.tables[group].set(i, kNoBlock, 0);
      }
      return end;
    }
  }
  return run.end;
}

void Supply::clear_foreign(BlockId block, StepPlan* plan) const {
  if (!cache_->is_foreign(block)) return;
  for (BlockId unit = block; unit != kNoBlock; unit = cache_->next_unit(unit)) plan->clears.push_back(unit);
}

// Gives the run a block of its own for the state after its last row: `spare`, if it is one, or one of the pool. Within one block the state
// before the run is there, and is written over: it is none until the step has come to its end. False: the pool has no block.
bool Supply::make_state_writable(Session* s, const KvRun& run, BlockId spare, StepPlan* plan) {
  const uint32_t group = s->kv.shape.n_groups - 1;
  BlockTable& table = s->kv.tables[group];
  const auto i = static_cast<uint32_t>((run.end - 1) / block_tokens_);
  const BlockId have = table.block(i);
  if (have != kNoBlock && cache_->writable(have)) {
    if (spare != kNoBlock) cache_->drop(spare);
    table.set_filled(i, 0);
    return true;
  }
  // One that only a boundary keeps beside the session is not worth what another session holds.
  const bool boundary = have != kNoBlock && cache_->refs(have) == 1;
  const BlockId fresh = spare != kNoBlock ? spare : boundary ? cache_->alloc(s->kv, group) : alloc_for(s, group, run);
  if (fresh == kNoBlock) {
    const bool own = have != kNoBlock && cache_->unshare(have);  // nobody else needs it as it was
    if (own) table.set_filled(i, 0);
    return own;
  }
  const bool reads = run.begin > uint64_t{i} * block_tokens_;
  if (have != kNoBlock && reads) {
    plan->copies.push_back({have, fresh, s, group, i, table.filled(i)});
  } else if (have != kNoBlock) {
    cache_->drop(have);
  }
  table.set(i, fresh, 0);
  return true;
}

// Of a session that a group had no block for: it is not in the step, so that its blocks may go to another.
void Supply::take_back_copies(StepPlan* plan, size_t first) {
  for (; plan->copies.size() > first; plan->copies.pop_back()) {
    const BlockCopy& copy = plan->copies.back();
    copy.session->kv.tables[copy.group].set(copy.index, copy.from, copy.filled);
    cache_->drop(copy.to);
  }
}

}  // namespace kvrt
