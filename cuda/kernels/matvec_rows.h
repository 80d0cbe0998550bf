// Rows of x for a block of matvec: as another kernel has left them, or in shared memory, where the block normalizes and quantizes them
// itself while its first weights are on their way. The arithmetic is quantize.h's, so the bits are those of quantize_rows.
//
// What that costs is done by every block, one to four panels each: a read of cols * 4 bytes of each row from L2 (8 with a norm), cols / 16
// dependent fma for the norm, some 75 instructions per 128 elements. What it saves is a launch, 1.3 us in a graph, and a kernel that waits for
// L2 and computes the same norm. By that count the blocks together may quantize as often as leaves a multiprocessor some 3,500 cycles of
// instructions, where HBM lets it wait for three of four: matvec_takes_rows().
#pragma once

#include <type_traits>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/quantize.h"

namespace kvrt::cuda {

// Row 0 is the first that the block works on.
struct MatvecRows {
  const float* plain;  // [count][cols]
  const int8_t* q;     // row_bytes from row to row
  const float *d, *s;  // row_blocks from row to row, of s and sums too
  const uint32_t* sums;
  uint32_t count, row_bytes, row_blocks;
  // Of the row at `i`; beyond the last it is the last once more, and its results are not stored.
  __device__ __forceinline__ uint32_t row(uint32_t i) const { return min(i, count - 1); }
};

inline constexpr uint32_t kOwnRowsMax = 8;

// Shared memory of a block's own rows as integers. Rows lie apart so that lanes that read the same column of 8 of them, or the same block of
// every other one, meet different banks.
struct OwnQuantLayout {
  uint32_t row_bytes, row_blocks;
  __host__ __device__ __forceinline__ explicit OwnQuantLayout(uint32_t cols) : row_bytes(cols + 16), row_blocks(cols / kQuantBlock | 1) {}
  __host__ __device__ __forceinline__ uint32_t bytes(uint32_t n) const { return n * (row_bytes + row_blocks * 3 * sizeof(float)); }
};

// Rows that a block makes its own. Constructed before grid_wait(), when it touches the norm's weights alone; then take(), for the whole block.
template <bool quantized>
struct OwnRows {
  static constexpr uint32_t kWidth = quantized ? kQuantizeWidth : 1;  // elements of a thread at a time
  struct alignas(kWidth * sizeof(float)) Piece {
    float v[kWidth];
  };
  uint32_t row, column;  // of the thread's next piece, and its norm
  Piece norm{};

  __device__ __forceinline__ OwnRows(const MatvecInput& in, uint32_t cols) {
    row = threadIdx.x * kWidth / cols;
    column = threadIdx.x * kWidth % cols;
    if (in.norm != nullptr) norm = piece(in.norm + column);
  }

  // `count` rows from first_x on. stage: [count][cols] f32, rows of a plain type for good; `own` is of OwnQuantLayout. A barrier is the last
  // thing that happens.
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
    const OwnQuantLayout layout(cols);
    auto* q = reinterpret_cast<int8_t*>(own);
    auto* d = reinterpret_cast<float*>(own + count * layout.row_bytes);
    float* s = d + count * layout.row_blocks;
    float* sums = s + count * layout.row_blocks;
    for (uint32_t i = threadIdx.x * kWidth; i - lane * kWidth < cells; i += step) {  // a warp stays together
      Piece v = i < cells ? piece(stage + i) : Piece{};
      const uint32_t r = row, blocks = r * layout.row_blocks, at = column;
      const Piece weight = norm;
      advance(step, cols);
      if (in.norm != nullptr) {
        if (i + step < cells) norm = piece(in.norm + column);
        const float scale = i < cells ? scales[r] : 0.0f;
        KVRT_CUDA_UNROLL
        for (uint32_t j = 0; j < kWidth; ++j) v.v[j] = (v.v[j] * scale) * weight.v[j];
      }
      if constexpr (quantized) {
        quantize_four(v.v, at, i < cells, {q + r * layout.row_bytes, d + blocks, s + blocks, reinterpret_cast<int16_t*>(sums + blocks)});
      } else {
        if (i < cells) stage[i] = v.v[0];
      }
    }
    __syncthreads();
    return {stage, q, d, s, reinterpret_cast<const uint32_t*>(sums), count, layout.row_bytes, layout.row_blocks};
  }

 private:
  static __device__ __forceinline__ Piece piece(const float* from) { return *reinterpret_cast<const Piece*>(from); }

  // To shared memory; what a thread itself has copied it may read at once.
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

// What another kernel has left.
template <bool quantized>
__device__ __forceinline__ MatvecRows given_rows(const MatvecInput& in, uint32_t cols, uint32_t first_x, uint32_t count) {
  const uint32_t blocks = cols / kQuantBlock;
  const uint64_t at = uint64_t{first_x} * blocks;
  if constexpr (!quantized) return {in.plain + uint64_t{first_x} * cols, nullptr, nullptr, nullptr, nullptr, count, 0, 0};
  const DeviceQuantRows& rows = in.quantized;
  return {nullptr, rows.q + at * kQuantBlock, rows.d + at, rows.s + at, reinterpret_cast<const uint32_t*>(rows.sums) + at, count, cols,
          blocks};
}

}  // namespace kvrt::cuda
