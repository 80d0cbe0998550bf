#include "runtime/compute/cpu/pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/compute/quant/block.h"
#include "runtime/compute/quant/quants.h"
#include "runtime/compute/quant/words.h"

namespace kvrt {
namespace {

// 4-byte group `g` of a plane of B bits: elements 4(p g + t) + i at bit B t of byte i, p = 8 / B, t < p. No bit of a byte moves into
// another one: a number that is shifted up to another element's place fits there.
template <uint32_t B>
[[gnu::always_inline]] inline uint32_t plane_word(const uint64_t* u, uint32_t g) {
  if constexpr (B == 8) {
    return static_cast<uint32_t>(u[g / 2] >> g % 2 * 32);
  } else {
    constexpr uint32_t kWords = 8 / B / 2;  // of 8 elements each
    uint64_t all = 0;
    for (uint32_t i = 0; i < kWords; ++i) all |= u[g * kWords + i] << (2 * B * i);
    return static_cast<uint32_t>(all | all >> (32 - B));
  }
}

template <uint32_t B>
[[gnu::always_inline]] inline void write_plane(const uint64_t* u, uint32_t lane, uint8_t* plane) {
  for (uint32_t g = 0; g < B; ++g) {
    const uint32_t word = plane_word<B>(u, g);
    std::memcpy(plane + g * 64 + lane * 4, &word, sizeof word);
  }
}

template <DType T>
[[gnu::always_inline]] inline void write_block(const QuantWords& w, uint32_t block, uint32_t lane, uint8_t* unit) {
  constexpr QuantFormat kFormat = *quant_format(T);
  constexpr uint32_t kLow = kFormat.low_bits, kHigh = kFormat.high_bits;
  if (block == 0) {
    std::memcpy(unit + lane * kFormat.scale_bytes, &w.scale, kFormat.scale_bytes);
    std::memcpy(unit + kPanelRows * kFormat.scale_bytes + lane * kFormat.min_bytes, &w.minimum, kFormat.min_bytes);
  }
  for (uint32_t i = 0; i < kFormat.sub_bytes(); ++i) unit[sub_offset(kFormat, block, lane, i)] = w.sub[i];
  uint8_t* body = unit + kFormat.header_bytes() + block * kFormat.body_bytes();
  uint64_t low[4], high[4];
  for (uint32_t i = 0; i < 4; ++i) {
    low[i] = kHigh ? w.u[i] & ((1u << kLow) - 1) * kEveryByte : w.u[i];
    high[i] = kHigh ? w.u[i] >> kLow & ((1u << kHigh) - 1) * kEveryByte : 0;
  }
  write_plane<kLow>(low, lane, body);
  if constexpr (kHigh > 0) write_plane<kHigh>(high, lane, body + 64 * kLow);
}

// `rows` rows from `row` on, row_bytes apart, into one panel.
template <DType T>
void pack_quantized(const uint8_t* row, uint64_t row_bytes, uint32_t rows, uint32_t cols, uint8_t* unit) {
  constexpr QuantFormat kFormat = *quant_format(T);
  const uint32_t block_bytes = dtype_info(static_cast<uint32_t>(T))->block_bytes;
  for (uint32_t k = 0; k < cols; k += kFormat.unit_elems(), row += block_bytes, unit += kFormat.unit_bytes()) {
    for (uint32_t lane = 0; lane < rows; ++lane) {
      for (uint32_t b = 0; b < kFormat.unit_blocks; ++b) {
        QuantWords words;
        decode_block<T>(row + lane * row_bytes, b, &words);
        write_block<T>(words, b, lane, unit);
      }
    }
  }
}

template <typename Element>
void pack_plain(const uint8_t* row, uint64_t row_bytes, uint32_t rows, uint32_t cols, uint8_t* panel) {
  constexpr uint32_t kTile = 64;  // columns: the bytes written meanwhile stay in the nearest cache
  for (uint32_t tile = 0; tile < cols; tile += kTile) {
    for (uint32_t lane = 0; lane < rows; ++lane) {
      for (uint32_t k = tile; k < std::min(cols, tile + kTile); ++k) {
        std::memcpy(panel + (uint64_t{k} * kPanelRows + lane) * sizeof(Element), row + lane * row_bytes + uint64_t{k} * sizeof(Element),
                    sizeof(Element));
      }
    }
  }
}

}  // namespace

uint64_t panel_bytes_of(DType type, uint64_t cols) {
  if (const QuantFormat* format = quant_format(type)) return cols / format->unit_elems() * format->unit_bytes();
  return cols * kPanelRows * dtype_info(static_cast<uint32_t>(type))->block_bytes;
}

void pack_panels(const TensorView& tensor, uint32_t begin, uint32_t end, uint8_t* out) {
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(tensor.type));
  const auto cols = static_cast<uint32_t>(tensor.cols());
  const uint64_t row_bytes = uint64_t{cols} / info.block_elems * info.block_bytes, panel_bytes = panel_bytes_of(tensor.type, cols);
  std::vector<uint8_t> dealt;
  for (uint32_t panel = begin; panel < end; ++panel, out += panel_bytes) {
    const uint64_t first = uint64_t{panel} * kPanelRows;
    const auto rows = static_cast<uint32_t>(std::min<uint64_t>(kPanelRows, tensor.rows() - first));
    const uint8_t* row = tensor.data.data() + first * row_bytes;
    if (tensor.deal.run > 0) {
      dealt.resize(rows * row_bytes);
      for (uint32_t lane = 0; lane < rows; ++lane) {
        std::memcpy(dealt.data() + lane * row_bytes, tensor.data.data() + tensor.row_in_file(first + lane) * row_bytes, row_bytes);
      }
      row = dealt.data();
    }
    if (is_plain(tensor.type)) {
      info.block_bytes == 4 ? pack_plain<uint32_t>(row, row_bytes, rows, cols, out) : pack_plain<uint16_t>(row, row_bytes, rows, cols, out);
    } else {
      with_quant_type(tensor.type, [&]<DType T>() { pack_quantized<T>(row, row_bytes, rows, cols, out); });
    }
  }
}

}  // namespace kvrt
