// StoreImpl: a save appends its frames to a segment, then commits one transaction.
#include "storage/store/names.h"
#include "storage/store/store_impl.h"

namespace kvrt {

class StoreImpl::SaveImpl final : public Store::Save {
 public:
  SaveImpl(StoreImpl* store, bool reuse_chunks, const SavedBy& by)
      : store_(store), reuse_chunks_(reuse_chunks), by_(by), part_(&store->open_) {}

  std::vector<uint32_t> has(std::span<const NodeIn> chain) override {
    if (!reuse_chunks_) return std::vector<uint32_t>(chain.size());
    std::vector<uint32_t> groups = store_->find(chain);
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
      Lock lock(store_->mutex_);
      KVRT_TRY(store_->check_writable_locked());
    }
    if (reuse_chunks_ && count_on(name)) return {};
    CodecPool::Lease codec(&store_->codecs_);
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
    store_->settle_segments(session.durability);
    if (saved.is_ok()) store_->collect_after_save(session.durability);
    return saved;
  }

  uint64_t bytes_written() const override { return bytes_; }
  uint64_t chunks_written() const override { return places_.size(); }

 private:
  // True if the store has the chunk, so that it is not written. It is remembered: commit checks that it is still there.
  bool count_on(const ChunkKey& chunk) {
    if (!store_->has(chunk)) return false;
    by_.needs.insert(chunk);
    return true;
  }

  Result<Saved> publish_and_commit(const SessionIn& session) {
    KVRT_TRY(store_->make_room(0, session.manifest.size(), by_));  // others' KV gives way before this save's does
    const bool writes = !places_.empty();
    if (writes) KVRT_TRY(publish(session.durability == Durability::kKv));
    Lock lock(store_->mutex_);
    NewSegment segment;
    if (writes) {
      KVRT_ASSIGN(const OpenSegments::Part::Extent e, part_.extent());
      segment = {e.id, e.bytes, e.synced, places_, true, e.begun};
    }
    auto done = store_->commit_locked(session, writes ? &segment : nullptr, by_.needs);
    // A commit that failed with an I/O error may still be on the disk: then the frames stay, and the next open decides.
    const bool unknown = !done.is_ok() && !store_->broken_.is_ok();
    using Outcome = OpenSegments::Part::Outcome;
    if (writes && (unknown || (done.is_ok() && done->segment_used))) part_.committed(unknown ? Outcome::kUnknown : Outcome::kNamed);
    if (writes && done.status().detail() == Detail::kConcurrent) store_->open_.retire(segment.id);  // its row may be gone
    if (!done.is_ok()) return done.take_status();
    return done->saved;
  }

  Status publish(bool kv) {
    Status published = part_.publish(kv);
    if (published.is_ok() || !kv) return published;
    Lock lock(store_->mutex_);
    KVRT_TRY(store_->distrust_locked(part_.id(), published));
    return published;
  }

  // The save goes on without its written chunks, whose space is free at once.
  void drop_chunks() {
    part_.give_up();
    places_.clear();
    written_.clear();
    bytes_ = 0;
  }

  // Bytes that are about to be written, for other saves to see.
  class Pending {
   public:
    Pending(StoreImpl* store, uint64_t bytes) : store_(store), bytes_(bytes) { store_->pending_bytes_ += bytes_; }
    ~Pending() { store_->pending_bytes_ -= bytes_; }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    StoreImpl* const store_;
    const uint64_t bytes_;
  };

  Status append(const ChunkIn& chunk, std::span<const uint8_t> frame) {
    const uint64_t more = frame.size() + kSegmentEntryBytes + (places_.empty() ? kSegmentHeaderBytes + kSegmentTrailerBytes : 0);
    KVRT_TRY(store_->make_room(more, by_.manifest_bytes, by_));
    auto at = [&] {
      const Pending pending(store_, more);
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

  StoreImpl* store_;
  const bool reuse_chunks_;
  SavedBy by_;
  OpenSegments::Part part_;
  std::vector<ChunkPlace> places_;
  ChunkKeys written_;
  uint64_t bytes_ = 0;
  Status failed_;
  bool done_ = false;
};

Result<std::unique_ptr<Store::Save>> StoreImpl::begin_save(bool reuse_chunks, const SavedBy& by) {
  Lock lock(mutex_);
  KVRT_TRY(check_writable_locked());
  return std::unique_ptr<Save>(new SaveImpl(this, reuse_chunks, by));
}

// Syncs reused segments: KV that must survive a power cut may lie in one whose save, of weaker durability, did not wait for the disk.
Status StoreImpl::sync_reused(const SessionIn& session) {
  KVRT_ASSIGN(auto rows, catalog_.segments.unsynced(session.nodes));
  if (rows.empty()) return {};
  std::vector<SegmentRow> on_disk;
  for (const auto& row : rows) {
    auto file = files_.open(row.id);
    // Missing, unsafe, which counts as missing, or another store's: a hole for the reader, nothing to sync.
    const Code code = file.status().code();
    if (code == Code::kNotFound || code == Code::kIncompatible || file.status().detail() == Detail::kUnsafeDirectory) continue;
    KVRT_TRY(file.status().clone());
    Status synced = (*file)->sync();
    if (!synced.is_ok()) {
      KVRT_TRY(distrust_locked(row.id, synced));
      return synced;
    }
    KVRT_TRY(env_->sync_dir(row.id.dir(dir_.root)));
    on_disk.push_back(row);
  }
  if (on_disk.empty()) return {};
  KVRT_TRY(env_->sync_dir(dir_.root + "/segs"));
  return catalog_.segments.mark_synced(on_disk);
}

// A sync of the segment failed. The kernel may call its pages clean now: a second sync would say OK, and prove nothing. So the chunks that
// were not synced before are forgotten.
Status StoreImpl::distrust_locked(const SegmentId& id, const Status& why) {
  open_.fail(id, why);
  KVRT_ASSIGN(const SegmentRow row, catalog_.segments.find(id));
  if (row.row == 0) return {};
  KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) { return catalog_.chunks.forget_behind(id, row.synced).take_status(); }));
  files_.forget(id);
  return {};
}

Result<CommitResult> StoreImpl::commit_locked(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed) {
  KVRT_TRY(check_writable_locked());
  KVRT_ASSIGN(Shortage shortage, shortage_locked(0, session.manifest.size()));
  if (shortage.bytes > 0) return std::move(shortage.why);
  Durability durability = session.durability == Durability::kDefault ? Durability::kTokens : session.durability;
  if (durability == Durability::kKv) KVRT_TRY(sync_reused(session));
  ChunkKeys bad;  // chunks that it brings in place of damaged ones. Others that readers add to bad_ meanwhile stay there
  if (segment != nullptr) {
    Lock reading(read_mutex_);
    for (const ChunkPlace& c : segment->chunks) {
      if (bad_.count(c.chunk) != 0) bad.insert(c.chunk);
    }
  }
  KVRT_TRY(catalog_.db.set_durability(durability));
  auto done = catalog_.commit(session, segment, needed, bad, env_->unix_ms());
  if (done.status().code() == Code::kNoSpace && catalog_.db.checkpoint(true).is_ok()) {  // the room that the log gave back may be enough
    done = catalog_.commit(session, segment, needed, bad, env_->unix_ms());
  }
  if (!done.is_ok()) {
    // After a failed sync the kernel may have dropped the pages and forgotten the error: only a new open reads what is there.
    if (done.status().code() == Code::kIo) broken_ = done.status().clone();
    return done.take_status();
  }
  if (!bad.empty()) {
    Lock reading(read_mutex_);
    for (const ChunkKey& chunk : bad) bad_.erase(chunk);
  }
  after_commit(durability);
  return done;
}

}  // namespace kvrt
