#include <bit>
#include <tuple>

#include "tests/ops/kv_reference.h"

namespace kvrt::test {
namespace {

// A sequence's q, k, v; rounded K and V only exist in the pool.
struct Case {
  uint32_t heads, kv_heads, head_dim, tokens;
  std::vector<float> q, k, v;
  float softcap = 0;
  uint32_t window = 0;
  KvFormat format = KvFormat::kF16;

  Case(uint32_t heads_, uint32_t kv_heads_, uint32_t head_dim_, uint32_t tokens_, Random* random)
      : heads(heads_), kv_heads(kv_heads_), head_dim(head_dim_), tokens(tokens_) {
    q = random->floats(uint64_t{tokens} * heads * head_dim, 1.5f);
    k = random->floats(uint64_t{tokens} * kv_heads * head_dim);
    v = random->floats(uint64_t{tokens} * kv_heads * head_dim);
  }
  uint32_t q_width() const { return heads * head_dim; }
  uint32_t kv_width() const { return kv_heads * head_dim; }
};

// A pool full of NaN bits, blocks dealt out in a scattered order.
struct Pool {
  KvGeometry kv;
  std::vector<uint8_t> bytes;
  std::vector<int32_t> blocks;

  Pool(const Case& c, uint32_t block_tokens, uint32_t tokens_max, uint32_t first_block, uint32_t total_blocks)
      : kv{2, c.kv_heads, c.head_dim, block_tokens, c.format}, bytes(total_blocks * kv.block_bytes(), 0xff) {
    const uint32_t n = (tokens_max + block_tokens - 1) / block_tokens;
    for (uint32_t i = 0; i < n; ++i) blocks.push_back(static_cast<int32_t>(first_block + n - 1 - i));
  }
};

// Rows [first, first + n) of the case as one step; returns their attention, stored with a stride wider than a row.
std::vector<float> step(Backend* backend, Pool* pool, const Case& c, uint32_t first, uint32_t n) {
  constexpr uint32_t kLayer = 1;
  const uint32_t stride = c.q_width() + 2 * c.kv_width();
  std::vector<float> qkv(uint64_t{n} * stride), out(uint64_t{n} * c.q_width());
  std::vector<int32_t> tokens(n), positions(n);
  for (uint32_t i = 0; i < n; ++i) {
    float* row = qkv.data() + uint64_t{i} * stride;
    std::copy_n(c.q.data() + uint64_t{first + i} * c.q_width(), c.q_width(), row);
    std::copy_n(c.k.data() + uint64_t{first + i} * c.kv_width(), c.kv_width(), row + c.q_width());
    std::copy_n(c.v.data() + uint64_t{first + i} * c.kv_width(), c.kv_width(), row + c.q_width() + c.kv_width());
    positions[i] = static_cast<int32_t>(first + i);
  }
  const StepSeq seq{0, n, static_cast<int32_t>(first), pool->blocks.data(), static_cast<uint32_t>(pool->blocks.size())};
  const Step s{{&seq, 1}, tokens, positions, {}};
  backend->run({}, [&] {
    backend->kv_store(pool->kv, pool->bytes.data(), {kLayer}, s, 0, n, qkv.data() + c.q_width(), qkv.data() + c.q_width() + c.kv_width(),
                      stride);
    backend->attention(pool->kv, pool->bytes.data(), {kLayer}, s, {c.heads, 0.125f, c.softcap, c.window}, qkv.data(), stride, out.data());
  });
  return out;
}

std::vector<float> in_chunks(Backend* backend, const Case& c, uint32_t block_tokens, uint32_t chunk) {
  Pool pool(c, block_tokens, c.tokens, 0, (c.tokens + block_tokens - 1) / block_tokens);
  std::vector<float> all;
  for (uint32_t at = 0; at < c.tokens; at += chunk) {
    const std::vector<float> out = step(backend, &pool, c, at, std::min(chunk, c.tokens - at));
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

// One row against float64: softmax(cap(q·K * scale)) V over K and V as they are stored, the positions of its window.
void expect_row_near(const Case& c, const std::vector<float>& out, uint32_t row) {
  const double bound = c.format == KvFormat::kI8 ? 2e-5 : 5e-6;  // int8's chains are longer: the transforms
  const uint32_t first = c.window > 0 && row >= c.window ? row - c.window + 1 : 0;
  for (uint32_t h = 0; h < c.heads; ++h) {
    const uint32_t kv_head = h / (c.heads / c.kv_heads);
    std::vector<double> p(row + 1), value(c.head_dim);
    double max = -1e300, sum = 0;
    const auto stored = [&](const std::vector<float>& rows, uint32_t j) {
      return as_stored(c.format, &rows[uint64_t{j} * c.kv_width() + kv_head * c.head_dim], c.head_dim, &rows == &c.k);
    };
    for (uint32_t j = first; j <= row; ++j) {
      const std::vector<double> key = stored(c.k, j);
      for (uint32_t d = 0; d < c.head_dim; ++d) p[j] += 0.125 * double{c.q[uint64_t{row} * c.q_width() + h * c.head_dim + d]} * key[d];
      if (c.softcap > 0) p[j] = double{c.softcap} * std::tanh(p[j] / double{c.softcap});
      max = std::max(max, p[j]);
    }
    for (uint32_t j = first; j <= row; ++j) {
      p[j] = std::exp(p[j] - max);
      sum += p[j];
      const std::vector<double> v = stored(c.v, j);
      for (uint32_t d = 0; d < c.head_dim; ++d) value[d] += p[j] * v[d];
    }
    for (uint32_t d = 0; d < c.head_dim; ++d) {
      ASSERT_NEAR(out[uint64_t{row} * c.q_width() + h * c.head_dim + d], value[d] / sum, bound) << "row " << row << " head " << h;
    }
  }
}

TEST(Attention, ScalarIsWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar", 2);
  Random random(1);
  for (const KvFormat format : kKvFormats) {
    for (const uint32_t head_dim : {32u, 24u}) {
      Case c(4, 2, head_dim, 530, &random);  // the last rows see two spans
      c.format = format;
      const std::vector<float> out = in_chunks(scalar.get(), c, 32, 530);
      for (const uint32_t row : {0u, 1u, 15u, 16u, 40u, 511u, 512u, 529u}) expect_row_near(c, out, row);
      // The formats mean the same numbers: rows are near the result without any rounding, as near as their bits allow.
      c.format = KvFormat::kF32;
      const std::vector<float> exact = in_chunks(scalar.get(), c, 32, 530);
      const double allowed = format == KvFormat::kF16 ? 4e-3 : format == KvFormat::kF32 ? 0 : format == KvFormat::kF8 ? 0.2 : 3e-2;
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], exact[i], allowed) << "format " << static_cast<uint32_t>(format);
    }
  }
}

TEST(Attention, EveryShapeHasScalarsBits) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(2);
  for (const uint32_t head_dim : {16u, 24u, 32u, 64u, 80u, 128u, 20u}) {  // 20: no multiple of 8, computed by scalar
    for (const uint32_t group : {1u, 2u, 3u, 4u, 8u, 16u}) {
      Case c(2 * group, 2, head_dim, 35 + random.below(20), &random);
      for (const KvFormat format : kKvFormats) {
        c.format = format;
        const uint32_t block_tokens = 16u << random.below(5);
        const std::vector<float> want = in_chunks(scalar.get(), c, 16, c.tokens);
        for (const auto& backend : backends) {
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, c.tokens))
              << backend->isa() << " head_dim " << head_dim << " group " << group << " tokens " << c.tokens << " block " << block_tokens
              << " format " << static_cast<uint32_t>(format);
        }
      }
    }
  }
}

// Block size, chunking, threads and instruction set: the same bits. The pool starts full of NaN, so a read of a slot beyond a
// row's position would show.
TEST(Attention, ChunksBlocksAndThreadsDoNotShow) {
  Random random(3);
  const Case c(3, 1, 16, 1100, &random);  // three spans
  const auto scalar = open_backend("scalar");
  const std::vector<float> want = in_chunks(scalar.get(), c, 32, 1100);
  for (const float f : want) ASSERT_TRUE(std::isfinite(f));
  for (const std::string& isa : all_isas()) {
    for (const uint32_t threads : {1u, 2u}) {
      const auto backend = open_backend(isa, threads);
      if (backend == nullptr) continue;
      for (const uint32_t block_tokens : {16u, 32u, 64u, 256u}) {
        for (const uint32_t chunk : {1u, 7u, 64u, 1100u}) {
          if (chunk != 7 && block_tokens != 32 && threads == 1) continue;
          const bool scalar_too = (block_tokens == 16 && chunk == 64) || (block_tokens == 256 && chunk == 7);
          if (isa == "scalar" && (threads != 2 || !scalar_too)) continue;  // for time
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
              << isa << " threads " << threads << " block " << block_tokens << " chunk " << chunk;
        }
      }
    }
  }
}

// The same for every format.
TEST(Attention, ChunksAndBlocksDoNotShowInAnyFormat) {
  Random random(8);
  for (const KvFormat format : kKvFormats) {
    Case c(3, 1, 16, 600, &random);
    c.format = format;
    const std::vector<float> want = in_chunks(open_backend("scalar").get(), c, 32, 600);
    for (const float f : want) ASSERT_TRUE(std::isfinite(f));
    for (const std::string& isa : all_isas()) {
      const auto backend = open_backend(isa, 2);
      if (backend == nullptr) continue;
      for (const auto& [block_tokens, chunk] : {std::pair{16u, 1u}, {64u, 7u}, {256u, 64u}}) {
        EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
            << isa << " format " << static_cast<uint32_t>(format) << " block " << block_tokens << " chunk " << chunk;
      }
    }
  }
}

// Windows shorter and longer than a span and than a tile, with and without a softcap: rows are near float64, and no chunk,
// block, thread or instruction set shows.
TEST(Attention, WindowsAndSoftcaps) {
  Random random(6);
  const auto scalar = open_backend("scalar", 2);
  const auto backends = vector_backends(2);
  uint32_t round = 0;
  for (const auto& [window, softcap] : {std::pair{1u, 0.0f},
                                        {5u, 2.0f},
                                        {16u, 0.0f},
                                        {100u, 0.0f},
                                        {511u, 0.0f},
                                        {513u, 1.5f},
                                        {700u, 0.0f},
                                        {0u, 3.0f},
                                        {5u, 2.0f},
                                        {100u, 0.0f},
                                        {513u, 1.5f},
                                        {16u, 2.0f}}) {
    Case c(3, 1, 16, 1100, &random);
    c.window = window, c.softcap = softcap;
    if (round++ >= 8) c.format = kKvFormats[round - 8];
    const std::vector<float> want = in_chunks(scalar.get(), c, 32, 1100);
    for (const uint32_t row : {0u, 1u, 4u, 5u, 99u, 100u, 511u, 512u, 527u, 528u, 700u, 1023u, 1024u, 1099u}) expect_row_near(c, want, row);
    EXPECT_SAME_BITS(want, in_chunks(scalar.get(), c, 16, 64)) << "window " << window << " softcap " << softcap;
    for (const auto& backend : backends) {
      for (const auto& [threads, block_tokens, chunk] : {std::tuple{2u, 16u, 1u}, {1u, 32u, 7u}, {2u, 64u, 64u}, {1u, 256u, 1100u}}) {
        backend->set_threads(threads);
        EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
            << "window " << window << " softcap " << softcap << " " << backend->isa() << " block " << block_tokens << " chunk " << chunk;
      }
    }
  }
}

// A position that a row no longer sees has no effect, be it NaN.
TEST(Attention, WhatLiesBeforeTheWindowIsNotRead) {
  Random random(7);
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    for (const auto& [chunk, format] : {std::pair{1u, KvFormat::kF16},
                                        {30u, KvFormat::kF16},
                                        {1u, KvFormat::kI8},
                                        {30u, KvFormat::kI8},
                                        {1u, KvFormat::kF8},
                                        {30u, KvFormat::kF8}}) {
      Case c(4, 2, 32, 1090, &random);
      c.window = 21;
      c.format = format;
      const std::vector<float> want = in_chunks(backend.get(), c, 16, chunk);
      Pool pool(c, 16, c.tokens, 0, 69);
      for (uint32_t at = 0; at < c.tokens; at += chunk) {
        const std::vector<float> out = step(backend.get(), &pool, c, at, std::min(chunk, c.tokens - at));
        EXPECT_SAME_BITS(out, std::vector<float>(want.begin() + at * c.q_width(), want.begin() + at * c.q_width() + out.size()));
        for (uint32_t b = 0; (b + 1) * 16 + 20 < at + chunk; ++b) {  // blocks that no later row sees
          std::fill_n(pool.bytes.begin() + pool.blocks[b] * static_cast<int64_t>(pool.kv.block_bytes()), pool.kv.block_bytes(), 0xff);
        }
      }
    }
  }
}

// Sequences of one step do not see each other, and a stale value beyond a row's position (here infinity) has no effect.
class BatchAndStale : public testing::TestWithParam<std::tuple<std::string, KvFormat>> {};
TEST_P(BatchAndStale, SlotsDoNotShow) {
  Random random(4);
  const auto [isa, format] = GetParam();
  const auto backend = open_backend(isa, 2);
  ASSERT_NE(backend, nullptr);
  Case a(6, 2, 32, 90, &random), b(6, 2, 32, 45, &random);
  a.format = b.format = format;
  const std::vector<float> want_a = in_chunks(backend.get(), a, 16, 90), want_b = in_chunks(backend.get(), b, 16, 45);

  Pool pool(a, 16, 90, 0, 12);
  for (size_t i = 0; i + 1 < pool.bytes.size(); i += 2) pool.bytes[i] = 0x00, pool.bytes[i + 1] = 0x7c;  // +inf
  Pool table_b(b, 16, 45, 6, 0);
  const uint32_t stride = a.q_width() + 2 * a.kv_width();
  std::vector<float> qkv(135 * stride), out(135 * a.q_width());
  const auto fill = [&](const Case& c, uint32_t from, uint32_t n, uint32_t row) {
    for (uint32_t i = 0; i < n; ++i) {
      float* to = qkv.data() + (row + i) * stride;
      std::copy_n(c.q.data() + (from + i) * c.q_width(), c.q_width(), to);
      std::copy_n(c.k.data() + (from + i) * c.kv_width(), c.kv_width(), to + c.q_width());
      std::copy_n(c.v.data() + (from + i) * c.kv_width(), c.kv_width(), to + c.q_width() + c.kv_width());
    }
  };
  const auto run_step = [&](std::vector<StepSeq> seqs, uint32_t rows, bool store) {
    std::vector<int32_t> tokens(rows), positions(rows);
    for (StepSeq& seq : seqs) seq.stores = store ? ~0u : 0u;
    const Step s{seqs, tokens, positions, {}};
    backend->run({}, [&] {
      backend->kv_store(pool.kv, pool.bytes.data(), {1}, s, 0, rows, qkv.data() + a.q_width(), qkv.data() + a.q_width() + a.kv_width(),
                        stride);
      backend->attention(pool.kv, pool.bytes.data(), {1}, s, {6, 0.125f, 0, 0}, qkv.data(), stride, out.data());
    });
  };
  const auto rows_of = [&](const std::vector<float>& v, uint32_t first, uint32_t n) {
    return std::vector<float>(v.begin() + first * a.q_width(), v.begin() + (first + n) * a.q_width());
  };
  const StepSeq whole_b{0, 45, 0, table_b.blocks.data(), 3};
  fill(b, 0, 45, 0);
  fill(a, 0, 89, 45);
  run_step({whole_b, {45, 89, 0, pool.blocks.data(), 6, true}}, 134, true);
  EXPECT_SAME_BITS(rows_of(out, 0, 45), want_b);
  EXPECT_SAME_BITS(rows_of(out, 45, 89), rows_of(want_a, 0, 89));
  // The last row of b again as a query alone (its KV is there), beside the next row of a.
  fill(b, 44, 1, 0);
  const std::vector<uint8_t> before = pool.bytes;
  run_step({{0, 1, 44, table_b.blocks.data(), 3, false}}, 1, false);
  EXPECT_EQ(before, pool.bytes);
  EXPECT_SAME_BITS(rows_of(out, 0, 1), rows_of(want_b, 44, 1));
  fill(a, 89, 1, 0);
  run_step({{0, 1, 89, pool.blocks.data(), 6, true}}, 1, true);
  EXPECT_SAME_BITS(rows_of(out, 0, 1), rows_of(want_a, 89, 1));
}
INSTANTIATE_TEST_SUITE_P(Attention, BatchAndStale, testing::Combine(testing::ValuesIn(all_isas()), testing::ValuesIn(kKvFormats)));

// The pool's bytes are the format that snapshots write: K [kv_head][head_dim][token], V [kv_head][token][head_dim], where scaled then the
// scales of K and of V [kv_head][token].
class KvStore : public testing::TestWithParam<std::tuple<std::string, KvFormat>> {};
TEST_P(KvStore, PutsEveryElementWhereTheFormatSays) {
  constexpr uint32_t kDim = 24, kHeads = 2, kBlock = 16, kTokens = 37;
  Random random(5);
  const auto [isa, format] = GetParam();
  const auto backend = open_backend(isa, 2);
  ASSERT_NE(backend, nullptr);
  Case c(2, kHeads, kDim, kTokens, &random);
  c.format = format;
  const float extremes[] = {65520.0f, 1e-7f, 2049.0f, 0.0f, -65519.0f, 1e-40f, 3.4e38f, INFINITY, -INFINITY, NAN};
  for (uint32_t i = 0; i < std::size(extremes); ++i) c.k[i * kDim + 5] = c.v[i * kDim + 6] = extremes[i];  // one in each head
  for (uint32_t i = 0; i < kDim; ++i)
    c.v[20 * kDim + i] = 0, c.v[21 * kDim + i] *= 1e-6f, c.v[22 * kDim + i] *= 1e9f;  // the scales at their ends
  Pool pool(c, kBlock, kTokens, 0, 3);
  (void)step(backend.get(), &pool, c, 0, kTokens);
  const bool scaled = format == KvFormat::kI8 || format == KvFormat::kF8;
  const uint32_t elem = scaled ? 1 : format == KvFormat::kF32 ? 4 : 2;
  const uint64_t half = uint64_t{kHeads} * kDim * kBlock * elem, scales = scaled ? kHeads * kBlock * 2 : 0;
  ASSERT_EQ(pool.kv.block_bytes(), 2 * 2 * (half + scales));
  const auto expect_element = [&](const uint8_t* at, float x, uint8_t q) {
    uint8_t want[4];
    const uint16_t half_float =
        format == KvFormat::kF16 ? f32_to_f16(x) : static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(bf16(x))) >> 16);
    std::memcpy(want, elem == 1 ? static_cast<const void*>(&q) : elem == 4 ? static_cast<const void*>(&x) : &half_float, elem);
    if (std::isnan(x) && format == KvFormat::kBF16) want[0] = at[0], want[1] = static_cast<uint8_t>(at[1] | 0x7f);  // any NaN
    return std::memcmp(at, want, elem) == 0;
  };
  const auto bytes_of = [format = format](const std::vector<float>& x, bool key, float* scale) {
    if (format == KvFormat::kF8) return fp8_of(x, scale);
    const std::vector<int8_t> q = int8_of(x, key, scale);
    return std::vector<uint8_t>(q.begin(), q.end());
  };
  for (uint32_t t = 0; t < kTokens; ++t) {
    const uint8_t* layer =
        pool.bytes.data() + static_cast<uint64_t>(pool.blocks[t / kBlock]) * pool.kv.block_bytes() + half * 2 + scales * 2;
    for (uint32_t h = 0; h < kHeads; ++h) {
      const float *k = &c.k[t * c.kv_width() + h * kDim], *v = &c.v[t * c.kv_width() + h * kDim];
      float k_scale, v_scale;
      const std::vector<uint8_t> k_q = bytes_of({k, k + kDim}, true, &k_scale), v_q = bytes_of({v, v + kDim}, false, &v_scale);
      for (uint32_t d = 0; d < kDim; ++d) {
        ASSERT_TRUE(expect_element(layer + ((h * kDim + d) * kBlock + t % kBlock) * elem, k[d], k_q[d])) << t << " " << h << " " << d;
        ASSERT_TRUE(expect_element(layer + half + ((h * kBlock + t % kBlock) * kDim + d) * elem, v[d], v_q[d]))
            << t << " " << h << " " << d;
      }
      if (scales == 0) continue;
      uint16_t stored[2];
      std::memcpy(&stored[0], layer + 2 * half + (h * kBlock + t % kBlock) * 2, 2);
      std::memcpy(&stored[1], layer + 2 * half + scales + (h * kBlock + t % kBlock) * 2, 2);
      ASSERT_EQ(f16_to_f32(stored[0]), k_scale);
      ASSERT_EQ(f16_to_f32(stored[1]), v_scale);
      ASSERT_TRUE(std::isfinite(k_scale) && std::isfinite(v_scale));
    }
  }
  for (const int32_t block : pool.blocks) {  // layer 0 of every block is untouched
    const uint8_t* at = pool.bytes.data() + static_cast<uint64_t>(block) * pool.kv.block_bytes();
    for (uint64_t i = 0; i < pool.kv.layer_bytes(); ++i) ASSERT_EQ(at[i], 0xff);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, KvStore, testing::Combine(testing::ValuesIn(all_isas()), testing::ValuesIn(kKvFormats)));

}  // namespace
}  // namespace kvrt::test
