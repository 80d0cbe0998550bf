#include "tests/cuda/emulation/mma.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda/emulation/device_functions.h"
#include "runtime/compute/quant/quants.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvrt::emulation {
namespace {

bool g_truncating = false;

struct Tiles {
  uint32_t a[16][8];  // [row][pair of K]
  uint32_t b[8][8];   // [column][pair of K]
  float d[16][8];
};

void gather(const MmaLane (&lanes)[32], Tiles* t) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, pair = lane % 4;
    const MmaLane& l = lanes[lane];
    t->a[g][pair] = l.a[0];
    t->a[g + 8][pair] = l.a[1];
    t->a[g][pair + 4] = l.a[2];
    t->a[g + 8][pair + 4] = l.a[3];
    t->b[g][pair] = l.b[0];
    t->b[g][pair + 4] = l.b[1];
    for (uint32_t i = 0; i < 4; ++i) t->d[g + i / 2 * 8][2 * pair + i % 2] = static_cast<const float*>(l.d)[i];
  }
}
void scatter(const Tiles& t, const MmaLane (&lanes)[32]) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) static_cast<float*>(lanes[lane].d)[i] = t.d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
  }
}

int32_t word(uint32_t w) { return static_cast<int32_t>(w); }
float half_of(uint32_t word, uint32_t which, bool bf16) {
  const auto h = static_cast<uint16_t>(word >> (16 * which));
  return bf16 ? bf16_to_f32(h) : f16_to_f32(h);
}

void multiply_plain(Tiles* t, bool bf16) {
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t col = 0; col < 8; ++col) {
      float sum = t->d[row][col];
      for (uint32_t k = 0; k < 16; ++k) sum = fmaf(half_of(t->a[row][k / 2], k % 2, bf16), half_of(t->b[col][k / 2], k % 2, bf16), sum);
      t->d[row][col] = sum;
    }
  }
}

#if defined(__x86_64__)
#define KVRT_AVX2 __attribute__((target("avx2,fma,f16c")))

KVRT_AVX2 inline void to_floats(const uint32_t* pairs, bool bf16, float* out) {
  for (uint32_t i = 0; i < 16; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + i / 2));
    const __m256 floats = bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)) : _mm256_cvtph_ps(halves);
    _mm256_storeu_ps(out + i, floats);
  }
}

// The same chains, eight columns at a time.
KVRT_AVX2 void multiply_avx2(Tiles* t, bool bf16) {
  float a[16][16], b[8][16];
  alignas(32) float b_k[16][8];
  for (uint32_t row = 0; row < 16; ++row) to_floats(t->a[row], bf16, a[row]);
  for (uint32_t col = 0; col < 8; ++col) to_floats(t->b[col], bf16, b[col]);
  for (uint32_t k = 0; k < 16; ++k) {
    for (uint32_t col = 0; col < 8; ++col) b_k[k][col] = b[col][k];
  }
  for (uint32_t row = 0; row < 16; row += 8) {
    __m256 sum[8];
    for (uint32_t i = 0; i < 8; ++i) sum[i] = _mm256_loadu_ps(t->d[row + i]);
    for (uint32_t k = 0; k < 16; ++k) {
      const __m256 column = _mm256_load_ps(b_k[k]);
      for (uint32_t i = 0; i < 8; ++i) sum[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[row + i][k]), column, sum[i]);
    }
    for (uint32_t i = 0; i < 8; ++i) _mm256_storeu_ps(t->d[row + i], sum[i]);
  }
}

KVRT_AVX2 void multiply_bytes_avx2(const MmaLane (&lanes)[32], int32_t (*d)[8]) {
  __m256i b[8];  // 16 numbers of a column
  for (uint32_t col = 0; col < 8; ++col) {
    const MmaLane* const l = &lanes[4 * col];
    b[col] = _mm256_cvtepi8_epi16(_mm_setr_epi32(word(l[0].b[0]), word(l[1].b[0]), word(l[2].b[0]), word(l[3].b[0])));
  }
  for (uint32_t row = 0; row < 16; ++row) {
    const MmaLane* const l = &lanes[4 * (row % 8)];
    const uint32_t i = row / 8;
    const __m256i a = _mm256_cvtepi8_epi16(_mm_setr_epi32(word(l[0].a[i]), word(l[1].a[i]), word(l[2].a[i]), word(l[3].a[i])));
    for (uint32_t half = 0; half < 2; ++half) {
      const __m256i *const c = b + 4 * half, p0 = _mm256_madd_epi16(a, c[0]), p1 = _mm256_madd_epi16(a, c[1]),
                           p2 = _mm256_madd_epi16(a, c[2]), p3 = _mm256_madd_epi16(a, c[3]);
      const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(p0, p1), _mm256_hadd_epi32(p2, p3));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d[row] + 4 * half),
                       _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
    }
  }
}
#endif

void multiply_bytes_plain(const MmaLane (&lanes)[32], int32_t (*d)[8]) {
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t col = 0; col < 8; ++col) {
      d[row][col] = 0;
      for (uint32_t t = 0; t < 4; ++t)
        d[row][col] = dot4(word(lanes[4 * (row % 8) + t].a[row / 8]), word(lanes[4 * col + t].b[0]), d[row][col]);
    }
  }
}

// The sum of finite numbers that are not all zero: each cut to 25 bits of the largest one, their sum to 24 of its own.
float sum_truncated(const double* addends, uint32_t n) {
  double largest = 0;
  for (uint32_t i = 0; i < n; ++i) largest = fmax(largest, fabs(addends[i]));
  // The largest one's power of two, 24 bits down; its inverse.
  const uint64_t power = std::bit_cast<uint64_t>(largest) & 0x7ff0000000000000u;
  const auto unit = std::bit_cast<double>(power - (uint64_t{24} << 52)),
             inverse = std::bit_cast<double>((uint64_t{2046 + 24} << 52) - power);
  int32_t sum = 0;  // of 17 below 2^25 each
  for (uint32_t i = 0; i < n; ++i) sum += static_cast<int32_t>(addends[i] * inverse);
  const double exact = sum * unit;
  const auto nearest = static_cast<float>(exact);
  return fabs(static_cast<double>(nearest)) > fabs(exact) ? nextafterf(nearest, 0.0f) : nearest;
}

void multiply_truncating(Tiles* t, bool bf16) {
  double a[16][16], b[8][16];
  for (uint32_t k = 0; k < 16; ++k) {
    for (uint32_t row = 0; row < 16; ++row) a[row][k] = half_of(t->a[row][k / 2], k % 2, bf16);
    for (uint32_t col = 0; col < 8; ++col) b[col][k] = half_of(t->b[col][k / 2], k % 2, bf16);
  }
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t col = 0; col < 8; ++col) {
      double addends[17], plain = addends[16] = t->d[row][col];
      for (uint32_t k = 0; k < 16; ++k) plain += addends[k] = a[row][k] * b[col][k];
      bool zero = true;
      for (const double addend : addends) zero = zero && addend == 0;
      t->d[row][col] = zero || !std::isfinite(plain) ? static_cast<float>(plain) : sum_truncated(addends, 17);
    }
  }
}

bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // and so f16c, for which clang has no name
  return has;
#else
  return false;
#endif
}

}  // namespace

void set_truncating(bool truncating) { g_truncating = truncating; }

void multiply_byte_fragments(const MmaLane (&lanes)[32]) {
  int32_t products[16][8];
#if defined(__x86_64__)
  has_avx2() ? multiply_bytes_avx2(lanes, products) : multiply_bytes_plain(lanes, products);
#else
  multiply_bytes_plain(lanes, products);
#endif
  for (uint32_t lane = 0; lane < 32; ++lane) {
    auto* const d = static_cast<int32_t*>(lanes[lane].d);
    for (uint32_t i = 0; i < 4; ++i) {  // wraps, as a device does
      d[i] = word(static_cast<uint32_t>(d[i]) + static_cast<uint32_t>(products[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2]));
    }
  }
}

void multiply_fragments(const MmaLane (&lanes)[32], bool bf16) {
  Tiles tiles;
  gather(lanes, &tiles);
  if (g_truncating) {
    multiply_truncating(&tiles, bf16);
#if defined(__x86_64__)
  } else if (has_avx2()) {
    multiply_avx2(&tiles, bf16);
#endif
  } else {
    multiply_plain(&tiles, bf16);
  }
  scatter(tiles, lanes);
}

}  // namespace kvrt::emulation
