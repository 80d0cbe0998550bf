// Collector: gc, and its slices.
#include "storage/store/collector.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "storage/store/orphans.h"
#include "storage/store/trash.h"

namespace kvrt {

namespace {
constexpr uint64_t kFoldWaitMs = 4'000;  // gc waits so long for readers elsewhere that hold the log
constexpr int kFoldsMax = 100;
constexpr uint64_t kFullLogBytesMax = 64u << 10;  // while the reserve is in use
}  // namespace

// Removes expired sessions, and nodes that no session holds any more. Segments left without a chunk go into the trash.
Result<bool> Collector::collect_rows(Collection* c) {
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(c->wait_ms);
  auto more = [&] { return store_->env->now_ns() < c->slice_end; };
  const Collected before = c->rows;
  KVRT_TRY(writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
    KVRT_ASSIGN(c->rows, writer_->catalog.collect(store_->env->unix_ms(), before, more));
    return {};
  }));
  return !c->rows.finished;
}

// Seals the segments that can have garbage: only sealed ones are removed, copied or punched. True: some were.
Result<bool> Collector::seal_open(Collection* c) {
  if (std::exchange(c->sealed, true)) return false;
  std::vector<SegmentId> others;
  KVRT_TRY(sealer_->retire_with_dead(&others));
  KVRT_ASSIGN(uint64_t count, sealer_->seal_retired({c->wait_ms}));
  for (const SegmentId& id : others) {
    Status sealed = sealer_->seal_dead(id, {c->wait_ms});
    if (sealed.code() == Code::kIo && !is_want(sealed)) return sealed;
    count += sealed.is_ok();
  }
  return count > 0;
}

// Unlinks the files of collected segments, and those that could not be unlinked before.
Result<bool> Collector::unlink_trash(Collection* c) {
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(c->wait_ms);
  KVRT_TRY(writer_->check_writable());
  if (writer_->catalog.segments.settled_trash().empty()) {
    KVRT_ASSIGN(auto trash, writer_->catalog.segments.trash());
    if (trash.empty()) return false;
    KVRT_TRY(writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) { return writer_->catalog.db.settle(); }));
  }
  (void)writer_->catalog.db.set_durability(Durability::kProcess).is_ok();
  const size_t gone = empty_trash(store_->env, store_->log, store_->dir.root, &writer_->catalog, &store_->files, c->slice_end, &c->files);
  writer_->remake_reserve();
  return gone > 0;
}

// Gives the catalog's free pages back. Where there is no room to move its last pages there they stay.
Result<bool> Collector::vacuum(Collection* c) {
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(c->wait_ms);
  auto more = [&] { return store_->env->now_ns() < c->slice_end; };
  uint64_t freed = 0;
  Status vacuumed = writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
    KVRT_ASSIGN(freed, writer_->catalog.db.vacuum(more));
    return {};
  });
  if (vacuumed.code() == Code::kNoSpace) return false;
  KVRT_TRY(std::move(vacuumed));
  return freed > 0;
}

// Folds the log in a slice of its own, once the other slices wrote enough to it, or less on a full disk. The clock cuts slices short, so a
// slow machine has more of them, and without this a longer log.
Status Collector::fold_long_log(Collection* c) {
  {
    Lock lock(writer_->mutex);
    if (writer_->catalog.db.log_bytes() < (writer_->reserve_given() ? kFullLogBytesMax : kLogBytesMax / 4)) return {};
  }
  KVRT_TRY(c->next_slice());
  Lock lock(writer_->mutex);
  if (writer_->reserve_given() && writer_->catalog.db.checkpoint(true).is_ok()) return {};
  writer_->fold_log(0);
  return {};
}

// The log has removed content until it is folded in full. A reader elsewhere may hold that up: then the next gc, save or close does it.
Status Collector::scrub_log(Collection* c) {
  const uint64_t end = store_->env->now_ns() + kFoldWaitMs * 1'000'000;
  CatalogDb::Scrub scrub;
  for (int standing = 0;;) {  // counts slices that scrubbed no page: others had written too much
    KVRT_TRY(c->next_slice());
    {
      Lock lock(writer_->mutex);
      KVRT_TRY(writer_->check_writable());
      const Impatient at_once = writer_->catalog.db.impatient();
      const uint64_t before = scrub.scrubbed;
      Status folded = writer_->scrub(&scrub, [&] { return store_->env->now_ns() < c->slice_end; });
      if (folded.code() == Code::kIo || (folded.is_ok() && scrub.finished)) return folded;
      standing += folded.is_ok() && scrub.scrubbed == before;
      if (folded.is_ok() && standing < kFoldsMax) continue;
      if (folded.code() == Code::kNoSpace && !writer_->reserve_given()) {
        writer_->give_reserve();
        continue;
      }
      if (folded.is_ok() || folded.code() != Code::kBusy || store_->env->now_ns() >= end) {
        c->log_bytes_kept = writer_->catalog.db.log_file_bytes();
        logf(store_->log, LogLevel::kWarn, "store: the log keeps %llu bytes, removed content among them: %s",
             static_cast<unsigned long long>(c->log_bytes_kept), folded.message().c_str());
        return {};
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Removes files that no row names and that no save is writing.
Result<bool> Collector::unlink_orphans(Collection* c) {
  Lock lock(writer_->mutex);
  if (!std::exchange(c->listed, true)) {
    KVRT_ASSIGN(c->directories, segment_directories(store_->env, store_->dir.root));
  }
  do {
    KVRT_TRY(writer_->check_writable());
    if (c->directories.empty()) return false;
    KVRT_TRY(remove_orphans(store_->env, store_->log, store_->dir.root, c->directories.back(), &writer_->catalog, &c->files));
    c->directories.pop_back();
  } while (store_->env->now_ns() < c->slice_end);
  return true;
}

void Collector::collect_after_save(Durability durability) try {
  if (!waits_for_disk(durability)) return;
  {
    Lock lock(writer_->mutex);
    auto garbage = writer_->catalog.has_garbage(store_->env->unix_ms());
    if (!garbage.is_ok() || !*garbage) return;
  }
  Collection c;
  c.wait_ms = 0;
  c.slice_end = store_->env->now_ns() + kSliceNs;
  if (collect_rows(&c).is_ok()) (void)unlink_trash(&c).is_ok();
} catch (const std::bad_alloc&) {
}

Result<GcReport> Collector::gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) {
  const uint64_t start = store_->env->now_ns();
  Collection c;
  uint64_t total = 0;
  {
    Lock lock(writer_->mutex);
    KVRT_TRY(writer_->check_writable());
    KVRT_ASSIGN(total, writer_->catalog.sessions.count_expired(store_->env->unix_ms()));
    total++;  // the files count as one more
  }
  c.go_on = [&] {
    c.slice_end = store_->env->now_ns() + kSliceNs;
    return !progress || progress(std::min(c.rows.sessions, total - 1), total);
  };
  using Slice = Result<bool> (Collector::*)(Collection*);
  for (Slice slice : {&Collector::collect_rows, &Collector::seal_open, &Collector::copy_sparse, &Collector::find_dead,
                      &Collector::punch_dead, &Collector::unlink_trash, &Collector::unlink_orphans, &Collector::vacuum}) {
    for (bool more = true; more;) {
      KVRT_TRY(c.next_slice());
      KVRT_ASSIGN(more, (this->*slice)(&c));
      KVRT_TRY(fold_long_log(&c));
    }
  }
  KVRT_TRY(scrub_log(&c));
  {
    Lock lock(writer_->mutex);
    writer_->remake_reserve();
  }
  if (c.rows.jumped && total > 1) {
    logf(store_->log, LogLevel::kWarn, "store: the clock jumped since the last gc or save; expired sessions (%llu) stay until the next gc",
         static_cast<unsigned long long>(total - 1));
  }
  if (progress) progress(total, total);
  const double ms = static_cast<double>(store_->env->now_ns() - start) * 1e-6;
  return GcReport{c.rows.sessions, c.rows.chunks, c.files.count, c.files.bytes, c.rewritten, c.punched, c.log_bytes_kept, ms};
}

}  // namespace kvrt
