#include <tuple>

#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

// A sequence's q, k, v; rounded K and V only exist in the pool.
struct Case {
  uint32_t heads, kv_heads, head_dim, tokens;
  std::vector<float> q, k, v;
  float softcap = 0;
  uint32_t window = 0;

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
      : kv{2, c.kv_heads, c.head_dim, block_tokens, KvFormat::kF16}, bytes(total_blocks * kv.block_bytes(), 0xff) {
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
  const StepSeq seq{0, n, static_cast<int32_t>(first), pool->blocks.data(), static_cast<uint32_t>(pool->blocks.size()), true};
  const Step s{{&seq, 1}, tokens, positions, {}};
  backend->run(n, [&] {
    backend->kv_store(pool->kv, pool->bytes.data(), kLayer, s, qkv.data() + c.q_width(), qkv.data() + c.q_width() + c.kv_width(), stride);
    backend->attention(pool->kv, pool->bytes.data(), kLayer, s, {c.heads, 0.125f, c.softcap, c.window}, qkv.data(), stride, out.data());
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

// One row against float64: softmax(cap(q·K * scale)) V over K and V as f16, the positions of its window.
void expect_row_near(const Case& c, const std::vector<float>& out, uint32_t row) {
  const auto f16 = [](float f) { return double{f16_to_f32(f32_to_f16(f))}; };
  const uint32_t first = c.window > 0 && row >= c.window ? row - c.window + 1 : 0;
  for (uint32_t h = 0; h < c.heads; ++h) {
    const uint32_t kv_head = h / (c.heads / c.kv_heads);
    std::vector<double> p(row + 1), value(c.head_dim);
    double max = -1e300, sum = 0;
    for (uint32_t j = first; j <= row; ++j) {
      for (uint32_t d = 0; d < c.head_dim; ++d) {
        p[j] += 0.125 * double{c.q[uint64_t{row} * c.q_width() + h * c.head_dim + d]} *
                f16(c.k[uint64_t{j} * c.kv_width() + kv_head * c.head_dim + d]);
      }
      if (c.softcap > 0) p[j] = double{c.softcap} * std::tanh(p[j] / double{c.softcap});
      max = std::max(max, p[j]);
    }
    for (uint32_t j = first; j <= row; ++j) {
      p[j] = std::exp(p[j] - max);
      sum += p[j];
      for (uint32_t d = 0; d < c.head_dim; ++d) value[d] += p[j] * f16(c.v[uint64_t{j} * c.kv_width() + kv_head * c.head_dim + d]);
    }
    for (uint32_t d = 0; d < c.head_dim; ++d) {
      ASSERT_NEAR(out[uint64_t{row} * c.q_width() + h * c.head_dim + d], value[d] / sum, 5e-6) << "row " << row << " head " << h;
    }
  }
}

TEST(Attention, ScalarIsWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar", 2);
  Random random(1);
  const Case c(4, 2, 32, 530, &random);  // the last rows see two spans
  const std::vector<float> out = in_chunks(scalar.get(), c, 32, 530);
  for (const uint32_t row : {0u, 1u, 15u, 16u, 40u, 511u, 512u, 529u}) expect_row_near(c, out, row);
}

TEST(Attention, EveryShapeHasScalarsBits) {
  const auto scalar = open_backend("scalar"), avx2 = open_backend("avx2", 2);
  KVRT_SKIP_WITHOUT(avx2);
  Random random(2);
  for (const uint32_t head_dim : {16u, 24u, 32u, 64u, 80u, 128u, 20u}) {  // 20: no multiple of 8, computed by scalar
    for (const uint32_t group : {1u, 2u, 3u, 4u, 8u, 16u}) {
      const Case c(2 * group, 2, head_dim, 35 + random.below(20), &random);
      const uint32_t block_tokens = 16u << random.below(5);
      EXPECT_SAME_BITS(in_chunks(scalar.get(), c, 16, c.tokens), in_chunks(avx2.get(), c, block_tokens, c.tokens))
          << "head_dim " << head_dim << " group " << group << " tokens " << c.tokens << " block " << block_tokens;
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
  for (const char* isa : {"scalar", "avx2"}) {
    for (const uint32_t threads : {1u, 2u}) {
      const auto backend = open_backend(isa, threads);
      if (backend == nullptr) continue;
      for (const uint32_t block_tokens : {16u, 32u, 64u, 256u}) {
        for (const uint32_t chunk : {1u, 7u, 64u, 1100u}) {
          if (chunk != 7 && block_tokens != 32 && threads == 1) continue;
          const bool scalar_too = (block_tokens == 16 && chunk == 64) || (block_tokens == 256 && chunk == 7);
          if (isa == std::string("scalar") && (threads != 2 || !scalar_too)) continue;  // for time
          EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
              << isa << " threads " << threads << " block " << block_tokens << " chunk " << chunk;
        }
      }
    }
  }
}

// Windows shorter and longer than a span and than a tile, with and without a softcap: float64 says what a row sees, and no chunk,
// block, thread or instruction set shows.
TEST(Attention, WindowsAndSoftcaps) {
  Random random(6);
  const auto scalar = open_backend("scalar", 2);
  for (const auto& [window, softcap] :
       {std::pair{1u, 0.0f}, {5u, 2.0f}, {16u, 0.0f}, {100u, 0.0f}, {511u, 0.0f}, {513u, 1.5f}, {700u, 0.0f}, {0u, 3.0f}}) {
    Case c(3, 1, 16, 1100, &random);
    c.window = window, c.softcap = softcap;
    const std::vector<float> want = in_chunks(scalar.get(), c, 32, 1100);
    for (const uint32_t row : {0u, 1u, 4u, 5u, 99u, 100u, 511u, 512u, 527u, 528u, 700u, 1023u, 1024u, 1099u}) expect_row_near(c, want, row);
    for (const auto& [isa, threads, block_tokens, chunk] : {std::tuple{"avx2", 2u, 16u, 1u},
                                                            {"avx2", 1u, 32u, 7u},
                                                            {"avx2", 2u, 64u, 64u},
                                                            {"avx2", 1u, 256u, 1100u},
                                                            {"scalar", 2u, 16u, 64u}}) {
      const auto backend = open_backend(isa, threads);
      if (backend == nullptr) continue;
      EXPECT_SAME_BITS(want, in_chunks(backend.get(), c, block_tokens, chunk))
          << "window " << window << " softcap " << softcap << " " << isa << " block " << block_tokens << " chunk " << chunk;
    }
  }
}

// What a row no longer sees has no effect, be it NaN.
TEST(Attention, WhatLiesBeforeTheWindowIsNotRead) {
  Random random(7);
  for (const char* isa : {"scalar", "avx2"}) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    for (const uint32_t chunk : {1u, 30u}) {
      Case c(4, 2, 32, 1090, &random);
      c.window = 21;
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
TEST(Attention, BatchAndStaleSlotsDoNotShow) {
  Random random(4);
  for (const char* isa : {"scalar", "avx2"}) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    const Case a(6, 2, 32, 90, &random), b(6, 2, 32, 45, &random);
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
      for (StepSeq& seq : seqs) seq.store_kv = store;
      const Step s{seqs, tokens, positions, {}};
      backend->run(0, [&] {
        backend->kv_store(pool.kv, pool.bytes.data(), 1, s, qkv.data() + a.q_width(), qkv.data() + a.q_width() + a.kv_width(), stride);
        backend->attention(pool.kv, pool.bytes.data(), 1, s, {6, 0.125f, 0, 0}, qkv.data(), stride, out.data());
      });
    };
    const auto rows_of = [&](const std::vector<float>& v, uint32_t first, uint32_t n) {
      return std::vector<float>(v.begin() + first * a.q_width(), v.begin() + (first + n) * a.q_width());
    };
    const StepSeq whole_b{0, 45, 0, table_b.blocks.data(), 3, true};
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
}

// The pool's bytes are the format that snapshots write: K [kv_head][head_dim][token], V [kv_head][token][head_dim], f16 to nearest even.
TEST(KvStore, PutsEveryElementWhereTheFormatSays) {
  Random random(5);
  for (const char* isa : {"scalar", "avx2"}) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    Case c(2, 2, 24, 37, &random);
    c.k[5] = 65520.0f;  // rounds to infinity
    c.k[6] = 1e-7f;     // a denormal
    c.k[7] = 2049.0f;   // a tie: to even, 2048
    Pool pool(c, 16, 37, 0, 3);
    (void)step(backend.get(), &pool, c, 0, 37);
    const auto* f16 = reinterpret_cast<const uint16_t*>(pool.bytes.data());
    for (uint32_t t = 0; t < 37; ++t) {
      const uint64_t base = static_cast<uint64_t>(pool.blocks[t / 16]) * pool.kv.block_bytes() / 2 + pool.kv.layer_bytes() / 2;
      for (uint32_t h = 0; h < 2; ++h) {
        for (uint32_t d = 0; d < 24; ++d) {
          const uint64_t from = uint64_t{t} * c.kv_width() + h * 24 + d;
          ASSERT_EQ(f16[base + (h * 24 + d) * 16 + t % 16], f32_to_f16(c.k[from]));
          ASSERT_EQ(f16[base + pool.kv.half_bytes() / 2 + (h * 16 + t % 16) * 24 + d], f32_to_f16(c.v[from]));
        }
      }
    }
    const auto k_of = [&](uint32_t d) {
      return f16[static_cast<uint64_t>(pool.blocks[0]) * pool.kv.block_bytes() / 2 + pool.kv.layer_bytes() / 2 + d * 16];
    };
    EXPECT_EQ(k_of(5), 0x7c00);
    EXPECT_EQ(k_of(6), 2);
    EXPECT_EQ(k_of(7), 0x6800);
    // Layer 0 of every block is untouched.
    for (const int32_t block : pool.blocks) {
      for (uint64_t i = 0; i < pool.kv.layer_bytes(); ++i)
        ASSERT_EQ(pool.bytes[static_cast<uint64_t>(block) * pool.kv.block_bytes() + i], 0xff);
    }
  }
}

}  // namespace
}  // namespace kvrt::test
