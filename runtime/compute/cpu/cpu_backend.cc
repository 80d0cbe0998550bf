#include "runtime/compute/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/books_only.h"
#include "runtime/base/check.h"
#include "runtime/base/fp_env.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/memory.h"
#include "runtime/compute/cpu/weights.h"
#include "runtime/compute/quant/quants.h"
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

}  // namespace

Result<std::unique_ptr<Buffer>> CpuBackend::alloc(uint64_t bytes, bool populate) {
  if (populate)
    KVRT_TRY(check_memory("the model's memory beside its weights", bytes,
                          "lower kv_bytes_max, or take a smaller model; `kvrt plan` says what fits"));
  KVRT_ASSIGN(HostMemory memory, HostMemory::map(bytes, populate));
  return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(std::move(memory)));
}

void CpuBackend::device_memory(uint64_t* total, uint64_t* free) const {
  *total = physical_memory();
  *free = available_memory();
}
Status CpuBackend::upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) {
  KVRT_CHECK_NO_BOOKS();
  fill({device, bytes});
  return {};
}
Status CpuBackend::download(std::span<uint8_t> host, const uint8_t* device) {
  KVRT_CHECK_NO_BOOKS();
  std::copy_n(device, host.size(), host.data());
  return {};
}
void CpuBackend::clear(uint8_t* device, uint64_t bytes) {
  KVRT_CHECK_NO_BOOKS();
  std::memset(device, 0, bytes);
}
void CpuBackend::copy(std::span<const BlockPair> pairs, uint64_t bytes) {
  KVRT_CHECK_NO_BOOKS();
  for (const BlockPair& pair : pairs) std::memcpy(pair.to, pair.from, bytes);
}

void CpuBackend::embed(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) {
  dequantize_rows(table, step.tokens.subspan(first, n), out);
}

void CpuBackend::embed_positions(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) {
  dequantize_rows(table, step.positions.subspan(first, n), out);
}

void CpuBackend::embed_table(const TensorView& table, const Step& step, uint32_t first, uint32_t n, float* out) {
  for_rows(n, [&](uint32_t i) { dequantize_row(table, step.tokens[first + i], out + i * table.cols()); });
}

void CpuBackend::dequantize_rows(const Weight& table, std::span<const int32_t> rows, float* out) {
  const auto& weight = static_cast<const PanelWeight&>(table);
  for_rows(static_cast<uint32_t>(rows.size()), [&](uint32_t i) {
    KVRT_CHECK(rows[i] >= 0 && static_cast<uint32_t>(rows[i]) < weight.rows());
    weight.dequantize(static_cast<uint32_t>(rows[i]), out + uint64_t{i} * weight.cols());
  });
}

void CpuBackend::rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) {
  for_rows(rows, [&](uint32_t row) { kernels_.rmsnorm_row(x + uint64_t{row} * width, weight, eps, width, out + uint64_t{row} * width); });
}

void CpuBackend::layernorm(const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width, float* out) {
  for_rows(rows,
           [&](uint32_t row) { kernels_.layernorm_row(x + uint64_t{row} * width, weight, bias, eps, width, out + uint64_t{row} * width); });
}

void CpuBackend::rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                               float* x) {
  for_rows(rows, [&](uint32_t row) {
    for (uint32_t h = 0; h < heads; ++h) {
      float* head = x + uint64_t{row} * stride + uint64_t{h} * head_dim;
      kernels_.rmsnorm_row(head, weight, eps, head_dim, head);
    }
  });
}

void CpuBackend::layernorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                                 float* x) {
  for_rows(rows, [&](uint32_t row) {
    for (uint32_t h = 0; h < heads; ++h) {
      float* head = x + uint64_t{row} * stride + uint64_t{h} * head_dim;
      kernels_.layernorm_row(head, weight + uint64_t{h} * head_dim, nullptr, eps, head_dim, head);
    }
  });
}

void CpuBackend::prepare_rope(const RopeParams& params, const Step& step) {
  const std::span<const int32_t> positions = step.positions;
  KVRT_CHECK(params.dims % 2 == 0);
  if (rope_tables_[rope_last_].params != params) rope_last_ ^= 1;
  RopeTable& table = rope_tables_[rope_last_];
  const uint32_t pairs = params.dims / 2;
  if (table.params != params) {
    RopeTable whole{params, std::vector<double>(pairs), {}, {}};  // before it counts: there may be no memory for a part
    rope_frequencies(params, whole.inv_freq.data());
    table = std::move(whole);
  }
  const double amplitude = rope_amplitude(params);
  table.cos.resize(positions.size() * pairs);
  table.sin.resize(positions.size() * pairs);
  for_rows(static_cast<uint32_t>(positions.size()), [&](uint32_t row) {
    for (uint32_t i = 0; i < pairs; ++i) {
      double sin, cos;
      rope_sincos(static_cast<double>(positions[row]) * table.inv_freq[i], &sin, &cos);
      table.sin[uint64_t{row} * pairs + i] = static_cast<float>(sin * amplitude);
      table.cos[uint64_t{row} * pairs + i] = static_cast<float>(cos * amplitude);
    }
  });
}

void CpuBackend::rope(const RopeParams& params, uint32_t first, uint32_t n, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) {
  const RopeTable& table = rope_tables_[rope_tables_[0].params == params ? 0 : 1];
  const uint32_t pairs = params.dims / 2;
  KVRT_CHECK(params.dims <= head_dim && table.params == params && uint64_t{first + n} * pairs <= table.cos.size());
  for_rows(n, [&](uint32_t i) {
    const uint64_t at = uint64_t{first + i} * pairs;
    for (uint32_t h = 0; h < heads; ++h) {
      kernels_.rope_head(table.cos.data() + at, table.sin.data() + at, pairs, params.style == RopeStyle::kInterleaved,
                         x + uint64_t{i} * stride + h * head_dim);
    }
  });
}

void CpuBackend::temper(const Temperature& t, const Step& step, uint32_t first, uint32_t n, uint32_t width, uint32_t stride, float* x) {
  for_rows(n, [&](uint32_t row) {
    const float factor = temperature_at(t, step.positions[first + row]);
    if (factor == 1) return;  // positions below t.length
    for (uint64_t i = uint64_t{row} * stride, end = i + width; i < end; ++i) x[i] = x[i] * factor;
  });
}

void CpuBackend::add(const float* y, uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, [&](uint32_t row) {
    for (uint64_t i = uint64_t{row} * width, end = i + width; i < end; ++i) x[i] = x[i] + y[i];
  });
}

void CpuBackend::scale(float factor, uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, [&](uint32_t row) {
    for (uint64_t i = uint64_t{row} * width, end = i + width; i < end; ++i) x[i] = x[i] * factor;
  });
}

void CpuBackend::gelu(uint32_t rows, uint32_t width, float* x) {
  pool_.parallel_for(rows, [&](uint32_t row, uint32_t) { kernels_.gelu_row(width, x + uint64_t{row} * width); });
}

void CpuBackend::relu_squared(uint32_t rows, uint32_t width, float* x) {
  for_rows(rows, [&](uint32_t row) {
    for (uint64_t i = uint64_t{row} * width, end = i + width; i < end; ++i) x[i] = x[i] < 0 ? 0 : x[i] * x[i];
  });
}

void CpuBackend::softcap(float cap, uint32_t rows, uint32_t width, float* x) {
  pool_.parallel_for(rows, [&](uint32_t row, uint32_t) { kernels_.softcap_row(cap, width, x + uint64_t{row} * width); });
}

void CpuBackend::gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) {
  for (size_t i = 0; i < rows.size(); ++i) std::memmove(out + i * width, x + uint64_t{rows[i]} * width, uint64_t{width} * sizeof(float));
}

// The rows ascend: none is overwritten before it was read.
void CpuBackend::gather_logits_rows(const Step& step, uint32_t width, float* x) { gather_rows(x, step.logits_rows, width, x); }

void CpuBackend::fetch(const float* x, uint64_t n, float* host) { std::copy_n(x, n, host); }

// All threads get the same number of runs, of 16 to 64 rows: four or more where that leaves a run 32 rows, so that a thread that falls
// behind is soon helped.
void CpuBackend::by_rows(uint32_t rows, const std::function<void(uint32_t first, uint32_t n)>& fn) {
  const uint32_t threads = pool_.size(), run = std::clamp(rows / (4 * threads), 32u, 64u);
  if (rows <= std::max(kFewRows, 16 * threads)) return fn(0, rows);
  const uint32_t runs = (rows + run * threads - 1) / (run * threads) * threads;
  pool_.parallel_for(runs, [&](uint32_t i, uint32_t) {
    const auto first = static_cast<uint32_t>(uint64_t{rows} * i / runs), end = static_cast<uint32_t>(uint64_t{rows} * (i + 1) / runs);
    fn(first, end - first);
  });
}

void CpuBackend::run(const StepRun&, const std::function<void()>& fn) {
  KVRT_CHECK_NO_BOOKS();
  Lock lock(pool_mu_);
  const FpEnv fp_env;
  struct StepScope {
    explicit StepScope(ThreadPool& p) : pool(p) { pool.begin_step(); }
    ~StepScope() { pool.end_step(); }
    ThreadPool& pool;
  } scope(pool_);
  fn();
}

}  // namespace kvrt
