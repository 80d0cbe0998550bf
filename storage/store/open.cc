#include "storage/store/open.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <unordered_set>

#include "runtime/base/limits.h"
#include "storage/catalog/safe_files.h"
#include "storage/catalog/sqlite_log.h"
#include "storage/store/migrate.h"
#include "storage/store/verify.h"

namespace kvrt {

namespace {

constexpr const char* kOurNames[] = {
    "FORMAT", "catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-journal", kCatalogBackup, "segs",
    "tmp",    "lock",       "write.lock",     "reserve",        "lost+found"};

// Beside a catalog of ours a strange FORMAT is a damaged one.
Status check_format(const FormatFile& format, const Catalog::Probe& catalog, const std::string& root) {
  using Kind = Catalog::Kind;
  const bool ours = catalog.kind == Kind::kOurs || catalog.kind == Kind::kOld || catalog.kind == Kind::kFlipped;
  if (format.kind != FormatFile::Kind::kStrange || ours) return {};
  return error(Code::kIncompatible, Detail::kForeignProgram, "%s/FORMAT: not the FORMAT of a kvrt store", root.c_str());
}

// True if any segment file lies under segs/.
Result<bool> has_segments(Env* env, const std::string& root) {
  auto dirs = env->list_dir(root + "/segs");
  if (!dirs.is_ok()) {
    if (dirs.status().code() == Code::kNotFound) return false;
    return dirs.take_status();
  }
  for (const std::string& dir : *dirs) {
    auto files = env->list_dir(root + "/segs/" + dir);
    if (!files.is_ok() || !files->empty()) return true;
  }
  return false;
}

// A catalog that another kvrt wrote.
Status refuse(const Catalog::Probe& catalog, const std::string& path) {
  if (catalog.kind == Catalog::Kind::kTooNew) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "%s: catalog schema %d, this kvrt knows up to %d; left untouched", path.c_str(),
                 catalog.schema, kCatalogSchema);
  }
  if (catalog.kind == Catalog::Kind::kTooOld) {
    return error(Code::kIncompatible, Detail::kFormat,
                 "%s: catalog schema %d of a kvrt before the first release, this one reads %d to %d; left untouched", path.c_str(),
                 catalog.schema, kCatalogSchemaOldest, kCatalogSchema);
  }
  return {};
}

Status foreign(const Catalog::Probe& catalog, const std::string& path) {
  return error(Code::kIncompatible, Detail::kForeignProgram, "%s: a database of another program (application id %08x); left untouched",
               path.c_str(), static_cast<unsigned>(catalog.application_id));
}

struct Survey {
  bool empty = true;  // nothing in it but what an interrupted creation leaves
  FormatFile format;
  Catalog::Probe catalog;
};

// What the directory holds, without writing to it.
Result<Survey> survey(Env* env, const std::string& root) {
  Survey s;
  KVRT_ASSIGN(s.format, read_format(env, root));
  std::string path = root + "/catalog.db";
  KVRT_ASSIGN(s.catalog, Catalog::probe(env, path));
  KVRT_TRY(Catalog::recognize(path, &s.catalog));
  KVRT_TRY(check_format(s.format, s.catalog, root));
  KVRT_TRY(refuse(s.catalog, path));
  if (s.catalog.kind == Catalog::Kind::kForeign) return foreign(s.catalog, path);
  if (s.catalog.kind == Catalog::Kind::kCorrupt) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt,
                 "%s: not a catalog any more (its header is damaged): repair the store (kvrt store repair); left untouched", path.c_str());
  }
  if (s.catalog.kind != Catalog::Kind::kMissing) {
    s.empty = false;
    return s;
  }
  KVRT_ASSIGN(bool segments, has_segments(env, root));
  if (s.format.kind != FormatFile::Kind::kMissing || segments) {  // FORMAT is written after the catalog: it was there
    return error(Code::kCorrupt, Detail::kCatalogMissing,
                 "%s: missing, though %s; a new one would lose its sessions: put it back, or repair the store (kvrt store repair)",
                 path.c_str(), segments ? "segs/ has data" : "FORMAT says that this was a store");
  }
  KVRT_ASSIGN(auto names, env->list_dir(root));
  for (const std::string& name : names) {
    if (std::find(std::begin(kOurNames), std::end(kOurNames), name) == std::end(kOurNames)) {
      return error(Code::kIncompatible, Detail::kForeignProgram, "%s: not empty and no kvrt store (it has %s); left untouched",
                   root.c_str(), name.c_str());
    }
  }
  return s;
}

Status check_place(Env* env, const std::string& root, bool* writable) {
  KVRT_ASSIGN(DirInfo dir, env->dir_info(root));
  if (!dir.owned || dir.others_can_write) {
    return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: %s; a store's directory is its owner's alone (chmod 700)", root.c_str(),
                 dir.owned ? "group or others can write it" : "belongs to another user");
  }
  *writable = dir.writable;
  KVRT_ASSIGN(FsInfo fs, env->fs_info(root));
  if (fs.is_network) {
    return error(Code::kUnsupported, Detail::kNone, "%s: on a network file system (%s), whose locks and renames cannot be trusted",
                 root.c_str(), fs.type.c_str());
  }
  return {};
}

// Tries until somebody else's repairs are over.
Status wait_for(const std::function<Status()>& attempt) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(kWriteWaitMs);
  for (;;) {
    Status status = attempt();
    if (status.code() != Code::kBusy || steady_clock::now() >= deadline) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Exclusive if nobody else is there (then *alone), else shared.
Status enter(Env* env, StoreDirectory* dir) {
  auto lock = env->open_lock(dir->root + "/lock", !dir->read_only);
  if (!lock.is_ok()) {  // a reader does without one that is not there, or not for it
    const bool can_do = dir->read_only && !is_want(lock.status()) && lock.status().detail() != Detail::kForked;
    return can_do ? Status() : lock.take_status();
  }
  KVRT_TRY(wait_for([&] {
    Status status = dir->read_only ? error(Code::kBusy, Detail::kStoreLocked, "a reader") : (*lock)->acquire(LockMode::kExclusive);
    dir->alone = status.is_ok();
    return status.code() == Code::kBusy ? (*lock)->acquire(LockMode::kShared) : std::move(status);
  }));
  dir->lock = std::move(*lock);
  if (!dir->read_only) {
    KVRT_ASSIGN(dir->write_lock, env->open_lock(dir->root + "/write.lock", true));
  }
  return {};
}

// Who may write and is alone brings an old catalog up to date; others are refused, and nothing has changed.
Status check_age(const Catalog::Probe& catalog, const StoreDirectory& dir) {
  if (catalog.kind != Catalog::Kind::kOld || (dir.alone && !dir.read_only)) return {};
  const char* path = dir.root.c_str();
  if (dir.read_only) {
    return error(
        Code::kIncompatible, Detail::kFormat,
        "%s: catalog schema %d of an older kvrt, this one reads %d: open the store once for writing, which migrates it; left untouched",
        path, catalog.schema, kCatalogSchema);
  }
  return error(Code::kBusy, Detail::kStoreLocked, "%s: catalog schema %d is to be migrated to %d, and another process has the store open",
               path, catalog.schema, kCatalogSchema);
}

// A bit of one of the two numbers in the catalog's header flipped.
Status check_mendable(const StoreDirectory& dir) {
  if (dir.alone && !dir.read_only) return {};
  const char* text = "%s/catalog.db: a bit of the numbers in its header has flipped: %s";
  if (dir.read_only)
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, text, dir.root.c_str(), "open the store once for writing, which mends it");
  return error(Code::kBusy, Detail::kStoreLocked, text, dir.root.c_str(),
               "who is alone in the store mends it, and another process has it open");
}

// The log that a killed process left, before SQLite reads it. Who is alone mends it; a reader asks for one who does.
Status check_log(Env* env, StoreDirectory* dir, bool for_repair) {
  const std::string path = dir->root + "/catalog.db-wal";
  if (!dir->alone && !dir->read_only) return {};  // it is in use, by its index
  auto file = env->open_read(path);
  if (!file.is_ok()) return file.status().code() == Code::kNotFound ? Status() : file.take_status();  // folded in meanwhile
  Result<std::unique_ptr<File>> database = std::unique_ptr<File>();
  if (dir->alone) database = env->open_read(dir->root + "/catalog.db");  // else closing it would free the locks of who has it open here
  auto read = scan_log(**file, database.is_ok() ? database->get() : nullptr, for_repair);
  if (!read.is_ok()) return dir->alone || is_want(read.status()) ? read.take_status() : Status();  // cut meanwhile, too
  const LogScan& scan = *read;
  if (dir->read_only && (scan.unclear || !scan.flipped.empty())) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt,
                 "%s: a bit has flipped: open the store once for writing, which mends it (kvrt store gc does)", path.c_str());
  }
  for (const LogBit& bit : scan.flipped) KVRT_TRY(env->patch(path, bit.offset, {&bit.byte, 1}));
  dir->log_mended = !scan.flipped.empty();
  if (scan.damaged_frame == 0) return {};
  dir->log_damage = "frame " + std::to_string(scan.damaged_frame) + " is damaged: it and " + std::to_string(scan.commits_lost) +
                    " commits from there on cannot be read";
  return {};
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<DamagedDirectory> open_damaged(Env* env, const std::string& path) {
  DamagedDirectory damaged;
  StoreDirectory& dir = damaged.dir;
  const std::string root = dir.root = without_slash(path);
  KVRT_ASSIGN(bool there, env->exists(root));
  if (!there) return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
  KVRT_TRY(check_place(env, root, &dir.writable));
  if (!dir.writable) return error(Code::kIo, Detail::kReadOnly, "%s: cannot be written", root.c_str());
  KVRT_ASSIGN(dir.format, read_format(env, root));
  const bool formatted = dir.format.kind != FormatFile::Kind::kMissing && dir.format.kind != FormatFile::Kind::kStrange;
  const std::string catalog = root + "/catalog.db";
  KVRT_ASSIGN(Catalog::Probe probe, Catalog::probe(env, catalog));
  KVRT_TRY(Catalog::recognize(catalog, &probe));
  KVRT_TRY(check_format(dir.format, probe, root));
  KVRT_TRY(refuse(probe, catalog));
  // Beside our FORMAT a strange application id is damage.
  if (probe.kind == Catalog::Kind::kForeign && !formatted) return foreign(probe, catalog);
  KVRT_ASSIGN(bool segments, has_segments(env, root));
  if (probe.kind == Catalog::Kind::kMissing && !formatted && !segments) {
    return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
  }
  KVRT_ASSIGN(dir.lock, env->open_lock(root + "/lock", true));
  KVRT_TRY(dir.lock->acquire(LockMode::kExclusive).annotate("repair is for a store that nobody has open"));
  KVRT_ASSIGN(dir.write_lock, env->open_lock(root + "/write.lock", true));
  dir.alone = true;
  KVRT_TRY(env->make_dir(root + "/tmp"));
  KVRT_TRY(env->make_dir(root + "/segs"));
  KVRT_ASSIGN(damaged.catalog, Catalog::probe(env, catalog));  // again: what is there now stays
  KVRT_TRY(Catalog::recognize(catalog, &damaged.catalog));
  if (damaged.catalog.log_rows) KVRT_TRY(check_log(env, &dir, true));
  damaged.mended = damaged.catalog.kind == Catalog::Kind::kFlipped;
  if (damaged.mended) {
    KVRT_TRY(Catalog::mend_numbers(catalog));
    KVRT_ASSIGN(damaged.catalog, Catalog::probe(env, catalog));
  }
  KVRT_TRY(refuse(damaged.catalog, catalog));
  if (damaged.catalog.kind == Catalog::Kind::kOld) {
    return error(Code::kIncompatible, Detail::kFormat, "%s: catalog schema %d of an older kvrt: opening the store migrates it to %d",
                 catalog.c_str(), damaged.catalog.schema, kCatalogSchema);
  }
  return damaged;
}

Result<StoreDirectory> open_directory(Env* env, const std::string& path, const StoreOptions& options) {
  StoreDirectory dir;
  dir.root = without_slash(path);
  const std::string& root = dir.root;
  KVRT_ASSIGN(bool there, env->exists(root));
  if (!there) {
    if (options.must_exist || options.read_only) return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
    KVRT_TRY(env->make_dir(root));
  }
  KVRT_TRY(check_place(env, root, &dir.writable));
  dir.read_only = options.read_only || !dir.writable;
  KVRT_ASSIGN(Survey before, survey(env, root));
  if (before.empty && (options.must_exist || dir.read_only)) {
    return error(Code::kNotFound, Detail::kNone, "%s: no store there, only an empty directory", root.c_str());
  }
  KVRT_TRY(enter(env, &dir));
  KVRT_TRY(check_directories(env, root));
  KVRT_ASSIGN(Survey now, survey(env, root));  // again: what is there now stays
  if (now.catalog.log_rows) KVRT_TRY(check_log(env, &dir, false));
  if (now.catalog.kind == Catalog::Kind::kFlipped) {
    KVRT_TRY(check_mendable(dir));
    KVRT_TRY(Catalog::mend_numbers(root + "/catalog.db"));
    KVRT_ASSIGN(now, survey(env, root));
  }
  KVRT_TRY(check_age(now.catalog, dir));
  if (dir.alone) {
    KVRT_TRY(env->make_dir(root + "/tmp"));
    KVRT_TRY(env->make_dir(root + "/segs"));
    if (now.empty) KVRT_TRY(Catalog::create(env, root));
    if (now.catalog.kind == Catalog::Kind::kOld || now.catalog.kind == Catalog::Kind::kTorn)
      KVRT_TRY(migrate_catalog(env, root, now.format.id));
  } else if (now.empty) {
    return error(Code::kBusy, Detail::kStoreLocked, "%s: another process is making a store there", root.c_str());
  }
  dir.format = now.format;
  dir.log_rows = now.catalog.log_rows;
  dir.unclean = dir.alone && now.catalog.log;
  return dir;
}

Result<FormatFile> read_format(Env* env, const std::string& root) {
  const std::string path = root + "/FORMAT";
  auto file = env->open_read(path);
  if (!file.is_ok()) {
    if (file.status().code() == Code::kNotFound) return FormatFile();
    return file.take_status();
  }
  KVRT_ASSIGN(uint64_t size, (*file)->size());
  std::string text(static_cast<size_t>(std::min<uint64_t>(size, kFormatBytesMax)), '\0');
  KVRT_TRY((*file)->pread(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  const FormatFile format = parse_format(text);
  if (format.kind != FormatFile::Kind::kNewer) return format;
  return error(Code::kIncompatible, Detail::kStoreTooNew, "%s: store layout %llu, this kvrt knows up to %u; left untouched", path.c_str(),
               static_cast<unsigned long long>(format.layout), kStoreLayout);
}

Status write_format(Env* env, const std::string& root, const StoreId& id) {
  SegmentId unique;
  env->random(unique.bytes);
  const std::string tmp = root + "/tmp/" + unique.hex() + ".format", text = format_text(id);
  {
    KVRT_ASSIGN(auto file, env->create_new(tmp));
    KVRT_TRY(file->append({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    KVRT_TRY(file->sync());
  }
  Status removed = env->remove_file(root + "/FORMAT");  // killed here it is missing, which the next open makes good
  if (!removed.is_ok() && removed.code() != Code::kNotFound) return removed;
  KVRT_TRY(env->rename_new(tmp, root + "/FORMAT"));
  return env->sync_dir(root);
}

Status share(StoreDirectory* dir) {
  if (!std::exchange(dir->alone, false)) return {};
  return wait_for([&] { return dir->lock->acquire(LockMode::kShared); });
}

bool make_reserve(Env* env, const std::string& root) {
  std::string path = root + "/reserve";
  auto old = env->open_read(path);
  if (old.is_ok()) {
    auto size = (*old)->size();
    if (size.is_ok() && *size == kReserveBytes) return true;
    (void)env->remove_file(path).is_ok();
  }
  auto file = env->create_new(path);
  if (!file.is_ok()) return false;
  if ((*file)->append(std::vector<uint8_t>(kReserveBytes)).is_ok()) return true;
  (void)env->remove_file(path).is_ok();
  return false;
}

void give_up_reserve(Env* env, const std::string& root) { (void)env->remove_file(root + "/reserve").is_ok(); }

}  // namespace kvrt
