#include "runtime/engine/step/reports.h"

#include <algorithm>

namespace kvrt {

namespace {
double ms_between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) * 1e-6 : 0.0; }
}  // namespace

void Reports::begin(Session* s) {
  Generation& g = *s->generation;
  g.report.prompt_tokens = g.report.prefilled = g.prompt_end;
  g.report.seed = g.options.sampling.seed;
  g.report.pool_bytes.begin = pool_bytes_used();
  if (!s->drafts) ++(g.options.prefill_only ? counters.prefills : counters.generations);
}

ReuseStop Reports::why_stopped(const Session& s, uint64_t* at) const {
  switch (s.kv.why(*at, s.tokens.size())) {
    case Hole::kDamaged:
      return ReuseStop::kDamaged;
    case Hole::kOtherNumerics:
      return ReuseStop::kOtherNumerics;
    case Hole::kEvicted:
      return ReuseStop::kEvicted;
    case Hole::kNotStored:
      return ReuseStop::kNotStored;
    case Hole::kBehindWindow:
      return ReuseStop::kWindow;
    case Hole::kNeverComputed:
      break;
  }
  if (s.kv.behind_window(*at)) return ReuseStop::kWindow;
  const auto shared = cache_->shared_with_sibling(s.kv, s.tokens, *at);
  const uint64_t n = s.generation ? s.generation->prompt_end : s.tokens.size();
  if (!shared || *shared >= std::min<uint64_t>(block_tokens_, n - std::min(n, *at))) return ReuseStop::kNewTokens;
  *at += *shared;
  return ReuseStop::kDifferentToken;
}

// Positions with KV that the report does not count yet are reused; the others are to be computed. Until the first of these ran, the reason
// why reuse stopped is looked for again. The last position always runs if its logits are wanted.
void Reports::count_reuse(Session* s) {
  Generation& g = *s->generation;
  Report& r = g.report;
  uint64_t n = g.prompt_end, fresh = 0;
  const bool first = g.progress.accounted.empty(), wants_logits = g.options.wants_logits();
  g.progress.accounted.resize(n);
  const uint64_t all = s->tokens.size();
  const std::vector<KvRun> runs = wants_logits || s->kv.ready(all) < all ? s->kv.runs(all) : std::vector<KvRun>();
  auto run = runs.begin();
  for (uint64_t p = 0; p < n - (wants_logits ? 1 : 0); ++p) {
    while (run != runs.end() && run->end <= p) ++run;
    if (g.progress.accounted[p] || (run != runs.end() && run->begin <= p)) continue;
    g.progress.accounted[p] = true;
    ++fresh;
  }
  uint64_t disk = std::min(s->stored.disk_tokens, fresh);
  s->stored.disk_tokens = 0;
  r.reused_disk += disk;
  r.reused_memory += fresh - disk;
  r.prefilled = n - r.reused_disk - r.reused_memory;
  uint64_t missing = s->kv.ready(all);
  if (wants_logits && s->kv.shape.has_states()) {
    missing = runs.front().begin;
    if (missing + 1 == n && s->kv.without_window(n) == n) missing = n;  // it has run, and always runs again
  }
  missing = std::min(n, missing);
  if (g.progress.computed == 0 && (first || missing > r.reuse_stopped_at)) {
    r.reuse_stopped_at = missing;
    r.reuse_stopped = missing == n ? ReuseStop::kAll : why_stopped(*s, &r.reuse_stopped_at);
  }
}

void Reports::first_token(Generation* g, uint64_t now_ns) const {
  g->times.first_token_ns = now_ns;
  g->report.pool_bytes.prefilled = pool_bytes_used();
}

void Reports::set_times(Generation* g, uint64_t now_ns) const {
  Report& r = g->report;
  const Generation::Times& at = g->times;
  const uint64_t first = at.first_step_ns ? at.first_step_ns : now_ns, token = at.first_token_ns ? at.first_token_ns : now_ns;
  r.queue_ms = ms_between(at.begin_ns, first);
  r.prefill_ms = ms_between(first, token);
  r.ttft_ms = at.first_token_ns ? ms_between(at.begin_ns, token) : 0;
  r.decode_ms = at.first_token_ns ? ms_between(token, at.last_token_ns) : 0;
}

void Reports::set_held(Session* s) const {
  Generation& g = *s->generation;
  Report& r = g.report;
  r.kv_units = s->kv.units_held();
  r.kv_bytes = r.kv_units * unit_bytes_;
  r.pool_bytes.end = pool_bytes_used();
  if (!g.times.first_token_ns) r.pool_bytes.prefilled = r.pool_bytes.end;
}

void Reports::sum_up(const Session& s) {
  if (s.drafts) return;
  const Generation& g = *s.generation;
  const Report& r = g.report;
  Counters& c = counters;
  ++c.done[static_cast<size_t>(r.reason)];
  c.prompt_tokens += r.prompt_tokens;
  c.reused_memory += r.reused_memory;
  c.reused_disk += r.reused_disk;
  c.prefilled += r.prefilled;
  c.recomputed += r.recomputed;
  c.generated += r.generated;
  c.speculated.drafted += r.drafted;
  c.speculated.accepted += r.accepted;
  if (!g.times.first_token_ns) return;
  ++c.first_tokens;
  c.ttft_ms += r.ttft_ms;
  c.queue_ms += r.queue_ms;
  c.prefill_ms += r.prefill_ms;
  c.decode_ms += r.decode_ms;
}

}  // namespace kvrt
