// matvec of quantized weights for 3 to 16 rows of x, 8 at a time, on tensor cores: a block of a panel is 16 rows x 32 integers, two steps
// of mma. The sums of integers are exact, so that this gives the bits of k_matvec_dot.cu.
//
// Bytes: as there; a second pass of 8 rows finds the panel in the L2 cache.
// Dealt: a warp takes the same 8 blocks in a turn, each with sums of its own: they are the chains of the 8 groups of lanes there. Lane
// 4g + t holds rows 2g and 2g + 1 of the panel, a quarter of each word group, and of the results columns 2t and 2t + 1.
#include "cuda/k_matvec_quant.h"

namespace kvrt::cuda {
namespace {

// What lane 4g + t wants of a block. Which of the 8 words goes with which t is free, as long as q's does too: word(i, t), i < 2, is the one
// of step i. By halves, step i must be half i.
template <DType type>
struct PairBlock {
  using U = Unit<type>;
  static constexpr bool kNeighbours = U::kLow == 4 && !U::kHalves;  // words 2t and 2t + 1: one group
  static constexpr uint32_t kGroups = kNeighbours ? 1 : 2;
  static constexpr uint32_t kHighGroups = U::kHigh == 2 ? 2 : 1;
  uint2 low[kGroups], high[kHighGroups];
  uint32_t scale, minimum, sub;  // of two rows

  static __device__ __forceinline__ uint32_t word(uint32_t i, uint32_t t) { return kNeighbours ? 2 * t + i : 4 * i + t; }

  // Block i of a turn.
  __device__ __forceinline__ void load(const uint8_t* turn, uint32_t i, uint32_t g, uint32_t t) {
    const uint8_t *body = turn + 8 * g + U::body_at(i), *unit = turn + U::unit_at(i), *subs = turn + U::sub_at(i);
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kGroups; ++j) low[j] = load_once_8(body + 64 * (word(j, t) * U::kLow / 8));
    if constexpr (U::kHigh > 0) {
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < kHighGroups; ++j) high[j] = load_once_8(body + 64 * (U::kLow + j));
    }
    scale = U::kFormat.scale_bytes == 1 ? load<uint16_t>(unit + 2 * g) : load<uint32_t>(unit + 4 * g);
    if constexpr (U::kMin) minimum = load<uint32_t>(unit + 4 * g + U::kMinAt);
    if constexpr (U::kHalves) sub = load<uint32_t>(subs + 4 * g);
    if constexpr (U::kSub && !U::kHalves) sub = load<uint16_t>(subs + 2 * g);
    if constexpr (U::kScaleMin) sub |= static_cast<uint32_t>(load<uint16_t>(subs + 2 * g + kPanelRows)) << 16;
  }

  __device__ __forceinline__ RowScales scales(uint32_t row) const {  // 0 or 1
    uint32_t subs = 0;
    if constexpr (U::kHalves) subs = sub >> 16 * row;
    if constexpr (U::kSub && !U::kHalves) subs = (sub >> 8 * row & 0xff) | (sub >> (16 + 8 * row) & 0xff) << 8;
    return row_scales<type>(scale >> (U::kFormat.scale_bytes == 1 ? 8 : 16) * row, U::kMin ? minimum >> 16 * row : 0, subs);
  }

  // Two words of a row.
  __device__ __forceinline__ void words(uint32_t row, uint32_t t, uint32_t (&out)[2]) const {
    if constexpr (U::kTable) {
      look_up<type>(row ? low[0].y : low[0].x, &out[0], &out[1]);
    } else {
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < 2; ++i) {
        const uint2 &from = low[kNeighbours ? 0 : i], &above = high[kHighGroups == 2 ? i : 0];
        out[i] = stored_word<type>(row ? from.y : from.x, U::kHigh == 0 ? 0 : row ? above.y : above.x, word(i, t));
      }
    }
  }

 private:
  template <typename T>
  static __device__ __forceinline__ T load(const uint8_t* p) {
    return __ldg(reinterpret_cast<const T*>(p));
  }
};

template <DType type>
struct TensorKernel {
  using U = Unit<type>;
  static constexpr uint32_t kColumns = 8;
  static constexpr uint32_t kAhead = U::kHalves ? 2 : 4;  // blocks that are loaded while as many are computed: what the registers hold

  static constexpr bool kWhole = U::kBlocks == 8;  // no turn is part full

  // What a lane wants of x: its own column of q, from its word t on, and the scales of the two columns whose results it holds.
  struct XAt {
    const uint32_t* q;
    XRow<type> columns[2];
    __device__ __forceinline__ void advance(uint32_t blocks) {
      q += 8 * blocks;
      columns[0].advance(blocks);
      columns[1].advance(blocks);
    }
  };

  static __device__ __forceinline__ void add(const PairBlock<type>& raw, uint32_t i, const XAt& at, float (&acc)[4]) {
    using Pair = PairBlock<type>;
    const uint32_t t = threadIdx.x % 4;
    uint32_t b[2];
    if constexpr (Pair::kNeighbours) {
      const uint2 both = *reinterpret_cast<const uint2*>(at.q + 8 * i);
      b[0] = both.x;
      b[1] = both.y;
    } else {
      b[0] = at.q[8 * i];
      b[1] = at.q[8 * i + 4];
    }
    uint32_t upper[2], lower[2];
    raw.words(0, t, upper);
    raw.words(1, t, lower);
    const XScales x[2] = {at.columns[0].scales(i), at.columns[1].scales(i)};
    int32_t isum[2][4];
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < 4; ++j) {
      isum[0][j] = first_sum<type>(x[j % 2], U::kHalves ? 0 : 2);
      isum[1][j] = U::kHalves ? first_sum<type>(x[j % 2], 1) : 0;
    }
    mma_s8_16x8x16(isum[0], upper[0], lower[0], b[0]);
    mma_s8_16x8x16(isum[U::kHalves ? 1 : 0], upper[1], lower[1], b[1]);
    const RowScales scales[2] = {raw.scales(0), raw.scales(1)};
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < 4; ++j) acc[j] = add_block<type>(scales[j / 2], x[j % 2], isum[0][j], isum[1][j], acc[j]);
  }

  static __device__ __forceinline__ void run(const MatvecArgs& args, const uint8_t* panel, uint32_t w, uint32_t first_x, float* sums) {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4, blocks = args.cols / kQuantBlock, step = 8 * args.warps;
    // Blocks i to i + kAhead of a turn: all of them, or those of the `left` blocks from the turn's first on.
    const auto load = [&](auto all, const uint8_t* turn, uint32_t i, uint32_t left, PairBlock<type>(&raw)[kAhead]) {
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < kAhead; ++j) {
        if (all || i + j < left) raw[j].load(turn, i + j, g, t);
      }
    };
    const uint8_t* turn = panel + w * U::kTurnBytes;
    PairBlock<type> even[kAhead], odd[kAhead];
    uint32_t left = blocks - 8 * w;
    load(kWhole, turn, 0, left, even);
    grid_wait();
    grid_launch_next();
    const uint32_t mine = matvec_row(args, first_x + g), left_column = matvec_row(args, first_x + 2 * t);
    XAt at{reinterpret_cast<const uint32_t*>(args.in.quantized.q + uint64_t{mine} * args.cols) + 64 * w + PairBlock<type>::word(0, t),
           {{args, left_column, 8 * w}, {args, matvec_row(args, first_x + 2 * t + 1), 8 * w}}};
    float acc[8][4] = {};
    const auto add_some = [&](auto all, uint32_t i, const PairBlock<type>(&raw)[kAhead]) {
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < kAhead; ++j) {
        if (all || i + j < left) add(raw[j], i + j, at, acc[i + j]);
      }
    };
    const auto add_turn = [&](auto all) {
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < 8; i += 2 * kAhead) {
        load(all, turn, i + kAhead, left, odd);
        add_some(all, i, even);
        if (i + 2 * kAhead < 8) {
          load(all, turn, i + 2 * kAhead, left, even);
        } else {
          turn += args.warps * U::kTurnBytes;
          if (left > step) load(kWhole, turn, 0, left - step, even);
        }
        add_some(all, i + kAhead, odd);
      }
      at.advance(step);
      left = left > step ? left - step : 0;
    };
    while (left >= 8) add_turn(std::true_type{});
    if (!kWhole && left > 0) add_turn(std::false_type{});
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      KVRT_CUDA_UNROLL
      for (uint32_t by = 4; by >= 1; by /= 2) {
        KVRT_CUDA_UNROLL
        for (uint32_t chain = 0; chain < by; ++chain) acc[chain][i] += acc[chain + by][i];
      }
      sums[(2 * t + i % 2) * kPanelRows + 2 * g + i / 2] = acc[0][i];
    }
  }
};

}  // namespace

MatvecKernel matvec_tensor_kernel(DType type, uint32_t columns) {
  MatvecKernel kernel = nullptr;
  switch_quant_type(type, [&]<DType T>() {
    if (columns == 8) kernel = matvec_kernel<TensorKernel<T>>;
  });
  return kernel;
}

}  // namespace kvrt::cuda
