// The choice of a row's experts (NUMERICS.md §10), on the host.
#pragma once

#include <cstdint>

#include "runtime/compute/backend.h"

namespace kvrt {

// The probabilities of a row's logits, in place, and the ids of its chosen experts, ascending; p[ids[i]] are their weights.
void choose_experts(const RouteParams& params, float* p, uint32_t* ids);
// Rows by the experts that they chose. p [rows][experts] and ids [rows][used] as choose_experts left them.
void sort_by_expert(const RouteParams& params, const float* p, const uint32_t* ids, uint32_t rows, Routes* out);
// Does both, for logits [rows][experts], which it overwrites.
void route_rows(const RouteParams& params, float* logits, uint32_t rows, Routes* out);

}  // namespace kvrt
