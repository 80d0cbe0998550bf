// The open store: the class behind Store. open.cc opens and closes it; chunks.cc reads chunks; stored_sessions.cc reads and
// changes sessions; saves.cc saves; sealer.cc seals segments; space.cc makes room; collector.cc and punch.cc collect garbage; verify.cc checks;
// store.cc has common code.
#pragma once

#include <atomic>
#include <optional>
#include <unordered_set>

#include "runtime/base/mutex.h"
#include "storage/catalog/catalog.h"
#include "storage/segment/codec.h"
#include "storage/segment/open_segments.h"
#include "storage/segment/segment.h"
#include "storage/store/directory.h"
#include "storage/store/open_names.h"
#include "storage/store/removed_files.h"
#include "storage/store/store.h"

namespace kvrt {

inline constexpr size_t kOpenSegmentsMax = 64;

// The open store. Files are read, and frames are encoded, outside of its mutexes. It has a field for each thing that is open or promised on
// disk: directory, locks, three connections, segments, reserve, trash, and the bytes of running saves.
class StoreImpl final : public Store {
 public:
  StoreImpl(Env* env, Log* log, StoreDirectory dir, const StoreOptions& options)
      : env_(env),
        log_(log),
        dir_(std::move(dir)),
        disk_bytes_max_(options.disk_bytes_max),
        free_bytes_min_(options.free_bytes_min),
        files_(env, dir_.root, kOpenSegmentsMax),
        open_(env, dir_.root),
        open_names_(dir_.lock.get()) {}
  ~StoreImpl() override;

  Status start();
  void seal_left();

  std::vector<uint32_t> find(std::span<const NodeIn> chain) override;
  ChunkState read(const NodeIn& node, uint32_t group, uint32_t layout, std::span<uint8_t> out, std::string* damage) override;
  uint64_t discard(std::span<const NodeIn> chain, const std::string& why) override;
  std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys) override;
  Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks, const SavedBy& by) override;
  Result<SessionOut> load(std::string_view domain, std::string_view name, bool used) override;
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) override;
  Result<SessionStat> stat(std::string_view domain, std::string_view name) override;
  Status remove(std::string_view domain, std::string_view name) override;
  Status rename(std::string_view domain, std::string_view from, std::string_view to) override;
  Status pin(std::string_view domain, std::string_view name, uint8_t priority) override;
  Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) override;
  std::unique_ptr<OpenName> open_name(std::string_view domain, std::string_view name) override;
  int32_t other_process(std::string_view domain, std::string_view name) override;
  Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) override;
  Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                          const SessionCheck& check) override;
  Result<StoreInfo> info() override;
  Place place() override;
  void retry_writing() override;
  Result<uint64_t> remove_old() override;
  bool cached_model_id(const ModelFile& file, Hash256* out) override;
  void cache_model_id(const ModelFile& file, const Hash256& id) override;

 private:
  class SaveImpl;
  struct Collection;  // the progress of a running gc

  Status open_catalog() KVRT_REQUIRES(mutex_);
  Status explain(Status opened) const;
  Status advise(Status opened) const;
  CatalogDb::OpenMode read_mode() const;
  Status open_readers();
  Status take_up_writing() KVRT_REQUIRES(mutex_);
  Status check_identity() KVRT_REQUIRES(mutex_);
  void tell_of_log() KVRT_REQUIRES(mutex_);
  Status tidy_alone() KVRT_REQUIRES(mutex_);
  void tidy_after_closing() KVRT_REQUIRES(mutex_);
  bool has(const ChunkKey& chunk);
  bool discard(const ChunkKey& chunk, const std::string& why);
  void touch(std::string_view domain, std::string_view name);
  std::optional<ChunkState> lose(const ChunkKey& chunk, const ChunkLocation& at, const Status& why, std::string* damage);
  std::optional<ChunkState> forget_locked(const ChunkKey& chunk, const ChunkLocation& at, bool missing) KVRT_REQUIRES(mutex_);
  std::optional<ChunkState> note_bad(const ChunkKey& chunk, const ChunkLocation& at);
  Status check_writable_locked() KVRT_REQUIRES(mutex_);
  struct Shortage {
    uint64_t bytes = 0;  // 0: there is room
    Status why;
  };
  Result<Shortage> shortage_locked(uint64_t kv, uint64_t manifest) KVRT_REQUIRES(mutex_);
  uint64_t kept_free(const FsInfo& fs) const;  // the bytes that must stay free
  uint64_t uncounted_bytes() { return pending_bytes_ + open_.uncounted_bytes(); }
  Result<uint64_t> bytes_free(uint64_t used);
  uint64_t log_bytes() const;
  Status make_room(uint64_t kv, uint64_t manifest, const SavedBy& by);
  Result<bool> free_some(uint64_t bytes, const SavedBy& by, int64_t* compacted);
  Result<uint64_t> compact(const SegmentRow& segment, Collection* c);
  Result<bool> gc_seal(Collection* c);
  Result<bool> gc_sparse(Collection* c);
  Result<bool> rewrite(const SegmentRow& segment, Collection* c);
  Result<bool> gc_find_dead(Collection* c);
  Result<bool> gc_punch(Collection* c);
  void collect_after_save(Durability durability);
  Result<CommitResult> commit_locked(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed) KVRT_REQUIRES(mutex_);
  Status sync_reused(const SessionIn& session) KVRT_REQUIRES(mutex_);
  Status distrust_locked(const SegmentId& id, const Status& why) KVRT_REQUIRES(mutex_);
  struct Sealing;
  struct SealMode {
    uint64_t wait_ms = 0;  // for other writers
    bool syncs = true;     // it waits for the disk
  };
  Result<Sealing> begin_seal(const SegmentId& id, uint64_t file_bytes, const SealMode& mode);
  Status sync_sealed(const Sealing& s, const std::function<Status()>& sync);
  Status end_seal(const SegmentId& id, uint64_t bytes, const SealMode& mode);
  Status seal_own(OpenSegments::Taken* segment, const SealMode& mode);
  Result<uint64_t> seal_retired(const SealMode& mode);
  void drop_dead_locked() KVRT_REQUIRES(mutex_);
  Status seal_dead(const SegmentId& id, const SealMode& mode);
  Status retire_with_dead(std::vector<SegmentId>* others);
  void rewrite_sparse(std::span<const SegmentId> own, bool closing);
  void settle_segments(Durability durability);
  void seal_all();
  Status change_locked(bool frees, const std::function<Status()>& change) KVRT_REQUIRES(mutex_);
  void after_commit(Durability durability) KVRT_REQUIRES(mutex_);
  void fold_log(uint64_t from_bytes) KVRT_REQUIRES(mutex_);
  void remake_reserve(bool may_wait = true) KVRT_REQUIRES(mutex_);
  Result<bool> gc_rows(Collection* c);
  Result<bool> gc_trash(Collection* c);
  Result<bool> gc_pages(Collection* c);
  Status gc_log(Collection* c);
  Status gc_fold(Collection* c);
  Result<bool> gc_orphans(Collection* c);

  Env* const env_;
  Log* const log_;
  StoreDirectory dir_;  // changed by start() alone, and by take_up_writing() under mutex_ and read_mutex_
  const uint64_t disk_bytes_max_, free_bytes_min_;
  SegmentCache files_;
  CodecPool codecs_;
  OpenSegments open_;
  OpenNames open_names_;
  std::atomic<uint64_t> pending_bytes_{0};  // of frames that saves are about to write
  std::atomic<uint64_t> damaged_{0}, evicted_{0};
  std::atomic<bool> litter_{false};  // a file that no row names could not be removed

  // For all writing. It is held while a transaction waits for the disk. read_mutex_ and the mutexes of files_ and codecs_ may be taken
  // under it.
  Mutex mutex_ KVRT_ACQUIRED_BEFORE(read_mutex_);
  Catalog catalog_ KVRT_GUARDED_BY(mutex_);
  bool reserve_given_ KVRT_GUARDED_BY(mutex_) = false;  // to be made again
  bool unfolded_ KVRT_GUARDED_BY(mutex_) = false;       // the log may have removed content: to be folded in full
  Status broken_ KVRT_GUARDED_BY(mutex_);               // the first failed write of the catalog: nothing is written after it

  // For look-ups: they take it alone, and so do not wait for the disk when a writer does. No other mutex of the store is taken under it.
  Mutex read_mutex_;
  Catalog reader_ KVRT_GUARDED_BY(read_mutex_);  // its connection sees committed rows only
  ChunkKeys bad_ KVRT_GUARDED_BY(read_mutex_);   // found bad, but the catalog names them still

  // For lists, which may walk every chain: no look-up waits for one. No other mutex of the store is taken under it.
  Mutex list_mutex_;
  Catalog lister_ KVRT_GUARDED_BY(list_mutex_);
};

inline constexpr uint64_t kSliceNs = 5'000'000;  // of gc's work; waits for the disk come on top
inline constexpr uint64_t kLogBytesMax = 4u << 20;
inline constexpr uint64_t kFoldWaitMs = 4'000;  // gc waits so long for readers elsewhere that hold the log
inline constexpr int kFoldsMax = 100;
inline constexpr uint64_t kFullLogBytesMax = 64u << 10;  // while the reserve is in use

struct StoreImpl::Collection {
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

}  // namespace kvrt
