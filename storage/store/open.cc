// Writer: opens and closes the catalog.
#include "storage/store/locks.h"
#include "storage/store/orphans.h"
#include "storage/store/reserve.h"
#include "storage/store/trash.h"
#include "storage/store/writer.h"

namespace kvrt {

Status Writer::open() {
  Lock lock(mutex);
  Status opened = advise(open_catalog());
  if (opened.is_ok()) opened = check_identity();
  store_->files.set_store(catalog.db.id());
  store_->open.set_store(catalog.db.id());
  if (opened.is_ok()) opened = open_readers();
  if (!opened.is_ok()) {
    broken_ = opened.clone();  // so that closing writes nothing
    return opened;
  }
  if (!dir_.read_only) flush_trash(store_->env, store_->log, dir_.root, &catalog, &store_->files);
  if (dir_.alone && !dir_.read_only && dir_.log_rows) (void)catalog.db.checkpoint(true).is_ok();  // the log may hold removed content
  tell_of_log();
  return dir_.alone ? tidy_alone() : Status();
}

// A catalog that cannot be read: where it is, and what to do.
Status Writer::advise(Status opened) const {
  if (opened.code() != Code::kCorrupt) return opened;
  const std::string& what = opened.message();
  const std::string where = what.starts_with(dir_.root) ? "" : dir_.root + ": ";
  return Status::make(opened.code(), opened.detail(), opened.os_code(), where + what + ": repair the store (kvrt store repair)");
}

CatalogDb::OpenMode Writer::read_mode() const {
  CatalogDb::OpenMode mode;
  mode.read_only = true;
  const bool log_can_be_had = dir_.log_rows || dir_.log_open || (dir_.writable && dir_.lock != nullptr);
  mode.immutable = dir_.read_only && (!log_can_be_had || dir_.without_log);
  return mode;
}

// SQLite says of a log that it cannot make that it is not there. A file of our own finds out what is wanting: room, an inode, a descriptor.
Status Writer::explain(Status opened) const {
  if (!CatalogDb::cannot_open(opened) || !dir_.writable) return opened;
  SegmentId unique;
  store_->env->random(unique.bytes);
  const std::string path = dir_.root + "/tmp/" + unique.hex() + ".try";
  auto file = store_->env->create_new(path);
  if (file.is_ok()) (void)store_->env->remove_file(path).is_ok();
  const bool wanting = file.status().code() == Code::kNoSpace || is_want(file.status());
  return wanting ? file.take_status().annotate("the catalog's log and its index") : std::move(opened);
}

// The log and its index need a little room, and two inodes: on a full disk they get the reserve's. Where that is not enough, a store that was
// closed can be read without them.
Status Writer::open_catalog() {
  CatalogDb::OpenMode mode = read_mode();
  mode.read_only = dir_.read_only;
  mode.check = dir_.unclean && dir_.log_rows;
  mode.write_lock = dir_.write_lock.get();
  const auto open = [&]() KVRT_REQUIRES(mutex) {
    (void)catalog.db.close(false).is_ok();
    return explain(catalog.db.open(dir_.root + "/catalog.db", mode));
  };
  Status opened = open();
  if (opened.code() != Code::kNoSpace || !dir_.writable) return opened;
  if (dir_.alone || dir_.read_only) {
    give_reserve();
    opened = open();
  }
  if (opened.code() != Code::kNoSpace || dir_.log_rows || dir_.log_open) return opened;
  if (!dir_.read_only) {
    logf(store_->log, LogLevel::kWarn, "store: %s: open for reading only: %s", dir_.root.c_str(), opened.message().c_str());
    dir_.no_log = opened.clone();
  }
  dir_.read_only = dir_.without_log = true;
  KVRT_TRY(share(&dir_));
  mode = read_mode();
  (void)catalog.db.close(false).is_ok();
  return catalog.db.open(dir_.root + "/catalog.db", mode);
}

Status Writer::open_readers() {
  {
    Lock lock(reader_->mutex);
    KVRT_TRY(reader_->catalog.db.open(dir_.root + "/catalog.db", read_mode()));
  }
  Lock lock(lister_->mutex);
  return lister_->catalog.db.open(dir_.root + "/catalog.db", read_mode());
}

// What readers saw may be old by now, for others may have written: they get new connections, too.
Status Writer::take_up_writing() {
  if (dir_.no_log.is_ok()) return {};
  if (!catalog.db.in_place()) return catalog.db.check_in_place();
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
  catalog.db.take(&writer);
  {
    Lock listing(lister_->mutex);
    lister_->catalog.db.take(&lister);
  }
  {
    Lock reading(reader_->mutex);
    reader_->catalog.db.take(&reader);
    dir_.read_only = dir_.without_log = false;
    dir_.no_log = Status();
  }
  logf(store_->log, LogLevel::kInfo, "store: %s: open for writing again", dir_.root.c_str());
  return {};
}

void Writer::tell_of_log() {
  if (dir_.log_mended)
    logf(store_->log, LogLevel::kWarn, "store: %s/catalog.db-wal: bits of it had flipped; they are mended", dir_.root.c_str());
  if (dir_.log_damage.empty()) return;
  const char* next = dir_.read_only ? "; repair the store before anything is saved there (kvrt store repair): it reads them" : "";
  logf(store_->log, LogLevel::kWarn, "store: %s/catalog.db-wal: %s%s", dir_.root.c_str(), dir_.log_damage.c_str(), next);
}

// Removes the files that a killed process left, makes the reserve, and lets others in.
Status Writer::tidy_alone() {
  remove_all_orphans(store_->env, store_->log, dir_.root, &catalog, dir_.unclean);
  reserve_given_ = !make_reserve(store_->env, dir_.root);
  Status ours = share(&dir_);
  if (ours.is_ok()) ours = catalog.db.check_schema();
  if (!ours.is_ok()) broken_ = ours.clone();  // another process repairs or has migrated it: it stays as it is
  return ours;
}

// Checks that FORMAT and catalog are of one store. A writer that is alone writes a FORMAT anew that is not as it should be.
Status Writer::check_identity() {
  const FormatFile& format = dir_.format;
  if (format.id && *format.id != catalog.db.id()) {
    return error(
        Code::kCorrupt, Detail::kCatalogCorrupt,
        "%s: catalog.db is of store %s, FORMAT says that this is store %s: put the right file back; or repair the store (kvrt store "
        "repair), which goes by FORMAT and keeps no session of that catalog; left untouched",
        dir_.root.c_str(), catalog.db.id().hex().c_str(), format.id->hex().c_str());
  }
  if (!dir_.alone || dir_.read_only || format.kind == FormatFile::Kind::kSound) return {};
  Status written = write_format(store_->env, dir_.root, catalog.db.id());
  if (written.is_ok() || format.kind == FormatFile::Kind::kMissing) return written;
  logf(store_->log, LogLevel::kWarn, "store: %s", written.message().c_str());  // the catalog has the same id
  return {};
}

// The reserve, whose room the log and its index took on a full disk, is made again if nobody else has the store open. A reader leaves the
// directory as it was: SQLite makes log and index even for one.
void Writer::tidy_after_closing() {
  if ((!dir_.read_only && !reserve_given_) || !dir_.writable || dir_.lock == nullptr) return;
  if (!dir_.lock->acquire(LockMode::kExclusive).is_ok()) return;
  const std::string path = dir_.root + "/catalog.db";
  if (dir_.read_only) {
    (void)store_->env->remove_file(path + "-shm").is_ok();
    auto log = store_->env->open_read(path + "-wal");
    auto bytes = log.is_ok() ? (*log)->size() : Result<uint64_t>(log.take_status());
    if (bytes.is_ok() && *bytes == 0) (void)store_->env->remove_file(path + "-wal").is_ok();
  }
  if (reserve_given_) make_reserve(store_->env, dir_.root);
}

void Writer::close(bool litter) {
  Lock lock(mutex);
  const bool sound = broken_.is_ok() && !catalog.db.sync_failed(), in_place = catalog.db.in_place(), writes = !dir_.read_only;
  if (writes && sound) flush_trash(store_->env, store_->log, dir_.root, &catalog, &store_->files);
  if (writes && sound && unfolded_) {
    const Impatient soon = catalog.db.impatient(kCloseWaitMs);
    (void)catalog.db.checkpoint(true).is_ok();
  }
  {  // these first: only the last connection folds the log in
    Lock reading(reader_->mutex);
    (void)reader_->catalog.db.close(false).is_ok();
  }
  {
    Lock listing(lister_->mutex);
    (void)lister_->catalog.db.close(false).is_ok();
  }
  Status closed = catalog.db.close(sound && !litter);
  if (!closed.is_ok()) logf(store_->log, LogLevel::kWarn, "store: closing: %s", closed.message().c_str());
  if (in_place) tidy_after_closing();
}

}  // namespace kvrt
