// Runs a grid: its blocks one after the other, the threads of a block as fibers that stop at barriers and warp collectives only.
#pragma once

#include <cstdint>

#include "cuda/emulation/emulator.h"

namespace kvrt::emulation {

struct Grid {
  dim3 grid, block;
  uint32_t shared_bytes = 0;
  void (*run)(const void* self) = nullptr;  // one thread
  const void* self = nullptr;
};

// The caller holds the machine's lock.
void run_grid(const Grid& grid, const Modes& modes);
// Whether a kernel runs, and a sentence that says where: for messages.
bool in_kernel();
void describe_thread(char* text, uint32_t bytes);

}  // namespace kvrt::emulation
