// StoreImpl: a save writes its frames into a segment of its own, then commits one transaction.
#include "storage/store/names.h"
#include "storage/store/store_impl.h"

namespace kvrt {

class StoreImpl::SaveImpl final : public Store::Save {
 public:
  SaveImpl(StoreImpl* store, bool reuse_chunks, const SavedBy& by) : store_(store), reuse_chunks_(reuse_chunks), by_(by) {}
  ~SaveImpl() override {
    give_back_space();
    give_up();
  }

  std::vector<uint32_t> has(std::span<const NodeIn> chain) override {
    if (!reuse_chunks_) return std::vector<uint32_t>(chain.size());
    std::vector<uint32_t> groups = store_->has(chain);
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
      give_up();  // its last frame may be torn
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
      KVRT_TRY(store_->make_room(Need::kTokens, session.manifest.size(), by_));
      saved = publish_and_commit(session);
    }
    give_up();
    give_back_space();
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
    bool kv = session.durability == Durability::kKv;
    NewSegment segment;
    if (writer_) {
      KVRT_TRY(writer_->seal(kv));
      KVRT_TRY(writer_->publish(kv));
      segment = {writer_->id(), writer_->bytes(), kv, places_};
    }
    Lock lock(store_->mutex_);
    auto done = store_->commit_locked(session, writer_ ? &segment : nullptr, by_.needs);
    // A commit that failed with an I/O error may still be on the disk: then the file stays, and the next open decides.
    const bool unknown = !done.is_ok() && !store_->broken_.is_ok();
    if (writer_ && (unknown || (done.is_ok() && done->segment_used))) writer_->keep();
    if (!done.is_ok()) return done.take_status();
    return done->saved;
  }

  // Removes the written segment, unless it is kept.
  void give_up() noexcept {
    if (writer_ && !writer_->discard()) store_->litter_ = true;
    writer_.reset();
  }

  // The save goes on without its written chunks, whose space is free at once.
  void drop_chunks() {
    give_up();
    give_back_space();
    places_.clear();
    written_.clear();
    bytes_ = 0;
  }

  void give_back_space() {
    store_->pending_bytes_ -= reserved_;
    reserved_ = 0;
  }

  Status append(const ChunkIn& chunk, std::span<const uint8_t> frame) {
    uint64_t more = frame.size() + kSegmentEntryBytes + (writer_ ? 0 : kSegmentHeaderBytes + kSegmentTrailerBytes);
    KVRT_TRY(store_->make_room(Need::kKv, more, by_));
    store_->pending_bytes_ += more;
    reserved_ += more;
    Status written = write_frame(chunk.key, frame);
    if (written.code() == Code::kNoSpace) drop_chunks();  // the frame may be torn
    KVRT_TRY(std::move(written));
    const ChunkKey name{chunk.key, chunk.group};
    places_.push_back({name, writer_->bytes() - frame.size(), frame.size(), chunk.payload.size()});
    written_.insert(name);
    bytes_ = writer_->bytes();
    return {};
  }

  Status write_frame(const BlockKey& key, std::span<const uint8_t> frame) {
    if (!writer_) {
      KVRT_ASSIGN(writer_, SegmentWriter::create(store_->env_, store_->dir_.root, store_->files_.store()));
    }
    return writer_->append(key, frame);
  }

  StoreImpl* store_;
  const bool reuse_chunks_;
  SavedBy by_;
  std::unique_ptr<SegmentWriter> writer_;  // made with the first new chunk
  std::vector<ChunkPlace> places_;
  ChunkKeys written_;
  uint64_t reserved_ = 0, bytes_ = 0;
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
    if (!synced.is_ok()) {  // the kernel may call its pages clean now: a second sync would say OK, and prove nothing
      KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) { return catalog_.chunks.forget_segment(row.id).take_status(); }));
      files_.forget(row.id);
      (void)env_->remove_file(row.id.path(dir_.root)).is_ok();  // else gc finds it
      return synced;
    }
    KVRT_TRY(env_->sync_dir(row.id.dir(dir_.root)));
    on_disk.push_back(row);
  }
  if (on_disk.empty()) return {};
  KVRT_TRY(env_->sync_dir(dir_.root + "/segs"));
  return catalog_.segments.mark_synced(on_disk);
}

Result<CommitResult> StoreImpl::commit_locked(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed) {
  KVRT_TRY(check_writable_locked());
  KVRT_ASSIGN(Shortage shortage, shortage_locked(Need::kTokens, session.manifest.size()));
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
