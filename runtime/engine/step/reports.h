// Reports: what a generation reused and computed, why reuse stopped, how long its phases took; and the sums of all since the model was opened.
#pragma once

#include <iterator>
#include <numeric>

#include "runtime/engine/session/session.h"
#include "runtime/kv/kv_cache.h"

namespace kvrt {

// Sums since the model was opened.
struct Counters {
  uint64_t steps = 0, step_rows = 0, step_ns = 0, step_ns_longest = 0;
  uint64_t generations = 0, prefills = 0;
  uint64_t done[8] = {};  // by Reason
  uint64_t prompt_tokens = 0, reused_memory = 0, reused_disk = 0, prefilled = 0, recomputed = 0, generated = 0;
  struct {
    uint64_t drafted = 0, accepted = 0;
  } speculated;
  uint64_t preemptions = 0;
  uint64_t first_tokens = 0;
  double ttft_ms = 0, queue_ms = 0, prefill_ms = 0, decode_ms = 0;
  uint64_t done_count() const { return std::accumulate(done, std::end(done), uint64_t{0}); }
};

// Guarded by Engine's lock.
class Reports {
 public:
  Reports(const KvCache* cache, uint64_t unit_bytes) : cache_(cache), block_tokens_(cache->block_tokens()), unit_bytes_(unit_bytes) {}

  // The report of the generation that begins. All its prompt is to be computed until count_reuse counted the rest.
  void begin(Session* session);
  // Counts prompt positions that have KV by now as reused in the generation's report. Again after other sessions' blocks were adopted.
  void count_reuse(Session* session);
  // The reason why nothing is reused from *at on. Moves *at to the first differing token if a resident block shares tokens before it.
  ReuseStop why_stopped(const Session& session, uint64_t* at) const;
  // Positions [begin, end) ran: each is a prompt position's first run, a decode, or one more run of either, because the session had to give
  // up its blocks.
  static void account(Generation* generation, uint64_t begin, uint64_t end) {
    Generation& g = *generation;
    Generation::Progress& ran = g.progress;
    for (uint64_t p = begin; p < end; ++p) {
      if (p < g.prompt_end ? !ran.accounted[p] : p >= ran.decoded_end) {
        if (p < g.prompt_end) ran.accounted[p] = true, ++ran.computed;
        if (p >= ran.decoded_end) ran.decoded_end = p + 1;
      } else {
        ++g.report.recomputed;
      }
    }
  }
  void first_token(Generation* generation, uint64_t now_ns) const;
  // The generation is over: its times, and what it holds.
  void set_times(Generation* generation, uint64_t now_ns) const;
  void set_held(Session* session) const;
  void sum_up(const Session& session);

  Counters counters;

 private:
  uint64_t pool_bytes_used() const { return cache_->used_count() * unit_bytes_; }

  const KvCache* const cache_;
  const uint32_t block_tokens_;
  const uint64_t unit_bytes_;
};

}  // namespace kvrt
