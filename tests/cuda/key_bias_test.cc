// Attention over K that is stored without a part of its bias: against float64 with the bias by its definition, against the CPU, and a row
// alone against the same row in company.
#include "tests/cuda/attention_support.h"

namespace kvrt::test {
namespace {

const std::vector<KvFormats> kBiasFormats = {{KvFormat::kI8},
                                             {KvFormat::kF8},
                                             {KvFormat::kI4},
                                             {KvFormat::kI8, KvFormat::kI4},
                                             {KvFormat::kI8, KvFormat::kF16},
                                             {KvFormat::kF8, KvFormat::kBF16},
                                             {KvFormat::kI4, KvFormat::kF16}};

// Of several numbers, as such biases have: a pair moves a score by a few units. Of each KV head after the first another half
// of the pairs, and one pair fewer.
Shape with_bias(Shape s, RopeStyle style, uint32_t rope_dims, float freq_base = 10000.0f) {
  Random random(s.head_dim + rope_dims);
  s.apart = true;
  s.rope.style = style;
  s.rope.dims = rope_dims;
  s.rope.freq_base = freq_base;
  const uint32_t half = rope_dims / 4;
  for (uint32_t head = 0; head < s.kv_heads; ++head) {
    for (uint32_t i = 0; i < half; ++i) {
      const bool none = head > 0 && i + 1 == half;  // ends with zeros
      s.bias.push_back(none ? 0.0f : static_cast<float>(2 * i + head % 2));
      for (const float b : random.floats(2, 8)) s.bias.push_back(none ? 0.0f : b);
    }
  }
  return s;
}

// A third of them for each format, all of them for all.
std::vector<Shape> biased_shapes(size_t which) {
  const KvFormats formats = kBiasFormats[which];
  const RopeStyle halves = RopeStyle::kHalves, neighbours = RopeStyle::kInterleaved;
  const std::vector<Shape> all = {
      with_bias({4, 2, 64, formats, 32}, halves, 64, 1e6f),           with_bias({3, 1, 80, formats, 16, 0, 2.0f}, neighbours, 32),
      with_bias({8, 1, 128, formats, 64, 300}, halves, 128),          with_bias({11, 1, 32, formats, 256}, neighbours, 32, 1e6f),
      with_bias({10, 2, 24, formats, 16, 5, 1.5f}, halves, 16),       with_bias({2, 1, 256, formats, 32}, halves, 256),
      with_bias({6, 3, 64, formats, 32, 700, 0, 48}, neighbours, 24), with_bias({5, 1, 40, formats, 128, 0, 0, 20}, halves, 40)};
  std::vector<Shape> third;
  for (size_t i = which % 3; i < all.size(); i += 3) third.push_back(all[i]);
  return third;
}

double v_rounding(const KvFormats& formats) { return formats.v == KvFormat::kBF16 ? 0x1p-15 : 0; }

// Rows of one span, of two and of three, at their edges.
TEST(KeyBiasDecode, WithinBoundOfFloat64AndOfCpu) {
  uint32_t seed = 0;
  for (size_t which = 0; which < kBiasFormats.size(); ++which) {
    const KvFormats formats = kBiasFormats[which];
    for (const Shape& shape : biased_shapes(which)) {
      World world(shape, {1300, 41}, ++seed);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {1, 40, 1}, {0, 255, 2}, {0, 511, 2}, {0, 1023, 2}, {0, 1299, 1}};
      const std::vector<float> got = decode(&world, batch), cpu = on_cpu(&world, batch);
      expect_near(&world, batch, got, Queries::kExact, 3e-5, v_rounding(formats));
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], v_rounding(formats) > 0 ? 1e-4 : 4e-5) << shape << " " << i;
    }
  }
}

// While a row sees one part, kernels without tensor cores have the CPU's bits; so has the transform of fp8 where a layer has no such bias.
TEST(KeyBiasDecode, PlainPartHasTheCpusBits) {
  for (const auto& [format, head_dim] : {std::pair{KvFormat::kI4, 64u}, {KvFormat::kI4, 80u}, {KvFormat::kI8, 24u}, {KvFormat::kF8, 40u}}) {
    for (const bool none : {false, true}) {
      Shape shape = with_bias({6, 2, head_dim, format, 16, none ? 90u : 0u, none ? 2.0f : 0.0f}, RopeStyle::kHalves, head_dim);
      if (none) shape.bias.clear();
      World world(shape, {256}, head_dim);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {0, 14, 4}, {0, 254, 2}};
      EXPECT_SAME_BITS(on_cpu(&world, batch), decode(&world, batch)) << world.shape;
    }
  }
}

TEST(KeyBiasDecode, Sinks) {
  for (const KvFormats formats : kBiasFormats) {
    Shape shape = with_bias({6, 2, 64, formats, 32, 600}, RopeStyle::kHalves, 64);
    shape.sinks = {-30, -1, 0, 0.5f, 2, 40};
    World world(shape, {1100}, 3);
    fill(&world);
    const Batch batch = {{0, 0, 2}, {0, 512, 2}, {0, 1099, 1}};
    expect_near(&world, batch, decode(&world, batch), Queries::kExact, 3e-5, v_rounding(formats));
  }
}

TEST(KeyBiasDecode, LittleSharedMemory) {
  World world(with_bias({9, 1, 512, KvFormat::kI8, 32}, RopeStyle::kHalves, 512), {530}, 4);
  fill(&world);
  world.stream.stream.shared_max = 64u << 10;  // sm_75's
  const Batch batch = {{0, 100, 1}, {0, 529, 1}};
  expect_near(&world, batch, decode(&world, batch), Queries::kExact, 3e-5, 0);
  EXPECT_SAME_BITS(on_cpu(&world, {{0, 100, 1}}), decode(&world, {{0, 100, 1}}));
}

TEST(KeyBiasDecode, SplitsCompanyAndBlocksDoNotShow) {
  for (const KvFormats formats : kBiasFormats) {
    std::vector<float> first;
    for (const uint32_t block_tokens : {16u, 256u}) {
      World world(with_bias({4, 2, 32, formats, block_tokens, 700}, RopeStyle::kHalves, 32), {1100, 90}, 5);
      fill(&world);
      const Batch batch = {{1, 3, 1}, {0, 600, 1}, {0, 1099, 1}, {1, 89, 1}};
      const std::vector<float> together = decode(&world, batch);
      for (uint32_t i = 0; i < batch.size(); ++i) {
        EXPECT_SAME_BITS(rows_of(world, together, i, 1), decode(&world, {batch[i]}, i)) << world.shape << " row " << i;
      }
      if (first.empty()) first = together;
      EXPECT_SAME_BITS(first, together) << world.shape;
    }
  }
}

// Tiles over the edges of spans.
TEST(KeyBiasPrefill, WithinBoundOfFloat64AndOfCpu) {
  uint32_t seed = 100;
  for (size_t which = 0; which < kBiasFormats.size(); ++which) {
    const KvFormats formats = kBiasFormats[which];
    for (const Shape& shape : biased_shapes(which)) {
      if (!cuda::prefill_supported(shape.kv())) continue;
      World world(shape, {1070, 33, 1}, ++seed);
      fill(&world);
      const Batch batch = {{1, 0, 33}, {0, 490, 40}, {2, 0, 1}, {0, 1000, 70}};
      const std::vector<float> got = prefill(&world, batch), cpu = on_cpu(&world, batch);
      expect_near(&world, batch, got, Queries::kShort, 3e-5, formats.v == KvFormat::kBF16 ? 0x1p-8 : 0x1p-11);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], formats.v == KvFormat::kBF16 ? 3e-2 : 4e-3) << shape << " " << i;
    }
  }
}

TEST(KeyBiasPrefill, TilesChunksAndSinks) {
  for (const KvFormats formats : kBiasFormats) {
    for (const uint32_t head_dim : {64u, 192u}) {
      Shape shape = with_bias({4, 2, head_dim, formats, 32, 530}, RopeStyle::kInterleaved, head_dim);
      shape.sinks = {-30, -1, 0.5f, 40};
      if (!cuda::prefill_supported(shape.kv())) continue;
      World world(shape, {560}, 7);
      fill(&world);
      const Batch batch = {{0, 500, 60}};
      const std::vector<float> whole = prefill(&world, batch);
      expect_near(&world, batch, whole, Queries::kShort, 3e-5, formats.v == KvFormat::kBF16 ? 0x1p-8 : 0x1p-11);
      EXPECT_SAME_BITS(whole, prefill(&world, batch, 7)) << shape;
      EXPECT_SAME_BITS(rows_of(world, whole, 9, 20), prefill(&world, {{0, 509, 20}})) << shape;
    }
  }
}

}  // namespace
}  // namespace kvrt::test
