// The block's byte layout as chunks carry it (architecture: "A block's bytes").
#pragma once

#include <cstdint>
#include <span>

#include "runtime/compute/step.h"

namespace kvrt {

inline constexpr uint32_t kBlockLayout = 1;  // per layer K [kv_head][head_dim][token], V [kv_head][token][head_dim], f16

// Zeroes the slots of tokens [from, block_tokens): what was there before is no part of a chunk.
void clear_slots(const KvGeometry& kv, std::span<uint8_t> block, uint32_t from);

}  // namespace kvrt
