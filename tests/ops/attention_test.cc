#include <tuple>

#include "tests/ops/attention_case.h"

namespace kvrt::test {
namespace {

// One row against float64: softmax(cap(q·K * scale)) V over K and V as they are stored, the positions of its window.
void expect_row_near(const Case& c, const std::vector<float>& out, uint32_t row) {
  const auto transforms = [](KvFormat format) { return format == KvFormat::kI8 || format == KvFormat::kI4; };
  const double bound = transforms(c.formats.k) || c.formats.v == KvFormat::kI4 ? 2e-5 : 5e-6;  // their chains are longer
  const uint32_t first = c.window > 0 && row >= c.window ? row - c.window + 1 : 0;
  for (uint32_t h = 0; h < c.heads; ++h) {
    const uint32_t kv_head = h / (c.heads / c.kv_heads);
    std::vector<double> p(row + 1), value(c.v_dim);
    double max = -1e300, sum = 0;
    for (uint32_t j = first; j <= row; ++j) {
      const std::vector<double> key = as_stored(c.formats.k, &c.k[uint64_t{j} * c.k_width() + kv_head * c.k_dim], c.k_dim, true);
      for (uint32_t d = 0; d < c.k_dim; ++d) p[j] += 0.125 * double{c.q[uint64_t{row} * c.q_width() + h * c.k_dim + d]} * key[d];
      if (c.softcap > 0) p[j] = double{c.softcap} * std::tanh(p[j] / double{c.softcap});
      max = std::max(max, p[j]);
    }
    if (!c.sinks.empty()) {
      max = std::max(max, double{c.sinks[h]});
      sum = std::exp(double{c.sinks[h]} - max);
    }
    for (uint32_t j = first; j <= row; ++j) {
      p[j] = std::exp(p[j] - max);
      sum += p[j];
      const std::vector<double> v = as_stored(c.formats.v, &c.v[uint64_t{j} * c.v_width() + kv_head * c.v_dim], c.v_dim, false);
      for (uint32_t d = 0; d < c.v_dim; ++d) value[d] += p[j] * v[d];
    }
    for (uint32_t d = 0; d < c.v_dim; ++d) {
      ASSERT_NEAR(out[uint64_t{row} * c.out_width() + h * c.v_dim + d], value[d] / sum, bound) << c << ", row " << row << " head " << h;
    }
  }
}

TEST(Attention, ScalarIsWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar", 2);
  Random random(1);
  for (const KvFormat format : kKvFormats) {
    for (const uint32_t head_dim : {32u, 24u}) {
      Case c(4, 2, head_dim, 530, &random);  // the last rows see two spans
      c.formats = format;
      const std::vector<float> out = in_chunks(scalar.get(), c, 32, 530);
      for (const uint32_t row : {0u, 1u, 15u, 16u, 40u, 511u, 512u, 529u}) expect_row_near(c, out, row);
      // The formats mean the same numbers: rows are near the result without any rounding, as near as their bits allow.
      c.formats = KvFormat::kF32;
      const std::vector<float> exact = in_chunks(scalar.get(), c, 32, 530);
      const double allowed = format == KvFormat::kF16   ? 4e-3
                             : format == KvFormat::kF32 ? 0
                             : format == KvFormat::kF8  ? 0.2
                             : format == KvFormat::kI4  ? 0.5
                                                        : 3e-2;
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], exact[i], allowed) << "format " << static_cast<uint32_t>(format);
    }
  }
}

// K and V have formats and dimensions of their own.
TEST(Attention, UnlikeKAndVAreWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar", 2);
  Random random(11);
  for (const KvFormats formats : unlike_formats(/*f32=*/true)) {
    for (const auto& [k_dim, v_dim] : {std::pair{32u, 32u}, {24u, 20u}}) {
      const uint32_t tokens = kSanitized ? 70 : 530;
      Case c(4, 2, k_dim, v_dim, tokens, &random);
      c.formats = formats;
      const std::vector<float> out = in_chunks(scalar.get(), c, 32, tokens);
      for (const uint32_t row : {0u, 16u, tokens - 19, tokens - 1}) expect_row_near(c, out, row);
    }
  }
}

TEST(Attention, UnlikeKAndVHaveScalarsBits) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(12);
  for (const auto& [k_dim, v_dim] : {std::pair{64u, 64u}, {16u, 128u}, {20u, 24u}, {128u, 16u}, {100u, 80u}, {64u, 20u}, {112u, 48u}}) {
    for (const uint32_t group : {1u, 3u, 8u}) {
      Case c(2 * group, 2, k_dim, v_dim, 35 + random.below(20), &random);
      std::vector<KvFormats> all = unlike_formats(/*f32=*/true);
      all.insert(all.end(), std::begin(kKvFormats), std::end(kKvFormats));
      for (const KvFormats formats : all) {
        c.formats = formats;
        const uint32_t block_tokens = 16u << random.below(5), chunk = 1 + random.below(c.tokens);
        const std::vector<float> want = in_chunks(scalar.get(), c, 16, c.tokens);
        for (const auto& backend : backends) {
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk)) << backend->isa() << " " << c << " chunk " << chunk;
        }
      }
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
        c.formats = format;
        const uint32_t block_tokens = 16u << random.below(5);
        const std::vector<float> want = in_chunks(scalar.get(), c, 16, c.tokens);
        for (const auto& backend : backends) {
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, c.tokens))
              << backend->isa() << " " << c << " block " << block_tokens;
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
          if (kSanitized && (chunk == 1 || block_tokens == 64)) continue;
          const bool scalar_too = (block_tokens == 16 && chunk == 64) || (block_tokens == 256 && chunk == 7);
          if (isa == "scalar" && (threads != 2 || !scalar_too)) continue;  // for time
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
              << isa << " threads " << threads << " block " << block_tokens << " chunk " << chunk;
        }
      }
    }
  }
}

// The same for every format, and for pairs of two.
TEST(Attention, ChunksAndBlocksDoNotShowInAnyFormat) {
  Random random(8);
  for (const KvFormats formats : some_formats()) {
    Case c(3, 1, 16, formats.k == formats.v ? 16 : 24, 600, &random);
    c.formats = formats;
    const std::vector<float> want = in_chunks(open_backend("scalar").get(), c, 32, 600);
    for (const float f : want) ASSERT_TRUE(std::isfinite(f));
    for (const std::string& isa : all_isas()) {
      const auto backend = open_backend(isa, 2);
      if (backend == nullptr) continue;
      for (const auto& [block_tokens, chunk] : {std::pair{16u, 1u}, {64u, 7u}, {256u, 64u}}) {
        if (kSanitized && chunk != (isa == "scalar" ? 64u : 7u)) continue;
        EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
            << isa << " " << c << " block " << block_tokens << " chunk " << chunk;
      }
    }
  }
}

// Sinks below, among and above the scores: near float64, and no chunk, thread or instruction set shows.
TEST(Attention, Sinks) {
  Random random(14);
  for (const uint32_t v_dim : {16u, 20u}) {
    Case c(6, 2, 16, v_dim, 1100, &random);  // three spans
    c.sinks = {-30, -1, 0, 0.5f, 2, 40};
    c.window = v_dim == 16 ? 0 : 600;
    const std::vector<float> want = in_chunks(open_backend("scalar", 2).get(), c, 32, 1100);
    for (const uint32_t row : {0u, 1u, 40u, 511u, 512u, 1099u}) expect_row_near(c, want, row);
    for (const std::string& isa : all_isas()) {
      for (const auto& [threads, chunk] : {std::pair{1u, 1100u}, {2u, 64u}, {2u, 1u}}) {
        const auto backend = open_backend(isa, threads);
        if (backend == nullptr || (isa == "scalar" ? chunk == 1 || kSanitized : chunk == 1 && kSanitized)) continue;
        EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, 64, chunk)) << isa << " threads " << threads << " chunk " << chunk;
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
    if (round++ >= 8) c.formats = {kKvFormats[round - 8], kKvFormats[round % std::size(kKvFormats)]};
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
    for (const KvFormats formats : some_formats()) {
      const uint32_t chunk = formats.k == KvFormat::kF16 || formats.k == KvFormat::kI8 ? 1 : 30;
      Case c(4, 2, 32, 1090, &random);
      c.window = 21;
      c.formats = formats;
      const std::vector<float> want = in_chunks(backend.get(), c, 16, chunk);
      Pool pool(c, 16, c.tokens, 0, 69);
      for (uint32_t at = 0; at < c.tokens; at += chunk) {
        const std::vector<float> out = step(backend.get(), &pool, c, at, std::min(chunk, c.tokens - at));
        EXPECT_SAME_BITS(out, std::vector<float>(want.begin() + at * c.out_width(), want.begin() + at * c.out_width() + out.size()));
        for (uint32_t b = 0; (b + 1) * 16 + 20 < at + chunk; ++b) {  // blocks that no later row sees
          std::fill_n(pool.bytes.begin() + pool.blocks[b] * static_cast<int64_t>(pool.kv.block_bytes()), pool.kv.block_bytes(), 0xff);
        }
      }
    }
  }
}

// Sequences of one step do not see each other, and a stale value beyond a row's position (here infinity) has no effect.
class BatchAndStale : public testing::TestWithParam<std::tuple<std::string, KvFormats>> {};
TEST_P(BatchAndStale, SlotsDoNotShow) {
  Random random(4);
  const auto [isa, formats] = GetParam();
  const auto backend = open_backend(isa, 2);
  ASSERT_NE(backend, nullptr);
  Case a(6, 2, 32, 90, &random), b(6, 2, 32, 45, &random);
  a.formats = b.formats = formats;
  const std::vector<float> want_a = in_chunks(backend.get(), a, 16, 90), want_b = in_chunks(backend.get(), b, 16, 45);

  Pool pool(a, 16, 90, 0, 12);
  for (size_t i = 0; i + 1 < pool.bytes.size(); i += 2) pool.bytes[i] = 0x00, pool.bytes[i + 1] = 0x7c;  // +inf
  Pool table_b(b, 16, 45, 6, 0);
  const uint32_t stride = a.stride();
  std::vector<float> qkv(135 * stride), out(135 * a.out_width());
  const auto fill = [&](const Case& c, uint32_t from, uint32_t n, uint32_t row) {
    for (uint32_t i = 0; i < n; ++i) c.put_row(from + i, qkv.data() + (row + i) * stride);
  };
  const auto run_step = [&](std::vector<StepSeq> seqs, uint32_t rows, bool store) {
    std::vector<int32_t> tokens(rows), positions(rows);
    for (StepSeq& seq : seqs) seq.stores = store ? ~0u : 0u;
    const Step s{seqs, tokens, positions, {}};
    backend->run({}, [&] {
      const float* k = qkv.data() + a.q_width();
      backend->kv_store(pool.kv, pool.bytes.data(), {1}, s, 0, rows, k, k + a.k_width(), stride);
      backend->attention(pool.kv, pool.bytes.data(), {1}, s, {6, 0.125f, 0, 0}, qkv.data(), stride, out.data());
    });
  };
  const auto rows_of = [&](const std::vector<float>& v, uint32_t first, uint32_t n) {
    return std::vector<float>(v.begin() + first * a.out_width(), v.begin() + (first + n) * a.out_width());
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
INSTANTIATE_TEST_SUITE_P(Attention, BatchAndStale, testing::Combine(testing::ValuesIn(all_isas()), testing::ValuesIn(some_formats())));

}  // namespace
}  // namespace kvrt::test
