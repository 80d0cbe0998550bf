// Element types that are a number each: of plain weights and of K and V.
#pragma once

#include "runtime/compute/cpu/simd.h"

namespace kvrt::simd {

struct PlainF16 {
  static constexpr uint32_t kBytes = 2;
  static constexpr bool kScaled = false;  // true: the pool has a scale per KV head and token
  static constexpr bool kPairs = false;   // true: a cell has two elements, and kInt4Group elements a scale
  template <typename S>
  KVRT_INLINE typename S::F load(const uint8_t* p) {
    return S::load_f16(p);
  }
};
struct PlainBf16 {
  static constexpr uint32_t kBytes = 2;
  static constexpr bool kScaled = false;
  static constexpr bool kPairs = false;
  template <typename S>
  KVRT_INLINE typename S::F load(const uint8_t* p) {
    return S::load_bf16(p);
  }
};
struct PlainF32 {
  static constexpr uint32_t kBytes = 4;
  static constexpr bool kScaled = false;
  static constexpr bool kPairs = false;
  template <typename S>
  KVRT_INLINE typename S::F load(const uint8_t* p) {
    return S::load(reinterpret_cast<const float*>(p));
  }
};
struct PlainI8 {
  static constexpr uint32_t kBytes = 1;
  static constexpr bool kScaled = true;
  static constexpr bool kPairs = false;
  template <typename S>
  KVRT_INLINE typename S::F load(const uint8_t* p) {
    return S::load_i8(p);
  }
};
struct PlainF8 {
  static constexpr uint32_t kBytes = 1;
  static constexpr bool kScaled = true;
  static constexpr bool kPairs = false;
  template <typename S>
  KVRT_INLINE typename S::F load(const uint8_t* p) {
    return S::load_e4m3(p);
  }
};

struct PairsI4 {
  static constexpr uint32_t kBytes = 1;  // of a cell
  static constexpr bool kScaled = true;
  static constexpr bool kPairs = true;
};

}  // namespace kvrt::simd
