// The functions that kernels use: conversions, the exp of NUMERICS.md, reductions of fixed order, and the few operations that have a form
// of their own on a device (dot products of bytes, tensor cores, dependent launch). Each of those is one small function with a plain
// variant beside it: under KVRT_CUDA_EMULATION (the host's compiler, tests/cuda/emulation) the plain one runs.
// Compiled with -fmad=false: a product and a sum are one rounding only where fmaf says so.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/device_functions.h"
#define KVRT_DYNAMIC_SHARED(name) uint8_t* const name = ::kvrt::emulation::dynamic_shared()
#define KVRT_CUDA_UNROLL
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KVRT_DYNAMIC_SHARED(name) extern __shared__ __align__(16) uint8_t name[]
// Unrolls the next loop whole: an array stays in registers only if every index is a constant.
#define KVRT_CUDA_UNROLL _Pragma("unroll")
#endif

namespace kvrt::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kFullWarp = 0xffffffffu;

// ---- conversions: to nearest even; f16 beyond 65,504 to infinity

__device__ __forceinline__ float f16_to_float(uint16_t h) {
#ifdef KVRT_CUDA_EMULATION
  return emulation::f16_to_float(h);
#else
  return __half2float(__ushort_as_half(h));
#endif
}
__device__ __forceinline__ uint16_t float_to_f16(float f) {
#ifdef KVRT_CUDA_EMULATION
  return emulation::float_to_f16(f);
#else
  return __half_as_ushort(__float2half_rn(f));
#endif
}
// A number beyond 65,504 becomes that. A matmul on tensor cores reads activations so.
__device__ __forceinline__ uint16_t float_to_f16_saturated(float f) { return float_to_f16(fminf(fmaxf(f, -65504.0f), 65504.0f)); }
__device__ __forceinline__ float bf16_to_float(uint16_t h) { return __uint_as_float(static_cast<uint32_t>(h) << 16); }
__device__ __forceinline__ uint16_t float_to_bf16(float f) {
#ifdef KVRT_CUDA_EMULATION
  return emulation::float_to_bf16(f);
#else
  return __bfloat16_as_ushort(__float2bfloat16_rn(f));
#endif
}
// e4m3 (OCP FP8: exponents' bias 7, 3 bits of fraction, no infinities): a number beyond 448 becomes that; a NaN stays a NaN.
__device__ __forceinline__ uint8_t float_to_e4m3(float f) {
  const uint32_t bits = __float_as_uint(f), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  uint32_t code;
  if (magnitude < 0x3c800000) {  // below 2^-6: in units of 2^-9, which are those of 2^14's last bit
    code = __float_as_uint(__uint_as_float(magnitude) + 16384.0f) & 0xf;
  } else {
    code = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3);  // the exponents' biases: 127 and 7
    code = magnitude > 0x7f800000 ? 0x7f : min(code, 0x7eu);
  }
  return static_cast<uint8_t>(sign | code);
}
// The power of two by which a row of that largest magnitude is divided before it becomes e4m3: the quotient is at most 448 = 1.75 * 2^8,
// and more than 224. It is at least 2^-100; 2^120 for an infinity.
__device__ __forceinline__ float e4m3_scale(float largest) {
  const uint32_t bits = min(__float_as_uint(largest), 0x7f7fffffu), exponent = (bits >> 23) + ((bits & 0x7fffff) > 0x600000 ? 1 : 0);
  return __uint_as_float((max(exponent, 8 + 27u) - 8) << 23);
}
// 1 / scale, exact.
__device__ __forceinline__ float e4m3_inverse(float scale) { return __uint_as_float((254u << 23) - __float_as_uint(scale)); }

// 2^(e - 128), denormal below 2.
__device__ __forceinline__ float e8m0_to_float(uint8_t e) {
  return __uint_as_float(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

// ---- functions: the polynomials of runtime/compute/NUMERICS.md §1, so that a device rounds as the CPU does

__device__ __forceinline__ float exp_of(float x) {  // x ≤ 88; below -64 the result is that of -64
  x = -64.0f > x ? -64.0f : x;
  const float magic = 12582912.0f, log2e = 0x1.715476p+0f;
  const float shifted = fmaf(x, log2e, magic), n = shifted - magic, r = fmaf(x, log2e, -n);
  float p = 0x1.5bb9b6p-10f;
  p = fmaf(p, r, 0x1.3ceae2p-7f);
  p = fmaf(p, r, 0x1.c6b756p-5f);
  p = fmaf(p, r, 0x1.ebf9bap-3f);
  p = fmaf(p, r, 0x1.62e42ap-1f);
  p = fmaf(p, r, 1.0f);
  return p * __uint_as_float((__float_as_uint(shifted) - 0x4b400000u + 127u) << 23);
}
__device__ __forceinline__ float tanh_of(float x) {
  const float a = fabsf(x);
  if (a < 0.625f) {
    const float z = x * x;
    float p = -0x1.75e1cap-8f;
    p = fmaf(p, z, 0x1.52269ap-6f);
    p = fmaf(p, z, -0x1.b83c5ap-5f);
    p = fmaf(p, z, 0x1.110726p-3f);
    p = fmaf(p, z, -0x1.555532p-2f);
    return fmaf(p * z, x, x);
  }
  const float e = exp_of(-2.0f * a), far = 1.0f - (e + e) / (1.0f + e);
  return x < 0 ? -far : far;
}
__device__ __forceinline__ float softcap_of(float x, float cap) { return cap * tanh_of(x / cap); }

// x / (1 + exp(-t)) * up, for an x of any size
__device__ __forceinline__ float gate_mul_of(float x, float t, float up) {
  const float fall = -fabsf(t), e = -64.0f < fall ? exp_of(fall) : 0.0f;
  return ((t < 0.0f ? x * e : x) / (1.0f + e)) * up;
}
__device__ __forceinline__ float silu_mul_of(float gate, float up) { return gate_mul_of(gate, gate, up); }
__device__ __forceinline__ float gelu_mul_of(float gate, float up) {
  return gate_mul_of(gate, fmaf(gate * gate, 0x1.2444f2p-4f, 0x1.988454p+0f) * gate, up);
}

__device__ __forceinline__ float clamped_swiglu_of(float gate, float up) {
  constexpr float kLimit = 7.0f;
  const float g = kLimit < gate ? kLimit : gate, low = kLimit < up ? kLimit : up;  // a NaN stays
  return gate_mul_of(g, 1.702f * g, (-kLimit > low ? -kLimit : low) + 1.0f);
}

// ---- reductions: the same order whatever the launch, so the same bits

// The sum over `width` neighbouring lanes, a power of two; every lane gets the result.
__device__ __forceinline__ float warp_sum(float x, uint32_t width = kWarp) {
  for (uint32_t lane = width / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(kFullWarp, x, static_cast<int>(lane));
  return x;
}
__device__ __forceinline__ float warp_max(float x, uint32_t width = kWarp) {
  for (uint32_t lane = width / 2; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, static_cast<int>(lane)));
  return x;
}
// The sum over a block of whole warps, for every thread. `scratch` holds a float per warp; the function has barriers before and after.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
  const uint32_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[warp] = x;
  __syncthreads();
  float sum = scratch[0];
  for (uint32_t w = 1; w < warps; ++w) sum += scratch[w];
  return sum;
}

// ---- dot products of bytes

// sum += a · b of four signed bytes each.
__device__ __forceinline__ int32_t dot4(int32_t a, int32_t b, int32_t sum) {
#ifdef KVRT_CUDA_EMULATION
  return emulation::dot4(a, b, sum);
#else
  return __dp4a(a, b, sum);
#endif
}

// ---- loads that are not used again: past the L1 cache. 16 bytes, aligned.

__device__ __forceinline__ uint4 load_once(const void* p) {
#ifdef KVRT_CUDA_EMULATION
  return *static_cast<const uint4*>(p);
#else
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
#endif
}

// 8 and 4 bytes, aligned, likewise.
__device__ __forceinline__ uint2 load_once_8(const void* p) {
#ifdef KVRT_CUDA_EMULATION
  return *static_cast<const uint2*>(p);
#else
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
#endif
}
__device__ __forceinline__ uint32_t load_once_4(const void* p) {
#ifdef KVRT_CUDA_EMULATION
  return *static_cast<const uint32_t*>(p);
#else
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
#endif
}

// ---- tensor cores: a warp's d[16, 8] += a[16, 16] · b[16, 8]; the fragments lie as PTX's mma.m16n8k16 has them. With g = lane / 4 and
// t = lane % 4: a[0] row g, cols 2t, 2t + 1; a[1] row g + 8; a[2], a[3] the same at cols + 8; b[0] rows 2t, 2t + 1 of column g; b[1] rows
// + 8; d[0], d[1] row g, cols 2t, 2t + 1; d[2], d[3] row g + 8.

template <bool bf16>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef KVRT_CUDA_EMULATION
  emulation::mma_16x8x16(d, a, b, bf16);
#elif __CUDA_ARCH__ >= 800
  if constexpr (bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else  // sm_75: f16 as two products of 8 columns each; it has no bf16, which goes by shuffles, slow and right
  if constexpr (!bf16) {
    for (uint32_t half = 0; half < 2; ++half) {
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
    return;
  }
  const uint32_t lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const auto part = [](uint32_t w, uint32_t shift) { return bf16_to_float(static_cast<uint16_t>(w >> shift)); };
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll 1
    for (uint32_t pair = 0; pair < 4; ++pair) {
      const uint32_t a0 = __shfl_sync(kFullWarp, a[2 * half], static_cast<int>(4 * g + pair));
      const uint32_t a1 = __shfl_sync(kFullWarp, a[2 * half + 1], static_cast<int>(4 * g + pair));
      const uint32_t b0 = __shfl_sync(kFullWarp, b[half], static_cast<int>(4 * (2 * t) + pair));
      const uint32_t b1 = __shfl_sync(kFullWarp, b[half], static_cast<int>(4 * (2 * t + 1) + pair));
#pragma unroll
      for (uint32_t shift = 0; shift < 32; shift += 16) {
        d[0] = fmaf(part(a0, shift), part(b0, shift), d[0]);
        d[1] = fmaf(part(a0, shift), part(b1, shift), d[1]);
        d[2] = fmaf(part(a1, shift), part(b0, shift), d[2]);
        d[3] = fmaf(part(a1, shift), part(b1, shift), d[3]);
      }
    }
  }
#endif
}

// Likewise for signed bytes, with exact sums: a0, a1 rows g and g + 8 of cols 4t .. 4t + 3, b rows 4t .. 4t + 3 of column g; d as above.
__device__ __forceinline__ void mma_s8_16x8x16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#ifdef KVRT_CUDA_EMULATION
  const uint32_t lane = emulation::lane_index(), g = lane / 4, t = lane % 4;
  uint32_t b_words[kWarp];
  const auto all_lanes = [](uint32_t word) {
    return emulation::exchange(emulation::Collective::kMma, kFullWarp, word, __FILE__, __LINE__);
  };
  const uint32_t* words = all_lanes(b);
  for (uint32_t i = 0; i < kWarp; ++i) b_words[i] = words[i];
  for (uint32_t half = 0; half < 2; ++half) {
    words = all_lanes(half == 0 ? a0 : a1);
    for (uint32_t i = 0; i < 8; ++i) {  // column 2t + i / 4, word i % 4
      int32_t& sum = d[2 * half + i / 4];
      sum = dot4(static_cast<int32_t>(words[4 * g + i % 4]), static_cast<int32_t>(b_words[4 * (2 * t + i / 4) + i % 4]), sum);
    }
  }
#elif __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
#else
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a0), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a1), "r"(b));
#endif
}

// Likewise of 32 columns, words of a and b in the order of two such products: a = {row g, row g + 8, row g, row g + 8}.
__device__ __forceinline__ void mma_s8_16x8x32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if !defined(KVRT_CUDA_EMULATION) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  mma_s8_16x8x16(d, a[0], a[1], b[0]);
  mma_s8_16x8x16(d, a[2], a[3], b[1]);
#endif
}

// ---- 16 bytes from global to shared memory while the block computes; both aligned. commit ends a group of copies, wait<n> waits until at
// most the n last groups are under way; a barrier must follow before other threads read.

__device__ __forceinline__ void copy_async(void* shared, const void* global) {
#ifdef KVRT_CUDA_EMULATION
  emulation::copy_async(shared, global);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#else
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
#endif
}
__device__ __forceinline__ void copy_async_commit() {
#ifdef KVRT_CUDA_EMULATION
  emulation::copy_async_commit();
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
template <int n>
__device__ __forceinline__ void copy_async_wait() {
#ifdef KVRT_CUDA_EMULATION
  emulation::copy_async_wait(n);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

// ---- dependent launch (Stream::overlap): wait until the kernel ahead is complete and its writes are seen; let the next one begin.

__device__ __forceinline__ void grid_wait() {
#if !defined(KVRT_CUDA_EMULATION) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void grid_launch_next() {
#if !defined(KVRT_CUDA_EMULATION) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace kvrt::cuda
