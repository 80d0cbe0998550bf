// Memory: the part that this process may still take, by the system and the cgroup, and all that the machine has.
#pragma once

#include <cstdint>

namespace kvrt {

uint64_t available_memory();  // bytes; 1 GiB where the system does not say
uint64_t physical_memory();   // the machine's bytes; UINT64_MAX where the system does not say

}  // namespace kvrt
