// available_memory: what this process may still take, by the system and the cgroup.
#pragma once

#include <cstdint>

namespace kvrt {

uint64_t available_memory();  // bytes; 1 GiB where the system does not say

}  // namespace kvrt
