// Code that all vector kernels share, whatever their instruction set: simd_<isa>.h defines `Simd`, the vector type that the kernel
// templates (math.h and the headers beside it) are written over, and kernels_<isa>_*.cc instantiate them.
//
// Nothing here or there may be an ordinary inline function: the linker might keep the copy compiled for AVX for the whole program.
// So everything is always_inline or a template over Simd, whose name says its instruction set, and no STL is used.
#pragma once

#include <immintrin.h>

#include "runtime/compute/cpu/kernels.h"

// Unrolls the next loop whole: accumulators in an array stay in registers only if every index is a constant.
// Not under sanitizers: with a check at every access, unrolled tiles take the compiler minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVRT_UNROLL
#else
#define KVRT_UNROLL _Pragma("GCC unroll 64")
#endif
#define KVRT_INLINE [[gnu::always_inline]] static inline
#define KVRT_INLINE_MEMBER [[gnu::always_inline]] inline

namespace kvrt {

KVRT_INLINE uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
KVRT_INLINE uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
KVRT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Into L2 alone: more of them can be under way.
KVRT_INLINE void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace kvrt
