// gemm: many rows of x against a weight's panels, on tensor cores. It runs where there is no cuBLASLt.
//
// out[n, rows] = x[n, cols] · w[rows, cols]ᵀ. A block makes 64 x 64 outputs in steps of 32 columns: it decodes a block of 32 of four panels
// to f16 (the dequantized value, to nearest, beyond 65,504 to that; F32 and BF16 weights lose bits there, as x does) and copies 64 rows of
// x, both a step ahead. Each of four warps makes 32 x 32.
// Bytes: the panels once for every 64 rows of x, x once for every 64 weight rows, both from the L2 cache except the first time; 4 of
// each output. Blocks that share panels are neighbours.
// An output is one chain over K, ascending: 16 products at a time into a fragment of f32. It depends on no other row.
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/panel.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kTile = 64, kStep = 32, kThreads = 128;
constexpr uint32_t kPitch = kStep + 8;  // elements from row to row in shared memory: the 32 words of a fragment lie in as many banks
constexpr uint32_t kBuffer = kTile * kPitch;
constexpr uint32_t kShared = 4 * kBuffer * sizeof(uint16_t);

struct GemmArgs {
  const uint8_t* data;
  uint64_t panel_bytes;
  const uint16_t* x;
  const float* bias;  // this part's, as out is
  float* out;
  uint32_t rows, panels, cols, n, x_tiles, stride;
  bool accumulate;
};

// Copies columns [k, k + 32) of the tile's rows of x. Rows beyond the last repeat the last, and are not stored; columns beyond are zeros.
__device__ __forceinline__ void copy_x(const GemmArgs& args, uint32_t first_x, uint32_t k, uint16_t* to) {
  for (uint32_t piece = threadIdx.x; piece < kTile * kStep / 8; piece += kThreads) {
    const uint32_t row = piece / (kStep / 8), at = k + piece % (kStep / 8) * 8;
    const uint16_t* from = args.x + uint64_t{min(first_x + row, args.n - 1)} * args.cols + at;
    uint16_t* eight = to + row * kPitch + at - k;
    if (args.cols % 8 == 0 && at < args.cols) {
      copy_async(eight, from);
    } else {  // rows that are not aligned, or columns beyond the last
      for (uint32_t i = 0; i < 8; ++i) eight[i] = at + i < args.cols ? from[i] : 0;
    }
  }
  copy_async_commit();
}

__device__ __forceinline__ uint32_t pair_at(const uint16_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

// A warp's 32 x 32 outputs: += x · wᵀ over 32 columns.
__device__ __forceinline__ void multiply(const uint16_t* x, const uint16_t* w, float (&acc)[2][4][4]) {
  const uint32_t at = threadIdx.x % kWarp / 4 * kPitch + threadIdx.x % 4 * 2;
  KVRT_CUDA_UNROLL
  for (uint32_t k = 0; k < kStep; k += 16) {
    uint32_t a[2][4];
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < 4; ++j) a[i][j] = pair_at(x + at + (16 * i + j % 2 * 8) * kPitch + k + j / 2 * 8);
    }
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < 4; ++j) {
      const uint16_t* column = w + at + 8 * j * kPitch + k;
      const uint32_t b[2] = {pair_at(column), pair_at(column + 8)};
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < 2; ++i) mma_16x8x16<false>(acc[i][j], a[i], b);
    }
  }
}

__device__ __forceinline__ void store(const GemmArgs& args, uint32_t first_x, uint32_t first_row, const float (&acc)[2][4][4]) {
  const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  KVRT_CUDA_UNROLL
  for (uint32_t i = 0; i < 2 * 4 * 4; ++i) {
    const uint32_t x = first_x + 16 * (i / 16) + g + i % 4 / 2 * 8, row = first_row + 8 * (i / 4 % 4) + 2 * t + i % 2;
    if (x >= args.n || row >= args.rows) continue;
    float* out = args.out + uint64_t{x} * args.stride + row;
    const float sum = args.bias ? acc[i / 16][i / 4 % 4][i % 4] + args.bias[row] : acc[i / 16][i / 4 % 4][i % 4];
    *out = args.accumulate ? *out + sum : sum;
  }
}

template <DType type>
__global__ void __launch_bounds__(kThreads) gemm_kernel(const GemmArgs args) {
  KVRT_DYNAMIC_SHARED(shared);
  uint16_t *x = reinterpret_cast<uint16_t*>(shared), *w = x + 2 * kBuffer;  // each has two buffers
  const uint32_t first_x = blockIdx.x % args.x_tiles * kTile, first_row = blockIdx.x / args.x_tiles * kTile, warp = threadIdx.x / kWarp;
  // A thread decodes 16 elements of a row in each step. Panels beyond the last repeat the last.
  const uint32_t row = threadIdx.x % kPanelRows, half = threadIdx.x / kPanelRows % 2;
  const uint8_t* panel = args.data + min(first_row / kPanelRows + warp, args.panels - 1) * args.panel_bytes;
  uint16_t* decoded = w + (warp * kPanelRows + row) * kPitch + 16 * half;
  HalfRow<type> raw;
  raw.load(panel, args.cols, 16 * half, row);
  grid_wait();
  grid_launch_next();
  copy_x(args, first_x, 0, x);
  float acc[2][4][4] = {};
  const uint32_t x_at = warp / 2 * 32 * kPitch, w_at = warp % 2 * 32 * kPitch;
  for (uint32_t k = 0, buffer = 0; k < args.cols; k += kStep, buffer = kBuffer - buffer) {
    float numbers[16];
    raw.numbers(numbers);
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 16; i += 2) {
      const uint32_t low = float_to_f16_saturated(numbers[i]), high = float_to_f16_saturated(numbers[i + 1]);
      *reinterpret_cast<uint32_t*>(decoded + buffer + i) = low | high << 16;
    }
    copy_async_wait<0>();
    __syncthreads();  // this step's buffers are full, and no thread reads the other ones any more
    if (k + kStep < args.cols) {
      copy_x(args, first_x, k + kStep, x + kBuffer - buffer);
      raw.load(panel, args.cols, k + kStep + 16 * half, row);
    }
    multiply(x + buffer + x_at, w + buffer + w_at, acc);
  }
  store(args, first_x + warp / 2 * 32, first_row + warp % 2 * 32, acc);
}

}  // namespace

void gemm(Stream* stream, const DeviceWeight& w, const float* bias, const uint16_t* x, uint32_t n, bool accumulate, float* out) {
  for (uint32_t p = 0; p < w.n_parts; ++p) {
    const DevicePart& part = w.parts[p];
    const uint32_t x_tiles = (n + kTile - 1) / kTile, tiles = (part.rows + kTile - 1) / kTile;
    const GemmArgs args{part.data,
                        part.panel_bytes,
                        x,
                        bias ? bias + part.row_begin : nullptr,
                        out + part.row_begin,
                        part.rows,
                        part.panels,
                        w.cols,
                        n,
                        x_tiles,
                        w.rows,
                        accumulate};
    switch_type(part.type, [&]<DType T>() { launch(gemm_kernel<T>, x_tiles * tiles, kThreads, kShared, stream, args); });
  }
}

}  // namespace kvrt::cuda
