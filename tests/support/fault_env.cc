#include "tests/support/fault_env.h"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace kvrt::test {

Fault FaultPlan::next(Op op) {
  if (op == Op::kSync && on_sync) on_sync();
  Fault fault = fault_;
  if (fault == Fault::kNone) {
    count_++;
    return fault;
  }
  if (fault == Fault::kSyncLost && op != Op::kSync) return Fault::kNone;
  uint64_t n = ++count_;
  bool due = n >= nth_ && (sticky_ || fired_ == 0);
  const bool halves = fault == Fault::kShort || fault == Fault::kTornKill;
  const bool idle = op == Op::kOther || (fault == Fault::kQuota && op == Op::kSync);
  if (!due || ((fault == Fault::kNoSpace || fault == Fault::kQuota) && idle) || (halves && op != Op::kWrite)) return Fault::kNone;
  if (fired_++ == 0) first_ = n;
  if (fault == Fault::kKill) die();
  return fault;
}

void FaultPlan::die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

namespace {

Status fault_status(Fault fault, const std::string& path) {
  switch (fault) {
    case Fault::kNone:
      return {};
    case Fault::kIo:
    case Fault::kSyncLost:
      return errno_error(EIO, "%s: injected", path.c_str());
    case Fault::kQuota:
      return errno_error(EDQUOT, "%s: injected", path.c_str());
    default:
      return errno_error(ENOSPC, "%s: injected", path.c_str());
  }
}

class FaultFile final : public File {
 public:
  FaultFile(std::unique_ptr<File> base, std::string path, FaultPlan* plan, uint64_t bytes = 0)
      : base_(std::move(base)), path_(std::move(path)), plan_(plan), appended_(bytes) {}
  Status pread(uint64_t offset, std::span<uint8_t> out) const override {
    KVRT_TRY(fault_status(plan_->next(Op::kOther), path_));
    return base_->pread(offset, out);
  }
  Result<std::span<const uint8_t>> read(uint64_t offset, size_t bytes, ReadBuffer* buffer) const override {
    KVRT_TRY(fault_status(plan_->next(Op::kOther), path_));
    return base_->read(offset, bytes, buffer);
  }
  Status append(std::span<const uint8_t> bytes) override {
    Fault fault = plan_->next(Op::kWrite);
    if (fault == Fault::kShort || fault == Fault::kTornKill) (void)base_->append(bytes.first(bytes.size() / 2)).is_ok();
    if (fault == Fault::kTornKill) FaultPlan::die();
    KVRT_TRY(fault_status(fault, path_));
    KVRT_TRY(base_->append(bytes));
    plan_->done({DiskOp::Kind::kWrite, path_, "", appended_, {bytes.begin(), bytes.end()}});
    appended_ += bytes.size();
    return {};
  }
  Status resize(uint64_t bytes) override {
    KVRT_TRY(fault_status(plan_->next(Op::kOther), path_));
    KVRT_TRY(base_->resize(bytes));
    plan_->done({DiskOp::Kind::kTruncate, path_, "", bytes, {}});
    appended_ = bytes;
    return {};
  }
  Status sync() override {
    const Fault fault = plan_->next(Op::kSync);
    if (fault == Fault::kSyncLost) plan_->done({DiskOp::Kind::kSyncLost, path_, "", 0, {}});
    KVRT_TRY(fault_status(fault, path_));
    KVRT_TRY(base_->sync());
    plan_->done({DiskOp::Kind::kSync, path_, "", 0, {}});
    return {};
  }
  Result<uint64_t> size() const override { return base_->size(); }
  Result<bool> is_zero(uint64_t offset, uint64_t bytes) const override {
    KVRT_TRY(fault_status(plan_->next(Op::kOther), path_));
    return base_->is_zero(offset, bytes);
  }
  Result<std::span<const uint8_t>> map() override {
    KVRT_TRY(fault_status(plan_->next(Op::kOther), path_));
    return base_->map();
  }

 private:
  std::unique_ptr<File> base_;
  std::string path_;
  FaultPlan* plan_;
  uint64_t appended_;
};

}  // namespace

void FaultEnv::random(std::span<uint8_t> out) {
  if (random_seed == 0) return base_->random(out);
  std::mt19937_64 numbers(random_seed + randoms_++);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(numbers());
}

Result<std::unique_ptr<File>> FaultEnv::open_read(const std::string& path) {
  if (on_open) on_open(path);
  if (fail_open) KVRT_TRY(fail_open(path));
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  KVRT_ASSIGN(auto file, base_->open_read(path));
  return std::unique_ptr<File>(new FaultFile(std::move(file), path, plan_));
}

Result<std::unique_ptr<File>> FaultEnv::create_new(const std::string& path) {
  if (on_create) on_create(path);
  if (fail_create) KVRT_TRY(fail_create(path));
  KVRT_TRY(fault_status(plan_->next(Op::kAlloc), path));
  KVRT_ASSIGN(auto file, base_->create_new(path));
  plan_->done({DiskOp::Kind::kCreate, path, "", 0, {}});
  return std::unique_ptr<File>(new FaultFile(std::move(file), path, plan_));
}

Result<std::unique_ptr<File>> FaultEnv::open_append(const std::string& path) {
  if (on_open) on_open(path);
  if (fail_open) KVRT_TRY(fail_open(path));
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  KVRT_ASSIGN(auto file, base_->open_append(path));
  KVRT_ASSIGN(const uint64_t bytes, file->size());
  plan_->done({DiskOp::Kind::kTruncate, path, "", bytes, {}});  // to the length that it has
  return std::unique_ptr<File>(new FaultFile(std::move(file), path, plan_, bytes));
}

Status FaultEnv::make_dir(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kAlloc), path));
  Result<bool> there = base_->exists(path);
  KVRT_TRY(base_->make_dir(path));
  if (there.is_ok() && !*there) plan_->done({DiskOp::Kind::kMakeDir, path, "", 0, {}});
  return {};
}

Status FaultEnv::rename_new(const std::string& from, const std::string& to) {
  KVRT_TRY(fault_status(plan_->next(Op::kAlloc), from));
  KVRT_TRY(base_->rename_new(from, to));
  plan_->done({DiskOp::Kind::kRename, from, to, 0, {}});
  return {};
}

Status FaultEnv::remove_file(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  KVRT_TRY(base_->remove_file(path));
  plan_->done({DiskOp::Kind::kUnlink, path, "", 0, {}});
  return {};
}

Status FaultEnv::remove_dir(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->remove_dir(path);
}

// A punch counts as a write of zeros for each range, and a sync.
Status FaultEnv::punch(const std::string& path, std::span<const FileRange> ranges) {
  if (no_holes) return error(Code::kUnsupported, Detail::kNone, "%s: injected", path.c_str());
  for (const FileRange& range : ranges) {
    const Fault fault = plan_->next(Op::kWrite);
    if (fault == Fault::kShort || fault == Fault::kTornKill) {
      const FileRange half{range.offset, range.bytes / 2 + 1};
      (void)base_->punch(path, {&half, 1}).is_ok();
    }
    if (fault == Fault::kTornKill) FaultPlan::die();
    KVRT_TRY(fault_status(fault, path));
    KVRT_TRY(base_->punch(path, {&range, 1}));
    plan_->done({DiskOp::Kind::kWrite, path, "", range.offset, std::vector<uint8_t>(range.bytes)});
    KVRT_TRY(fault_status(plan_->next(Op::kSync), path));
    plan_->done({DiskOp::Kind::kSync, path, "", 0, {}});
  }
  return {};
}

Status FaultEnv::patch(const std::string& path, uint64_t offset, std::span<const uint8_t> bytes) {
  const Fault fault = plan_->next(Op::kWrite);
  if (fault == Fault::kShort || fault == Fault::kTornKill) (void)base_->patch(path, offset, bytes.first(bytes.size() / 2)).is_ok();
  if (fault == Fault::kTornKill) FaultPlan::die();
  KVRT_TRY(fault_status(fault, path));
  KVRT_TRY(base_->patch(path, offset, bytes));
  plan_->done({DiskOp::Kind::kWrite, path, "", offset, {bytes.begin(), bytes.end()}});
  KVRT_TRY(fault_status(plan_->next(Op::kSync), path));
  plan_->done({DiskOp::Kind::kSync, path, "", 0, {}});
  return {};
}

Status FaultEnv::sync_dir(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kSync), path));
  KVRT_TRY(base_->sync_dir(path));
  plan_->done({DiskOp::Kind::kSyncDir, path, "", 0, {}});
  return {};
}

Result<std::vector<std::string>> FaultEnv::list_dir(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->list_dir(path);
}

Result<bool> FaultEnv::exists(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->exists(path);
}

Status FaultEnv::check_file(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->check_file(path);
}

Result<FileInfo> FaultEnv::file_info(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->file_info(path);
}

Status FaultEnv::set_modified(const std::string& path, int64_t unix_ms) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  return base_->set_modified(path, unix_ms);
}

Result<DirInfo> FaultEnv::dir_info(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  if (dir_override != nullptr) return *dir_override;
  return base_->dir_info(path);
}

Result<std::unique_ptr<FileLock>> FaultEnv::open_lock(const std::string& path, bool create) {
  if (fail_lock) KVRT_TRY(fail_lock(path));
  KVRT_TRY(fault_status(plan_->next(Op::kAlloc), path));
  return base_->open_lock(path, create);
}

Result<FsInfo> FaultEnv::fs_info(const std::string& path) {
  KVRT_TRY(fault_status(plan_->next(Op::kOther), path));
  if (fs_override != nullptr) return *fs_override;
  return base_->fs_info(path);
}

// The VFS shim. The log's index in shared memory is made anew from the log, so it is neither counted nor recorded.
namespace {

FaultPlan* g_plan = nullptr;

struct ShimFile {
  sqlite3_file base;   // SQLite's view of the file
  sqlite3_file* real;  // lies behind this struct in the same allocation
  const char* path;    // SQLite's, until the file is closed
  bool directory_due;  // a new log: its first sync is its directory's too
};

ShimFile* shim_of(sqlite3_file* file) { return reinterpret_cast<ShimFile*>(file); }
void log_done(DiskOp::Kind kind, const std::string& path, sqlite3_int64 offset = 0, const void* data = nullptr, int n = 0) {
  if (g_plan == nullptr || path.empty()) return;
  auto bytes = static_cast<const uint8_t*>(data);
  g_plan->done({kind, path, "", static_cast<uint64_t>(offset), {bytes, bytes + n}});
}
std::string directory_of(const char* path) { return std::string(path).substr(0, std::string(path).rfind('/')); }

sqlite3_file* real_of(sqlite3_file* file) { return reinterpret_cast<ShimFile*>(file)->real; }

Fault ask(Op op) { return g_plan != nullptr ? g_plan->next(op) : Fault::kNone; }

// SQLite knows ENOSPC alone.
int code_of(Fault fault, int io_code) {
  if (fault == Fault::kQuota) {
    errno = EDQUOT;
    return io_code;
  }
  return fault == Fault::kNone ? SQLITE_OK : fault == Fault::kIo || fault == Fault::kSyncLost ? io_code : SQLITE_FULL;
}

#define KVRT_SHIM_TRY(op, io_code)                  \
  do {                                              \
    int shim_code_ = code_of(ask(op), io_code);     \
    if (shim_code_ != SQLITE_OK) return shim_code_; \
  } while (0)

int shim_close(sqlite3_file* file) {
  sqlite3_file* real = real_of(file);
  return real->pMethods != nullptr ? real->pMethods->xClose(real) : SQLITE_OK;
}

int shim_read(sqlite3_file* file, void* to, int n, sqlite3_int64 at) {
  if (g_plan != nullptr && g_plan->on_sqlite_read) g_plan->on_sqlite_read();
  KVRT_SHIM_TRY(Op::kOther, SQLITE_IOERR_READ);
  return real_of(file)->pMethods->xRead(real_of(file), to, n, at);
}

int shim_write(sqlite3_file* file, const void* from, int n, sqlite3_int64 at) {
  Fault fault = ask(Op::kWrite);
  sqlite3_file* real = real_of(file);
  if (fault == Fault::kShort || fault == Fault::kTornKill) real->pMethods->xWrite(real, from, n / 2, at);
  if (fault == Fault::kTornKill) FaultPlan::die();
  if (fault != Fault::kNone) return code_of(fault, SQLITE_IOERR_WRITE);
  const int code = real->pMethods->xWrite(real, from, n, at);
  if (code == SQLITE_OK) log_done(DiskOp::Kind::kWrite, shim_of(file)->path, at, from, n);
  return code;
}

int shim_truncate(sqlite3_file* file, sqlite3_int64 size) {
  KVRT_SHIM_TRY(Op::kOther, SQLITE_IOERR_TRUNCATE);
  const int code = real_of(file)->pMethods->xTruncate(real_of(file), size);
  if (code == SQLITE_OK) log_done(DiskOp::Kind::kTruncate, shim_of(file)->path, size);
  return code;
}

int shim_sync(sqlite3_file* file, int flags) {
  Fault fault = ask(Op::kSync);
  if (fault == Fault::kSyncLost) log_done(DiskOp::Kind::kSyncLost, shim_of(file)->path);
  if (fault != Fault::kNone) return code_of(fault, SQLITE_IOERR_FSYNC);
  const int code = real_of(file)->pMethods->xSync(real_of(file), flags);
  if (code == SQLITE_OK) {
    log_done(DiskOp::Kind::kSync, shim_of(file)->path);
    if (shim_of(file)->directory_due) log_done(DiskOp::Kind::kSyncDir, directory_of(shim_of(file)->path));
    shim_of(file)->directory_due = false;
  }
  return code;
}

int shim_size(sqlite3_file* file, sqlite3_int64* size) { return real_of(file)->pMethods->xFileSize(real_of(file), size); }
int shim_lock(sqlite3_file* file, int level) { return real_of(file)->pMethods->xLock(real_of(file), level); }
int shim_unlock(sqlite3_file* file, int level) { return real_of(file)->pMethods->xUnlock(real_of(file), level); }
int shim_reserved(sqlite3_file* file, int* out) { return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out); }
int shim_control(sqlite3_file* file, int op, void* arg) { return real_of(file)->pMethods->xFileControl(real_of(file), op, arg); }
int shim_sector(sqlite3_file* file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }
int shim_traits(sqlite3_file* file) { return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file)); }

int shim_shm_map(sqlite3_file* file, int page, int bytes, int extend, void volatile** out) {
  return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, out);
}
int shim_shm_lock(sqlite3_file* file, int at, int n, int flags) { return real_of(file)->pMethods->xShmLock(real_of(file), at, n, flags); }
void shim_shm_barrier(sqlite3_file* file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }
int shim_shm_unmap(sqlite3_file* file, int remove) { return real_of(file)->pMethods->xShmUnmap(real_of(file), remove); }

const sqlite3_io_methods kShimMethods = {2,           shim_close,   shim_read,     shim_write,       shim_truncate,  shim_sync,
                                         shim_size,   shim_lock,    shim_unlock,   shim_reserved,    shim_control,   shim_sector,
                                         shim_traits, shim_shm_map, shim_shm_lock, shim_shm_barrier, shim_shm_unmap, nullptr,
                                         nullptr};

sqlite3_vfs* base_vfs(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

int shim_open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto shim = reinterpret_cast<ShimFile*>(file);
  shim->base.pMethods = nullptr;
  shim->real = reinterpret_cast<sqlite3_file*>(shim + 1);
  shim->real->pMethods = nullptr;
  shim->path = name != nullptr ? name : "";
  KVRT_SHIM_TRY(Op::kAlloc, SQLITE_CANTOPEN);
  int there = 1;
  if (name != nullptr) base_vfs(vfs)->xAccess(base_vfs(vfs), name, SQLITE_ACCESS_EXISTS, &there);
  int code = base_vfs(vfs)->xOpen(base_vfs(vfs), name, shim->real, flags, out_flags);
  if (code != SQLITE_OK) return code;
  shim->base.pMethods = &kShimMethods;
  shim->directory_due = !there && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0;
  if (!there) log_done(DiskOp::Kind::kCreate, shim->path);
  return SQLITE_OK;
}

int shim_delete(sqlite3_vfs* vfs, const char* name, int sync_dir) {
  KVRT_SHIM_TRY(Op::kOther, SQLITE_IOERR_DELETE);
  const int code = base_vfs(vfs)->xDelete(base_vfs(vfs), name, sync_dir);
  if (code == SQLITE_OK) {
    log_done(DiskOp::Kind::kUnlink, name);
    if (sync_dir != 0) log_done(DiskOp::Kind::kSyncDir, directory_of(name));
  }
  return code;
}

}  // namespace

void set_sqlite_faults(FaultPlan* plan) {
  static sqlite3_vfs* const shim = [] {
    sqlite3_vfs* base = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs vfs = *base;
    vfs.pNext = nullptr;
    vfs.zName = "kvrt-fault";
    vfs.pAppData = base;
    vfs.szOsFile = static_cast<int>(sizeof(ShimFile)) + base->szOsFile;
    vfs.xOpen = shim_open;
    vfs.xDelete = shim_delete;
    sqlite3_vfs_register(&vfs, 1);
    return &vfs;
  }();
  (void)shim;
  g_plan = plan;
}

}  // namespace kvrt::test
