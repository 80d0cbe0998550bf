// Panels against the plain way of making them: element by element, where NUMERICS.md §9 says that it lies.
#include "runtime/compute/cpu/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/compute/cpu/weights.h"
#include "runtime/compute/quant/block.h"

namespace kvrt {
namespace {

struct Rows {
  std::vector<uint8_t> bytes;
  TensorView view;
};

Rows random_rows(DType type, uint32_t rows, uint32_t cols, uint32_t seed) {
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(type));
  Rows out{std::vector<uint8_t>(uint64_t{rows} * cols / info.block_elems * info.block_bytes), {}};
  std::mt19937 random(seed);
  for (uint8_t& byte : out.bytes) byte = static_cast<uint8_t>(random());
  out.view = {type, {cols, rows, 1, 1}, out.bytes};
  return out;
}

// Element `e` of a plane of `bits` bits in the file's unsigned integers: group e / 4 / p, byte e % 4, bit bits * (e / 4 % p); p = 8 / bits.
void put_element(uint32_t bits, uint32_t e, uint32_t lane, uint32_t value, uint8_t* plane) {
  const uint32_t p = 8 / bits, group = e / 4 / p, shift = bits * (e / 4 % p);
  plane[group * 64 + lane * 4 + e % 4] |= static_cast<uint8_t>(value << shift);
}

void put_block(const QuantFormat& f, const RawBlock& raw, uint32_t block, uint32_t lane, uint8_t* unit) {
  std::memcpy(unit + lane * f.scale_bytes, &raw.scale, f.scale_bytes);
  std::memcpy(unit + 16 * f.scale_bytes + lane * f.min_bytes, &raw.minimum, f.min_bytes);
  uint8_t* subs = unit + 16 * (f.scale_bytes + f.min_bytes) + block * 16 * f.sub_bytes();
  for (uint32_t i = 0; i < f.sub_bytes(); ++i) subs[f.halves() ? 2 * lane + i : 16 * i + lane] = raw.sub[i];
  uint8_t* low = unit + f.header_bytes() + block * f.body_bytes();
  for (uint32_t e = 0; e < 32; ++e) {
    put_element(f.low_bits, e, lane, raw.u[e] & ((1u << f.low_bits) - 1), low);
    if (f.high_bits) put_element(f.high_bits, e, lane, raw.u[e] >> f.low_bits, low + 64 * f.low_bits);
  }
}

std::vector<uint8_t> plain_way(const TensorView& tensor) {
  const auto rows = static_cast<uint32_t>(tensor.rows()), cols = static_cast<uint32_t>(tensor.cols());
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(tensor.type));
  const QuantFormat* f = quant_format(tensor.type);
  const uint64_t panel_bytes = panel_bytes_of(tensor.type, cols), row_bytes = tensor.data.size() / rows;
  std::vector<uint8_t> out((rows + 15) / 16 * panel_bytes);
  for (uint32_t r = 0; r < rows; ++r) {
    const uint8_t* row = tensor.data.data() + r * row_bytes;
    uint8_t* panel = out.data() + r / 16 * panel_bytes;
    for (uint32_t k = 0; !f && k < cols; ++k) {
      std::memcpy(panel + (uint64_t{k} * 16 + r % 16) * info.block_bytes, row + uint64_t{k} * info.block_bytes, info.block_bytes);
    }
    for (uint32_t k = 0; f && k < cols; k += f->unit_elems(), row += info.block_bytes, panel += f->unit_bytes()) {
      RawBlock raw[8];
      decode_unit(tensor.type, row, raw);  // compared with PyPI gguf's in quants_test.cc
      for (uint32_t b = 0; b < f->unit_blocks; ++b) put_block(*f, raw[b], b, r % 16, panel);
    }
  }
  return out;
}

TEST(Pack, EveryTypeAndRaggedRowsAreAsMadeElementByElement) {
  for (const DTypeInfo& info : dtypes()) {
    const uint32_t unit = info.block_elems == 1 ? 3 : info.block_elems;
    for (const uint32_t rows : {1u, 15u, 16u, 17u, 50u}) {
      for (const uint32_t cols : {unit, 2 * unit, 3 * unit, 24 * unit}) {
        const Rows tensor = random_rows(info.type, rows, cols, rows * cols);
        const std::vector<uint8_t> want = plain_way(tensor.view);
        std::vector<uint8_t> found(want.size());
        pack_panels(tensor.view, 0, (rows + 15) / 16, found.data());
        ASSERT_EQ(found, want) << info.name << " " << rows << " x " << cols;
      }
    }
  }
}

TEST(Pack, PanelsComeOutAloneAsTogether) {
  const Rows tensor = random_rows(DType::kQ5_K, 70, 512, 1);
  const std::vector<uint8_t> want = plain_way(tensor.view);
  const uint64_t panel = panel_bytes_of(DType::kQ5_K, 512);
  for (uint32_t begin = 0; begin < 5; ++begin) {
    for (uint32_t end = begin; end <= 5; ++end) {
      std::vector<uint8_t> found((end - begin) * panel);
      pack_panels(tensor.view, begin, end, found.data());
      ASSERT_TRUE(std::equal(found.begin(), found.end(), want.begin() + static_cast<ptrdiff_t>(begin * panel)));
    }
  }
}

TEST(Pack, DealtRowsAreAsIfTheFileHadThemSo) {
  for (const DType type : {DType::kF32, DType::kQ4_K}) {
    Rows tensor = random_rows(type, 4 * 12, 256, 5);
    const uint64_t row_bytes = tensor.view.data.size() / tensor.view.rows();
    std::vector<uint8_t> sorted;  // 5 rows of each run from 2 on, then the 2 before them, then the other 5
    for (const auto& [first, rows] : {std::pair{2u, 5u}, {0u, 2u}, {7u, 5u}}) {
      for (uint32_t run = 0; run < 4; ++run) {
        const auto from = tensor.view.data.subspan((run * 12 + first) * row_bytes, rows * row_bytes);
        sorted.insert(sorted.end(), from.begin(), from.end());
      }
    }
    TensorView dealt = tensor.view, other = tensor.view;
    dealt.deal = {12, {{{2, 5}, {0, 2}, {7, 5}}}};
    other.data = sorted;
    const std::vector<uint8_t> want = plain_way(other);
    std::vector<uint8_t> found(want.size());
    pack_panels(dealt, 0, 3, found.data());
    EXPECT_EQ(found, want);
    WeightImage images[2];
    EXPECT_TRUE(images[0].add(TensorStack{tensor.view}).is_ok() && images[1].add(TensorStack{dealt}).is_ok());
    EXPECT_FALSE(images[0].key({}) == images[1].key({})) << "they are different weights";
  }
}

// Three weights of mixed types, one of them stacked.
struct Mixed {
  std::vector<Rows> rows;
  std::vector<TensorStack> stacks;
  Mixed() {
    rows.push_back(random_rows(DType::kQ4_1, 37, 96, 1));
    rows.push_back(random_rows(DType::kQ8_0, 16, 96, 2));
    rows.push_back(random_rows(DType::kF16, 5, 7, 3));
    rows.push_back(random_rows(DType::kQ6_K, 100, 256, 4));
    stacks = {{rows[0].view, rows[1].view}, {rows[2].view}, {rows[3].view}};
  }
  WeightImage image() const {
    WeightImage out;
    for (const TensorStack& stack : stacks) EXPECT_TRUE(out.add(stack).is_ok());
    return out;
  }
};

TEST(WeightImage, AnyCutGivesTheSameBytesAndTakesEveryByteOnce) {
  const Mixed mixed;
  const WeightImage image = mixed.image();
  std::vector<uint8_t> want(image.bytes());
  image.pack(0, image.bytes(), want.data());
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> found(image.bytes());
    std::vector<std::vector<int>> taken;
    for (const Rows& r : mixed.rows) taken.emplace_back(r.bytes.size());
    for (uint64_t at = 0; at < image.bytes();) {
      const uint64_t end = std::min<uint64_t>(image.bytes(), at + 1 + random() % (1u << (random() % 16)));
      image.pack(at, end, found.data());
      for (const std::span<const uint8_t> bytes : image.sources(at, end)) {
        for (size_t i = 0; i < mixed.rows.size(); ++i) {
          const uint8_t *base = mixed.rows[i].bytes.data(), *past = base + mixed.rows[i].bytes.size();
          if (bytes.data() < base || bytes.data() >= past) continue;
          for (const uint8_t& byte : bytes) ++taken[i][static_cast<size_t>(&byte - base)];
        }
      }
      at = end;
    }
    ASSERT_EQ(found, want);
    for (const auto& counts : taken) ASSERT_TRUE(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }));
  }
}

TEST(WeightImage, TheKeyDependsOnAllThatTheBytesDo) {
  const Mixed mixed;
  const Hash256 source = Hasher().add_string("a").finish();
  const Hash256 key = mixed.image().key(source);
  EXPECT_EQ(mixed.image().key(source), key);
  EXPECT_NE(mixed.image().key(Hasher().add_string("b").finish()), key);
  const auto changed = [&](auto change) {
    Mixed other = mixed;  // views into `mixed`'s bytes: the same tensors
    change(&other.stacks);
    return other.image().key(source);
  };
  EXPECT_NE(changed([](auto* s) { s->pop_back(); }), key);
  EXPECT_NE(changed([](auto* s) { std::swap((*s)[1], (*s)[2]); }), key);
  EXPECT_NE(changed([](auto* s) { std::swap((*s)[0][0], (*s)[0][1]); }), key);
  EXPECT_NE(changed([](auto* s) { (*s)[2][0].type = DType::kQ6_K, (*s)[2][0].ne = {512, 50, 1, 1}; }), key);
  EXPECT_NE(changed([](auto* s) { (*s)[1][0].type = DType::kBF16; }), key);
}

}  // namespace
}  // namespace kvrt
