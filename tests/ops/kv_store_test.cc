// The bytes of the KV store.
#include <bit>
#include <tuple>

#include "tests/ops/attention_case.h"

namespace kvrt::test {
namespace {

// The pool's bytes are the format that snapshots write: K [kv_head][cell][token], V [kv_head][token][cell], then the scales
// [kv_head][scale][token] of those that have any, K's first.
class KvStore : public testing::TestWithParam<std::tuple<std::string, KvFormats>> {};

uint32_t width_of(KvFormat format) { return format == KvFormat::kF32 ? 4 : format == KvFormat::kF16 || format == KvFormat::kBF16 ? 2 : 1; }
// Of a row of n elements: the cells, and the scales.
uint32_t cells_of(KvFormat format, uint32_t n) { return format == KvFormat::kI4 ? (n + 31) / 32 * 16 : n; }
uint32_t scales_of(KvFormat format, uint32_t n) { return format == KvFormat::kI4 ? (n + 31) / 32 : width_of(format) == 1 ? 1 : 0; }

// int4: cell 16 g + i has element 32 g + i, and above it element 32 g + 16 + i; scales are `scales_apart` bytes apart.
void expect_int4_head(const float* x, uint32_t n, const uint8_t* at, uint64_t apart, const uint8_t* scale_at, uint64_t scales_apart) {
  const Int4Row want = int4_of(transformed({x, x + n}));
  for (uint32_t d = 0; d < n; ++d) {
    const uint8_t cell = at[(d / 32 * 16 + d % 16) * apart];
    ASSERT_EQ(d % 32 < 16 ? cell & 15 : cell >> 4, want.codes[d]) << "element " << d;
  }
  for (size_t g = 0; g < want.scales.size(); ++g) {
    uint16_t stored;
    std::memcpy(&stored, scale_at + g * scales_apart, sizeof stored);
    ASSERT_EQ(f16_to_f32(stored), want.scales[g]) << "group " << g;
    ASSERT_TRUE(std::isfinite(want.scales[g]));
  }
}

// The elements of a head are n numbers x in this format, `apart` bytes apart from `at` on, and their scale is at `scale_at`.
void expect_head(KvFormat format, bool key, const float* x, uint32_t n, const uint8_t* at, uint64_t apart, const uint8_t* scale_at,
                 uint64_t scales_apart) {
  if (format == KvFormat::kI4) return expect_int4_head(x, n, at, apart, scale_at, scales_apart);
  const uint32_t elem = width_of(format);
  float scale = 0;
  std::vector<uint8_t> bytes(n);
  if (format == KvFormat::kF8) bytes = fp8_of({x, x + n}, &scale);
  if (format == KvFormat::kI8) {
    const std::vector<int8_t> q = int8_of({x, x + n}, key, &scale);
    std::copy(q.begin(), q.end(), bytes.begin());
  }
  for (uint32_t d = 0; d < n; ++d, at += apart) {
    uint8_t want[4] = {};
    const uint16_t half =
        format == KvFormat::kF16 ? f32_to_f16(x[d]) : static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(bf16(x[d]))) >> 16);
    std::memcpy(want, elem == 1 ? static_cast<const void*>(&bytes[d]) : elem == 4 ? static_cast<const void*>(&x[d]) : &half, elem);
    if (std::isnan(x[d]) && format == KvFormat::kBF16) want[0] = at[0], want[1] = static_cast<uint8_t>(at[1] | 0x7f);  // any NaN
    ASSERT_EQ(std::memcmp(at, want, elem), 0) << "element " << d << " of " << (key ? "K" : "V");
  }
  if (elem > 1) return;
  uint16_t stored;
  std::memcpy(&stored, scale_at, sizeof stored);
  ASSERT_EQ(f16_to_f32(stored), scale);
  ASSERT_TRUE(std::isfinite(scale));
}

TEST_P(KvStore, PutsEveryElementWhereTheFormatSays) {
  constexpr uint32_t kDim = 24, kHeads = 2, kBlock = 16, kTokens = 37;
  Random random(5);
  const auto [isa, formats] = GetParam();
  const auto backend = open_backend(isa, 2);
  ASSERT_NE(backend, nullptr);
  const uint32_t v_dim = formats.k == formats.v ? kDim : 40;
  Case c(2, kHeads, kDim, v_dim, kTokens, &random);
  c.formats = formats;
  const float extremes[] = {65520.0f, 1e-7f, 2049.0f, 0.0f, -65519.0f, 1e-40f, 3.4e38f, INFINITY, -INFINITY, NAN};
  for (uint32_t i = 0; i < std::size(extremes); ++i) c.k[i * kDim + 5] = c.v[i * v_dim + 6] = extremes[i];  // one in each head
  for (uint32_t i = 0; i < v_dim; ++i)
    c.v[20 * v_dim + i] = 0, c.v[21 * v_dim + i] *= 1e-6f, c.v[22 * v_dim + i] *= 1e9f;  // the scales at their ends
  Pool pool(c, kBlock, kTokens, 0, 3);
  (void)step(backend.get(), &pool, c, 0, kTokens);
  const uint32_t k_elem = width_of(formats.k), v_elem = width_of(formats.v);
  const uint32_t k_cells = cells_of(formats.k, kDim), v_cells = cells_of(formats.v, v_dim), k_scales = scales_of(formats.k, kDim),
                 v_scales = scales_of(formats.v, v_dim);
  const uint64_t v_at = uint64_t{kHeads} * k_cells * kBlock * k_elem, k_scales_at = v_at + uint64_t{kHeads} * v_cells * kBlock * v_elem;
  const uint64_t v_scales_at = k_scales_at + uint64_t{k_scales} * kHeads * kBlock * 2;
  const uint64_t layer_bytes = v_scales_at + uint64_t{v_scales} * kHeads * kBlock * 2;
  ASSERT_EQ(pool.kv.block_bytes(), 2 * layer_bytes);
  for (uint32_t t = 0; t < kTokens; ++t) {
    const uint8_t* layer = pool.bytes.data() + static_cast<uint64_t>(pool.blocks[t / kBlock]) * 2 * layer_bytes + layer_bytes;
    for (uint32_t h = 0; h < kHeads; ++h) {
      SCOPED_TRACE(testing::Message() << "token " << t << " head " << h);
      const uint64_t in_block = t % kBlock;
      expect_head(formats.k, true, &c.k[t * c.k_width() + h * kDim], kDim, layer + (h * k_cells * kBlock + in_block) * k_elem,
                  kBlock * k_elem, layer + k_scales_at + (uint64_t{h} * k_scales * kBlock + in_block) * 2, kBlock * 2);
      expect_head(formats.v, false, &c.v[t * c.v_width() + h * v_dim], v_dim, layer + v_at + (h * kBlock + in_block) * v_cells * v_elem,
                  v_elem, layer + v_scales_at + (uint64_t{h} * v_scales * kBlock + in_block) * 2, kBlock * 2);
    }
  }
  for (const int32_t block : pool.blocks) {  // layer 0 of every block is untouched
    const uint8_t* at = pool.bytes.data() + static_cast<uint64_t>(block) * pool.kv.block_bytes();
    for (uint64_t i = 0; i < pool.kv.layer_bytes(); ++i) ASSERT_EQ(at[i], 0xff);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, KvStore, testing::Combine(testing::ValuesIn(all_isas()), testing::ValuesIn(some_formats())));

}  // namespace
}  // namespace kvrt::test
