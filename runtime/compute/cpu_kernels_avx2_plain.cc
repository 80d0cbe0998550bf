// AVX2 matmul on F16, BF16 and F32 panels: one chain over K per output, rows in lanes. P panels x C columns are 2 P C chains at a
// time, enough of them to hide the latency of fma.
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kPrefetchBytes = 4 << 10;

struct F16 {
  static constexpr uint32_t kBytes = 2;
  KVRT_INLINE __m256 load(const uint8_t* p) { return load_f16x8(p); }
};
struct Bf16 {
  static constexpr uint32_t kBytes = 2;
  KVRT_INLINE __m256 load(const uint8_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};
struct F32 {
  static constexpr uint32_t kBytes = 4;
  KVRT_INLINE __m256 load(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};

template <typename T, int P, int C>
void tile(const MatmulArgs& args, uint32_t panel, uint32_t column) {
  const uint8_t* w = args.panels + panel * args.panel_bytes;
  const float* x = args.x + uint64_t{column} * args.k;
  __m256 low[P][C], high[P][C];
  KVRT_UNROLL for (int p = 0; p < P; ++p) { KVRT_UNROLL for (int c = 0; c < C; ++c) low[p][c] = high[p][c] = _mm256_setzero_ps(); }
  for (uint32_t k = 0; k < args.k; ++k, w += kPanelRows * T::kBytes) {
    KVRT_UNROLL for (int p = 0; p < P; ++p) {
      const uint8_t* at = w + static_cast<uint32_t>(p) * args.panel_bytes;
      _mm_prefetch(reinterpret_cast<const char*>(at) + kPrefetchBytes, _MM_HINT_T0);
      const __m256 w0 = T::load(at), w1 = T::load(at + 8 * T::kBytes);
      KVRT_UNROLL for (int c = 0; c < C; ++c) {
        const __m256 xk = _mm256_broadcast_ss(x + uint64_t{static_cast<uint32_t>(c)} * args.k + k);
        low[p][c] = _mm256_fmadd_ps(w0, xk, low[p][c]);
        high[p][c] = _mm256_fmadd_ps(w1, xk, high[p][c]);
      }
    }
  }
  KVRT_UNROLL for (int p = 0; p < P; ++p) {
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      store_column(args, panel + static_cast<uint32_t>(p), column + static_cast<uint32_t>(c), low[p][c], high[p][c]);
    }
  }
}

template <typename T>
void matmul(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  uint32_t p = panel_begin;
  if (column_end - column_begin == 1) {
    for (; p + 4 <= panel_end; p += 4) tile<T, 4, 1>(args, p, column_begin);
  }
  for (; p < panel_end; ++p) {
    uint32_t c = column_begin;
    for (; c + 5 <= column_end; c += 5) tile<T, 1, 5>(args, p, c);
    for (; c + 2 <= column_end; c += 2) tile<T, 1, 2>(args, p, c);
    if (c < column_end) tile<T, 1, 1>(args, p, c);
  }
}

}  // namespace

void matmul_f16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  matmul<F16>(args, panel_begin, panel_end, column_begin, column_end);
}

void matmul_bf16(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  matmul<Bf16>(args, panel_begin, panel_end, column_begin, column_end);
}

void matmul_f32(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  matmul<F32>(args, panel_begin, panel_end, column_begin, column_end);
}

}  // namespace kvrt::avx2
