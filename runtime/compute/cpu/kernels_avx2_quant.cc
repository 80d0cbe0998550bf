// AVX2 on quantized panels. maddubs multiplies unsigned weights by signed activations and adds pairs in int16; as many of those are
// added as int16 holds, then widened (by the scales of the halves, where a type has them). Signed weights go in as |w| times x with
// w's sign, widened each time: exact for w = -128 too, as x is within ±127.
#include "runtime/compute/cpu/kernels_avx2.h"
#include "runtime/compute/cpu/matmul_quant.h"

namespace kvrt::avx2 {
namespace {

struct Ops : Simd {
  static constexpr bool kVnni = false;
  static constexpr uint32_t kColumns = kColumnGroup;                             // a tile's: more sums do not fit in registers
  static constexpr uint32_t columns_held(const simd::QuantShape&) { return 2; }  // whose f32 chains fit, too
  // Both of a panel's where there are registers for them: for pairs or for sums, or for few of each.
  static constexpr uint32_t vectors_at_once(const simd::QuantShape& shape, uint32_t columns) {
    return shape.chain == 8 || shape.chain == 1 || (columns == 1 && !shape.halves) ? 2 : 1;
  }
  static constexpr uint32_t kExpandedBytes = 30 << 10;  // a panel's part at a time: stays in L1
  static constexpr uint32_t kDirectBlocks = 8;          // of a piece that several tiles read where it lies
  // A copy pays once there are several tiles of columns to read it, sooner where unpacking is work, never where it is none.
  static constexpr uint32_t direct_columns(const QuantFormat& f) {
    return f.low_bits == 8 ? UINT32_MAX : f.high_bits || f.has_table() ? kColumns : 2 * kColumns;
  }

  KVRT_INLINE I load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  KVRT_INLINE void store_bytes(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  KVRT_INLINE I load_u8_int(const void* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))); }
  KVRT_INLINE F load_u8(const void* p) { return to_float(load_u8_int(p)); }
  KVRT_INLINE F load_e8m0(const void* p) {
    const I e = load_u8_int(p);
    const I normal = _mm256_slli_epi32(_mm256_sub_epi32(e, set1_int(1)), 23);
    const I denormal = _mm256_sllv_epi32(set1_int(0x00200000), e);  // 0 for a large e
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, _mm256_cmpgt_epi32(set1_int(2), e)));
  }
  KVRT_INLINE I load_i8_as_i16(const void* p) { return _mm256_cvtepi8_epi16(load_half(p)); }
  KVRT_INLINE I load_u8_as_i16(const void* p) { return _mm256_cvtepu8_epi16(load_half(p)); }
  KVRT_INLINE I set1_8(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
  KVRT_INLINE I set1_16(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
  KVRT_INLINE I and_bits(I a, I b) { return _mm256_and_si256(a, b); }
  KVRT_INLINE I or_bits(I a, I b) { return _mm256_or_si256(a, b); }
  KVRT_INLINE I shift(I v, int left) { return left >= 0 ? _mm256_slli_epi16(v, left) : _mm256_srli_epi16(v, -left); }  // 16-bit lanes
  KVRT_INLINE I look_up(const int8_t* table, int zero, I index) {
    const __m128i values = _mm_add_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), _mm_set1_epi8(static_cast<char>(zero)));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index);
  }
  KVRT_INLINE I madd(I a, I b) { return _mm256_madd_epi16(a, b); }
  KVRT_INLINE F negate(F a) { return _mm256_xor_ps(a, set1(-0.0f)); }

  // The first (0) or second (1) int16 of every 32-bit lane, twice.
  KVRT_INLINE I both(I v, uint32_t which) {
    const I pick = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    return _mm256_shuffle_epi8(v, which == 0 ? pick : _mm256_add_epi8(pick, set1_8(2)));
  }

  // The integer dots of R vectors of a block's rows, less the part that `zero` adds.
  template <typename Source, uint32_t R, uint32_t C>
  KVRT_INLINE void dots(const uint8_t* unit, uint32_t b, uint32_t first, const simd::Columns<C>& x, I (&sum)[R][C]) {
    constexpr simd::QuantShape kShape = Source::kShape;
    constexpr uint32_t kChain = static_cast<uint32_t>(kShape.chain), kFirst = kShape.halves ? 4 : 8;
    I pairs[R][C]{}, widen[R], w[R];
    KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) widen[r] = set1_16(1);
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) {
      if (first == 0) Source::prefetch(unit, b, j);
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
        if (kShape.halves && j % kFirst == 0) widen[r] = both(Source::half_scales(unit, b, first + r), j / kFirst);
        w[r] = Source::quads(unit, b, j, first + r);
      }
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const I xc = simd::broadcast_word<Simd>(x.quad(c, j));
        KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
          const I p =
              kShape.is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[r]), _mm256_sign_epi8(xc, w[r])) : _mm256_maddubs_epi16(w[r], xc);
          pairs[r][c] = j % kChain == 0 ? p : _mm256_add_epi16(pairs[r][c], p);
          if ((j + 1) % kChain == 0) {
            const I wide = madd(pairs[r][c], widen[r]);
            sum[r][c] = j < kChain ? wide : add_int(sum[r][c], wide);
            pin(sum[r][c]);
          } else {
            pin(pairs[r][c]);
          }
        }
      }
    }
    if constexpr (kShape.zero != 0) {
      const I zeros = set1_16(kShape.zero);
      KVRT_UNROLL for (uint32_t r = 0; r < R; ++r) {
        const I by = kShape.halves ? _mm256_mullo_epi16(Source::half_scales(unit, b, first + r), zeros) : zeros;
        KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
          sum[r][c] = _mm256_sub_epi32(sum[r][c], madd(by, simd::broadcast_word<Simd>(x.half_sums(c))));
        }
      }
    }
  }
};

}  // namespace

constinit const MatmulTable kMatmul = simd::matmul_table<Ops>(AllDTypes{});

}  // namespace kvrt::avx2
