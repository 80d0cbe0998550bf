// Recurrent layers (runtime/compute/NUMERICS.md §11): a thread per column, which is a channel or a dimension of a head, goes through the
// rows of a sequence one after the other, by the CPU's operations in its order. A sequence of the step that is not there has no rows.
#include <algorithm>

#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"
#include "runtime/compute/natural_log.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kColumns = 128;         // threads of a block at most
constexpr uint32_t kBatch = 8;             // rows whose inputs are loaded together
constexpr uint32_t kHeldRows = 128;        // a state of so many rows stays in registers
constexpr uint32_t kStateBatch = 16;       // rows of any other that are loaded together
constexpr uint32_t kSharedMax = 40 << 10;  // bytes
constexpr uint32_t kLanes = 16;            // the virtual lanes of a sum of squares
constexpr uint32_t kMapThreads = 256;

__device__ __forceinline__ float softplus_of(float x) {
  return x <= 20.0f ? static_cast<float>(plain_log(1.0 + static_cast<double>(exp_of(x)))) : x;
}
__device__ __forceinline__ float decay_of(float step, float a) {
  const float t = step * a;
  return t == t ? exp_of(0.0f < t ? 0.0f : t) : t;
}
__device__ __forceinline__ float sigmoid_of(float x) {
  const float e = exp_of(-fabsf(x));
  return x == x ? (x < 0.0f ? e : 1.0f) / (1.0f + e) : x;
}

// Item `item` of the op's layer in the block whose units begin there; null where there is no block.
__device__ __forceinline__ float* item_at(const DeviceStates& s, const StateItems& kind, uint32_t units_at, uint32_t item) {
  if (units_at == kNoState) return nullptr;
  return reinterpret_cast<float*>(s.pool + state_offset(s.layout, kind, s.units + units_at, s.layer, item));
}

// ---- convolutions

// kKept inputs that are reached back to, in registers. A block per kMapThreads channels (x) and sequence (y). Bytes: 8 per number, and 8
// per number of the state.
template <uint32_t kKept>
__global__ void __launch_bounds__(kMapThreads) conv_kernel(const DeviceStates s, const ConvParams p, uint32_t stride, float* x) {
  grid_wait();
  const DeviceStateSeq seq = s.seqs[blockIdx.y];
  const uint32_t channel = blockIdx.x * kMapThreads + threadIdx.x;
  if (channel >= p.channels || seq.n_rows == 0) return;
  const uint32_t width = p.channels / s.layout.inputs.items, at = channel % width;
  const float* from = item_at(s, s.layout.inputs, seq.from_at, channel / width);
  float* to = item_at(s, s.layout.inputs, seq.to_at, channel / width);
  float kept[kKept], weight[kKept + 1];
  KVRT_CUDA_UNROLL for (uint32_t i = 0; i <= kKept; ++i) weight[i] = p.weight[i * p.channels + channel];
  KVRT_CUDA_UNROLL for (uint32_t i = 0; i < kKept; ++i) kept[i] = from != nullptr ? from[i * width + at] : 0.0f;
  const float bias = p.bias != nullptr ? p.bias[channel] : 0.0f;
  x += uint64_t{seq.first_row} * stride + channel;
  for (uint32_t first = 0; first < seq.n_rows; first += kBatch, x += uint64_t{kBatch} * stride) {
    float in[kBatch];
    KVRT_CUDA_UNROLL for (uint32_t j = 0; j < kBatch; ++j) in[j] = first + j < seq.n_rows ? x[uint64_t{j} * stride] : 0.0f;
    KVRT_CUDA_UNROLL for (uint32_t j = 0; j < kBatch; ++j) {
      if (first + j >= seq.n_rows) break;
      float sum = bias;
      KVRT_CUDA_UNROLL for (uint32_t i = 0; i < kKept; ++i) sum = fmaf(weight[i], kept[i], sum);
      sum = fmaf(weight[kKept], in[j], sum);
      x[uint64_t{j} * stride] = p.silu ? silu_mul_of(sum, 1.0f) : sum;
      KVRT_CUDA_UNROLL for (uint32_t i = 0; i + 1 < kKept; ++i) kept[i] = kept[i + 1];
      kept[kKept - 1] = in[j];
    }
  }
  KVRT_CUDA_UNROLL for (uint32_t i = 0; i < kKept; ++i) to[i * width + at] = kept[i];
}

// Any number of taps: they stay in the state.
__global__ void __launch_bounds__(kMapThreads) conv_taps_kernel(const DeviceStates s, const ConvParams p, uint32_t stride, float* x) {
  grid_wait();
  const DeviceStateSeq seq = s.seqs[blockIdx.y];
  const uint32_t channel = blockIdx.x * kMapThreads + threadIdx.x, last = p.taps - 1;
  if (channel >= p.channels || seq.n_rows == 0) return;
  const uint32_t width = p.channels / s.layout.inputs.items, at = channel % width;
  const float* from = item_at(s, s.layout.inputs, seq.from_at, channel / width);
  float* to = item_at(s, s.layout.inputs, seq.to_at, channel / width);
  for (uint32_t i = 0; i < last; ++i) to[i * width + at] = from != nullptr ? from[i * width + at] : 0.0f;
  x += uint64_t{seq.first_row} * stride + channel;
  for (uint32_t row = 0; row < seq.n_rows; ++row, x += stride) {
    const float in = *x;
    float sum = p.bias != nullptr ? p.bias[channel] : 0.0f;
    for (uint32_t i = 0; i < last; ++i) {
      const float kept = to[i * width + at];
      sum = fmaf(p.weight[i * p.channels + channel], kept, sum);
      if (i > 0) to[(i - 1) * width + at] = kept;
    }
    to[(last - 1) * width + at] = in;
    sum = fmaf(p.weight[last * p.channels + channel], in, sum);
    *x = p.silu ? silu_mul_of(sum, 1.0f) : sum;
  }
}

// ---- a column of a head's state

// kHeld rows in registers, which all threads of a warp update together, or (0) any number of rows in memory: first those of `from`, then those of `to`.
template <uint32_t kHeld>
struct Column {
  float held[kHeld];
  float* to;
  uint32_t width;

  __device__ __forceinline__ Column(const float* from, float* to_, uint32_t, uint32_t width_) : to(to_), width(width_) {
    KVRT_CUDA_UNROLL for (uint32_t n = 0; n < kHeld; ++n) held[n] = from != nullptr ? from[n * width] : 0.0f;
  }
  // Each row becomes fn(n, row), in order. In steps: or, with much else to hold, loads from shared memory go far ahead, and registers spill.
  template <bool in_steps = false, typename Fn>
  __device__ __forceinline__ void update(Fn fn) {
    KVRT_CUDA_UNROLL for (uint32_t n = 0; n < kHeld; ++n) {
      held[n] = fn(n, held[n]);
      if (in_steps && n % kStateBatch == kStateBatch - 1) __syncwarp();
    }
  }
  __device__ __forceinline__ void finish() const { KVRT_CUDA_UNROLL for (uint32_t n = 0; n < kHeld; ++n) to[n * width] = held[n]; }
};
template <>
struct Column<0> {
  const float* from;
  float* to;
  uint32_t rows, width;

  __device__ __forceinline__ Column(const float* from_, float* to_, uint32_t rows_, uint32_t width_)
      : from(from_), to(to_), rows(rows_), width(width_) {}
  template <bool in_steps = false, typename Fn>
  __device__ __forceinline__ void update(Fn fn) {
    for (uint32_t first = 0; first < rows; first += kStateBatch) {
      float v[kStateBatch];
      KVRT_CUDA_UNROLL for (uint32_t i = 0; i < kStateBatch; ++i) {
        v[i] = from != nullptr && first + i < rows ? from[uint64_t{first + i} * width] : 0.0f;
      }
      KVRT_CUDA_UNROLL for (uint32_t i = 0; i < kStateBatch; ++i) {
        if (first + i < rows) to[uint64_t{first + i} * width] = fn(first + i, v[i]);
      }
    }
    from = to;
  }
  __device__ __forceinline__ void finish() const {}
};

// Copies `width` numbers of each of n rows to shared memory, one row after the other.
__device__ __forceinline__ void stage(const float* from, uint32_t stride, uint32_t n, uint32_t width, float* to) {
  for (uint32_t i = threadIdx.x; i < n * width; i += blockDim.x) to[i] = from[uint64_t{i / width} * stride + i % width];
}

// A block per head and blockDim.x of its dimensions (x), and sequence (y). Bytes: 8 per number of the state; the rows' numbers.
template <uint32_t kHeld>
__global__ void __launch_bounds__(kColumns)
    scan_kernel(const DeviceStates s, const ScanParams p, uint32_t batch, uint32_t stride, const float* x, const float* dt, float* out) {
  KVRT_DYNAMIC_SHARED(shared);
  __shared__ float steps[kBatch], decays[kBatch];
  float *b = reinterpret_cast<float*>(shared), *c = b + batch * p.state;
  grid_wait();
  const DeviceStateSeq seq = s.seqs[blockIdx.y];
  if (seq.n_rows == 0) return;
  const uint32_t head = blockIdx.x % p.heads, d = blockIdx.x / p.heads * blockDim.x + threadIdx.x, width = p.heads * p.head_dim;
  const bool mine = d < p.head_dim;
  const uint32_t at = mine ? d : 0, group = head / (p.heads / p.groups);
  const float *from = item_at(s, s.layout.heads, seq.from_at, head), skip = p.skip[head];
  x += uint64_t{seq.first_row} * stride;
  dt += uint64_t{seq.first_row} * stride + head;
  out += uint64_t{seq.first_row} * width + head * p.head_dim + at;
  Column<kHeld> column(from != nullptr ? from + at : nullptr, item_at(s, s.layout.heads, seq.to_at, head) + at, p.state, p.head_dim);
  for (uint32_t first = 0; first < seq.n_rows; first += batch, x += uint64_t{batch} * stride) {
    const uint32_t n_rows = min(batch, seq.n_rows - first);
    __syncthreads();
    stage(x + width + group * p.state, stride, n_rows, p.state, b);
    stage(x + width + (p.groups + group) * p.state, stride, n_rows, p.state, c);
    if (threadIdx.x < n_rows) {
      const float step = softplus_of(dt[uint64_t{first + threadIdx.x} * stride] + p.dt_bias[head]);
      steps[threadIdx.x] = step;
      decays[threadIdx.x] = decay_of(step, p.a[head]);
    }
    __syncthreads();
    for (uint32_t row = 0; (mine || kHeld > 0) && row < n_rows; ++row) {
      const float value = x[uint64_t{row} * stride + head * p.head_dim + at], in = steps[row] * value, decay = decays[row];
      const float *bs = b + row * p.state, *cs = c + row * p.state;
      float sum = 0;
      column.update([&](uint32_t n, float state) {
        state = fmaf(in, bs[n], state * decay);
        sum = fmaf(state, cs[n], sum);
        return state;
      });
      if (mine) out[uint64_t{first + row} * width] = fmaf(skip, value, sum);
    }
  }
  if (mine) column.finish();
}

// Divides each of n rows in shared memory by its length and the divisor. A block of whole warps, 16 threads a row, each a virtual lane.
__device__ __forceinline__ void divide_by_lengths(float* rows, uint32_t n, uint32_t width, float eps, float divisor) {
  const uint32_t lane = threadIdx.x % kLanes, per_pass = blockDim.x / kLanes;
  for (uint32_t first = 0; first < n; first += per_pass) {
    const uint32_t row = first + threadIdx.x / kLanes;
    float* x = rows + min(row, n - 1) * width;
    float squares = 0;
    for (uint32_t i = lane; i < width; i += kLanes) squares = fmaf(x[i], x[i], squares);
    const float scale = 1.0f / sqrtf(warp_sum(squares, kLanes) + eps) / divisor;
    for (uint32_t i = lane; row < n && i < width; i += kLanes) x[i] = x[i] * scale;
    __syncthreads();
  }
}

// Likewise.
template <uint32_t kHeld>
__global__ void __launch_bounds__(kColumns)
    delta_kernel(const DeviceStates s, const DeltaParams p, uint32_t key, uint32_t batch, uint32_t stride, const float* qkv,
                 uint32_t gate_stride, const float* beta, const float* alpha, float* out) {
  KVRT_DYNAMIC_SHARED(shared);
  __shared__ float rates[kBatch], decays[kBatch];
  float *q = reinterpret_cast<float*>(shared), *k = q + batch * p.key_dim;
  grid_wait();
  const DeviceStateSeq seq = s.seqs[blockIdx.y];
  if (seq.n_rows == 0) return;
  const uint32_t head = blockIdx.x % p.heads, d = blockIdx.x / p.heads * blockDim.x + threadIdx.x, width = p.heads * p.value_dim;
  const bool mine = d < p.value_dim;
  const uint32_t at = mine ? d : 0, keys = p.key_heads * p.key_dim, key_head = p.tiled ? head % key : head / key;
  const float* from = item_at(s, s.layout.heads, seq.from_at, head);
  const float root = sqrtf(static_cast<float>(p.key_dim));
  qkv += uint64_t{seq.first_row} * stride;
  beta += uint64_t{seq.first_row} * gate_stride + head;
  alpha += uint64_t{seq.first_row} * gate_stride + head;
  out += uint64_t{seq.first_row} * width + head * p.value_dim + at;
  Column<kHeld> column(from != nullptr ? from + at : nullptr, item_at(s, s.layout.heads, seq.to_at, head) + at, p.key_dim, p.value_dim);
  for (uint32_t first = 0; first < seq.n_rows; first += batch, qkv += uint64_t{batch} * stride) {
    const uint32_t n_rows = min(batch, seq.n_rows - first);
    __syncthreads();
    stage(qkv + key_head * p.key_dim, stride, n_rows, p.key_dim, q);
    stage(qkv + keys + key_head * p.key_dim, stride, n_rows, p.key_dim, k);
    if (threadIdx.x < n_rows) {
      const uint64_t gate = uint64_t{first + threadIdx.x} * gate_stride;
      rates[threadIdx.x] = sigmoid_of(beta[gate]);
      decays[threadIdx.x] = decay_of(softplus_of(alpha[gate] + p.dt_bias[head]), p.a[head]);
    }
    __syncthreads();
    divide_by_lengths(q, n_rows, p.key_dim, p.eps, root);
    divide_by_lengths(k, n_rows, p.key_dim, p.eps, 1.0f);
    for (uint32_t row = 0; (mine || kHeld > 0) && row < n_rows; ++row) {
      const float value = qkv[uint64_t{row} * stride + 2 * keys + head * p.value_dim + at], decay = decays[row];
      const float *qs = q + row * p.key_dim, *ks = k + row * p.key_dim;
      float known = 0, sum = 0;
      column.template update<true>([&](uint32_t n, float state) {
        state = state * decay;
        known = fmaf(state, ks[n], known);
        return state;
      });
      const float change = (value - known) * rates[row];
      column.template update<true>([&](uint32_t n, float state) {
        state = fmaf(ks[n], change, state);
        sum = fmaf(state, qs[n], sum);
        return state;
      });
      if (mine) out[uint64_t{first + row} * width] = sum;
    }
  }
  if (mine) column.finish();
}

// A thread per number, a row per blockIdx.y. Bytes: 12 per number.
__global__ void __launch_bounds__(kMapThreads) multiply_kernel(Gate gate, uint32_t width, const float* x, uint32_t x_stride, const float* y,
                                                               uint32_t y_stride, float* out, uint32_t out_stride) {
  grid_wait();
  const uint32_t i = blockIdx.x * kMapThreads + threadIdx.x;
  const uint64_t row = blockIdx.y;
  if (i >= width) return;
  const float a = x[row * x_stride + i], b = y[row * y_stride + i];
  out[row * out_stride + i] = gate == Gate::kSilu ? silu_mul_of(b, a) : a * (gate == Gate::kSigmoid ? sigmoid_of(b) : b);
}

// Threads of a block for so many columns: whole warps.
uint32_t threads_for(uint32_t columns) { return std::min(kColumns, (columns + kWarp - 1) / kWarp * kWarp); }
uint32_t blocks_for(uint32_t columns) { return (columns + threads_for(columns) - 1) / threads_for(columns); }
// Rows whose two vectors of so many numbers lie in shared memory together.
uint32_t batch_for(uint32_t numbers) { return std::clamp(kSharedMax / (numbers * 8), 1u, kBatch); }
uint32_t shared_for(uint32_t numbers) { return 2 * batch_for(numbers) * numbers * static_cast<uint32_t>(sizeof(float)); }

}  // namespace

void conv(Stream* stream, const DeviceStates& states, const ConvParams& params, uint32_t stride, float* x) {
  const auto kernel = params.taps == 4 ? conv_kernel<3> : params.taps == 3 ? conv_kernel<2> : conv_taps_kernel;
  launch(kernel, dim3((params.channels + kMapThreads - 1) / kMapThreads, states.n_seqs), dim3(kMapThreads), 0, stream, states, params,
         stride, x);
}

void scan(Stream* stream, const DeviceStates& states, const ScanParams& params, uint32_t stride, const float* x, const float* dt,
          float* out) {
  launch(params.state == kHeldRows ? scan_kernel<kHeldRows> : scan_kernel<0>,
         dim3(params.heads * blocks_for(params.head_dim), states.n_seqs), dim3(threads_for(params.head_dim)), shared_for(params.state),
         stream, states, params, batch_for(params.state), stride, x, dt, out);
}

void delta(Stream* stream, const DeviceStates& states, const DeltaParams& params, uint32_t stride, const float* qkv, uint32_t gate_stride,
           const float* beta, const float* alpha, float* out) {
  const uint32_t key = params.tiled ? params.key_heads : params.heads / params.key_heads;
  launch(params.key_dim == kHeldRows ? delta_kernel<kHeldRows> : delta_kernel<0>,
         dim3(params.heads * blocks_for(params.value_dim), states.n_seqs), dim3(threads_for(params.value_dim)), shared_for(params.key_dim),
         stream, states, params, key, batch_for(params.key_dim), stride, qkv, gate_stride, beta, alpha, out);
}

void multiply(Stream* stream, Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride,
              float* out, uint32_t out_stride) {
  launch(multiply_kernel, dim3((width + kMapThreads - 1) / kMapThreads, n), dim3(kMapThreads), 0, stream, gate, width, x, x_stride, y,
         y_stride, out, out_stride);
}

}  // namespace kvrt::cuda
