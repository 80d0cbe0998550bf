// A block's bytes as chunks carry them (storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/compute/step.h"

namespace kvrt {

// The number in a chunk's frame. 1 to 6: per layer K [kv_head][cell][token], V [kv_head][token][cell] in f16, bf16, f32, int8, fp8, int4; a
// cell is an element, of int4 a byte with two (step.h); 4 to 6: then the scales, f16, of K [kv_head][scale][token] and of V. 4: a row of K, the bytes x_0 .. x_n-1 of one element, is x_0, d_1 .. d_n-1:
//     d_t = x_t - e_t, from -128 to 127;  e_1 = x_0;  e_t+1 = e_t + floor(d_t / 2); all modulo 256
// Successive tokens have like values of one element, and differences near zero take fewer bytes in the store.
// 16 k + v: K as layout k has it, V as v, another one, then the scales of those that have any. Where their cells differ in width the
// payload is in planes: of K's cells in all layers byte 0, then byte 1 ..; of V's likewise; then the scales of all layers.
// 512: states (state_layout.h), f32: of all layers the inputs of convolutions, [layer][item], then the recurrences' likewise.
// 256 + n: latents, per layer rows [kv_head][token][cell] as format n has them; 4 to 6: then their scales, f16, [kv_head][scale][token].
inline constexpr uint32_t kStatesLayout = 512;
constexpr uint32_t block_layout(const KvGeometry& kv) {
  const auto number = [](KvFormat format) { return 1 + static_cast<uint32_t>(format); };
  if (kv.latent) return 256 + number(kv.k.format);
  return kv.k.format == kv.v.format ? number(kv.k.format) : 16 * number(kv.k.format) + number(kv.v.format);
}
// The width of the cells by whose bytes the store divides the payload into planes; 1: it does not.
inline uint32_t payload_cell_bytes(const KvGeometry& kv) { return kv.k.cell_bytes() == kv.v.cell_bytes() ? kv.k.cell_bytes() : 1; }

constexpr const char* kv_format_name(KvFormat format) { return kv_row_of(format).name; }
// In kv_root: the name of one format for both, or "int8/f16", K's first.
// "int8-nobias": K of int8 without a bias that is apart.
inline std::string kv_formats_name(KvFormats formats) {
  std::string k = kv_format_name(formats.k);
  if (formats.bias_apart) return k + "-nobias/" + kv_format_name(formats.v);
  return formats.k == formats.v ? k : k + "/" + kv_format_name(formats.v);
}

// Of a block's layout: "int8/int4", K's and V's; "" of another's.
inline std::string layout_name(uint32_t layout) {
  const uint32_t both = layout > 256 ? layout - 256 : layout, k = both < 16 ? both : both / 16, v = both < 16 ? both : both % 16;
  const auto known = [](uint32_t number) { return number >= 1 && number <= std::size(kKvFormats); };
  if (layout >= kStatesLayout || !known(k) || !known(v)) return "";
  return kv_formats_name({static_cast<KvFormat>(k - 1), static_cast<KvFormat>(v - 1)});
}

// Turns a block with `filled` tokens into a chunk's payload, in place. The slots after them become zero: their bytes are no part of it.
void to_payload(const KvGeometry& kv, std::span<uint8_t> block, uint32_t filled);
// And back, with scratch memory of payload_scratch_bytes.
inline uint64_t payload_scratch_bytes(const KvGeometry& kv) { return kv.k.cell_bytes() == kv.v.cell_bytes() ? 0 : kv.block_bytes(); }
void from_payload(const KvGeometry& kv, std::span<uint8_t> payload, std::span<uint8_t> scratch);

}  // namespace kvrt
