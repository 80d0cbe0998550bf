#include "storage/store/store.h"

#include "storage/store/names.h"
#include "storage/store/old_files.h"
#include "storage/store/store_impl.h"
#include "storage/store/verify.h"

namespace kvrt {

Status StoreImpl::start() {
  std::lock_guard lock(mutex_);
  Catalog::OpenMode mode;
  mode.read_only = dir_.read_only;
  mode.immutable = dir_.read_only && !dir_.log_rows && !(dir_.writable && dir_.lock != nullptr);
  mode.check = dir_.unclean && dir_.log_rows;
  mode.write_lock = dir_.write_lock.get();
  Status opened = catalog_.open(dir_.root + "/catalog.db", mode);
  if (opened.code() == Code::kNoSpace && dir_.writable && (dir_.alone || dir_.read_only)) {  // the log and its index want a little
    (void)catalog_.close(false).is_ok();
    give_up_reserve(env_, dir_.root);
    reserve_given_ = true;
    opened = catalog_.open(dir_.root + "/catalog.db", mode);
  }
  if (opened.is_ok()) opened = check_identity();
  if (!opened.is_ok()) {
    broken_ = opened.clone();  // closing writes nothing, too
    return opened;
  }
  if (!dir_.read_only) flush_trash(env_, log_, dir_.root, &catalog_, &files_);
  if (dir_.alone && !dir_.read_only && dir_.log_rows) (void)catalog_.checkpoint(true).is_ok();  // it may hold what was removed
  if (dir_.log_mended) logf(log_, LogLevel::kWarn, "store: %s/catalog.db-wal: bits of it had flipped; they are mended", dir_.root.c_str());
  if (!dir_.log_damage.empty()) {
    const char* next = dir_.read_only ? "; repair the store before anything is saved there (kvrt store repair): it reads them" : "";
    logf(log_, LogLevel::kWarn, "store: %s/catalog.db-wal: %s%s", dir_.root.c_str(), dir_.log_damage.c_str(), next);
  }
  if (dir_.alone) {
    collect_garbage(env_, log_, dir_.root, &catalog_, dir_.unclean);
    make_reserve(env_, dir_.root);
    Status ours = share(&dir_);
    if (ours.is_ok()) ours = catalog_.check_schema();
    if (!ours.is_ok()) broken_ = ours.clone();  // another's, or a newer one, by now: left as it is
    return ours;
  }
  return {};
}

// FORMAT and catalog are of one store. Who is alone writes a FORMAT that is not as it should be.
Status StoreImpl::check_identity() {
  const FormatFile& format = dir_.format;
  if (format.id && *format.id != catalog_.id()) {
    return error(
        Code::kCorrupt, Detail::kCatalogCorrupt,
        "%s: catalog.db is of store %s, FORMAT says that this is store %s: put the right file back; or repair the store (kvrt store "
        "repair), which goes by FORMAT and keeps no session of that catalog; left untouched",
        dir_.root.c_str(), catalog_.id().hex().c_str(), format.id->hex().c_str());
  }
  if (!dir_.alone || dir_.read_only || format.kind == FormatFile::Kind::kSound) return {};
  Status written = write_format(env_, dir_.root, catalog_.id());
  if (written.is_ok() || format.kind == FormatFile::Kind::kMissing) return written;
  logf(log_, LogLevel::kWarn, "store: %s", written.message().c_str());  // the catalog tells what it would
  return {};
}

// A reader leaves the directory as it was: SQLite makes the log and its index for it, and with nobody else there they may go. On a full
// disk they took the reserve's place.
void StoreImpl::tidy_after_reading() {
  if (!dir_.writable || dir_.lock == nullptr || !dir_.lock->acquire(LockMode::kExclusive).is_ok()) return;
  const std::string catalog = dir_.root + "/catalog.db";
  (void)env_->remove_file(catalog + "-shm").is_ok();
  auto log = env_->open_read(catalog + "-wal");
  auto bytes = log.is_ok() ? (*log)->size() : Result<uint64_t>(log.take_status());
  if (bytes.is_ok() && *bytes == 0) (void)env_->remove_file(catalog + "-wal").is_ok();
  if (reserve_given_) make_reserve(env_, dir_.root);
}

StoreImpl::~StoreImpl() {
  try {
    std::lock_guard lock(mutex_);
    const bool sound = broken_.is_ok() && !catalog_.sync_failed();
    if (!dir_.read_only && sound) flush_trash(env_, log_, dir_.root, &catalog_, &files_);
    if (sound && unfolded_ && !dir_.read_only) {
      const Impatient soon = catalog_.impatient(kCloseWaitMs);
      (void)catalog_.checkpoint(true).is_ok();
    }
    Status closed = catalog_.close(sound && !litter_);  // with a log left behind the next open looks for such files
    if (!closed.is_ok()) logf(log_, LogLevel::kWarn, "store: closing: %s", closed.message().c_str());
    if (dir_.read_only) tidy_after_reading();
  } catch (...) {  // no memory: what is left is for the next open
  }
}

bool StoreImpl::has_locked(const BlockKey& key) {
  if (!bad_.empty() && bad_.count(key) != 0) return false;
  auto at = catalog_.find(key);
  return at.is_ok() && at->has_value();
}

std::vector<bool> StoreImpl::has_locked(std::span<const NodeIn> chain) {
  std::vector<bool> flags(chain.size());
  auto there = catalog_.find_chain(chain);
  if (!there.is_ok()) return flags;
  for (size_t i = 0; i < there->ids.size(); i++) flags[i] = there->has_chunk[i] && bad_.count(chain[i].key) == 0;
  return flags;
}

std::vector<bool> StoreImpl::has(std::span<const NodeIn> chain) {
  std::lock_guard lock(mutex_);
  return has_locked(chain);
}

ChunkState StoreImpl::read(const NodeIn& node, uint32_t layout, std::span<uint8_t> out, std::string* damage) {
  const BlockKey& key = node.key;
  for (;;) {
    Catalog::Location at;
    {
      std::lock_guard lock(mutex_);
      if (!bad_.empty() && bad_.count(key) != 0) return ChunkState::kAbsent;
      auto found = catalog_.find(key);
      if (!found.is_ok()) {
        if (damage != nullptr) *damage = found.status().message();
        return ChunkState::kAbsent;
      }
      if (!found->has_value()) return ChunkState::kAbsent;
      at = **found;
    }
    CodecPool::Lease codec(&codecs_);
    auto file = files_.open(at.id);
    auto frame = file.is_ok() ? read_frame(**file, at.offset, at.bytes, codec->read_buffer()) : file.take_status();
    Status status = frame.is_ok() ? codec->decode(*frame, node, layout, out) : frame.take_status();
    if (status.is_ok()) return ChunkState::kOk;
    std::optional<ChunkState> lost = lose(key, at, status, damage);
    if (lost) return *lost;
  }
}

// A chunk that cannot be had; none: it lies elsewhere by now. Damage is forgotten so that the next save writes it again; a lack of
// descriptors or memory is not damage.
std::optional<ChunkState> StoreImpl::lose(const BlockKey& key, const Catalog::Location& at, const Status& why, std::string* damage) {
  // And what a newer kvrt wrote is a hole for this one alone.
  bool passing = why.code() == Code::kIncompatible || is_want(why) || why.detail() == Detail::kPermission;
  std::string text = "chunk " + key.hex().substr(0, 16) + " in segs/" + at.id.hex().substr(0, 2) + "/" + at.id.hex() + ".seg at " +
                     std::to_string(at.offset) + ": " + why.message();
  if (damage != nullptr) *damage = text;
  if (passing) return ChunkState::kAbsent;
  std::lock_guard lock(mutex_);
  const Impatient at_once = catalog_.impatient();
  auto now = catalog_.find(key);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;  // removed while we read
  // By its name, not by its row: a later segment may have that.
  if (now.is_ok() && (*now)->id != at.id) return std::nullopt;
  bool missing = why.code() == Code::kNotFound;
  if (missing) files_.forget(at.id);
  Result<uint64_t> forgotten = !check_writable_locked().is_ok() ? Result<uint64_t>(error(Code::kIo, Detail::kReadOnly, "read-only"))
                               : missing                        ? catalog_.forget_segment(at.id)
                                                                : catalog_.forget_chunk(key, at.id);
  if (forgotten.is_ok()) {
    damaged_ += *forgotten;
  } else if (bad_.insert(key).second) {
    damaged_++;
  }
  logf(log_, LogLevel::kWarn, "store: %s", text.c_str());
  return ChunkState::kDamaged;
}

uint64_t StoreImpl::discard(std::span<const NodeIn> chain, const std::string& why) {
  const std::vector<bool> there = has(chain);
  uint64_t count = 0;
  for (size_t i = 0; i < chain.size(); i++) {
    if (!there[i]) continue;
    Catalog::Location at;
    {
      std::lock_guard lock(mutex_);
      auto found = catalog_.find(chain[i].key);
      if (!found.is_ok() || !found->has_value()) continue;
      at = **found;
      (void)catalog_.set_durability(Durability::kProcess).is_ok();  // after a power cut it is found again
    }
    count += lose(chain[i].key, at, error(Code::kCorrupt, Detail::kFormat, "%s", why.c_str()), nullptr) == ChunkState::kDamaged;
  }
  return count;
}

Status StoreImpl::check_writable_locked() {
  if (dir_.read_only) return error(Code::kIo, Detail::kReadOnly, "%s: the store is open read-only", dir_.root.c_str());
  if (broken_.is_ok() && catalog_.sync_failed()) {
    broken_ =
        error(Code::kIo, Detail::kNone, "%s/catalog.db: a sync failed; what it was to save may not be on the disk", dir_.root.c_str());
  }
  KVRT_TRY(broken_.clone());
  return catalog_.check_in_place();  // else files would come and go in another store's directory
}

Result<SessionOut> StoreImpl::load(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  auto session = catalog_.load(domain, name, env_->unix_ms());
  if (session.is_ok() && check_writable_locked().is_ok() && catalog_.set_durability(Durability::kProcess).is_ok()) {
    catalog_.touch(domain, name);
  }
  return session;
}

Result<std::vector<SessionStat>> StoreImpl::list(std::string_view domain, bool all_domains) {
  std::lock_guard lock(mutex_);
  return catalog_.list(domain, all_domains, env_->unix_ms());
}

Result<SessionStat> StoreImpl::stat(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  std::lock_guard lock(mutex_);
  return catalog_.stat(domain, name, env_->unix_ms());
}

Result<StoreInfo> StoreImpl::info() {
  std::lock_guard lock(mutex_);
  KVRT_ASSIGN(Catalog::Totals totals, catalog_.totals(env_->unix_ms()));
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
  KVRT_ASSIGN(info.bytes_free, bytes_free_locked(info.disk_bytes + pending_bytes_));
  info.chunks_damaged = damaged_;
  info.chunks_evicted = evicted_;
  auto old = find_old_files(env_, dir_.root);
  if (old.is_ok()) info.old_bytes = old->bytes;
  return info;
}

Result<uint64_t> StoreImpl::remove_old() {
  std::lock_guard lock(mutex_);
  KVRT_TRY(check_writable_locked());
  return remove_old_files(env_, dir_.root);
}

bool StoreImpl::cached_model_id(const ModelFile& file, Hash256* out) {
  std::lock_guard lock(mutex_);
  return catalog_.cached_model_id(file, out);
}

void StoreImpl::cache_model_id(const ModelFile& file, const Hash256& id) {
  std::lock_guard lock(mutex_);
  const Impatient at_once = catalog_.impatient();
  if (!check_writable_locked().is_ok()) return;
  Status cached = catalog_.cache_model_id(file, id);
  if (!cached.is_ok()) logf(log_, LogLevel::kDebug, "store: model id not cached: %s", cached.message().c_str());
}

Result<std::unique_ptr<Store>> Store::open(Env* env, Log* log, const std::string& path, const StoreOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return error(Code::kInvalid, Detail::kNone, "an empty path, or a zero byte in it");
  KVRT_ASSIGN(StoreDirectory dir, open_directory(env, path, options));
  auto store = std::make_unique<StoreImpl>(env, log, std::move(dir), options);
  KVRT_TRY(store->start());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace kvrt
