// Code that all kernels of matvec share: their arguments, the dealing of panels to warps, and the way from sums to output.
//
// `warps` warps of one block work on a panel of 16 weight rows; their number follows from the weight's shape alone. Each
// splits its columns into turns; the products of a (weight row, x row) are summed in *chains*, a fixed set of columns each, and the chains
// in a fixed tree: within a warp by halves (chain i + chain i + count / 2), then the warps in ascending order. So an output's bits depend
// on the weight and on its row of x, not on the number of rows or on the kernel that took them.
#pragma once

#include "cuda/kernels/matvec_rows.h"
#include "cuda/kernels/panel.h"

namespace kvrt::cuda {

inline constexpr uint32_t kMatvecThreads = 384;  // a block's at most
inline constexpr uint32_t kWideThreads = 256;    // for a block that takes 16 rows of x at once, which needs more registers

// Rows [row_begin, row_end), counted from the first panel at `data`, go to columns out_begin + row of the output.
struct MatvecPart {
  const uint8_t* data;
  uint32_t first_panel;  // in this launch
  uint32_t row_begin, row_end;
  int32_t out_begin;
};

enum class MatvecStore : uint32_t {
  kSet,      // out = sum (+ bias)
  kAdd,      // out += sum (+ bias)
  kActPair,  // out = act(sum of part 0) * sum of part 1: the even slots of a block are part 0's, the odd ones part 1's
  kActOut,   // out = act(out) * sum
};

struct MatvecArgs {
  MatvecPart parts[kWeightPartsMax];
  uint64_t panel_bytes;
  MatvecInput in;
  const float* bias;
  float* out;
  uint32_t n_parts, cols, panels;  // panels: in the launch; kActPair: in each part
  uint32_t warps;                  // per panel
  uint32_t slots;                  // panels that a block has warps for
  uint32_t passes;                 // blocks that share a panel, each with rows of x of its own, neighbours: the L2 cache feeds all but one
  uint32_t stride;                 // out's
  uint32_t own_at;                 // bytes into shared memory: the block's own rows of x, where it has such
  MatvecStore store;
  DeviceActivation act;
};

using MatvecKernel = void (*)(MatvecArgs);
// The kernel for `columns` rows of x; `own`: the block makes these rows itself. Null: there is none.
MatvecKernel matvec_dot_kernel(DType type, uint32_t columns, bool own);  // quantized types: 1, 2 (matvec_dot.cu)
MatvecKernel matvec_tensor_kernel(DType type, uint32_t columns,
                                  bool own);                               // quantized types: 8, 16, the latter not own (matvec_tensor.cu)
MatvecKernel matvec_plain_kernel(DType type, uint32_t columns, bool own);  // F32, F16, BF16: 1, 2, 8 (matvec_plain.cu)
// The turns that `cols` columns take a warp of those kernels.
inline uint32_t matvec_turns(DType type, uint32_t cols) {
  const uint32_t turn = is_plain(type) ? (type == DType::kF32 ? 32 : 64) : 8 * kQuantBlock;
  return (cols + turn - 1) / turn;
}

struct MatvecPanel {
  const uint8_t* data;  // null: the slot has none
  const MatvecPart* part;
  uint32_t row;  // the first one, counted from the part's first panel
};
__device__ __forceinline__ MatvecPanel matvec_panel(const MatvecArgs& args, uint32_t group, uint32_t slot) {
  const bool pair = args.store == MatvecStore::kActPair;
  const uint32_t index = pair ? (group * args.slots + slot) / 2 : group * args.slots + slot;
  uint32_t p = pair ? slot % 2 : 0;
  while (!pair && p + 1 < args.n_parts && index >= args.parts[p + 1].first_panel) ++p;
  const MatvecPart* part = &args.parts[p];
  const uint32_t panel = index - part->first_panel;
  return {index < args.panels ? part->data + panel * args.panel_bytes : nullptr, part, panel * kPanelRows};
}

// Turns the warps' sums, [slots][warps][columns][16], into output. For all threads of the block.
template <uint32_t columns>
__device__ __forceinline__ void matvec_store(const MatvecArgs& args, uint32_t group, uint32_t first_x, const float* sums) {
  const uint32_t sides = args.store == MatvecStore::kActPair ? 2 : 1;
  for (uint32_t i = threadIdx.x; i < args.slots / sides * columns * kPanelRows; i += blockDim.x) {
    const uint32_t slot = i / (columns * kPanelRows) * sides, cell = i % (columns * kPanelRows), x = first_x + cell / kPanelRows;
    const MatvecPanel panel = matvec_panel(args, group, slot);
    const uint32_t row = panel.row + cell % kPanelRows;
    if (panel.data == nullptr || x >= args.in.n || row < panel.part->row_begin || row >= panel.part->row_end) continue;
    float side[2] = {0, 0};
    KVRT_CUDA_UNROLL
    for (uint32_t s = 0; s < 2; ++s) {
      if (s == sides) break;
      const float* from = sums + (slot + s) * args.warps * columns * kPanelRows + cell;
      side[s] = from[0];
      for (uint32_t w = 1; w < args.warps; ++w) side[s] += from[w * columns * kPanelRows];
    }
    const uint32_t at = static_cast<uint32_t>(panel.part->out_begin + static_cast<int32_t>(row));
    float* out = args.out + uint64_t{x} * args.stride + at;
    if (args.store == MatvecStore::kSet || args.store == MatvecStore::kAdd) {
      const float sum = args.bias ? side[0] + args.bias[at] : side[0];
      *out = args.store == MatvecStore::kAdd ? *out + sum : sum;
    } else {
      const float gate = sides == 2 ? side[0] : *out, up = sides == 2 ? side[1] : side[0];
      *out = args.act == DeviceActivation::kSilu ? silu_mul_of(gate, up) : gelu_mul_of(gate, up);
    }
  }
}

// The work of warp w of a panel: Kernel::load(args, panel, w) starts the loads of the first weights; Kernel::run(args, rows, w, sums) makes
// its sums [columns][16]. kOwn: the block makes its own rows of x. kGroup: that of their integers.
template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kColumns == 16 ? kWideThreads : kMatvecThreads, Kernel::kOwn ? 1 : 0)
    matvec_kernel(const MatvecArgs args) {
  KVRT_DYNAMIC_SHARED(shared);
  constexpr uint32_t kColumns = Kernel::kColumns;
  float* sums = reinterpret_cast<float*>(shared);
  const uint32_t warp = threadIdx.x / kWarp, slot = warp / args.warps, w = warp % args.warps;
  const uint32_t group = blockIdx.x / args.passes, first_x = blockIdx.x % args.passes * kColumns;
  const uint8_t* panel = slot < args.slots ? matvec_panel(args, group, slot).data : nullptr;  // also null: the warp only makes rows of x
  const uint32_t count = min(kColumns, args.in.n - first_x);
  Kernel kernel{};
  if (panel != nullptr) kernel.load(args, panel, w);
  MatvecRows rows;
  if constexpr (Kernel::kOwn) {
    OwnRows<Kernel::kQuantized, Kernel::kGroup> own_rows(args.in, args.cols);
    grid_wait();
    grid_launch_next();
    // Integers lie behind the rows that they are made from; the place of these rows is later that of the sums.
    auto* stage = reinterpret_cast<float*>(shared + (Kernel::kQuantized ? 0 : args.own_at));
    rows = own_rows.take(args.in, args.cols, first_x, count, stage, shared + args.own_at);
  } else {
    grid_wait();
    grid_launch_next();
    rows = given_rows<Kernel::kQuantized>(args.in, args.cols, first_x, count);
  }
  if (panel != nullptr) kernel.run(args, rows, w, sums + warp * kColumns * kPanelRows);
  __syncthreads();
  matvec_store<kColumns>(args, group, first_x, sums);
}

}  // namespace kvrt::cuda
