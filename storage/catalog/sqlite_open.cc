// Db: opening, and whether what is open is still what its path leads to.
#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "runtime/base/check.h"
#include "runtime/base/mutex.h"
#include "runtime/base/paths.h"
#include "storage/catalog/sqlite_db.h"

namespace kvrt {

namespace {

constexpr size_t kSqlitePathBytesMax = 500;  // of its 512, with the suffix of a log

// The file: URI of a path. Percent signs and question marks in a directory's name must not become escapes and options.
std::string file_uri(const std::string& path) {
  static const char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file:";
  size_t start = 0;
  while (start + 1 < path.size() && path[start] == '/' && path[start + 1] == '/') start++;  // "//x" would be a host
  for (size_t i = start; i < path.size(); i++) {
    auto c = static_cast<unsigned char>(path[i]);
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '_' || c == '-';
    if (plain) {
      uri += static_cast<char>(c);
    } else {
      uri += '%';
      uri += kDigits[c >> 4];
      uri += kDigits[c & 15];
    }
  }
  return uri;
}

// A path that begins with a descriptor is one as it is: resolved, it would be as long as before.
int keep_path(sqlite3_vfs*, const char* path, int capacity, char* out) {
  const int size = static_cast<int>(std::strlen(path)) + 1;
  if (size > capacity) return SQLITE_CANTOPEN;
  std::memcpy(out, path, static_cast<size_t>(size));
  return SQLITE_OK;
}

}  // namespace

// A directory that is held open for all connections into it: SQLite keeps the name of a log's index for all of them, until the last one closes.
// The VFS is the default one but for keep_path. It is registered while a database is opened only: a host may unload this library.
struct Db::Directory {
  HeldDirectory place;
  std::string vfs_name;
  sqlite3_vfs vfs{};
  explicit Directory(HeldDirectory at) : place(std::move(at)) {}
};

Db::Db() = default;

Db::~Db() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(db_);
}

Status Db::open(const std::string& path, int flags, const char* options) {
  KVRT_CHECK(db_ == nullptr);
  path_ = path;
  flags |= SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
  directory_.reset();
  if (path.size() > kSqlitePathBytesMax) KVRT_TRY(hold_directory());
  const std::string uri = file_uri(directory_ == nullptr ? path : directory_->place.short_path()) + options;
  const int code = directory_ == nullptr ? sqlite3_open_v2(uri.c_str(), &db_, flags, nullptr) : open_by_descriptor(uri.c_str(), flags);
  if (code != SQLITE_OK) {
    Status status = fail(code);
    sqlite3_close_v2(db_);
    db_ = nullptr;
    return status;
  }
  sqlite3_wal_hook(db_, on_wal, this);
  return {};
}

// /proc/self/fd/N/catalog.db: SQLite's own limit is for the text of a path.
Status Db::hold_directory() {
  static Mutex mu;
  static std::map<std::pair<FileId, std::string>, std::weak_ptr<Directory>> held;  // by the directory and the database's name
  KVRT_ASSIGN(HeldDirectory place, HeldDirectory::of(path_));
  if (!place.has_short_path()) {
    return error(Code::kLimit, Detail::kNone,
                 "%.200s..: a path of %zu bytes; without /proc SQLite takes %zu: a shorter path, or mount /proc", path_.c_str(),
                 path_.size(), kSqlitePathBytesMax);
  }
  const sqlite3_vfs* usual = sqlite3_vfs_find(nullptr);
  if (usual == nullptr) return error(Code::kUnsupported, Detail::kNone, "SQLite is built without a VFS");
  Lock lock(mu);
  std::erase_if(held, [](const auto& entry) { return entry.second.expired(); });
  auto& known = held[{place.id(), place.name()}];
  directory_ = known.lock();
  if (directory_ != nullptr) return {};
  directory_ = std::make_shared<Directory>(std::move(place));
  directory_->vfs = *usual;
  directory_->vfs.pNext = nullptr;
  directory_->vfs_name =
      "kvrt-" + std::to_string(reinterpret_cast<uintptr_t>(directory_.get()));  // another copy of this library has its own
  directory_->vfs.zName = directory_->vfs_name.c_str();
  directory_->vfs.xFullPathname = keep_path;
  known = directory_;
  return {};
}

// Two may open databases of one directory at a time.
int Db::open_by_descriptor(const char* uri, int flags) {
  static Mutex mu;
  Lock lock(mu);
  sqlite3_vfs_register(&directory_->vfs, 0);
  const int code = sqlite3_open_v2(uri, &db_, flags, directory_->vfs.zName);
  sqlite3_vfs_unregister(&directory_->vfs);
  return code;
}

Status Db::close() {
  if (db_ == nullptr) return {};
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
  int code = sqlite3_close(db_);
  Status status = code == SQLITE_OK ? Status() : fail(code);
  if (code != SQLITE_OK) sqlite3_close_v2(db_);
  db_ = nullptr;
  return status;
}

void Db::take(Db* other) {
  (void)close().is_ok();
  std::swap(db_, other->db_);
  statements_.swap(other->statements_);
  path_ = other->path_;
  directory_ = other->directory_;
  log_ = other->log_;
  index_ = other->index_;
  content_ = other->content_;
  write_lock_ = other->write_lock_;
  log_saved_ = sync_failed_ = false;
  sqlite3_wal_hook(db_, on_wal, this);
}

bool Db::in_place() {
  int moved = 0;
  if (db_ == nullptr) return true;
  if (sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0) return false;
  if (directory_ == nullptr) return true;
  auto now = HeldDirectory::of(path_);  // SQLite looked into the directory that is held open, wherever that is
  if (!now.is_ok()) return now.status().os_code() != ENOENT && now.status().os_code() != ENOTDIR;  // not known: it may be there
  return now->id() == directory_->place.id();
}

bool Db::log_in_place() const {
  auto place = HeldDirectory::of(path_);
  const auto is_ours = [&](const Watched& file) {
    if (file.suffix == nullptr || !place.is_ok()) return false;
    const Seen now = place->look(file.suffix);
    return now.found && now.file.id == file.id;
  };
  return is_ours(log_) || is_ours(index_);
}

Seen Db::look(const char* suffix) const { return directory_ == nullptr ? look_at(path_ + suffix) : directory_->place.look(suffix); }

void Db::watch_log() {
  for (auto [file, suffix] : {std::pair{&log_, "-wal"}, std::pair{&index_, "-shm"}}) {
    const Seen now = look(suffix);
    if (now.found) *file = {suffix, now.file.id};
  }
}

Status Db::check(Watched* file) const {
  if (file->suffix == nullptr) return {};
  const Seen now = look(file->suffix);
  file->moved = now.gone || (now.found && now.file.id != file->id);
  file->unwritten = now.gone || (now.found && now.file.bytes == 0);
  if (!file->moved) return {};
  return error(Code::kIo, Detail::kNone, "%s%s: moved, deleted or replaced since it was opened; open the store again", path_.c_str(),
               file->suffix);
}

void Db::watch_content(const std::string& path) {
  auto place = HeldDirectory::of(path);
  const Seen now = place.is_ok() ? place->look("") : Seen();
  if (now.found) content_ = now.file;
}

// A writer has a log, or has folded it in.
Status Db::check_content() const {
  if (!content_) return {};
  const Seen now = look("");
  if (!now.found || now.file.id != content_->id) return {};
  const Seen log = now.file == *content_ ? look("-wal") : Seen();
  if (now.file == *content_ && (!log.found || log.file.bytes == 0)) return {};
  return error(Code::kIo, Detail::kNone, "%s: another process has written it since it was opened; open the store again", path_.c_str());
}

Status Db::check_log() {
  KVRT_TRY(check_content());
  Status log = check(&log_), index = check(&index_);
  return log.is_ok() ? std::move(index) : std::move(log);
}

Status Db::check_in_place() {
  if (!in_place()) {
    return error(Code::kIo, Detail::kNone, "%s: moved, deleted or replaced since it was opened; open the store again", path_.c_str());
  }
  Status status = check_log();
  if (log_.moved && !log_saved_) save_log();
  return status;
}

// A process that came since then has made another log. As long as that is empty nothing has changed but here; and it looks into the index
// that is shared with it, if that is still the one, before it believes what it knows of the database.
void Db::save_log() {
  const auto can_be_saved = [&] { return log_.moved && log_.unwritten && (!index_.moved || index_.unwritten); };
  if (!can_be_saved() || in_transaction() || write_turns_ != 0) return;
  if (write_lock_ != nullptr && !write_lock_->acquire(LockMode::kExclusive).is_ok()) return;
  (void)check_log().is_ok();  // again, now that nobody writes
  log_saved_ = can_be_saved() && checkpoint(true).is_ok();
  if (write_lock_ != nullptr) write_lock_->release();
}

}  // namespace kvrt
