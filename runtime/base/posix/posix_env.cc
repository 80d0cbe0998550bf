#include "runtime/base/env.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "runtime/base/hash.h"
#include "runtime/base/posix/fs_info.h"
#include "runtime/base/posix/path_place.h"
#include "runtime/base/posix/posix_file.h"
#include "runtime/base/posix/posix_mapping.h"

namespace kvrt {

namespace {

class PosixEnv final : public Env {
 public:
  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    KVRT_TRY(check_own_file(place, path));  // a device must not even be opened
    // O_NONBLOCK: a FIFO that comes in between must not hang the open; it has no effect on a regular file.
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), kFlags); }));
    if (!fd.ok()) return errno_error(errno, "%s: open", path.c_str());
    struct stat st;
    KVRT_TRY(check_opened(fd.get(), path, &st));
    return std::unique_ptr<File>(new PosixFile(std::move(fd), path));
  }

  Result<std::unique_ptr<File>> create_new(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    for (;;) {
      Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), kFlags, 0600); }));
      if (!fd.ok()) return creation_error(path, "create");
      if (::fchmod(fd.get(), 0600) != 0) return errno_error(errno, "%s: chmod 0600", path.c_str());
      // A collector of garbage may lock the file before this does, and removes it then.
      Status locked = flock_now(fd.get(), path, LockMode::kExclusive);
      if (locked.code() == Code::kBusy) return error(Code::kBusy, Detail::kConcurrent, "%s: removed while it was made", path.c_str());
      KVRT_TRY(std::move(locked));
      struct stat st;
      if (::fstat(fd.get(), &st) != 0) return errno_error(errno, "%s: stat", path.c_str());
      if (st.st_nlink > 0) return std::unique_ptr<File>(new PosixFile(std::move(fd), path, true));
    }
  }

  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    KVRT_ASSIGN(Fd fd, open_write(path));
    KVRT_TRY(flock_now(fd.get(), path, LockMode::kExclusive));
    auto file = std::make_unique<PosixFile>(std::move(fd), path, true);
    KVRT_ASSIGN(const uint64_t bytes, file->size());
    KVRT_TRY(file->check_named());  // its last writer may have removed it before it let the lock go
    KVRT_TRY(file->resize(bytes));
    return std::unique_ptr<File>(std::move(file));
  }

  Result<std::unique_ptr<MappedFile>> map_file(const FilePart& part, const std::string& what) override {
    return map_posix_file(part, what);
  }

  Status check_file(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    return check_own_file(place, path);
  }

  Result<FileInfo> file_info(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    KVRT_TRY(check_own_file(place, path));
    struct stat st;
    if (::fstatat(place.dir.get(), place.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s: stat", path.c_str());
    return FileInfo{static_cast<uint64_t>(st.st_size), static_cast<int64_t>(st.st_mtim.tv_sec) * 1000 + st.st_mtim.tv_nsec / 1'000'000};
  }

  Status set_modified(const std::string& path, int64_t unix_ms) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    const timespec times[2] = {{0, UTIME_OMIT}, {unix_ms / 1000, unix_ms % 1000 * 1'000'000}};
    if (::utimensat(place.dir.get(), place.name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0) return {};
    return errno_error(errno, "%s: setting its time", path.c_str());
  }

  Status make_dir(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    const char* name = place.name.c_str();
    const bool made = ::mkdirat(place.dir.get(), name, 0700) == 0;
    if (!made && errno != EEXIST) return creation_error(path, "mkdir");
    struct stat st;
    if (::fstatat(place.dir.get(), name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s: stat", path.c_str());
    KVRT_TRY(check_own(st, S_IFDIR, path));
    if (made && (st.st_mode & 0777) != 0700 && ::fchmodat(place.dir.get(), name, 0700, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_error(errno, "%s: chmod 0700", path.c_str());
    }
    return {};
  }

  Status rename_new(const std::string& from, const std::string& to) override {
    KVRT_ASSIGN(const PathPlace old, find_place(from));
    KVRT_ASSIGN(const PathPlace now, find_place(to));
    const char *old_name = old.name.c_str(), *new_name = now.name.c_str();
    if (::renameat2(old.dir.get(), old_name, now.dir.get(), new_name, RENAME_NOREPLACE) == 0) return {};
    // A file system without RENAME_NOREPLACE. Names are random, or made under the store's lock: nobody else makes this one meanwhile.
    if (errno == EINVAL || errno == ENOSYS) {
      struct stat st;
      errno = EEXIST;
      if (::fstatat(now.dir.get(), new_name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT &&
          ::renameat(old.dir.get(), old_name, now.dir.get(), new_name) == 0) {
        return {};
      }
    }
    return errno_error(errno, "%s: rename to %s", from.c_str(), to.c_str());
  }

  Status remove_file(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    if (::unlinkat(place.dir.get(), place.name.c_str(), 0) != 0) return errno_error(errno, "%s: unlink", path.c_str());
    return {};
  }

  Status remove_dir(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    if (::unlinkat(place.dir.get(), place.name.c_str(), AT_REMOVEDIR) != 0) return errno_error(errno, "%s: rmdir", path.c_str());
    return {};
  }

  Status punch(const std::string& path, std::span<const FileRange> ranges) override {
    KVRT_ASSIGN(const Fd fd, open_write(path));
    for (const FileRange& r : ranges) {
      constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
      const int failed =
          retry_eintr([&] { return ::fallocate(fd.get(), kMode, static_cast<off_t>(r.offset), static_cast<off_t>(r.bytes)); });
      if (failed == 0) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS) return error(Code::kUnsupported, Detail::kNone, "%s: cannot have holes", path.c_str());
      return errno_error(errno, "%s: punching a hole", path.c_str());
    }
    if (retry_eintr([&] { return ::fdatasync(fd.get()); }) != 0) return errno_error(errno, "%s: fdatasync", path.c_str());
    return {};
  }

  Status patch(const std::string& path, uint64_t offset, std::span<const uint8_t> bytes) override {
    KVRT_ASSIGN(const Fd fd, open_write(path));
    const NoFileSizeSignal no_signal;
    while (!bytes.empty()) {
      const ssize_t n = retry_eintr([&] { return ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
      if (n <= 0) return errno_error(n < 0 ? errno : EIO, "%s: write at %llu", path.c_str(), static_cast<unsigned long long>(offset));
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    if (retry_eintr([&] { return ::fdatasync(fd.get()); }) != 0) return errno_error(errno, "%s: fdatasync", path.c_str());
    return {};
  }

  Status sync_dir(const std::string& path) override {
    KVRT_ASSIGN(const Fd fd, open_own_dir(path));
    if (retry_eintr([&] { return ::fsync(fd.get()); }) != 0) return errno_error(errno, "%s: fsync", path.c_str());
    return {};
  }

  Result<std::vector<std::string>> list_dir(const std::string& path) override {
    KVRT_ASSIGN(Fd fd, open_own_dir(path));
    const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(fd.get()));
    if (dir == nullptr) return errno_error(errno, "%s: list", path.c_str());
    fd.release();  // it is dir's now
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
      errno = 0;
    }
    if (errno != 0) return errno_error(errno, "%s: list", path.c_str());
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<bool> exists(const std::string& path) override {
    auto place = find_place(path);
    if (!place.is_ok()) {
      const int err = place.status().os_code();
      return err == ENOENT || err == ENOTDIR ? Result<bool>(false) : Result<bool>(place.take_status());
    }
    struct stat st;
    if (::fstatat(place->dir.get(), place->name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (errno == ENOENT) return false;
    return errno_error(errno, "%s: stat", path.c_str());
  }

  Result<DirInfo> dir_info(const std::string& path) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    const char* name = place.name.c_str();
    struct stat st;
    if (::fstatat(place.dir.get(), name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s: stat", path.c_str());
    if (!S_ISDIR(st.st_mode)) return errno_error(ENOTDIR, "%s", path.c_str());
    DirInfo info;
    info.owned = st.st_uid == ::geteuid();
    info.others_can_write = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    KVRT_ASSIGN(info.writable, is_writable_dir(place, st, path));
    return info;
  }

  Result<std::unique_ptr<FileLock>> open_lock(const std::string& path, bool create) override {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    Status there = check_own_file(place, path);
    if (!there.is_ok() && (there.code() != Code::kNotFound || !create)) return there;
    constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const char* name = place.name.c_str();
    Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), name, O_RDWR | (create ? O_CREAT : 0) | kFlags, 0600); }));
    const bool writable = fd.ok();
    if (!fd.ok() && (errno == EROFS || errno == EACCES)) {  // flock asks for no right to write
      fd = Fd(retry_eintr([&] { return ::openat(place.dir.get(), name, O_RDONLY | kFlags); }));
    }
    if (!fd.ok()) return creation_error(path, "open");
    struct stat st;
    KVRT_TRY(check_opened(fd.get(), path, &st));
    if (open_at_fork(st)) {
      return error(Code::kUnsupported, Detail::kForked,
                   "%s: open at the fork(2) of this process, which shares what SQLite knows of its locks: open it in a process of its own",
                   path.c_str());
    }
    if (writable && create && ::fchmod(fd.get(), 0600) != 0) return errno_error(errno, "%s: chmod 0600", path.c_str());
    return std::unique_ptr<FileLock>(new PosixLock(std::move(fd), path));
  }

  Result<FsInfo> fs_info(const std::string& path) override { return read_fs_info(path); }

  uint64_t now_ns() override { return clock_ns(CLOCK_MONOTONIC); }
  uint64_t cpu_ns() override { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

  int64_t unix_ms() override {
    timespec t;
    ::clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
  }

  void random(std::span<uint8_t> out) override {
    size_t done = 0;
    while (done < out.size()) {
      ssize_t n = retry_eintr([&] { return ::getrandom(out.data() + done, out.size() - done, 0); });
      if (n <= 0) return mix(out);
      done += static_cast<size_t>(n);
    }
  }

 private:
  struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };

  static uint64_t clock_ns(clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  }

  // Bytes for a sandbox that forbids getrandom: unique, as names must be; kvrt makes no secret keys.
  void mix(std::span<uint8_t> out) {
    static std::atomic<uint64_t> counter{0};
    for (size_t at = 0; at < out.size(); at += 32) {
      Hasher hasher;
      hasher.add_u64(counter++).add_u64(now_ns()).add_u64(static_cast<uint64_t>(unix_ms())).add_u64(static_cast<uint64_t>(::getpid()));
      Hash256 bytes = hasher.add_u64(reinterpret_cast<uintptr_t>(&counter)).finish();
      std::copy_n(bytes.bytes.begin(), std::min<size_t>(32, out.size() - at), out.begin() + static_cast<ptrdiff_t>(at));
    }
  }

  // A file of our own, for writing.
  static Result<Fd> open_write(const std::string& path) {
    KVRT_ASSIGN(const PathPlace place, find_place(path));
    KVRT_TRY(check_own_file(place, path));
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), kFlags); }));
    if (!fd.ok()) return errno_error(errno, "%s: open", path.c_str());
    struct stat st;
    KVRT_TRY(check_opened(fd.get(), path, &st));
    return fd;
  }

  static Status check_opened(int fd, const std::string& path, struct stat* st) {
    if (::fstat(fd, st) != 0) return errno_error(errno, "%s: stat", path.c_str());
    return check_own(*st, S_IFREG, path);
  }
};

}  // namespace

Env* posix_env() {
  static PosixEnv env;
  return &env;
}

}  // namespace kvrt
