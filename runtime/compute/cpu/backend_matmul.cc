// Matmuls of CpuBackend: the rows on their way in and out, and the panels as they are dealt to threads.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/compute/cpu/weights.h"

namespace kvrt {
namespace {

constexpr uint64_t kClaimBytes = 32 << 10;  // bytes of weights (times columns): less is not worth a claim
constexpr uint32_t kWorkColumns = 16;       // from here on a panel is work enough
constexpr uint32_t kProductFloats = 8192;   // gate's part, and up's, at a time: stays in L2

template <typename T>
T* at_least(std::vector<T>* v, uint64_t n) {
  if (v->size() < n) v->resize(n);
  return v->data();
}

// Rows from `first` on, which begin a group of their own.
QuantRows rows_from(const QuantRows& rows, uint64_t first, uint32_t k) {
  const uint64_t blocks = first * (k / kQuantBlock);
  return {rows.q + first * k, rows.d + blocks, rows.s + blocks, rows.sums + 2 * blocks};
}

auto act_row_of(const CpuKernels& kernels, Activation act) {
  if (act == Activation::kClampedSwiglu) return kernels.clamped_swiglu_row;
  return act == Activation::kSilu ? kernels.silu_mul_row : kernels.gelu_mul_row;
}

}  // namespace

CpuBackend::Activations CpuBackend::prepare_input(const PanelWeight& w, const MatmulInput& in) {
  const uint32_t k = w.cols();
  const uint64_t n_blocks = w.quantized() ? uint64_t{in.n} * (k / kQuantBlock) : 0;
  WorkerScratch& s = scratch();
  const QuantRows q{at_least(&s.q, n_blocks * kQuantBlock), at_least(&s.d, n_blocks), at_least(&s.s, n_blocks),
                    at_least(&s.sums, 2 * n_blocks)};
  if (in.norm == nullptr && !w.quantized()) return {in.x, q};
  float* normed = in.norm && w.plain() ? at_least(&s.normed, uint64_t{in.n} * k) : nullptr;
  for_rows(in.n, [&](uint32_t row) {
    const float* x = in.x + uint64_t{row} * k;
    if (in.norm) {
      float* to = normed ? normed + uint64_t{row} * k : at_least(&scratch().row, k);
      kernels_.rmsnorm_row(x, in.norm, in.eps, k, to);
      x = to;
    }
    if (w.quantized()) kernels_.quantize_row(x, k, quant_row(kernels_, q, in.n, k, row));
  });
  return {normed ? normed : in.x, q};
}

// fn(begin, end) for runs of panels. Long runs first, as streams are slow to start; then shorter ones, as all threads should end together.
template <typename F>
void CpuBackend::for_panels(uint32_t panels, uint64_t panel_bytes, uint32_t n, const F& fn) {
  const uint32_t threads = ThreadPool::in_chunk() ? 1 : pool_.size();
  if (threads == 1) return fn(0, panels);
  const auto least = static_cast<uint32_t>(kClaimBytes / (panel_bytes * std::min(n, kWorkColumns)) + 1);
  runs_.assign(1, 0);
  for (uint32_t at = 0; at < panels; runs_.push_back(at)) {
    const uint32_t run = std::max(least, (panels - at) / (2 * threads));
    at = std::min(panels, at + (run + 1) / 2 * 2);  // kernels like pairs
  }
  pool_.parallel_for(static_cast<uint32_t>(runs_.size() - 1), [&](uint32_t i, uint32_t) { fn(runs_[i], runs_[i + 1]); });
}

void CpuBackend::matmul(const Weight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) {
  const auto& weight = static_cast<const PanelWeight&>(w);
  if (in.n == 0) return;
  const Activations x = prepare_input(weight, in);
  uint32_t panels = weight.panels();
  if (in.outputs_wanted > 0 && weight.parts().size() == 1) panels = std::min(panels, (in.outputs_wanted + kPanelRows - 1) / kPanelRows);
  for_panels(panels, weight.bytes() / weight.panels(), in.n, [&](uint32_t begin, uint32_t end) {
    for (const WeightPart& part : weight.parts()) {
      const uint32_t from = std::max(begin, part.first_panel), to = std::min(end, part.first_panel + part.panels);
      if (from >= to) continue;
      const MatmulArgs args{part.data,  part.panel_bytes,     part.rows,    weight.cols(), x.x, x.q, bias ? bias + part.row_begin : nullptr,
                            accumulate, out + part.row_begin, weight.rows()};
      matmul_of(kernels_, part.type)(args, from - part.first_panel, to - part.first_panel, 0, in.n);
    }
  });
}

// The input of each head apart: [heads][n][k], quantized or not.
CpuBackend::Activations CpuBackend::prepare_heads(const PanelWeight& w, uint32_t heads, uint32_t n, const HeadRows& in) {
  const uint32_t k = w.cols();
  const uint64_t floats = uint64_t{heads} * n * k, n_blocks = w.quantized() ? floats / kQuantBlock : 0;
  WorkerScratch& s = scratch();
  const QuantRows q{at_least(&s.q, n_blocks * kQuantBlock), at_least(&s.d, n_blocks), at_least(&s.s, n_blocks),
                    at_least(&s.sums, 2 * n_blocks)};
  float* plain = w.plain() ? at_least(&s.normed, floats) : nullptr;
  for_rows(heads * n, [&](uint32_t i) {
    const uint32_t head = i / n, row = i % n;
    const float* x = in.x + uint64_t{row} * in.stride + uint64_t{head} * in.apart;
    if (plain) std::copy_n(x, k, plain + uint64_t{i} * k);
    if (w.quantized()) kernels_.quantize_row(x, k, quant_row(kernels_, rows_from(q, uint64_t{head} * n, k), n, k, row));
  });
  return {plain, q};
}

// The heads' panels are dealt as if they were one weight's.
void CpuBackend::matmul_heads(std::span<const std::unique_ptr<Weight>> heads, uint32_t n, const HeadRows& in, const HeadRows& out) {
  const auto weight = [&](uint32_t head) -> const PanelWeight& { return static_cast<const PanelWeight&>(*heads[head]); };
  if (n == 0) return;
  const auto count = static_cast<uint32_t>(heads.size());
  const uint32_t k = weight(0).cols(), panels = weight(0).panels();
  const Activations x = prepare_heads(weight(0), count, n, in);
  for_panels(count * panels, weight(0).bytes() / panels, n, [&](uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end;) {
      const uint32_t head = at / panels, to = std::min(end, (head + 1) * panels);
      const WeightPart& part = weight(head).parts()[0];
      const uint64_t first = uint64_t{head} * n;
      const MatmulArgs args{part.data,
                            part.panel_bytes,
                            part.rows,
                            k,
                            x.x ? x.x + first * k : nullptr,
                            rows_from(x.q, first, k),
                            nullptr,
                            false,
                            out.x + uint64_t{head} * out.apart,
                            out.stride};
      matmul_of(kernels_, part.type)(args, at - head * panels, to - head * panels, 0, n);
      at = to;
    }
  });
}

void CpuBackend::copy_heads(uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) {
  for_rows(n, [&](uint32_t row) {
    const float* from = in.x + uint64_t{row} * in.stride;
    float* to = out.x + uint64_t{row} * out.stride;
    for (uint32_t h = 0; h < heads; ++h, from += in.apart, to += out.apart) std::copy_n(from, width, to);
  });
}

// Gate's and up's rows of a run of panels go to a small buffer, the activation's result to `out`. Where ff is no multiple of 16 and
// both are rows of one tensor, up's first row lies inside a panel.
void CpuBackend::matmul_act(const Weight& gate_up, Activation act, const MatmulInput& in, float* out) {
  const auto& weight = static_cast<const PanelWeight&>(gate_up);
  if (in.n == 0) return;
  const Activations x = prepare_input(weight, in);
  const auto act_row = act_row_of(kernels_, act);
  const uint32_t ff = weight.rows() / 2, at_a_time = std::max<uint32_t>(kProductFloats / in.n / kPanelRows, 2);
  const uint32_t stride = (at_a_time + 1) * kPanelRows;
  // Rows [first, first + n) of the weight, all of one tensor; returns where the first one's results begin.
  const auto product = [&](uint32_t first, uint32_t n, float* to) {
    const WeightPart* part = weight.parts().data();
    while (first >= part->row_begin + part->rows) ++part;
    const uint32_t row = first - part->row_begin, panel = row / kPanelRows, lane = row % kPanelRows;
    KVRT_CHECK(row + n <= part->rows);
    const MatmulArgs args{part->data + panel * part->panel_bytes,
                          part->panel_bytes,
                          part->rows - panel * kPanelRows,
                          weight.cols(),
                          x.x,
                          x.q,
                          nullptr,
                          false,
                          to,
                          stride};
    matmul_of(kernels_, part->type)(args, 0, (lane + n + kPanelRows - 1) / kPanelRows, 0, in.n);
    return to + lane;
  };
  for_panels((ff + kPanelRows - 1) / kPanelRows, 2 * weight.bytes() / weight.panels(), in.n, [&](uint32_t begin, uint32_t end) {
    WorkerScratch& s = scratch();
    float *gates = at_least(&s.gate, uint64_t{in.n} * stride), *ups = at_least(&s.up, uint64_t{in.n} * stride);
    for (uint32_t panel = begin; panel < end; panel += at_a_time) {
      const uint32_t first = panel * kPanelRows, n = std::min(ff, std::min(end, panel + at_a_time) * kPanelRows) - first;
      const float *gate = product(first, n, gates), *up = product(ff + first, n, ups);
      for (uint32_t c = 0; c < in.n; ++c) {
        act_row(gate + uint64_t{c} * stride, up + uint64_t{c} * stride, n, out + uint64_t{c} * ff + first);
      }
    }
  });
}

void CpuBackend::act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t ff, float* out) {
  const auto act_row = act_row_of(kernels_, act);
  pool_.parallel_for(rows, [&](uint32_t row, uint32_t) {
    const float* gate = gate_up + uint64_t{row} * 2 * ff;
    act_row(gate, gate + ff, ff, out + uint64_t{row} * ff);
  });
}

}  // namespace kvrt
