// Kernels at the shapes of SmolLM2-135M with random weights: no model file, no tokenizer. bytes_per_second counts the weights
// (or KV) that must be read, items_per_second multiply-accumulates or tokens. Compare like with like: same machine, same load.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/cpus.h"
#include "runtime/compute/backend.h"
#include "runtime/compute/quant/format.h"
#include "runtime/compute/quant/quants.h"
#include "tests/bench/shares.h"

namespace kvrt {
namespace {

constexpr uint32_t kLayers = 30, kWidth = 576, kHeads = 9, kKvHeads = 3, kHeadDim = 64, kFf = 1536, kVocab = 49152, kBlockTokens = 32;
constexpr uint32_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;

// KVRT_ISA and KVRT_THREADS in the environment choose the kernels and the threads.
uint32_t threads() {
  const char* text = std::getenv("KVRT_THREADS");
  return text ? static_cast<uint32_t>(std::atoi(text)) : usable_cpus();
}

Backend& backend() {
  static const std::unique_ptr<Backend> instance = [] {
    const char* isa = std::getenv("KVRT_ISA");
    auto opened = open_cpu({threads(), isa ? isa : ""}, nullptr);
    if (!opened.is_ok()) {
      std::fprintf(stderr, "%s\n", opened.status().message().c_str());
      std::exit(1);
    }
    return std::move(opened).value();
  }();
  return *instance;
}

std::unique_ptr<Weight> random_weight(DType type, uint32_t rows, uint32_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(type));
  std::vector<uint8_t> bytes(uint64_t{rows} * cols / info.block_elems * info.block_bytes);
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const uint32_t word = random();
    std::memcpy(bytes.data() + i, &word, 4);
  }
  if (is_plain(type)) {
    for (size_t i = 0; i < bytes.size(); i += info.block_bytes) {
      const float f = static_cast<float>(random() % 1000) * 1e-4f - 0.05f;
      const uint16_t h = f32_to_f16(f);
      const auto* from =
          type == DType::kF16 ? reinterpret_cast<const uint8_t*>(&h) : reinterpret_cast<const uint8_t*>(&f) + 4 - info.block_bytes;
      std::memcpy(bytes.data() + i, from, info.block_bytes);
    }
  } else {
    // Random bits hold infinities and denormals, which no model does: every two bytes that could be an f16 become one near 2^-9.
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((byte & 0x83) | 0x18);
  }
  const TensorView tensor{type, {cols, rows, 1, 1}, bytes};
  auto weight = backend().make_weight({&tensor, 1});
  if (!weight.is_ok()) std::exit(1);
  return std::move(weight).value();
}

std::vector<float> random_floats(size_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& f : v) f = normal(random);
  return v;
}

// A whole synthetic model: the weights stream from memory as they do in real life.
struct Synthetic {
  struct LayerWeights {
    std::unique_ptr<Weight> qkv, out, gate_up, down;
  };
  std::vector<LayerWeights> layers;
  std::unique_ptr<Weight> head = random_weight(DType::kQ8_0, kVocab, kWidth, 99);
  std::vector<float> norm = random_floats(kWidth);
  KvGeometry kv{kLayers, kKvHeads, kHeadDim, kBlockTokens};
  std::unique_ptr<Buffer> pool;
  std::vector<int32_t> blocks;
  uint64_t bytes = 0;

  Synthetic() {
    for (uint32_t l = 0; l < kLayers; ++l) {
      layers.push_back({random_weight(DType::kQ4_1, kQkv, kWidth, l), random_weight(DType::kQ4_1, kWidth, kHeads * kHeadDim, l + 100),
                        random_weight(DType::kQ4_1, 2 * kFf, kWidth, l + 200), random_weight(DType::kQ4_1, kWidth, kFf, l + 300)});
      const LayerWeights& w = layers.back();
      bytes += w.qkv->bytes() + w.out->bytes() + w.gate_up->bytes() + w.down->bytes();
    }
    bytes += head->bytes();
    const uint32_t n = 8192 / kBlockTokens;
    auto buffer = backend().alloc(n * kv.block_bytes(), true);
    if (!buffer.is_ok()) std::exit(1);
    pool = std::move(buffer).value();
    for (uint32_t i = 0; i < n; ++i) blocks.push_back(static_cast<int32_t>(n - 1 - i));
  }

  static Synthetic& get() {
    static Synthetic model;
    return model;
  }

  // `rows` new tokens of one sequence after `depth`, logits of the last one.
  void step(uint32_t depth, uint32_t rows, std::vector<float>* scratch, float* logits) {
    Backend& b = backend();
    scratch->resize(rows * (2ull * kWidth + kQkv + kFf));
    float *x = scratch->data(), *qkv = x + rows * kWidth, *attended = qkv + rows * kQkv, *active = attended + rows * kWidth;
    for (uint32_t i = 0; i < rows * kWidth; ++i) x[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
    std::vector<int32_t> tokens(rows), positions(rows);
    for (uint32_t i = 0; i < rows; ++i) positions[i] = static_cast<int32_t>(depth + i);
    StepSeq seq{0, rows, static_cast<int32_t>(depth), blocks.data(), static_cast<uint32_t>(blocks.size())};
    Step s{{&seq, 1}, tokens, positions, {}};
    const RopeParams rope{RopeStyle::kInterleaved, kHeadDim, 100000.0f};
    const auto attention_input = [&](uint32_t l, uint32_t first, uint32_t n) {
      float *q = qkv + first * kQkv, *k = q + kHeads * kHeadDim, *v = k + kKvHeads * kHeadDim;
      b.matmul(*layers[l].qkv, nullptr, {x + first * kWidth, n, norm.data(), 1e-5f}, false, q);
      b.rope(rope, first, n, kHeads + kKvHeads, kHeadDim, kQkv, q);
      b.kv_store(kv, pool->data(), {l}, s, first, n, k, v, kQkv);
    };
    b.run({}, [&] {
      b.prepare_rope(rope, Step{{}, {}, positions, {}});
      b.by_rows(rows, [&](uint32_t first, uint32_t n) { attention_input(0, first, n); });
      for (uint32_t l = 0; l < kLayers; ++l) {
        b.attention(kv, pool->data(), {l}, s, {kHeads, 0.125f, 0, 0}, qkv, kQkv, attended);
        b.by_rows(rows, [&](uint32_t first, uint32_t n) {
          b.matmul(*layers[l].out, nullptr, {attended + first * kWidth, n}, true, x + first * kWidth);
          b.matmul_act(*layers[l].gate_up, Activation::kSilu, {x + first * kWidth, n, norm.data(), 1e-5f}, active + first * kFf);
          b.matmul(*layers[l].down, nullptr, {active + first * kFf, n}, true, x + first * kWidth);
          if (l + 1 < kLayers) attention_input(l + 1, first, n);
        });
      }
      b.matmul(*head, nullptr, {x + (rows - 1) * kWidth, 1, norm.data(), 1e-5f}, false, logits);
    });
  }
};

void bench_step(benchmark::State& state) {
  Synthetic& model = Synthetic::get();
  const auto rows = static_cast<uint32_t>(state.range(0)), depth = static_cast<uint32_t>(state.range(1));
  std::vector<float> scratch, logits(kVocab);
  model.step(depth, rows, &scratch, logits.data());
  for (auto _ : state) model.step(depth, rows, &scratch, logits.data());
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * rows);
  if (rows == 1) state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(model.bytes));
}
BENCHMARK(bench_step)
    ->Name("step/rows/depth")
    ->Args({1, 0})
    ->Args({1, 512})
    ->Args({1, 2048})
    ->Args({1, 8000})
    ->Args({8, 0})
    ->Args({16, 0})
    ->Args({32, 0})
    ->Args({64, 0})
    ->Args({128, 0})
    ->Args({512, 0})
    ->Args({512, 7488})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// One weight that stays in the cache, or (rows large) one that does not: the speed of the kernel itself.
void bench_matmul(benchmark::State& state) {
  const auto type = static_cast<DType>(state.range(0));
  const auto n = static_cast<uint32_t>(state.range(1)), rows = static_cast<uint32_t>(state.range(2)),
             cols = static_cast<uint32_t>(state.range(3));
  const auto weight = random_weight(type, rows, cols, 1);
  const std::vector<float> x = random_floats(uint64_t{n} * cols);
  std::vector<float> out(uint64_t{n} * rows);
  backend().run({}, [&] {
    for (auto _ : state) backend().matmul(*weight, nullptr, {x.data(), n}, false, out.data());
  });
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * n * rows * cols);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(weight->bytes()));
  state.SetLabel(dtype_info(static_cast<uint32_t>(type))->name);
  (is_plain(type) ? kvrt_bench::set_fma_share : kvrt_bench::set_product_share)(state, backend().isa(), threads(),
                                                                               static_cast<double>(n) * rows * cols);
  kvrt_bench::set_read_share(state, threads(), static_cast<double>(weight->bytes()));
}
const std::vector<int64_t> kTypes = [] {
  std::vector<int64_t> types;
  for (const DTypeInfo& info : dtypes()) types.push_back(static_cast<int64_t>(info.type));
  return types;
}();
BENCHMARK(bench_matmul)
    ->Name("matmul/type/n/rows/cols")
    ->ArgsProduct({kTypes, {1, 2, 3, 4, 5, 8, 16, 480}, {1536}, {768}})
    ->ArgsProduct({kTypes, {1, 8}, {98304}, {768}})
    ->Args({3, 480, 576, 1536})
    ->Args({3, 480, 576, 576})
    ->UseRealTime();

}  // namespace
}  // namespace kvrt

BENCHMARK_MAIN();
