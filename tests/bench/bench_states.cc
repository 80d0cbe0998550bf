// Recurrent layers at the sizes of models, on the backend: a token (rows 1) or a prompt of one sequence goes through all their layers, so
// that states stream from memory as they do in real life. bytes_per_second counts the states, read and written once a step.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/cpus.h"
#include "runtime/compute/backend.h"
#include "tests/bench/shares.h"

namespace kvrt {
namespace {

constexpr uint32_t kLayers = 36;

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

std::vector<float> floats(size_t n, float scale) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& f : v) f = normal(random) * scale;
  return v;
}

// A state of so many items, a layer in a unit.
StateLayout layout_of(uint32_t items, uint32_t bytes, bool convolution) {
  StateLayout s;
  s.layers = s.units = kLayers;
  s.unit_bytes = uint64_t{items} * bytes;
  (convolution ? s.inputs : s.heads) = {items, bytes, items, 0};
  return s;
}

using Op = std::function<void(const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, float* x, float* out)>;

// `in` and `out`: floats of a row. A step goes in place.
void run(benchmark::State& state, const StateLayout& layout, uint32_t in, uint32_t out, const Op& op) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  Backend& b = backend();
  auto pool = b.alloc(layout.units * layout.unit_bytes, true);
  if (!pool.is_ok()) std::exit(1);
  std::vector<float> x = floats(size_t{rows} * in, 0.1f), results(size_t{rows} * out + 1);
  std::vector<int32_t> units(layout.units), tokens(rows), positions(rows);
  std::iota(units.begin(), units.end(), 0);
  StepSeq seq{0, rows, 0};
  seq.state_from = seq.state_to = units.data();
  Step step{{&seq, 1}, tokens, positions, {}};
  step.state_units = layout.units;
  b.clear(pool.value()->data(), layout.units * layout.unit_bytes);
  b.run({}, [&] {
    for (auto _ : state) {
      for (uint32_t l = 0; l < kLayers; ++l) op(layout, pool.value()->data(), l, step, x.data(), results.data());
    }
  });
  const double bytes = 2.0 * static_cast<double>(layout.units * layout.unit_bytes);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * rows);
  state.SetBytesProcessed(static_cast<int64_t>(bytes * static_cast<double>(state.iterations())));
  kvrt_bench::set_read_share(state, threads(), bytes);
}

// Granite 4.0 H 1B.
void bench_scan(benchmark::State& state) {
  ScanParams p{48, 64, 128, 1};
  const std::vector<float> bias(p.heads, 0.0f), a(p.heads, -0.5f);
  p.dt_bias = bias.data(), p.a = a.data(), p.skip = a.data();
  const uint32_t dt_at = p.heads * p.head_dim + 2 * p.groups * p.state, in = dt_at + p.heads;
  run(state, layout_of(p.heads, p.head_dim * p.state * 4, false), in, p.heads * p.head_dim,
      [&](const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, float* x, float* out) {
        backend().scan(layout, pool, layer, step, p, in, x, x + dt_at, out);
      });
}

// Qwen3-Next.
void bench_delta(benchmark::State& state) {
  DeltaParams p{32, 16, 128, 128};
  const std::vector<float> bias(p.heads, 0.0f), a(p.heads, -0.5f);
  p.dt_bias = bias.data(), p.a = a.data(), p.eps = 1e-6f;
  const uint32_t beta_at = 2 * p.key_heads * p.key_dim + p.heads * p.value_dim, in = beta_at + 2 * p.heads;
  run(state, layout_of(p.heads, p.key_dim * p.value_dim * 4, false), in, p.heads * p.value_dim,
      [&](const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, float* x, float* out) {
        backend().delta(layout, pool, layer, step, p, in, x, in, x + beta_at, x + beta_at + p.heads, out);
      });
}

void bench_conv(benchmark::State& state) {
  const auto channels = static_cast<uint32_t>(state.range(1)), taps = static_cast<uint32_t>(state.range(2));
  // With a bias: what goes in place again and again would become denormal.
  const std::vector<float> weight = floats(size_t{channels} * taps, 0.2f), bias = floats(channels, 1.0f);
  const ConvParams p{channels, taps, weight.data(), bias.data(), taps == 4};
  run(state, layout_of(1, channels * (taps - 1) * 4, true), channels, 0,
      [&](const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, float* x, float*) {
        backend().conv(layout, pool, layer, step, p, channels, x);
      });
}

BENCHMARK(bench_scan)->Name("scan/rows")->Arg(1)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_delta)->Name("delta/rows")->Arg(1)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_conv)
    ->Name("conv/rows/channels/taps")
    ->ArgsProduct({{1, 512}, {3328, 8192}, {4}})
    ->ArgsProduct({{1, 512}, {2048}, {3}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvrt
