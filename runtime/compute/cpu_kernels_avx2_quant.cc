// AVX2 matmul on quantized panels, written once over QuantFormat. The table of all AVX2 matmuls is at the end.
//
// A block of 16 rows x 32 elements is eight *quads*: 4 elements of each row, as the bytes of its 32-bit lane. maddubs multiplies
// unsigned weights by signed activations and adds pairs in int16; as many of those are added as int16 holds, then widened (by the
// scales of the halves, where a type has them). Signed weights go in as |w| times x with w's sign, widened each time: exact for
// w = -128 too, as x is within ±127. Few columns take the quads from the panel, many from an expanded copy in L1.
#include "runtime/compute/cpu_kernels_avx2.h"

namespace kvrt::avx2 {
namespace {

constexpr uint32_t kPrefetchBytes = 7 << 10;   // ahead in the panel stream
constexpr uint32_t kExpandedBytes = 30 << 10;  // of a panel at a time: stays in L1
constexpr uint32_t kGroupColumns = 128;        // columns per expansion

// What the arithmetic must know of a format.
struct Shape {
  int chain;  // maddubs results that may be added in int16; 1 where weights are signed
  int zero;   // unsigned weights are this much too large
  bool is_signed, halves, minimum;
};

constexpr Shape shape_of(const QuantFormat& f) {
  int largest = (1 << (f.low_bits + f.high_bits)) - 1;
  for (int i = 0; f.has_table() && i < 16; ++i) {
    if (i == 0) largest = 0;
    if (f.table()[i] + f.zero > largest) largest = f.table()[i] + f.zero;
  }
  const bool is_signed = f.low_bits == 8 || (f.has_table() && f.zero == 0);
  int chain = f.halves() ? 4 : 8;
  while (chain > 1 && (is_signed || chain * 2 * 127 * largest > 32767)) chain /= 2;
  return {chain, f.zero, is_signed, f.halves(), f.min_bytes != 0};
}

// Sixteen bytes of a table, in both halves of a register.
KVRT_INLINE __m256i table_of(const int8_t* values, int zero) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
  return _mm256_broadcastsi128_si256(_mm_add_epi8(table, _mm_set1_epi8(static_cast<char>(zero))));
}

KVRT_INLINE __m256 load_f32x8(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
KVRT_INLINE __m256 load_u8x8_f32(const void* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
}
KVRT_INLINE __m256 load_i8x8_f32(const void* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
}
KVRT_INLINE __m256 load_e8m0x8(const void* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);  // 0 for a large e
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

// A panel as it lies in memory. `unit` points to a unit, b counts its blocks, r is 0 for rows 0..7 and 1 for rows 8..15.
template <DType type>
struct Packed {
  static constexpr QuantFormat kFormat = *quant_format(type);
  static constexpr Shape kShape = shape_of(kFormat);
  static constexpr uint32_t kUnitBlocks = kFormat.unit_blocks, kUnitBytes = kFormat.unit_bytes();
  static constexpr uint32_t kHeaderBytes = kFormat.header_bytes(), kBodyBytes = kFormat.body_bytes();

  KVRT_INLINE const uint8_t* sub(const uint8_t* unit, uint32_t b, uint32_t r, uint32_t i) {
    const uint32_t rows_before = kFormat.halves() ? 2 * 8 * r : kPanelRows * i + 8 * r;
    return unit + kFormat.sub_at() + b * kPanelRows * kFormat.sub_bytes() + rows_before;
  }
  // Elements 4j..4j+3 of a plane, at bit `to` of each byte.
  template <int bits>
  KVRT_INLINE __m256i plane(const uint8_t* p, uint32_t j, uint32_t r, int to) {
    constexpr uint32_t kQuads = 8 / bits;
    const __m256i packed = load_i8x32(p + j / kQuads * 64 + r * 32);
    if (bits == 8) return packed;
    const int shift = to - bits * static_cast<int>(j % kQuads);
    const __m256i shifted = shift >= 0 ? _mm256_slli_epi16(packed, shift) : _mm256_srli_epi16(packed, -shift);
    return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(((1 << bits) - 1) << to)));
  }
  KVRT_INLINE __m256i quads(const uint8_t* unit, uint32_t b, uint32_t j, uint32_t r) {
    const uint8_t* body = unit + kHeaderBytes + b * kBodyBytes;
    __m256i u = plane<kFormat.low_bits>(body, j, r, 0);
    if constexpr (kFormat.high_bits != 0) {
      u = _mm256_or_si256(u, plane<kFormat.high_bits>(body + 64 * kFormat.low_bits, j, r, kFormat.low_bits));
    }
    if constexpr (kFormat.has_table()) u = _mm256_shuffle_epi8(table_of(kFormat.table(), kFormat.zero), u);
    return u;
  }
  KVRT_INLINE __m256 scale(const uint8_t* unit, uint32_t b, uint32_t r) {
    const __m256 scale = kFormat.scale_bytes == 1 ? load_e8m0x8(unit + 8 * r) : load_f16x8(unit + 16 * r);
    if constexpr (kFormat.sub == SubScales::kScale) return _mm256_mul_ps(scale, load_i8x8_f32(sub(unit, b, r, 0)));
    if constexpr (kFormat.sub == SubScales::kScaleMin) return _mm256_mul_ps(scale, load_u8x8_f32(sub(unit, b, r, 0)));
    return scale;
  }
  KVRT_INLINE __m256 minimum(const uint8_t* unit, uint32_t b, uint32_t r) {
    const __m256 minimum = load_f16x8(unit + kPanelRows * kFormat.scale_bytes + 16 * r);
    if constexpr (kFormat.sub == SubScales::kNone) return minimum;
    const __m256 negative = _mm256_xor_ps(minimum, _mm256_set1_ps(-0.0f));
    if constexpr (kFormat.halves()) return negative;
    return _mm256_mul_ps(negative, load_u8x8_f32(sub(unit, b, r, 1)));
  }
  // Of each row, the two halves' scales or minimums, int16.
  KVRT_INLINE __m256i half_scales(const uint8_t* unit, uint32_t b, uint32_t r) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sub(unit, b, r, 0)));
    if constexpr (kFormat.sub == SubScales::kHalves) return _mm256_cvtepi8_epi16(bytes);
    return _mm256_and_si256(_mm256_cvtepu8_epi16(bytes), _mm256_set1_epi16(15));
  }
  KVRT_INLINE __m256i half_minimums(const uint8_t* unit, uint32_t b, uint32_t r) {
    return _mm256_srli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sub(unit, b, r, 0)))), 4);
  }
  // The lines ahead of a block, an eighth of them for each j; with a superblock's first block also those of its header.
  KVRT_INLINE void prefetch(const uint8_t* unit, uint32_t b, uint32_t j) {
    const char* ahead = reinterpret_cast<const char*>(unit) + kPrefetchBytes;
    constexpr uint32_t kApart = kUnitBlocks > 1 ? kHeaderBytes : 0, kBytes = (kUnitBytes - kApart) / kUnitBlocks;
    constexpr uint32_t kLines = (kBytes + 63) / 64;
    static_assert(kLines <= 16 && kApart <= 512);
    if (b == 0 && 64 * j < kApart) _mm_prefetch(ahead + 64 * j, _MM_HINT_T0);
    const uint32_t line = j * kLines / 8, end = (j + 1) * kLines / 8;
    if (line < end) _mm_prefetch(ahead + kApart + b * kBytes + line * 64, _MM_HINT_T0);
    if (line + 1 < end) _mm_prefetch(ahead + kApart + b * kBytes + line * 64 + 64, _MM_HINT_T0);
  }
};

// Blocks with bytes for quads and what else takes time to unpack: [8][16 rows][4], then lines of 64 bytes: scales, minimums, halves.
template <Shape shape>
struct Expanded {
  static constexpr Shape kShape = shape;
  static constexpr uint32_t kMinimumAt = 576, kHalvesAt = kMinimumAt + (shape.minimum ? 64 : 0);
  static constexpr uint32_t kUnitBlocks = 1, kUnitBytes = kHalvesAt + (shape.halves ? shape.minimum ? 128 : 64 : 0);

  KVRT_INLINE __m256i quads(const uint8_t* unit, uint32_t, uint32_t j, uint32_t r) { return load_i8x32(unit + j * 64 + r * 32); }
  KVRT_INLINE __m256 scale(const uint8_t* unit, uint32_t, uint32_t r) { return load_f32x8(unit + 512 + r * 32); }
  KVRT_INLINE __m256 minimum(const uint8_t* unit, uint32_t, uint32_t r) { return load_f32x8(unit + kMinimumAt + r * 32); }
  KVRT_INLINE __m256i half_scales(const uint8_t* unit, uint32_t, uint32_t r) { return load_i8x32(unit + kHalvesAt + r * 32); }
  KVRT_INLINE __m256i half_minimums(const uint8_t* unit, uint32_t, uint32_t r) { return load_i8x32(unit + kHalvesAt + 64 + r * 32); }
  KVRT_INLINE void prefetch(const uint8_t*, uint32_t, uint32_t) {}
};

KVRT_INLINE void store(uint8_t* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

// One block of a panel to the form above.
template <DType type>
KVRT_INLINE void expand(const uint8_t* unit, uint32_t b, uint8_t* out) {
  using From = Packed<type>;
  using To = Expanded<From::kShape>;
  KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) From::prefetch(unit, b, j);
  KVRT_UNROLL for (uint32_t r = 0; r < 2; ++r) {
    KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) store(out + j * 64 + r * 32, From::quads(unit, b, j, r));
    store(out + 512 + r * 32, _mm256_castps_si256(From::scale(unit, b, r)));
    if constexpr (To::kShape.minimum) store(out + To::kMinimumAt + r * 32, _mm256_castps_si256(From::minimum(unit, b, r)));
    if constexpr (To::kShape.halves) store(out + To::kHalvesAt + r * 32, From::half_scales(unit, b, r));
    if constexpr (To::kShape.halves && To::kShape.minimum) store(out + To::kHalvesAt + 64 + r * 32, From::half_minimums(unit, b, r));
  }
}

// f32 chains of 8 rows x 2 of one column.
struct Chains {
  __m256 rows[2];
};

// Quantized activations of successive columns, from some block on.
struct Columns {
  const int8_t* q;
  const float *d, *s;
  const int16_t* sums;
  uint64_t blocks;  // from one column to the next
  KVRT_INLINE Columns at(const MatmulArgs& args, uint64_t column, uint64_t block) {
    const uint64_t blocks = args.k / kQuantBlock, i = column * blocks + block;
    return {args.xq.q + i * kQuantBlock, args.xq.d + i, args.xq.s + i, args.xq.sums + 2 * i, blocks};
  }
};

// A block's two sums of activations in every 32-bit lane.
KVRT_INLINE __m256i broadcast_sums(const int16_t* p) { return broadcast_word(reinterpret_cast<const int8_t*>(p)); }

// The first (0) or second (1) int16 of every 32-bit lane, twice.
KVRT_INLINE __m256i both(__m256i v, uint32_t which) {
  const __m256i pick =
      _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
  return _mm256_shuffle_epi8(v, which == 0 ? pick : _mm256_add_epi8(pick, _mm256_set1_epi8(2)));
}

// The integer dots of a block, less what `zero` adds.
template <typename Source, int C>
KVRT_INLINE void dots(const uint8_t* unit, uint32_t b, const Columns& x, uint64_t at, __m256i (&sum)[2][C]) {
  constexpr Shape kShape = Source::kShape;
  constexpr uint32_t kChain = static_cast<uint32_t>(kShape.chain), kFirst = kShape.halves ? 4 : 8;
  __m256i pairs[2][C], widen[2];
  KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) {
    KVRT_UNROLL for (uint32_t r = 0; r < 2; ++r) {
      if (!kShape.halves) widen[r] = _mm256_set1_epi16(1);
      if (kShape.halves && j % kFirst == 0) widen[r] = both(Source::half_scales(unit, b, r), j / kFirst);
    }
    Source::prefetch(unit, b, j);
    const __m256i w[2] = {Source::quads(unit, b, j, 0), Source::quads(unit, b, j, 1)};
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const __m256i xc = broadcast_word(x.q + (static_cast<uint32_t>(c) * x.blocks + at) * kQuantBlock + 4 * j);
      KVRT_UNROLL for (uint32_t r = 0; r < 2; ++r) {
        const __m256i p =
            kShape.is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[r]), _mm256_sign_epi8(xc, w[r])) : _mm256_maddubs_epi16(w[r], xc);
        pairs[r][c] = j % kChain == 0 ? p : _mm256_add_epi16(pairs[r][c], p);
        if ((j + 1) % kChain == 0) {
          const __m256i wide = _mm256_madd_epi16(pairs[r][c], widen[r]);
          sum[r][c] = j < kChain ? wide : _mm256_add_epi32(sum[r][c], wide);
          pin(sum[r][c]);
        } else {
          pin(pairs[r][c]);
        }
      }
    }
  }
  if constexpr (kShape.zero != 0) {
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const __m256i halves = broadcast_sums(x.sums + 2 * (static_cast<uint32_t>(c) * x.blocks + at));
      const __m256i zeros = _mm256_set1_epi16(static_cast<short>(kShape.zero));
      KVRT_UNROLL for (uint32_t r = 0; r < 2; ++r) {
        const __m256i by = kShape.halves ? _mm256_mullo_epi16(Source::half_scales(unit, b, r), zeros) : zeros;
        sum[r][c] = _mm256_sub_epi32(sum[r][c], _mm256_madd_epi16(by, halves));
      }
    }
  }
}

// One block of 16 rows x C columns: the next terms of their chains (NUMERICS.md §3).
template <typename Source, int C>
KVRT_INLINE void add_block(const uint8_t* unit, uint32_t b, const Columns& x, uint64_t at, Chains (&acc)[C]) {
  constexpr Shape kShape = Source::kShape;
  __m256i sum[2][C];
  dots<Source, C>(unit, b, x, at, sum);
  KVRT_UNROLL for (uint32_t r = 0; r < 2; ++r) {
    const __m256 scale = Source::scale(unit, b, r);
    KVRT_UNROLL for (int c = 0; c < C; ++c) {
      const uint64_t i = static_cast<uint32_t>(c) * x.blocks + at;
      const __m256 d = _mm256_broadcast_ss(x.d + i);
      __m256& chain = acc[c].rows[r];
      chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][c]), _mm256_mul_ps(scale, d), chain);
      if constexpr (kShape.minimum && kShape.halves) {
        const __m256i msum = _mm256_madd_epi16(Source::half_minimums(unit, b, r), broadcast_sums(x.sums + 2 * i));
        chain = _mm256_fmadd_ps(_mm256_cvtepi32_ps(msum), _mm256_mul_ps(Source::minimum(unit, b, r), d), chain);
      } else if constexpr (kShape.minimum) {
        chain = _mm256_fmadd_ps(Source::minimum(unit, b, r), _mm256_broadcast_ss(x.s + i), chain);
      }
    }
  }
}

// 16 rows x C columns over `blocks` blocks, going on from the chains in `chains`.
template <typename Source, int C>
void tile(const uint8_t* unit, uint64_t blocks, const Columns& x, Chains* chains) {
  Chains acc[C];
  KVRT_UNROLL for (int c = 0; c < C; ++c) acc[c] = chains[c];
  for (uint64_t at = 0; at < blocks; unit += Source::kUnitBytes) {
    for (uint32_t b = 0; b < Source::kUnitBlocks; ++b, ++at) {
      add_block<Source, C>(unit, b, x, at, acc);
    }
  }
  KVRT_UNROLL for (int c = 0; c < C; ++c) chains[c] = acc[c];
}

// `columns` columns, four at a time: with the chains of more, the sums would no longer fit in registers.
template <typename Source>
KVRT_INLINE void tiles(const uint8_t* unit, uint64_t blocks, const MatmulArgs& args, uint32_t column, uint32_t columns, uint64_t first,
                       Chains* chains) {
  uint32_t c = 0;
  for (; c + 4 <= columns; c += 4) tile<Source, 4>(unit, blocks, Columns::at(args, column + c, first), chains + c);
  const Columns rest = Columns::at(args, column + c, first);
  if (columns - c == 3) tile<Source, 3>(unit, blocks, rest, chains + c);
  if (columns - c == 2) tile<Source, 2>(unit, blocks, rest, chains + c);
  if (columns - c == 1) tile<Source, 1>(unit, blocks, rest, chains + c);
}

// Many columns: the panel is expanded once for all of them, in pieces of K that stay in L1; the chains wait in memory.
template <DType type>
void expanded_tiles(const MatmulArgs& args, const uint8_t* unit, uint32_t column, uint32_t columns, Chains* chains) {
  using From = Packed<type>;
  using To = Expanded<From::kShape>;
  constexpr uint64_t kBlocks = kExpandedBytes / To::kUnitBytes / From::kUnitBlocks * From::kUnitBlocks;
  alignas(64) uint8_t expanded[kBlocks * To::kUnitBytes];
  const uint64_t blocks = args.k / kQuantBlock;
  for (uint64_t first = 0; first < blocks; first += kBlocks) {
    const uint64_t n = blocks - first < kBlocks ? blocks - first : kBlocks;
    uint8_t* to = expanded;
    for (uint64_t at = 0; at < n; at += From::kUnitBlocks, unit += From::kUnitBytes) {
      for (uint32_t b = 0; b < From::kUnitBlocks; ++b, to += To::kUnitBytes) expand<type>(unit, b, to);
    }
    tiles<To>(expanded, n, args, column, columns, first, chains);
  }
}

// Few columns read the panel as it lies: a copy pays once there are several tiles of columns, and sooner where unpacking is work.
template <DType type>
void matmul_quantized(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  constexpr uint32_t kDirectColumns = Packed<type>::kFormat.high_bits || Packed<type>::kFormat.has_table() ? 4 : 16;
  Chains chains[kGroupColumns];
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    const uint8_t* panel = args.panels + p * args.panel_bytes;
    for (uint32_t column = column_begin; column < column_end; column += kGroupColumns) {
      const uint32_t n = column_end - column < kGroupColumns ? column_end - column : kGroupColumns;
      for (uint32_t c = 0; c < n; ++c) chains[c].rows[0] = chains[c].rows[1] = _mm256_setzero_ps();
      if (n <= kDirectColumns) {
        tiles<Packed<type>>(panel, args.k / kQuantBlock, args, column, n, 0, chains);
      } else {
        expanded_tiles<type>(args, panel, column, n, chains);
      }
      for (uint32_t c = 0; c < n; ++c) store_column(args, p, column + c, chains[c].rows[0], chains[c].rows[1]);
    }
  }
}

template <DType type>
constexpr MatmulFn kernel() {
  if constexpr (type == DType::kF32) return matmul_f32;
  if constexpr (type == DType::kF16) return matmul_f16;
  if constexpr (type == DType::kBF16) return matmul_bf16;
  if constexpr (!is_plain(type)) return matmul_quantized<type>;
}

template <DType... types>
constexpr MatmulTable table(DTypeList<types...>) {
  MatmulTable t{};
  ((t.by_type[static_cast<uint32_t>(types)] = kernel<types>()), ...);
  return t;
}

}  // namespace

const MatmulTable kMatmul = table(AllDTypes{});

}  // namespace kvrt::avx2
