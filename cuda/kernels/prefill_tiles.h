// Tiles of K and V in shared memory, as attention in tiles reads them (attention_prefill.cu).
#pragma once

#include "cuda/kernels/attention_bias.h"

namespace kvrt::cuda {

inline constexpr uint32_t kTileThreads = 128;

struct PrefillArgs {
  KvLayer kv;
  DeviceStep step;
  const PrefillTile* tiles;
  const uint8_t* pool;
  const float* q;
  float* out;
  uint32_t heads, group, stride, window;
  float scale, softcap;
  const float* sinks;  // [heads], or null
  ScoreBias bias;
};

// ---- matrices of 16-bit numbers in shared memory, rows of kChunks pieces of 16 bytes

// The place of a row's piece: eight neighbouring rows have theirs in different banks.
template <uint32_t kChunks>
__device__ __forceinline__ uint32_t place(uint32_t row, uint32_t chunk) {
  static_assert(kChunks == 4 || kChunks % 8 == 0);
  return 16 * (row * kChunks + (chunk ^ (kChunks == 4 ? row / 2 % 4 : row % 8)));
}

// Fragments of two products: b[0], b[1] have rows [row, row + 16) of a piece's columns, b[2], b[3] those of the next piece's.
template <uint32_t kChunks>
__device__ __forceinline__ void fragments(const uint8_t* matrix, uint32_t row, uint32_t chunk, uint32_t (&b)[4]) {
  const uint32_t lane = threadIdx.x % kWarp;
#ifdef KVRT_CUDA_EMULATION
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t first = row + i % 2 * 8 + lane % 4 * 2, column = lane / 4;
    const auto at = [&](uint32_t r) { return reinterpret_cast<const uint16_t*>(matrix + place<kChunks>(r, chunk + i / 2))[column]; };
    b[i] = at(first) | static_cast<uint32_t>(at(first + 1)) << 16;
  }
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(matrix + place<kChunks>(row + lane % 16, chunk + lane / 16)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(at)
               : "memory");
#endif
}

// ---- a block's tiles of K and V. Bytes come as they are, next to the tiles, and each thread widens its own pieces.

template <typename Kv, uint32_t kDims>
struct Tiles {
  static constexpr bool kWiden = Kv::kScaled;
  static constexpr uint32_t kKeys = kDims <= 128 ? 64 : 32;
  static constexpr uint32_t kKeyChunks = kKeys / 8, kDimChunks = kDims / 8;  // pieces of a row of the tile
  static constexpr uint32_t kTileBytes = kKeys * kDims * 2, kRawBytes = kWiden ? kKeys * kDims : 0, kScaleBytes = kWiden ? 2 * kKeys : 0;
  static constexpr uint32_t kBytes = 2 * kTileBytes + 2 * kRawBytes + 4 * kScaleBytes + kKeys;

  // A thread's piece of 16 bytes in rows of n elements as they are stored: it has every step-th row, from the first on.
  template <uint32_t n>
  struct Mine {
    uint32_t row, piece, pieces, elems, step;
    explicit __device__ __forceinline__ Mine(bool bytes)
        : row(bytes ? threadIdx.x / (n / 16) : threadIdx.x / (n / 8)),
          piece(bytes ? threadIdx.x % (n / 16) : threadIdx.x % (n / 8)),
          pieces(bytes ? n / 16 : n / 8),
          elems(bytes ? 16 : 8),
          step(bytes ? kTileThreads / (n / 16) : kTileThreads / (n / 8)) {}
  };

  const PrefillArgs& a;
  uint32_t table_at, kv_head;
  Seen seen;  // seen by any row of the query tile
  uint8_t* k;

  __device__ __forceinline__ uint8_t* v() const { return k + kTileBytes; }
  __device__ __forceinline__ const int32_t* table() const { return a.step.tables + table_at; }
  // K or V has bytes with scales.
  __device__ __forceinline__ bool bytes(bool values) const { return kWiden && kv_scaled(values ? Kv::v(a.kv) : Kv::k(a.kv)); }

  __device__ __forceinline__ uint8_t* raw(bool values) const { return k + 2 * kTileBytes + (values ? kRawBytes : 0); }
  // Scales of the tile's keys, and the place for those of the next tile.
  __device__ __forceinline__ uint8_t* scales(bool values, bool next) const {
    return k + 2 * kTileBytes + 2 * kRawBytes + (values ? kScaleBytes : 0) + (next ? 2 * kScaleBytes : 0);
  }

  // Loads K of positions [base, base + kKeys). Keys that are not there keep the old content: it affects their own columns alone.
  __device__ __forceinline__ void load_keys(int32_t base) const {
    const Mine<kKeys> mine(bytes(false));
    const int32_t position = base + static_cast<int32_t>(mine.piece * mine.elems);
    if (seen.any(position, static_cast<int32_t>(mine.elems))) {
      const uint8_t* from = a.pool + a.kv.key_at(table(), kv_head, position);
#pragma unroll 4
      for (uint32_t row = mine.row; row < a.kv.k_dim; row += mine.step) {
        uint8_t* to = bytes(false) ? raw(false) + 16 * (row * mine.pieces + mine.piece) : k + place<kKeyChunks>(row, mine.piece);
        copy_async(to, from + uint64_t{row} * a.kv.k_row_bytes());
      }
    }
    load_scales(false, base);
    copy_async_commit();
  }

  // Likewise V. Tokens that are not seen are zero: they are in every sum over tokens.
  __device__ __forceinline__ void load_values(int32_t base) const {
    const Mine<kDims> mine(bytes(true));
    if (mine.piece * 16 < a.kv.v_row_bytes()) {
#pragma unroll 4
      for (uint32_t key = mine.row; key < kKeys; key += mine.step) {
        const int32_t position = base + static_cast<int32_t>(key);
        uint8_t* to = bytes(true) ? raw(true) + 16 * (key * mine.pieces + mine.piece) : v() + place<kDimChunks>(key, mine.piece);
        if (seen.has(position)) {
          copy_async(to, a.pool + a.kv.value_at(table(), kv_head, position) + mine.piece * 16);
        } else {
          *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
        }
      }
    }
    load_scales(true, base);
    copy_async_commit();
  }

  __device__ __forceinline__ void load_scales(bool values, int32_t base) const {
    if (!bytes(values)) return;
    const uint32_t piece = threadIdx.x;  // a piece has 8 scales
    const int32_t position = base + static_cast<int32_t>(8 * piece);
    if (piece >= kKeys / 8 || !seen.any(position, 8)) return;
    const uint64_t at = a.kv.scale_at(values ? a.kv.v_scales_at : a.kv.k_scales_at, table(), kv_head, position);
    copy_async(scales(values, true) + 16 * piece, a.pool + at);
  }

  __device__ __forceinline__ void widen_scales(bool values) const {
    auto* to = reinterpret_cast<uint4*>(scales(values, false));
    if (threadIdx.x < kKeys / 8) to[threadIdx.x] = reinterpret_cast<const uint4*>(scales(values, true))[threadIdx.x];
  }
  // Each thread takes the pieces that it copied itself, of scales or of a tile. Only where there are bytes.
  __device__ __forceinline__ void widen_keys() const {
    if (!bytes(false)) return;
    const Mine<kKeys> mine(true);
    for (uint32_t row = mine.row; row < a.kv.k_dim; row += mine.step) {
      const uint4 x = *reinterpret_cast<const uint4*>(raw(false) + 16 * (row * mine.pieces + mine.piece));
      widen(Kv::k(a.kv), x, k + place<kKeyChunks>(row, 2 * mine.piece), k + place<kKeyChunks>(row, 2 * mine.piece + 1));
    }
    widen_scales(false);
  }
  __device__ __forceinline__ void widen_values() const {
    if (!bytes(true)) return;
    const Mine<kDims> mine(true);
    if (mine.piece * 16 < a.kv.v_row_bytes()) {
      for (uint32_t key = mine.row; key < kKeys; key += mine.step) {
        const uint4 x = *reinterpret_cast<const uint4*>(raw(true) + 16 * (key * mine.pieces + mine.piece));
        widen(Kv::v(a.kv), x, v() + place<kDimChunks>(key, 2 * mine.piece), v() + place<kDimChunks>(key, 2 * mine.piece + 1));
      }
    }
    widen_scales(true);
  }
  static __device__ __forceinline__ void widen(KvFormat format, uint4 x, uint8_t* low, uint8_t* high) {
    *reinterpret_cast<uint4*>(low) = make_uint4(byte_pair<true>(format, x.x), byte_pair<false>(format, x.x), byte_pair<true>(format, x.y),
                                                byte_pair<false>(format, x.y));
    *reinterpret_cast<uint4*>(high) = make_uint4(byte_pair<true>(format, x.z), byte_pair<false>(format, x.z), byte_pair<true>(format, x.w),
                                                 byte_pair<false>(format, x.w));
  }
  // A byte per key: its V, as it is stored, has an infinity or a NaN.
  __device__ __forceinline__ uint8_t* odd_keys() const { return k + kBytes - kKeys; }
  __device__ __forceinline__ void clear_odd_keys() const {
    if (threadIdx.x < kKeys) odd_keys()[threadIdx.x] = 0;
  }
  // Sets such elements to 0 where some row does not see them: 0 * infinity is no number. Each thread takes the pieces that it copied.
  __device__ __forceinline__ void find_odd_keys() const {
    if (bytes(true)) return;
    const Mine<kDims> mine(false);
    if (mine.piece * 16 >= a.kv.v_row_bytes()) return;
    const uint32_t exponent = Kv::v(a.kv) == KvFormat::kBF16 ? 0x7f80 : 0x7c00;  // all its bits
    const auto odd = [exponent](uint32_t pair) {                                 // bits 15 and 31: the exponent is all ones
      return ((pair & 0x7fff7fffu) + (0x8000 - exponent) * 0x10001u) & 0x80008000u;
    };
    for (uint32_t key = mine.row; key < kKeys; key += mine.step) {
      uint8_t* at = v() + place<kDimChunks>(key, mine.piece);
      const uint4 x = *reinterpret_cast<const uint4*>(at);
      if ((odd(x.x) | odd(x.y) | odd(x.z) | odd(x.w)) == 0) continue;
      odd_keys()[key] = 1;
      for (uint32_t i = 0; i < 8; ++i) {
        uint16_t& element = reinterpret_cast<uint16_t*>(at)[i];
        if ((element & exponent) == exponent) element = 0;
      }
    }
  }
  // The scales of the key 8 n + 2 t and of the next one.
  __device__ __forceinline__ float2 scale_pair(bool values, uint32_t n) const {
    const uint32_t pair = reinterpret_cast<const uint32_t*>(scales(values, false))[4 * n + threadIdx.x % 4];
    return make_float2(f16_to_float(static_cast<uint16_t>(pair)), f16_to_float(static_cast<uint16_t>(pair >> 16)));
  }
};

}  // namespace kvrt::cuda
