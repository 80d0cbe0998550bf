// A sequence for the tests of attention and of the KV store, and steps of its rows over a pool of scattered blocks.
#pragma once

#include "tests/ops/kv_reference.h"

namespace kvrt::test {

// A sequence's q, k, v; rounded K and V only exist in the pool.
struct Case {
  uint32_t heads, kv_heads, k_dim, v_dim, tokens;
  std::vector<float> q, k, v;
  float softcap = 0;
  uint32_t window = 0;
  std::vector<float> sinks{};  // [heads], or none
  KvFormats formats{};
  bool latent = false;  // then v is not read: a row's V are the first v_dim elements of its k

  Case(uint32_t heads_, uint32_t kv_heads_, uint32_t k_dim_, uint32_t v_dim_, uint32_t tokens_, Random* random)
      : heads(heads_), kv_heads(kv_heads_), k_dim(k_dim_), v_dim(v_dim_), tokens(tokens_) {
    q = random->floats(uint64_t{tokens} * heads * k_dim, 1.5f);
    k = random->floats(uint64_t{tokens} * kv_heads * k_dim);
    v = random->floats(uint64_t{tokens} * kv_heads * v_dim);
  }
  Case(uint32_t heads_, uint32_t kv_heads_, uint32_t head_dim, uint32_t tokens_, Random* random)
      : Case(heads_, kv_heads_, head_dim, head_dim, tokens_, random) {}
  uint32_t q_width() const { return heads * k_dim; }
  uint32_t k_width() const { return kv_heads * k_dim; }
  uint32_t v_width() const { return kv_heads * v_dim; }
  uint32_t stride() const { return q_width() + k_width() + v_width(); }
  uint32_t out_width() const { return heads * v_dim; }
  // Token i's row at `to`: q, k, v.
  void put_row(uint32_t i, float* to) const {
    to = std::copy_n(q.data() + uint64_t{i} * q_width(), q_width(), to);
    to = std::copy_n(k.data() + uint64_t{i} * k_width(), k_width(), to);
    std::copy_n(v.data() + uint64_t{i} * v_width(), v_width(), to);
  }
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "dimensions " << c.k_dim << " and " << c.v_dim << ", formats " << static_cast<uint32_t>(c.formats.k) << " and "
             << static_cast<uint32_t>(c.formats.v) << ", " << c.tokens << " tokens, " << c.heads / c.kv_heads << " heads a group";
}

// A pool full of NaN bits, blocks dealt out in a scattered order.
struct Pool {
  KvGeometry kv;
  std::vector<uint8_t> bytes;
  std::vector<int32_t> blocks;

  Pool(const Case& c, uint32_t block_tokens, uint32_t tokens_max, uint32_t first_block, uint32_t total_blocks)
      : kv{2, c.kv_heads, {c.k_dim, c.formats.k}, {c.v_dim, c.formats.v}, block_tokens} {
    kv.latent = c.latent;
    bytes.assign(total_blocks * kv.block_bytes(), 0xff);
    const uint32_t n = (tokens_max + block_tokens - 1) / block_tokens;
    for (uint32_t i = 0; i < n; ++i) blocks.push_back(static_cast<int32_t>(first_block + n - 1 - i));
  }
};

// Rows [first, first + n) of the case as one step; returns their attention, stored with a stride wider than a row.
inline std::vector<float> step(Backend* backend, Pool* pool, const Case& c, uint32_t first, uint32_t n) {
  constexpr uint32_t kLayer = 1;
  const uint32_t stride = c.stride();
  std::vector<float> qkv(uint64_t{n} * stride), out(uint64_t{n} * c.out_width());
  std::vector<int32_t> tokens(n), positions(n);
  for (uint32_t i = 0; i < n; ++i) {
    c.put_row(first + i, qkv.data() + uint64_t{i} * stride);
    positions[i] = static_cast<int32_t>(first + i);
  }
  const StepSeq seq{0, n, static_cast<int32_t>(first), pool->blocks.data(), static_cast<uint32_t>(pool->blocks.size())};
  const Step s{{&seq, 1}, tokens, positions, {}};
  backend->run({}, [&] {
    const float* k = qkv.data() + c.q_width();
    backend->kv_store(pool->kv, pool->bytes.data(), {kLayer}, s, 0, n, k, k + c.k_width(), stride);
    const AttentionParams params{c.heads, 0.125f, c.softcap, c.window, c.sinks.empty() ? nullptr : c.sinks.data()};
    backend->attention(pool->kv, pool->bytes.data(), {kLayer}, s, params, qkv.data(), stride, out.data());
  });
  return out;
}

inline std::vector<float> in_chunks(Backend* backend, const Case& c, uint32_t block_tokens, uint32_t chunk) {
  Pool pool(c, block_tokens, c.tokens, 0, (c.tokens + block_tokens - 1) / block_tokens);
  std::vector<float> all;
  for (uint32_t at = 0; at < c.tokens; at += chunk) {
    const std::vector<float> out = step(backend, &pool, c, at, std::min(chunk, c.tokens - at));
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

}  // namespace kvrt::test
