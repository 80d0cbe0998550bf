// Processes: this one's id, and a child of fork(2), which has copies of what its parent has open.
#pragma once

#include <cstdint>

namespace kvrt {

int32_t process_id();

// Runs at the begin of every call. The first run in a child of fork(2) closes the child's copies of all that kvrt has open, and remembers the
// files. A descriptor that another thread of the parent was opening or closing at that moment stays until exec or exit.
void mind_fork() noexcept;

}  // namespace kvrt
