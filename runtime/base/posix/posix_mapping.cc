#include "runtime/base/posix/posix_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/posix/fd.h"

namespace kvrt {

namespace {

class PosixMapping final : public MappedFile {
 public:
  // A mapping of `size` bytes, the first `skip` of which are not the part's. No bytes: `base` is null.
  PosixMapping(void* base, size_t size, size_t skip, const FileIdentity& identity) : base_(base), size_(size), identity_(identity) {
    if (base != nullptr) bytes_ = {static_cast<const uint8_t*>(base) + skip, size - skip};
  }
  PosixMapping(const PosixMapping&) = delete;
  PosixMapping& operator=(const PosixMapping&) = delete;
  ~PosixMapping() override {
    if (base_ != nullptr) ::munmap(base_, size_);
  }

  std::span<const uint8_t> bytes() const override { return bytes_; }
  const FileIdentity& identity() const override { return identity_; }

  // Only whole pages inside `range`: the neighbours' bytes on its edge pages may still be wanted.
  void drop(std::span<const uint8_t> range) const override {
    if (range.empty()) return;
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t from = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
    const uintptr_t to = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
    if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);  // advice: a refusal costs memory, no more
  }

 private:
  void* const base_;
  const size_t size_;  // the mapping's
  const FileIdentity identity_;
  std::span<const uint8_t> bytes_;
};

int64_t nanoseconds(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

}  // namespace

Result<std::unique_ptr<MappedFile>> map_posix_file(const FilePart& part, const std::string& what) {
  using ull = unsigned long long;
  const char* name = part.name.c_str();
  // Non-blocking: a FIFO must not hang the caller.
  const Fd own(part.fd < 0 ? retry_eintr([&] { return ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }) : -1);
  if (part.fd < 0 && !own.ok()) return errno_error(errno, "%s: cannot open %s", name, what.c_str());
  const int fd = part.fd < 0 ? own.get() : part.fd;
  struct stat info;
  if (::fstat(fd, &info) != 0) return errno_error(errno, "%s: cannot stat", name);
  if (!S_ISREG(info.st_mode)) {
    const char* found = S_ISDIR(info.st_mode) ? ", found a directory" : "";
    return error(Code::kInvalid, Detail::kNone, "%s: expected a regular file%s", name, found);
  }
  const auto file_size = static_cast<uint64_t>(info.st_size);
  if (part.offset > file_size || part.size > file_size - part.offset) {
    return error(Code::kInvalid, Detail::kNone, "%s: expected offset %llu and size %llu within its %llu bytes", name, ull{part.offset},
                 ull{part.size}, ull{file_size});
  }
  const uint64_t size = part.size ? part.size : file_size - part.offset;
  FileIdentity identity{info.st_dev, info.st_ino, size, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
  if (size != file_size) identity.inode = 0;
  if (size == 0) return std::unique_ptr<MappedFile>(new PosixMapping(nullptr, 0, 0, identity));
  const uint64_t skip = part.offset % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));  // a mapping begins at a page
  void* base = ::mmap(nullptr, size + skip, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(part.offset - skip));
  if (base == MAP_FAILED) return errno_error(errno, "%s: cannot map %llu bytes", name, ull{size});
  return std::unique_ptr<MappedFile>(new PosixMapping(base, size + skip, skip, identity));
}

}  // namespace kvrt
