// AVX2 matmul on Q4_1 panels. u4 x s8 pairs sum to at most 3,810, so the eight products of a block fit in int16: one
// widening multiply-add and one conversion per block and 8 rows.
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kPrefetchBytes = 7 << 10;   // ahead in the panel stream
constexpr uint32_t kDirectColumns = 3;         // up to here the nibbles are unpacked in the loop: the weights' bytes decide
constexpr uint32_t kExpandedBlockBytes = 640;  // 8 x 64 u8, d[16] f32, m[16] f32
constexpr uint32_t kExpandedBlocks = 48;       // 30 KB: stays in L1
constexpr uint32_t kGroupColumns = 128;        // columns per expansion

// f32 chains of 8 rows x 2 of one column.
struct Chains {
  __m256 low, high;
};

KVRT_INLINE __m256 isum(__m256i pairs) { return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }

// Decode: C columns straight from the nibbles, one pass over the panel.
template <int C>
void direct(const MatmulArgs& args, uint32_t panel, uint32_t column) {
  const uint32_t blocks = args.k / kQuantBlock;
  const uint8_t* w = args.panels + panel * args.panel_bytes;
  const int8_t* q = args.xq.q + uint64_t{column} * args.k;
  const float* d = args.xq.d + uint64_t{column} * blocks;
  const float* s = args.xq.s + uint64_t{column} * blocks;
  const __m256i nibble = _mm256_set1_epi8(15);
  Chains acc[C];
  for (int c = 0; c < C; ++c) acc[c].low = acc[c].high = _mm256_setzero_ps();
  for (uint32_t b = 0; b < blocks; ++b, w += kQ41PanelBlockBytes, q += kQuantBlock) {
    KVRT_UNROLL for (uint32_t line = 0; line < kQ41PanelBlockBytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + line, _MM_HINT_T0);
    }
    __m256i low[C], high[C];
    KVRT_UNROLL for (uint32_t j = 0; j < 4; ++j) {
      const __m256i w0 = load_i8x32(w + 64 + j * 64), w1 = load_i8x32(w + 96 + j * 64);
      const __m256i w0a = _mm256_and_si256(w0, nibble), w0b = _mm256_and_si256(_mm256_srli_epi16(w0, 4), nibble);
      const __m256i w1a = _mm256_and_si256(w1, nibble), w1b = _mm256_and_si256(_mm256_srli_epi16(w1, 4), nibble);
      KVRT_UNROLL for (int c = 0; c < C; ++c) {
        const int8_t* x = q + uint64_t{static_cast<uint32_t>(c)} * args.k + 8 * j;
        const __m256i xa = broadcast_word(x), xb = broadcast_word(x + 4);
        const __m256i l = _mm256_add_epi16(_mm256_maddubs_epi16(w0a, xa), _mm256_maddubs_epi16(w0b, xb));
        const __m256i h = _mm256_add_epi16(_mm256_maddubs_epi16(w1a, xa), _mm256_maddubs_epi16(w1b, xb));
        low[c] = j == 0 ? l : _mm256_add_epi16(low[c], l);
        high[c] = j == 0 ? h : _mm256_add_epi16(high[c], h);
      }
    }
    const __m256 dw0 = load_f16x8(w), dw1 = load_f16x8(w + 16), mw0 = load_f16x8(w + 32), mw1 = load_f16x8(w + 48);
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const __m256 dx = _mm256_broadcast_ss(d + uint64_t{static_cast<uint32_t>(c)} * blocks + b);
      const __m256 sx = _mm256_broadcast_ss(s + uint64_t{static_cast<uint32_t>(c)} * blocks + b);
      acc[c].low = _mm256_fmadd_ps(isum(low[c]), _mm256_mul_ps(dw0, dx), acc[c].low);
      acc[c].high = _mm256_fmadd_ps(isum(high[c]), _mm256_mul_ps(dw1, dx), acc[c].high);
      acc[c].low = _mm256_fmadd_ps(mw0, sx, acc[c].low);
      acc[c].high = _mm256_fmadd_ps(mw1, sx, acc[c].high);
    }
  }
  KVRT_UNROLL for (int c = 0; c < C; ++c) store_column(args, panel, column + static_cast<uint32_t>(c), acc[c].low, acc[c].high);
}

// Nibbles to bytes and scales to f32, for `blocks` blocks of a panel.
void expand(const uint8_t* w, uint32_t blocks, uint8_t* out) {
  const __m256i nibble = _mm256_set1_epi8(15);
  for (uint32_t b = 0; b < blocks; ++b, w += kQ41PanelBlockBytes, out += kExpandedBlockBytes) {
    KVRT_UNROLL for (uint32_t line = 0; line < kQ41PanelBlockBytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + line, _MM_HINT_T0);
    }
    KVRT_UNROLL for (uint32_t j = 0; j < 4; ++j) {
      KVRT_UNROLL for (uint32_t half = 0; half < 64; half += 32) {
        const __m256i packed = load_i8x32(w + 64 + j * 64 + half);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j * 128 + half), _mm256_and_si256(packed, nibble));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j * 128 + 64 + half), _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble));
      }
    }
    float* scales = reinterpret_cast<float*>(out + 512);
    KVRT_UNROLL for (uint32_t i = 0; i < 4; ++i) _mm256_storeu_ps(scales + 8 * i, load_f16x8(w + 16 * i));
  }
}

// 16 rows x C columns over `blocks` expanded blocks, going on from the chains in acc.
template <int C>
void tile(const uint8_t* w, uint32_t blocks, const int8_t* q, uint64_t q_stride, const float* d, const float* s, uint64_t d_stride,
          Chains* acc) {
  __m256 low[C], high[C];
  KVRT_UNROLL for (int c = 0; c < C; ++c) low[c] = acc[c].low, high[c] = acc[c].high;
  for (uint32_t b = 0; b < blocks; ++b, w += kExpandedBlockBytes, q += kQuantBlock) {
    __m256i l[C], h[C];
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) {
      const __m256i w0 = load_i8x32(w + j * 64), w1 = load_i8x32(w + j * 64 + 32);
      KVRT_UNROLL for (int c = 0; c < C; ++c) {
        const __m256i x = broadcast_word(q + static_cast<uint32_t>(c) * q_stride + 4 * j);
        const __m256i pl = _mm256_maddubs_epi16(w0, x), ph = _mm256_maddubs_epi16(w1, x);
        l[c] = j == 0 ? pl : _mm256_add_epi16(l[c], pl);
        h[c] = j == 0 ? ph : _mm256_add_epi16(h[c], ph);
        pin(l[c]);
        pin(h[c]);
      }
    }
    const float* scales = reinterpret_cast<const float*>(w + 512);
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const __m256 dx = _mm256_broadcast_ss(d + static_cast<uint32_t>(c) * d_stride + b);
      const __m256 sx = _mm256_broadcast_ss(s + static_cast<uint32_t>(c) * d_stride + b);
      low[c] = _mm256_fmadd_ps(isum(l[c]), _mm256_mul_ps(_mm256_loadu_ps(scales), dx), low[c]);
      high[c] = _mm256_fmadd_ps(isum(h[c]), _mm256_mul_ps(_mm256_loadu_ps(scales + 8), dx), high[c]);
      low[c] = _mm256_fmadd_ps(_mm256_loadu_ps(scales + 16), sx, low[c]);
      high[c] = _mm256_fmadd_ps(_mm256_loadu_ps(scales + 24), sx, high[c]);
    }
  }
  KVRT_UNROLL for (int c = 0; c < C; ++c) acc[c].low = low[c], acc[c].high = high[c];
}

// Prefill: a panel is expanded once per kGroupColumns columns, in pieces of K that stay in L1; the chains wait in memory.
void group(const MatmulArgs& args, uint32_t panel, uint32_t column, uint32_t columns) {
  alignas(64) uint8_t expanded[kExpandedBlocks * kExpandedBlockBytes];
  Chains acc[kGroupColumns];
  const uint32_t blocks = args.k / kQuantBlock;
  for (uint32_t c = 0; c < columns; ++c) acc[c].low = acc[c].high = _mm256_setzero_ps();
  for (uint32_t b = 0; b < blocks; b += kExpandedBlocks) {
    const uint32_t n = blocks - b < kExpandedBlocks ? blocks - b : kExpandedBlocks;
    expand(args.panels + panel * args.panel_bytes + uint64_t{b} * kQ41PanelBlockBytes, n, expanded);
    for (uint32_t c = 0; c < columns; c += 2) {
      const int8_t* q = args.xq.q + uint64_t{column + c} * args.k + uint64_t{b} * kQuantBlock;
      const float* d = args.xq.d + uint64_t{column + c} * blocks + b;
      const float* s = args.xq.s + uint64_t{column + c} * blocks + b;
      if (c + 1 < columns) {
        tile<2>(expanded, n, q, args.k, d, s, blocks, acc + c);
      } else {
        tile<1>(expanded, n, q, args.k, d, s, blocks, acc + c);
      }
    }
  }
  for (uint32_t c = 0; c < columns; ++c) store_column(args, panel, column + c, acc[c].low, acc[c].high);
}

}  // namespace

void matmul_q4_1(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    uint32_t c = column_begin;
    if (column_end - column_begin <= kDirectColumns) {
      for (; c + 2 <= column_end; c += 2) direct<2>(args, p, c);
      for (; c < column_end; ++c) direct<1>(args, p, c);
    }
    for (; c < column_end; c += kGroupColumns) group(args, p, c, column_end - c < kGroupColumns ? column_end - c : kGroupColumns);
  }
}

}  // namespace kvrt::avx2
