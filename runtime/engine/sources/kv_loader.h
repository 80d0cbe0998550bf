// KvLoader: fills a session's block tables with the KV that memory and a source of chunks have. Sharing a prefix, resuming, and sharing
// across restarts are this one thing. What is absent or damaged stays a hole, which is computed.
#pragma once

#include "runtime/engine/session/engine_lock.h"
#include "runtime/engine/sources/chunk_loads.h"

namespace kvrt {

// Guarded by Engine's lock.
class KvLoader {
 public:
  KvLoader(const Runtime* runtime, const KvMemory* memory, KvCache* cache, Supply* supply)
      : runtime_(*runtime), memory_(*memory), cache_(cache), supply_(supply) {}

  // If progress stops the load, it may have come nearer to its end or not; kStoppedInPlace: trying again would do the same for ever.
  enum class Loaded { kNothing, kAll, kStoppedNearer, kStoppedInPlace };
  struct Filled {
    Loaded loaded = Loaded::kNothing;
    uint64_t resident = 0;  // positions that memory alone saved from being computed
  };
  // Takes the resident blocks, then loads the chunks that are still missing. It gives the lock back while it asks the source and while it
  // reads: the session is in a step, or pinned, so that nothing but its cancel and the saves beside it touch it. `source` null: none.
  Filled fill(EngineLock* lock, Session* session, ChunkSource* source, const Progress& progress) KVRT_REQUIRES(lock->mu);

 private:
  const Runtime& runtime_;
  const KvMemory& memory_;
  KvCache* const cache_;
  Supply* const supply_;
};

}  // namespace kvrt
