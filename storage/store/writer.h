// Writer: the connection by which a store writes its catalog. open.cc opens and closes it, and the readers with it.
#pragma once

#include <functional>
#include <optional>

#include "runtime/base/mutex.h"
#include "storage/catalog/catalog.h"
#include "storage/store/reader.h"
#include "storage/store/space.h"
#include "storage/store/store_context.h"

namespace kvrt {

inline constexpr uint64_t kLogBytesMax = 4u << 20;

class Writer {
 public:
  Writer(StoreContext* store, Reader* reader, Lister* lister, Space* space)
      : store_(store), dir_(store->dir), reader_(reader), lister_(lister), space_(space) {}

  // The directory is open and locked. Opens the catalog; a handle that is alone then tidies up before others come in.
  Status open();
  // `litter`: there may be files that no row names. Then the log is left, so that the next open looks for them.
  void close(bool litter);

  // An error, which says why, unless the store can be written. All that follow begin with it.
  Status check_writable() KVRT_REQUIRES(mutex);
  // A store that is read for want of room for the catalog's log writes from now on, if there is room; else NO_SPACE says what is wanting.
  Status take_up_writing() KVRT_REQUIRES(mutex);
  // Runs one transaction, which is on the disk on return. One that frees space may need a little first: it gets the reserve's, and the log's
  // by folding it in.
  Status change(bool frees, const std::function<Status()>& transaction) KVRT_REQUIRES(mutex);
  // Writes a save. `segment` may be null.
  Result<CommitResult> commit(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed) KVRT_REQUIRES(mutex);
  // Housekeeping. It may fail without harm, for want of memory too: the commit stays. Files go only after a commit that is on the disk: a
  // power cut must not bring back rows whose files are gone.
  void after_commit(Durability durability) KVRT_REQUIRES(mutex);
  // Forgets a damaged chunk, or with `missing` all of its segment, in the catalog; where that cannot be written, in memory only. None: it
  // lies elsewhere by now.
  std::optional<ChunkState> forget(const ChunkKey& chunk, const ChunkLocation& at, bool missing) KVRT_REQUIRES(mutex);
  // A sync of the segment failed. The kernel may call its pages clean now: a second sync would say OK, and prove nothing. So the chunks that
  // were not synced before are forgotten.
  Status distrust(const SegmentId& id, const Status& why) KVRT_REQUIRES(mutex);

  // A transaction's status: after a failed write nothing is written any more. Only a new open reads what is there.
  void note(const Status& status) KVRT_REQUIRES(mutex);
  bool broken() const KVRT_REQUIRES(mutex) { return !broken_.is_ok(); }

  // The log has removed content until it is folded in full.
  Status scrub(CatalogDb::Scrub* scrub, const std::function<bool()>& more) KVRT_REQUIRES(mutex);
  void fold_log(uint64_t from_bytes) KVRT_REQUIRES(mutex);  // if it has so many
  uint64_t log_bytes() const;                               // without the mutex

  void give_reserve() KVRT_REQUIRES(mutex);
  bool reserve_given() const KVRT_REQUIRES(mutex) { return reserve_given_; }  // and so it is to be made again
  void remake_reserve(bool may_wait = true) KVRT_REQUIRES(mutex);
  Result<Space::Shortage> shortage(uint64_t kv, uint64_t manifest) KVRT_REQUIRES(mutex);

  // For all writing. It is held while a transaction waits for the disk. The reader's and the lister's mutex and those of open files and
  // codecs may be taken under it.
  Mutex mutex;
  Catalog catalog KVRT_GUARDED_BY(mutex);

 private:
  Status open_catalog() KVRT_REQUIRES(mutex);
  Status explain(Status opened) const;
  Status advise(Status opened) const;
  CatalogDb::OpenMode read_mode() const;
  Status open_readers();
  Status check_identity() KVRT_REQUIRES(mutex);
  void tell_of_log();
  Status tidy_alone() KVRT_REQUIRES(mutex);
  void tidy_after_closing() KVRT_REQUIRES(mutex);
  Status sync_reused(const SessionIn& session) KVRT_REQUIRES(mutex);
  void drop_dead() KVRT_REQUIRES(mutex);

  StoreContext* const store_;
  StoreDirectory& dir_;
  Reader* const reader_;
  Lister* const lister_;
  Space* const space_;
  bool reserve_given_ KVRT_GUARDED_BY(mutex) = false;
  bool unfolded_ KVRT_GUARDED_BY(mutex) = false;  // the log may have removed content: to be folded in full
  Status broken_ KVRT_GUARDED_BY(mutex);          // the first failed write of the catalog: nothing is written after it
};

}  // namespace kvrt
