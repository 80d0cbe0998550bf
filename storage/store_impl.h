// The open store: the class behind Store. store.cc opens and reads, store_save.cc saves, store_maintain.cc does the rest.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "storage/catalog.h"
#include "storage/codec.h"
#include "storage/segment.h"
#include "storage/store_open.h"

namespace kvrt {

inline constexpr size_t kOpenSegmentsMax = 64;

// The open store. catalog_ and what follows it are guarded by mutex_; files are read and frames encoded outside of it.
class StoreImpl final : public Store {
 public:
  StoreImpl(Env* env, Log* log, StoreDirectory dir, const StoreOptions& options)
      : env_(env), log_(log), dir_(std::move(dir)), disk_bytes_max_(options.disk_bytes_max), files_(env, dir_.root, kOpenSegmentsMax) {}
  ~StoreImpl() override;

  Status start();

  std::vector<bool> has(std::span<const BlockKey> keys) override;
  ChunkState read(const BlockKey& key, std::span<const int32_t> tokens, uint32_t layout, std::span<uint8_t> out,
                  std::string* damage) override;
  Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks) override;
  Result<SessionOut> load(std::string_view domain, std::string_view name) override;
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) override;
  Result<SessionStat> stat(std::string_view domain, std::string_view name) override;
  Status remove(std::string_view domain, std::string_view name) override;
  Status rename(std::string_view domain, std::string_view from, std::string_view to) override;
  Status pin(std::string_view domain, std::string_view name, bool pinned) override;
  Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) override;
  Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) override;
  Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress) override;
  Result<StoreInfo> info() override;
  bool cached_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, Hash256* out) override;
  void cache_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, const Hash256& id) override;

 private:
  class SaveImpl;
  struct Collection;  // what a running gc has done

  void tidy_after_reading();
  bool has_locked(const BlockKey& key);
  std::optional<ChunkState> lose(const BlockKey& key, const Catalog::Location& at, const Status& why, std::string* damage);
  Status check_writable_locked();
  Status check_quota(uint64_t more);
  Result<CommitResult> commit_locked(const SessionIn& session, const NewSegment* segment, std::span<const BlockKey> needed);
  Status sync_reused(const SessionIn& session);
  Status change_locked(bool frees, const std::function<Status()>& change);
  void after_commit(Durability durability, RemovedFiles* removed = nullptr);
  Status refresh_bytes();
  Result<bool> gc_rows(Collection* c);
  Result<bool> gc_trash(Collection* c);
  Result<bool> gc_orphans(Collection* c);

  Env* const env_;
  Log* const log_;
  StoreDirectory dir_;  // changed by start() alone
  const uint64_t disk_bytes_max_;
  SegmentCache files_;
  CodecPool codecs_;
  std::atomic<uint64_t> pending_bytes_{0};  // of segments being written
  std::atomic<uint64_t> stored_bytes_{0};   // segments and catalog
  std::atomic<uint64_t> damaged_{0};

  std::mutex mutex_;
  Catalog catalog_;
  bool reserve_given_ = false;                       // to be made again
  std::unordered_set<BlockKey, Hash256Hasher> bad_;  // found bad, and the catalog could not be told
  Status broken_;                                    // the first failed write of the catalog: nothing is written after it
};

}  // namespace kvrt
