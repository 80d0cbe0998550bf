#include "runtime/engine/step/step_parts.h"

#include <algorithm>

namespace kvrt {

namespace {
// The most tokens of a session: as many as the pool has room for.
uint32_t context_in(const KvCache& cache, uint32_t context) {
  return static_cast<uint32_t>(std::min<uint64_t>(context, cache.shape().tokens_in(cache.size())));
}
}  // namespace

StepParts::StepParts(KvCache* cache, const StepLimits& limits)
    : queue(cache),
      reports(cache, limits.unit_bytes),
      generations(context_in(*cache, limits.context), &queue, &reports, &mailboxes),
      supply(cache, &queue, &reports),
      pace(limits.step_ms_max, limits.context_cost),
      planner(cache, limits, &queue, &supply, &reports, &generations, &pace),
      committer(cache, &reports, &generations, &mailboxes, &pace) {}

}  // namespace kvrt
