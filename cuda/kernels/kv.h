// A row of a head on its way into the pool, rounded as the CPU rounds it (runtime/compute/NUMERICS.md §7).
#pragma once

#include "cuda/kernels/attention.h"

namespace kvrt::cuda {

inline constexpr uint32_t kStoreThreads = 128;  // threads of a block that stores a head

// Stores a row as elements and one scale; the elements lie `step` bytes apart, from `to` on. int8 transforms keys, but not latents.
template <KvFormat format>
__device__ __forceinline__ void store_scaled(const float* row, uint32_t dim, bool key, bool latent, uint8_t* to, uint32_t step,
                                             uint16_t* scale_at) {
  __shared__ float x[kHeadDimMax];
  __shared__ float maxima[kStoreThreads / kWarp];
  for (uint32_t i = threadIdx.x; i < dim; i += kStoreThreads) x[i] = row[i];
  if (format == KvFormat::kI8 && key && !latent) hadamard(hadamard_dim(dim), dim, x);
  __syncthreads();
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

// Stores the elements `from` of a head's K (key) or V in its format at the position of a row of the step.
template <KvFormat format>
__device__ __forceinline__ void store_rounded(const KvLayer& kv, uint8_t* pool, const DeviceStep& step, uint32_t row, uint32_t head,
                                              bool key, const float* from) {
  const int32_t position = step.positions[row];
  const int32_t* table = step.tables + step.tables_at[row];
  uint8_t* to = pool + (key ? kv.key_at(table, head, position) : kv.value_at(table, head, position));
  const uint32_t apart = key ? kv.k_row_bytes() : kv.v_elem, dim = key ? kv.k_dim : kv.v_dim;
  if constexpr (kv_scaled(format)) {
    uint8_t* scale = pool + kv.scale_at(key ? kv.k_scales_at : kv.v_scales_at, table, head, position);
    store_scaled<format>(from, dim, key, kv.latent, to, apart, reinterpret_cast<uint16_t*>(scale));
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
      break;
  }
}

// The same, in K's or V's format, by a block of kStoreThreads. Does nothing where the row says that they are there already.
template <typename Kv>
__device__ __forceinline__ void store_head(const KvLayer& kv, uint8_t* pool, const DeviceStep& step, uint32_t row, uint32_t head, bool key,
                                           const float* from) {
  if (step.stores[row] == 0) return;
  with_format(key ? Kv::k(kv) : Kv::v(kv), [&]<KvFormat format>() { store_rounded<format>(kv, pool, step, row, head, key, from); });
}

}  // namespace kvrt::cuda
