#include "tests/cuda/emulation/copies.h"

#include <cstring>
#include <vector>

#include "cuda/emulation/device_functions.h"
#include "tests/cuda/emulation/collectives.h"

namespace kvrt::emulation {
namespace {

constexpr uint32_t kCopyBytes = 16;

struct Copy {
  void* to;
  const void* from;
  uint32_t group;
};
struct Copies {
  std::vector<Copy> under_way;  // in order
  uint32_t groups = 0;          // ended
};
auto* const g_copies = new Copies[32 * 32];  // of each thread of the block; never destroyed, as its vectors must outlive all
bool g_any = false;

Copies& current() { return g_copies[g_block.warp * 32 + g_block.lane]; }

}  // namespace

void drop_copies() {
  if (!g_any) return;
  for (uint32_t i = 0; i < 32 * 32; ++i) {
    g_copies[i].under_way.clear();
    g_copies[i].groups = 0;
  }
  g_any = false;
}

void copy_async(void* shared, const void* global) {
  if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % kCopyBytes != 0) {
    report("copy_async of what is not aligned to 16 bytes", "device.h", 0);
  }
  std::memset(shared, 0xff, kCopyBytes);
  current().under_way.push_back({shared, global, current().groups});
  g_any = true;
}

void copy_async_commit() {
  ++current().groups;
  g_any = true;
}

void copy_async_wait(uint32_t left) {
  Copies& c = current();
  size_t come = 0;
  for (; come < c.under_way.size() && c.under_way[come].group + left < c.groups; ++come) {
    std::memcpy(c.under_way[come].to, c.under_way[come].from, kCopyBytes);
  }
  c.under_way.erase(c.under_way.begin(), c.under_way.begin() + static_cast<std::ptrdiff_t>(come));
}

}  // namespace kvrt::emulation
