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

// Bytes: the panels, 2 of each element. A block takes a panel's columns 128 at a time, each thread 16 elements of a row: neighbouring
// threads have neighbouring rows, and each writes a whole sector.
template <DType type>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(const DevicePart part, uint32_t cols, uint16_t* out) {
  grid_wait();
  grid_launch_next();
  const uint32_t row = threadIdx.x % kPanelRows, at = threadIdx.x / kPanelRows;
  const uint8_t* panel = part.data + blockIdx.x * part.panel_bytes;
  if (blockIdx.x * kPanelRows + row >= part.rows) return;
  uint16_t* to = out + (uint64_t{blockIdx.x} * kPanelRows + row) * cols;
  for (uint32_t k = blockIdx.y * kPanelStep + at * kRun; k < cols; k += gridDim.y * kPanelStep) {
    HalfRow<type> half;
    half.load(panel, cols, k, row);
    float numbers[kRun];
    half.numbers(numbers);
    if (cols % 8 == 0 && k + kRun <= cols) {
      uint32_t words[8];
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < 8; ++i) {
        words[i] = float_to_f16_saturated(numbers[2 * i]) | static_cast<uint32_t>(float_to_f16_saturated(numbers[2 * i + 1])) << 16;
      }
      reinterpret_cast<uint4*>(to + k)[0] = {words[0], words[1], words[2], words[3]};
      reinterpret_cast<uint4*>(to + k)[1] = {words[4], words[5], words[6], words[7]};
    } else {
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < kRun; ++i) {
        if (k + i < cols) to[k + i] = float_to_f16_saturated(numbers[i]);
      }
    }
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
    const dim3 grid(part.panels, blocks_of(w.cols, kPanelStep));
    switch_type(part.type, [&]<DType T>() {
      launch(dequantize_kernel<T>, grid, kThreads, 0, stream, part, w.cols, out + uint64_t{part.row_begin} * w.cols);
    });
  }
}

}  // namespace kvrt::cuda
