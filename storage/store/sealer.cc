#include "storage/store/sealer.h"

#include <algorithm>
#include <new>

namespace kvrt {

// A segment that is to be sealed. Its index has the frames that rows name: others are dead, or those of a save that was given up.
struct Sealer::Sealing {
  SegmentRow row;  // row 0: there is nothing to seal
  uint64_t frames_end = 0;
  std::vector<SegmentEntry> index;
};

// The caller holds the segment's lock: nobody appends to it, and no row comes. A file that is shorter than its row says has lost chunks.
Result<Sealer::Sealing> Sealer::begin_seal(const SegmentId& id, uint64_t file_bytes, const SealMode& mode) {
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(mode.wait_ms);
  KVRT_TRY(writer_->check_writable());
  Sealing s;
  KVRT_ASSIGN(s.row, writer_->catalog.segments.find(id));
  if (s.row.row == 0 || s.row.sealed) return Sealing();
  if (s.row.bytes > file_bytes) {
    uint64_t lost = 0;
    KVRT_TRY(writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
      KVRT_ASSIGN(lost, writer_->catalog.chunks.forget_behind(id, file_bytes));
      return {};
    }));
    store_->damaged += lost;
    KVRT_ASSIGN(s.row, writer_->catalog.segments.find(id));
  }
  s.frames_end = s.row.bytes;
  KVRT_ASSIGN(const auto chunks, writer_->catalog.chunks.in_segment(s.row));
  for (const ChunkPlace& chunk : chunks) {
    if (chunk.offset > file_bytes || chunk.bytes > file_bytes - chunk.offset) continue;  // a damaged row
    s.index.push_back({chunk.chunk.node, chunk.offset, chunk.bytes});
    s.frames_end = std::max(s.frames_end, chunk.offset + chunk.bytes);
  }
  return s;
}

// A power cut may undo it: then it is sealed again.
Status Sealer::end_seal(const SegmentId& id, uint64_t bytes, const SealMode& mode) {
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(mode.wait_ms);
  KVRT_TRY(writer_->check_writable());
  KVRT_TRY(writer_->catalog.db.set_durability(mode.syncs ? Durability::kTokens : Durability::kProcess));
  Status sealed = writer_->catalog.segments.seal(id, bytes);
  writer_->note(sealed);
  store_->files.forget(id);
  return sealed;
}

// Where KV was to outlast a power cut the footer does, too.
Status Sealer::sync_sealed(const Sealing& s, const std::function<Status()>& sync) {
  if (s.row.synced == 0) return {};
  Status synced = sync();
  if (synced.is_ok()) return {};
  Lock lock(writer_->mutex);
  KVRT_TRY(writer_->distrust(s.row.id, synced));
  return synced;
}

// Seals a segment that take_idle gave.
Status Sealer::seal_own(OpenSegments::Taken* segment, const SealMode& mode) {
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

Result<uint64_t> Sealer::seal_retired(const SealMode& mode) {
  uint64_t count = 0;
  for (OpenSegments::Taken& segment : store_->open.take_idle()) {
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

Status Sealer::seal_dead(const SegmentId& id, const SealMode& mode) {
  auto opened = store_->env->open_append(id.path(store_->dir.root));
  if (opened.status().code() == Code::kNotFound) {  // a power cut, or somebody removed it
    Lock lock(writer_->mutex);
    const Impatient as_told = writer_->catalog.db.impatient(mode.wait_ms);
    return writer_->change(true, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
      KVRT_ASSIGN(const uint64_t lost, writer_->catalog.chunks.forget_segment(id));
      store_->damaged += lost;
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

void Sealer::seal_left() try {
  std::vector<SegmentRow> left;
  {
    Lock lock(writer_->mutex);
    if (!writer_->check_writable().is_ok()) return;
    auto rows = writer_->catalog.segments.open();
    if (rows.is_ok()) left = std::move(*rows);
  }
  for (const SegmentRow& row : left) (void)seal_dead(row.id, {}).is_ok();
} catch (const std::bad_alloc&) {
}

Status Sealer::retire_with_dead(std::vector<SegmentId>* others) {
  const std::vector<SegmentId> own = store_->open.list();
  Lock lock(writer_->mutex);
  KVRT_TRY(writer_->check_writable());
  KVRT_ASSIGN(const auto rows, writer_->catalog.segments.open());
  for (const SegmentRow& row : rows) {
    if (std::find(own.begin(), own.end(), row.id) == own.end()) {
      others->push_back(row.id);
    } else if (row.live + kSegmentHeaderBytes != row.bytes) {
      store_->open.retire(row.id);
    }
  }
  return {};
}

}  // namespace kvrt
