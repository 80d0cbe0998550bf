// What is done to a store besides saving and reading: remove, rename, pin, expiry, garbage, verification.
#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "storage/store/names.h"
#include "storage/store/store_impl.h"
#include "storage/store/verify.h"

namespace kvrt {

// One transaction that is on the disk when it returns. One that frees space needs a little first: the log's, by folding it in, and the
// reserve.
Status StoreImpl::change_locked(bool frees, const std::function<Status()>& change) {
  KVRT_TRY(check_writable_locked());
  KVRT_TRY(catalog_.set_durability(Durability::kTokens));
  Status status = change();
  if (frees && status.code() == Code::kNoSpace) {
    give_up_reserve(env_, dir_.root);
    reserve_given_ = true;
    (void)catalog_.checkpoint(true).is_ok();
    status = change();
  }
  if (status.code() == Code::kIo) broken_ = status.clone();
  return status;
}

// Housekeeping that may fail without harm, for want of memory too: what was committed stays so. Files go only after a commit that is on
// the disk: a power cut must not bring rows back whose files are gone.
void StoreImpl::after_commit(Durability durability) try {
  const Impatient at_once = catalog_.impatient();
  if (durability == Durability::kTokens || durability == Durability::kKv) {
    (void)catalog_.set_durability(Durability::kProcess).is_ok();
    empty_trash(env_, log_, dir_.root, &catalog_, &files_, env_->now_ns() + kSliceNs, nullptr);
  }
  if (unfolded_) unfolded_ = !catalog_.checkpoint(true).is_ok();
  fold_log(kLogBytesMax);
  remake_reserve();
} catch (const std::bad_alloc&) {
}

// What was freed may not be enough yet: then after the next. The log may be what is in its way.
void StoreImpl::remake_reserve() {
  if (!reserve_given_) return;
  reserve_given_ = !make_reserve(env_, dir_.root);
  if (reserve_given_ && catalog_.checkpoint(true).is_ok()) reserve_given_ = !make_reserve(env_, dir_.root);
}

void StoreImpl::fold_log(uint64_t from_bytes) {
  if (catalog_.log_bytes() < from_bytes) return;
  Status folded = catalog_.checkpoint();
  if (!folded.is_ok()) logf(log_, LogLevel::kWarn, "store: checkpoint: %s", folded.message().c_str());
}

Status StoreImpl::remove(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  KVRT_TRY(change_locked(true, [&] { return catalog_.remove(domain, name, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::rename(std::string_view domain, std::string_view from, std::string_view to) {
  KVRT_TRY(check_names(domain, from));
  KVRT_TRY(check_names(domain, to));
  std::lock_guard lock(mutex_);
  KVRT_TRY(change_locked(false, [&] { return catalog_.rename(domain, from, to, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::pin(std::string_view domain, std::string_view name, uint8_t priority) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  KVRT_TRY(change_locked(false, [&] { return catalog_.pin(domain, name, priority, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) {
  KVRT_TRY(check_names(domain, name));
  KVRT_TRY(check_ttl(seconds));
  std::lock_guard lock(mutex_);
  int64_t now = env_->unix_ms();
  int64_t expires = seconds != 0 ? now + static_cast<int64_t>(seconds) * 1000 : 0;
  KVRT_TRY(change_locked(false, [&] { return catalog_.set_expiry(domain, name, expires, now); }));
  after_commit(Durability::kTokens);
  return {};
}

// Expired sessions, and what no session holds any more. Their segments go into the trash.
Result<bool> StoreImpl::gc_rows(Collection* c) {
  std::lock_guard lock(mutex_);
  const Impatient as_told = catalog_.impatient(c->wait_ms);
  auto more = [&] { return env_->now_ns() < c->slice_end; };
  const Catalog::Collected before = c->rows;
  KVRT_TRY(change_locked(true, [&]() -> Status {
    KVRT_ASSIGN(c->rows, catalog_.collect(env_->unix_ms(), before, more));
    return {};
  }));
  return !c->rows.finished;
}

// Segments of which less than half is live, one a slice. The lock is not held while it is copied.
Result<bool> StoreImpl::gc_sparse(Collection* c) {
  Catalog::SegmentRow sparse;
  {
    std::lock_guard lock(mutex_);
    KVRT_ASSIGN(sparse, catalog_.sparse_segment(c->compacted));
  }
  if (sparse.row == 0) return false;
  c->compacted = sparse.row;
  return rewrite(sparse, c);
}

Result<bool> StoreImpl::rewrite(const Catalog::SegmentRow& segment, Collection* c) {
  auto moved = compact(segment, c);
  if (moved.is_ok()) c->rewritten += *moved;
  if (moved.status().code() == Code::kNoSpace) return false;  // it needs some to free some
  KVRT_TRY(moved.take_status());
  return true;
}

// The files of what was collected, and those that could not be unlinked before.
Result<bool> StoreImpl::gc_trash(Collection* c) {
  std::lock_guard lock(mutex_);
  const Impatient as_told = catalog_.impatient(c->wait_ms);
  KVRT_TRY(check_writable_locked());
  if (catalog_.settled_trash().empty()) {
    KVRT_ASSIGN(auto trash, catalog_.trash());
    if (trash.empty()) return false;
    KVRT_TRY(change_locked(true, [&] { return catalog_.settle(); }));
  }
  (void)catalog_.set_durability(Durability::kProcess).is_ok();
  const size_t gone = empty_trash(env_, log_, dir_.root, &catalog_, &files_, c->slice_end, &c->files);
  remake_reserve();
  return gone > 0;
}

// A slice for what the others wrote to the log, where it is enough of one, or the disk is full: slices that the clock cuts short make a log as
// long as the machine is slow.
Status StoreImpl::gc_log(Collection* c) {
  {
    std::lock_guard lock(mutex_);
    if (catalog_.log_bytes() < (reserve_given_ ? kFullLogBytesMax : kLogBytesMax / 4)) return {};
  }
  KVRT_TRY(c->next_slice());
  std::lock_guard lock(mutex_);
  if (reserve_given_ && catalog_.checkpoint(true).is_ok()) return {};
  fold_log(0);
  return {};
}

// The log has what was removed until it is folded in full, which a reader elsewhere may hold up: then the next gc, save or close does it.
Status StoreImpl::gc_fold(Collection* c) {
  const uint64_t end = env_->now_ns() + kFoldWaitMs * 1'000'000;
  Catalog::Scrub scrub;
  for (int standing = 0;;) {  // slices in which others wrote as much as was folded
    KVRT_TRY(c->next_slice());
    std::unique_lock lock(mutex_);
    KVRT_TRY(check_writable_locked());
    const Impatient at_once = catalog_.impatient();
    const uint64_t before = scrub.scrubbed;
    unfolded_ = true;
    Status folded = catalog_.scrub(&scrub, [&] { return env_->now_ns() < c->slice_end; });
    if (folded.code() == Code::kIo) return folded;
    if (folded.is_ok() && scrub.finished) {
      unfolded_ = false;
      if (catalog_.log_file_bytes() > 0) (void)catalog_.checkpoint(true).is_ok();  // nothing of what was removed
      return {};
    }
    standing += folded.is_ok() && scrub.scrubbed == before;
    if (folded.is_ok() && standing < kFoldsMax) continue;
    if (folded.code() == Code::kNoSpace && !std::exchange(reserve_given_, true)) {
      give_up_reserve(env_, dir_.root);
      continue;
    }
    if (folded.is_ok() || folded.code() != Code::kBusy || env_->now_ns() >= end) {
      c->log_bytes_kept = catalog_.log_file_bytes();
      logf(log_, LogLevel::kWarn, "store: the log keeps %llu bytes, removed content among them: %s",
           static_cast<unsigned long long>(c->log_bytes_kept), folded.message().c_str());
      return {};
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Files that no row names and that no save is writing.
Result<bool> StoreImpl::gc_orphans(Collection* c) {
  std::lock_guard lock(mutex_);
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

// One slice, where there is something: a store whose host never calls gc does not grow for ever. What fails here, for want of memory too, the
// next one tries again: the save is made.
void StoreImpl::collect_after_save(Durability durability) try {
  if (durability == Durability::kNone || durability == Durability::kProcess) return;  // they wait for no disk
  {
    std::lock_guard lock(mutex_);
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
    std::lock_guard lock(mutex_);
    KVRT_TRY(check_writable_locked());
    KVRT_ASSIGN(total, catalog_.count_expired(env_->unix_ms()));
    total++;  // the files
  }
  c.go_on = [&] {
    c.slice_end = env_->now_ns() + kSliceNs;
    return !progress || progress(std::min(c.rows.sessions, total - 1), total);
  };
  using Slice = Result<bool> (StoreImpl::*)(Collection*);
  for (Slice slice : {&StoreImpl::gc_rows, &StoreImpl::gc_sparse, &StoreImpl::gc_find_dead, &StoreImpl::gc_punch, &StoreImpl::gc_trash,
                      &StoreImpl::gc_orphans}) {
    for (bool more = true; more;) {
      KVRT_TRY(c.next_slice());
      KVRT_ASSIGN(more, (this->*slice)(&c));
      KVRT_TRY(gc_log(&c));
    }
  }
  KVRT_TRY(gc_fold(&c));
  {
    std::lock_guard lock(mutex_);
    remake_reserve();
  }
  if (progress) progress(total, total);
  const double ms = static_cast<double>(env_->now_ns() - start) * 1e-6;
  return GcReport{c.rows.sessions, c.rows.chunks, c.files.count, c.files.bytes, c.rewritten, c.punched, c.log_bytes_kept, ms};
}

Result<std::vector<VerifyFault>> StoreImpl::verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                                   const SessionCheck& check) {
  std::vector<VerifyFault> faults;
  std::vector<Catalog::ChunkRow> chunks;
  std::vector<Catalog::SegmentRow> segments;
  {
    std::lock_guard lock(mutex_);
    KVRT_TRY(catalog_.check_in_place());  // else each of its segments would be missing
    Status checked = catalog_.check(check, &faults, &chunks, &segments);
    if (checked.is_ok()) checked = catalog_.check_model_ids(&faults);
    if (checked.code() == Code::kCorrupt) {  // so much that not even its tables can be read
      faults.push_back({"catalog", checked.message(), ""});
      return faults;
    }
    KVRT_TRY(checked.clone());
    if (!dir_.log_damage.empty()) faults.push_back({"catalog.db-wal", "when this store was opened: " + dir_.log_damage, ""});
    KVRT_ASSIGN(const FormatFile format, read_format(env_, dir_.root));
    if (format.kind != FormatFile::Kind::kSound && format.kind != FormatFile::Kind::kOld) {
      faults.push_back({"FORMAT", format.kind == FormatFile::Kind::kMissing ? "missing" : "damaged", ""});
    }
  }
  auto still_there = [&](const Catalog::ChunkRow& chunk) {
    std::lock_guard lock(mutex_);
    auto at = catalog_.find(chunk.key);
    const auto named = [&](const Catalog::SegmentRow& row) { return row.row == chunk.segment && row.id == (*at)->id; };
    return at.is_ok() && at->has_value() && (*at)->offset == chunk.offset && std::any_of(segments.begin(), segments.end(), named);
  };
  CodecPool::Lease codec(&codecs_);
  KVRT_TRY(verify_segments(env_, dir_.root, codec.get(), segments, chunks, still_there, progress, &faults));
  return faults;
}

}  // namespace kvrt
