// Collector: removes what no session needs: rows, segments, dead frames in segments that stay, and files that no row names. In slices, so that
// nobody waits long. collector.cc has gc and its slices, but for two: punch.cc zeroes dead frames, compact.cc copies the live ones.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "storage/store/removed_files.h"
#include "storage/store/sealer.h"
#include "storage/store/writer.h"

namespace kvrt {

// The progress of a gc that runs.
struct Collection {
  Collected rows;
  RemovedFiles files;
  std::vector<std::string> directories;  // to look through for orphans, last first
  bool listed = false;
  bool sealed = false;  // the segments that can be were
  uint64_t slice_end = 0;
  std::function<bool()> go_on;  // begins a slice; false stops gc. None: it cannot be stopped
  int64_t compacted = 0;        // segments up to this row were looked at
  struct Dead {
    SegmentRow segment;
    std::vector<FileRange> ranges;  // none: the segment is to be written anew
  };
  std::vector<Dead> dead;  // to be punched
  int64_t searched = 0;    // segments up to this row were looked at for dead frames
  bool dead_settled = false;
  uint64_t rewritten = 0, punched = 0, log_bytes_kept = 0;
  uint64_t wait_ms = kWriteWaitMs;  // for other writers
  bool closing = false;             // the store is

  Status next_slice() const {
    if (!go_on || go_on()) return {};
    return error(Code::kCancelled, Detail::kNone, "gc was stopped");
  }
};

class Collector {
 public:
  Collector(StoreContext* store, Writer* writer, Sealer* sealer) : store_(store), writer_(writer), sealer_(sealer) {}

  Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress);  // as StoreCare
  // One slice, so that a store whose host never calls gc does not grow for ever. It may fail, for want of memory too: the save is made, and
  // the next save tries again.
  void collect_after_save(Durability durability);
  // Those of the segments of which less than half is live are copied, as far as they are sealed: a store whose host never calls gc does not
  // keep what saves replaced.
  void copy_sparse_of(std::span<const SegmentId> own, bool closing);

  // The slices of gc that make room for a save, too. Each does as much as its time allows; true: it did something, or there is more.
  Result<bool> collect_rows(Collection* c);
  Result<bool> seal_open(Collection* c);
  Result<bool> copy_sparse(Collection* c);
  Result<bool> unlink_trash(Collection* c);
  Result<bool> vacuum(Collection* c);

  bool litter() const { return litter_; }  // a file that no row names could not be removed

 private:
  Result<bool> find_dead(Collection* c);
  Result<bool> punch_dead(Collection* c);
  Result<bool> unlink_orphans(Collection* c);
  Status fold_long_log(Collection* c);
  Status scrub_log(Collection* c);
  Result<bool> rewrite(const SegmentRow& segment, Collection* c);
  Result<uint64_t> compact(const SegmentRow& segment, Collection* c);

  StoreContext* const store_;
  Writer* const writer_;
  Sealer* const sealer_;
  std::atomic<bool> litter_{false};
};

}  // namespace kvrt
