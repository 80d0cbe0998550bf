// StoreImpl: opens and closes the store.
#include "storage/store/locks.h"
#include "storage/store/orphans.h"
#include "storage/store/reserve.h"
#include "storage/store/store_impl.h"
#include "storage/store/trash.h"

namespace kvrt {

Result<std::unique_ptr<Store>> Store::open(Env* env, Log* log, const std::string& path, const StoreOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return error(Code::kInvalid, Detail::kNone, "an empty path, or a zero byte in it");
  KVRT_ASSIGN(StoreDirectory dir, open_directory(env, path, options));
  auto store = std::make_unique<StoreImpl>(env, log, std::move(dir), options);
  KVRT_TRY(store->start());
  store->seal_left();
  return std::unique_ptr<Store>(std::move(store));
}

// The directory is open and locked. Opens the catalog; a handle that is alone then tidies up before others come in.
Status StoreImpl::start() {
  Lock lock(mutex_);
  Status opened = advise(open_catalog());
  if (opened.is_ok()) opened = check_identity();
  files_.set_store(catalog_.db.id());
  open_.set_store(catalog_.db.id());
  open_names_.set_salt(catalog_.db.salt());
  if (opened.is_ok()) opened = open_readers();
  if (!opened.is_ok()) {
    broken_ = opened.clone();  // so that closing writes nothing
    return opened;
  }
  if (!dir_.read_only) flush_trash(env_, log_, dir_.root, &catalog_, &files_);
  if (dir_.alone && !dir_.read_only && dir_.log_rows) (void)catalog_.db.checkpoint(true).is_ok();  // the log may hold removed content
  tell_of_log();
  return dir_.alone ? tidy_alone() : Status();
}

// A catalog that cannot be read: where it is, and what to do.
Status StoreImpl::advise(Status opened) const {
  if (opened.code() != Code::kCorrupt) return opened;
  const std::string& what = opened.message();
  const std::string where = what.starts_with(dir_.root) ? "" : dir_.root + ": ";
  return Status::make(opened.code(), opened.detail(), opened.os_code(), where + what + ": repair the store (kvrt store repair)");
}

CatalogDb::OpenMode StoreImpl::read_mode() const {
  CatalogDb::OpenMode mode;
  mode.read_only = true;
  const bool log_can_be_had = dir_.log_rows || dir_.log_open || (dir_.writable && dir_.lock != nullptr);
  mode.immutable = dir_.read_only && (!log_can_be_had || dir_.without_log);
  return mode;
}

// SQLite says of a log that it cannot make that it is not there. A file of our own finds out what is wanting: room, an inode, a descriptor.
Status StoreImpl::explain(Status opened) const {
  if (!CatalogDb::cannot_open(opened) || !dir_.writable) return opened;
  SegmentId unique;
  env_->random(unique.bytes);
  const std::string path = dir_.root + "/tmp/" + unique.hex() + ".try";
  auto file = env_->create_new(path);
  if (file.is_ok()) (void)env_->remove_file(path).is_ok();
  const bool wanting = file.status().code() == Code::kNoSpace || is_want(file.status());
  return wanting ? file.take_status().annotate("the catalog's log and its index") : std::move(opened);
}

// The log and its index need a little room, and two inodes: on a full disk they get the reserve's. Where that is not enough, a store that was
// closed can be read without them.
Status StoreImpl::open_catalog() {
  CatalogDb::OpenMode mode = read_mode();
  mode.read_only = dir_.read_only;
  mode.check = dir_.unclean && dir_.log_rows;
  mode.write_lock = dir_.write_lock.get();
  const auto open = [&] {
    (void)catalog_.db.close(false).is_ok();
    return explain(catalog_.db.open(dir_.root + "/catalog.db", mode));
  };
  Status opened = open();
  if (opened.code() != Code::kNoSpace || !dir_.writable) return opened;
  if (dir_.alone || dir_.read_only) {
    give_up_reserve(env_, dir_.root);
    reserve_given_ = true;
    opened = open();
  }
  if (opened.code() != Code::kNoSpace || dir_.log_rows || dir_.log_open) return opened;
  if (!dir_.read_only) {
    logf(log_, LogLevel::kWarn, "store: %s: open for reading only: %s", dir_.root.c_str(), opened.message().c_str());
    dir_.no_log = opened.clone();
  }
  dir_.read_only = dir_.without_log = true;
  KVRT_TRY(share(&dir_));
  mode = read_mode();
  (void)catalog_.db.close(false).is_ok();
  return catalog_.db.open(dir_.root + "/catalog.db", mode);
}

Status StoreImpl::open_readers() {
  {
    Lock lock(read_mutex_);
    KVRT_TRY(reader_.db.open(dir_.root + "/catalog.db", read_mode()));
  }
  Lock lock(list_mutex_);
  return lister_.db.open(dir_.root + "/catalog.db", read_mode());
}

// A store that is read for want of room for the catalog's log writes from now on, if there is room; else NO_SPACE says what is wanting.
// What readers saw may be old by now, for others may have written: they get new connections, too.
Status StoreImpl::take_up_writing() {
  if (dir_.no_log.is_ok()) return {};
  if (!catalog_.db.in_place()) return catalog_.db.check_in_place();
  CatalogDb writer, reader, lister;
  const std::string path = dir_.root + "/catalog.db";
  CatalogDb::OpenMode mode;
  mode.write_lock = dir_.write_lock.get();
  Status opened = explain(writer.open(path, mode));
  mode = {};
  mode.read_only = true;
  if (opened.is_ok()) opened = reader.open(path, mode);
  if (opened.is_ok()) opened = lister.open(path, mode);
  if (!opened.is_ok()) {
    (void)writer.close(false).is_ok();
    return opened;
  }
  catalog_.db.take(&writer);
  {
    Lock listing(list_mutex_);
    lister_.db.take(&lister);
  }
  {
    Lock reading(read_mutex_);
    reader_.db.take(&reader);
    dir_.read_only = dir_.without_log = false;
    dir_.no_log = Status();
  }
  logf(log_, LogLevel::kInfo, "store: %s: open for writing again", dir_.root.c_str());
  return {};
}

void StoreImpl::tell_of_log() {
  if (dir_.log_mended) logf(log_, LogLevel::kWarn, "store: %s/catalog.db-wal: bits of it had flipped; they are mended", dir_.root.c_str());
  if (dir_.log_damage.empty()) return;
  const char* next = dir_.read_only ? "; repair the store before anything is saved there (kvrt store repair): it reads them" : "";
  logf(log_, LogLevel::kWarn, "store: %s/catalog.db-wal: %s%s", dir_.root.c_str(), dir_.log_damage.c_str(), next);
}

// Removes the files that a killed process left, makes the reserve, and lets others in.
Status StoreImpl::tidy_alone() {
  remove_all_orphans(env_, log_, dir_.root, &catalog_, dir_.unclean);
  reserve_given_ = !make_reserve(env_, dir_.root);
  Status ours = share(&dir_);
  if (ours.is_ok()) ours = catalog_.db.check_schema();
  if (!ours.is_ok()) broken_ = ours.clone();  // another process repairs or has migrated it: it stays as it is
  return ours;
}

// Checks that FORMAT and catalog are of one store. A writer that is alone writes a FORMAT anew that is not as it should be.
Status StoreImpl::check_identity() {
  const FormatFile& format = dir_.format;
  if (format.id && *format.id != catalog_.db.id()) {
    return error(
        Code::kCorrupt, Detail::kCatalogCorrupt,
        "%s: catalog.db is of store %s, FORMAT says that this is store %s: put the right file back; or repair the store (kvrt store "
        "repair), which goes by FORMAT and keeps no session of that catalog; left untouched",
        dir_.root.c_str(), catalog_.db.id().hex().c_str(), format.id->hex().c_str());
  }
  if (!dir_.alone || dir_.read_only || format.kind == FormatFile::Kind::kSound) return {};
  Status written = write_format(env_, dir_.root, catalog_.db.id());
  if (written.is_ok() || format.kind == FormatFile::Kind::kMissing) return written;
  logf(log_, LogLevel::kWarn, "store: %s", written.message().c_str());  // the catalog has the same id
  return {};
}

// The reserve, whose room the log and its index took on a full disk, is made again if nobody else has the store open. A reader leaves the
// directory as it was: SQLite makes log and index even for one.
void StoreImpl::tidy_after_closing() {
  if ((!dir_.read_only && !reserve_given_) || !dir_.writable || dir_.lock == nullptr) return;
  if (!dir_.lock->acquire(LockMode::kExclusive).is_ok()) return;
  const std::string catalog = dir_.root + "/catalog.db";
  if (dir_.read_only) {
    (void)env_->remove_file(catalog + "-shm").is_ok();
    auto log = env_->open_read(catalog + "-wal");
    auto bytes = log.is_ok() ? (*log)->size() : Result<uint64_t>(log.take_status());
    if (bytes.is_ok() && *bytes == 0) (void)env_->remove_file(catalog + "-wal").is_ok();
  }
  if (reserve_given_) make_reserve(env_, dir_.root);
}

StoreImpl::~StoreImpl() {
  try {
    if (!dir_.read_only) seal_all();
    Lock lock(mutex_);
    const bool sound = broken_.is_ok() && !catalog_.db.sync_failed(), in_place = catalog_.db.in_place();
    if (!dir_.read_only && sound) flush_trash(env_, log_, dir_.root, &catalog_, &files_);
    if (sound && unfolded_ && !dir_.read_only) {
      const Impatient soon = catalog_.db.impatient(kCloseWaitMs);
      (void)catalog_.db.checkpoint(true).is_ok();
    }
    {  // these first: only the last connection folds the log in
      Lock reading(read_mutex_);
      (void)reader_.db.close(false).is_ok();
    }
    {
      Lock listing(list_mutex_);
      (void)lister_.db.close(false).is_ok();
    }
    Status closed = catalog_.db.close(sound && !litter_ && !open_.litter());  // a log that is left makes the next open look for litter
    if (!closed.is_ok()) logf(log_, LogLevel::kWarn, "store: closing: %s", closed.message().c_str());
    if (in_place) tidy_after_closing();
  } catch (...) {  // no memory: the next open does the rest
  }
}

}  // namespace kvrt
