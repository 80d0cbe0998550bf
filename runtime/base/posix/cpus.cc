#include "runtime/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "runtime/base/numbers.h"
#include "runtime/base/system_file.h"

namespace kvrt {

namespace {

// CPUs that a quota of `quota` µs per `period` µs amounts to, rounded up; 0: no limit.
uint32_t quota_cpus(uint64_t quota, uint64_t period) {
  if (quota == 0 || period == 0 || quota > UINT64_MAX - period) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((quota + period - 1) / period, 1 << 20));
}

uint32_t min_limit(uint32_t a, uint32_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// v2: cpu.max of the process's group and of all groups above it; v1: the quota as a container sees it.
uint32_t cgroup_cpus() {
  uint32_t limit = 0;
  const std::string groups = "\n" + system_file("/proc/self/cgroup");
  const size_t own = groups.find("\n0::");
  std::string path;
  if (own != std::string::npos) path = groups.substr(own + 4, groups.find('\n', own + 4) - own - 4);
  while (true) {
    const std::string max = system_file("/sys/fs/cgroup" + path + "/cpu.max");  // quota and period, or "max" and period
    const size_t space = std::min(max.find(' '), max.size());
    limit = min_limit(limit, quota_cpus(read_digits(max), read_digits(std::string_view(max).substr(std::min(space + 1, max.size())))));
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  const std::string v1 = "/sys/fs/cgroup/cpu/cpu.cfs_";  // "-1": no quota
  return min_limit(limit, quota_cpus(read_digits(system_file(v1 + "quota_us")), read_digits(system_file(v1 + "period_us"))));
}

}  // namespace

uint32_t usable_cpus() {
  uint32_t cpus = 0;
  for (int capacity = 1024; capacity <= 1 << 16 && cpus == 0; capacity *= 4) {  // EINVAL: the machine has more CPUs than the mask
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    if (sched_getaffinity(0, bytes, set) == 0) cpus = static_cast<uint32_t>(CPU_COUNT_S(bytes, set));
    CPU_FREE(set);
  }
  return std::max(1u, min_limit(cpus, cgroup_cpus()));
}

int current_cpu() { return sched_getcpu(); }

int leave_cpus(std::span<const std::atomic<int>> taken) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  cpu_set_t others = allowed;
  for (const std::atomic<int>& one : taken) {
    const int cpu = one.load(std::memory_order_relaxed);
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_CLR(cpu, &others);
  }
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return -1;
  const int cpu = sched_getcpu();
  (void)sched_setaffinity(0, sizeof allowed, &allowed);
  return cpu;
}

}  // namespace kvrt
