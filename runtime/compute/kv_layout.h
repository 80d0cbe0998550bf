// A block's bytes as chunks carry them (storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <span>

#include "runtime/compute/step.h"

namespace kvrt {

// The number in a chunk's frame. 1 to 5: per layer K [kv_head][head_dim][token], V [kv_head][token][head_dim] in f16, bf16, f32, int8, fp8;
// 4, 5: then the scales, f16, of K [kv_head][token] and of V. 4: a row of K, the bytes x_0 .. x_n-1 of one element, is x_0, d_1 .. d_n-1:
//     d_t = x_t - e_t, from -128 to 127;  e_1 = x_0;  e_t+1 = e_t + floor(d_t / 2); all modulo 256
// Successive tokens have like values of one element, and differences near zero take fewer bytes in the store.
constexpr uint32_t block_layout(KvFormat format) { return 1 + static_cast<uint32_t>(format); }

constexpr const char* kv_format_name(KvFormat format) {  // in kv_root
  constexpr const char* kNames[] = {"f16", "bf16", "f32", "int8", "fp8"};
  return kNames[static_cast<uint32_t>(format)];
}

// Turns a block with `filled` tokens into a chunk's payload, in place. The slots after them become zero: their bytes are no part of it.
void to_payload(const KvGeometry& kv, std::span<uint8_t> block, uint32_t filled);
void from_payload(const KvGeometry& kv, std::span<uint8_t> payload);

}  // namespace kvrt
