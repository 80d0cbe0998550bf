// The arena is a mapping of an empty file: past a file's end every access faults, whatever the protection. So gaps between allocations
// stay shut while one mprotect over all of them opens the allocations, and freed pages fault for good.
#include "tests/cuda/emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda/emulation/fibers.h"  // KVRT_FIBERS_ASAN
#ifdef KVRT_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#define KVRT_POISON(p, n) __asan_poison_memory_region(p, n)
#define KVRT_UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define KVRT_POISON(p, n) static_cast<void>(0)
#define KVRT_UNPOISON(p, n) static_cast<void>(0)
#endif

namespace kvrt::emulation {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

void need(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

}  // namespace

void DeviceMemory::reserve() {
  empty_file_ = memfd_create("kvrt-emulated-device", MFD_CLOEXEC);
  need(empty_file_ >= 0, "CUDA emulation: memfd_create");
  void* const p = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, empty_file_, 0);
  need(p != MAP_FAILED, "CUDA emulation: reserving the arena");
  base_ = static_cast<uint8_t*>(p);
}

// First fit behind the last allocation, then from the start.
uint8_t* DeviceMemory::find_room(uint64_t mapped_bytes) {
  for (const uint64_t start : {next_, uint64_t{0}}) {
    uint64_t at = start;
    for (const auto& [page, piece] : pieces_) {
      const auto begin = static_cast<uint64_t>(page - base_);
      if (begin + piece.mapped_bytes + kPage <= at) continue;
      if (begin >= at + mapped_bytes + kPage) break;
      at = begin + piece.mapped_bytes + kPage;  // a gap after each
    }
    if (at + mapped_bytes + kPage <= kArenaBytes) return base_ + at;
  }
  return nullptr;
}

void* DeviceMemory::allocate(uint64_t bytes, uint64_t budget_bytes, uint64_t fill_bytes) {
  if (bytes > budget_bytes || bytes_ + bytes > budget_bytes) return nullptr;
  if (base_ == nullptr) reserve();
  const uint64_t rounded = (bytes + 255) / 256 * 256, mapped = (rounded + kPage - 1) / kPage * kPage;
  uint8_t* const page = find_room(mapped);
  if (page == nullptr) return nullptr;
  void* const p = mmap(page, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (mapped >= kHugePage) madvise(p, mapped, MADV_HUGEPAGE);  // fewer pages to protect and unprotect
  uint8_t* const data = page + (mapped - rounded);
  std::memset(data, 0xff, bytes < fill_bytes ? bytes : fill_bytes);
  KVRT_POISON(page, mapped);
  KVRT_UNPOISON(data, bytes);
  const auto offset = static_cast<uint64_t>(page - base_);
  pieces_[page] = {data, bytes, mapped};
  bytes_ += bytes;
  next_ = offset + mapped + kPage;
  if (next_ > top_) top_ = next_;
  if (!accessible_) need(mprotect(page, mapped, PROT_NONE) == 0, "CUDA emulation: mprotect");
  return data;
}

bool DeviceMemory::release(void* p) {
  const auto at = pieces_.upper_bound(static_cast<uint8_t*>(p));
  if (at == pieces_.begin()) return false;
  const auto piece = std::prev(at);
  if (piece->second.data != p) return false;
  KVRT_UNPOISON(piece->first, piece->second.mapped_bytes);
  const auto offset = piece->first - base_;
  void* const mapped =
      mmap(piece->first, piece->second.mapped_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, empty_file_, offset);
  need(mapped != MAP_FAILED, "CUDA emulation: freeing device memory");
  bytes_ -= piece->second.bytes;
  pieces_.erase(piece);
  if (pieces_.empty()) top_ = 0;
  return true;
}

bool DeviceMemory::holds(const void* p, uint64_t bytes) const {
  const auto* const begin = static_cast<const uint8_t*>(p);
  const auto at = pieces_.upper_bound(const_cast<uint8_t*>(begin));
  if (at == pieces_.begin()) return false;
  const Piece& piece = std::prev(at)->second;
  return begin >= piece.data && static_cast<uint64_t>(begin - piece.data) <= piece.bytes &&
         bytes <= piece.bytes - static_cast<uint64_t>(begin - piece.data);
}

bool DeviceMemory::touches(const void* p, uint64_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(p), arena = reinterpret_cast<uintptr_t>(base_);
  return base_ != nullptr && begin < arena + kArenaBytes && begin + bytes > arena;
}

void DeviceMemory::set_access(bool accessible) {
  if (accessible == accessible_) return;
  accessible_ = accessible;
  if (top_ == 0) return;
  need(mprotect(base_, top_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0, "CUDA emulation: mprotect");
}
void DeviceMemory::open() {
  if (open_++ == 0) set_access(true);
}
void DeviceMemory::close() {
  if (--open_ == 0 && protection_ == Protection::kAlways) shut();
}
void DeviceMemory::shut() {
  if (open_ == 0 && protection_ != Protection::kNone) set_access(false);
}
void DeviceMemory::set_protection(Protection protection) {
  protection_ = protection;
  set_access(open_ > 0 || protection == Protection::kNone);
}

}  // namespace kvrt::emulation
