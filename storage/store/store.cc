// StoreImpl: the code that its parts share, and the facts of the store as a whole.
#include "storage/store/store.h"

#include <new>

#include "storage/store/old_files.h"
#include "storage/store/reserve.h"
#include "storage/store/store_impl.h"
#include "storage/store/trash.h"

namespace kvrt {

Status StoreImpl::check_writable_locked() {
  KVRT_TRY(take_up_writing());
  if (dir_.read_only) return error(Code::kIo, Detail::kReadOnly, "%s: the store is open read-only", dir_.root.c_str());
  if (broken_.is_ok() && catalog_.db.sync_failed()) {
    broken_ =
        error(Code::kIo, Detail::kNone, "%s/catalog.db: a sync failed; what it was to save may not be on the disk", dir_.root.c_str());
  }
  KVRT_TRY(broken_.clone());
  return catalog_.db.check_in_place();  // else files would change in another store's directory
}

// Runs one transaction, which is on the disk on return. One that frees space may need a little first: it gets the reserve's, and the log's
// by folding it in.
Status StoreImpl::change_locked(bool frees, const std::function<Status()>& change) {
  KVRT_TRY(check_writable_locked());
  KVRT_TRY(catalog_.db.set_durability(Durability::kTokens));
  Status status = change();
  if (frees && status.code() == Code::kNoSpace) {
    give_up_reserve(env_, dir_.root);
    reserve_given_ = true;
    (void)catalog_.db.checkpoint(true).is_ok();
    status = change();
  }
  if (status.code() == Code::kIo) broken_ = status.clone();
  return status;
}

// Housekeeping. It may fail without harm, for want of memory too: the commit stays. Files go only after a commit that is on the disk: a
// power cut must not bring back rows whose files are gone.
void StoreImpl::after_commit(Durability durability) try {
  const Impatient at_once = catalog_.db.impatient();
  if (durability == Durability::kTokens || durability == Durability::kKv) {
    drop_dead_locked();
    (void)catalog_.db.set_durability(Durability::kProcess).is_ok();
    empty_trash(env_, log_, dir_.root, &catalog_, &files_, env_->now_ns() + kSliceNs, nullptr);
  }
  if (unfolded_) unfolded_ = !catalog_.db.checkpoint(true).is_ok();
  fold_log(kLogBytesMax);
  remake_reserve(durability == Durability::kTokens || durability == Durability::kKv);
} catch (const std::bad_alloc&) {
}

// There may not be room enough yet: then it is made after the next commit. The log may be in its way, so that is folded in; not for a caller
// that does not wait for the disk.
void StoreImpl::remake_reserve(bool may_wait) {
  if (!reserve_given_) return;
  reserve_given_ = !make_reserve(env_, dir_.root);
  if (reserve_given_ && may_wait && catalog_.db.checkpoint(true).is_ok()) reserve_given_ = !make_reserve(env_, dir_.root);
}

void StoreImpl::fold_log(uint64_t from_bytes) {
  if (catalog_.db.log_bytes() < from_bytes) return;
  Status folded = catalog_.db.checkpoint();
  if (!folded.is_ok()) logf(log_, LogLevel::kWarn, "store: checkpoint: %s", folded.message().c_str());
}

// Without mutex_: it is one atomic number.
uint64_t StoreImpl::log_bytes() const KVRT_NO_THREAD_SAFETY_ANALYSIS { return catalog_.db.log_bytes(); }

Result<StoreInfo> StoreImpl::info() {
  Catalog::Totals totals;
  StoreInfo info;
  {
    Lock lock(read_mutex_);
    KVRT_ASSIGN(totals, reader_.totals(env_->unix_ms()));
    info.disk_bytes = totals.segment_bytes + reader_.db.disk_bytes();  // it knows of no log
    info.read_only = dir_.read_only;
    info.waits_for_room = !dir_.no_log.is_ok();
  }
  info.disk_bytes += log_bytes();
  info.path = dir_.root;
  info.format = kStoreLayout;
  info.sessions = totals.sessions;
  info.chunks = totals.chunks;
  info.segments = totals.segments;
  info.chunk_bytes = totals.chunk_bytes;
  info.chunk_raw_bytes = totals.chunk_raw_bytes;
  KVRT_ASSIGN(info.bytes_free, bytes_free(info.disk_bytes + uncounted_bytes()));
  info.chunks_damaged = damaged_;
  info.chunks_evicted = evicted_;
  info.loads_evicted = totals.loads_evicted;
  auto old = find_old_files(env_, dir_.root);
  if (old.is_ok()) info.old_bytes = old->bytes;
  return info;
}

Store::Place StoreImpl::place() {
  Lock lock(read_mutex_);
  if (reader_.db.in_place()) return Place::kThere;
  return reader_.db.log_in_place() ? Place::kLogLeft : Place::kGone;
}

void StoreImpl::retry_writing() {
  {
    Lock lock(read_mutex_);  // it waits for no writer
    if (dir_.no_log.is_ok()) return;
  }
  Lock lock(mutex_);
  (void)take_up_writing().is_ok();
}

Result<uint64_t> StoreImpl::remove_old() {
  Lock lock(mutex_);
  KVRT_TRY(check_writable_locked());
  return remove_old_files(env_, dir_.root);
}

bool StoreImpl::cached_model_id(const ModelFile& file, Hash256* out) {
  Lock lock(read_mutex_);
  return reader_.models.find(file, out);
}

void StoreImpl::cache_model_id(const ModelFile& file, const Hash256& id) {
  Lock lock(mutex_);
  const Impatient at_once = catalog_.db.impatient();
  if (!check_writable_locked().is_ok()) return;
  Status cached = catalog_.models.put(file, id);
  if (!cached.is_ok()) logf(log_, LogLevel::kDebug, "store: model id not cached: %s", cached.message().c_str());
}

}  // namespace kvrt
