#include "runtime/engine/step/boundary_marker.h"

#include <algorithm>
#include <iterator>

namespace kvrt {

void BoundaryMarker::mark_anew(Session* s, std::pair<uint64_t, uint64_t> all) {
  cache_->boundaries().mark(&s->kv, s->preamble);
  for (const Message& message : s->messages) cache_->boundaries().mark(&s->kv, message.end);
  s->marked = all;
}

// The last boundary at or before `at`: a mark of the session, or one in the index, which others made or an earlier process.
uint64_t BoundaryMarker::last_boundary(const KvSequence& kv, uint64_t mark, uint64_t at) const {
  for (uint64_t i = std::min<uint64_t>(at / block_tokens_, kv.chain.size()); i * block_tokens_ > mark; --i) {
    if (i * block_tokens_ + every_ <= at) break;
    if (kv.chain[i - 1]->boundary) return i * block_tokens_;
  }
  return mark;
}

// A prompt is edited at its end most: of states the one a block before its last is kept, too, if an edit would go back far without.
void BoundaryMarker::mark_near_end(Session* s, uint64_t begin) {
  const uint64_t end = s->generation->prompt_end / block_tokens_ * block_tokens_, near = end - std::min<uint64_t>(end, block_tokens_);
  if (begin >= near) return;
  const auto next = std::ranges::upper_bound(s->kv.marks, near);
  const uint64_t last = last_boundary(s->kv, next == s->kv.marks.begin() ? 0 : *std::prev(next), near);
  if ((near - last) % every_ >= every_ / 4) cache_->boundaries().mark_due(&s->kv, near);
}

uint64_t BoundaryMarker::next_stop(Session* s, const KvRun& run) {
  const bool states = s->kv.shape.has_states();
  if (states) mark_near_end(s, run.begin);
  const auto after = [&](uint64_t at) { return std::ranges::upper_bound(s->kv.marks, at); };
  for (uint64_t at = run.begin;;) {
    const auto next = after(at);
    const uint64_t last = last_boundary(s->kv, next == s->kv.marks.begin() ? 0 : *std::prev(next), at);
    const uint64_t block_end = at / block_tokens_ * block_tokens_ + block_tokens_;
    const uint64_t at_most = std::max((last + every_) / block_tokens_ * block_tokens_, block_end);
    const uint64_t end = next == s->kv.marks.end() ? run.end : std::min(run.end, *next);
    if (at_most <= end) cache_->boundaries().mark_due(&s->kv, at_most);
    at = std::min(at_most, end);
    if (states || at == run.end) return at;
  }
}

}  // namespace kvrt
