// The scheduler's part for recurrent layers: a state is written over by every step, so where one is kept, and which rows run, is another
// matter than for KV.
#include <algorithm>
#include <iterator>

#include "runtime/engine/step/scheduler.h"

namespace kvrt {

// The last boundary at or before `at`: a mark of the session, or one in the index, which others made or an earlier process.
uint64_t Scheduler::last_boundary(const KvSequence& kv, uint64_t mark, uint64_t at) const {
  for (uint64_t i = std::min<uint64_t>(at / block_tokens_, kv.chain.size()); i * block_tokens_ > mark; --i) {
    if (i * block_tokens_ + limits_.boundary_every <= at) break;
    if (kv.chain[i - 1]->boundary) return i * block_tokens_;
  }
  return mark;
}

// A prompt is edited at its end most: of states the one a block before its last is kept, too, if an edit would go back far without.
void Scheduler::mark_near_end(Session* s, uint64_t begin) {
  const uint64_t end = s->generation->prompt_end / block_tokens_ * block_tokens_, near = end - std::min<uint64_t>(end, block_tokens_);
  if (begin >= near) return;
  const auto next = std::ranges::upper_bound(s->kv.marks, near);
  const uint64_t last = last_boundary(s->kv, next == s->kv.marks.begin() ? 0 : *std::prev(next), near);
  if ((near - last) % limits_.boundary_every >= limits_.boundary_every / 4) cache_->mark_due(&s->kv, near);
}

// Where no boundary is due for boundary_every tokens, one is marked. A state is there at the end of a run alone, so with states the run ends at
// the next boundary; windows are there until their blocks are sealed and rolled, so with these alone it goes on.
uint64_t Scheduler::stop_at_boundary(Session* s, const KvRun& run) {
  const bool states = s->kv.shape.has_states();
  if (!s->kv.shape.has_windows() || !s->kv.share) return run.end;  // nobody comes back
  if (states) mark_near_end(s, run.begin);
  const auto after = [&](uint64_t at) { return std::ranges::upper_bound(s->kv.marks, at); };
  for (uint64_t at = run.begin;;) {
    const auto next = after(at);
    const uint64_t last = last_boundary(s->kv, next == s->kv.marks.begin() ? 0 : *std::prev(next), at);
    const uint64_t block_end = at / block_tokens_ * block_tokens_ + block_tokens_;
    const uint64_t at_most = std::max((last + limits_.boundary_every) / block_tokens_ * block_tokens_, block_end);
    const uint64_t end = next == s->kv.marks.end() ? run.end : std::min(run.end, *next);
    if (at_most <= end) cache_->mark_due(&s->kv, at_most);
    at = std::min(at_most, end);
    if (states || at == run.end) return at;
  }
}

// Gives the run a block of its own for the state after its last row: `spare`, if it is one, or one of the pool. Within one block the state
// before the run is there, and is written over: it is none until the step has come to its end. False: the pool has no block.
bool Scheduler::make_state_writable(Session* s, const KvRun& run, BlockId spare, StepPlan* plan) {
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

// Gives the run blocks of its own, as far as the pool has them. Returns the end of the writable part. The state comes first: rows can be
// fewer, but without a place for it none can run.
uint64_t Scheduler::make_writable(Session* s, KvRun run, StepPlan* plan) {
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
    if ((run.stores & ~states) >> group & 1) run.end = make_writable(s, group, run, plan);
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

}  // namespace kvrt
