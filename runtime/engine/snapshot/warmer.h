// Warmer: brings back the KV of generations that begin, or that had to give up their blocks, before they take part in steps.
#pragma once

#include "runtime/engine/sources/kv_loader.h"
#include "runtime/engine/step/generations.h"

namespace kvrt {

// Guarded by Engine's lock; the leader of a step uses it.
class Warmer {
 public:
  Warmer(const Runtime* runtime, KvCache* cache, Queue* queue, Reports* reports, Generations* generations, KvLoader* loader)
      : runtime_(*runtime), cache_(cache), queue_(queue), reports_(reports), generations_(generations), loader_(loader) {}

  // Warms this session and others that are not warm yet, until the deadline; gives the lock back for a while. False: it read nothing from a
  // store. A session that only adopted resident blocks may have to give them up in the plan at once; if adopting counted as work, a leader
  // could repeat for ever under the lock.
  bool warm_cold(EngineLock* lock, Session* first, uint64_t deadline_ns) KVRT_REQUIRES(lock->mu);

 private:
  bool warm(EngineLock* lock, Session* session, uint64_t deadline_ns) KVRT_REQUIRES(lock->mu);
  void tell_store(EngineLock* lock, Session* session) KVRT_REQUIRES(lock->mu);

  const Runtime& runtime_;
  KvCache* const cache_;
  Queue* const queue_;
  Reports* const reports_;
  Generations* const generations_;
  KvLoader* const loader_;
};

}  // namespace kvrt
