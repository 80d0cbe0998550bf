// The dynamic shared memory of the block that runs: exactly the bytes asked for, then a page that faults (and poison, under ASan, where
// the size is no multiple of 16).
#pragma once

#include <cstdint>

namespace kvrt::emulation {

inline constexpr uint32_t kSharedBytesMax = 227u << 10;     // of a block, where the kernel opted in
inline constexpr uint32_t kSharedBytesDefault = 48u << 10;  // otherwise

void set_shared(uint32_t bytes);  // of the grid that begins
void prepare_shared();            // of the block that begins: NaN throughout

}  // namespace kvrt::emulation
