#include "tests/cuda/emulation/grid.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/emulation/collectives.h"
#include "tests/cuda/emulation/copies.h"
#include "tests/cuda/emulation/fibers.h"
#include "tests/cuda/emulation/mma.h"
#include "tests/cuda/emulation/shared_memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace kvrt::emulation {

Block g_block;

namespace {

constexpr uint32_t kThreadsMax = 1024;

const Grid* g_grid = nullptr;  // that runs
Order g_order = Order::kForwards;
uint32_t g_random = 1;        // xorshift32
uint3 g_places[kThreadsMax];  // threadIdx of each thread of a block of g_places_of
dim3 g_places_of{0, 0, 0};
Fiber g_host;
Fiber* g_running = nullptr;
auto* const g_idle = new std::vector<Fiber*>;  // never destroyed, as the stacks are not
uint32_t g_fibers = 0;

void set_places(dim3 block) {
  if (block.x == g_places_of.x && block.y == g_places_of.y && block.z == g_places_of.z) return;
  g_places_of = block;
  for (uint32_t t = 0; t < block.x * block.y * block.z; ++t) {
    g_places[t] = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
  }
}

uint32_t next_random() {
  g_random ^= g_random << 13;
  g_random ^= g_random >> 17;
  return g_random ^= g_random << 5;
}

// The next bit of `set` after `at`, around the end: upwards, or downwards. At random: the next after any.
uint32_t next_bit(uint32_t set, uint32_t at) {
  if (g_order == Order::kRandom) at = next_random() >> 27;
  if (g_order == Order::kBackwards) {
    const uint32_t rotated = std::rotr(set, static_cast<int>(at));
    return (at + 31u - static_cast<uint32_t>(std::countl_zero(rotated))) & 31u;
  }
  const uint32_t rotated = std::rotr(set, static_cast<int>(at + 1));
  return (at + 1u + static_cast<uint32_t>(std::countr_zero(rotated))) & 31u;
}

void thread_main();

// Makes another thread of the block the current one. Gives its fiber; null: it has not begun; aborts where none can go on.
inline Fiber* choose_next() {
  Block& b = g_block;
  if (b.warps[b.warp].runnable == 0 || g_order == Order::kRandom) {
    if (b.runnable_warps == 0) report_stuck();
    b.warp = next_bit(b.runnable_warps, b.warp);
    b.lane = g_order == Order::kBackwards ? 0 : 31;  // so that the turn begins at the end
  }
  Warp& w = b.warps[b.warp];
  b.lane = next_bit(w.runnable, b.lane);
  threadIdx = g_places[b.warp * 32 + b.lane];
  const uint32_t bit = 1u << b.lane;
  if ((w.fresh & bit) == 0) return w.fibers[b.lane];
  w.fresh &= ~bit;
  return nullptr;
}

Fiber* idle_fiber() {
  if (g_idle->empty()) return make_fiber(thread_main, g_fibers++);
  Fiber* const fiber = g_idle->back();
  g_idle->pop_back();
  return fiber;
}

// One after the other the threads that have not begun; where one that stopped goes on first, this stack rests.
// Not watched by ASan: its frame outlives the fake stack of the kernels that it calls.
#ifdef __clang__
__attribute__((no_sanitize("address")))
#else
__attribute__((no_sanitize_address))
#endif
void thread_main() {
  fiber_entered();
  for (;;) {
    g_grid->run(g_grid->self);
    Block& b = g_block;
    Warp& w = b.warps[b.warp];
    w.exited |= 1u << b.lane;
    stop_current(&w);
    Fiber* next = &g_host;
    if (--b.running != 0) {
      next = choose_next();
      if (next == nullptr) continue;
    }
    Fiber* const self = g_running;
    g_idle->push_back(self);
    g_running = next;
    switch_fiber(self, next, true);
  }
}

void run_block() {
  Block& b = g_block;
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z, warps = (threads + 31) / 32;
  b.running = b.threads = threads;
  b.n_warps = warps;
  b.at_barrier = 0;
  b.runnable_warps = warps == 32 ? 0xffffffffu : (1u << warps) - 1;
  for (uint32_t i = 0; i < warps; ++i) {
    Warp& w = b.warps[i];
    const uint32_t lanes = threads - i * 32 < 32 ? threads - i * 32 : 32;
    w.existing = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    w.runnable = w.fresh = w.existing;
    w.exited = w.waiting = w.at_barrier = w.phase = 0;
    for (uint32_t lane = lanes; lane < 32; ++lane) w.words[0][lane] = w.words[1][lane] = 0xffffffffu;
  }
  prepare_shared();
  drop_copies();
  b.warp = g_order == Order::kBackwards ? warps - 1 : 0;
  b.lane = g_order == Order::kBackwards ? 0 : 31;
  choose_next();
  g_running = idle_fiber();
  switch_fiber(&g_host, g_running, false);
}

}  // namespace

void yield_current() {
  Warp& w = g_block.warps[g_block.warp];
  Fiber* const self = g_running;
  w.fibers[g_block.lane] = self;
  stop_current(&w);
  Fiber* const next = choose_next();
  g_running = next != nullptr ? next : idle_fiber();
  switch_fiber(self, g_running, false);
}

void run_grid(const Grid& grid, const Modes& modes) {
  adopt_host_stack(&g_host);
  set_places(grid.block);
  set_shared(grid.shared_bytes);
  gridDim = grid.grid;
  blockDim = grid.block;
  g_grid = &grid;
  g_order = modes.order;
  g_random = modes.seed != 0 ? modes.seed : 1;
  set_truncating(modes.truncating);
  const uint64_t x = gridDim.x, y = gridDim.y, blocks = x * y * gridDim.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t at = g_order == Order::kBackwards ? blocks - 1 - i : i;
    blockIdx = {static_cast<unsigned>(at % x), static_cast<unsigned>(at / x % y), static_cast<unsigned>(at / (x * y))};
    run_block();
  }
  g_grid = nullptr;
}

bool in_kernel() { return g_grid != nullptr; }

void describe_thread(char* text, uint32_t bytes) {
  std::snprintf(text, bytes, "grid (%u, %u, %u), block (%u, %u, %u) of (%u, %u, %u) threads, thread (%u, %u, %u)", gridDim.x, gridDim.y,
                gridDim.z, blockIdx.x, blockIdx.y, blockIdx.z, blockDim.x, blockDim.y, blockDim.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

}  // namespace kvrt::emulation
