// Rows of x for a block of matvec: as another kernel has left them, or in shared memory, where the block normalizes and quantizes them
// itself while its first weights are on their way. The arithmetic is quantize.h's, so the bits are those of quantize_rows.
//
// Every block, of one to four panels, pays for that: it reads cols * 4 bytes of each row from L2 (8 with a norm), and does cols / 16
// dependent fma for the norm and some 75 instructions per 128 elements. It saves a launch, 1.3 us in a graph, and a kernel that waits for
// L2 and computes the same norm. By that count the blocks together may quantize so often that a multiprocessor has some 3,500 cycles of
// instructions for it, since HBM lets it wait for three cycles of four: matvec_takes_rows().
#pragma once

#include <type_traits>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/quantize.h"

namespace kvrt::cuda {

// Row 0 is the first that the block works on.
struct MatvecRows {
  const float* plain;  // [count][cols]
  const int8_t* q;     // as DeviceQuantRows has them, in groups of the kernel's kGroup
  const float *d, *s;
  const uint32_t* sums;
  uint32_t count, row_blocks;  // row_blocks: the blocks that a row has room for
  // The index of row `i`; beyond the last it is that of the last, and its results are not stored.
  __device__ __forceinline__ uint32_t row(uint32_t i) const { return min(i, count - 1); }
};

inline constexpr uint32_t kOwnRowsMax = 8;

// The shared memory of a block's own n rows as integers, in groups of 1 or 2. A row's room is an odd number of blocks, so that lanes that
// read the same block of 8 rows meet different banks. Groups of 8 would need more memory than a kernel has by default.
constexpr uint32_t own_quant_group(uint32_t n) { return n <= 2 ? 1 : 2; }
constexpr uint32_t own_quant_room(uint32_t n, uint32_t cols) {  // in blocks
  return (n + own_quant_group(n) - 1) / own_quant_group(n) * own_quant_group(n) * (cols / kQuantBlock | 1);
}
constexpr uint32_t own_quant_bytes(uint32_t n, uint32_t cols) { return own_quant_room(n, cols) * (kQuantBlock + 3 * sizeof(float)); }

// The rows of x that a block makes itself. The constructor comes before grid_wait() and touches only the norm's weights; take() is for the
// whole block, after it. group: own_quant_group's.
template <bool quantized, uint32_t group>
struct OwnRows {
  static constexpr uint32_t kWidth = quantized ? kQuantizeWidth : 1;  // elements that a thread takes at a time
  struct alignas(kWidth * sizeof(float)) Piece {
    float v[kWidth];
  };
  uint32_t row, column;  // the place of the thread's next piece, and its norm
  Piece norm{};

  __device__ __forceinline__ OwnRows(const MatvecInput& in, uint32_t cols) {
    row = threadIdx.x * kWidth / cols;
    column = threadIdx.x * kWidth % cols;
    if (in.norm != nullptr) norm = piece(in.norm + column);
  }

  // Takes `count` rows from first_x on. stage: [count][cols] f32, where rows of a plain type stay; `own` has room for DeviceQuantRows. It
  // ends with a barrier.
  __device__ __forceinline__ MatvecRows take(const MatvecInput& in, uint32_t cols, uint32_t first_x, uint32_t count, float* stage,
                                             uint8_t* own) {
    __shared__ float scales[kOwnRowsMax];
    const uint32_t cells = count * cols, step = blockDim.x * kWidth, lane = threadIdx.x % kWarp;
    copy(in.plain + uint64_t{first_x} * cols, cells, stage);
    if (in.norm != nullptr) {
      __syncthreads();
      for (uint32_t r = threadIdx.x / kWarp; r < count; r += blockDim.x / kWarp) {
        const float scale = rms_scale(add_squares<8>(stage + r * cols, cols, 0.0f), cols, in.eps);
        if (lane == 0) scales[r] = scale;
      }
      __syncthreads();
    }
    const uint32_t row_blocks = cols / kQuantBlock | 1, room = own_quant_room(count, cols);
    auto* d = reinterpret_cast<float*>(own + room * kQuantBlock);
    const DeviceQuantRows quant{reinterpret_cast<int8_t*>(own), d, d + room, reinterpret_cast<int16_t*>(d + 2 * room)};
    for (uint32_t i = threadIdx.x * kWidth; i - lane * kWidth < cells; i += step) {  // a warp stays together
      Piece v = i < cells ? piece(stage + i) : Piece{};
      const uint32_t r = row, at = column;
      const Piece weight = norm;
      advance(step, cols);
      if (in.norm != nullptr) {
        if (i + step < cells) norm = piece(in.norm + column);
        const float scale = i < cells ? scales[r] : 0.0f;
        KVRT_CUDA_UNROLL
        for (uint32_t j = 0; j < kWidth; ++j) v.v[j] = (v.v[j] * scale) * weight.v[j];
      }
      if constexpr (quantized) {
        quantize_four(v.v, at, i < cells, QuantRow(quant, group, row_blocks, r));
      } else {
        if (i < cells) stage[i] = v.v[0];
      }
    }
    __syncthreads();
    return {stage, quant.q, quant.d, quant.s, reinterpret_cast<const uint32_t*>(quant.sums), count, row_blocks};
  }

 private:
  static __device__ __forceinline__ Piece piece(const float* from) { return *reinterpret_cast<const Piece*>(from); }

  // Copies to shared memory; a thread may at once read the elements that it copied itself.
  static __device__ __forceinline__ void copy(const float* x, uint32_t cells, float* stage) {
#pragma unroll 4
    for (uint32_t i = threadIdx.x * kWidth; i < cells; i += blockDim.x * kWidth) {
      if constexpr (quantized) {
        copy_async(stage + i, x + i);
      } else {
        stage[i] = x[i];
      }
    }
    copy_async_commit();
    copy_async_wait<0>();
    __syncwarp();
  }

  __device__ __forceinline__ void advance(uint32_t step, uint32_t cols) {
    column += step;
    while (column >= cols) {
      column -= cols;
      ++row;
    }
  }
};

// The rows that another kernel has left.
template <bool quantized>
__device__ __forceinline__ MatvecRows given_rows(const MatvecInput& in, uint32_t cols, uint32_t first_x, uint32_t count) {
  const uint32_t blocks = cols / kQuantBlock;
  const uint64_t at = uint64_t{first_x} * blocks;
  if constexpr (!quantized) return {in.plain + uint64_t{first_x} * cols, nullptr, nullptr, nullptr, nullptr, count, 0};
  const DeviceQuantRows& rows = in.quantized;
  return {nullptr, rows.q + at * kQuantBlock, rows.d + at, rows.s + at, reinterpret_cast<const uint32_t*>(rows.sums) + at, count, blocks};
}

}  // namespace kvrt::cuda
