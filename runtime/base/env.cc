#include "runtime/base/env.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>

#include "runtime/base/file_size_signal.h"
#include "runtime/base/fs_info.h"
#include "runtime/base/hash.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/paths.h"

namespace kvrt {

namespace {

class PosixFile final : public File {
 public:
  PosixFile(Fd fd, std::string path, bool locked = false) : fd_(std::move(fd)), locked_(locked), path_(std::move(path)) {}
  ~PosixFile() override {
    if (locked_) (void)::flock(fd_.get(), LOCK_UN);  // a child of fork(2) may have it open still
    if (!cached_.empty()) ::munmap(cached_.data(), cached_.size());
    if (!mapped_.empty()) ::munmap(const_cast<uint8_t*>(mapped_.data()), mapped_.size());
  }

  Status pread(uint64_t offset, std::span<uint8_t> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      ssize_t n = retry_eintr([&] { return ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done)); });
      if (n < 0) return errno_error(errno, "%s: reading %zu bytes at %llu", path_.c_str(), out.size(), ull(offset));
      if (n == 0) {
        return error(Code::kCorrupt, Detail::kFormat, "%s: %zu bytes wanted at %llu, the file ends after %zu of them", path_.c_str(),
                     out.size(), ull(offset), done);
      }
      done += static_cast<size_t>(n);
    }
    return {};
  }

  Result<std::span<const uint8_t>> read(uint64_t offset, size_t bytes, ReadBuffer* buffer) const override {
    const uint64_t begin = offset & ~(kSmallPage - 1), skip = offset - begin;
    uint8_t* to = buffer->reserve((skip + bytes + kSmallPage - 1) & ~(kSmallPage - 1));
    if (bytes < kDirectMin || !read_direct(begin, skip + bytes, to)) KVRT_TRY(pread(offset, {to + skip, bytes}));
    return std::span<const uint8_t>(to + skip, bytes);
  }

  Status append(std::span<const uint8_t> bytes) override {
    const NoFileSizeSignal no_signal;
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t n = retry_eintr([&] { return ::write(fd_.get(), bytes.data() + done, bytes.size() - done); });
      if (n < 0) return errno_error(errno, "%s: writing %zu bytes", path_.c_str(), bytes.size());
      if (n == 0) return errno_error(EIO, "%s: writing %zu bytes: none accepted", path_.c_str(), bytes.size());
      done += static_cast<size_t>(n);
    }
    return {};
  }

  Status sync() override {
    if (retry_eintr([&] { return ::fdatasync(fd_.get()); }) != 0) return errno_error(errno, "%s: fdatasync", path_.c_str());
    return {};
  }

  Result<uint64_t> size() const override {
    struct stat st;
    if (::fstat(fd_.get(), &st) != 0) return errno_error(errno, "%s: stat", path_.c_str());
    return static_cast<uint64_t>(st.st_size);
  }

  Result<bool> is_zero(uint64_t offset, uint64_t bytes) const override {
    std::vector<uint8_t> part;
    for (uint64_t at = offset, end = offset + bytes; at < end;) {
      const off_t data = ::lseek(fd_.get(), static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;  // a hole to the end
      if (data >= 0) at = std::max(at, static_cast<uint64_t>(data));
      if (at >= end) break;
      part.resize(static_cast<size_t>(std::min<uint64_t>(end - at, 64u << 10)));
      KVRT_TRY(pread(at, part));
      if (std::any_of(part.begin(), part.end(), [](uint8_t byte) { return byte != 0; })) return false;
      at += part.size();
    }
    return true;
  }

  Result<std::span<const uint8_t>> map() override {
    KVRT_ASSIGN(const uint64_t bytes, size());
    if (bytes == 0) return mapped_;
    (void)::flock(fd_.get(), LOCK_SH | LOCK_NB);
    void* base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (base == MAP_FAILED) return errno_error(errno, "%s: mapping %llu bytes", path_.c_str(), ull(bytes));
    return mapped_ = {static_cast<const uint8_t*>(base), bytes};
  }

 private:
  static unsigned long long ull(uint64_t v) { return v; }

  // At least `bytes` from a page's begin on, past the page cache. False: there it is better, or it can only be read there.
  bool read_direct(uint64_t offset, size_t bytes, uint8_t* to) const {
    std::call_once(direct_once_, [&] { open_direct(); });
    if (!direct_.ok() || offset + bytes > cached_.size()) return false;
    const size_t whole = (bytes + kSmallPage - 1) & ~(kSmallPage - 1);
    std::vector<unsigned char> pages(whole / kSmallPage);
    if (::mincore(cached_.data() + offset, bytes, pages.data()) != 0) return false;
    if (std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; })) return false;
    size_t done = 0;
    while (done < bytes) {  // the file's last page is a short one
      ssize_t n = retry_eintr([&] { return ::pread(direct_.get(), to + done, whole - done, static_cast<off_t>(offset + done)); });
      if (n <= 0 || (static_cast<size_t>(n) % kSmallPage != 0 && done + static_cast<size_t>(n) < bytes)) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

  // The same file once more, and a mapping that is never touched: it is there to be asked for what is cached.
  void open_direct() const {
    const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
    auto size = this->size();
    if (!size.is_ok() || *size == 0) return;
    void* base = ::mmap(nullptr, *size, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (base == MAP_FAILED) return;
    cached_ = {static_cast<uint8_t*>(base), *size};
    direct_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  }

  static constexpr size_t kDirectMin = 128u << 10;  // less costs the device about the same alone as with its neighbours
  Fd fd_;
  bool locked_;
  std::string path_;
  mutable std::once_flag direct_once_;
  mutable Fd direct_{-1};
  mutable std::span<uint8_t> cached_;
  std::span<const uint8_t> mapped_;
};

Status flock_now(int fd, const std::string& path, LockMode mode) {
  if (retry_eintr([&] { return ::flock(fd, (mode == LockMode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB); }) == 0) return {};
  if (errno != EWOULDBLOCK) return errno_error(errno, "%s: flock", path.c_str());
  return error(Code::kBusy, Detail::kStoreLocked, "%s: held by another process or handle", path.c_str());
}

// flock belongs to the open file: two handles of one process exclude each other. Closing its last descriptor frees it, of which a child of
// fork(2) may have one; LOCK_UN frees it for all.
class PosixLock final : public FileLock {
 public:
  PosixLock(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~PosixLock() override { release(); }
  Status acquire(LockMode mode) override { return flock_now(fd_.get(), path_, mode); }
  void release() override {
    (void)retry_eintr([&] { return ::flock(fd_.get(), LOCK_UN); });
  }

 private:
  Fd fd_;
  std::string path_;
};

class PosixEnv final : public Env {
 public:
  Result<std::unique_ptr<File>> open_read(const std::string& path) override {
    KVRT_ASSIGN(const Place place, find_place(path));
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
    KVRT_ASSIGN(const Place place, find_place(path));
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    for (;;) {
      Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), kFlags, 0600); }));
      if (!fd.ok()) return errno_error(errno, "%s: create", path.c_str());
      if (::fchmod(fd.get(), 0600) != 0) return errno_error(errno, "%s: chmod 0600", path.c_str());
      // Before it has its lock a collector of garbage may have it, and then the file goes.
      Status locked = flock_now(fd.get(), path, LockMode::kExclusive);
      if (locked.code() == Code::kBusy) return error(Code::kBusy, Detail::kConcurrent, "%s: removed while it was made", path.c_str());
      KVRT_TRY(std::move(locked));
      struct stat st;
      if (::fstat(fd.get(), &st) != 0) return errno_error(errno, "%s: stat", path.c_str());
      if (st.st_nlink > 0) return std::unique_ptr<File>(new PosixFile(std::move(fd), path, true));
    }
  }

  Status check_file(const std::string& path) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    return check_own_file(place, path);
  }

  Result<FileInfo> file_info(const std::string& path) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    KVRT_TRY(check_own_file(place, path));
    struct stat st;
    if (::fstatat(place.dir.get(), place.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s: stat", path.c_str());
    return FileInfo{static_cast<uint64_t>(st.st_size), static_cast<int64_t>(st.st_mtim.tv_sec) * 1000 + st.st_mtim.tv_nsec / 1'000'000};
  }

  Status set_modified(const std::string& path, int64_t unix_ms) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    const timespec times[2] = {{0, UTIME_OMIT}, {unix_ms / 1000, unix_ms % 1000 * 1'000'000}};
    if (::utimensat(place.dir.get(), place.name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0) return {};
    return errno_error(errno, "%s: setting its time", path.c_str());
  }

  Status make_dir(const std::string& path) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    const char* name = place.name.c_str();
    const bool made = ::mkdirat(place.dir.get(), name, 0700) == 0;
    if (!made && errno != EEXIST) return errno_error(errno, "%s: mkdir", path.c_str());
    struct stat st;
    if (::fstatat(place.dir.get(), name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s: stat", path.c_str());
    KVRT_TRY(check_own(st, S_IFDIR, path));
    if (made && (st.st_mode & 0777) != 0700 && ::fchmodat(place.dir.get(), name, 0700, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_error(errno, "%s: chmod 0700", path.c_str());
    }
    return {};
  }

  Status rename_new(const std::string& from, const std::string& to) override {
    KVRT_ASSIGN(const Place old, find_place(from));
    KVRT_ASSIGN(const Place now, find_place(to));
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
    KVRT_ASSIGN(const Place place, find_place(path));
    if (::unlinkat(place.dir.get(), place.name.c_str(), 0) != 0) return errno_error(errno, "%s: unlink", path.c_str());
    return {};
  }

  Status remove_dir(const std::string& path) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    if (::unlinkat(place.dir.get(), place.name.c_str(), AT_REMOVEDIR) != 0) return errno_error(errno, "%s: rmdir", path.c_str());
    return {};
  }

  Status punch(const std::string& path, std::span<const FileRange> ranges) override {
    KVRT_ASSIGN(const Place place, find_place(path));
    KVRT_TRY(check_own_file(place, path));
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), kFlags); }));
    if (!fd.ok()) return errno_error(errno, "%s: open", path.c_str());
    struct stat st;
    KVRT_TRY(check_opened(fd.get(), path, &st));
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

  Status sync_dir(const std::string& path) override {
    KVRT_ASSIGN(const Fd fd, open_own_dir(path));
    if (retry_eintr([&] { return ::fsync(fd.get()); }) != 0) return errno_error(errno, "%s: fsync", path.c_str());
    return {};
  }

  Result<std::vector<std::string>> list_dir(const std::string& path) override {
    KVRT_ASSIGN(Fd fd, open_own_dir(path));
    DIR* dir = ::fdopendir(fd.get());
    if (dir == nullptr) return errno_error(errno, "%s: list", path.c_str());
    fd.release();  // it is dir's now
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
      errno = 0;
    }
    int err = errno;
    ::closedir(dir);
    if (err != 0) return errno_error(err, "%s: list", path.c_str());
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
    KVRT_ASSIGN(const Place place, find_place(path));
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
    KVRT_ASSIGN(const Place place, find_place(path));
    Status there = check_own_file(place, path);
    if (!there.is_ok() && (there.code() != Code::kNotFound || !create)) return there;
    constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const char* name = place.name.c_str();
    Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), name, O_RDWR | (create ? O_CREAT : 0) | kFlags, 0600); }));
    const bool writable = fd.ok();
    if (!fd.ok() && (errno == EROFS || errno == EACCES)) {  // flock asks for no right to write
      fd = Fd(retry_eintr([&] { return ::openat(place.dir.get(), name, O_RDONLY | kFlags); }));
    }
    if (!fd.ok()) return errno_error(errno, "%s: open", path.c_str());
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
  static uint64_t clock_ns(clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  }

  // Where a sandbox forbids getrandom. Unique, which is what names need; kvrt makes no secret keys.
  void mix(std::span<uint8_t> out) {
    static std::atomic<uint64_t> counter{0};
    for (size_t at = 0; at < out.size(); at += 32) {
      Hasher hasher;
      hasher.add_u64(counter++).add_u64(now_ns()).add_u64(static_cast<uint64_t>(unix_ms())).add_u64(static_cast<uint64_t>(::getpid()));
      Hash256 bytes = hasher.add_u64(reinterpret_cast<uintptr_t>(&counter)).finish();
      std::copy_n(bytes.bytes.begin(), std::min<size_t>(32, out.size() - at), out.begin() + static_cast<ptrdiff_t>(at));
    }
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
