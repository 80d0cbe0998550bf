// What a row of K or V goes through before it is rounded to few bits (NUMERICS.md §7).
#pragma once

#include <cstdint>

#include "runtime/compute/kv_format.h"

namespace kvrt {

// The Walsh-Hadamard transform (without its factor) of each run of `dim` elements, a power of two: some formats store K transformed, and
// transform the queries; or V, and transform what attention gives. It spreads the few large elements of a head over all of them, so that
// they do not set the scale for the rest.
inline void hadamard(uint32_t dim, uint32_t n, float* x) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  if (dim == 2) {
    for (uint32_t i = 0; i < n; i += 2) {
      const float a = x[i], b = x[i + 1];
      x[i] = a + b;
      x[i + 1] = a - b;
    }
  }
  for (uint32_t i = 0; dim >= 4 && i < n; i += 4) {  // two steps at a time
    const float a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];
    *reinterpret_cast<Four*>(x + i) = Four{a + c, b + d, a - c, b - d};
  }
  for (uint32_t half = 4; half < dim; half *= 2) {
    for (uint32_t i = 0; i < n; i += 2 * half) {
      for (uint32_t j = i; j < i + half; j += 4) {
        Four *first = reinterpret_cast<Four*>(x + j), *second = reinterpret_cast<Four*>(x + j + half);
        const Four a = *first, b = *second;
        *first = a + b;
        *second = a - b;
      }
    }
  }
}
inline uint32_t hadamard_dim(uint32_t head_dim) { return head_dim & (0 - head_dim); }
inline void transform_back(uint32_t dim, float* x) {
  hadamard(hadamard_dim(dim), dim, x);
  const float part = 1.0f / static_cast<float>(hadamard_dim(dim));  // exact, as are its products: a power of two
  for (uint32_t d = 0; d < dim; ++d) x[d] *= part;
}

// int4: codes, one a byte, to cells.
inline void pack_pairs(const uint8_t* codes, uint32_t n, uint8_t* cells) {
  constexpr uint32_t kHalf = kInt4Group / 2;
  for (uint32_t first = 0; first < n; first += kInt4Group, cells += kHalf) {
    for (uint32_t i = 0; i < kHalf; ++i) {
      const uint32_t low = first + i, high = low + kHalf;
      cells[i] = static_cast<uint8_t>((low < n ? codes[low] : 0) | (high < n ? codes[high] << 4 : 0));
    }
  }
}

}  // namespace kvrt
