// The machine's CPU, and how fast it reads memory, which is the ceiling of decode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cli {

std::string cpu_name();

// The CPUs that this process may run on.
std::vector<int> allowed_cpus();
// The calling thread stays on one CPU from here on: two measuring threads on one core would halve the figure.
void pin_to(int cpu);

// The speed at which `threads` readers together read memory, in GB/s: pinned, huge pages, prefetched, the best of several passes.
// 0: there is no memory to measure with.
double read_gb_s(uint32_t threads);

}  // namespace cli
