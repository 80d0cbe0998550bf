// The scheduler's part for recurrent layers: a state is written over by every step, so where one is kept, and which rows run, is another
// matter than for KV.
#include <algorithm>
#include <iterator>

#include "runtime/engine/loop/scheduler.h"

namespace kvrt {

// A row whose logits are wanted has to run, and goes on from the state before it. So a prefill that wants none leaves the last row to what
// comes after it.
bool Scheduler::leaves_last(const Session& s) {
  const GenerateOptions& o = s.generation->options;
  return s.kv.shape.has_states() && o.prefill_only && o.logits == WantLogits::kNone && !s.tokens.empty();
}

// A state is there at the end of a run alone, so a run ends where one is to be kept: at a boundary, and where none is for state_every tokens.
uint64_t Scheduler::stop_at_boundary(Session* s, const KvRun& run) {
  if (!s->kv.shape.has_states()) return run.end;
  const auto after = [&](uint64_t at) { return std::ranges::upper_bound(s->kv.marks, at); };
  const uint64_t last = after(run.begin) == s->kv.marks.begin() ? 0 : *std::prev(after(run.begin));
  const uint64_t block_end = run.begin / block_tokens_ * block_tokens_ + block_tokens_;
  const uint64_t at_most = std::max((last + limits_.state_every) / block_tokens_ * block_tokens_, block_end);
  if (at_most <= run.end) cache_->mark(&s->kv, at_most);
  const auto next = after(run.begin);
  return next == s->kv.marks.end() ? run.end : std::min(run.end, *next);
}

// Gives the run a block of its own for the state after its last row. Within one block the state before it is there, and is written over: it
// is none until the step has come to its end. False: the pool has no block.
bool Scheduler::make_state_writable(Session* s, uint32_t group, const KvRun& run, StepPlan* plan) {
  BlockTable& table = s->kv.tables[group];
  const auto i = static_cast<uint32_t>((run.end - 1) / block_tokens_);
  const bool reads = run.begin > uint64_t{i} * block_tokens_;
  const BlockId have = table.block(i);
  if (have != kNoBlock && cache_->writable(have)) {
    table.set_filled(i, 0);
    return true;
  }
  plan->copies.reserve(plan->copies.size() + 1);  // before any change: it needs memory
  table.grow(i + 1);
  const BlockId fresh = alloc_for(s, group, run);
  if (fresh == kNoBlock) {
    const bool own = have != kNoBlock && cache_->unshare(have);  // nobody else needs it as it was
    if (own) table.set_filled(i, 0);
    return own;
  }
  if (have != kNoBlock && reads) {
    plan->copies.push_back({have, fresh, s, group, i, table.filled(i)});
  } else if (have != kNoBlock) {
    cache_->drop(have);
  }
  table.set(i, fresh, 0);
  return true;
}

}  // namespace kvrt
