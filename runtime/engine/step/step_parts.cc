#include "runtime/engine/step/step_parts.h"

#include <algorithm>

namespace kvrt {

namespace {
// The most tokens of a session: as many as the pool has room for.
uint32_t context_in(const KvCache& cache, uint32_t context) {
  return static_cast<uint32_t>(std::min<uint64_t>(context, cache.shape().tokens_in(cache.size())));
}
}  // namespace

StepParts::StepParts(KvCache* cache, const StepOptions& options)
    : queue(cache),
      reports(cache, options.unit_bytes),
      generations(context_in(*cache, options.context), &queue, &reports, &mailboxes),
      supply(cache, &queue, &reports),
      pace(options.step_ms_max, options.context_cost),
      speculator(context_in(*cache, options.context), options.step_ms_max, &queue, &generations),
      marker(cache, options.plan.boundary_every),
      planner(cache, options.plan, &queue, &supply, &reports, &generations, &pace, &speculator, &marker),
      committer(cache, &reports, &generations, &mailboxes, &pace, &speculator, &marker) {}

}  // namespace kvrt
