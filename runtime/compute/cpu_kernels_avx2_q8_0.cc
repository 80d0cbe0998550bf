// AVX2 matmul on Q8_0 panels. |w| as unsigned times x with w's sign: exact for w = -128 too, as x is within ±127
// (128 * 127 * 2 fits in int16).
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kPrefetchBytes = 7 << 10;

// One panel, C columns.
template <int C>
void tile(const MatmulArgs& args, uint32_t panel, uint32_t column) {
  const uint32_t blocks = args.k / kQuantBlock;
  const uint8_t* w = args.panels + panel * args.panel_bytes;
  const int8_t* q = args.xq.q + uint64_t{column} * args.k;
  const float* d = args.xq.d + uint64_t{column} * blocks;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 low[C], high[C];
  KVRT_UNROLL for (int c = 0; c < C; ++c) low[c] = high[c] = _mm256_setzero_ps();
  for (uint32_t b = 0; b < blocks; ++b, w += kQ80PanelBlockBytes, q += kQuantBlock) {
    __m256i l[C], h[C];
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + 64 * j, _MM_HINT_T0);
      const __m256i w0 = load_i8x32(w + 32 + j * 64), w1 = load_i8x32(w + 64 + j * 64);
      const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1);
      KVRT_UNROLL for (int c = 0; c < C; ++c) {
        const __m256i x = broadcast_word(q + uint64_t{static_cast<uint32_t>(c)} * args.k + 4 * j);
        const __m256i pl = _mm256_madd_epi16(_mm256_maddubs_epi16(a0, _mm256_sign_epi8(x, w0)), ones);
        const __m256i ph = _mm256_madd_epi16(_mm256_maddubs_epi16(a1, _mm256_sign_epi8(x, w1)), ones);
        l[c] = j == 0 ? pl : _mm256_add_epi32(l[c], pl);
        h[c] = j == 0 ? ph : _mm256_add_epi32(h[c], ph);
        pin(l[c]);
        pin(h[c]);
      }
    }
    _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + 512, _MM_HINT_T0);
    const __m256 dw0 = load_f16x8(w), dw1 = load_f16x8(w + 16);
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const __m256 dx = _mm256_broadcast_ss(d + uint64_t{static_cast<uint32_t>(c)} * blocks + b);
      low[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(l[c]), _mm256_mul_ps(dw0, dx), low[c]);
      high[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(h[c]), _mm256_mul_ps(dw1, dx), high[c]);
    }
  }
  KVRT_UNROLL for (int c = 0; c < C; ++c) store_column(args, panel, column + static_cast<uint32_t>(c), low[c], high[c]);
}

}  // namespace

void matmul_q8_0(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    uint32_t c = column_begin;
    for (; c + 2 <= column_end; c += 2) tile<2>(args, p, c);
    if (c < column_end) tile<1>(args, p, c);
  }
}

}  // namespace kvrt::avx2
