// Matmul on quantized panels, written once over QuantFormat and over `V`, a Simd with the operations on bytes that kernels_avx2_quant.cc
// and kernels_avx512_quant.cc add to it.
//
// A block of 16 rows x 32 elements is eight *quads*: 4 elements of each row, as the bytes of its 32-bit lane. A dot step multiplies a
// quad's unsigned weights by four activations in every lane and adds up. Weights that are signed, or less some zero, go in as they are
// stored, or moved up to be unsigned; that adds a multiple of the sum of the activations, which is known.
#pragma once

#include "runtime/compute/cpu/matmul_plain.h"

namespace kvrt::simd {

template <typename V>
inline constexpr uint32_t kVectors = kPanelRows / V::kLanes;  // vectors of a panel's rows
inline constexpr uint32_t kPrefetchBytes = 7 << 10;           // ahead in the panel stream

// Four bytes, or two int16, in every 32-bit lane.
template <typename V>
KVRT_INLINE typename V::I broadcast_word(const void* p) {
  int word;
  __builtin_memcpy(&word, p, sizeof word);
  return V::set1_int(word);
}

// The properties of a format that the arithmetic must know.
struct QuantShape {
  int chain;  // pairs of products that may be added in int16; 1 where weights are signed
  int zero;   // weights go in this much too large
  bool is_signed, halves, minimum;
};

// `vnni`: products are added in int32, weights are unsigned always.
[[gnu::always_inline]] constexpr QuantShape shape_of(const QuantFormat& f, bool vnni) {
  QuantShape s{f.halves() ? 4 : 8, f.zero, f.low_bits == 8 || (f.has_table() && f.zero == 0), f.halves(), f.min_bytes != 0};
  if (vnni && s.is_signed) {
    s.zero = f.has_table() ? 127 : 128;
    s.is_signed = false;
  }
  int largest = (1 << (f.low_bits + f.high_bits)) - 1;
  for (int i = 0; f.has_table() && i < 16; ++i) {
    if (i == 0) largest = 0;
    if (f.table()[i] + f.zero > largest) largest = f.table()[i] + f.zero;
  }
  while (s.chain > 1 && (s.is_signed || s.chain * 2 * 127 * largest > 32767)) s.chain /= 2;
  return s;
}

// A panel as it lies in memory. `unit` points to a unit, b counts its blocks, r its vectors of V::kLanes rows.
template <typename V, DType type>
struct Packed {
  static constexpr QuantFormat kFormat = *quant_format(type);
  static constexpr QuantShape kShape = shape_of(kFormat, V::kVnni);
  static constexpr uint32_t kUnitBlocks = kFormat.unit_blocks, kUnitBytes = kFormat.unit_bytes();
  static constexpr uint32_t kHeaderBytes = kFormat.header_bytes(), kBodyBytes = kFormat.body_bytes();
  using F = typename V::F;
  using I = typename V::I;

  KVRT_INLINE const uint8_t* sub(const uint8_t* unit, uint32_t b, uint32_t r, uint32_t i) {
    const uint32_t rows_before = kFormat.halves() ? 2 * V::kLanes * r : kPanelRows * i + V::kLanes * r;
    return unit + kFormat.sub_at() + b * kPanelRows * kFormat.sub_bytes() + rows_before;
  }
  // Elements 4j..4j+3 of a plane, at bit `to` of each byte.
  template <int bits>
  KVRT_INLINE I plane(const uint8_t* p, uint32_t j, uint32_t r, int to) {
    constexpr uint32_t kQuads = 8 / bits;
    const I packed = V::load_bytes(p + j / kQuads * 64 + r * 4 * V::kLanes);
    if constexpr (bits == 8) return packed;
    return V::and_bits(V::shift(packed, to - bits * static_cast<int>(j % kQuads)), V::set1_8(((1 << bits) - 1) << to));
  }
  KVRT_INLINE I quads(const uint8_t* unit, uint32_t b, uint32_t j, uint32_t r) {
    const uint8_t* body = unit + kHeaderBytes + b * kBodyBytes;
    I u = plane<kFormat.low_bits>(body, j, r, 0);
    if constexpr (kFormat.high_bits != 0) {
      u = V::or_bits(u, plane<kFormat.high_bits>(body + 64 * kFormat.low_bits, j, r, kFormat.low_bits));
    }
    if constexpr (kFormat.has_table()) u = V::look_up(kFormat.table(), kShape.zero, u);
    if constexpr (V::kVnni && kFormat.low_bits == 8) u = V::flip_sign(u);
    return u;
  }
  KVRT_INLINE F scale(const uint8_t* unit, uint32_t b, uint32_t r) {
    const F scale = kFormat.scale_bytes == 1 ? V::load_e8m0(unit + V::kLanes * r) : V::load_f16(unit + 2 * V::kLanes * r);
    if constexpr (kFormat.sub == SubScales::kScale) return V::mul(scale, V::load_i8(sub(unit, b, r, 0)));
    if constexpr (kFormat.sub == SubScales::kScaleMin) return V::mul(scale, V::load_u8(sub(unit, b, r, 0)));
    return scale;
  }
  KVRT_INLINE F minimum(const uint8_t* unit, uint32_t b, uint32_t r) {
    const F minimum = V::load_f16(unit + kPanelRows * kFormat.scale_bytes + 2 * V::kLanes * r);
    if constexpr (kFormat.sub == SubScales::kNone) return minimum;
    if constexpr (kFormat.halves()) return V::negate(minimum);
    return V::mul(V::negate(minimum), V::load_u8(sub(unit, b, r, 1)));
  }
  // The scales or minimums of each row's two halves, int16.
  KVRT_INLINE I half_scales(const uint8_t* unit, uint32_t b, uint32_t r) {
    if constexpr (kFormat.sub == SubScales::kHalves) return V::load_i8_as_i16(sub(unit, b, r, 0));
    return V::and_bits(V::load_u8_as_i16(sub(unit, b, r, 0)), V::set1_16(15));
  }
  KVRT_INLINE I half_minimums(const uint8_t* unit, uint32_t b, uint32_t r) { return V::shift(V::load_u8_as_i16(sub(unit, b, r, 0)), -4); }
  // The lines ahead of a block, an eighth of them for each j; with a superblock's first block also those of its header.
  KVRT_INLINE void prefetch(const uint8_t* unit, uint32_t b, uint32_t j) {
    const uint8_t* ahead = unit + kPrefetchBytes;
    constexpr uint32_t kApart = kUnitBlocks > 1 ? kHeaderBytes : 0, kBytes = (kUnitBytes - kApart) / kUnitBlocks;
    constexpr uint32_t kLines = (kBytes + 63) / 64;
    static_assert(kLines <= 16 && kApart <= 512);
    if (b == 0 && 64 * j < kApart) kvrt::prefetch(ahead + 64 * j);
    const uint32_t line = j * kLines / 8, end = (j + 1) * kLines / 8;
    if (line < end) kvrt::prefetch(ahead + kApart + b * kBytes + line * 64);
    if (line + 1 < end) kvrt::prefetch(ahead + kApart + b * kBytes + line * 64 + 64);
  }
};

// Blocks with bytes for quads and all else that takes time to unpack: [8][16 rows][4], then lines of 64 bytes: scales, minimums, halves.
template <typename V, QuantShape shape>
struct Expanded {
  static constexpr QuantShape kShape = shape;
  static constexpr uint32_t kMinimumAt = 576, kHalvesAt = kMinimumAt + (shape.minimum ? 64 : 0);
  static constexpr uint32_t kUnitBlocks = 1, kUnitBytes = kHalvesAt + (shape.halves ? shape.minimum ? 128 : 64 : 0);
  static constexpr uint32_t kBytes = 4 * V::kLanes;  // a vector's

  KVRT_INLINE typename V::F load_floats(const uint8_t* p) { return V::load(reinterpret_cast<const float*>(p)); }
  KVRT_INLINE typename V::I quads(const uint8_t* unit, uint32_t, uint32_t j, uint32_t r) {
    return V::load_bytes(unit + j * 64 + r * kBytes);
  }
  KVRT_INLINE typename V::F scale(const uint8_t* unit, uint32_t, uint32_t r) { return load_floats(unit + 512 + r * kBytes); }
  KVRT_INLINE typename V::F minimum(const uint8_t* unit, uint32_t, uint32_t r) { return load_floats(unit + kMinimumAt + r * kBytes); }
  KVRT_INLINE typename V::I half_scales(const uint8_t* unit, uint32_t, uint32_t r) { return V::load_bytes(unit + kHalvesAt + r * kBytes); }
  KVRT_INLINE typename V::I half_minimums(const uint8_t* unit, uint32_t, uint32_t r) {
    return V::load_bytes(unit + kHalvesAt + 64 + r * kBytes);
  }
  KVRT_INLINE void prefetch(const uint8_t*, uint32_t, uint32_t) {}
};

// Units of a panel, `blocks` blocks, to the form above.
template <typename V, typename From, typename To>
[[gnu::noinline]] void expand(const uint8_t* unit, uint64_t blocks, uint8_t* out) {
  constexpr uint32_t kBytes = 4 * V::kLanes;
  uint32_t b = 0;
  for (; blocks > 0; --blocks, out += To::kUnitBytes) {
    auto* floats = reinterpret_cast<float*>(out);
    KVRT_UNROLL for (uint32_t r = 0; r < kVectors<V>; ++r) {
      KVRT_UNROLL for (uint32_t j = 0; j < 8; ++j) V::store_bytes(out + j * 64 + r * kBytes, From::quads(unit, b, j, r));
      V::store(floats + 128 + r * V::kLanes, From::scale(unit, b, r));
      if constexpr (To::kShape.minimum) V::store(floats + To::kMinimumAt / 4 + r * V::kLanes, From::minimum(unit, b, r));
      if constexpr (To::kShape.halves) V::store_bytes(out + To::kHalvesAt + r * kBytes, From::half_scales(unit, b, r));
      if constexpr (To::kShape.halves && To::kShape.minimum) {
        V::store_bytes(out + To::kHalvesAt + 64 + r * kBytes, From::half_minimums(unit, b, r));
      }
    }
    if (++b == From::kUnitBlocks) b = 0, unit += From::kUnitBytes;
  }
}

// Quantized activations of a group of C columns, which lie side by side: see QuantRows.
template <uint32_t C>
struct Columns {
  const int8_t* q;
  const float *d, *s;
  const int16_t* sums;

  KVRT_INLINE Columns at(const MatmulArgs& args, uint64_t column, uint64_t block) {
    const uint64_t i = column * (args.k / kQuantBlock) + block * C;
    return {args.xq.q + i * kQuantBlock, args.xq.d + i, args.xq.s + i, args.xq.sums + 2 * i};
  }
  [[gnu::always_inline]] const int8_t* quad(uint32_t c, uint32_t j) const { return q + 4 * (j * C + c); }
  [[gnu::always_inline]] const int16_t* half_sums(uint32_t c) const { return sums + 2 * c; }
  [[gnu::always_inline]] void next_block() {
    q += C * kQuantBlock;
    d += C;
    s += C;
    sums += 2 * C;
  }
};

// A tile's chains are in registers; in memory where those do not hold them beside the integer sums.
template <typename V, typename Source, uint32_t C>
inline constexpr bool kHeld = C <= V::columns_held(Source::kShape);

// One block of 16 rows x C columns: the next terms of their chains (NUMERICS.md §3). As many vectors of rows at a time as registers have
// sums for: they share what is read of the activations.
template <typename V, typename Source, uint32_t C>
KVRT_INLINE void add_block(const uint8_t* unit, uint32_t b, const Columns<C>& x, typename V::Lanes16* chains) {
  using F = typename V::F;
  constexpr QuantShape kShape = Source::kShape;
  constexpr uint32_t R = V::vectors_at_once(kShape, C);
  KVRT_UNROLL for (uint32_t first = 0; first < kVectors<V>; first += R) {
    // Activations, and chains in memory, are read again: kept from before, they would be spilled.
    if (first > 0 || !kHeld<V, Source, C>) asm volatile("" ::: "memory");
    typename V::I sum[R][C]{};
    V::template dots<Source, R, C>(unit, b, first, x, sum);
    KVRT_UNROLL for (uint32_t i = 0; i < R; ++i) {
      const uint32_t r = first + i;
      const F scale = Source::scale(unit, b, r);
      F minimum{};
      if constexpr (kShape.minimum) minimum = Source::minimum(unit, b, r);
      KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const F d = V::broadcast(x.d + c);
        F chain = V::fma(V::to_float(sum[i][c]), V::mul(scale, d), chains[c].v[r]);
        if constexpr (kShape.minimum && kShape.halves) {
          const typename V::I sums = V::madd(Source::half_minimums(unit, b, r), broadcast_word<V>(x.half_sums(c)));
          chain = V::fma(V::to_float(sums), V::mul(minimum, d), chain);
        } else if constexpr (kShape.minimum) {
          chain = V::fma(minimum, V::broadcast(x.s + c), chain);
        }
        chains[c].v[r] = chain;
      }
    }
  }
}

// 16 rows x C columns over `blocks` blocks, going on from `chains`.
template <typename V, typename Source, uint32_t C>
[[gnu::noinline]] void tile(const uint8_t* unit, uint64_t blocks, Columns<C> x, typename V::Lanes16* chains) {
  typename V::Lanes16 held[C];
  typename V::Lanes16* acc = kHeld<V, Source, C> ? held : chains;
  if constexpr (kHeld<V, Source, C>) KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) held[c] = chains[c];
  for (uint64_t at = 0; at < blocks; unit += Source::kUnitBytes) {
    for (uint32_t b = 0; b < Source::kUnitBlocks; ++b, ++at, x.next_block()) add_block<V, Source, C>(unit, b, x, acc);
  }
  if constexpr (kHeld<V, Source, C>) KVRT_UNROLL for (uint32_t c = 0; c < C; ++c) chains[c] = held[c];
}

// What is read from memory while tiles are computed: `lines` of 64 bytes with each.
struct Ahead {
  const uint8_t* at;
  uint32_t lines;
  KVRT_INLINE_MEMBER void next() {
    for (const uint8_t* end = at + lines * 64; at < end; at += 64) kvrt::prefetch_far(at);
  }
};

// `columns` columns, as many at a time as keep their sums and chains in registers.
template <typename V, typename Source, uint32_t C = V::kColumns>
KVRT_INLINE void tiles(const uint8_t* unit, uint64_t blocks, const MatmulArgs& args, uint32_t column, uint32_t columns, uint64_t first,
                       Ahead ahead, typename V::Lanes16* chains) {
  while (columns >= C) {
    ahead.next();
    tile<V, Source, C>(unit, blocks, Columns<C>::at(args, column, first), chains);
    column += C;
    columns -= C;
    chains += C;
  }
  if constexpr (C > 1) {
    if (columns > 0) tiles<V, Source, C - 1>(unit, blocks, args, column, columns, first, ahead, chains);
  }
}

// Several tiles of columns: the panel is expanded once for all of them, in pieces of K that stay in L1; the chains wait in memory. The
// next piece is read meanwhile, so a piece is the longer the more tiles there are.
template <typename V, DType type>
void expanded_tiles(const MatmulArgs& args, const uint8_t* unit, uint32_t column, uint32_t columns, typename V::Lanes16* chains) {
  using From = Packed<V, type>;
  using To = Expanded<V, From::kShape>;
  constexpr uint32_t kBlocksMax = V::kExpandedBytes / To::kUnitBytes / 8 * 8, kBlocksOfTile = 4;
  alignas(64) uint8_t expanded[kBlocksMax * To::kUnitBytes];
  const uint32_t n_tiles = (columns + V::kColumns - 1) / V::kColumns;
  const uint32_t piece = min_u32((n_tiles * kBlocksOfTile + 7) / 8 * 8, kBlocksMax);
  const uint64_t blocks = args.k / kQuantBlock;
  for (uint64_t first = 0; first < blocks; first += piece) {
    const uint64_t n = blocks - first < piece ? blocks - first : piece;
    expand<V, From, To>(unit, n, expanded);
    unit += n / From::kUnitBlocks * From::kUnitBytes;
    const uint64_t bytes = piece / From::kUnitBlocks * From::kUnitBytes;
    tiles<V, To>(expanded, n, args, column, columns, first, Ahead{unit, static_cast<uint32_t>(bytes / 64 / n_tiles + 1)}, chains);
  }
}

// Few columns read the panel as it lies; those of several tiles a piece of K after another, so that memory is read at all times.
template <typename V, DType type>
void direct_tiles(const MatmulArgs& args, const uint8_t* unit, uint32_t column, uint32_t columns, typename V::Lanes16* chains) {
  using From = Packed<V, type>;
  const uint64_t blocks = args.k / kQuantBlock, piece = columns > V::kColumns ? V::kDirectBlocks : blocks;
  for (uint64_t first = 0; first < blocks; first += piece) {
    const uint64_t n = blocks - first < piece ? blocks - first : piece;
    tiles<V, From>(unit, n, args, column, columns, first, Ahead{}, chains);
    unit += n / From::kUnitBlocks * From::kUnitBytes;
  }
}

template <typename V>
[[gnu::noinline]] void store_columns(const MatmulArgs& args, uint32_t panel, uint32_t column, uint32_t n,
                                     const typename V::Lanes16* chains) {
  for (uint32_t c = 0; c < n; ++c) store_column<V>(args, panel, column + c, chains[c]);
}

template <typename V, DType type>
void matmul_quantized(const MatmulArgs& args, uint32_t panel_begin, uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  constexpr uint32_t kGroupColumns = 128;  // columns per expansion
  constexpr uint32_t kDirectColumns = V::direct_columns(*quant_format(type));
  typename V::Lanes16 chains[kGroupColumns];
  for (uint32_t p = panel_begin; p < panel_end; ++p) {
    const uint8_t* panel = args.panels + p * args.panel_bytes;
    for (uint32_t column = column_begin; column < column_end; column += kGroupColumns) {
      const uint32_t n = column_end - column < kGroupColumns ? column_end - column : kGroupColumns;
      for (uint32_t c = 0; c < n; ++c) chains[c] = V::zero16();
      if constexpr (kDirectColumns < kGroupColumns) {
        if (n > kDirectColumns) expanded_tiles<V, type>(args, panel, column, n, chains);
      }
      if (n <= kDirectColumns) direct_tiles<V, type>(args, panel, column, n, chains);
      store_columns<V>(args, p, column, n, chains);
    }
  }
}

template <typename V, DType type>
constexpr MatmulFn matmul_kernel() {
  if constexpr (type == DType::kF32) return plain_matmul<V, PlainF32>;
  if constexpr (type == DType::kF16) return plain_matmul<V, PlainF16>;
  if constexpr (type == DType::kBF16) return plain_matmul<V, PlainBf16>;
  if constexpr (!is_plain(type)) return matmul_quantized<V, type>;
}

template <typename V, DType... types>
constexpr MatmulTable matmul_table(DTypeList<types...>) {
  MatmulTable table{};
  ((table.by_type[static_cast<uint32_t>(types)] = matmul_kernel<V, types>()), ...);
  return table;
}

}  // namespace kvrt::simd
