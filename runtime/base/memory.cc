#include "runtime/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "runtime/base/numbers.h"
#include "runtime/base/system_file.h"

namespace kvrt {
namespace {

// 0 for "max", and where there is no such file.
uint64_t number_in(const char* path) { return read_digits(system_file(path)); }

}  // namespace

uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : UINT64_MAX;
}

uint64_t available_memory() {
  uint64_t available = 0;
  const std::string info = system_file("/proc/meminfo");
  constexpr std::string_view kKey = "MemAvailable:";
  if (const size_t at = info.find(kKey); at != std::string::npos) {
    const size_t digits = std::min(info.find_first_not_of(' ', at + kKey.size()), info.size());
    available = read_digits(std::string_view(info).substr(digits)) * 1024;
  }
  uint64_t cap = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (cap && cap > used) available = available ? std::min(available, cap - used) : cap - used;
  return available ? available : uint64_t{1} << 30;
}

}  // namespace kvrt
