// StoreImpl: seals segments: those of this store, once no save uses them, and those that a killed process left open.
#include <algorithm>
#include <new>

#include "storage/store/store_impl.h"

namespace kvrt {

namespace {
constexpr uint64_t kOpenSegmentPart = 32;    // of the room that KV can have
constexpr uint64_t kSparseBytes = 4u << 20;  // from these on a segment that is mostly dead is copied after a save
}  // namespace

// A segment that is to be sealed. Its index has the frames that rows name: others are dead, or those of a save that was given up.
struct StoreImpl::Sealing {
  SegmentRow row;  // row 0: there is nothing to seal
  uint64_t frames_end = 0;
  std::vector<SegmentEntry> index;
};

// The caller holds the segment's lock: nobody appends to it, and no row comes. A file that is shorter than its row says has lost chunks.
Result<StoreImpl::Sealing> StoreImpl::begin_seal(const SegmentId& id, uint64_t file_bytes, const SealMode& mode) {
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(mode.wait_ms);
  KVRT_TRY(check_writable_locked());
  Sealing s;
  KVRT_ASSIGN(s.row, catalog_.segments.find(id));
  if (s.row.row == 0 || s.row.sealed) return Sealing();
  if (s.row.bytes > file_bytes) {
    uint64_t lost = 0;
    KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) -> Status {
      KVRT_ASSIGN(lost, catalog_.chunks.forget_behind(id, file_bytes));
      return {};
    }));
    damaged_ += lost;
    KVRT_ASSIGN(s.row, catalog_.segments.find(id));
  }
  s.frames_end = s.row.bytes;
  KVRT_ASSIGN(const auto chunks, catalog_.chunks.in_segment(s.row));
  for (const ChunkPlace& chunk : chunks) {
    if (chunk.offset > file_bytes || chunk.bytes > file_bytes - chunk.offset) continue;  // a damaged row
    s.index.push_back({chunk.chunk.node, chunk.offset, chunk.bytes});
    s.frames_end = std::max(s.frames_end, chunk.offset + chunk.bytes);
  }
  return s;
}

// A power cut may undo it: then it is sealed again.
Status StoreImpl::end_seal(const SegmentId& id, uint64_t bytes, const SealMode& mode) {
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(mode.wait_ms);
  KVRT_TRY(check_writable_locked());
  KVRT_TRY(catalog_.db.set_durability(mode.syncs ? Durability::kTokens : Durability::kProcess));
  Status sealed = catalog_.segments.seal(id, bytes);
  if (sealed.code() == Code::kIo) broken_ = sealed.clone();
  files_.forget(id);
  return sealed;
}

// Where KV was to outlast a power cut the footer does, too.
Status StoreImpl::sync_sealed(const Sealing& s, const std::function<Status()>& sync) {
  if (s.row.synced == 0) return {};
  Status synced = sync();
  if (synced.is_ok()) return {};
  Lock lock(mutex_);
  KVRT_TRY(distrust_locked(s.row.id, synced));
  return synced;
}

// Seals a segment that take_idle gave.
Status StoreImpl::seal_own(OpenSegments::Taken* segment, const SealMode& mode) {
  const SegmentId id = segment->id();
  KVRT_ASSIGN(const Sealing s, begin_seal(id, segment->bytes(), mode));
  if (s.row.row == 0) return {};  // its row is gone: somebody removed the file
  uint64_t bytes = s.row.bytes;
  if (s.row.live > 0) {
    KVRT_ASSIGN(bytes, segment->seal(s.frames_end, s.index));
    KVRT_TRY(sync_sealed(s, [&] { return segment->sync(); }));
  }
  return end_seal(id, bytes, mode);
}

// Seals the segments that take no more saves, and that none uses. The count; another time where there is no room, or no turn to write.
Result<uint64_t> StoreImpl::seal_retired(const SealMode& mode) {
  uint64_t count = 0;
  for (OpenSegments::Taken& segment : open_.take_idle()) {
    Status sealed = seal_own(&segment, mode);
    if (sealed.is_ok()) {
      segment.drop();
      ++count;
    } else if (sealed.code() != Code::kNoSpace && sealed.code() != Code::kBusy) {
      return sealed;
    }
  }
  return count;
}

// Seals the segment of a writer that is dead: its lock can be had. BUSY: it is not.
Status StoreImpl::seal_dead(const SegmentId& id, const SealMode& mode) {
  auto opened = env_->open_append(id.path(dir_.root));
  if (opened.status().code() == Code::kNotFound) {  // a power cut, or somebody removed it
    Lock lock(mutex_);
    const Impatient as_told = catalog_.db.impatient(mode.wait_ms);
    return change_locked(true, [&]() KVRT_REQUIRES(mutex_) -> Status {
      KVRT_ASSIGN(const uint64_t lost, catalog_.chunks.forget_segment(id));
      damaged_ += lost;
      return {};
    });
  }
  KVRT_ASSIGN(const std::unique_ptr<File> file, std::move(opened));
  KVRT_ASSIGN(const uint64_t size, file->size());
  KVRT_ASSIGN(const Sealing s, begin_seal(id, size, mode));
  if (s.row.row == 0) return {};  // another was faster
  uint64_t bytes = s.row.bytes;
  if (s.row.live > 0) {
    KVRT_ASSIGN(bytes, write_footer(file.get(), s.frames_end, s.index));
    KVRT_TRY(sync_sealed(s, [&] { return file->sync(); }));
  }
  return end_seal(id, bytes, mode);
}

// Lets those go of which every chunk was removed, on the disk: their space is free at once.
void StoreImpl::drop_dead_locked() {
  for (const SegmentId& id : open_.list()) {
    auto row = catalog_.segments.find(id);
    if (!row.is_ok() || row->row == 0 || row->live > 0) continue;
    auto segment = open_.take(id);
    if (!segment) continue;
    Status dropped = catalog_.db.set_durability(Durability::kTokens);
    if (dropped.is_ok()) dropped = catalog_.segments.seal(id, row->bytes);
    if (dropped.code() == Code::kIo) broken_ = dropped.clone();
    if (dropped.is_ok()) segment->drop();
  }
}

// Seals what killed processes left. It may fail without harm: gc tries again.
void StoreImpl::seal_left() try {
  std::vector<SegmentRow> left;
  {
    Lock lock(mutex_);
    if (!check_writable_locked().is_ok()) return;
    auto rows = catalog_.segments.open();
    if (rows.is_ok()) left = std::move(*rows);
  }
  for (const SegmentRow& row : left) (void)seal_dead(row.id, {}).is_ok();
} catch (const std::bad_alloc&) {
}

// Retires this store's segments that have dead frames. `others`: the open ones that are not its own.
Status StoreImpl::retire_with_dead(std::vector<SegmentId>* others) {
  const std::vector<SegmentId> own = open_.list();
  Lock lock(mutex_);
  KVRT_TRY(check_writable_locked());
  KVRT_ASSIGN(const auto rows, catalog_.segments.open());
  for (const SegmentRow& row : rows) {
    if (std::find(own.begin(), own.end(), row.id) == own.end()) {
      others->push_back(row.id);
    } else if (row.live + kSegmentHeaderBytes != row.bytes) {
      open_.retire(row.id);
    }
  }
  return {};
}

// Seals the segments that can have garbage: only sealed ones are removed, copied or punched. True: some were.
Result<bool> StoreImpl::gc_seal(Collection* c) {
  if (std::exchange(c->sealed, true)) return false;
  std::vector<SegmentId> others;
  KVRT_TRY(retire_with_dead(&others));
  KVRT_ASSIGN(uint64_t count, seal_retired({c->wait_ms}));
  for (const SegmentId& id : others) {
    Status sealed = seal_dead(id, {c->wait_ms});
    if (sealed.code() == Code::kIo && !is_want(sealed)) return sealed;
    count += sealed.is_ok();
  }
  return count > 0;
}

// Those of its segments of which less than half is live are copied, as far as they are sealed: a store whose host never calls gc does not
// keep what saves replaced.
void StoreImpl::rewrite_sparse(std::span<const SegmentId> own, bool closing) {
  for (const SegmentId& id : own) {
    SegmentRow row;
    {
      Lock lock(mutex_);
      auto found = catalog_.segments.find(id);
      if (found.is_ok()) row = *found;
    }
    Collection c;
    c.slice_end = UINT64_MAX;
    c.wait_ms = closing ? kCloseWaitMs : 0;
    c.closing = closing;
    if (row.row != 0 && row.sealed && 2 * row.live < row.bytes) (void)rewrite(row, &c).is_ok();
  }
}

// After a save: a segment that is large enough, for the room that there is, takes no more. Without this a save's KV would be in the way of
// another's where there is little room. Nor does one with much that is dead. Housekeeping: it may fail without harm.
void StoreImpl::settle_segments(Durability durability) try {
  const std::vector<SegmentId> own = open_.list();
  if (own.empty()) return;
  const bool waits = durability != Durability::kNone && durability != Durability::kProcess;
  {
    Lock lock(mutex_);
    auto segments = catalog_.segments.total_bytes();
    if (!segments.is_ok()) return;
    const uint64_t used = *segments + catalog_.db.disk_bytes() + uncounted_bytes();
    auto free = bytes_free(used);
    if (!free.is_ok()) return;
    open_.retire(std::min(kOpenSegmentBytes, (used + *free) / kOpenSegmentPart));
    for (const SegmentId& id : own) {
      auto row = catalog_.segments.find(id);
      if (waits && row.is_ok() && row->bytes >= kSparseBytes && 2 * row->live < row->bytes) open_.retire(id);
    }
  }
  auto sealed = seal_retired({0, waits});
  if (sealed.is_ok() && *sealed > 0 && waits) rewrite_sparse(own, false);
} catch (const std::bad_alloc&) {
}

// At the close, so that a store at rest has no open segment.
void StoreImpl::seal_all() {
  const std::vector<SegmentId> own = open_.list();
  if (own.empty()) return;
  open_.retire(0);
  if (seal_retired({kCloseWaitMs}).is_ok()) rewrite_sparse(own, true);
}

}  // namespace kvrt
