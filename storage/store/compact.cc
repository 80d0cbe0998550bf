// Collector: copies the live frames of segments that are mostly dead.
#include "storage/store/collector.h"

namespace kvrt {

// Copies segments of which less than half is live, one a call. The lock is not held meanwhile.
Result<bool> Collector::copy_sparse(Collection* c) {
  SegmentRow sparse;
  {
    Lock lock(writer_->mutex);
    KVRT_ASSIGN(sparse, writer_->catalog.segments.sparse(c->compacted));
  }
  if (sparse.row == 0) return false;
  c->compacted = sparse.row;
  return rewrite(sparse, c);
}

Result<bool> Collector::rewrite(const SegmentRow& segment, Collection* c) {
  auto moved = compact(segment, c);
  if (moved.is_ok()) c->rewritten += *moved;
  if (moved.status().code() == Code::kNoSpace) return false;  // it needs room to free room
  KVRT_TRY(moved.take_status());
  return true;
}

void Collector::copy_sparse_of(std::span<const SegmentId> own, bool closing) {
  for (const SegmentId& id : own) {
    SegmentRow row;
    {
      Lock lock(writer_->mutex);
      auto found = writer_->catalog.segments.find(id);
      if (found.is_ok()) row = *found;
    }
    Collection c;
    c.slice_end = UINT64_MAX;
    c.wait_ms = closing ? kCloseWaitMs : 0;
    c.closing = closing;
    if (row.row != 0 && row.sealed && 2 * row.live < row.bytes) (void)rewrite(row, &c).is_ok();
  }
}

// Writes the segment's live chunks into a new one. Gives the bytes written. An unreadable chunk stays where it is, for its reader to find
// out. Sealing waits for the disk once, publishing twice: each has a slice of its own.
Result<uint64_t> Collector::compact(const SegmentRow& segment, Collection* c) {
  std::vector<ChunkPlace> chunks;
  {
    Lock lock(writer_->mutex);
    KVRT_TRY(writer_->check_writable());
    KVRT_ASSIGN(chunks, writer_->catalog.chunks.in_segment(segment));
  }
  auto file = store_->files.open(segment.id);
  if (!file.is_ok()) return uint64_t{0};
  KVRT_ASSIGN(std::unique_ptr<SegmentWriter> writer, SegmentWriter::create(store_->env, store_->dir.root, store_->files.store()));
  struct Discard {
    SegmentWriter* writer;
    std::atomic<bool>* litter;
    ~Discard() {
      if (!writer->discard()) *litter = true;
    }
  } discard{writer.get(), &litter_};
  std::vector<ChunkPlace> moved;
  CodecPool::Lease codec(&store_->codecs);
  for (const ChunkPlace& chunk : chunks) {
    if (store_->env->now_ns() >= c->slice_end) KVRT_TRY(c->next_slice());
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
  Lock lock(writer_->mutex);
  const Impatient as_told = writer_->catalog.db.impatient(c->wait_ms);
  const NewSegment to{writer->id(), writer->bytes(), writer->bytes(), moved};
  uint64_t count = 0;
  Status changed = writer_->change(false, [&]() KVRT_REQUIRES(writer_->mutex) -> Status {
    KVRT_ASSIGN(count, writer_->catalog.chunks.move(segment, to));
    return {};
  });
  // Want of space may come from the commit's sync: then it is undone by the next transaction, and none follows at the close.
  const bool unknown = writer_->broken() || (c->closing && !changed.is_ok());
  if (count > 0 || unknown) writer->keep();
  if (unknown) litter_ = true;
  KVRT_TRY(std::move(changed));
  return writer->bytes();
}

}  // namespace kvrt
