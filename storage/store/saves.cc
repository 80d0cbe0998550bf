#include "storage/store/saves.h"

#include <algorithm>
#include <new>

#include "storage/store/names.h"

namespace kvrt {

namespace {
constexpr uint64_t kOpenSegmentPart = 32;    // of the room that KV can have
constexpr uint64_t kSparseBytes = 4u << 20;  // from these on a segment that is mostly dead is copied after a save
}  // namespace

class Saves::Running final : public StoredSessions::Save {
 public:
  Running(Saves* all, bool reuse_chunks, const SavedBy& by) : all_(all), reuse_chunks_(reuse_chunks), by_(by), part_(&all->store_->open) {}

  std::vector<uint32_t> has(std::span<const NodeIn> chain) override {
    if (!reuse_chunks_) return std::vector<uint32_t>(chain.size());
    std::vector<uint32_t> groups = all_->reader_->find(chain);
    for (size_t i = 0; i < chain.size(); i++) {
      for (uint32_t group = 0; group < kChunkGroups; group++) {
        if (has_group(groups[i], group)) by_.needs.insert({chain[i].key, group});
      }
    }
    return groups;
  }

  Status put(const ChunkIn& chunk) override {
    if (!failed_.is_ok()) return failed_.clone();
    if (done_) return error(Code::kInvalid, Detail::kState, "the save was committed");
    const ChunkKey name{chunk.key, chunk.group};
    if (written_.count(name) != 0) return {};
    {
      Lock lock(writer_->mutex);
      KVRT_TRY(writer_->check_writable());
    }
    if (reuse_chunks_ && count_on(name)) return {};
    CodecPool::Lease codec(&all_->store_->codecs);
    KVRT_ASSIGN(auto frame, codec->encode(chunk));
    Status status = append(chunk, frame);
    if (!status.is_ok() && status.code() != Code::kNoSpace) {
      part_.give_up();
      failed_ = status.clone();
    }
    return status;
  }

  Result<Saved> commit(const SessionIn& session) override {
    if (!failed_.is_ok()) return failed_.clone();
    if (done_) return error(Code::kInvalid, Detail::kState, "the save was committed");
    KVRT_TRY(check_names(session.domain, session.name));
    KVRT_TRY(check_ttl(session.ttl_seconds));
    KVRT_TRY(check_groups(session.groups));
    done_ = true;
    auto saved = publish_and_commit(session);
    if (saved.status().code() == Code::kNoSpace && session.durability != Durability::kKv) {  // tokens are the truth, KV is a cache
      drop_chunks();
      saved = publish_and_commit(session);
    }
    part_.give_up();
    all_->settle_segments(session.durability);
    if (saved.is_ok()) all_->collector_->collect_after_save(session.durability);
    return saved;
  }

  uint64_t bytes_written() const override { return bytes_; }
  uint64_t chunks_written() const override { return places_.size(); }

 private:
  // True if the store has the chunk, so that it is not written. It is remembered: commit checks that it is still there.
  bool count_on(const ChunkKey& chunk) {
    if (!all_->reader_->has(chunk)) return false;
    by_.needs.insert(chunk);
    return true;
  }

  Result<Saved> publish_and_commit(const SessionIn& session) {
    KVRT_TRY(all_->make_room(0, session.manifest.size(), by_));  // others' KV gives way before this save's does
    const bool writes = !places_.empty();
    if (writes) KVRT_TRY(publish(session.durability == Durability::kKv));
    Lock lock(writer_->mutex);
    NewSegment segment;
    if (writes) {
      KVRT_ASSIGN(const OpenSegments::Part::Extent e, part_.extent());
      segment = {e.id, e.bytes, e.synced, places_, true, e.begun};
    }
    auto done = writer_->commit(session, writes ? &segment : nullptr, by_.needs);
    // A commit that failed with an I/O error may still be on the disk: then the frames stay, and the next open decides.
    const bool unknown = !done.is_ok() && writer_->broken();
    using Outcome = OpenSegments::Part::Outcome;
    if (writes && (unknown || (done.is_ok() && done->segment_used))) part_.committed(unknown ? Outcome::kUnknown : Outcome::kNamed);
    if (writes && done.status().detail() == Detail::kConcurrent) all_->store_->open.retire(segment.id);  // its row may be gone
    if (!done.is_ok()) return done.take_status();
    return done->saved;
  }

  Status publish(bool kv) {
    Status published = part_.publish(kv);
    if (published.is_ok() || !kv) return published;
    Lock lock(writer_->mutex);
    KVRT_TRY(writer_->distrust(part_.id(), published));
    return published;
  }

  // The save goes on without its written chunks, whose space is free at once.
  void drop_chunks() {
    part_.give_up();
    places_.clear();
    written_.clear();
    bytes_ = 0;
  }

  Status append(const ChunkIn& chunk, std::span<const uint8_t> frame) {
    const uint64_t more = frame.size() + kSegmentEntryBytes + (places_.empty() ? kSegmentHeaderBytes + kSegmentTrailerBytes : 0);
    KVRT_TRY(all_->make_room(more, by_.manifest_bytes, by_));
    auto at = [&] {
      const Space::Pending pending(all_->space_, more);
      return part_.append(chunk.key, frame);
    }();
    if (at.status().code() == Code::kNoSpace) drop_chunks();
    KVRT_TRY(at.status().clone());
    const ChunkKey name{chunk.key, chunk.group};
    places_.push_back({name, *at, frame.size(), chunk.payload.size()});
    written_.insert(name);
    bytes_ += frame.size();
    return {};
  }

  Saves* const all_;
  Writer* const writer_ = all_->writer_;
  const bool reuse_chunks_;
  SavedBy by_;
  OpenSegments::Part part_;
  std::vector<ChunkPlace> places_;
  ChunkKeys written_;
  uint64_t bytes_ = 0;
  Status failed_;
  bool done_ = false;
};

Result<std::unique_ptr<StoredSessions::Save>> Saves::begin(bool reuse_chunks, const SavedBy& by) {
  Lock lock(writer_->mutex);
  KVRT_TRY(writer_->check_writable());
  return std::unique_ptr<StoredSessions::Save>(new Running(this, reuse_chunks, by));
}

// After a save: a segment that is large enough, for the room that there is, takes no more. Without this a save's KV would be in the way of
// another's where there is little room. Nor does one with much that is dead. Housekeeping: it may fail without harm.
void Saves::settle_segments(Durability durability) try {
  const std::vector<SegmentId> own = store_->open.list();
  if (own.empty()) return;
  const bool waits = waits_for_disk(durability);
  {
    Lock lock(writer_->mutex);
    auto used = space_->bytes_used(&writer_->catalog);
    if (!used.is_ok()) return;
    auto free = space_->bytes_free(*used);
    if (!free.is_ok()) return;
    store_->open.retire(std::min(kOpenSegmentBytes, (*used + *free) / kOpenSegmentPart));
    for (const SegmentId& id : own) {
      auto row = writer_->catalog.segments.find(id);
      if (waits && row.is_ok() && row->bytes >= kSparseBytes && 2 * row->live < row->bytes) store_->open.retire(id);
    }
  }
  auto sealed = sealer_->seal_retired({0, waits});
  if (sealed.is_ok() && *sealed > 0 && waits) collector_->copy_sparse_of(own, false);
} catch (const std::bad_alloc&) {
}

void Saves::close() {
  const std::vector<SegmentId> own = store_->open.list();
  if (own.empty()) return;
  store_->open.retire(0);
  if (sealer_->seal_retired({kCloseWaitMs}).is_ok()) collector_->copy_sparse_of(own, true);
}

}  // namespace kvrt
