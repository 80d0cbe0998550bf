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

// The number of a line that begins with `key`, such as "MemAvailable:"; 0 without one.
uint64_t number_of(const std::string& text, std::string_view key) {
  size_t at = text.starts_with(key) ? 0 : text.find("\n" + std::string(key));
  if (at == std::string::npos) return 0;
  at = text.find_first_of("0123456789", at + key.size());
  return at == std::string::npos ? 0 : read_digits(std::string_view(text).substr(at));
}

}  // namespace

uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : UINT64_MAX;
}

uint64_t available_memory() {
  uint64_t available = number_of(system_file("/proc/meminfo"), "MemAvailable:") * 1024;
  const uint64_t cap = number_in("/sys/fs/cgroup/memory.max");
  if (cap) {  // the group's pages of files go when memory is wanted
    const std::string stat = system_file("/sys/fs/cgroup/memory.stat");
    const uint64_t used = number_in("/sys/fs/cgroup/memory.current");
    const uint64_t files = std::min(used, number_of(stat, "inactive_file ") + number_of(stat, "active_file "));
    if (cap > used - files) available = std::min(available ? available : UINT64_MAX, cap - (used - files));
  }
  return available ? available : uint64_t{1} << 30;
}

std::string in_gib(uint64_t bytes) {
  const uint64_t hundredths = ((bytes >> 20) * 100 + 512) >> 10;
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest.size() < 2 ? ".0" : ".") + rest + " GiB";
}

Status check_memory(const char* what, uint64_t bytes, const char* cure) {
  const uint64_t swap = number_of(system_file("/proc/meminfo"), "SwapFree:") * 1024, have = available_memory() + swap;
  if (bytes <= have) return {};
  return error(Code::kNoMemory, Detail::kNone, "%s: %s of memory, %s are free: %s", what, in_gib(bytes).c_str(), in_gib(have).c_str(),
               cure);
}

}  // namespace kvrt
