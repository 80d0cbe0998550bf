// Recurrent layers of CpuBackend: how sequences, heads and channels are dealt to threads (NUMERICS.md §11).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/compute/cpu/cpu_backend.h"

namespace kvrt {
namespace {

constexpr uint32_t kConvChannels = 512;  // of a share of a convolution: with 16 rows they stay in L1
alignas(64) constexpr float kNoInputs[kConvChannels] = {};

// An item before a sequence's first row and after its last one.
struct StateAt {
  const float* from;  // null: zeros
  float* to;
};
StateAt state_at(const StateLayout& states, const StateItems& kind, uint8_t* pool, const StepSeq& seq, uint32_t layer, uint32_t item) {
  const auto at = [&](const int32_t* units) { return reinterpret_cast<float*>(pool + state_offset(states, kind, units, layer, item)); };
  return {seq.state_from ? at(seq.state_from) : nullptr, at(seq.state_to)};
}
StateAt head_at(const StateLayout& states, uint8_t* pool, const StepSeq& seq, uint32_t layer, uint32_t head) {
  StateAt at = state_at(states, states.heads, pool, seq, layer, head);
  if (at.from) return at;
  std::memset(at.to, 0, states.heads.bytes);
  return {at.to, at.to};
}

// fn(row) for rows [0, n): each has a logarithm for each head, so that fewer rows than elsewhere are worth a region.
template <typename F>
void for_gates(ThreadPool* pool, uint32_t n, const F& fn) {
  constexpr uint32_t kGrain = 4;
  pool->parallel_for((n + kGrain - 1) / kGrain, [&](uint32_t chunk, uint32_t) {
    for (uint32_t row = chunk * kGrain; row < std::min(n, (chunk + 1) * kGrain); ++row) fn(row);
  });
}

}  // namespace

void CpuBackend::conv(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ConvParams& params, uint32_t stride,
                      float* x) {
  const uint32_t kept = params.taps - 1, width = states.inputs.bytes / sizeof(float) / kept;  // channels of an item
  const uint32_t parts = (width + kConvChannels - 1) / kConvChannels, shares = parts * states.inputs.items;
  KVRT_CHECK(width * states.inputs.items == params.channels);
  pool_.parallel_for(static_cast<uint32_t>(step.seqs.size()) * shares, [&](uint32_t chunk, uint32_t) {
    const StepSeq& seq = step.seqs[chunk / shares];
    if (seq.n_rows == 0) return;
    const uint32_t item = chunk % shares / parts, first = chunk % parts * kConvChannels, channel = item * width + first;
    const StateAt at = state_at(states, states.inputs, pool, seq, layer, item);
    ConvArgs args{};
    args.x = x + uint64_t{seq.first_row} * stride + channel;
    args.stride = stride;
    args.rows = seq.n_rows;
    args.channels = std::min(kConvChannels, width - first);
    args.taps = params.taps;
    args.weight = params.weight + channel;
    args.weight_stride = params.channels;
    args.bias = params.bias ? params.bias + channel : nullptr;
    args.from = at.from ? at.from + first : kNoInputs;
    args.from_stride = at.from ? width : 0;
    args.to = at.to + first;
    args.to_stride = width;
    kernels_.conv_rows(args);
    for (uint32_t row = 0; params.silu && row < args.rows; ++row) kernels_.silu_row(args.channels, args.x + row * args.stride);
  });
}

void CpuBackend::scan(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ScanParams& params, uint32_t stride,
                      const float* x, const float* dt, float* out) {
  const uint32_t rows = step.n_rows(), heads = params.heads, width = heads * params.head_dim;
  KVRT_CHECK(states.heads.items == heads && states.heads.bytes == params.state * params.head_dim * sizeof(float));
  if (gates_.size() < uint64_t{2} * rows * heads) gates_.resize(uint64_t{2} * rows * heads);
  float *steps = gates_.data(), *decays = steps + uint64_t{rows} * heads;
  for_gates(&pool_, rows, [&](uint32_t row) {
    const uint64_t at = uint64_t{row} * heads;
    kernels_.decay_row(dt + uint64_t{row} * stride, params.dt_bias, params.a, heads, steps + at, decays + at);
  });
  pool_.parallel_for(static_cast<uint32_t>(step.seqs.size()) * heads, [&](uint32_t chunk, uint32_t) {
    const StepSeq& seq = step.seqs[chunk / heads];
    if (seq.n_rows == 0) return;
    const uint32_t head = chunk % heads, group = head / (heads / params.groups);
    const StateAt at = head_at(states, pool, seq, layer, head);
    const float* row = x + uint64_t{seq.first_row} * stride;
    ScanArgs args{};
    args.x = row + head * params.head_dim;
    args.b = row + width + group * params.state;
    args.c = row + width + (params.groups + group) * params.state;
    args.stride = stride;
    args.step = steps + uint64_t{seq.first_row} * heads + head;
    args.decay = decays + uint64_t{seq.first_row} * heads + head;
    args.gate_stride = heads;
    args.skip = params.skip[head];
    args.rows = seq.n_rows;
    args.head_dim = params.head_dim;
    args.state = params.state;
    args.from = at.from;
    args.to = at.to;
    args.out = out + uint64_t{seq.first_row} * width + head * params.head_dim;
    args.out_stride = width;
    kernels_.scan_head(args);
  });
}

void CpuBackend::delta(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const DeltaParams& params,
                       uint32_t stride, const float* qkv, uint32_t gate_stride, const float* beta, const float* alpha, float* out) {
  const uint32_t rows = step.n_rows(), heads = params.heads, dim = params.key_dim, keys = params.key_heads * dim;
  const uint32_t width = heads * params.value_dim;
  KVRT_CHECK(states.heads.items == heads && states.heads.bytes == dim * params.value_dim * sizeof(float));
  if (gates_.size() < uint64_t{2} * rows * heads) gates_.resize(uint64_t{2} * rows * heads);
  if (keys_.size() < uint64_t{2} * rows * keys) keys_.resize(uint64_t{2} * rows * keys);
  float *rates = gates_.data(), *decays = rates + uint64_t{rows} * heads;
  const float root = std::sqrt(static_cast<float>(dim));
  for_gates(&pool_, rows, [&](uint32_t row) {
    const uint64_t at = uint64_t{row} * heads;
    kernels_.decay_row(alpha + uint64_t{row} * gate_stride, params.dt_bias, params.a, heads, rates + at, decays + at);
    kernels_.sigmoid_row(beta + uint64_t{row} * gate_stride, heads, rates + at);  // the steps are not needed
    for (uint32_t i = 0; i < 2 * params.key_heads; ++i) {
      const float divisor = i < params.key_heads ? root : 1.0f;
      kernels_.unit_row(qkv + uint64_t{row} * stride + i * dim, params.eps, divisor, dim,
                        keys_.data() + uint64_t{row} * 2 * keys + i * dim);
    }
  });
  pool_.parallel_for(static_cast<uint32_t>(step.seqs.size()) * heads, [&](uint32_t chunk, uint32_t) {
    const StepSeq& seq = step.seqs[chunk / heads];
    if (seq.n_rows == 0) return;
    const uint32_t head = chunk % heads;
    const StateAt at = head_at(states, pool, seq, layer, head);
    DeltaArgs args{};
    args.q = keys_.data() + uint64_t{seq.first_row} * 2 * keys + params.key_head(head) * dim;
    args.k = args.q + keys;
    args.key_stride = 2 * keys;
    args.v = qkv + uint64_t{seq.first_row} * stride + 2 * keys + head * params.value_dim;
    args.stride = stride;
    args.rate = rates + uint64_t{seq.first_row} * heads + head;
    args.decay = decays + uint64_t{seq.first_row} * heads + head;
    args.gate_stride = heads;
    args.rows = seq.n_rows;
    args.key_dim = dim;
    args.value_dim = params.value_dim;
    args.from = at.from;
    args.to = at.to;
    args.out = out + uint64_t{seq.first_row} * width + head * params.value_dim;
    args.out_stride = width;
    kernels_.delta_head(args);
  });
}

void CpuBackend::multiply(Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride,
                          float* out, uint32_t out_stride) {
  pool_.parallel_for(n, [&](uint32_t row, uint32_t) {
    const float *a = x + uint64_t{row} * x_stride, *b = y + uint64_t{row} * y_stride;
    float* to = out + uint64_t{row} * out_stride;
    if (gate == Gate::kSilu) return kernels_.silu_mul_row(b, a, width, to);
    constexpr uint32_t kPiece = 256;
    float factors[kPiece];
    for (uint32_t first = 0; first < width; first += kPiece) {
      const uint32_t count = std::min(kPiece, width - first);
      if (gate == Gate::kSigmoid) kernels_.sigmoid_row(b + first, count, factors);
      const float* by = gate == Gate::kSigmoid ? factors : b + first;
      for (uint32_t i = 0; i < count; ++i) to[first + i] = a[first + i] * by[i];
    }
  });
}

}  // namespace kvrt
