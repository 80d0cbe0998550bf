// Collector: zeroes frames that no row names, in a segment that stays. Their space goes back to the file system.
#include <utility>

#include "storage/store/collector.h"

namespace kvrt {

namespace {

// The ranges between the rows' frames that are not zeros yet. CORRUPT if the segment's index is damaged, or a row's frame is not in the
// segment.
Result<std::vector<FileRange>> dead_ranges(const File& file, const SegmentRow& segment, const StoreId& store,
                                           std::span<const ChunkPlace> live) {
  KVRT_ASSIGN(const auto index, read_segment_index(file, segment.id, store));
  KVRT_ASSIGN(const uint64_t size, file.size());
  const uint64_t frames_end = size - kSegmentTrailerBytes - index.size() * kSegmentEntryBytes;
  std::vector<FileRange> dead;
  uint64_t at = kSegmentHeaderBytes;
  const auto add = [&](uint64_t end) -> Status {
    if (end <= at) return {};
    KVRT_ASSIGN(const bool zero, file.is_zero(at, end - at));
    if (!zero) dead.push_back({at, end - at});
    return {};
  };
  for (const ChunkPlace& chunk : live) {
    if (chunk.offset < at || chunk.offset > frames_end || chunk.bytes > frames_end - chunk.offset) {
      return error(Code::kCorrupt, Detail::kFormat, "a row's frame is not in the segment");
    }
    KVRT_TRY(add(chunk.offset));
    at = chunk.offset + chunk.bytes;
  }
  KVRT_TRY(add(frames_end));
  return dead;
}

}  // namespace

// Looks through segments with dead frames for ranges that are not punched yet. A segment without a good index is to be written anew.
Result<bool> Collector::find_dead(Collection* c) {
  do {
    SegmentRow segment;
    std::vector<ChunkPlace> live;
    {
      Lock lock(writer_->mutex);
      KVRT_TRY(writer_->check_writable());
      KVRT_ASSIGN(segment, writer_->catalog.segments.with_dead(c->searched));
      if (segment.row == 0) return false;
      KVRT_ASSIGN(live, writer_->catalog.chunks.in_segment(segment));
    }
    c->searched = segment.row;
    auto file = store_->files.open(segment.id);
    if (!file.is_ok() || live.empty()) continue;  // missing, or removed meanwhile
    auto dead = dead_ranges(**file, segment, store_->files.store(), live);
    if (dead.is_ok() && !dead->empty()) c->dead.push_back({segment, std::move(*dead)});
    if (dead.status().code() == Code::kCorrupt) c->dead.push_back({segment, {}});
  } while (store_->env->now_ns() < c->slice_end);
  return true;
}

// Punches one segment a slice. A dead frame stays dead: a sealed segment gets no new chunk. Before the first punch, the commits that made
// the frames dead must be on the disk: a power cut must not bring back rows whose frames are gone.
Result<bool> Collector::punch_dead(Collection* c) {
  if (c->dead.empty()) return false;
  if (!std::exchange(c->dead_settled, true)) {
    Lock lock(writer_->mutex);
    KVRT_TRY(writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) { return writer_->catalog.db.settle(); }));
    return true;
  }
  const Collection::Dead dead = std::move(c->dead.back());
  c->dead.pop_back();
  if (!dead.ranges.empty()) {
    Status punched = store_->env->punch(dead.segment.id.path(store_->dir.root), dead.ranges);
    if (punched.is_ok()) {
      for (const FileRange& range : dead.ranges) c->punched += range.bytes;
      return true;
    }
    if (punched.code() == Code::kNotFound || punched.code() == Code::kNoSpace) return true;
    if (punched.code() != Code::kUnsupported) return punched;
  }
  KVRT_TRY(rewrite(dead.segment, c).take_status());
  return true;  // where it found no room the others may still be punched
}

}  // namespace kvrt
