#include "tests/cuda/emulation/collectives.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulation/device_functions.h"
#include "tests/cuda/emulation/grid.h"
#include "tests/cuda/emulation/mma.h"

namespace kvrt::emulation {
namespace {

const char* name_of(Collective what) {
  switch (what) {
    case Collective::kShuffle:
      return "__shfl_sync";
    case Collective::kShuffleXor:
      return "__shfl_xor_sync";
    case Collective::kShuffleUp:
      return "__shfl_up_sync";
    case Collective::kShuffleDown:
      return "__shfl_down_sync";
    case Collective::kVote:
      return "a vote";
    case Collective::kSyncWarp:
      return "__syncwarp";
    case Collective::kMma:
      return "mma";
    case Collective::kMmaBytes:
      return "mma of bytes";
  }
  return "?";
}

[[noreturn]] __attribute__((noinline)) void report_mismatch(const Warp& w, Collective what, const char* file, int line) {
  char text[256];
  std::snprintf(text, sizeof text, "%s, while other lanes of the warp wait for it at %s (%s:%d)", name_of(what), name_of(w.what), w.file,
                w.line);
  report(text, file, line);
}
[[noreturn]] __attribute__((noinline)) void report_other_barrier(const char* file, int line) {
  char text[256];
  std::snprintf(text, sizeof text, "__syncthreads, while other threads of the block wait at that of %s:%d", g_block.barrier_file,
                g_block.barrier_line);
  report(text, file, line);
}

// The current lane comes to a collective. True: it is the last of the warp.
inline bool arrive(Warp* w, Collective what, uint32_t mask, const char* file, int line) {
  if (mask != 0xffffffffu) report("a warp collective with a mask of less than all lanes is not emulated", file, line);
  if (w->waiting == 0) {
    w->what = what;
    w->file = file;
    w->line = line;
  } else if (w->what != what) {
    report_mismatch(*w, what, file, line);
  }
  w->waiting |= 1u << g_block.lane;
  return w->waiting == w->existing;
}
// The last lane came: all may go on.
inline void release(Warp* w) {
  w->runnable |= w->waiting;
  w->waiting = 0;
  w->phase ^= 1;
}

void report_warp(uint32_t index) {
  const Warp& w = g_block.warps[index];
  const uint32_t stopped = w.existing & ~w.exited;
  if (stopped == 0) return;
  std::fprintf(stderr, "  warp %u: lanes 0x%08x ended", index, w.exited);
  if (w.waiting != 0) std::fprintf(stderr, ", 0x%08x at %s (%s:%d)", w.waiting, name_of(w.what), w.file, w.line);
  if (w.at_barrier != 0) {
    std::fprintf(stderr, ", 0x%08x at __syncthreads (%s:%d)", w.at_barrier, g_block.barrier_file, g_block.barrier_line);
  }
  std::fprintf(stderr, "\n");
}

}  // namespace

void report(const char* what, const char* file, int line) {
  char where[256];
  describe_thread(where, sizeof where);
  std::fprintf(stderr, "CUDA emulation: %s:%d: %s: %s\n", file, line, where, what);
  std::abort();
}

void report_stuck() {
  std::fprintf(stderr, "CUDA emulation: divergence: threads wait for others that never come: grid (%u, %u, %u), block (%u, %u, %u)\n",
               gridDim.x, gridDim.y, gridDim.z, blockIdx.x, blockIdx.y, blockIdx.z);
  for (uint32_t i = 0; i < g_block.n_warps; ++i) report_warp(i);
  std::abort();
}

uint32_t lane_index() { return g_block.lane; }
uint32_t existing_lanes() { return g_block.warps[g_block.warp].existing; }

const uint32_t* exchange(Collective what, uint32_t mask, uint32_t word, const char* file, int line) {
  Warp* const w = &g_block.warps[g_block.warp];
  uint32_t* const words = w->words[w->phase];
  words[g_block.lane] = word;
  if (arrive(w, what, mask, file, line)) {
    release(w);
  } else {
    yield_current();
  }
  return words;
}

namespace {

// Fragments stay where the lanes have them, on their stacks: the last lane to come computes for all.
template <typename Multiply>
inline void multiply_together(Collective what, const MmaLane& fragments, const Multiply& multiply) {
  Warp* const w = &g_block.warps[g_block.warp];
  w->mma[g_block.lane] = fragments;
  if (arrive(w, what, 0xffffffffu, "device.h", 0)) {
    if (w->existing != 0xffffffffu) report("mma in a warp of less than 32 threads", "device.h", 0);
    multiply(w->mma);
    release(w);
  } else {
    yield_current();
  }
}

}  // namespace

void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool bf16) {
  multiply_together(Collective::kMma, {d, a, b}, [bf16](const MmaLane(&lanes)[32]) { multiply_fragments(lanes, bf16); });
}
void mma_s8_16x8x16(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b) {
  multiply_together(Collective::kMmaBytes, {d, a, &b}, [](const MmaLane(&lanes)[32]) { multiply_byte_fragments(lanes); });
}

void barrier(const char* file, int line) { barrier_count(0, file, line); }

int barrier_count(int predicate, const char* file, int line) {
  Block& b = g_block;
  if (b.at_barrier == 0) {
    b.barrier_file = file;
    b.barrier_line = line;
    b.counted = 0;
  } else if (b.barrier_line != line || (b.barrier_file != file && std::strcmp(b.barrier_file, file) != 0)) {
    report_other_barrier(file, line);
  }
  b.counted += predicate != 0;
  b.warps[b.warp].at_barrier |= 1u << b.lane;
  if (++b.at_barrier != b.threads) {
    yield_current();
    return b.count;
  }
  b.at_barrier = 0;
  b.count = b.counted;
  for (uint32_t i = 0; i < b.n_warps; ++i) {
    b.warps[i].runnable = b.warps[i].existing;
    b.warps[i].at_barrier = 0;
  }
  b.runnable_warps = b.n_warps == 32 ? 0xffffffffu : (1u << b.n_warps) - 1;
  return b.count;
}

}  // namespace kvrt::emulation
