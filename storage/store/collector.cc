// StoreImpl: collects garbage, in slices.
#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "storage/store/orphans.h"
#include "storage/store/reserve.h"
#include "storage/store/store_impl.h"
#include "storage/store/trash.h"

namespace kvrt {

// Removes expired sessions, and nodes that no session holds any more. Segments left without a chunk go into the trash.
Result<bool> StoreImpl::gc_rows(Collection* c) {
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(c->wait_ms);
  auto more = [&] { return env_->now_ns() < c->slice_end; };
  const Collected before = c->rows;
  KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) -> Status {
    KVRT_ASSIGN(c->rows, catalog_.collect(env_->unix_ms(), before, more));
    return {};
  }));
  return !c->rows.finished;
}

// Copies segments of which less than half is live, one a call. The lock is not held meanwhile.
Result<bool> StoreImpl::gc_sparse(Collection* c) {
  SegmentRow sparse;
  {
    Lock lock(mutex_);
    KVRT_ASSIGN(sparse, catalog_.segments.sparse(c->compacted));
  }
  if (sparse.row == 0) return false;
  c->compacted = sparse.row;
  return rewrite(sparse, c);
}

Result<bool> StoreImpl::rewrite(const SegmentRow& segment, Collection* c) {
  auto moved = compact(segment, c);
  if (moved.is_ok()) c->rewritten += *moved;
  if (moved.status().code() == Code::kNoSpace) return false;  // it needs room to free room
  KVRT_TRY(moved.take_status());
  return true;
}

// Unlinks the files of collected segments, and those that could not be unlinked before.
Result<bool> StoreImpl::gc_trash(Collection* c) {
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(c->wait_ms);
  KVRT_TRY(check_writable_locked());
  if (catalog_.segments.settled_trash().empty()) {
    KVRT_ASSIGN(auto trash, catalog_.segments.trash());
    if (trash.empty()) return false;
    KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) { return catalog_.db.settle(); }));
  }
  (void)catalog_.db.set_durability(Durability::kProcess).is_ok();
  const size_t gone = empty_trash(env_, log_, dir_.root, &catalog_, &files_, c->slice_end, &c->files);
  remake_reserve();
  return gone > 0;
}

// Gives the catalog's free pages back. Where there is no room to move its last pages there they stay.
Result<bool> StoreImpl::gc_pages(Collection* c) {
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(c->wait_ms);
  auto more = [&] { return env_->now_ns() < c->slice_end; };
  uint64_t freed = 0;
  Status vacuumed = change_locked(true, [&]() KVRT_REQUIRES(mutex_) -> Status {
    KVRT_ASSIGN(freed, catalog_.db.vacuum(more));
    return {};
  });
  if (vacuumed.code() == Code::kNoSpace) return false;
  KVRT_TRY(std::move(vacuumed));
  return freed > 0;
}

// Folds the log in a slice of its own, once the other slices wrote enough to it, or less on a full disk. The clock cuts slices short, so a
// slow machine has more of them, and without this a longer log.
Status StoreImpl::gc_log(Collection* c) {
  {
    Lock lock(mutex_);
    if (catalog_.db.log_bytes() < (reserve_given_ ? kFullLogBytesMax : kLogBytesMax / 4)) return {};
  }
  KVRT_TRY(c->next_slice());
  Lock lock(mutex_);
  if (reserve_given_ && catalog_.db.checkpoint(true).is_ok()) return {};
  fold_log(0);
  return {};
}

// The log has removed content until it is folded in full. A reader elsewhere may hold that up: then the next gc, save or close does it.
Status StoreImpl::gc_fold(Collection* c) {
  const uint64_t end = env_->now_ns() + kFoldWaitMs * 1'000'000;
  CatalogDb::Scrub scrub;
  for (int standing = 0;;) {  // counts slices that scrubbed no page: others had written too much
    KVRT_TRY(c->next_slice());
    {
      Lock lock(mutex_);
      KVRT_TRY(check_writable_locked());
      const Impatient at_once = catalog_.db.impatient();
      const uint64_t before = scrub.scrubbed;
      unfolded_ = true;
      Status folded = catalog_.db.scrub(&scrub, [&] { return env_->now_ns() < c->slice_end; });
      if (folded.code() == Code::kIo) return folded;
      if (folded.is_ok() && scrub.finished) {
        unfolded_ = false;
        if (catalog_.db.log_file_bytes() > 0) (void)catalog_.db.checkpoint(true).is_ok();  // no removed content is in it
        return {};
      }
      standing += folded.is_ok() && scrub.scrubbed == before;
      if (folded.is_ok() && standing < kFoldsMax) continue;
      if (folded.code() == Code::kNoSpace && !std::exchange(reserve_given_, true)) {
        give_up_reserve(env_, dir_.root);
        continue;
      }
      if (folded.is_ok() || folded.code() != Code::kBusy || env_->now_ns() >= end) {
        c->log_bytes_kept = catalog_.db.log_file_bytes();
        logf(log_, LogLevel::kWarn, "store: the log keeps %llu bytes, removed content among them: %s",
             static_cast<unsigned long long>(c->log_bytes_kept), folded.message().c_str());
        return {};
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Removes files that no row names and that no save is writing.
Result<bool> StoreImpl::gc_orphans(Collection* c) {
  Lock lock(mutex_);
  if (!std::exchange(c->listed, true)) {
    KVRT_ASSIGN(c->directories, segment_directories(env_, dir_.root));
  }
  do {
    KVRT_TRY(check_writable_locked());
    if (c->directories.empty()) return false;
    KVRT_TRY(remove_orphans(env_, log_, dir_.root, c->directories.back(), &catalog_, &c->files));
    c->directories.pop_back();
  } while (env_->now_ns() < c->slice_end);
  return true;
}

// One slice of garbage collection, so that a store whose host never calls gc does not grow for ever. It may fail, for want of memory too:
// the save is made, and the next save tries again.
void StoreImpl::collect_after_save(Durability durability) try {
  if (durability == Durability::kNone || durability == Durability::kProcess) return;  // such saves wait for no disk
  {
    Lock lock(mutex_);
    auto garbage = catalog_.has_garbage(env_->unix_ms());
    if (!garbage.is_ok() || !*garbage) return;
  }
  Collection c;
  c.wait_ms = 0;
  c.slice_end = env_->now_ns() + kSliceNs;
  if (gc_rows(&c).is_ok()) (void)gc_trash(&c).is_ok();
} catch (const std::bad_alloc&) {
}

Result<GcReport> StoreImpl::gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) {
  const uint64_t start = env_->now_ns();
  Collection c;
  uint64_t total = 0;
  {
    Lock lock(mutex_);
    KVRT_TRY(check_writable_locked());
    KVRT_ASSIGN(total, catalog_.sessions.count_expired(env_->unix_ms()));
    total++;  // the files count as one more
  }
  c.go_on = [&] {
    c.slice_end = env_->now_ns() + kSliceNs;
    return !progress || progress(std::min(c.rows.sessions, total - 1), total);
  };
  using Slice = Result<bool> (StoreImpl::*)(Collection*);
  for (Slice slice : {&StoreImpl::gc_rows, &StoreImpl::gc_seal, &StoreImpl::gc_sparse, &StoreImpl::gc_find_dead, &StoreImpl::gc_punch,
                      &StoreImpl::gc_trash, &StoreImpl::gc_orphans, &StoreImpl::gc_pages}) {
    for (bool more = true; more;) {
      KVRT_TRY(c.next_slice());
      KVRT_ASSIGN(more, (this->*slice)(&c));
      KVRT_TRY(gc_log(&c));
    }
  }
  KVRT_TRY(gc_fold(&c));
  {
    Lock lock(mutex_);
    remake_reserve();
  }
  if (c.rows.jumped && total > 1) {
    logf(log_, LogLevel::kWarn, "store: the clock jumped since the last gc or save; expired sessions (%llu) stay until the next gc",
         static_cast<unsigned long long>(total - 1));
  }
  if (progress) progress(total, total);
  const double ms = static_cast<double>(env_->now_ns() - start) * 1e-6;
  return GcReport{c.rows.sessions, c.rows.chunks, c.files.count, c.files.bytes, c.rewritten, c.punched, c.log_bytes_kept, ms};
}

}  // namespace kvrt
