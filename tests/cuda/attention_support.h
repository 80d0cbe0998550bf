// Helpers of the tests of attention: sequences over a pool of scattered blocks, a batch of their rows on the device and on the CPU, and
// float64 over K and V as they are stored.
#pragma once

#include "tests/cuda/device_memory.h"
#include "tests/ops/kv_reference.h"

namespace kvrt::test {

inline constexpr uint32_t kLayer = 1;  // of two
inline constexpr float kScale = 0.125f;

struct Shape {
  uint32_t heads, kv_heads, head_dim;
  KvFormats formats{};
  uint32_t block_tokens = 32, window = 0;
  float softcap = 0;
  uint32_t v_dim = head_dim;   // head_dim is Q's and K's
  std::vector<float> sinks{};  // [heads], or none
  bool latent = false;         // v is not read
  // K is stored without a part of its bias: [kv_heads][pairs][3], as KeyBias has it, and the rotations that turn it.
  bool apart = false;
  std::vector<float> bias{};
  RopeParams rope{};

  uint32_t bias_pairs() const { return static_cast<uint32_t>(bias.size() / 3 / kv_heads); }
  bool transforms() const { return formats.k == KvFormat::kI8 || (apart && formats.k == KvFormat::kF8); }
  uint32_t q_width() const { return heads * head_dim; }
  uint32_t out_width() const { return heads * v_dim; }
  uint32_t k_width() const { return kv_heads * head_dim; }
  uint32_t v_width() const { return kv_heads * v_dim; }
  uint32_t stride() const { return q_width() + k_width() + v_width() + 3; }
  bool alike() const { return formats.k == formats.v; }
  KvGeometry kv() const {
    KvGeometry kv{2, kv_heads, {head_dim, formats.k}, {v_dim, formats.v}, block_tokens};
    kv.latent = latent;
    kv.bias_apart = apart;
    return kv;
  }
  cuda::DeviceAttention params(const float* sinks_on_device = nullptr) const { return {heads, kScale, softcap, window, sinks_on_device}; }
};
inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "heads " << s.heads << "/" << s.kv_heads << " of " << s.head_dim << " and " << s.v_dim << ", formats "
             << static_cast<uint32_t>(s.formats.k) << " " << static_cast<uint32_t>(s.formats.v) << ", block " << s.block_tokens
             << ", window " << s.window << ", cap " << s.softcap;
}

// Rows [first, first + n) of a sequence, in a step.
struct Rows {
  uint32_t sequence, first, n;
  bool store = true;
};
using Batch = std::vector<Rows>;

// q as attention has to see it: transformed for int8, rounded to 16 bits where tensor cores get no more.
enum class Queries { kExact, kShort };

// Sequences with their q, k and v, and a pool full of NaN bits, its blocks dealt out in a scattered order.
struct World {
  Shape shape;
  std::vector<std::vector<float>> qkv;  // of each sequence: rows of shape.stride()
  std::vector<std::vector<int32_t>> blocks;
  DeviceArray<uint8_t> pool;
  TestStream stream;

  World(const Shape& s, const std::vector<uint32_t>& tokens, uint32_t seed) : shape(s) {
    Random random(seed);
    uint32_t total = 1;  // and one that is nobody's
    for (const uint32_t n : tokens) {
      qkv.push_back(random.floats(uint64_t{n} * s.stride()));
      total += static_cast<uint32_t>(s.kv().blocks_for(n));
    }
    uint32_t next = 0;
    const uint32_t step = total % 7 == 0 ? 11 : 7;
    for (const uint32_t n : tokens) {
      blocks.emplace_back();
      for (uint64_t i = s.kv().blocks_for(n); i > 0; --i) blocks.back().push_back(static_cast<int32_t>(++next * step % total));
    }
    pool = DeviceArray<uint8_t>(total * s.kv().block_bytes());
  }

  float* q(uint32_t sequence, uint32_t row, uint32_t head) {
    return qkv[sequence].data() + uint64_t{row} * shape.stride() + head * shape.head_dim;
  }
  float* k(uint32_t sequence, uint32_t row, uint32_t kv_head) { return q(sequence, row, 0) + shape.q_width() + kv_head * shape.head_dim; }
  float* v(uint32_t sequence, uint32_t row, uint32_t kv_head) { return k(sequence, row, 0) + shape.k_width() + kv_head * shape.v_dim; }
};

// A batch's arrays on the device.
struct BatchOnDevice {
  uint32_t rows = 0, longest = 0;
  DeviceArray<int32_t> positions, tables;
  DeviceArray<uint32_t> tables_at, stores;
  DeviceArray<float> x;
  cuda::DeviceStep step;

  BatchOnDevice(World* world, const Batch& batch) {
    std::vector<int32_t> position, table;
    std::vector<uint32_t> at, store;
    std::vector<float> all;
    for (const Rows& r : batch) {
      for (uint32_t i = 0; i < r.n; ++i) {
        position.push_back(static_cast<int32_t>(r.first + i));
        at.push_back(static_cast<uint32_t>(table.size()));
        store.push_back(r.store ? 1 : 0);
        longest = std::max(longest, r.first + i + 1);
      }
      const auto used = static_cast<ptrdiff_t>(world->shape.kv().blocks_for(r.first + r.n));  // and no entry of the table beyond it
      table.insert(table.end(), world->blocks[r.sequence].begin(), world->blocks[r.sequence].begin() + used);
      const float* from = world->q(r.sequence, r.first, 0);
      all.insert(all.end(), from, from + uint64_t{r.n} * world->shape.stride());
    }
    rows = static_cast<uint32_t>(position.size());
    positions = DeviceArray(position), tables = DeviceArray(table), tables_at = DeviceArray(at), stores = DeviceArray(store);
    x = DeviceArray(all);
    step = {nullptr, positions.get(), tables_at.get(), tables.get(), stores.get(), nullptr};
  }
};

// The bias that K is stored without, and the tables that turn it, up to a row of that position.
struct BiasOnDevice {
  DeviceArray<float> values, offsets, turns;
  cuda::DeviceKeyBias bias;

  BiasOnDevice(const Shape& s, uint32_t longest) {
    if (s.bias.empty()) return;
    std::vector<double> frequencies(s.rope.dims / 2);
    rope_frequencies(s.rope, frequencies.data());
    const uint32_t spans = (longest + kTurnTokens - 1) / kTurnTokens;
    std::vector<float> by_offset(2 * frequencies.size() * kTurnTokens), by_span(2 * frequencies.size() * spans);
    rope_offsets(frequencies, by_offset.data());
    rope_turns(frequencies, 0, spans, by_span.data());
    values = DeviceArray(s.bias), offsets = DeviceArray(by_offset), turns = DeviceArray(by_span);
    bias = {s.bias_pairs(), values.get(), s.rope.dims / 2, s.rope.style, offsets.get(), turns.get()};
  }
};

inline void store(World* world, const Batch& batch) {
  const BatchOnDevice on(world, batch);
  const Shape& s = world->shape;
  const float* k = on.x.get() + s.q_width();
  cuda::kv_store(world->stream, s.kv(), world->pool.get(), kLayer, on.step, on.rows, k, k + s.k_width(), s.stride());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

inline std::vector<float> decode(World* world, const Batch& batch, uint32_t more_splits = 0) {
  const BatchOnDevice on(world, batch);
  const Shape& s = world->shape;
  const uint32_t splits = (on.longest + cuda::kSplitTokens - 1) / cuda::kSplitTokens + more_splits;
  const DeviceArray<float> partials(cuda::decode_partials(s.kv(), s.heads, on.rows, splits)), out(uint64_t{on.rows} * s.out_width());
  const DeviceArray<float> sinks(s.sinks);
  const BiasOnDevice bias(s, on.longest);
  cuda::DeviceAttention params = s.params(s.sinks.empty() ? nullptr : sinks.get());
  params.key_bias = bias.bias;
  cuda::decode_attention(world->stream, s.kv(), world->pool.get(), kLayer, on.step, on.rows, splits, params, on.x.get(), s.stride(),
                         partials.get(), out.get());
  return out.to_host();
}

// Prefill in tiles of at most `most` rows.
inline std::vector<float> prefill(World* world, const Batch& batch, uint32_t most = cuda::kPrefillTileRows) {
  const BatchOnDevice on(world, batch);
  const Shape& s = world->shape;
  std::vector<cuda::PrefillTile> tiles;
  uint32_t row = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    for (uint32_t at = 0; at < batch[i].n; at += most) {
      tiles.push_back({row + at, std::min(most, batch[i].n - at), static_cast<int32_t>(batch[i].first + at)});
    }
    row += batch[i].n;
  }
  const DeviceArray<cuda::PrefillTile> on_device(tiles);
  const DeviceArray<float> out(uint64_t{on.rows} * s.out_width()), sinks(s.sinks);
  EXPECT_TRUE(cuda::prefill_supported(s.kv()));
  const BiasOnDevice bias(s, on.longest);
  cuda::DeviceAttention params = s.params(s.sinks.empty() ? nullptr : sinks.get());
  params.key_bias = bias.bias;
  cuda::prefill_attention(world->stream, s.kv(), world->pool.get(), kLayer, on.step, on_device.get(), static_cast<uint32_t>(tiles.size()),
                          params, on.x.get(), s.stride(), out.get());
  return out.to_host();
}

// The same by the CPU's backend, over the pool that the device has filled.
inline std::vector<float> on_cpu(World* world, const Batch& batch) {
  const Shape& s = world->shape;
  std::vector<uint8_t> bytes = world->pool.to_host();
  std::vector<StepSeq> seqs;
  std::vector<int32_t> tokens, positions;
  std::vector<float> x;
  for (const Rows& r : batch) {
    seqs.push_back({static_cast<uint32_t>(tokens.size()), r.n, static_cast<int32_t>(r.first), world->blocks[r.sequence].data(),
                    static_cast<uint32_t>(world->blocks[r.sequence].size())});
    tokens.resize(tokens.size() + r.n);
    for (uint32_t i = 0; i < r.n; ++i) positions.push_back(static_cast<int32_t>(r.first + i));
    const float* from = world->q(r.sequence, r.first, 0);
    x.insert(x.end(), from, from + uint64_t{r.n} * s.stride());
  }
  const Step step{seqs, tokens, positions, {}};
  std::vector<float> out(tokens.size() * s.out_width());
  const auto backend = open_backend("scalar");
  backend->run({}, [&] {
    const KeyBias bias{&s.rope, s.bias_pairs(), s.bias.data()};
    const AttentionParams params{
        s.heads, kScale, s.softcap, s.window, s.sinks.empty() ? nullptr : s.sinks.data(), s.bias.empty() ? nullptr : &bias};
    backend->attention(s.kv(), bytes.data(), {kLayer}, step, params, x.data(), s.stride(), out.data());
  });
  return out;
}

// The bytes of a pool whose rows the CPU stored as well: alike but for the kind of a NaN.
inline void expect_same_bytes(const Shape& shape, const std::vector<uint8_t>& want, const std::vector<uint8_t>& got) {
  const KvGeometry kv = shape.kv();
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    const uint64_t in_layer = i % kv.layer_bytes();
    ASSERT_LT(in_layer, kv.k_scales_at()) << shape << " byte " << i;
    const KvFormat format = in_layer < kv.v_at() ? shape.formats.k : shape.formats.v;
    const auto is_nan = [&](const std::vector<uint8_t>& bytes) {  // K and V begin at even places
      const auto h = static_cast<uint16_t>(bytes[i / 2 * 2] | bytes[i / 2 * 2 + 1] << 8);
      return std::isnan(format == KvFormat::kF16 ? f16_to_f32(h) : bf16_to_f32(h));
    };
    ASSERT_TRUE(kv_cell_bytes(format) == 2 && is_nan(got) && is_nan(want)) << shape << " byte " << i;
  }
}

// ---- float64

// A KV head of a sequence as it is stored, keys as the transform leaves them.
struct StoredHead {
  std::vector<double> k, v;  // [tokens][head_dim], [tokens][v_dim]
};
inline StoredHead stored_head(World* world, uint32_t sequence, uint32_t kv_head, uint32_t tokens) {
  StoredHead out;
  const uint32_t n = world->shape.head_dim;
  for (uint32_t t = 0; t < tokens; ++t) {
    const float *k = world->k(sequence, t, kv_head), *v = world->v(sequence, t, kv_head);
    const std::vector<double> value = as_stored(world->shape.formats.v, v, world->shape.v_dim, false);
    out.v.insert(out.v.end(), value.begin(), value.end());
    if (world->shape.formats.k == KvFormat::kI8) {
      float scale;
      for (const int8_t q : int8_of({k, k + n}, true, &scale)) out.k.push_back(q);
      for (uint32_t d = 0; d < n; ++d) out.k[uint64_t{t} * n + d] *= double{scale};
    } else {
      const std::vector<float> own(k, k + n), x = world->shape.transforms() ? transformed(own) : own;
      const std::vector<double> key = as_stored(world->shape.formats.k, x.data(), n, true);
      out.k.insert(out.k.end(), key.begin(), key.end());
    }
  }
  return out;
}

// q · rope(b) at a position, b a KV head's part of the bias: the rotation by its definition.
inline double bias_score(const Shape& s, uint32_t kv_head, const std::vector<float>& q, uint32_t position) {
  double dot = 0;
  for (uint32_t i = 0; i < s.bias_pairs(); ++i) {
    const float* b = s.bias.data() + (uint64_t{kv_head} * s.bias_pairs() + i) * 3;
    const auto pair = static_cast<uint32_t>(b[0]);
    const bool interleaved = s.rope.style == RopeStyle::kInterleaved;
    const uint32_t first = interleaved ? 2 * pair : pair, second = interleaved ? first + 1 : first + s.rope.dims / 2;
    const double angle = position * std::pow(double{s.rope.freq_base}, -2.0 * pair / s.rope.dims), c = std::cos(angle),
                 sin = std::sin(angle);
    dot += q[first] * (b[1] * c - b[2] * sin) + q[second] * (b[1] * sin + b[2] * c);
  }
  return dot;
}

// Softmax(cap((q · K + q · rope(b)) * scale)) V of one row and head, and |V| under the same weights.
struct Attended {
  std::vector<double> out, size;
};
inline Attended attended(const Shape& s, const StoredHead& head, std::vector<float> q, uint32_t row, uint32_t h, Queries queries) {
  const uint32_t n = s.head_dim, run = power_of_two_in(n), first = s.window > 0 && row >= s.window ? row - s.window + 1 : 0;
  const bool transforms = s.transforms();
  std::vector<double> bias(row + 1);
  for (uint32_t j = first; j <= row; ++j) bias[j] = bias_score(s, h / (s.heads / s.kv_heads), q, j) * double{kScale};
  for (uint32_t i = 0; transforms && i < n; i += run) {
    const std::vector<float> x = hadamard({q.begin() + i, q.begin() + i + run});
    std::copy(x.begin(), x.end(), q.begin() + i);
  }
  if (queries == Queries::kShort) {
    for (float& x : q) x = s.formats.k == KvFormat::kBF16 ? bf16_to_f32(f32_to_bf16(x)) : f16_to_f32(f32_to_f16(x));
  }
  std::vector<double> p(row + 1);
  double max = -1e300, sum = 0;
  for (uint32_t j = first; j <= row; ++j) {
    for (uint32_t d = 0; d < n; ++d) p[j] += double{q[d]} * head.k[uint64_t{j} * n + d];
    p[j] = p[j] * double{kScale} / (transforms ? run : 1) + bias[j];
    if (s.softcap > 0) p[j] = double{s.softcap} * std::tanh(p[j] / double{s.softcap});
    max = std::max(max, p[j]);
  }
  if (!s.sinks.empty()) {
    max = std::max(max, double{s.sinks[h]});
    sum = std::exp(double{s.sinks[h]} - max);
  }
  for (uint32_t j = first; j <= row; ++j) sum += p[j] = std::exp(p[j] - max);
  Attended result{std::vector<double>(s.v_dim), std::vector<double>(s.v_dim)};
  for (uint32_t j = first; j <= row; ++j) {
    for (uint32_t d = 0; d < s.v_dim; ++d) {
      const double x = p[j] / sum * head.v[uint64_t{j} * s.v_dim + d];
      result.out[d] += x, result.size[d] += std::fabs(x);
    }
  }
  return result;
}

// Every element of the batch's rows: within `absolute`, and `relative` to |V| under its weights.
inline void expect_near(World* world, const Batch& batch, const std::vector<float>& got, Queries queries, double absolute,
                        double relative) {
  const Shape& s = world->shape;
  const uint32_t group = s.heads / s.kv_heads;
  uint32_t first = 0;
  for (const Rows& r : batch) {
    for (uint32_t head = 0; head < s.heads; ++head) {
      if (head % group != 0) continue;
      const StoredHead stored = stored_head(world, r.sequence, head / group, r.first + r.n);
      for (uint32_t i = 0; i < r.n * group; ++i) {
        const uint32_t row = i / group, h = head + i % group;
        const float* q = world->q(r.sequence, r.first + row, h);
        const Attended want = attended(s, stored, {q, q + s.head_dim}, r.first + row, h, queries);
        for (uint32_t d = 0; d < s.v_dim; ++d) {
          const double is = got[(uint64_t{first} + row) * s.out_width() + h * s.v_dim + d];
          ASSERT_NEAR(is, want.out[d], absolute + relative * want.size[d])
              << s << ", row " << r.first + row << " head " << h << " at " << d;
        }
      }
    }
    first += r.n;
  }
}

// Decode: rounding in f32; bf16's queries (an error of the scores) and weights are two numbers of 8 bits each.
inline void expect_decode_near(World* world, const Batch& batch, const std::vector<float>& got) {
  const KvFormats& is = world->shape.formats;
  expect_near(world, batch, got, Queries::kExact, 1e-5, is.k == KvFormat::kBF16 || is.v == KvFormat::kBF16 ? 0x1p-15 : 0);
}
// Prefill: each weight is rounded to 11 bits, with V of bf16 to 8.
inline void expect_prefill_near(World* world, const Batch& batch, const std::vector<float>& got) {
  expect_near(world, batch, got, Queries::kShort, 1e-5, world->shape.formats.v == KvFormat::kBF16 ? 0x1p-8 : 0x1p-11);
}

inline void fill(World* world) {
  for (uint32_t i = 0; i < world->qkv.size(); ++i) {
    store(world, {{i, 0, static_cast<uint32_t>(world->qkv[i].size() / world->shape.stride())}});
  }
}
inline std::vector<float> rows_of(const World& world, const std::vector<float>& out, uint32_t first, uint32_t n) {
  const auto width = static_cast<ptrdiff_t>(world.shape.out_width());
  return {out.begin() + first * width, out.begin() + (first + n) * width};
}

}  // namespace kvrt::test
