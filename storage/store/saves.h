// Saves: a save appends its frames to an open segment, then commits one transaction. room.cc makes room for them.
#pragma once

#include <atomic>
#include <memory>

#include "storage/store/collector.h"
#include "storage/store/stored_sessions.h"

namespace kvrt {

class Saves {
 public:
  Saves(StoreContext* store, Reader* reader, Writer* writer, Space* space, Sealer* sealer, Collector* collector)
      : store_(store), reader_(reader), writer_(writer), space_(space), sealer_(sealer), collector_(collector) {}

  Result<std::unique_ptr<StoredSessions::Save>> begin(bool reuse_chunks, const SavedBy& by);
  void close();  // seals what is open, so that a store at rest has no open segment
  uint64_t evicted() const { return evicted_; }

 private:
  class Running;
  Status make_room(uint64_t kv, uint64_t manifest, const SavedBy& by);
  Result<bool> free_some(uint64_t bytes, const SavedBy& by, int64_t* compacted);
  Result<bool> take_garbage(Collection* c);
  Result<bool> evict(uint64_t bytes, uint64_t free_pages, const SavedBy& by);
  void settle_segments(Durability durability);

  StoreContext* const store_;
  Reader* const reader_;
  Writer* const writer_;
  Space* const space_;
  Sealer* const sealer_;
  Collector* const collector_;
  std::atomic<uint64_t> evicted_{0};  // chunks
};

}  // namespace kvrt
