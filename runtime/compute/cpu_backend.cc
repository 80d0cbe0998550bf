#include "runtime/compute/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/fp_env.h"
#include "runtime/compute/cpu_memory.h"
#include "runtime/compute/cpu_weights.h"
#include "runtime/compute/rope.h"

namespace kvrt {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(HostMemory memory) : memory_(std::move(memory)) {}
  uint8_t* data() override { return memory_.data(); }
  uint64_t bytes() const override { return memory_.bytes(); }

 private:
  HostMemory memory_;
};

constexpr uint32_t kElementwiseGrain = 8;   // rows of one chunk
constexpr uint64_t kChunkBytes = 64 << 10;  // of weights in one chunk of a decode: keeps the stream of prefetches going
constexpr uint32_t kWorkColumns = 16;       // from here on a panel is work enough for a chunk

}  // namespace

Result<std::unique_ptr<Buffer>> CpuBackend::alloc(uint64_t bytes, bool populate) {
  KVRT_ASSIGN(HostMemory memory, HostMemory::map(bytes, populate));
  return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(std::move(memory)));
}

void CpuBackend::upload(uint8_t* device, std::span<const uint8_t> host) { std::copy(host.begin(), host.end(), device); }
void CpuBackend::download(std::span<uint8_t> host, const uint8_t* device) { std::copy_n(device, host.size(), host.data()); }
void CpuBackend::copy(uint8_t* to, const uint8_t* from, uint64_t bytes) { std::memmove(to, from, bytes); }

void CpuBackend::embed(const Weight& table, std::span<const int32_t> tokens, float* out) {
  const auto& weight = static_cast<const PanelWeight&>(table);
  for_rows(static_cast<uint32_t>(tokens.size()), kElementwiseGrain, [&](uint32_t row) {
    KVRT_CHECK(tokens[row] >= 0 && static_cast<uint32_t>(tokens[row]) < weight.rows());
    weight.dequantize(static_cast<uint32_t>(tokens[row]), out + uint64_t{row} * weight.cols());
  });
}

void CpuBackend::rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) {
  for_rows(rows, kElementwiseGrain,
           [&](uint32_t row) { kernels_.rmsnorm_row(x + uint64_t{row} * width, weight, eps, width, out + uint64_t{row} * width); });
}

void CpuBackend::rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                               float* x) {
  for_rows(rows, kElementwiseGrain, [&](uint32_t row) {
    for (uint32_t h = 0; h < heads; ++h) {
      float* head = x + uint64_t{row} * stride + uint64_t{h} * head_dim;
      kernels_.rmsnorm_row(head, weight, eps, head_dim, head);
    }
  });
}

void CpuBackend::quantize(const float* x, uint32_t n, uint32_t k) {
  const uint32_t blocks = k / kQuantBlock;
  if (quant_q_.size() < uint64_t{n} * k) quant_q_.resize(uint64_t{n} * k);
  if (quant_d_.size() < uint64_t{n} * blocks) quant_d_.resize(uint64_t{n} * blocks);
  if (quant_s_.size() < uint64_t{n} * blocks) quant_s_.resize(uint64_t{n} * blocks);
  if (quant_sums_.size() < uint64_t{n} * blocks * 2) quant_sums_.resize(uint64_t{n} * blocks * 2);
  for_rows(n, kElementwiseGrain, [&](uint32_t row) {
    const uint64_t at = uint64_t{row} * blocks;
    kernels_.quantize_row(x + uint64_t{row} * k, k,
                          {quant_q_.data() + uint64_t{row} * k, quant_d_.data() + at, quant_s_.data() + at, quant_sums_.data() + 2 * at});
  });
}

void CpuBackend::matmul(const Weight& w, const float* bias, const float* x, uint32_t n, bool accumulate, float* out) {
  const auto& weight = static_cast<const PanelWeight&>(w);
  if (n == 0) return;
  if (weight.quantized()) quantize(x, n, weight.cols());
  const auto run_part = [&](const WeightPart& part, uint32_t begin, uint32_t end) {
    MatmulArgs args{};
    args.panels = part.data;
    args.panel_bytes = part.panel_bytes;
    args.rows = part.rows;
    args.k = weight.cols();
    args.x = x;
    args.xq = {quant_q_.data(), quant_d_.data(), quant_s_.data(), quant_sums_.data()};
    args.bias = bias ? bias + part.row_begin : nullptr;
    args.accumulate = accumulate;
    args.out = out + part.row_begin;
    args.out_stride = weight.rows();
    matmul_of(kernels_, part.type)(args, begin, end, 0, n);
  };
  // A chunk is a run of panels, counted over all parts: enough bytes (or columns) to be worth a claim, and as many chunks for
  // each thread as for the others.
  const uint64_t wanted = weight.bytes() * std::min(n, kWorkColumns) / kChunkBytes + 1, threads = pool_.size();
  const auto chunks = static_cast<uint32_t>(std::min<uint64_t>((wanted + threads - 1) / threads * threads, weight.panels()));
  pool_.parallel_for(chunks, [&](uint32_t chunk, uint32_t) {
    const auto begin = static_cast<uint32_t>(uint64_t{weight.panels()} * chunk / chunks);
    const auto end = static_cast<uint32_t>(uint64_t{weight.panels()} * (chunk + 1) / chunks);
    for (const WeightPart& part : weight.parts()) {
      const uint32_t from = std::max(begin, part.first_panel), to = std::min(end, part.first_panel + part.panels);
      if (from < to) run_part(part, from - part.first_panel, to - part.first_panel);
    }
  });
}

const CpuBackend::RopeTable& CpuBackend::prepare_rope(const RopeParams& params, std::span<const int32_t> positions) {
  if (rope_tables_[rope_last_].params != params) rope_last_ ^= 1;
  RopeTable& table = rope_tables_[rope_last_];
  const bool same_params = table.params == params;
  if (same_params && std::ranges::equal(positions, table.positions)) return table;
  const uint32_t pairs = params.dims / 2;
  if (!same_params) {
    table.params = params;
    table.inv_freq.resize(pairs);
    rope_frequencies(params, table.inv_freq.data());
  }
  const double amplitude = rope_amplitude(params);
  table.positions.assign(positions.begin(), positions.end());
  table.cos.resize(positions.size() * pairs);
  table.sin.resize(positions.size() * pairs);
  for_rows(static_cast<uint32_t>(positions.size()), kElementwiseGrain, [&](uint32_t row) {
    for (uint32_t i = 0; i < pairs; ++i) {
      double sin, cos;
      rope_sincos(static_cast<double>(positions[row]) * table.inv_freq[i], &sin, &cos);
      table.sin[uint64_t{row} * pairs + i] = static_cast<float>(sin * amplitude);
      table.cos[uint64_t{row} * pairs + i] = static_cast<float>(cos * amplitude);
    }
  });
  return table;
}

void CpuBackend::rope(const RopeParams& params, std::span<const int32_t> positions, uint32_t heads, uint32_t head_dim, uint32_t stride,
                      float* x) {
  KVRT_CHECK(params.dims % 2 == 0 && params.dims <= head_dim);
  const RopeTable& table = prepare_rope(params, positions);
  const uint32_t pairs = params.dims / 2;
  for_rows(static_cast<uint32_t>(positions.size()), kElementwiseGrain, [&](uint32_t row) {
    for (uint32_t h = 0; h < heads; ++h) {
      kernels_.rope_head(table.cos.data() + uint64_t{row} * pairs, table.sin.data() + uint64_t{row} * pairs, pairs,
                         params.style == RopeStyle::kInterleaved, x + uint64_t{row} * stride + h * head_dim);
    }
  });
}

void CpuBackend::act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t width, float* out) {
  const auto row_fn = act == Activation::kSilu ? kernels_.silu_mul_row : kernels_.gelu_mul_row;
  for_rows(rows, kElementwiseGrain, [&](uint32_t row) {
    const float* gate = gate_up + uint64_t{row} * 2 * width;
    row_fn(gate, gate + width, width, out + uint64_t{row} * width);
  });
}

void CpuBackend::add(const float* y, uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, kElementwiseGrain, [&](uint32_t row) {
    for (uint64_t i = uint64_t{row} * width, end = i + width; i < end; ++i) x[i] = x[i] + y[i];
  });
}

void CpuBackend::scale(float factor, uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, kElementwiseGrain, [&](uint32_t row) {
    for (uint64_t i = uint64_t{row} * width, end = i + width; i < end; ++i) x[i] = x[i] * factor;
  });
}

void CpuBackend::softcap(float cap, uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, 1, [&](uint32_t row) { kernels_.softcap_row(cap, width, x + uint64_t{row} * width); });
}

void CpuBackend::gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) {
  for (size_t i = 0; i < rows.size(); ++i) std::memmove(out + i * width, x + uint64_t{rows[i]} * width, uint64_t{width} * sizeof(float));
}

void CpuBackend::run(uint64_t, const std::function<void()>& fn) {
  std::lock_guard lock(pool_mu_);
  const FpEnv fp_env;
  struct StepScope {
    explicit StepScope(ThreadPool& p) : pool(p) { pool.begin_step(); }
    ~StepScope() { pool.end_step(); }
    ThreadPool& pool;
  } scope(pool_);
  fn();
}

}  // namespace kvrt
