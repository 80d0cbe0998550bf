// The block that runs, as barriers and warp collectives see it. Sets of lanes are bits.
#pragma once

#include <cstdint>

#include "tests/cuda/emulation/device_language.h"

namespace kvrt::emulation {

struct Fiber;
struct MmaLane {
  void* d;
  const uint32_t *a, *b;
};

struct Warp {
  uint32_t existing;    // less than all in a ragged block's last warp
  uint32_t fresh;       // not begun
  uint32_t runnable;    // not begun, or may go on
  uint32_t exited;      // ended
  uint32_t waiting;     // at the collective below
  uint32_t at_barrier;  // at the block's barrier
  uint32_t phase;       // which of `words` the next collective writes: lanes still read the other
  Collective what;
  const char* file;  // of the lane that came to the collective first
  int line;
  uint32_t words[2][32];
  MmaLane mma[32];
  Fiber* fibers[32];  // of lanes that stopped
};

struct Block {
  uint32_t threads, n_warps;
  uint32_t running;         // threads that have not ended
  uint32_t at_barrier;      // threads that wait there
  uint32_t runnable_warps;  // those with a runnable lane
  uint32_t warp, lane;      // the thread that runs
  int counted, count;       // __syncthreads_count: so far, and of the last barrier
  const char* barrier_file;
  int barrier_line;
  Warp warps[32];
};
extern Block g_block;

// The current thread may not go on: until its bit is set again.
inline void stop_current(Warp* w) {
  w->runnable &= ~(1u << g_block.lane);
  if (w->runnable == 0) g_block.runnable_warps &= ~(1u << g_block.warp);
}
// Stops it and runs others; returns when it goes on.
void yield_current();
// No thread of the block can go on: says why, and aborts.
[[noreturn]] void report_stuck();
[[noreturn]] void report(const char* what, const char* file, int line);

}  // namespace kvrt::emulation
