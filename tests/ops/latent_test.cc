// Attention over latents: one row of a token is every head's K and, its first elements, every head's V.
#include "tests/ops/attention_case.h"

namespace kvrt::test {
namespace {

Case latents(uint32_t heads, uint32_t k_dim, uint32_t v_dim, uint32_t tokens, KvFormat format, Random* random) {
  Case c(heads, 1, k_dim, v_dim, tokens, random);
  c.latent = true;
  c.formats = format;
  return c;
}

// float64 over the rows as they are stored: they are not transformed.
void expect_row_near(const Case& c, const std::vector<float>& out, uint32_t row) {
  std::vector<std::vector<double>> rows;
  for (uint32_t j = 0; j <= row; ++j) rows.push_back(as_stored(c.formats.k, &c.k[uint64_t{j} * c.k_dim], c.k_dim, false, /*plain=*/true));
  for (uint32_t h = 0; h < c.heads; ++h) {
    const float* q = &c.q[uint64_t{row} * c.q_width() + h * c.k_dim];
    std::vector<double> p(row + 1), value(c.v_dim);
    double max = -1e300, sum = 0;
    for (uint32_t j = 0; j <= row; ++j) {
      for (uint32_t d = 0; d < c.k_dim; ++d) p[j] += 0.125 * double{q[d]} * rows[j][d];
      max = std::max(max, p[j]);
    }
    for (uint32_t j = 0; j <= row; ++j) {
      p[j] = std::exp(p[j] - max);
      sum += p[j];
      for (uint32_t d = 0; d < c.v_dim; ++d) value[d] += p[j] * rows[j][d];
    }
    for (uint32_t d = 0; d < c.v_dim; ++d) {
      ASSERT_NEAR(out[uint64_t{row} * c.out_width() + h * c.v_dim + d], value[d] / sum, 2e-5) << c << ", row " << row << " head " << h;
    }
  }
}

TEST(Latents, ScalarIsWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar", 2);
  Random random(1);
  for (const KvFormat format : kKvFormats) {
    const Case c = latents(3, 80, 72, 530, format, &random);  // the last rows see two spans
    const std::vector<float> out = in_chunks(scalar.get(), c, 32, 530);
    for (const uint32_t row : {0u, 1u, 16u, 40u, 511u, 512u, 529u}) expect_row_near(c, out, row);
  }
}

TEST(Latents, EveryShapeHasScalarsBits) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(2);
  // 20: no multiple of 8, computed by scalar; 40, 44: a part of a vector at the end of a row.
  for (const auto& [k_dim, v_dim] : {std::pair{40u, 32u}, {44u, 24u}, {28u, 20u}, {576u, 512u}}) {
    for (const uint32_t heads : {1u, 4u, 15u, 16u, 17u, 40u, 64u, 67u}) {
      if (k_dim > 100 && heads > 20) continue;  // scalar is slow
      for (const KvFormat format : kKvFormats) {
        const Case c = latents(heads, k_dim, v_dim, 30 + random.below(25), format, &random);
        const uint32_t block_tokens = 16u << random.below(5), chunk = 1 + random.below(c.tokens);
        const std::vector<float> want = in_chunks(scalar.get(), c, 16, c.tokens);
        for (const auto& backend : backends) {
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk)) << backend->isa() << " " << c << " chunk " << chunk;
        }
      }
    }
  }
}

// The pool starts full of NaN, so a read of a slot beyond a row's position would show; windows and caps work as elsewhere.
TEST(Latents, ChunksBlocksAndThreadsDoNotShow) {
  Random random(3);
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kI8, KvFormat::kI4}) {
    Case c = latents(6, 40, 32, 1100, format, &random);  // three spans
    c.window = 700;
    c.softcap = 3;
    const std::vector<float> want = in_chunks(open_backend("scalar", 2).get(), c, 32, 1100);
    for (const float f : want) ASSERT_TRUE(std::isfinite(f));
    for (const uint32_t threads : {1u, 2u}) {
      for (const auto& backend : vector_backends(threads)) {
        for (const auto& [block_tokens, chunk] : {std::pair{16u, 7u}, {32u, 1u}, {64u, 64u}, {256u, 1100u}}) {
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
              << backend->isa() << " threads " << threads << " block " << block_tokens << " chunk " << chunk;
        }
      }
    }
  }
}

// A token takes its row and, where the format has scales, one scale.
TEST(Latents, ATokenIsStoredOnce) {
  KvGeometry kv(61, 1, {576, KvFormat::kF16}, {512, KvFormat::kF16}, 32);
  kv.latent = true;
  EXPECT_EQ(kv.token_bytes(), 61 * 576 * 2u);
  EXPECT_EQ(kv.block_bytes(), 32 * kv.token_bytes());
  kv.k.format = kv.v.format = KvFormat::kI8;
  EXPECT_EQ(kv.token_bytes(), 61 * (576 + 2u));
  EXPECT_EQ(kv.block_bytes(), 32 * kv.token_bytes());
  kv.k.format = kv.v.format = KvFormat::kI4;
  EXPECT_EQ(kv.token_bytes(), 61 * (576 / 2 + 576 / 32 * 2u));
  EXPECT_EQ(kv.block_bytes(), 32 * kv.token_bytes());
}

}  // namespace
}  // namespace kvrt::test
