// Memory: the part that this process may still take, by the system and the cgroup, and all that the machine has.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace kvrt {

uint64_t available_memory();  // bytes; 1 GiB where the system does not say
uint64_t physical_memory();   // the machine's bytes; UINT64_MAX where the system does not say
// NO_MEMORY where so many bytes are more than the system has, swap included: it gives more than that, and kills a process that uses it.
// `cure`: what to do then.
Status check_memory(const char* what, uint64_t bytes, const char* cure);
std::string in_gib(uint64_t bytes);  // "7.31 GiB"

}  // namespace kvrt
