// Blocks of KV in formats that are only for the store: a cold chunk is rounded to few bits, and comes back as the pool's format has it.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/log.h"
#include "runtime/compute/step.h"

namespace kvrt {

// Rounds a row of n numbers, as CpuKernels::kv_row.
using RoundRow = void (*)(KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale);
// The fastest of this machine; all give the same bits. Some milliseconds.
RoundRow round_row_kernel(Log* log);

// The formats that blocks are rounded from, and to.
inline bool is_wide(KvFormat format) { return !kv_scaled(format); }
inline bool is_cold(KvFormat format) { return format == KvFormat::kI8 || format == KvFormat::kI4; }

// One layer's part of a block. `alike`: what is taken from K's rows before they are rounded, and is added after, [tokens][kv_heads][k.dim];
// empty: nothing. Slots behind `tokens` are left as they are.
struct ColdLayer {
  const KvGeometry& wide;
  const KvGeometry& cold;
  uint32_t tokens;
  std::span<const float> alike;
};
void round_layer(const ColdLayer& layer, RoundRow round, const uint8_t* wide, uint8_t* cold);
void widen_layer(const ColdLayer& layer, const uint8_t* cold, uint8_t* wide);

}  // namespace kvrt
