// BoundaryMarker: marks the positions that a session, or another with the same tokens, may come back to: ends of messages, and one wherever
// none is due for long. KvCache keeps windows and states there.
#pragma once

#include <utility>

#include "runtime/engine/session/session.h"
#include "runtime/kv/kv_cache.h"

namespace kvrt {

// Guarded by Engine's lock.
class BoundaryMarker {
 public:
  // every: the most tokens between two boundaries.
  BoundaryMarker(KvCache* cache, uint64_t every) : cache_(cache), block_tokens_(cache->block_tokens()), every_(every) {}

  // The application may come back to the end of any message, or begin another conversation with the same preamble.
  void mark_messages(Session* session) {
    const std::pair<uint64_t, uint64_t> all(session->messages.size(), session->messages.empty() ? 0 : session->messages.back().end);
    if (all != session->marked) mark_anew(session, all);
  }
  // Where no boundary is due for so many tokens, one is marked. A state is there at the end of a run alone, so with states the run ends at the
  // next boundary; windows are there until their blocks are sealed and rolled, so with these alone it goes on. Returns the run's end.
  uint64_t stop_at_boundary(Session* session, const KvRun& run) {
    const bool comes_back = session->kv.shape.has_windows() && session->kv.share;
    return comes_back ? next_stop(session, run) : run.end;
  }

 private:
  void mark_anew(Session* session, std::pair<uint64_t, uint64_t> all);
  uint64_t next_stop(Session* session, const KvRun& run);
  uint64_t last_boundary(const KvSequence& kv, uint64_t mark, uint64_t at) const;
  void mark_near_end(Session* session, uint64_t begin);

  KvCache* const cache_;
  const uint32_t block_tokens_;
  const uint64_t every_;
};

}  // namespace kvrt
