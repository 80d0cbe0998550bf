// The block's byte layout as chunks carry it (architecture: "A block's bytes").
#pragma once

#include <cstdint>
#include <span>

#include "runtime/compute/step.h"

namespace kvrt {

// The number in a chunk's frame. 1 to 4: per layer K [kv_head][head_dim][token], V [kv_head][token][head_dim] in f16, bf16, f32 and int8;
// 4: then the scales, f16, of K [kv_head][token] and of V.
constexpr uint32_t block_layout(KvFormat format) { return 1 + static_cast<uint32_t>(format); }

constexpr const char* kv_format_name(KvFormat format) {  // in kv_root
  constexpr const char* kNames[] = {"f16", "bf16", "f32", "int8"};
  return kNames[static_cast<uint32_t>(format)];
}

// Zeroes the slots of tokens [from, block_tokens): what was there before is no part of a chunk.
void clear_slots(const KvGeometry& kv, std::span<uint8_t> block, uint32_t from);

}  // namespace kvrt
