#include "runtime/base/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "runtime/base/memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL
#endif

namespace kvrt {
namespace {

Status populate_pages(uint8_t* data, uint64_t bytes) {
  while (madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == ENOMEM || errno == EFAULT) {
      return error(Code::kNoMemory, Detail::kNone, "%s of memory: the system has no more to give", in_gib(bytes).c_str());
    }
    for (uint64_t at = 0; at < bytes; at += kSmallPage) {  // unknown to this kernel: touch, changing nothing
      volatile uint8_t* byte = data + at;
      *byte = *byte;
    }
    break;
  }
  return {};
}

}  // namespace

Result<HostMemory> HostMemory::map(uint64_t bytes, bool populate) {
  const uint64_t align = bytes >= kHugePage ? kHugePage : kSmallPage;
  HostMemory memory;
  if (bytes == 0) return memory;
  if (bytes > UINT64_MAX / 2) return error(Code::kNoMemory, Detail::kNone, "%s of memory: no machine has so much", in_gib(bytes).c_str());
  const uint64_t rounded = (bytes + align - 1) & ~(align - 1);
  const uint64_t total = rounded + (align > kSmallPage ? align : 0);
  // Huge pages need an aligned start; the slack before and after is never touched and costs address space alone.
  void* mapping = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return error(Code::kNoMemory, Detail::kNone, "%s of memory: the system gives no more address space (ulimit -v)", in_gib(bytes).c_str());
  }
  memory.mapping_ = mapping;
  memory.mapping_bytes_ = total;
  memory.bytes_ = bytes;
  memory.data_ = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(mapping) + align - 1) & ~(uintptr_t{align} - 1));
  if (align == kHugePage) (void)madvise(memory.data_, rounded, MADV_HUGEPAGE);  // a wish: systems without it go on in small pages
  if (populate) KVRT_TRY(memory.populate(0, bytes));
  return memory;
}

Status HostMemory::populate(uint64_t offset, uint64_t bytes) {
  const uint64_t begin = offset & ~(kSmallPage - 1), end = (offset + bytes + kSmallPage - 1) & ~(kSmallPage - 1);
  return bytes == 0 ? Status() : populate_pages(data_ + begin, end - begin);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

}  // namespace kvrt
