// Weight rows as numbers: those of tokens (embed), or all in f16 for a library's gemm (dequantize_f16). Bits of PanelWeight::dequantize.
#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/panel.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 128, kRun = 16;  // elements of a row that a thread takes at a time
constexpr uint32_t kEmbedStep = kThreads * kRun, kPanelStep = kThreads / kPanelRows * kRun;  // columns of a block
constexpr uint32_t kGridMax = 65535;                                                         // a grid's limit in y

// Bytes: 4 of each output element; of the table 32-byte sectors of which a row has an eighth, so up to 8 times the row. Each thread of a
// block takes 16 elements of a token's row at a time; blockIdx.y is the part of the row. Other launches take the tokens of other parts.
template <DType type>
__global__ void __launch_bounds__(kThreads) embed_kernel(const DevicePart part, uint32_t cols, const int32_t* tokens, float* out) {
  grid_wait();
  grid_launch_next();
  const uint32_t row = static_cast<uint32_t>(tokens[blockIdx.x]) - part.row_begin;
  if (row >= part.rows) return;
  const uint8_t* panel = part.data + row / kPanelRows * part.panel_bytes;
  float* to = out + uint64_t{blockIdx.x} * cols;
  for (uint32_t k = (blockIdx.y * kThreads + threadIdx.x) * kRun; k < cols; k += gridDim.y * kEmbedStep) {
    HalfRow<type> half;
    half.load(panel, cols, k, row % kPanelRows);
    float numbers[kRun];
    half.numbers(numbers);
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < kRun; ++i) {
      if (k + i < cols) to[k + i] = numbers[i];
    }
  }
}

// Bytes: the panels, 2 of each element. A block takes 128 columns of a panel, each thread 16 elements of a row: neighbouring threads read
// neighbouring rows. The halves change places in shared memory, so that a warp writes 256 bytes of a row at a time.
template <DType type>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(const DevicePart part, uint32_t cols, uint16_t* out) {
  constexpr uint32_t kPieces = kPanelStep / 8, kPitch = kPieces + 1;  // of 16 bytes; the distance of rows spreads them over the banks
  __shared__ uint4 tile[kPanelRows * kPitch];
  grid_wait();
  grid_launch_next();
  const uint32_t row = threadIdx.x % kPanelRows, at = threadIdx.x / kPanelRows, first = blockIdx.x * kPanelStep, k = first + at * kRun;
  for (uint32_t p = blockIdx.y; p < part.panels; p += gridDim.y) {
    float numbers[kRun] = {};
    if (k < cols) {
      HalfRow<type> half;
      half.load(part.data + p * part.panel_bytes, cols, k, row);
      half.numbers(numbers);
    }
    uint32_t words[8];
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 8; ++i) {
      words[i] = float_to_f16_saturated(numbers[2 * i]) | static_cast<uint32_t>(float_to_f16_saturated(numbers[2 * i + 1])) << 16;
    }
    tile[row * kPitch + 2 * at] = {words[0], words[1], words[2], words[3]};
    tile[row * kPitch + 2 * at + 1] = {words[4], words[5], words[6], words[7]};
    __syncthreads();
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t piece = threadIdx.x % kPieces, to_row = threadIdx.x / kPieces + i * (kThreads / kPieces);
      const uint32_t to_k = first + 8 * piece;
      const uint64_t to = uint64_t{p * kPanelRows + to_row} * cols + to_k;
      if (p * kPanelRows + to_row < part.rows && to_k < cols) *reinterpret_cast<uint4*>(out + to) = tile[to_row * kPitch + piece];
    }
    __syncthreads();
  }
}

uint32_t blocks_of(uint32_t cols, uint32_t step) { return std::min(kGridMax, (cols + step - 1) / step); }

}  // namespace

void embed(Stream* stream, const DeviceWeight& table, const int32_t* tokens, uint32_t rows, float* out) {
  const dim3 grid(rows, blocks_of(table.cols, kEmbedStep));
  for (uint32_t p = 0; p < table.n_parts; ++p) {
    switch_type(table.parts[p].type,
                [&]<DType T>() { launch(embed_kernel<T>, grid, kThreads, 0, stream, table.parts[p], table.cols, tokens, out); });
  }
}

void dequantize_f16(Stream* stream, const DeviceWeight& w, uint16_t* out) {
  for (uint32_t p = 0; p < w.n_parts; ++p) {
    const DevicePart& part = w.parts[p];
    const dim3 grid(blocks_of(w.cols, kPanelStep), std::min(part.panels, kGridMax));
    switch_type(part.type, [&]<DType T>() {
      launch(dequantize_kernel<T>, grid, kThreads, 0, stream, part, w.cols, out + uint64_t{part.row_begin} * w.cols);
    });
  }
}

}  // namespace kvrt::cuda
