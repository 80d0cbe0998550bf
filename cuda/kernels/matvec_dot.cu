// matvec of quantized weights for 1 or 2 rows of x, by dot products of four bytes. HBM-bound: the panels are read once, by 16-byte loads of
// four rows; x comes from the caches.
//
// Bytes: a panel's (4.25 to 8.5 bits a weight), cols * 5 / 4 of each row of x from L2, 4 of each output.
// Dealt: in a turn a warp takes 8 blocks of 32 columns, 2 to 4.3 KB that lie together. Four lanes share a block: each takes four whole rows
// of it, so that no sum of integers crosses lanes. Lane / 4 is the chain: blocks lane / 4 + 8 * (warp + turn * warps).
#include "cuda/kernels/matvec_quant.h"

namespace kvrt::cuda {
namespace {

__device__ __forceinline__ uint32_t part_of(const uint4& v, uint32_t i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Four rows of a block, as loaded.
template <DType type>
struct QuadBlock {
  using U = Unit<type>;
  uint4 low[U::kLow], high[U::kHigh > 0 ? U::kHigh : 1];
  uint2 scale, minimum, sub;  // two or four rows in each half; kScaleMin: four scales, four minimums

  // Loads block i of a turn.
  __device__ __forceinline__ void load(const uint8_t* turn, uint32_t i, uint32_t quad) {
    const uint8_t *body = turn + (U::body_at(i) + 16 * quad), *unit = turn + U::unit_at(i), *subs = turn + U::sub_at(i);
    KVRT_CUDA_UNROLL
    for (uint32_t g = 0; g < U::kLow; ++g) low[g] = load_once(body + 64 * g);
    if constexpr (U::kHigh > 0) {
      KVRT_CUDA_UNROLL
      for (uint32_t g = 0; g < U::kHigh; ++g) high[g] = load_once(body + 64 * (U::kLow + g));
    }
    if constexpr (U::kFormat.scale_bytes == 1) {
      scale.x = load_once_4(unit + 4 * quad);
    } else {
      scale = load_once_8(unit + 8 * quad);
    }
    if constexpr (U::kMin) minimum = load_once_8(unit + 8 * quad + U::kMinAt);
    if constexpr (U::kHalves) sub = load_once_8(subs + 8 * quad);
    if constexpr (U::kSub && !U::kHalves) sub.x = load_once_4(subs + 4 * quad);
    if constexpr (U::kScaleMin) sub.y = load_once_4(subs + 4 * quad + kPanelRows);
  }

  __device__ __forceinline__ RowScales scales(uint32_t row) const {
    const uint32_t two = row / 2 ? scale.y : scale.x, two_min = row / 2 ? minimum.y : minimum.x, two_sub = row / 2 ? sub.y : sub.x;
    const uint32_t one = U::kFormat.scale_bytes == 1 ? scale.x >> 8 * row : two >> 16 * (row % 2);
    uint32_t subs = 0;
    if constexpr (U::kHalves) subs = two_sub >> 16 * (row % 2);
    if constexpr (U::kSub && !U::kHalves) subs = sub.x >> 8 * row & 0xff;
    if constexpr (U::kScaleMin) subs |= (sub.y >> 8 * row & 0xff) << 8;
    return row_scales<type>(one, U::kMin ? two_min >> 16 * (row % 2) : 0, subs);
  }

  __device__ __forceinline__ void words(uint32_t row, int32_t (&out)[8]) const {
    KVRT_CUDA_UNROLL
    for (uint32_t w = 0; w < 8; ++w) {
      const uint32_t group = part_of(low[w * U::kLow / 8], row);
      if constexpr (U::kTable) {
        uint32_t even, odd;
        if (w % 2 != 0) continue;
        look_up<type>(group, &even, &odd);
        out[w] = static_cast<int32_t>(even);
        out[w + 1] = static_cast<int32_t>(odd);
      } else {
        out[w] = static_cast<int32_t>(stored_word<type>(group, U::kHigh ? part_of(high[w * U::kHigh / 8], row) : 0, w));
      }
    }
  }
};

template <DType type, uint32_t columns, bool own>
struct DotKernel {
  using U = Unit<type>;
  static constexpr uint32_t kColumns = columns, kGroup = 1;
  static constexpr bool kQuantized = true, kOwn = own;

  const uint8_t* turn;
  QuadBlock<type> raw;

  // Adds a block's terms, for four rows and each row of x.
  static __device__ __forceinline__ void add(const MatvecRows& rows, const QuadBlock<type>& raw, uint32_t block, float (&acc)[4][columns]) {
    int32_t words[4][8];
    RowScales scales[4];
    KVRT_CUDA_UNROLL
    for (uint32_t r = 0; r < 4; ++r) {
      raw.words(r, words[r]);
      scales[r] = raw.scales(r);
    }
    KVRT_CUDA_UNROLL
    for (uint32_t c = 0; c < columns; ++c) {
      const XScales x = x_scales<type>(rows, c, block);
      const auto* from = reinterpret_cast<const int4*>(rows.q) + 2 * (c * rows.row_blocks + block);
      const int4 low = from[0], high = from[1];
      const int32_t q[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      KVRT_CUDA_UNROLL
      for (uint32_t r = 0; r < 4; ++r) {
        int32_t isum[2] = {first_sum<type>(x, U::kHalves ? 0 : 2), U::kHalves ? first_sum<type>(x, 1) : 0};
        KVRT_CUDA_UNROLL
        for (uint32_t w = 0; w < 8; ++w) isum[U::kHalves ? w / 4 : 0] = dot4(words[r][w], q[w], isum[U::kHalves ? w / 4 : 0]);
        acc[r][c] = add_block<type>(scales[r], x, isum[0], isum[1], acc[r][c]);
      }
    }
  }

  __device__ __forceinline__ void load(const MatvecArgs& args, const uint8_t* panel, uint32_t w) {
    const uint32_t lane = threadIdx.x % kWarp, quad = lane % 4, i = lane / 4;
    turn = panel + w * U::kTurnBytes;
    if (8 * w + i < args.cols / kQuantBlock) raw.load(turn, i, quad);
  }

  __device__ __forceinline__ void run(const MatvecArgs& args, const MatvecRows& rows, uint32_t w, float* sums) {
    const uint32_t lane = threadIdx.x % kWarp, quad = lane % 4, i = lane / 4, blocks = args.cols / kQuantBlock;
    float acc[4][columns] = {};
    for (uint32_t block = 8 * w + i; block < blocks; block += 8 * args.warps) {
      turn += args.warps * U::kTurnBytes;
      QuadBlock<type> ahead;
      if (block + 8 * args.warps < blocks) ahead.load(turn, i, quad);
      add(rows, raw, block, acc);
      raw = ahead;
    }
    KVRT_CUDA_UNROLL
    for (uint32_t r = 0; r < 4; ++r) {
      KVRT_CUDA_UNROLL
      for (uint32_t c = 0; c < columns; ++c) {
        KVRT_CUDA_UNROLL
        for (int by = 16; by >= 4; by /= 2) acc[r][c] += __shfl_xor_sync(kFullWarp, acc[r][c], by);
        if (lane < 4) sums[c * kPanelRows + 4 * quad + r] = acc[r][c];
      }
    }
  }
};

}  // namespace

MatvecKernel matvec_dot_kernel(DType type, uint32_t columns, bool own) {
  MatvecKernel kernel = nullptr;
  switch_quant_type(type, [&]<DType T>() {
    if (columns == 1) kernel = own ? matvec_kernel<DotKernel<T, 1, true>> : matvec_kernel<DotKernel<T, 1, false>>;
    if (columns == 2) kernel = own ? matvec_kernel<DotKernel<T, 2, true>> : matvec_kernel<DotKernel<T, 2, false>>;
  });
  return kernel;
}

}  // namespace kvrt::cuda
