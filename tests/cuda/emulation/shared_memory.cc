#include "tests/cuda/emulation/shared_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulation/device_functions.h"
#include "tests/cuda/emulation/fibers.h"  // KVRT_FIBERS_ASAN
#ifdef KVRT_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace kvrt::emulation {
namespace {

constexpr uint32_t kMappedBytes = 256u << 10;
uint8_t* g_end = nullptr;   // of the mapping: memory behind it faults
uint8_t* g_base = nullptr;  // of the block's
uint32_t g_bytes = 0;

void map() {
  void* const p = mmap(nullptr, kMappedBytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p, kMappedBytes, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "CUDA emulation: no memory for shared memory\n");
    std::abort();
  }
  g_end = static_cast<uint8_t*>(p) + kMappedBytes;
}

}  // namespace

void set_shared(uint32_t bytes) {
  if (g_end == nullptr) map();
  g_bytes = bytes;
  g_base = g_end - (bytes + 15) / 16 * 16;
#ifdef KVRT_FIBERS_ASAN
  __asan_poison_memory_region(g_end - kMappedBytes, kMappedBytes);
  __asan_unpoison_memory_region(g_base, bytes);
#endif
}

void prepare_shared() {
  if (g_bytes != 0) std::memset(g_base, 0xff, g_bytes);
}

uint8_t* dynamic_shared() { return g_base; }

}  // namespace kvrt::emulation
