// The CPUs that this process may use, and the one that a thread is on.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace kvrt {

// How many threads of this process can run at once: the affinity mask, cut by the cgroup's cpu.max.
uint32_t usable_cpus();

int current_cpu();  // the calling thread's; negative: nobody knows
// Moves the calling thread to a CPU that is none of `taken`, if it is allowed one: the CPUs that it is allowed stay the same. The CPU that it
// is on then; negative: it stayed, or nobody knows.
int leave_cpus(std::span<const std::atomic<int>> taken);

}  // namespace kvrt
