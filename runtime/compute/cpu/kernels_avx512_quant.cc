// AVX-512 VNNI on quantized panels: a panel's 16 rows are one vector, and a dot step is one instruction.
#include "runtime/compute/cpu/kernels_avx512.h"
#include "runtime/compute/cpu/matmul_quant.h"

namespace kvrt::avx512 {
namespace {

struct Ops : Simd {
  static constexpr bool kVnni = true;
  static constexpr uint32_t kColumns = kColumnGroup;  // a tile's columns
  static constexpr uint32_t columns_held(const simd::QuantShape& shape) { return shape.halves ? 4 : 8; }
  static constexpr uint32_t kDirectBlocks = UINT32_MAX;  // tiles take a panel whole
  static constexpr uint32_t vectors_at_once(const simd::QuantShape&, uint32_t) { return 1; }
  static constexpr uint32_t direct_columns(const QuantFormat&) { return UINT32_MAX; }  // unpacking is nothing beside the dots

  KVRT_INLINE I load_bytes(const void* p) { return _mm512_loadu_si512(p); }
  KVRT_INLINE void store_bytes(void* p, I v) { _mm512_storeu_si512(p, v); }
  KVRT_INLINE F load_u8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))); }
  KVRT_INLINE F load_e8m0(const void* p) {
    const I e = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const I denormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), denormal));
  }
  KVRT_INLINE I load_i8_as_i16(const void* p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  KVRT_INLINE I load_u8_as_i16(const void* p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  KVRT_INLINE I set1_8(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
  KVRT_INLINE I set1_16(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
  KVRT_INLINE I and_bits(I a, I b) { return _mm512_and_si512(a, b); }
  KVRT_INLINE I or_bits(I a, I b) { return _mm512_or_si512(a, b); }
  KVRT_INLINE I flip_sign(I a) { return _mm512_xor_si512(a, set1_8(0x80)); }
  KVRT_INLINE I shift(I v, int left) {  // 16-bit lanes
    return left > 0 ? _mm512_slli_epi16(v, static_cast<unsigned>(left)) : left < 0 ? _mm512_srli_epi16(v, static_cast<unsigned>(-left)) : v;
  }
  KVRT_INLINE I look_up(const int8_t* table, int zero, I index) {
    const __m128i values = _mm_add_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), _mm_set1_epi8(static_cast<char>(zero)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), index);
  }
  KVRT_INLINE I madd(I a, I b) { return _mm512_madd_epi16(a, b); }
  KVRT_INLINE F negate(F a) { return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN))); }

  // The integer dots of a block. The sum that the zero adds is known before: the chain starts at its negative.
  template <typename Source, uint32_t R, uint32_t C>
  KVRT_INLINE void dots(const uint8_t* unit, uint32_t b, uint32_t, const simd::Columns<C>& x, I (&sums)[R][C]) {
    constexpr simd::QuantShape kShape = Source::kShape;
    I(&sum)[C] = sums[0];
    I second[C];
    KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
      const int16_t* halves = x.half_sums(c);
      const int z = -kShape.zero;
      if constexpr (kShape.zero == 0) {
        sum[c] = second[c] = _mm512_setzero_si512();
      } else if constexpr (kShape.halves) {
        const I both = simd::broadcast_word<Simd>(halves);
        sum[c] = madd(both, _mm512_set1_epi32(z & 0xffff));
        second[c] = madd(both, _mm512_set1_epi32(static_cast<int>(static_cast<unsigned>(z) << 16)));
      } else {
        sum[c] = madd(simd::broadcast_word<Simd>(halves), set1_16(z));
      }
    }
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) {
      Source::prefetch(unit, b, j);
      const I w = Source::quads(unit, b, j, 0);
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        I& to = kShape.halves && j >= 4 ? second[c] : sum[c];
        to = _mm512_dpbusd_epi32(to, w, simd::broadcast_word<Simd>(x.quad(c, j)));
        pin(to);  // or g++ unpacks all quads first, and spills them
      }
    }
    if constexpr (kShape.halves) {
      asm volatile("" ::: "memory");  // not loaded before, where it would have to be spilled
      const I scales = Source::half_scales(unit, b, 0);
      const I first = _mm512_srai_epi32(_mm512_slli_epi32(scales, 16), 16), last = _mm512_srai_epi32(scales, 16);
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        sum[c] = _mm512_add_epi32(_mm512_mullo_epi32(sum[c], first), _mm512_mullo_epi32(second[c], last));
      }
    }
  }
};

}  // namespace

constinit const MatmulTable kMatmul = simd::matmul_table<Ops>(AllDTypes{});

}  // namespace kvrt::avx512
