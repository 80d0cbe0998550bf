#include "storage/store.h"

#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_set>

#include "storage/catalog.h"
#include "storage/codec.h"
#include "storage/names.h"
#include "storage/segment.h"
#include "storage/store_open.h"
#include "storage/store_verify.h"

namespace kvrt {

namespace {

constexpr size_t kOpenSegmentsMax = 64;

unsigned long long ull(uint64_t v) { return v; }

// The open store. catalog_ and what follows it are guarded by mutex_; files are read and frames encoded outside of it.
class StoreImpl final : public Store {
 public:
  StoreImpl(Env* env, Log* log, StoreDirectory dir, const StoreOptions& options)
      : env_(env), log_(log), dir_(std::move(dir)), disk_bytes_max_(options.disk_bytes_max), files_(env, dir_.root, kOpenSegmentsMax) {}
  ~StoreImpl() override;

  Status start();

  std::vector<bool> has(std::span<const BlockKey> keys) override;
  ChunkState read(const BlockKey& key, std::span<const int32_t> tokens, uint32_t layout, std::span<uint8_t> out,
                  std::string* damage) override;
  Result<std::unique_ptr<Save>> begin_save() override;
  Result<SessionOut> load(std::string_view domain, std::string_view name) override;
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) override;
  Result<SessionStat> stat(std::string_view domain, std::string_view name) override;
  Status remove(std::string_view domain, std::string_view name) override;
  Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress) override;
  Result<StoreInfo> info() override;
  bool cached_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, Hash256* out) override;
  void cache_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, const Hash256& id) override;

 private:
  class SaveImpl;

  bool has_locked(const BlockKey& key);
  ChunkState lose(const BlockKey& key, const Catalog::Location& at, const Status& why, std::string* damage);
  Status check_writable_locked();
  Status check_quota(uint64_t more);
  Result<CommitResult> commit_locked(const SessionIn& session, const NewSegment* segment);
  Status sync_reused(const SessionIn& session);
  void after_commit(Durability durability);
  Status refresh_bytes();

  Env* const env_;
  Log* const log_;
  const StoreDirectory dir_;
  const uint64_t disk_bytes_max_;
  SegmentCache files_;
  CodecPool codecs_;
  std::atomic<uint64_t> pending_bytes_{0};  // of segments being written
  std::atomic<uint64_t> stored_bytes_{0};   // segments and catalog
  std::atomic<uint64_t> damaged_{0};

  std::mutex mutex_;
  Catalog catalog_;
  std::unordered_set<BlockKey, Hash256Hasher> bad_;  // found bad, and the catalog could not be told
  Status broken_;                                    // the first failed write of the catalog: nothing is written after it
};

class StoreImpl::SaveImpl final : public Store::Save {
 public:
  explicit SaveImpl(StoreImpl* store) : store_(store) {}
  ~SaveImpl() override { give_back_space(); }

  Status put(const ChunkIn& chunk) override {
    if (!failed_.is_ok()) return failed_.clone();
    if (done_) return error(Code::kInvalid, Detail::kState, "the save was committed");
    if (written_.count(chunk.key) != 0) return {};
    {
      std::lock_guard lock(store_->mutex_);
      KVRT_TRY(store_->check_writable_locked());
      if (store_->has_locked(chunk.key)) return {};
    }
    CodecPool::Lease codec(&store_->codecs_);
    KVRT_ASSIGN(auto frame, codec->encode(chunk));
    Status status = append(chunk, frame);
    if (status.is_ok()) return status;
    writer_.reset();  // a segment with a torn frame is given up, its space freed at once
    failed_ = status.clone();
    return status;
  }

  Result<uint64_t> commit(const SessionIn& session) override {
    if (!failed_.is_ok()) return failed_.clone();
    if (done_) return error(Code::kInvalid, Detail::kState, "the save was committed");
    KVRT_TRY(check_names(session.domain, session.name));
    done_ = true;
    auto gen = publish_and_commit(session);
    // A commit that failed with an I/O error may be on the disk all the same: then the file stays, and the next open decides.
    if (!gen.is_ok() && gen.status().code() != Code::kIo) writer_.reset();
    if (!gen.is_ok() && writer_) writer_->keep();
    give_back_space();
    return gen;
  }

  uint64_t bytes_written() const override { return bytes_; }
  uint64_t chunks_written() const override { return places_.size(); }

 private:
  Result<uint64_t> publish_and_commit(const SessionIn& session) {
    bool kv = session.durability == Durability::kKv;
    NewSegment segment;
    if (writer_) {
      KVRT_TRY(writer_->seal(kv));
      KVRT_TRY(writer_->publish(kv));
      segment = {writer_->id(), writer_->bytes(), kv, places_};
    }
    std::lock_guard lock(store_->mutex_);
    KVRT_ASSIGN(CommitResult done, store_->commit_locked(session, writer_ ? &segment : nullptr));
    if (done.segment_used) writer_->keep();
    return done.gen;
  }

  void give_back_space() {
    store_->pending_bytes_ -= reserved_;
    reserved_ = 0;
  }

  Status append(const ChunkIn& chunk, std::span<const uint8_t> frame) {
    uint64_t more = frame.size() + kSegmentEntryBytes + (writer_ ? 0 : kSegmentHeaderBytes + kSegmentTrailerBytes);
    KVRT_TRY(store_->check_quota(more));
    store_->pending_bytes_ += more;
    reserved_ += more;
    if (!writer_) {
      KVRT_ASSIGN(writer_, SegmentWriter::create(store_->env_, store_->dir_.root));
    }
    uint64_t offset = writer_->bytes();
    KVRT_TRY(writer_->append(chunk.key, frame));
    places_.push_back({chunk.key, offset, frame.size(), chunk.payload.size()});
    written_.insert(chunk.key);
    bytes_ = writer_->bytes();
    return {};
  }

  StoreImpl* store_;
  std::unique_ptr<SegmentWriter> writer_;  // made by the first new chunk
  std::vector<ChunkPlace> places_;
  std::unordered_set<BlockKey, Hash256Hasher> written_;
  uint64_t reserved_ = 0, bytes_ = 0;
  Status failed_;
  bool done_ = false;
};

Status StoreImpl::start() {
  std::lock_guard lock(mutex_);
  KVRT_TRY(catalog_.open(env_, dir_.root + "/catalog.db", dir_.read_only, dir_.had_wal));
  if (!dir_.read_only) {
    collect_garbage(env_, log_, dir_.root, &catalog_);
    make_reserve(env_, dir_.root);
  }
  return refresh_bytes();
}

StoreImpl::~StoreImpl() {
  std::lock_guard lock(mutex_);
  if (!dir_.read_only) empty_trash(env_, log_, dir_.root, &catalog_);
  Status closed = catalog_.close();
  if (!closed.is_ok()) logf(log_, LogLevel::kWarn, "store: closing: %s", closed.message().c_str());
}

Status StoreImpl::refresh_bytes() {
  KVRT_ASSIGN(Catalog::Totals totals, catalog_.totals());
  stored_bytes_ = totals.segment_bytes + catalog_.disk_bytes();
  return {};
}

bool StoreImpl::has_locked(const BlockKey& key) {
  if (!bad_.empty() && bad_.count(key) != 0) return false;
  auto at = catalog_.find(key);
  return at.is_ok() && at->has_value();
}

std::vector<bool> StoreImpl::has(std::span<const BlockKey> keys) {
  std::vector<bool> flags(keys.size());
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < keys.size(); i++) flags[i] = has_locked(keys[i]);
  return flags;
}

ChunkState StoreImpl::read(const BlockKey& key, std::span<const int32_t> tokens, uint32_t layout, std::span<uint8_t> out,
                           std::string* damage) {
  Catalog::Location at;
  {
    std::lock_guard lock(mutex_);
    if (!bad_.empty() && bad_.count(key) != 0) return ChunkState::kAbsent;
    auto found = catalog_.find(key);
    if (!found.is_ok()) {
      if (damage != nullptr) *damage = found.status().message();
      return ChunkState::kDamaged;
    }
    if (!found->has_value()) return ChunkState::kAbsent;
    at = **found;
  }
  auto file = files_.open(at.id);
  if (!file.is_ok()) return lose(key, at, file.status(), damage);
  CodecPool::Lease codec(&codecs_);
  Status status = read_frame(**file, at.offset, at.bytes, &codec->frame_buffer());
  if (status.is_ok()) status = codec->decode(codec->frame_buffer(), key, tokens, layout, out);
  return status.is_ok() ? ChunkState::kOk : lose(key, at, status, damage);
}

// A chunk that cannot be had. Damage is forgotten so that the next save writes it again; a lack of descriptors or memory is not damage.
ChunkState StoreImpl::lose(const BlockKey& key, const Catalog::Location& at, const Status& why, std::string* damage) {
  bool passing = why.code() == Code::kNoMemory || why.os_code() == EMFILE || why.os_code() == ENFILE || why.detail() == Detail::kPermission;
  std::string text = "chunk " + key.hex().substr(0, 16) + " in segs/" + at.id.hex().substr(0, 2) + "/" + at.id.hex() + ".seg at " +
                     std::to_string(at.offset) + ": " + why.message();
  if (damage != nullptr) *damage = text;
  if (passing) return ChunkState::kAbsent;
  std::lock_guard lock(mutex_);
  auto now = catalog_.find(key);
  if (now.is_ok() && (!now->has_value() || (*now)->segment != at.segment)) return ChunkState::kAbsent;  // removed while we read
  bool missing = why.code() == Code::kNotFound;
  if (missing) files_.forget(at.id);
  Result<uint64_t> forgotten = dir_.read_only || !broken_.is_ok() ? Result<uint64_t>(error(Code::kIo, Detail::kReadOnly, "read-only"))
                               : missing                          ? catalog_.forget_segment(at.segment)
                                                                  : catalog_.forget_chunk(key, at.segment);
  if (forgotten.is_ok()) {
    damaged_ += *forgotten;
  } else if (bad_.insert(key).second) {
    damaged_++;
  }
  logf(log_, LogLevel::kWarn, "store: %s", text.c_str());
  return ChunkState::kDamaged;
}

Status StoreImpl::check_writable_locked() {
  if (dir_.read_only) return error(Code::kIo, Detail::kReadOnly, "%s: the store is open read-only", dir_.root.c_str());
  return broken_.clone();
}

Status StoreImpl::check_quota(uint64_t more) {
  uint64_t used = stored_bytes_ + pending_bytes_;
  if (disk_bytes_max_ == 0 || used + more <= disk_bytes_max_) return {};
  return error(Code::kNoSpace, Detail::kNone, "%s: %llu bytes used, %llu more wanted, disk_bytes_max is %llu", dir_.root.c_str(), ull(used),
               ull(more), ull(disk_bytes_max_));
}

Result<std::unique_ptr<Store::Save>> StoreImpl::begin_save() {
  std::lock_guard lock(mutex_);
  KVRT_TRY(check_writable_locked());
  return std::unique_ptr<Save>(new SaveImpl(this));
}

// KV that must survive a power cut may lie in segments that an earlier, weaker save did not wait for.
Status StoreImpl::sync_reused(const SessionIn& session) {
  KVRT_ASSIGN(auto rows, catalog_.unsynced(session.nodes));
  if (rows.empty()) return {};
  for (const auto& row : rows) {
    auto file = files_.open(row.id);
    if (!file.is_ok()) continue;  // missing: a hole for the reader, nothing to sync
    KVRT_TRY((*file)->sync());
    KVRT_TRY(env_->sync_dir(row.id.dir(dir_.root)));
  }
  KVRT_TRY(env_->sync_dir(dir_.root + "/segs"));
  return catalog_.mark_synced(rows);
}

Result<CommitResult> StoreImpl::commit_locked(const SessionIn& session, const NewSegment* segment) {
  KVRT_TRY(check_writable_locked());
  KVRT_TRY(check_quota(session.manifest.size()));
  Durability durability = session.durability == Durability::kDefault ? Durability::kTokens : session.durability;
  if (durability == Durability::kKv) KVRT_TRY(sync_reused(session));
  KVRT_TRY(catalog_.set_durability(durability));
  auto done = catalog_.commit(session, segment, env_->unix_ms());
  if (!done.is_ok()) {
    // After a failed sync the kernel may have dropped the pages and forgotten the error: only a new open reads what is there.
    if (done.status().code() == Code::kIo) broken_ = done.status().clone();
    return done.take_status();
  }
  if (segment != nullptr) {
    for (const ChunkPlace& c : segment->chunks) bad_.erase(c.key);
  }
  after_commit(durability);
  return done;
}

// Housekeeping that may fail without harm. Files go only after a commit that is on the disk: a power cut must not bring rows back whose
// files are gone.
void StoreImpl::after_commit(Durability durability) {
  if (durability == Durability::kTokens || durability == Durability::kKv) {
    (void)catalog_.set_durability(Durability::kProcess).is_ok();
    empty_trash(env_, log_, dir_.root, &catalog_);
  }
  Status folded = catalog_.checkpoint_if_long();
  if (!folded.is_ok()) logf(log_, LogLevel::kWarn, "store: checkpoint: %s", folded.message().c_str());
  (void)refresh_bytes().is_ok();
}

Result<SessionOut> StoreImpl::load(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  return catalog_.load(domain, name);
}

Result<std::vector<SessionStat>> StoreImpl::list(std::string_view domain, bool all_domains) {
  std::lock_guard lock(mutex_);
  return catalog_.list(domain, all_domains);
}

Result<SessionStat> StoreImpl::stat(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  return catalog_.stat(domain, name);
}

Status StoreImpl::remove(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  KVRT_TRY(check_writable_locked());
  KVRT_TRY(catalog_.set_durability(Durability::kTokens));
  Status removed = catalog_.remove(domain, name);
  bool full = removed.code() == Code::kNoSpace;
  if (full) {  // what frees space needs a little first: the log's, by folding it in, and the reserve
    give_up_reserve(env_, dir_.root);
    (void)catalog_.checkpoint().is_ok();
    removed = catalog_.remove(domain, name);
  }
  if (removed.code() == Code::kIo) broken_ = removed.clone();
  if (removed.is_ok()) after_commit(Durability::kTokens);
  if (full) make_reserve(env_, dir_.root);
  return removed;
}

Result<std::vector<VerifyFault>> StoreImpl::verify(const std::function<bool(uint64_t done, uint64_t total)>& progress) {
  std::vector<VerifyFault> faults;
  std::vector<Catalog::ChunkRow> chunks;
  std::vector<Catalog::SegmentRow> segments;
  {
    std::lock_guard lock(mutex_);
    KVRT_TRY(catalog_.check(&faults, &chunks));
    KVRT_ASSIGN(segments, catalog_.segments());
  }
  auto still_there = [&](const Catalog::ChunkRow& chunk) {
    std::lock_guard lock(mutex_);
    auto at = catalog_.find(chunk.key);
    return at.is_ok() && at->has_value() && (*at)->segment == chunk.segment;
  };
  CodecPool::Lease codec(&codecs_);
  KVRT_TRY(verify_segments(env_, dir_.root, codec.get(), segments, chunks, still_there, progress, &faults));
  return faults;
}

Result<StoreInfo> StoreImpl::info() {
  std::lock_guard lock(mutex_);
  KVRT_ASSIGN(Catalog::Totals totals, catalog_.totals());
  StoreInfo info;
  info.path = dir_.root;
  info.read_only = dir_.read_only;
  info.format = kStoreLayout;
  info.sessions = totals.sessions;
  info.chunks = totals.chunks;
  info.segments = totals.segments;
  info.chunk_bytes = totals.chunk_bytes;
  info.chunk_raw_bytes = totals.chunk_raw_bytes;
  info.disk_bytes = totals.segment_bytes + catalog_.disk_bytes();
  info.chunks_damaged = damaged_;
  return info;
}

bool StoreImpl::cached_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, Hash256* out) {
  std::lock_guard lock(mutex_);
  return catalog_.cached_model_id(device, inode, size, mtime_ns, out);
}

void StoreImpl::cache_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, const Hash256& id) {
  std::lock_guard lock(mutex_);
  if (!check_writable_locked().is_ok()) return;
  Status cached = catalog_.cache_model_id(device, inode, size, mtime_ns, id);
  if (!cached.is_ok()) logf(log_, LogLevel::kDebug, "store: model id not cached: %s", cached.message().c_str());
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(Env* env, Log* log, const std::string& path, const StoreOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return error(Code::kInvalid, Detail::kNone, "an empty path, or a zero byte in it");
  KVRT_ASSIGN(StoreDirectory dir, open_directory(env, path, options));
  auto store = std::make_unique<StoreImpl>(env, log, std::move(dir), options);
  KVRT_TRY(store->start());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace kvrt
