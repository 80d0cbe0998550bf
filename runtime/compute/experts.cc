#include "runtime/compute/experts.h"

#include <vector>

#include "runtime/compute/cpu/kernels_scalar.h"

namespace kvrt {

void choose_experts(float* p, uint32_t experts, uint32_t used, bool normalize, uint32_t* ids) {
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

// Counting sort keeps the rows of each expert in order.
void sort_by_expert(const float* p, const uint32_t* ids, uint32_t rows, uint32_t experts, uint32_t used, Routes* out) {
  const uint64_t n = uint64_t{rows} * used;
  out->first.assign(experts + 1, 0);
  for (uint64_t i = 0; i < n; ++i) ++out->first[ids[i] + 1];
  for (uint32_t e = 0; e < experts; ++e) out->first[e + 1] += out->first[e];
  out->rows.resize(n);
  out->weights.resize(n);
  std::vector<uint32_t> next(out->first.begin(), out->first.end() - 1);
  for (uint64_t i = 0; i < n; ++i) {
    const auto row = static_cast<uint32_t>(i / used);
    const uint32_t e = ids[i], to = next[e]++;
    out->rows[to] = row;
    out->weights[to] = p[uint64_t{row} * experts + e];
  }
}

void route_rows(float* logits, uint32_t rows, uint32_t experts, uint32_t used, bool normalize, Routes* out) {
  std::vector<uint32_t> ids(uint64_t{rows} * used);
  for (uint64_t row = 0; row < rows; ++row) choose_experts(logits + row * experts, experts, used, normalize, ids.data() + row * used);
  sort_by_expert(logits, ids.data(), rows, experts, used, out);
}

}  // namespace kvrt
