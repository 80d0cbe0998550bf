// Env's files and locks, as Linux has them. For posix_env.cc.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/base/books_only.h"
#include "runtime/base/env.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/posix/fd.h"
#include "runtime/base/this_thread.h"

namespace kvrt {

class PosixFile final : public File {
 public:
  PosixFile(Fd fd, std::string path, bool locked = false) : fd_(std::move(fd)), locked_(locked), path_(std::move(path)) {}
  ~PosixFile() override {
    if (locked_) (void)::flock(fd_.get(), LOCK_UN);  // a child of fork(2) may have it open still
    if (!cached_.empty()) ::munmap(cached_.data(), cached_.size());
    if (!mapped_.empty()) ::munmap(const_cast<uint8_t*>(mapped_.data()), mapped_.size());
  }

  Status pread(uint64_t offset, std::span<uint8_t> out) const override {
    KVRT_CHECK_NO_BOOKS();
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
    KVRT_CHECK_NO_BOOKS();
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

  Status resize(uint64_t bytes) override {
    const NoFileSizeSignal no_signal;
    const auto end = static_cast<off_t>(bytes);
    const bool done = retry_eintr([&] { return ::ftruncate(fd_.get(), end); }) == 0 && ::lseek(fd_.get(), end, SEEK_SET) == end;
    return done ? Status() : errno_error(errno, "%s: making it %llu bytes long", path_.c_str(), ull(bytes));
  }

  // NOT_FOUND if the file has no name any more.
  Status check_named() const {
    struct stat st;
    if (::fstat(fd_.get(), &st) != 0) return errno_error(errno, "%s: stat", path_.c_str());
    return st.st_nlink > 0 ? Status() : errno_error(ENOENT, "%s: open", path_.c_str());
  }

  Status sync() override {
    KVRT_CHECK_NO_BOOKS();
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

  // Reads at least `bytes` from a page's begin on, past the page cache. False: the cache has them all, or a direct read cannot have them.
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

  // Opens the same file once more, and maps it. Nobody touches the mapping: mincore is asked which of its pages are cached.
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

inline Status flock_now(int fd, const std::string& path, LockMode mode) {
  if (retry_eintr([&] { return ::flock(fd, (mode == LockMode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB); }) == 0) return {};
  if (errno != EWOULDBLOCK) return errno_error(errno, "%s: flock", path.c_str());
  return error(Code::kBusy, Detail::kStoreLocked, "%s: held by another process or handle", path.c_str());
}

// flock belongs to the open file: two handles of one process exclude each other. Closing the last descriptor frees it, and a child of
// fork(2) may have one; LOCK_UN frees it for all.
class PosixLock final : public FileLock {
 public:
  PosixLock(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~PosixLock() override { release(); }
  Status acquire(LockMode mode) override { return flock_now(fd_.get(), path_, mode); }
  void release() override {
    (void)retry_eintr([&] { return ::flock(fd_.get(), LOCK_UN); });
  }

  // Record locks, shared: flock does not know them. Those of the open file (F_OFD_SETLK) would outlive the process in a child of fork(2).
  void mark(uint64_t byte) override { set(F_RDLCK, byte); }
  void unmark(uint64_t byte) override { set(F_UNLCK, byte); }
  uint64_t marks_taken() const override { return closed_.load(); }
  int32_t marked_by(uint64_t byte) override {
    KVRT_CHECK_NO_BOOKS();
    struct flock lock = record(F_WRLCK, byte);  // what any mark would be in the way of; it needs no right to write
    if (::fcntl(fd_.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
    if (lock.l_pid == ::getpid()) return 0;  // of a thread that has a table of descriptors of its own
    return lock.l_pid > 0 ? lock.l_pid : kUnseenProcess;
  }

 private:
  static struct flock record(int type, uint64_t byte) {
    struct flock lock {};
    lock.l_type = static_cast<short>(type);
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(byte);
    lock.l_len = 1;
    return lock;
  }
  void set(int type, uint64_t byte) {
    KVRT_CHECK_NO_BOOKS();
    struct flock lock = record(type, byte);
    (void)::fcntl(fd_.get(), F_SETLK, &lock);
  }

  struct CountsItsEnd {
    ~CountsItsEnd() { ++closed_; }
  };
  static inline std::atomic<uint64_t> closed_{0};
  CountsItsEnd closes_;  // before fd_: it ends after the descriptor is closed
  Fd fd_;
  std::string path_;
};

}  // namespace kvrt
