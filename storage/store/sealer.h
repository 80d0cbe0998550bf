// Sealer: writes the index at the end of segments that take no more saves: those of this store, once no save uses them, and those that a
// killed process left open.
#pragma once

#include <functional>
#include <vector>

#include "storage/store/writer.h"

namespace kvrt {

struct SealMode {
  uint64_t wait_ms = 0;  // for other writers
  bool syncs = true;     // it waits for the disk
};

class Sealer {
 public:
  Sealer(StoreContext* store, Writer* writer) : store_(store), writer_(writer) {}

  // Seals the segments that take no more saves, and that none uses. The count; another time where there is no room, or no turn to write.
  Result<uint64_t> seal_retired(const SealMode& mode);
  // Seals the segment of a writer that is dead: its lock can be had. BUSY: it is not.
  Status seal_dead(const SegmentId& id, const SealMode& mode);
  // Seals what killed processes left. It may fail without harm: gc tries again.
  void seal_left();
  // Retires this store's segments that have dead frames. `others`: the open ones that are not its own.
  Status retire_with_dead(std::vector<SegmentId>* others);

 private:
  struct Sealing;
  Result<Sealing> begin_seal(const SegmentId& id, uint64_t file_bytes, const SealMode& mode);
  Status sync_sealed(const Sealing& s, const std::function<Status()>& sync);
  Status end_seal(const SegmentId& id, uint64_t bytes, const SealMode& mode);
  Status seal_own(OpenSegments::Taken* segment, const SealMode& mode);

  StoreContext* const store_;
  Writer* const writer_;
};

}  // namespace kvrt
