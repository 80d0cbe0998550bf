// Space: how much a store may take, within its quota and the space that must stay free on the file system.
#pragma once

#include <atomic>
#include <cstdint>

#include "storage/store/store_context.h"

namespace kvrt {

class Space {
 public:
  Space(StoreContext* store, const StoreOptions& options)
      : store_(store), disk_bytes_max_(options.disk_bytes_max), free_bytes_min_(options.free_bytes_min) {}

  struct Shortage {
    uint64_t bytes = 0;  // 0: there is room
    Status why;
  };
  // For a frame and the manifest that is to follow it, or for the manifest only (`kv` 0). `reserve`: bytes that are to be taken again. The
  // caller has locked `catalog`.
  Result<Shortage> shortage(Catalog* catalog, uint64_t kv, uint64_t manifest, uint64_t reserve);
  Result<uint64_t> bytes_used(Catalog* catalog);  // of the quota. The caller has locked `catalog`
  Result<uint64_t> bytes_free(uint64_t used);     // for KV
  uint64_t uncounted_bytes() { return pending_bytes_ + store_->open.uncounted_bytes(); }

  // Bytes that a save is about to write, for other saves to see.
  class Pending {
   public:
    Pending(Space* space, uint64_t bytes) : space_(space), bytes_(bytes) { space_->pending_bytes_ += bytes_; }
    ~Pending() { space_->pending_bytes_ -= bytes_; }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    Space* const space_;
    const uint64_t bytes_;
  };

 private:
  uint64_t kept_free(const FsInfo& fs) const;  // the bytes that must stay free

  StoreContext* const store_;
  const uint64_t disk_bytes_max_, free_bytes_min_;
  std::atomic<uint64_t> pending_bytes_{0};
};

}  // namespace kvrt
