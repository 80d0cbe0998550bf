#include "runtime/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace kvrt {
namespace {

uint64_t read_number(const char* path) {  // 0 when there is none ("max", no such file)
  unsigned long long value = 0;
  if (FILE* f = std::fopen(path, "re")) {
    if (std::fscanf(f, "%llu", &value) != 1) value = 0;
    std::fclose(f);
  }
  return value;
}

}  // namespace

uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : UINT64_MAX;
}

uint64_t available_memory() {
  uint64_t available = 0;
  if (FILE* f = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    unsigned long long kb;
    while (std::fgets(line, sizeof line, f)) {
      if (std::sscanf(line, "MemAvailable: %llu kB", &kb) == 1) available = kb * 1024;
    }
    std::fclose(f);
  }
  uint64_t cap = read_number("/sys/fs/cgroup/memory.max"), used = read_number("/sys/fs/cgroup/memory.current");
  if (cap && cap > used) available = available ? std::min(available, cap - used) : cap - used;
  return available ? available : uint64_t{1} << 30;
}

}  // namespace kvrt
