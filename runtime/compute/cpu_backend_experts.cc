// Which experts a row goes to, and what comes back from them (NUMERICS.md §10).
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/compute/cpu_backend.h"
#include "runtime/compute/cpu_kernels_scalar.h"

namespace kvrt {
namespace {

// The softmax over a row's logits, in place, and the ids of its `used` largest, ascending.
void choose(float* p, uint32_t experts, uint32_t used, bool normalize, uint32_t* ids) {
  std::vector<bool> taken(experts, false);
  for (uint32_t n = 0; n < used; ++n) {
    uint32_t best = experts;
    for (uint32_t e = 0; e < experts; ++e) {
      if (!taken[e] && (best == experts || p[e] > p[best])) best = e;  // a NaN is never larger: the ids differ in any case
    }
    taken[best] = true;
  }
  float max = p[0];
  for (uint32_t e = 1; e < experts; ++e) max = p[e] > max ? p[e] : max;
  float sum = 0, sum_used = 0;
  for (uint32_t e = 0; e < experts; ++e) {
    p[e] = scalar::exp(p[e] - max);
    sum = sum + p[e];
  }
  for (uint32_t e = 0, n = 0; e < experts; ++e) {
    if (!taken[e]) continue;
    ids[n++] = e;
    sum_used = sum_used + p[e];
  }
  for (uint32_t n = 0; n < used; ++n) p[ids[n]] = p[ids[n]] / (normalize ? sum_used : sum);
}

}  // namespace

void CpuBackend::route(const float* logits, uint32_t rows, uint32_t experts, uint32_t used, bool normalize, Routes* out) {
  KVRT_CHECK(used >= 1 && used <= experts);
  route_weights_.assign(logits, logits + uint64_t{rows} * experts);
  route_ids_.resize(uint64_t{rows} * used);
  for_rows(rows, [&](uint32_t row) {
    choose(route_weights_.data() + uint64_t{row} * experts, experts, used, normalize, route_ids_.data() + uint64_t{row} * used);
  });
  // Counting sort by expert keeps the rows of each in order.
  out->first.assign(experts + 1, 0);
  for (const uint32_t e : route_ids_) ++out->first[e + 1];
  for (uint32_t e = 0; e < experts; ++e) out->first[e + 1] += out->first[e];
  out->rows.resize(route_ids_.size());
  out->weights.resize(route_ids_.size());
  std::vector<uint32_t> next(out->first.begin(), out->first.end() - 1);
  for (uint64_t i = 0; i < route_ids_.size(); ++i) {
    const auto row = static_cast<uint32_t>(i / used);
    const uint32_t e = route_ids_[i], to = next[e]++;
    out->rows[to] = row;
    out->weights[to] = route_weights_[uint64_t{row} * experts + e];
  }
}

void CpuBackend::add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) {
  for_rows(static_cast<uint32_t>(rows.size()),
           [&](uint32_t i) { kernels_.add_scaled_row(weights[i], y + uint64_t{i} * width, width, x + uint64_t{rows[i]} * width); });
}

}  // namespace kvrt
