// Saves: makes room for one, within the quota and the space that must stay free on the file system.
#include "storage/store/saves.h"

namespace kvrt {

// Takes the log's space and garbage first, then the waste in sparse segments, then the catalog's free pages if they are enough, then other
// sessions' KV in evict's order. Tokens stay.
Status Saves::make_room(uint64_t kv, uint64_t manifest, const SavedBy& by) {
  int64_t compacted = 0;
  for (;;) {
    Space::Shortage shortage;
    {
      Lock lock(writer_->mutex);
      KVRT_ASSIGN(shortage, writer_->shortage(kv, manifest));
    }
    if (shortage.bytes == 0) return {};
    KVRT_ASSIGN(const bool freed, free_some(shortage.bytes, by, &compacted));
    if (freed) continue;
    Lock lock(writer_->mutex);
    writer_->remake_reserve();  // freeing may have taken it
    return std::move(shortage.why);
  }
}

// One step of make_room. False: there is nothing left to take.
Result<bool> Saves::free_some(uint64_t bytes, const SavedBy& by, int64_t* compacted) {
  Collection c;
  c.slice_end = store_->env->now_ns() + kSliceNs;
  c.compacted = *compacted;
  KVRT_ASSIGN(const bool garbage, take_garbage(&c));
  *compacted = c.compacted;
  if (garbage) return true;
  uint64_t free_pages;
  {
    Lock lock(writer_->mutex);
    free_pages = writer_->catalog.db.free_bytes();
  }
  if (free_pages >= bytes) {
    c.slice_end = store_->env->now_ns() + kSliceNs;
    KVRT_ASSIGN(const bool vacuumed, collector_->vacuum(&c));
    if (vacuumed) return true;
    free_pages = 0;  // there is no room to move pages
  }
  if (by.spares_others) return false;
  KVRT_ASSIGN(const bool evicted, evict(bytes, free_pages, by));
  if (evicted) *compacted = 0;
  return evicted;
}

// What no session misses.
Result<bool> Saves::take_garbage(Collection* c) {
  {
    Lock lock(writer_->mutex);
    const Impatient at_once = writer_->catalog.db.impatient();
    Status folded =
        writer_->catalog.db.log_bytes() > 0 ? writer_->catalog.db.checkpoint(true) : error(Code::kNotFound, Detail::kNone, "no log");
    if (folded.is_ok()) return true;
    if (folded.code() == Code::kIo) return folded;
  }
  KVRT_ASSIGN(const bool unlinked, collector_->unlink_trash(c));
  if (unlinked) return true;
  c->rows.looks = false;  // the steps of one save are no two looks at the clock
  KVRT_TRY(collector_->collect_rows(c).take_status());
  if (c->rows.nodes + c->rows.sessions > 0) return true;
  KVRT_ASSIGN(const bool sealing, collector_->seal_open(c));
  return sealing ? true : collector_->copy_sparse(c);
}

Result<bool> Saves::evict(uint64_t bytes, uint64_t free_pages, const SavedBy& by) {
  using ull = unsigned long long;
  Lock lock(writer_->mutex);
  KVRT_ASSIGN(const uint64_t segments, writer_->catalog.segments.total_bytes());
  if (segments + free_pages < bytes) return false;  // all KV of the store would not be enough
  Evicted evicted;
  const uint64_t slice_end = store_->env->now_ns() + kSliceNs;
  KVRT_TRY(writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
    KVRT_ASSIGN(evicted, writer_->catalog.evict(by, bytes, [&] { return store_->env->now_ns() < slice_end; }));
    return {};
  }));
  if (evicted.sessions == 0) return false;
  evicted_ += evicted.chunks;
  writer_->after_commit(Durability::kTokens);
  logf(store_->log, LogLevel::kInfo, "store: no room: the KV of %llu sessions was evicted, %llu bytes in %llu chunks; their tokens stay",
       ull{evicted.sessions}, ull{evicted.bytes}, ull{evicted.chunks});
  return true;
}

}  // namespace kvrt
