// The formats that K and V are rounded to when they are stored: a row for each (NUMERICS.md §7).
#pragma once

#include <cstdint>
#include <iterator>

namespace kvrt {

enum class KvFormat : uint32_t { kF16, kBF16, kF32, kI8, kF8, kI4 };

struct KvFormatRow {
  const char* name;      // in kv_root, too
  uint8_t cell_bytes;    // a cell: the bytes that are never divided
  uint8_t cell_elems;    // elements in it
  uint8_t scale_elems;   // elements that share a scale, an f16; 0: there are none; kWholeRow: all of a row
  bool transforms_keys;  // K is stored as its Walsh-Hadamard transform, where it is not V as well
  bool transforms_values;
};
inline constexpr uint8_t kWholeRow = 255;
inline constexpr KvFormatRow kKvFormatRows[] = {
    {"f16", 2, 1, 0, false, false},         {"bf16", 2, 1, 0, false, false},        {"f32", 4, 1, 0, false, false},
    {"int8", 1, 1, kWholeRow, true, false}, {"fp8", 1, 1, kWholeRow, false, false}, {"int4", 1, 2, 32, true, true},
};
inline constexpr KvFormat kKvFormats[] = {KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32, KvFormat::kI8, KvFormat::kF8, KvFormat::kI4};
static_assert(std::size(kKvFormats) == std::size(kKvFormatRows));

[[gnu::always_inline]] constexpr const KvFormatRow& kv_row_of(KvFormat format) { return kKvFormatRows[static_cast<uint32_t>(format)]; }
// Two columns of the table for a device's code, which cannot read it.
[[gnu::always_inline]] constexpr bool kv_scaled(KvFormat format) { return format >= KvFormat::kI8; }
[[gnu::always_inline]] constexpr uint32_t kv_cell_bytes(KvFormat format) {
  return format == KvFormat::kF32 ? 4 : kv_scaled(format) ? 1 : 2;
}
static_assert([] {
  for (const KvFormat f : kKvFormats) {
    if (kv_scaled(f) != (kv_row_of(f).scale_elems > 0) || kv_cell_bytes(f) != kv_row_of(f).cell_bytes) return false;
  }
  return true;
}());

inline constexpr uint32_t kKvScaleBytes = 2;

// int8: the largest integer; in V of small heads.
inline constexpr float kInt8Top = 127.0f, kInt8SmallTop = 63.0f;
inline constexpr uint32_t kInt8SmallHead = 64;
[[gnu::always_inline]] constexpr float int8_value_top(uint32_t head_dim) { return head_dim <= kInt8SmallHead ? kInt8SmallTop : kInt8Top; }

// fp8: an element is e4m3, and stands for a kFp8Unit-th of that, which f16 has with the same bits; kFp8Top is the largest.
inline constexpr float kFp8Top = 1.75f, kFp8Unit = 256.0f;
// That f16: the biases are 8 apart, so only the sign moves another way than the rest.
[[gnu::always_inline]] constexpr uint16_t fp8_as_f16(uint8_t element) {
  return static_cast<uint16_t>((element & 0x80) << 8 | (element & 0x7f) << 7);
}

// int4: an element is the number of an entry, which its group's scale multiplies. Of all tables, with the scales that are tried, the one with
// the least mean squared error of a normal distribution (Lloyd's algorithm).
alignas(16) inline constexpr int8_t kInt4Levels[16] = {-123, -93, -72, -55, -41, -28, -15, -3, 9, 21, 34, 48, 63, 80, 101, 127};
alignas(64) inline constexpr float kInt4Entries[16] = {-123, -93, -72, -55, -41, -28, -15, -3, 9, 21, 34, 48, 63, 80, 101, 127};
// Half way between an entry (from number 1 on) and the one before.
alignas(64) inline constexpr float kInt4Between[16] = {0, -108, -82.5f, -63.5f, -48,   -34.5f, -21.5f, -9,
                                                       3, 15,   27.5f,  41,     55.5f, 71.5f,  90.5f,  114};
static_assert([] {  // the two follow from the levels
  for (uint32_t i = 0; i < 16; ++i) {
    const float level = kInt4Levels[i];
    if (kInt4Entries[i] != level || (i > 0 && kInt4Between[i] != (kInt4Entries[i - 1] + level) / 2)) return false;
  }
  return true;
}());
// The scales that are tried: so many times that of the largest element, with its sign and against it.
inline constexpr float kInt4Tries[] = {1, -1, 0.93f, -0.93f, 1.07f, -1.07f};
inline constexpr uint32_t kInt4Group = 32;
inline constexpr float kInt4Top = 127.0f;

// Those of K and of V, which may differ.
struct KvFormats {
  KvFormat k = KvFormat::kF16, v = KvFormat::kF16;
  bool bias_apart =
      false;  // K is stored without the bias of its projection, where a layer's is large (NUMERICS.md §7); fp8 then transforms it
  KvFormats() = default;
  KvFormats(KvFormat both) : k(both), v(both) {}
  KvFormats(KvFormat k_, KvFormat v_) : k(k_), v(v_) {}
};

}  // namespace kvrt
