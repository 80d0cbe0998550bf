// Runs a grid: its blocks one after the other, the threads of a block as fibers that stop at barriers and warp collectives only.
#pragma once

#include <cstdint>

#include "tests/cuda/emulation/device_language.h"

namespace kvrt::emulation {

struct Grid {
  dim3 grid, block;
  uint32_t shared_bytes = 0;
  void (*run)(const void* self) = nullptr;  // one thread
  const void* self = nullptr;
};

// The caller holds the machine's lock. `backwards`: the threads of a block take turns from the last to the first, which shows what a
// missing barrier hides in the other order.
void run_grid(const Grid& grid, bool backwards);
// Whether a kernel runs, and a sentence that says where: for messages.
bool in_kernel();
void describe_thread(char* text, uint32_t bytes);

}  // namespace kvrt::emulation
