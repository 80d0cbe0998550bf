#include "runtime/compute/cpu/experts.h"

#include <cmath>
#include <vector>

#include "runtime/compute/cpu/kernels_scalar.h"

namespace kvrt {

namespace {

// The place of the largest of n numbers that is not taken yet, the first of equals. A NaN is never larger: the places differ in any case.
uint32_t largest(const float* x, uint32_t n, const std::vector<bool>& taken) {
  uint32_t best = n;
  for (uint32_t i = 0; i < n; ++i) {
    if (!taken[i] && (best == n || x[i] > x[best])) best = i;
  }
  return best;
}

// The sum of the group's two largest with sigmoid, else its largest.
float group_score(const RouteParams& params, const float* x, uint32_t n) {
  std::vector<bool> taken(n, false);
  const uint32_t first = largest(x, n, taken);
  if (!params.sigmoid || n == 1) return x[first];
  taken[first] = true;
  return x[first] + x[largest(x, n, taken)];
}

// Marks the experts that cannot be chosen: those of groups that are not among the groups_used best.
void leave_out_groups(const RouteParams& params, const float* x, std::vector<bool>* taken) {
  const uint32_t n = params.experts / params.groups;
  std::vector<float> scores;
  for (uint32_t g = 0; g < params.groups; ++g) scores.push_back(group_score(params, x + g * n, n));
  std::vector<bool> used(params.groups, false);
  for (uint32_t i = 0; i < params.groups_used; ++i) used[largest(scores.data(), params.groups, used)] = true;
  for (uint32_t e = 0; e < params.experts; ++e) (*taken)[e] = !used[e / n];
}

float sigmoid(float x) {
  if (std::isnan(x)) return x;
  const float fall = -std::fabs(x), e = -64.0f < fall ? scalar::exp(fall) : 0.0f;
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// Logits to probabilities, softmax without its divisor; returns their sum.
float probabilities(const RouteParams& params, float* p) {
  float max = p[0], sum = 0;
  for (uint32_t e = 1; e < params.experts; ++e) max = p[e] > max ? p[e] : max;
  for (uint32_t e = 0; e < params.experts; ++e) {
    p[e] = params.sigmoid ? sigmoid(p[e]) : scalar::exp(p[e] - max);
    sum = sum + p[e];
  }
  return sum;
}

}  // namespace

void choose_experts(const RouteParams& params, float* p, uint32_t* ids) {
  const uint32_t experts = params.experts;
  std::vector<float> by(p, p + experts);  // what they are chosen by
  const float all = probabilities(params, p), sum = params.sigmoid ? 1.0f : all;
  if (params.sigmoid || params.bias) {
    for (uint32_t e = 0; e < experts; ++e) by[e] = p[e] / sum + (params.bias ? params.bias[e] : 0.0f);
  }
  std::vector<bool> taken(experts, false), chosen(experts, false);
  if (params.groups > 1) leave_out_groups(params, by.data(), &taken);
  for (uint32_t n = 0; n < params.used; ++n) {
    const uint32_t best = largest(by.data(), experts, taken);
    taken[best] = chosen[best] = true;
  }
  float sum_used = 0;
  for (uint32_t e = 0, n = 0; e < experts; ++e) {
    if (!chosen[e]) continue;
    ids[n++] = e;
    sum_used = sum_used + p[e];
  }
  for (uint32_t n = 0; n < params.used; ++n) {
    float& weight = p[ids[n]];
    weight = weight / (params.normalize ? sum_used : sum);
    if (params.scale != 1) weight = weight * params.scale;
    if (std::isnan(all)) weight = all;  // whichever expert's it was
  }
}

// Counting sort keeps the rows of each expert in order.
void sort_by_expert(const RouteParams& params, const float* p, const uint32_t* ids, uint32_t rows, Routes* out) {
  const uint32_t experts = params.experts, used = params.used;
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

void route_rows(const RouteParams& params, float* logits, uint32_t rows, Routes* out) {
  std::vector<uint32_t> ids(uint64_t{rows} * params.used);
  for (uint64_t row = 0; row < rows; ++row) choose_experts(params, logits + row * params.experts, ids.data() + row * params.used);
  sort_by_expert(params, logits, ids.data(), rows, out);
}

}  // namespace kvrt
