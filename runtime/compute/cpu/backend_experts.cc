// Experts of CpuBackend: the choice of each row's experts, and the sum of their outputs (NUMERICS.md §10).
#include "runtime/base/check.h"
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/compute/cpu/experts.h"

namespace kvrt {

void CpuBackend::route(const float* logits, uint32_t rows, const RouteParams& params, Routes* out) {
  KVRT_CHECK(params.used >= 1 && params.used <= params.experts / params.groups * params.groups_used);
  route_weights_.assign(logits, logits + uint64_t{rows} * params.experts);
  route_ids_.resize(uint64_t{rows} * params.used);
  for_rows(rows, [&](uint32_t row) {
    choose_experts(params, route_weights_.data() + uint64_t{row} * params.experts, route_ids_.data() + uint64_t{row} * params.used);
  });
  sort_by_expert(params, route_weights_.data(), route_ids_.data(), rows, out);
}

void CpuBackend::add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) {
  for_rows(static_cast<uint32_t>(rows.size()),
           [&](uint32_t i) { kernels_.add_scaled_row(weights[i], y + uint64_t{i} * width, width, x + uint64_t{rows[i]} * width); });
}

}  // namespace kvrt
