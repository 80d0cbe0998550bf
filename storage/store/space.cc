// StoreImpl: makes room for saves, within the quota and the space that must stay free on the file system.
#include <algorithm>

#include "storage/store/reserve.h"
#include "storage/store/store_impl.h"

namespace kvrt {

namespace {
constexpr uint64_t kFreeBytesMin = 1u << 30;
constexpr uint64_t kCommitBytes = 64u << 10;  // KV leaves these free in any case, for the log when the save commits

unsigned long long ull(uint64_t v) { return v; }
}  // namespace

// For a frame and the manifest that is to follow it, or for the manifest alone (`kv` 0).
Result<StoreImpl::Shortage> StoreImpl::shortage_locked(uint64_t kv, uint64_t manifest) {
  Shortage shortage;
  if (disk_bytes_max_ != 0) {
    KVRT_ASSIGN(const uint64_t segments, catalog_.segments.total_bytes());
    const uint64_t used = segments + catalog_.db.disk_bytes() + uncounted_bytes();
    const uint64_t more = kv + manifest - std::min(manifest, catalog_.db.free_bytes());  // free pages are in `used`
    if (used + more > disk_bytes_max_) {
      shortage.bytes = used + more - disk_bytes_max_;
      shortage.why = error(Code::kNoSpace, Detail::kNone,
                           "%s: %llu bytes used, %llu more wanted, disk_bytes_max is %llu: raise it, or remove sessions", dir_.root.c_str(),
                           ull(used), ull(more), ull(disk_bytes_max_));
    }
  }
  KVRT_ASSIGN(const FsInfo fs, env_->fs_info(dir_.root));
  const uint64_t reserve = reserve_given_ ? kReserveBytes : 0;  // to be made again
  const uint64_t keep = kv != 0 ? kept_free(fs) + reserve : 0;  // tokens may use the space that KV leaves free
  const uint64_t more = kv + manifest;
  if (fs.free_bytes < keep + more && keep + more - fs.free_bytes > shortage.bytes) {
    shortage.bytes = keep + more - fs.free_bytes;
    shortage.why = error(
        Code::kNoSpace, Detail::kNone,
        "%s: %llu bytes free on the file system, %llu more wanted, and %llu of them must stay free: free space there, or remove sessions",
        dir_.root.c_str(), ull(fs.free_bytes), ull(more), ull(keep));
  }
  return shortage;
}

uint64_t StoreImpl::kept_free(const FsInfo& fs) const {
  return std::max(kCommitBytes, free_bytes_min_ != 0 ? free_bytes_min_ : std::min(kFreeBytesMin, fs.total_bytes / 20));
}

Result<uint64_t> StoreImpl::bytes_free(uint64_t used) {
  KVRT_ASSIGN(const FsInfo fs, env_->fs_info(dir_.root));
  const uint64_t free = fs.free_bytes - std::min(fs.free_bytes, kept_free(fs));
  return disk_bytes_max_ != 0 ? std::min(free, disk_bytes_max_ - std::min(disk_bytes_max_, used)) : free;
}

// Takes the log's space and garbage first, then the waste in sparse segments, then the catalog's free pages if they are enough, then other
// sessions' KV in evict's order. Tokens stay.
Status StoreImpl::make_room(uint64_t kv, uint64_t manifest, const SavedBy& by) {
  int64_t compacted = 0;
  for (;;) {
    Shortage shortage;
    {
      Lock lock(mutex_);
      KVRT_ASSIGN(shortage, shortage_locked(kv, manifest));
    }
    if (shortage.bytes == 0) return {};
    KVRT_ASSIGN(const bool freed, free_some(shortage.bytes, by, &compacted));
    if (freed) continue;
    Lock lock(mutex_);
    remake_reserve();  // freeing may have taken it
    return std::move(shortage.why);
  }
}

// One step of make_room. False: there is nothing left to take.
Result<bool> StoreImpl::free_some(uint64_t bytes, const SavedBy& by, int64_t* compacted) {
  Collection c;
  c.slice_end = env_->now_ns() + kSliceNs;
  {
    Lock lock(mutex_);
    const Impatient at_once = catalog_.db.impatient();
    Status folded = catalog_.db.log_bytes() > 0 ? catalog_.db.checkpoint(true) : error(Code::kNotFound, Detail::kNone, "no log");
    if (folded.is_ok()) return true;
    if (folded.code() == Code::kIo) return folded;
  }
  KVRT_ASSIGN(const bool unlinked, gc_trash(&c));
  if (unlinked) return true;
  c.rows.looks = false;  // the steps of one save are no two looks at the clock
  KVRT_TRY(gc_rows(&c).take_status());
  if (c.rows.nodes + c.rows.sessions > 0) return true;
  KVRT_ASSIGN(const bool sealing, gc_seal(&c));
  if (sealing) return true;
  c.compacted = *compacted;
  KVRT_ASSIGN(const bool compacting, gc_sparse(&c));
  *compacted = c.compacted;
  if (compacting) return true;
  uint64_t free_pages;
  {
    Lock lock(mutex_);
    free_pages = catalog_.db.free_bytes();
  }
  if (free_pages >= bytes) {
    c.slice_end = env_->now_ns() + kSliceNs;
    KVRT_ASSIGN(const bool vacuumed, gc_pages(&c));
    if (vacuumed) return true;
    free_pages = 0;  // there is no room to move pages
  }
  Lock lock(mutex_);
  KVRT_ASSIGN(const uint64_t segments, catalog_.segments.total_bytes());
  if (segments + free_pages < bytes) return false;  // all KV of the store would not be enough
  Evicted evicted;
  c.slice_end = env_->now_ns() + kSliceNs;
  KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) -> Status {
    KVRT_ASSIGN(evicted, catalog_.evict(by, bytes, [&] { return env_->now_ns() < c.slice_end; }));
    return {};
  }));
  if (evicted.sessions == 0) return false;
  evicted_ += evicted.chunks;
  after_commit(Durability::kTokens);
  logf(log_, LogLevel::kInfo, "store: no room: the KV of %llu sessions was evicted, %llu bytes in %llu chunks; their tokens stay",
       ull(evicted.sessions), ull(evicted.bytes), ull(evicted.chunks));
  *compacted = 0;
  return true;
}

// Writes the segment's live chunks into a new one. Gives the bytes written. An unreadable chunk stays where it is, for its reader to find
// out. Sealing waits for the disk once, publishing twice: each has a slice of its own.
Result<uint64_t> StoreImpl::compact(const SegmentRow& segment, Collection* c) {
  std::vector<ChunkPlace> chunks;
  {
    Lock lock(mutex_);
    KVRT_TRY(check_writable_locked());
    KVRT_ASSIGN(chunks, catalog_.chunks.in_segment(segment));
  }
  auto file = files_.open(segment.id);
  if (!file.is_ok()) return uint64_t{0};
  KVRT_ASSIGN(std::unique_ptr<SegmentWriter> writer, SegmentWriter::create(env_, dir_.root, files_.store()));
  struct Discard {
    SegmentWriter* writer;
    std::atomic<bool>* litter;
    ~Discard() {
      if (!writer->discard()) *litter = true;
    }
  } discard{writer.get(), &litter_};
  std::vector<ChunkPlace> moved;
  CodecPool::Lease codec(&codecs_);
  for (const ChunkPlace& chunk : chunks) {
    if (env_->now_ns() >= c->slice_end) KVRT_TRY(c->next_slice());
    auto frame = read_frame(**file, chunk.offset, chunk.bytes, codec->read_buffer());
    if (!frame.is_ok()) continue;
    auto header = parse_frame(*frame);
    if (!header.is_ok() || ChunkKey{header->key, header->group} != chunk.chunk) continue;
    moved.push_back(chunk);
    moved.back().offset = writer->bytes();
    KVRT_TRY(writer->append(chunk.chunk.node, *frame));
  }
  if (moved.empty()) return uint64_t{0};
  KVRT_TRY(c->next_slice());
  KVRT_TRY(writer->seal(true));
  KVRT_TRY(c->next_slice());
  KVRT_TRY(writer->publish(true));
  KVRT_TRY(c->next_slice());
  Lock lock(mutex_);
  const Impatient as_told = catalog_.db.impatient(c->wait_ms);
  const NewSegment to{writer->id(), writer->bytes(), writer->bytes(), moved};
  uint64_t count = 0;
  Status changed = change_locked(false, [&]() KVRT_REQUIRES(mutex_) -> Status {
    KVRT_ASSIGN(count, catalog_.chunks.move(segment, to));
    return {};
  });
  // Want of space may come from the commit's sync: then it is undone by the next transaction, and none follows at the close.
  const bool unknown = !broken_.is_ok() || (c->closing && !changed.is_ok());
  if (count > 0 || unknown) writer->keep();
  if (unknown) litter_ = true;
  KVRT_TRY(std::move(changed));
  return writer->bytes();
}

}  // namespace kvrt
