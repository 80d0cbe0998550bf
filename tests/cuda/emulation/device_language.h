// The language of kernels for the host's compiler: keywords, vector types, threadIdx and its like, barriers, warp collectives and the
// small functions that CUDA has built in. Included by cuda_runtime.h; nothing here names kvrt but the machine below it (grid.cc).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static  // one block runs at a time; unlike dynamic shared memory it is not filled with NaN before each
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// ---- vector types

struct alignas(8) int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}  // NOLINT: implicit, as CUDA's
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}                                         // NOLINT
  constexpr operator uint3() const { return {x, y, z}; }                                      // NOLINT
};

// ---- the place of the thread that runs; the machine sets it at each switch

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace kvrt::emulation {

enum class Collective : uint8_t { kShuffle, kShuffleXor, kShuffleUp, kShuffleDown, kVote, kSyncWarp, kMma, kMmaBytes };

// The machine's side (collectives.cc). `file` and `line` are the caller's, for the message of a divergence.
void barrier(const char* file, int line);
int barrier_count(int predicate, const char* file, int line);
// Gives every lane's word, 32 of them; those of lanes that the block does not have are all ones. Valid until the lane's next collective.
const uint32_t* exchange(Collective what, uint32_t mask, uint32_t word, const char* file, int line);
uint32_t lane_index();
uint32_t existing_lanes();

template <typename T>
__forceinline__ T shuffle(Collective what, uint32_t mask, T value, int by, int width, const char* file, int line) {
  static_assert(sizeof(T) == 4);
  const uint32_t* words = exchange(what, mask, std::bit_cast<uint32_t>(value), file, line);
  const uint32_t lane = lane_index(), segment = 32u - static_cast<uint32_t>(width), first = lane & segment, last = first | (31u & ~segment);
  uint32_t from = lane;
  if (what == Collective::kShuffle) from = first | (static_cast<uint32_t>(by) & 31u & ~segment);
  if (what == Collective::kShuffleXor) from = lane ^ (static_cast<uint32_t>(by) & 31u);
  if (what == Collective::kShuffleDown) from = lane + (static_cast<uint32_t>(by) & 31u);
  if (what == Collective::kShuffleUp) from = lane - (static_cast<uint32_t>(by) & 31u);
  if (what == Collective::kShuffleUp ? from < first || from > lane : from > last) from = lane;
  return std::bit_cast<T>(words[from]);
}
inline uint32_t vote(uint32_t mask, bool predicate, const char* file, int line) {
  const uint32_t* words = exchange(Collective::kVote, mask, predicate ? 1u : 0u, file, line);
  uint32_t set = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) set |= (words[lane] & 1u) << lane;
  return set & existing_lanes();
}

}  // namespace kvrt::emulation

// ---- barriers and warp collectives. The defaults are the caller's place.

#define KVRT_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

__forceinline__ void __syncthreads(KVRT_CALLER) { kvrt::emulation::barrier(file, line); }
__forceinline__ int __syncthreads_count(int predicate, KVRT_CALLER) { return kvrt::emulation::barrier_count(predicate, file, line); }
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu, KVRT_CALLER) {
  kvrt::emulation::exchange(kvrt::emulation::Collective::kSyncWarp, mask, 0, file, line);
}

#define KVRT_SHUFFLES(T)                                                                                                              \
  __forceinline__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KVRT_CALLER) {                                      \
    return kvrt::emulation::shuffle(kvrt::emulation::Collective::kShuffle, mask, value, lane, width, file, line);                     \
  }                                                                                                                                   \
  __forceinline__ T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32, KVRT_CALLER) {                                    \
    return kvrt::emulation::shuffle(kvrt::emulation::Collective::kShuffleXor, mask, value, by, width, file, line);                    \
  }                                                                                                                                   \
  __forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, KVRT_CALLER) {                                \
    return kvrt::emulation::shuffle(kvrt::emulation::Collective::kShuffleUp, mask, value, static_cast<int>(by), width, file, line);   \
  }                                                                                                                                   \
  __forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, KVRT_CALLER) {                              \
    return kvrt::emulation::shuffle(kvrt::emulation::Collective::kShuffleDown, mask, value, static_cast<int>(by), width, file, line); \
  }
KVRT_SHUFFLES(int)
KVRT_SHUFFLES(unsigned)
KVRT_SHUFFLES(float)
#undef KVRT_SHUFFLES
// 64 bits, in two halves as a device does it.
#define KVRT_WIDE_SHUFFLE(name, By)                                                                                            \
  __forceinline__ unsigned long long name(unsigned mask, unsigned long long value, By by, int width = 32, KVRT_CALLER) {       \
    const unsigned low = name(mask, static_cast<unsigned>(value), by, width, file, line);                                      \
    return static_cast<unsigned long long>(name(mask, static_cast<unsigned>(value >> 32), by, width, file, line)) << 32 | low; \
  }
KVRT_WIDE_SHUFFLE(__shfl_xor_sync, int)
KVRT_WIDE_SHUFFLE(__shfl_up_sync, unsigned)
#undef KVRT_WIDE_SHUFFLE

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, KVRT_CALLER) {
  return kvrt::emulation::vote(mask, predicate != 0, file, line);
}
__forceinline__ int __any_sync(unsigned mask, int predicate, KVRT_CALLER) {
  return kvrt::emulation::vote(mask, predicate != 0, file, line) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate, KVRT_CALLER) {
  return kvrt::emulation::vote(mask, predicate == 0, file, line) == 0;
}
#undef KVRT_CALLER

// ---- memory: one thread runs at a time, so its writes are seen

inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename T>
inline T add_at(T* p, T v) {
  const T old = *p;
  *p = static_cast<T>(old + v);
  return old;
}
inline unsigned atomicAdd(unsigned* p, unsigned v) { return add_at(p, v); }
inline int atomicAdd(int* p, int v) { return static_cast<int>(add_at(reinterpret_cast<unsigned*>(p), static_cast<unsigned>(v))); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return add_at(p, v); }
inline float atomicAdd(float* p, float v) { return add_at(p, v); }
inline int atomicMax(int* p, int v) {
  const int old = *p;
  *p = old > v ? old : v;
  return old;
}
inline unsigned atomicExch(unsigned* p, unsigned v) {
  const unsigned old = *p;
  *p = v;
  return old;
}
template <typename T>
inline T __ldg(const T* p) {
  return *p;
}

// ---- bits and arithmetic

inline unsigned __float_as_uint(float f) { return std::bit_cast<unsigned>(f); }
inline float __uint_as_float(unsigned u) { return std::bit_cast<float>(u); }
inline int __float_as_int(float f) { return std::bit_cast<int>(f); }
inline float __int_as_float(int i) { return std::bit_cast<float>(i); }
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
// Four bytes of the eight of y:x, each by a nibble of s; bit 3 of the nibble: the byte's sign, eight times.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned pick = s >> (4 * i) & 15u;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7u))) & 0xffu;
    if ((pick & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    out |= byte << (8 * i);
  }
  return out;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline int __float2int_rn(float f) { return static_cast<int>(rintf(f)); }
inline unsigned long long __float2ull_rn(float f) { return static_cast<unsigned long long>(rintf(f)); }

#define KVRT_MIN_MAX(A, B, R)                                                                                         \
  constexpr R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
  constexpr R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
KVRT_MIN_MAX(int, int, int)
KVRT_MIN_MAX(unsigned, unsigned, unsigned)
KVRT_MIN_MAX(int, unsigned, unsigned)
KVRT_MIN_MAX(unsigned, int, unsigned)
KVRT_MIN_MAX(long, long, long)
KVRT_MIN_MAX(unsigned long, unsigned long, unsigned long)
KVRT_MIN_MAX(long, unsigned long, unsigned long)
KVRT_MIN_MAX(unsigned long, long, unsigned long)
KVRT_MIN_MAX(long long, long long, long long)
KVRT_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
KVRT_MIN_MAX(long long, unsigned long long, unsigned long long)
KVRT_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef KVRT_MIN_MAX
// As on a device: a NaN loses.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
