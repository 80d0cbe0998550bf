// Code that the kernels of attention share: the places of K and V of a layer, the transform of keys and queries, pairs of 16-bit numbers
// for tensor cores.
#pragma once

#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {

inline constexpr uint32_t kHeadDimMax = 576;

// A layer's part of every block, as byte offsets from the pool's begin (runtime/compute/step.h).
struct KvLayer {
  uint64_t layer_at, block_bytes, v_at, k_scales_at, v_scales_at;
  uint32_t k_dim, v_dim, k_elem, v_elem, token_shift;  // block_tokens = 1 << token_shift; bytes of a cell
  uint32_t k_slot, k_row, v_row;                       // bytes from a position's K to the next one's, from a cell of K, a position's V
  uint32_t k_cells, v_cells;                           // of a row
  KvFormat k_format, v_format;
  bool latent, transforms_keys, transforms_values;

  __device__ __forceinline__ uint32_t slot(int32_t position) const { return static_cast<uint32_t>(position) & ((1u << token_shift) - 1); }
  __device__ __forceinline__ uint64_t block_at(const int32_t* table, int32_t position) const {
    return layer_at + static_cast<uint64_t>(table[position >> token_shift]) * block_bytes;
  }
  // The first element of a position's K; the next one is k_row_bytes() further.
  __device__ __forceinline__ uint64_t key_at(const int32_t* table, uint32_t head, int32_t position) const {
    return block_at(table, position) + (uint64_t{head} * k_cells << token_shift) * k_elem + slot(position) * k_slot;
  }
  __device__ __forceinline__ uint32_t k_row_bytes() const { return k_row; }
  // The first element of a position's V; the block's next position is v_row_bytes() further.
  __device__ __forceinline__ uint64_t value_at(const int32_t* table, uint32_t head, int32_t position) const {
    return block_at(table, position) + v_at + (uint64_t{head} * v_cells << token_shift) * v_elem + slot(position) * v_row_bytes();
  }
  __host__ __device__ __forceinline__ uint32_t v_row_bytes() const { return v_row; }
  // A position's scale of K (k_scales_at) or V (v_scales_at), where a row has one.
  __device__ __forceinline__ uint64_t scale_at(uint64_t scales_at, const int32_t* table, uint32_t head, int32_t position) const {
    return block_at(table, position) + scales_at + ((head << token_shift) + slot(position)) * kKvScaleBytes;
  }
  // The first of a position's scales of K or V; the next group's is (2 << token_shift) bytes further.
  __device__ __forceinline__ uint64_t scales_of(bool values, const int32_t* table, uint32_t head, int32_t position) const {
    const uint32_t cells = values ? v_cells : k_cells,
                   scales = (values ? v_format : k_format) == KvFormat::kI4 ? cells / (kInt4Group / 2) : 1;
    return block_at(table, position) + (values ? v_scales_at : k_scales_at) +
           ((head * scales << token_shift) + slot(position)) * kKvScaleBytes;
  }
};

inline KvLayer kv_layer(const KvGeometry& kv, uint32_t layer) {
  KvLayer out{};
  out.layer_at = layer * kv.layer_bytes();
  out.block_bytes = kv.block_bytes();
  out.v_at = kv.v_at();
  out.k_scales_at = kv.k_scales_at();
  out.v_scales_at = kv.v_scales_at();
  out.k_dim = kv.k.dim;
  out.v_dim = kv.v.dim;
  out.k_elem = kv.k.cell_bytes();
  out.v_elem = kv.v.cell_bytes();
  out.k_format = kv.k.format;
  out.v_format = kv.v.format;
  out.k_cells = kv.k.cells();
  out.v_cells = kv.v_rows().cells();
  out.latent = kv.latent;
  out.transforms_keys = kv.transforms_keys();
  out.transforms_values = kv.transforms_values();
  while (1u << out.token_shift < kv.block_tokens) ++out.token_shift;
  out.k_slot = kv.latent ? out.k_cells * out.k_elem : out.k_elem;
  out.k_row = kv.latent ? out.k_elem : out.k_elem << out.token_shift;
  out.v_row = out.v_cells * out.v_elem;
  return out;
}

// The formats of K and V that a kernel is for: one that both have, known to the compiler; or two, which the kernel looks up. So there is one
// kernel more, not one for each pair.
template <KvFormat format>
struct Alike {
  static constexpr uint32_t kElemMax = kv_cell_bytes(format);                           // bytes of an element at most
  static constexpr bool kScaled = kv_scaled(format);                                    // K or V may have scales
  static constexpr bool kTensor = format != KvFormat::kF32 && format != KvFormat::kI4;  // there are kernels on tensor cores
  static __host__ __device__ __forceinline__ constexpr KvFormat k(const KvLayer&) { return format; }
  static __host__ __device__ __forceinline__ constexpr KvFormat v(const KvLayer&) { return format; }
};
struct Unlike {
  static constexpr uint32_t kElemMax = 2;  // on tensor cores
  static constexpr bool kScaled = true, kTensor = true;
  static __host__ __device__ __forceinline__ KvFormat k(const KvLayer& kv) { return kv.k_format; }
  static __host__ __device__ __forceinline__ KvFormat v(const KvLayer& kv) { return kv.v_format; }
};

// Calls fn.operator()<F>() with Alike or Unlike as F.
template <typename Fn>
void with_formats(const KvGeometry& kv, const Fn& fn) {
  if (kv.k.format != kv.v.format) return fn.template operator()<Unlike>();
  switch (kv.k.format) {
    case KvFormat::kF16:
      return fn.template operator()<Alike<KvFormat::kF16>>();
    case KvFormat::kBF16:
      return fn.template operator()<Alike<KvFormat::kBF16>>();
    case KvFormat::kF32:
      return fn.template operator()<Alike<KvFormat::kF32>>();
    case KvFormat::kI8:
      return fn.template operator()<Alike<KvFormat::kI8>>();
    case KvFormat::kF8:
      return fn.template operator()<Alike<KvFormat::kF8>>();
    case KvFormat::kI4:
      return fn.template operator()<Alike<KvFormat::kI4>>();
  }
}

// Tensor cores take both formats.
inline bool on_tensor_cores(KvFormat format) { return format != KvFormat::kF32 && format != KvFormat::kI4; }
// A row has one scale.
__host__ __device__ __forceinline__ constexpr bool one_scale(KvFormat format) { return kv_scaled(format) && format != KvFormat::kI4; }

// The length of the runs that are transformed (runtime/compute/NUMERICS.md §7): the largest power of two that divides k_dim.
__host__ __device__ __forceinline__ uint32_t hadamard_dim(uint32_t k_dim) { return k_dim & (0 - k_dim); }

// The factor of q · k.
inline float score_scale(const KvGeometry& kv, float scale) {
  return kv.transforms_keys() ? scale / static_cast<float>(hadamard_dim(kv.k.dim)) : scale;
}

// A whole block transforms n elements in shared memory; a barrier comes before and after.
__device__ __forceinline__ void hadamard(uint32_t dim, uint32_t n, float* x) {
  __syncthreads();
  for (uint32_t half = 1; half < dim; half *= 2) {
    for (uint32_t pair = threadIdx.x; pair < n / 2; pair += blockDim.x) {
      const uint32_t at = 2 * pair - (pair & (half - 1));
      const float a = x[at], b = x[at + half];
      x[at] = a + b;
      x[at + half] = a - b;
    }
    __syncthreads();
  }
}

// The positions that a row sees.
struct Seen {
  int32_t first, last;
  __device__ __forceinline__ bool has(int32_t position) const { return position >= first && position <= last; }
  __device__ __forceinline__ bool any(int32_t position, int32_t n) const { return position <= last && position + n > first; }
};
__device__ __forceinline__ Seen seen_from(int32_t position, uint32_t window) {
  const int64_t first = window > 0 ? int64_t{position} + 1 - window : 0;
  return {first > 0 ? static_cast<int32_t>(first) : 0, position};
}

// Four of int4's levels as bytes, from the i-th four.
constexpr uint32_t int4_levels(uint32_t i) {
  uint32_t word = 0;
  for (uint32_t j = 0; j < 4; ++j) word |= static_cast<uint32_t>(static_cast<uint8_t>(kInt4Levels[4 * i + j])) << 8 * j;
  return word;
}
__device__ __forceinline__ float int4_level(uint32_t code) {
  constexpr uint32_t kWords[] = {int4_levels(0), int4_levels(1), int4_levels(2), int4_levels(3)};
  const uint32_t low = __byte_perm(kWords[0], kWords[1], code & 7), high = __byte_perm(kWords[2], kWords[3], code & 7);
  return static_cast<int8_t>(code < 8 ? low : high);
}

__device__ __forceinline__ float int4_try(uint32_t i) {
  constexpr float kFirst = kInt4Tries[0], kSecond = kInt4Tries[2], kThird = kInt4Tries[4];
  const float size = i < 2 ? kFirst : i < 4 ? kSecond : kThird;
  return i % 2 == 0 ? size : -size;
}

// int4 has elements of its own: int4_level.
__device__ __forceinline__ float kv_element(KvFormat format, const uint8_t* at) {
  switch (format) {
    case KvFormat::kF16:
      return f16_to_float(*reinterpret_cast<const uint16_t*>(at));
    case KvFormat::kBF16:
      return bf16_to_float(*reinterpret_cast<const uint16_t*>(at));
    case KvFormat::kF32:
      return *reinterpret_cast<const float*>(at);
    case KvFormat::kI8:
      return *reinterpret_cast<const int8_t*>(at);
    case KvFormat::kF8:
      return f16_to_float(fp8_as_f16(*at));
    case KvFormat::kI4:
      break;
  }
  return 0;
}

// ---- pairs of 16-bit numbers, as tensor cores multiply them: bf16 where KV is bf16, else f16

template <bool bf16>
__device__ __forceinline__ uint32_t to_pair(float low, float high) {
#ifdef KVRT_CUDA_EMULATION
  return bf16 ? float_to_bf16(low) | static_cast<uint32_t>(float_to_bf16(high)) << 16
              : float_to_f16(low) | static_cast<uint32_t>(float_to_f16(high)) << 16;
#else
  if constexpr (bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return __bfloat16_as_ushort(pair.x) | static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return __half_as_ushort(__low2half(pair)) | static_cast<uint32_t>(__half_as_ushort(__high2half(pair))) << 16;
  }
#endif
}
// The rest that to_pair left off, as a pair: both together are the number to 2^-22 of it (bf16: 2^-17).
template <bool bf16>
__device__ __forceinline__ uint32_t to_rest(uint32_t pair, float low, float high) {
  const auto part = [pair](uint32_t shift) {
    const auto h = static_cast<uint16_t>(pair >> shift);
    return bf16 ? bf16_to_float(h) : f16_to_float(h);
  };
  return to_pair<bf16>(low - part(0), high - part(16));
}
// The same, where the kernel looks up which.
__device__ __forceinline__ uint32_t to_pair(bool bf16, float low, float high) {
  return bf16 ? to_pair<true>(low, high) : to_pair<false>(low, high);
}
__device__ __forceinline__ uint32_t to_rest(bool bf16, uint32_t pair, float low, float high) {
  return bf16 ? to_rest<true>(pair, low, high) : to_rest<false>(pair, low, high);
}

// Takes two bytes, each plus 128, between bytes 0x64, which are 1024 + byte as f16. Less 1152 they are the signed bytes, exactly.
__device__ __forceinline__ uint32_t less_1152(uint32_t pair) {
#ifdef KVRT_CUDA_EMULATION
  return to_pair<false>(f16_to_float(static_cast<uint16_t>(pair)) - 1152.0f, f16_to_float(static_cast<uint16_t>(pair >> 16)) - 1152.0f);
#else
  const __half2 x = __halves2half2(__ushort_as_half(static_cast<uint16_t>(pair)), __ushort_as_half(static_cast<uint16_t>(pair >> 16)));
  const __half2 y = __hsub2(x, __float2half2_rn(1152.0f));
  return __half_as_ushort(__low2half(y)) | static_cast<uint32_t>(__half_as_ushort(__high2half(y))) << 16;
#endif
}
// Bytes 0 and 1 (first) or 2 and 3 of a word of int8, as a pair of f16.
template <bool first>
__device__ __forceinline__ uint32_t int8_pair(uint32_t word) {
  return less_1152(__byte_perm(word ^ 0x80808080u, 0x64646464u, first ? 0x4140 : 0x4342));
}

// Likewise for fp8: the bits, except the sign, lie one place below the top of a half.
template <bool first>
__device__ __forceinline__ uint32_t fp8_pair(uint32_t word) {
  const uint32_t x = __byte_perm(word, 0, first ? 0x1404 : 0x3424);
  return (x & 0x80008000u) | (x >> 1 & 0x3f803f80u);
}
template <bool first>
__device__ __forceinline__ uint32_t byte_pair(KvFormat format, uint32_t word) {
  return format == KvFormat::kF8 ? fp8_pair<first>(word) : int8_pair<first>(word);
}

// A number beyond f16's range becomes the largest that f16 has; a NaN stays a NaN.
__device__ __forceinline__ float within_f16(float x) {
  x = x > 65504.0f ? 65504.0f : x;
  return x < -65504.0f ? -65504.0f : x;
}

// The power of two in x, kept far from both ends of the range; its inverse is exact.
__device__ __forceinline__ float power_in(float x) {
  const uint32_t exponent = __float_as_uint(x) >> 23 & 0xffu;
  return __uint_as_float(min(max(exponent, 64u), 190u) << 23);
}

}  // namespace kvrt::cuda
