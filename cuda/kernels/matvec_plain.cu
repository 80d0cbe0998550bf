// matvec of F32, F16 and BF16 weights. HBM-bound: panels, [k][16], are read once, 512 bytes of a warp at a time.
//
// Bytes: a panel's (2 or 4 a weight), cols * 4 of each row of x from L2, 4 of each output.
// Dealt: a lane loads 16 bytes, 8 or 4 rows of one column; neighbouring lanes have the other rows. A turn is four such loads, 64 or 32
// columns. Lane / lanes of a column is the chain: columns lane / lanes + (16 or 8) * (load + 4 * (warp + turn * warps)), ascending.
#include "cuda/kernels/matvec.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kLoads = 4;  // per turn

template <DType type, uint32_t columns, bool own>
struct PlainKernel {
  static constexpr uint32_t kColumns = columns;
  static constexpr bool kQuantized = false, kOwn = own;
  static constexpr uint32_t kGroup = 1;
  static constexpr uint32_t kRows = type == DType::kF32 ? 4 : 8;  // rows of a lane
  static constexpr uint32_t kColumnLanes = kPanelRows / kRows;    // lanes that share a column
  static constexpr uint32_t kLoadColumns = kWarp / kColumnLanes;  // columns that a warp loads at a time
  static constexpr uint32_t kTurnColumns = kLoads * kLoadColumns;

  const uint8_t* panel;
  uint4 raw[kLoads];

  static __device__ __forceinline__ float number(const uint4& raw, uint32_t row) {
    const uint32_t at = row / (kRows / 4), word = at == 0 ? raw.x : at == 1 ? raw.y : at == 2 ? raw.z : raw.w;
    return plain_number<type>(kRows == 8 ? word >> 16 * (row % 2) : word);
  }

  __device__ __forceinline__ void load_turn(const MatvecArgs& args, uint32_t k, uint4 (&to)[kLoads]) const {
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < kLoads; ++i) {
      if (k + i * kLoadColumns < args.cols) {
        to[i] = load_once(panel + (uint64_t{k + i * kLoadColumns} * kColumnLanes + threadIdx.x % kColumnLanes) * 16);
      }
    }
  }

  __device__ __forceinline__ void load(const MatvecArgs& args, const uint8_t* its_panel, uint32_t w) {
    panel = its_panel;
    load_turn(args, w * kTurnColumns + threadIdx.x % kWarp / kColumnLanes, raw);
  }

  __device__ __forceinline__ void run(const MatvecArgs& args, const MatvecRows& rows, uint32_t w, float* sums) {
    const uint32_t lane = threadIdx.x % kWarp;
    uint32_t k = w * kTurnColumns + lane / kColumnLanes;
    const float* x[columns];
    KVRT_CUDA_UNROLL
    for (uint32_t c = 0; c < columns; ++c) x[c] = rows.plain + rows.row(c) * args.cols + k;
    float acc[kRows][columns] = {};
    for (; k < args.cols; k += args.warps * kTurnColumns) {
      uint4 ahead[kLoads];
      load_turn(args, k + args.warps * kTurnColumns, ahead);
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < kLoads; ++i) {
        if (k + i * kLoadColumns >= args.cols) break;
        KVRT_CUDA_UNROLL
        for (uint32_t c = 0; c < columns; ++c) {
          const float xk = x[c][i * kLoadColumns];
          KVRT_CUDA_UNROLL
          for (uint32_t r = 0; r < kRows; ++r) acc[r][c] = fmaf(number(raw[i], r), xk, acc[r][c]);
        }
      }
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < kLoads; ++i) raw[i] = ahead[i];
      KVRT_CUDA_UNROLL
      for (uint32_t c = 0; c < columns; ++c) x[c] += args.warps * kTurnColumns;
    }
    KVRT_CUDA_UNROLL
    for (uint32_t r = 0; r < kRows; ++r) {
      KVRT_CUDA_UNROLL
      for (uint32_t c = 0; c < columns; ++c) {
        KVRT_CUDA_UNROLL
        for (uint32_t by = 16; by >= kColumnLanes; by /= 2) acc[r][c] += __shfl_xor_sync(kFullWarp, acc[r][c], static_cast<int>(by));
        if (lane < kColumnLanes) sums[c * kPanelRows + kRows * lane + r] = acc[r][c];
      }
    }
  }
};

}  // namespace

MatvecKernel matvec_plain_kernel(DType type, uint32_t columns, bool own) {
  MatvecKernel kernel = nullptr;
  switch_plain_type(type, [&]<DType T>() {
    if (columns == 1) kernel = own ? matvec_kernel<PlainKernel<T, 1, true>> : matvec_kernel<PlainKernel<T, 1, false>>;
    if constexpr (T != DType::kF32) {  // two columns of F32 take a register too many
      if (columns == 2) kernel = own ? matvec_kernel<PlainKernel<T, 2, true>> : matvec_kernel<PlainKernel<T, 2, false>>;
    }
    if (columns == 8) kernel = own ? matvec_kernel<PlainKernel<T, 8, true>> : matvec_kernel<PlainKernel<T, 8, false>>;
  });
  return kernel;
}

}  // namespace kvrt::cuda
