// Env: files, locks, clock and random numbers behind one interface, so that tests swap the operating system whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/read_buffer.h"
#include "runtime/base/status.h"

namespace kvrt {

// An open file. pread and append may be called from one thread at a time, pread from many. Closed by the destructor.
class File {
 public:
  virtual ~File() = default;
  // Exactly out.size() bytes from `offset`, or CORRUPT when the file ends before (message names file, offset and size).
  virtual Status pread(uint64_t offset, std::span<uint8_t> out) const = 0;
  // The same for a large range of a file that does not change any more. Bytes that the page cache lacks go past it, straight to `buffer`:
  // sooner, with less work, and without pushing others' pages out. Valid until the buffer's next use.
  virtual Result<std::span<const uint8_t>> read(uint64_t offset, size_t bytes, ReadBuffer* buffer) const = 0;
  virtual Status append(std::span<const uint8_t> bytes) = 0;
  // Makes the file exactly so long, with zeros behind its end if it was shorter. The next append goes there.
  virtual Status resize(uint64_t bytes) = 0;
  virtual Status sync() = 0;  // fdatasync
  virtual Result<uint64_t> size() const = 0;
  // True where each of these bytes is zero. Holes are not read.
  virtual Result<bool> is_zero(uint64_t offset, uint64_t bytes) const = 0;
  // The whole file, read-only, in pages that all processes share, until the destructor. Once at most; the file must not shrink meanwhile.
  // Where nobody writes the file, its shared lock is held until then: a process that gets the exclusive one knows that nobody maps it.
  virtual Result<std::span<const uint8_t>> map() = 0;
};

struct FileRange {
  uint64_t offset = 0, bytes = 0;
};

enum class LockMode { kShared, kExclusive };

// A lock between processes, and between handles of one; freed by the destructor, and by the kernel when the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // Does not wait: BUSY (kStoreLocked) when another holder is in the way. A call on a held lock changes its mode; where that fails, the
  // lock is not held any more.
  virtual Status acquire(LockMode mode) = 0;
  virtual void release() = 0;
  // Marks: bytes of the file that this process tells others of. They refuse nobody anything, and any number of processes may have the same.
  // The kernel takes them away when the process dies; a child of fork(2) has none. They are the process's, not the handle's: when any
  // handle of the file is closed here, all of this process's go, which marks_taken() counts. Nothing happens where the file system has no
  // such locks.
  virtual void mark(uint64_t byte) = 0;
  virtual void unmark(uint64_t byte) = 0;
  virtual uint64_t marks_taken() const = 0;  // if it grows, marks of this file may be gone
  // Another process that has the mark: its id, or kUnseenProcess; 0: none, or nobody can tell.
  virtual int32_t marked_by(uint64_t byte) = 0;
};
inline constexpr int32_t kUnseenProcess = -1;  // one of another container, say

struct FsInfo {
  std::string type;         // "ext4", "tmpfs", "nfs", ... or "0x..." of statfs
  bool is_network = false;  // nfs, cifs, smb2, 9p, fuse
  uint64_t free_bytes = 0, total_bytes = 0;
};

struct DirInfo {
  bool owned = false;             // the effective user owns it
  bool others_can_write = false;  // group or world
  bool writable = false;          // this process can write it, and so the file system can
};

struct FileInfo {
  uint64_t bytes = 0;
  int64_t modified_unix_ms = 0;
};

// The place of bytes that the host answers for, as a model's: a path, or a part of a file that it has open.
struct FilePart {
  FilePart(std::string path) : name(std::move(path)) {}  // NOLINT: a path is a place
  std::string name;                                      // the path; with an fd: for messages only
  int fd = -1;                                           // borrowed; -1: open `name`
  uint64_t offset = 0, size = 0;                         // the part of an fd; size 0: to its end
};

struct FileIdentity {
  uint64_t device = 0, inode = 0, size = 0;  // inode 0: not one whole file
  int64_t mtime_ns = 0, ctime_ns = 0;
};

// A part of a file, mapped read-only. Unmapped by the destructor.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const uint8_t> bytes() const = 0;
  virtual const FileIdentity& identity() const = 0;
  virtual void drop(std::span<const uint8_t> range) const = 0;  // the range's pages may go back
};

// Thread-safe. No path, but for map_file's, may have a symbolic link in it (canonical_path of paths.h): it is refused (INVALID,
// kUnsafeDirectory), and so is a file or directory that is not the effective user's alone.
class Env {
 public:
  virtual ~Env() = default;
  virtual Result<std::unique_ptr<File>> open_read(const std::string& path) = 0;  // a regular file with one name
  // O_EXCL, 0600 whatever the umask. While the File is open it holds that file's exclusive lock: a process that gets the lock knows that
  // nobody writes the file any more.
  virtual Result<std::unique_ptr<File>> create_new(const std::string& path) = 0;
  // A file that is there, to go on with it, under the same lock. BUSY (kStoreLocked) while another holds that.
  virtual Result<std::unique_ptr<File>> open_append(const std::string& path) = 0;
  virtual Status make_dir(const std::string& path) = 0;                           // 0700; OK if it is there already
  virtual Status rename_new(const std::string& from, const std::string& to) = 0;  // fails if `to` exists
  virtual Status remove_file(const std::string& path) = 0;                        // NOT_FOUND when absent
  virtual Status remove_dir(const std::string& path) = 0;                         // an empty one; NOT_FOUND when absent
  // Makes these bytes zeros and gives their blocks back to the file system, on the disk when it returns. UNSUPPORTED where that cannot be.
  virtual Status punch(const std::string& path, std::span<const FileRange> ranges) = 0;
  // Overwrites the bytes at `offset`, which the file must have already, on the disk when it returns.
  virtual Status patch(const std::string& path, uint64_t offset, std::span<const uint8_t> bytes) = 0;
  virtual Status sync_dir(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list_dir(const std::string& path) = 0;  // names, sorted, no dot entries
  virtual Result<bool> exists(const std::string& path) = 0;
  // Refuses the files that open_read refuses, and opens none: a file that SQLite has open keeps its locks.
  virtual Status check_file(const std::string& path) = 0;
  virtual Result<FileInfo> file_info(const std::string& path) = 0;  // of a file that check_file takes
  virtual Status set_modified(const std::string& path, int64_t unix_ms) = 0;
  virtual Result<DirInfo> dir_info(const std::string& path) = 0;  // NOT_FOUND, or IO if no directory
  // A lock file, not locked yet. `create`: 0600 where it is missing; else NOT_FOUND.
  virtual Result<std::unique_ptr<FileLock>> open_lock(const std::string& path, bool create) = 0;
  // Of anybody's, by any path. `what` it is to be, for a message: "the model".
  virtual Result<std::unique_ptr<MappedFile>> map_file(const FilePart& part, const std::string& what) = 0;
  virtual Result<FsInfo> fs_info(const std::string& path) = 0;
  virtual uint64_t now_ns() = 0;  // monotonic
  virtual uint64_t cpu_ns() = 0;  // CPU time of the calling thread
  virtual int64_t unix_ms() = 0;  // wall clock
  virtual void random(std::span<uint8_t> out) = 0;
};

Env* posix_env();  // the process's one stateless instance

}  // namespace kvrt
