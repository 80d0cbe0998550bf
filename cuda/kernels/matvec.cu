// matvec, matvec_act: the choice of the kernel, its warps, and each part's rows. Also the element-wise kernels of the feed-forward.
#include "cuda/kernels/matvec.h"

#include <algorithm>

namespace kvrt::cuda {
namespace {

// The warps that keep a device's memory busy, for 132 multiprocessors. A constant, not the device's count: it is part of the sums' order.
constexpr uint32_t kWarpsWanted = 16 * 132;
constexpr uint32_t kPanelWarpsMax = kMatvecThreads / kWarp;
constexpr uint32_t kBlockWarps = 4;  // a block has at least so many, of several panels where one has fewer

// Limits for blocks that make their own rows of x: the elements of these, by the shared memory that a kernel has by default; these times
// the weight's rows, which measures the work of all blocks together (matvec_rows.h). kBlocksAlone: up to so many blocks have a
// multiprocessor each, and so room for more warps.
constexpr uint64_t kOwnCellsMax = 8192, kOwnWorkMax = 64 << 20;
constexpr uint32_t kBlocksAlone = 132;

// The warps that share a panel: more where there are few panels, each with as many turns as the others.
uint32_t panel_warps(uint32_t rows, uint32_t turns, uint32_t most) {
  const uint32_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const uint32_t wanted = std::clamp((kWarpsWanted + panels - 1) / panels, 1u, std::min(most, turns));
  const uint32_t each = (turns + wanted - 1) / wanted;
  return (turns + each - 1) / each;
}

// The shared memory of a block that makes its own rows of x; `warps` grows by those that only do that.
uint32_t prepare_own_rows(bool plain, uint32_t blocks, uint32_t count, uint32_t sums, uint32_t* warps, MatvecArgs* args) {
  const uint32_t cells = count * args->cols, stage = cells * sizeof(float);
  const uint32_t wanted = (cells / kQuantizeWidth + kWarp - 1) / kWarp;  // all of its loads at once
  if (blocks <= kBlocksAlone) *warps = std::max(*warps, std::min(wanted, kPanelWarpsMax));
  args->own_at = plain ? sums : std::max(sums, stage);
  return args->own_at + (plain ? stage : own_quant_bytes(count, args->cols));
}

// The rows of x that a block of so many warps takes.
uint32_t columns_of(uint32_t n, DType type, uint32_t warps) {
  if (n == 1 || (n == 2 && type != DType::kF32)) return n;
  return n <= 8 || is_plain(type) || warps * kWarp > kWideThreads ? 8 : 16;
}

// Starts the kernel of a type. `rows` is that of the whole weight: all its parts, also of other types, have the same number of warps.
void start(Stream* stream, DType type, uint32_t rows, MatvecArgs args) {
  const bool pair = args.store == MatvecStore::kActPair, plain = is_plain(type);
  const bool own = plain ? args.in.norm != nullptr : args.in.quantized.q == nullptr;
  args.warps = panel_warps(rows, matvec_turns(type, args.cols), pair ? kPanelWarpsMax / 2 : kPanelWarpsMax);
  args.slots = std::max(1u, kBlockWarps / args.warps);
  if (pair) args.slots = (args.slots + 1) / 2 * 2;
  uint32_t warps = args.slots * args.warps;
  const uint32_t n = args.in.n, columns = columns_of(n, type, warps), panels = args.panels * (pair ? 2 : 1);
  const MatvecKernel kernel = plain          ? matvec_plain_kernel(type, columns, own)
                              : columns >= 8 ? matvec_tensor_kernel(type, columns, own)
                                             : matvec_dot_kernel(type, columns, own);
  args.passes = (n + columns - 1) / columns;
  const uint32_t blocks = (panels + args.slots - 1) / args.slots * args.passes;
  uint32_t shared = warps * columns * kPanelRows * sizeof(float);
  if (own) shared = prepare_own_rows(plain, blocks, std::min(n, columns), shared, &warps, &args);
  launch(kernel, blocks, warps * kWarp, shared, stream, args);
}

// Multiplies rows [begin, end) of a weight, to columns [0, end - begin) of the output, by a launch for each of their types.
void matvec_rows(Stream* stream, const DeviceWeight& w, uint32_t begin, uint32_t end, const MatvecArgs& common) {
  bool done[kWeightPartsMax] = {};
  for (uint32_t first = 0; first < w.n_parts; ++first) {
    if (done[first]) continue;
    MatvecArgs args = common;
    args.panel_bytes = w.parts[first].panel_bytes;
    args.cols = w.cols;
    for (uint32_t i = first; i < w.n_parts; ++i) {
      const DevicePart& part = w.parts[i];
      if (part.type != w.parts[first].type) continue;
      done[i] = true;
      const uint32_t from = std::max(begin, part.row_begin), to = std::min(end, part.row_begin + part.rows);
      if (from >= to) continue;
      const uint32_t skipped = (from - part.row_begin) / kPanelRows, row = part.row_begin + skipped * kPanelRows;
      args.parts[args.n_parts++] = {part.data + skipped * part.panel_bytes, args.panels, from - row, to - row,
                                    static_cast<int32_t>(row) - static_cast<int32_t>(begin)};
      args.panels += (to - row + kPanelRows - 1) / kPanelRows;
    }
    if (args.n_parts > 0) start(stream, w.parts[first].type, w.rows, args);
  }
}

// Gate and up in one launch: a block has panels of both. False: up's rows begin within a panel of gate's, or are of another type.
bool matvec_pair(Stream* stream, const DeviceWeight& w, uint32_t ff, MatvecArgs args) {
  const DevicePart &gate = w.parts[0], &up = w.n_parts == 2 ? w.parts[1] : gate;
  const uint32_t panels = (ff + kPanelRows - 1) / kPanelRows;
  const bool one = w.n_parts == 1 && ff % kPanelRows == 0, two = w.n_parts == 2 && gate.rows == ff && gate.type == up.type;
  if (!one && !two) return false;
  args.store = MatvecStore::kActPair;
  args.panel_bytes = gate.panel_bytes;
  args.cols = w.cols;
  args.panels = panels;
  args.n_parts = 2;
  args.parts[0] = {gate.data, 0, 0, ff, 0};
  args.parts[1] = {one ? gate.data + panels * gate.panel_bytes : up.data, 0, 0, ff, 0};
  start(stream, gate.type, w.rows, args);
  return true;
}

__device__ __forceinline__ float act_mul_of(DeviceActivation act, float gate, float up) {
  if (act == DeviceActivation::kClampedSwiglu) return clamped_swiglu_of(gate, up);
  return act == DeviceActivation::kSilu ? silu_mul_of(gate, up) : gelu_mul_of(gate, up);
}

// Reads and writes 12 bytes of each output. A thread per element.
__global__ void act_mul_kernel(const float* gate_up, DeviceActivation act, uint32_t n, uint32_t ff, float* out) {
  grid_wait();
  grid_launch_next();
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= ff) return;
  for (uint64_t row = blockIdx.y; row < n; row += gridDim.y) {
    const float gate = gate_up[row * 2 * ff + i], up = gate_up[row * 2 * ff + ff + i];
    out[row * ff + i] = act_mul_of(act, gate, up);
  }
}

// Reads and writes 8 bytes of each element. A thread per element.
__global__ void add_bias_kernel(const float* bias, uint32_t n, uint32_t rows, float* x) {
  grid_wait();
  grid_launch_next();
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  for (uint64_t row = blockIdx.y; row < n; row += gridDim.y) x[row * rows + i] = x[row * rows + i] + bias[i];
}

constexpr uint32_t kElementThreads = 256;
dim3 element_grid(uint32_t n, uint32_t width) { return {(width + kElementThreads - 1) / kElementThreads, std::min(n, 65535u)}; }

}  // namespace

bool matvec_takes_rows(const DeviceWeight& w, uint32_t n) {
  const uint64_t cells = uint64_t{n} * w.cols;
  return n <= kOwnRowsMax && cells <= kOwnCellsMax && cells * w.rows <= kOwnWorkMax;
}

void matvec(Stream* stream, const DeviceWeight& w, const float* bias, const MatvecInput& in, bool accumulate, float* out) {
  MatvecArgs args{};
  args.in = in;
  args.bias = bias;
  args.out = out;
  args.stride = w.rows;
  args.store = accumulate ? MatvecStore::kAdd : MatvecStore::kSet;
  matvec_rows(stream, w, 0, w.rows, args);
}

void matvec_act(Stream* stream, const DeviceWeight& gate_up, DeviceActivation act, const MatvecInput& in, float* out) {
  const uint32_t ff = gate_up.rows / 2;
  MatvecArgs args{};
  args.in = in;
  args.out = out;
  args.stride = ff;
  args.act = act;
  if (matvec_pair(stream, gate_up, ff, args)) return;
  args.store = MatvecStore::kSet;  // gate goes to the place of the result
  matvec_rows(stream, gate_up, 0, ff, args);
  args.store = MatvecStore::kActOut;
  matvec_rows(stream, gate_up, ff, 2 * ff, args);
}

void act_mul(Stream* stream, const float* gate_up, DeviceActivation act, uint32_t n, uint32_t ff, float* out) {
  launch(act_mul_kernel, element_grid(n, ff), kElementThreads, 0, stream, gate_up, act, n, ff, out);
}

void add_bias(Stream* stream, const float* bias, uint32_t n, uint32_t rows, float* x) {
  if (bias != nullptr) launch(add_bias_kernel, element_grid(n, rows), kElementThreads, 0, stream, bias, n, rows, x);
}

}  // namespace kvrt::cuda
