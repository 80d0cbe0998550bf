// Supply: gives sessions blocks, of the pool or of another session that has to give up its own, and makes those writable that a run writes.
#pragma once

#include "runtime/engine/step/queue.h"
#include "runtime/engine/step/reports.h"
#include "runtime/engine/step/step_plan.h"

namespace kvrt {

// Guarded by Engine's lock. When blocks run short, idle sessions give theirs first, then generations that wait for their host, then the
// youngest: the oldest always goes on.
class Supply {
 public:
  Supply(KvCache* cache, const Queue* queue, Reports* reports)
      : cache_(cache), block_tokens_(cache->block_tokens()), queue_(queue), reports_(reports) {}

  // As KvCache::alloc; if other sessions hold all blocks, one of them gives up its own. kNoBlock: none of them has to.
  BlockId alloc(const Session* for_session, uint32_t group);
  // Gives the run blocks of its own, as far as there are some, and notes in the plan which are copied or cleared before the step. Returns the
  // end of the writable part: the run's begin if it is none, and then the session has what it had.
  uint64_t make_writable(Session* session, const KvRun& run, StepPlan* plan);
  // Likewise for rows after those, of all groups, which may come to nothing: no session gives up a block for them.
  uint64_t make_ahead_writable(Session* session, const KvRun& run, StepPlan* plan);

 private:
  bool reclaim(const Session* for_session);
  BlockId alloc_for(Session* session, uint32_t group, const KvRun& run);
  uint64_t make_all_writable(Session* session, KvRun run, StepPlan* plan);
  uint64_t make_kv_writable(Session* session, uint32_t group, const KvRun& run, StepPlan* plan);
  bool make_state_writable(Session* session, const KvRun& run, BlockId spare, StepPlan* plan);
  void clear_foreign(BlockId block, StepPlan* plan) const;
  void take_back_copies(StepPlan* plan, size_t first);

  KvCache* const cache_;
  const uint32_t block_tokens_;
  const Queue* const queue_;
  Reports* const reports_;
};

}  // namespace kvrt
