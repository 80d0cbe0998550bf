// bench_cuda: the kernels between the matmuls, at the shapes of an 8B model. They are short: their time counts, not their rate.
#include <cmath>

#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {
namespace {

constexpr uint32_t kWidth = 4096, kHeads = 32, kKvHeads = 8, kHeadDim = 128, kFf = 14336, kVocab = 128256;
constexpr uint32_t kStride = (kHeads + 2 * kKvHeads) * kHeadDim;

// Logits as a model's: the probabilities of its best thousand tokens fall as 1 / rank^1.5, all others lie far below.
std::vector<float> peaked_logits(uint32_t rows, uint32_t vocab) {
  std::vector<float> logits = random_floats(uint64_t{rows} * vocab, 5);
  for (float& x : logits) x = 2.5f * x;
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t rank = 1; rank <= 1000; ++rank)
      logits[row * vocab + rank * 7919 % vocab] = 20.0f - 1.5f * std::log(static_cast<float>(rank));
  }
  return logits;
}

struct Arrays {
  uint32_t rows, vocab;
  Memory x, y, qkv, norm, flat, peaked, gate_up, activated, q, d, s, sums, halves, positions, tables_at, tables, stores, cos, sin, inv_freq,
      pool, top;
  KvGeometry kv{1, kKvHeads, kHeadDim, 32, KvFormat::kF16};
  cuda::DeviceStep step;

  Arrays(const Device& device, uint32_t n) : rows(n), vocab(device.size(kVocab, 500u)) {
    const auto floats = [](uint64_t count, uint32_t seed) { return Memory(random_floats(count, seed)); };
    x = floats(uint64_t{n} * kWidth, 1), y = floats(uint64_t{n} * kWidth, 2), qkv = floats(uint64_t{n} * kStride, 3);
    norm = floats(kWidth, 4), gate_up = floats(uint64_t{n} * 2 * kFf, 6);
    flat = floats(uint64_t{n} * vocab, 5), peaked = Memory(peaked_logits(n, vocab));
    activated = Memory(uint64_t{n} * kFf * sizeof(float));
    q = Memory(uint64_t{n} * kFf), d = Memory(uint64_t{n} * kFf / 8), s = Memory(uint64_t{n} * kFf / 8),
    sums = Memory(uint64_t{n} * kFf / 8);
    halves = Memory(uint64_t{n + 64} * kWidth * 2);
    cos = floats(uint64_t{n} * kHeadDim / 2, 7), sin = floats(uint64_t{n} * kHeadDim / 2, 8);
    inv_freq = Memory(std::vector<double>(kHeadDim / 2, 1e-3));
    const auto per_row = static_cast<uint32_t>(kv.blocks_for(512 + n));
    std::vector<int32_t> position(n), table;
    for (uint32_t i = 0; i < n; ++i) position[i] = static_cast<int32_t>(512 + i);
    for (uint32_t i = 0; i < per_row; ++i) table.push_back(static_cast<int32_t>(per_row - 1 - i));
    positions = Memory(position), tables = Memory(table);
    tables_at = Memory(std::vector<uint32_t>(n, 0)), stores = Memory(std::vector<uint32_t>(n, 1));
    pool = Memory(per_row * kv.block_bytes());
    top = Memory(n * sizeof(DrawnToken));
    step = {nullptr, positions.as<int32_t>(), tables_at.as<uint32_t>(), tables.as<int32_t>(), stores.as<uint32_t>(), nullptr};
  }
};

void measure(Device* device, const Arrays& a, const char* kernel, const std::function<void(cuda::Stream*)>& queue) {
  const Timed timed = device->time(1, [&](uint32_t) { queue(&device->stream); });
  Line("rows").add("kernel", kernel).add("n", a.rows).add("us", timed.us).add("spread", timed.spread);
}

void measure_all(Device* device, const Arrays& a) {
  const uint32_t n = a.rows;
  const cuda::DeviceQuantRows quantized{a.q.as<int8_t>(), a.d.as<float>(), a.s.as<float>(), a.sums.as<int16_t>()};
  measure(device, a, "quantize_rows",
          [&](cuda::Stream* stream) { cuda::quantize_rows(stream, a.x.as<float>(), a.norm.as<float>(), 1e-5f, n, kWidth, quantized); });
  measure(device, a, "f16_rows", [&](cuda::Stream* stream) {
    cuda::f16_rows(stream, a.x.as<float>(), a.norm.as<float>(), 1e-5f, n, (n + 63) / 64 * 64, kWidth, a.halves.as<uint16_t>());
  });
  measure(device, a, "rmsnorm",
          [&](cuda::Stream* stream) { cuda::rmsnorm(stream, a.x.as<float>(), a.norm.as<float>(), 1e-5f, n, kWidth, a.y.as<float>()); });
  measure(device, a, "rope_table", [&](cuda::Stream* stream) {
    cuda::rope_table(stream, a.positions.as<int32_t>(), n, a.inv_freq.as<double>(), kHeadDim / 2, 1, a.cos.as<float>(), a.sin.as<float>());
  });
  measure(device, a, "rope", [&](cuda::Stream* stream) {
    cuda::rope(stream, a.cos.as<float>(), a.sin.as<float>(), kHeadDim / 2, RopeStyle::kInterleaved, n, kHeads + kKvHeads, kHeadDim, kStride,
               a.qkv.as<float>());
  });
  measure(device, a, "kv_store", [&](cuda::Stream* stream) {
    const float* k = a.qkv.as<float>() + kHeads * kHeadDim;
    cuda::kv_store(stream, a.kv, a.pool.as<uint8_t>(), 0, a.step, n, k, k + kKvHeads * kHeadDim, kStride);
  });
  measure(device, a, "rope_store", [&](cuda::Stream* stream) {
    const cuda::DeviceRopeStore rope{
        a.cos.as<float>(), a.sin.as<float>(), kHeadDim / 2, RopeStyle::kInterleaved, kHeads, nullptr, nullptr, false, 0};
    cuda::rope_store(stream, a.kv, a.pool.as<uint8_t>(), 0, a.step, n, rope, kStride, a.qkv.as<float>());
  });
  measure(device, a, "act_mul", [&](cuda::Stream* stream) {
    cuda::act_mul(stream, a.gate_up.as<float>(), cuda::DeviceActivation::kSilu, n, kFf, a.activated.as<float>());
  });
  const auto draw = [&](const char* kernel, const Memory& logits, const Draw& how) {
    const Memory draws(std::vector<Draw>(n, how));
    measure(device, a, kernel, [&](cuda::Stream* stream) {
      cuda::draw_rows(stream, logits.as<float>(), n, a.vocab, draws.as<Draw>(), a.top.as<DrawnToken>());
    });
  };
  const Draw top_p{1.8f, 0x1p36f, 0, 0.95f, -INFINITY, 0.7};  // at temperature 0.8
  draw("draw_rows", a.peaked, {});
  draw("draw_rows top_p", a.peaked, top_p);
  draw("draw_rows top_p flat", a.flat, top_p);
}

}  // namespace

void bench_rows(Device* device) {
  if (device->smoke) return measure_all(device, Arrays(*device, 2));
  for (const uint32_t n : {1u, 16u, 512u}) measure_all(device, Arrays(*device, n));
}

}  // namespace kvrt::bench
