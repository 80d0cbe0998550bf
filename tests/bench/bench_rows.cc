// The kernels that are no matrix products, one thread, at the shapes of SmolLM2-135M: attention of one KV head (decode of a token, a
// tile of prefill; also the latents of DeepSeek) and the row kernels. items_per_second counts fma (attention) or elements, bytes_per_second the bytes that must be read.
#include <cstring>
#include <random>
#include <vector>

#include "runtime/compute/backend.h"
#include "runtime/compute/cpu/kernels.h"
#include "runtime/compute/quant/quants.h"
#include "tests/bench/shares.h"

namespace kvrt {
namespace {

constexpr uint32_t kWidth = 576, kFf = 1536, kHeadDim = 64, kBlockTokens = 32;

// One KV head and the heads of Q that read it.
struct Heads {
  uint32_t group, k_dim, v_dim;
  bool latent;
};
constexpr Heads kSmolLM{3, kHeadDim, kHeadDim, false};
// DeepSeek's attention: what is computed (absorbed, 16 heads read one latent), and what it would be with K and V of each head.
constexpr Heads kAbsorbed{16, 576, 512, true}, kExpanded{1, 192, 128, false};

// The table that a runtime would use; KVRT_ISA in the environment names another.
const CpuKernels& table() {
  static const CpuKernels* chosen = [] {
    const char* isa = std::getenv("KVRT_ISA");
    auto backend = open_cpu({1, isa ? isa : ""}, nullptr);
    const std::string name = backend.is_ok() ? backend.value()->isa() : "";
    for (const CpuKernels* kernels : {avx512_kernels(), avx2_kernels(), scalar_kernels()}) {
      if (name == kernels->isa) return kernels;
    }
    return static_cast<const CpuKernels*>(nullptr);
  }();
  if (chosen == nullptr) std::exit(1);
  return *chosen;
}

std::vector<float> floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& f : v) f = normal(random);
  return v;
}

// K and V of one KV head over `depth` positions, blocks in reverse order. Any bytes but those of a NaN are numbers.
struct Keys {
  KvGeometry kv;
  std::vector<uint8_t> pool;
  std::vector<int32_t> blocks;

  Keys(const Heads& heads, uint32_t depth, KvFormat k, KvFormat v) : kv{1, 1, {heads.k_dim, k}, {heads.v_dim, v}, kBlockTokens} {
    kv.latent = heads.latent;
    const uint32_t n = (depth + kBlockTokens - 1) / kBlockTokens;
    pool.resize(n * kv.block_bytes());
    std::mt19937 random(3);
    for (uint8_t& byte : pool) byte = static_cast<uint8_t>(random() & 0x3f);
    for (uint32_t i = 0; i < n; ++i) blocks.push_back(static_cast<int32_t>(n - 1 - i));
  }
};

// `tokens` queries of the group's heads at the end of `depth` positions: all spans, merged and finished.
void attend(benchmark::State& state, const Heads& heads, uint32_t tokens, uint32_t depth, KvFormat k, KvFormat v) {
  const CpuKernels& kernels = table();
  const Keys keys(heads, depth, k, v);
  const KvGeometry& kv = keys.kv;
  const uint32_t rows = tokens * heads.group;
  const std::vector<float> q = floats(uint64_t{rows} * heads.k_dim, 5);
  std::vector<float> scratch(attention_scratch(rows, heads.k_dim)), max(rows), sum(rows), acc(uint64_t{rows} * heads.v_dim);
  std::vector<float> all_max(rows), all_sum(rows), all_acc(acc.size()), out(acc.size());
  AttentionTile tile{};
  tile.q = q.data(), tile.q_stride = heads.group * heads.k_dim, tile.tokens = tokens, tile.group = heads.group;
  tile.k_dim = heads.k_dim, tile.v_dim = heads.v_dim, tile.latent = heads.latent, tile.scale = 0.125f;
  tile.first_position = int64_t{depth} - tokens, tile.window = INT64_MAX / 2;
  tile.k_format = k, tile.v_format = v;
  tile.k = keys.pool.data(), tile.v = tile.k + kv.v_at();
  tile.k_scales = tile.k + kv.k_scales_at(), tile.v_scales = tile.k + kv.v_scales_at();
  tile.block_bytes = kv.block_bytes(), tile.block_tokens = kBlockTokens;
  tile.scratch = scratch.data(), tile.max = max.data(), tile.sum = sum.data(), tile.acc = acc.data();
  for (auto _ : state) {
    for (uint32_t first = 0; first < depth; first += kSpanTokens) {
      tile.span_first = first, tile.blocks = keys.blocks.data() + first / kBlockTokens;
      kernels.attend_span(tile);
      if (first == 0) {
        all_max = max, all_sum = sum, all_acc = acc;
        continue;
      }
      for (uint32_t r = 0; r < rows; ++r) {
        kernels.merge_span(heads.v_dim, &all_max[r], &all_sum[r], &all_acc[uint64_t{r} * heads.v_dim], max[r], sum[r],
                           &acc[uint64_t{r} * heads.v_dim]);
      }
    }
    for (uint32_t r = 0; r < rows; ++r)
      kernels.finish_row(heads.v_dim, all_sum[r], &all_acc[uint64_t{r} * heads.v_dim], &out[uint64_t{r} * heads.v_dim]);
    benchmark::DoNotOptimize(out.data());
  }
  double seen = 0;  // (row, key) pairs: a token sees those before it and itself
  for (uint32_t t = 0; t < tokens; ++t) seen += heads.group * (depth - tokens + t + 1.0);
  const double fmas = seen * (heads.k_dim + heads.v_dim), bytes = static_cast<double>(depth * kv.token_bytes());
  state.SetItemsProcessed(static_cast<int64_t>(fmas * static_cast<double>(state.iterations())));
  state.SetBytesProcessed(static_cast<int64_t>(bytes * static_cast<double>(state.iterations())));
  kvrt_bench::set_fma_share(state, kernels.isa, 1, fmas);
  kvrt_bench::set_read_share(state, 1, bytes);
}

// The last two: the formats of K and V, as step.h numbers them.
void bench_attend(benchmark::State& state) {
  const auto arg = [&](size_t i) { return static_cast<uint32_t>(state.range(i)); };
  attend(state, kSmolLM, arg(0), arg(1), static_cast<KvFormat>(arg(2)), static_cast<KvFormat>(arg(3)));
}
void attend_args(benchmark::internal::Benchmark* bench) {
  constexpr int64_t kF16 = 0, kInt8 = 3, kFp8 = 4;
  for (const auto& [k, v] : {std::pair{kF16, kF16}, {kInt8, kInt8}, {kFp8, kFp8}, {kInt8, kF16}, {kF16, kFp8}}) {
    bench->ArgsProduct({{1}, {32, 512, 2048, 8000}, {k}, {v}})->ArgsProduct({{4}, {512, 8000}, {k}, {v}});
  }
  bench->Args({1, 262144, kF16, kF16});
}
BENCHMARK(bench_attend)->Name("attend/tokens/depth/k/v")->Apply(attend_args)->Unit(benchmark::kMicrosecond);

// A tile of 96 rows in each form: the quotient of the times is what a prompt pays for absorbed attention.
void bench_absorbed(benchmark::State& state) {
  attend(state, kAbsorbed, 6, static_cast<uint32_t>(state.range(0)), KvFormat::kF16, KvFormat::kF16);
}
void bench_expanded(benchmark::State& state) {
  attend(state, kExpanded, 96, static_cast<uint32_t>(state.range(0)), KvFormat::kF16, KvFormat::kF16);
}
BENCHMARK(bench_absorbed)->Name("attend_absorbed/depth")->Arg(512)->Arg(2048)->Arg(8192)->Unit(benchmark::kMicrosecond);
BENCHMARK(bench_expanded)->Name("attend_expanded/depth")->Arg(512)->Arg(2048)->Arg(8192)->Unit(benchmark::kMicrosecond);

// A kernel that reads `reads` floats for each of `width` results.
template <class Kernel>
void rows(benchmark::State& state, uint32_t width, uint32_t reads, Kernel kernel) {
  std::vector<float> x = floats(width, 1), y = floats(width, 2), out = floats(width, 3);
  for (auto _ : state) {
    kernel(x.data(), y.data(), out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * width);
  state.SetBytesProcessed(state.iterations() * int64_t{width} * reads * 4);
}

void bench_rmsnorm(benchmark::State& state) {
  rows(state, kWidth, 2, [](float* x, float* y, float* out) { table().rmsnorm_row(x, y, 1e-5f, kWidth, out); });
}
void bench_silu_mul(benchmark::State& state) {
  rows(state, kFf, 2, [](float* x, float* y, float* out) { table().silu_mul_row(x, y, kFf, out); });
}
void bench_gelu_mul(benchmark::State& state) {
  rows(state, kFf, 2, [](float* x, float* y, float* out) { table().gelu_mul_row(x, y, kFf, out); });
}
void bench_softcap(benchmark::State& state) {
  rows(state, kFf, 1, [](float*, float*, float* out) { table().softcap_row(30.0f, kFf, out); });
}
void bench_add_scaled(benchmark::State& state) {
  rows(state, kWidth, 2, [](float* x, float*, float* out) { table().add_scaled_row(0.0f, x, kWidth, out); });
}
void bench_rope(benchmark::State& state) {  // a rotation by no angle: the values stay in their range
  static const std::vector<float> cos(kHeadDim / 2, 1.0f), sin(kHeadDim / 2, 0.0f);
  const bool interleaved = state.range(0) != 0;
  rows(state, kHeadDim, 2, [&](float*, float*, float* out) { table().rope_head(cos.data(), sin.data(), kHeadDim / 2, interleaved, out); });
}
void bench_quantize(benchmark::State& state) {
  static std::vector<int8_t> q(kFf);
  static std::vector<float> d(kFf / 32), s(kFf / 32);
  static std::vector<int16_t> sums(kFf / 16);
  rows(state, kFf, 1, [](float* x, float*, float*) { table().quantize_row(x, kFf, {q.data(), d.data(), s.data(), sums.data(), 1}); });
}
BENCHMARK(bench_rmsnorm)->Name("rmsnorm_row");
BENCHMARK(bench_silu_mul)->Name("silu_mul_row");
BENCHMARK(bench_gelu_mul)->Name("gelu_mul_row");
BENCHMARK(bench_softcap)->Name("softcap_row");
BENCHMARK(bench_add_scaled)->Name("add_scaled_row");
BENCHMARK(bench_rope)->Name("rope_head/interleaved")->Arg(0)->Arg(1);
BENCHMARK(bench_quantize)->Name("quantize_row");

}  // namespace
}  // namespace kvrt
