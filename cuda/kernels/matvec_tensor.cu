// matvec of quantized weights for 3 to 16 rows of x, 8 or 16 at a time, on tensor cores: a block of a panel is 16 rows x 32 integers, two
// steps of mma for 8 rows of x. The sums of integers are exact, so that this gives the bits of matvec_dot.cu.
//
// Bytes: as there. 16 rows at a time unpack a weight once; where a block has too many warps for the registers of that, they take two passes
// of 8, of which the second finds the panel in the L2 cache.
// Dealt: a warp takes the same 8 blocks in a turn, each with sums of its own, which are the chains of the 8 groups of lanes there. Lane
// 4g + t holds rows 2g and 2g + 1 of the panel, a quarter of each word group, and columns 2t and 2t + 1 of the results.
#include "cuda/kernels/matvec_quant.h"

namespace kvrt::cuda {
namespace {

// The data of a block for lane 4g + t. Any assignment of the 8 words to the t will do, if q's words have the same: word(i, t), i < 2, is
// the one of step i. With halves, step i must be half i.
template <DType type>
struct PairBlock {
  using U = Unit<type>;
  static constexpr bool kNeighbours = U::kLow == 4 && !U::kHalves;  // words 2t and 2t + 1 lie in one group
  static constexpr uint32_t kGroups = kNeighbours ? 1 : 2;
  static constexpr uint32_t kHighGroups = U::kHigh == 2 ? 2 : 1;
  uint2 low[kGroups], high[kHighGroups];
  uint32_t scale, minimum, sub;  // two rows'

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

  // The two words of a row.
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

template <DType type, uint32_t columns, bool own>
struct TensorKernel {
  using U = Unit<type>;
  using Pair = PairBlock<type>;
  static constexpr uint32_t kColumns = columns, kTiles = columns / 8, kGroup = own ? 2 : 8;
  static constexpr bool kQuantized = true, kOwn = own;
  // Blocks that are loaded while as many are computed, as far as registers go.
  static constexpr uint32_t kAhead = U::kHalves || (kTiles == 2 && U::kHigh > 0 && U::kMin) ? 2 : 4;
  static constexpr bool kWhole = U::kBlocks == 8;  // every turn is full

  const uint8_t* turn;
  Pair even[kAhead];

  // A lane's data of 8 rows of x: its own column of q, from its word t on, and the scales of the two columns whose results it holds. In a
  // group of 8 a warp's loads of a block are 256 bytes that lie together, and 32 of each kind of scales. Beyond the last row or pair a lane
  // reads that one again.
  struct XAt {
    const uint32_t* q;
    XPair<type, kGroup> pair;
    __device__ __forceinline__ void begin(const MatvecRows& rows, uint32_t first, uint32_t block) {
      const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4, last = rows.count - 1;
      const auto at = [&](uint32_t row) { return row / kGroup * kGroup * rows.row_blocks + block * kGroup + row % kGroup; };
      q = reinterpret_cast<const uint32_t*>(rows.q) + 8 * at(min(first + g, last)) + Pair::word(0, t);
      pair.begin(rows, at(min(first + 2 * t, last / 2 * 2)));
    }
    __device__ __forceinline__ void advance(uint32_t blocks) {
      q += 8 * kGroup * blocks;
      pair.advance(blocks);
    }
    // The words of a block that go with those of PairBlock.
    __device__ __forceinline__ void words(uint32_t i, uint32_t (&out)[2]) const {
      if constexpr (Pair::kNeighbours) {
        const uint2 both = *reinterpret_cast<const uint2*>(q + 8 * kGroup * i);
        out[0] = both.x;
        out[1] = both.y;
      } else {
        out[0] = q[8 * kGroup * i];
        out[1] = q[8 * kGroup * i + 4];
      }
    }
  };
  using Sums = float[kTiles][4];  // a chain's

  // Block i of a turn.
  static __device__ __forceinline__ void add(const Pair& raw, uint32_t i, const XAt (&at)[kTiles], Sums& acc) {
    uint32_t upper[2], lower[2];
    raw.words(0, threadIdx.x % 4, upper);
    raw.words(1, threadIdx.x % 4, lower);
    const RowScales scales[2] = {raw.scales(0), raw.scales(1)};
    KVRT_CUDA_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      uint32_t b[2];
      at[tile].words(i, b);
      XScales x[2];
      at[tile].pair.scales(i, x);
      int32_t isum[2][4];
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < 4; ++j) {
        isum[0][j] = first_sum<type>(x[j % 2], U::kHalves ? 0 : 2);
        isum[1][j] = U::kHalves ? first_sum<type>(x[j % 2], 1) : 0;
      }
      mma_s8_16x8x16(isum[0], upper[0], lower[0], b[0]);
      mma_s8_16x8x16(isum[U::kHalves ? 1 : 0], upper[1], lower[1], b[1]);
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < 4; ++j) acc[tile][j] = add_block<type>(scales[j / 2], x[j % 2], isum[0][j], isum[1][j], acc[tile][j]);
    }
  }

  // Loads blocks i to i + kAhead of a turn: all of them, or those within the `left` blocks from the turn's first on.
  template <typename All>
  static __device__ __forceinline__ void load_some(All all, const uint8_t* turn, uint32_t i, uint32_t left, Pair (&to)[kAhead]) {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    KVRT_CUDA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) {
      if (all || i + j < left) to[j].load(turn, i + j, g, t);
    }
  }

  __device__ __forceinline__ void load(const MatvecArgs& args, const uint8_t* panel, uint32_t w) {
    turn = panel + w * U::kTurnBytes;
    load_some(std::bool_constant<kWhole>{}, turn, 0, args.cols / kQuantBlock - 8 * w, even);
  }

  __device__ __forceinline__ void run(const MatvecArgs& args, const MatvecRows& rows, uint32_t w, float* sums) {
    const uint32_t g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4, step = 8 * args.warps;
    uint32_t left = args.cols / kQuantBlock - 8 * w;
    XAt at[kTiles];
    KVRT_CUDA_UNROLL
    for (uint32_t tile = 0; tile < kTiles; ++tile) at[tile].begin(rows, 8 * tile, 8 * w);
    float acc[8][kTiles][4] = {};
    Pair odd[kAhead];
    const auto add_some = [&](auto all, uint32_t i, const Pair(&raw)[kAhead]) {
      KVRT_CUDA_UNROLL
      for (uint32_t j = 0; j < kAhead; ++j) {
        if (all || i + j < left) add(raw[j], i + j, at, acc[i + j]);
      }
    };
    const auto add_turn = [&](auto all) {
      KVRT_CUDA_UNROLL
      for (uint32_t i = 0; i < 8; i += 2 * kAhead) {
        load_some(all, turn, i + kAhead, left, odd);
        add_some(all, i, even);
        if (i + 2 * kAhead < 8) {
          load_some(all, turn, i + 2 * kAhead, left, even);
        } else {
          turn += args.warps * U::kTurnBytes;
          if (left > step) load_some(std::bool_constant<kWhole>{}, turn, 0, left - step, even);
        }
        add_some(all, i + kAhead, odd);
      }
      KVRT_CUDA_UNROLL
      for (uint32_t tile = 0; tile < kTiles; ++tile) at[tile].advance(step);
      left = left > step ? left - step : 0;
    };
    while (left >= 8) add_turn(std::true_type{});
    if (!kWhole && left > 0) add_turn(std::false_type{});
    KVRT_CUDA_UNROLL
    for (uint32_t i = 0; i < 4 * kTiles; ++i) {
      KVRT_CUDA_UNROLL
      for (uint32_t by = 4; by >= 1; by /= 2) {
        KVRT_CUDA_UNROLL
        for (uint32_t chain = 0; chain < by; ++chain) acc[chain][i / 4][i % 4] += acc[chain + by][i / 4][i % 4];
      }
      sums[(8 * (i / 4) + 2 * t + i % 2) * kPanelRows + 2 * g + i % 4 / 2] = acc[0][i / 4][i % 4];
    }
  }
};

}  // namespace

MatvecKernel matvec_tensor_kernel(DType type, uint32_t columns, bool own) {
  MatvecKernel kernel = nullptr;
  switch_quant_type(type, [&]<DType T>() {
    if (columns == 8) kernel = own ? matvec_kernel<TensorKernel<T, 8, true>> : matvec_kernel<TensorKernel<T, 8, false>>;
    if (columns == 16 && !own) kernel = matvec_kernel<TensorKernel<T, 16, false>>;
  });
  return kernel;
}

}  // namespace kvrt::cuda
