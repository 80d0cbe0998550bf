// A row of a head on its way into the pool, rounded as the CPU rounds it (runtime/compute/NUMERICS.md §7).
#pragma once

#include "cuda/kernels/attention.h"

namespace kvrt::cuda {

inline constexpr uint32_t kStoreThreads = 128;  // threads of a block that stores a head

// Stores a row as elements and one scale; the elements lie `step` bytes apart, from `to` on.
template <KvFormat format>
__device__ __forceinline__ void store_scaled(const float* x, uint32_t dim, bool key, uint8_t* to, uint32_t step, uint16_t* scale_at) {
  __shared__ float maxima[kStoreThreads / kWarp];
  float max = 0;
  for (uint32_t i = threadIdx.x; i < dim; i += kStoreThreads) max = fmaxf(fabsf(x[i]), max);
  max = warp_max(max);
  if (threadIdx.x % kWarp == 0) maxima[threadIdx.x / kWarp] = max;
  __syncthreads();
  for (uint32_t w = 0; w < kStoreThreads / kWarp; ++w) max = fmaxf(maxima[w], max);
  constexpr bool fp8 = format == KvFormat::kF8;
  const float top = fp8 ? kFp8Top : key ? kInt8Top : int8_value_top(dim), unit = fp8 ? kFp8Unit : 1.0f, most = top * unit;
  const uint16_t scale = float_to_f16(fminf(max / top, 65504.0f));
  const float inverse = scale > 0 ? unit / f16_to_float(scale) : 0.0f, magic = 12582912.0f;
  for (uint32_t i = threadIdx.x; i < dim; i += kStoreThreads) {
    float v = x[i] * inverse;
    v = v < most ? v : most;
    v = v > -most ? v : -most;
    to[uint64_t{i} * step] = fp8 ? float_to_e4m3(v) : static_cast<uint8_t>(static_cast<int8_t>((v + magic) - magic));
  }
  if (threadIdx.x == 0) *scale_at = scale;
}

// The sum of the lanes' numbers as 16 virtual lanes have it, whose first number is a product and whose second one is added by an fma.
__device__ __forceinline__ float int4_sum(float a, float b, bool has, bool second_has) {
  const float second_a = __shfl_down_sync(kFullWarp, a, 16), second_b = __shfl_down_sync(kFullWarp, b, 16);
  float sum = has ? a * b : 0.0f;
  if (second_has) sum = fmaf(second_a, second_b, sum);
  return __shfl_sync(kFullWarp, warp_sum(sum, 16), 0);
}

// A lane's element of a group of int4 (0, where it has none) becomes *code; returns the group's scale.
__device__ __forceinline__ uint16_t int4_group(float x, bool has, bool second_has, uint32_t* code) {
  const float most = warp_max(x > 0 ? x : 0.0f), least = warp_max(x < 0 ? -x : 0.0f);
  const float largest = (most >= least ? most : -least) / kInt4Top;
  float best = 0, scale = 0;
  for (uint32_t t = 0; t < 6; ++t) {
    float tried = largest * int4_try(t);
    tried = tried < 65504.0f ? tried : 65504.0f;
    tried = f16_to_float(float_to_f16(tried > -65504.0f ? tried : -65504.0f));
    const float v = x * (tried != 0 ? 1.0f / tried : 0.0f);
    uint32_t found = 0;
#pragma unroll
    for (uint32_t level = 1; level < 16; ++level) found += v > (int4_level(level - 1) + int4_level(level)) / 2 ? 1 : 0;
    const float off = fmaf(int4_level(found), -tried, x), error = int4_sum(off, off, has, second_has);
    if (t > 0 && !(error < best)) continue;
    best = error, scale = tried, *code = found;
  }
  const float level = int4_level(*code),
              fit = int4_sum(x, level, has, second_has) / warp_sum(has ? level * level : 0.0f);  // exact in any order
  if (!has) *code = 0;
  return float_to_f16(fabsf(fit) < 65504.0f && scale != 0 ? fit : scale);
}

// Stores a row as groups of int4, a warp for each. Cells lie `step` bytes apart, scales `scale_step` numbers.
__device__ __forceinline__ void store_int4(const float* x, uint32_t dim, uint8_t* to, uint32_t step, uint16_t* scales,
                                           uint32_t scale_step) {
  constexpr uint32_t kHalf = kInt4Group / 2;
  static_assert(kInt4Group == kWarp);
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t group = threadIdx.x / kWarp; group * kInt4Group < dim; group += kStoreThreads / kWarp) {
    const uint32_t i = group * kInt4Group + lane;
    uint32_t code;
    const uint16_t scale = int4_group(i < dim ? x[i] : 0.0f, i < dim, lane < kHalf && i + kHalf < dim, &code);
    const uint32_t high = __shfl_down_sync(kFullWarp, code, kHalf);
    if (lane < kHalf) to[uint64_t{group * kHalf + lane} * step] = static_cast<uint8_t>(code | high << 4);
    if (lane == 0) scales[uint64_t{group} * scale_step] = scale;
  }
}

// Stores the elements `from` of a head's K (key) or V in its format at the position of a row of the step. x: shared, for formats with scales.
template <KvFormat format>
__device__ __forceinline__ void store_rounded(const KvLayer& kv, uint8_t* pool, const DeviceStep& step, uint32_t row, uint32_t head,
                                              bool key, const float* from, float* x) {
  const int32_t position = step.positions[row];
  const int32_t* table = step.tables + step.tables_at[row];
  uint8_t* to = pool + (key ? kv.key_at(table, head, position) : kv.value_at(table, head, position));
  const uint32_t apart = key ? kv.k_row_bytes() : kv.v_elem, dim = key ? kv.k_dim : kv.v_dim;
  if constexpr (kv_scaled(format)) {
    auto* scales = reinterpret_cast<uint16_t*>(pool + kv.scales_of(!key, table, head, position));
    for (uint32_t i = threadIdx.x; i < dim; i += kStoreThreads) x[i] = from[i];
    if (key ? kv.transforms_keys : kv.transforms_values) hadamard(hadamard_dim(dim), dim, x);
    __syncthreads();
    if constexpr (format == KvFormat::kI4) {
      store_int4(x, dim, to, apart, scales, 1u << kv.token_shift);
    } else {
      store_scaled<format>(x, dim, key, to, apart, scales);
    }
  } else {
    for (uint32_t i = threadIdx.x; i < dim; i += kStoreThreads) {
      uint8_t* at = to + uint64_t{i} * apart;
      if constexpr (format == KvFormat::kF16) *reinterpret_cast<uint16_t*>(at) = float_to_f16(from[i]);
      if constexpr (format == KvFormat::kBF16) *reinterpret_cast<uint16_t*>(at) = float_to_bf16(from[i]);
      if constexpr (format == KvFormat::kF32) *reinterpret_cast<float*>(at) = from[i];
    }
  }
}

// Calls fn.operator()<F>() with `format` as F.
template <typename Fn>
__device__ __forceinline__ void with_format(KvFormat format, const Fn& fn) {
  switch (format) {
    case KvFormat::kF16:
      return fn.template operator()<KvFormat::kF16>();
    case KvFormat::kBF16:
      return fn.template operator()<KvFormat::kBF16>();
    case KvFormat::kF32:
      return fn.template operator()<KvFormat::kF32>();
    case KvFormat::kI8:
      return fn.template operator()<KvFormat::kI8>();
    case KvFormat::kF8:
      return fn.template operator()<KvFormat::kF8>();
    case KvFormat::kI4:
      return fn.template operator()<KvFormat::kI4>();
  }
}

// The same, in K's or V's format, by a block of kStoreThreads. Does nothing where the row says that they are there already.
template <typename Kv>
__device__ __forceinline__ void store_head(const KvLayer& kv, uint8_t* pool, const DeviceStep& step, uint32_t row, uint32_t head, bool key,
                                           const float* from) {
  [[maybe_unused]] __shared__ float x[Kv::kScaled ? kHeadDimMax : 1];
  if (step.stores[row] == 0) return;
  with_format(key ? Kv::k(kv) : Kv::v(kv), [&]<KvFormat format>() { store_rounded<format>(kv, pool, step, row, head, key, from, x); });
}

}  // namespace kvrt::cuda
