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

// The most that `threads` readers together read of memory, in GB/s: in whole vectors and huge pages, as the kernels read weights, with their prefetch
// and without, pinned and not; the best of several passes. What else runs on the machine makes it less: measure it before and after, and take the
// greater. 0: there is no memory to measure with.
double read_gb_s(uint32_t threads);

}  // namespace cli
