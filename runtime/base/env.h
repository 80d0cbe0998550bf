// Env: files, locks, clock and random numbers behind one interface, so that tests swap the operating system whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

// An open file. pread and append may be called from one thread at a time, pread from many. Closed by the destructor.
class File {
 public:
  virtual ~File() = default;
  // Exactly out.size() bytes from `offset`, or CORRUPT when the file ends before (message names file, offset and size).
  virtual Status pread(uint64_t offset, std::span<uint8_t> out) const = 0;
  virtual Status append(std::span<const uint8_t> bytes) = 0;
  virtual Status sync() = 0;  // fdatasync
  virtual Result<uint64_t> size() const = 0;
  // All of it, read-only, in pages that every process shares, until the destructor. Once at most; the file must not shrink meanwhile.
  virtual Result<std::span<const uint8_t>> map() = 0;
};

// A lock held until destruction, and freed by the kernel when the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct FsInfo {
  std::string type;         // "ext4", "tmpfs", "nfs", ... or "0x..." of statfs
  bool is_network = false;  // nfs, cifs, smb2, 9p, fuse
  uint64_t free_bytes = 0, total_bytes = 0;
};

struct DirInfo {
  bool owned = false;             // by the effective user
  bool others_can_write = false;  // group or world
  bool writable = false;          // by this process, file system included
};

// Thread-safe. Paths are absolute or relative to the working directory.
class Env {
 public:
  virtual ~Env() = default;
  virtual Result<std::unique_ptr<File>> open_read(const std::string& path) = 0;   // O_NOFOLLOW, regular files only
  virtual Result<std::unique_ptr<File>> create_new(const std::string& path) = 0;  // O_EXCL, 0600 whatever the umask
  virtual Status make_dir(const std::string& path) = 0;                           // 0700; OK if it is a directory already
  virtual Status rename_new(const std::string& from, const std::string& to) = 0;  // fails if `to` exists
  virtual Status remove_file(const std::string& path) = 0;                        // NOT_FOUND when absent
  virtual Status sync_dir(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list_dir(const std::string& path) = 0;  // names, sorted, no dot entries
  virtual Result<bool> exists(const std::string& path) = 0;
  virtual Result<DirInfo> dir_info(const std::string& path) = 0;  // NOT_FOUND, or IO if no directory
  // BUSY (kStoreLocked) when another holder has it. Creates the file 0600.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  virtual Result<FsInfo> fs_info(const std::string& path) = 0;
  virtual uint64_t now_ns() = 0;  // monotonic
  virtual int64_t unix_ms() = 0;  // wall clock
  virtual void random(std::span<uint8_t> out) = 0;
};

Env* posix_env();  // the process's one stateless instance

}  // namespace kvrt
