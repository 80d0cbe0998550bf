// The check at open: every kernel of a table once on a fixed vector, against the scalar one, bit by bit.
#pragma once

#include <string>

#include "runtime/compute/cpu/kernels.h"

namespace kvrt {

// True when `kernels` gives scalar's bits; else `mismatch` names the first kernel that does not. Takes some three milliseconds.
bool check_kernels(const CpuKernels& kernels, std::string* mismatch);

}  // namespace kvrt
