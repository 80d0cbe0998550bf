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

}  // namespace kvrt
