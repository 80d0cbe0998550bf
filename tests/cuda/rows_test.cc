// Norms, rotations, elementwise ops and copies of a device. Where the CPU's order is kept, its bits.
#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/rope.h"
#include "tests/cuda/device_memory.h"

namespace kvrt::test {
namespace {

TEST(RmsNorm, HasTheCpusBits) {
  TestStream stream;
  Random random(1);
  for (const uint32_t width : {1u, 7u, 16u, 17u, 40u, 576u, 1000u, 4096u, 4097u, 9000u}) {
    constexpr uint32_t kRows = 3;
    const std::vector<float> x = random.extremes(kRows * width), w = random.floats(width);
    std::vector<float> want(x.size());
    for (uint32_t r = 0; r < kRows; ++r) scalar::rmsnorm_row(x.data() + r * width, w.data(), 1e-5f, width, want.data() + r * width);
    const DeviceArray<float> on_device(x), weight(w), out(x.size());
    cuda::rmsnorm(stream, on_device.get(), weight.get(), 1e-5f, kRows, width, out.get());
    EXPECT_SAME_BITS(want, out.to_host()) << width;
    cuda::rmsnorm(stream, on_device.get(), weight.get(), 1e-5f, kRows, width, on_device.get());
    EXPECT_SAME_BITS(want, on_device.to_host()) << width << " in place";
  }
}

TEST(LayerNorm, HasTheCpusBits) {
  TestStream stream;
  Random random(7);
  for (const uint32_t width : {1u, 7u, 16u, 17u, 576u, 4096u, 4097u, 9000u}) {
    constexpr uint32_t kRows = 3;
    const std::vector<float> x = random.extremes(kRows * width), w = random.floats(width), b = random.floats(width);
    const DeviceArray<float> on_device(x), weight(w), bias(b), out(x.size());
    for (const bool biased : {false, true}) {
      std::vector<float> want(x.size());
      for (uint32_t r = 0; r < kRows; ++r) {
        scalar::layernorm_row(x.data() + r * width, w.data(), biased ? b.data() : nullptr, 1e-5f, width, want.data() + r * width);
      }
      cuda::layernorm(stream, on_device.get(), weight.get(), biased ? bias.get() : nullptr, 1e-5f, kRows, width, out.get());
      EXPECT_SAME_BITS(want, out.to_host()) << width;
    }
  }
}

TEST(RmsNormHeads, HasTheCpusBitsAndLeavesTheRest) {
  TestStream stream;
  Random random(2);
  for (const uint32_t dim : {1u, 16u, 20u, 64u, 128u, 200u, 512u}) {
    constexpr uint32_t kRows = 5, kHeads = 7;
    const uint32_t stride = kHeads * dim + 9;
    const std::vector<float> x = random.extremes(kRows * stride), w = random.floats(dim);
    std::vector<float> want = x;
    for (uint32_t i = 0; i < kRows * kHeads; ++i) {
      float* head = want.data() + i / kHeads * stride + i % kHeads * dim;
      scalar::rmsnorm_row(head, w.data(), 1e-6f, dim, head);
    }
    const DeviceArray<float> on_device(x), weight(w);
    cuda::rmsnorm_heads(stream, weight.get(), 1e-6f, kRows, kHeads, dim, stride, on_device.get());
    EXPECT_SAME_BITS(want, on_device.to_host()) << dim;
  }
}

TEST(LayerNormHeads, HasTheCpusBitsAndLeavesTheRest) {
  TestStream stream;
  Random random(8);
  for (const uint32_t dim : {1u, 7u, 16u, 20u, 128u, 200u}) {
    constexpr uint32_t kRows = 5, kHeads = 7;
    const uint32_t stride = kHeads * dim + 9;
    const std::vector<float> x = random.extremes(kRows * stride), w = random.floats(kHeads * dim);
    std::vector<float> want = x;
    for (uint32_t i = 0; i < kRows * kHeads; ++i) {
      float* head = want.data() + i / kHeads * stride + i % kHeads * dim;
      scalar::layernorm_row(head, w.data() + i % kHeads * dim, nullptr, 1e-5f, dim, head);
    }
    const DeviceArray<float> on_device(x), weight(w);
    cuda::layernorm_heads(stream, weight.get(), 1e-5f, kRows, kHeads, dim, stride, on_device.get());
    EXPECT_SAME_BITS(want, on_device.to_host()) << dim;
  }
}

TEST(Elementwise, HasTheCpusBits) {
  TestStream stream;
  Random random(3);
  for (const uint32_t n : {1u, 3u, 4u, 1024u, 1027u, 5000u}) {
    for (const uint32_t shift : {0u, 1u}) {  // 1: no whole fours
      const std::vector<float> x = random.extremes(n + shift), y = random.extremes(n + shift);
      std::vector<float> sum = x, product = x, capped = x, bent = x, squared = x;
      for (uint32_t i = shift; i < n + shift; ++i) sum[i] = x[i] + y[i], product[i] = x[i] * 0.3f, squared[i] = x[i] < 0 ? 0 : x[i] * x[i];
      scalar::softcap_row(30.0f, n, capped.data() + shift);
      scalar::gelu_row(n, bent.data() + shift);
      const DeviceArray<float> a(x), b(x), c(x), d(x), e(x), more(y);
      cuda::add(stream, more.get() + shift, n, a.get() + shift);
      cuda::scale(stream, 0.3f, n, b.get() + shift);
      cuda::softcap(stream, 30.0f, n, c.get() + shift);
      cuda::gelu(stream, n, d.get() + shift);
      cuda::relu_squared(stream, n, e.get() + shift);
      EXPECT_SAME_BITS(sum, a.to_host()) << n;
      EXPECT_SAME_BITS(product, b.to_host()) << n;
      EXPECT_SAME_BITS(capped, c.to_host()) << n;
      EXPECT_SAME_BITS(bent, d.to_host()) << n;
      EXPECT_SAME_BITS(squared, e.to_host()) << n;
    }
  }
}

TEST(Temper, HasTheCpusBits) {
  TestStream stream;
  Random random(5);
  constexpr uint32_t kWidth = 300, kStride = 311;
  const Temperature t{0.1f, 8192};
  const std::vector<int32_t> positions{0, 8191, 8192, 100000, 262143};
  const auto rows = static_cast<uint32_t>(positions.size());
  const std::vector<float> x = random.extremes(rows * kStride);
  std::vector<float> want = x;
  for (uint32_t i = 0; i < rows * kStride; ++i) want[i] *= i % kStride < kWidth ? temperature_at(t, positions[i / kStride]) : 1;
  const DeviceArray<float> on_device(x);
  const DeviceArray<int32_t> at(positions);
  cuda::temper(stream, t, at.get(), rows, kWidth, kStride, on_device.get());
  EXPECT_SAME_BITS(want, on_device.to_host());
}

TEST(GatherRows, InPlaceAndNot) {
  TestStream stream;
  Random random(4);
  for (const uint32_t width : {7u, 300u}) {
    const std::vector<float> x = random.floats(60 * width);
    for (const uint32_t step : {1u, 2u, 3u}) {
      std::vector<uint32_t> rows;
      for (uint32_t i = step - 1; i < 60; i += step) rows.push_back(i);
      const auto n = static_cast<uint32_t>(rows.size());
      std::vector<float> want;
      for (const uint32_t row : rows) want.insert(want.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
      const DeviceArray<float> from(x), out(want.size());
      const DeviceArray<uint32_t> list(rows);
      cuda::gather_rows(stream, from.get(), list.get(), n, width, out.get());
      EXPECT_SAME_BITS(want, out.to_host());
      EXPECT_SAME_BITS(x, from.to_host());
      cuda::gather_rows(stream, from.get(), list.get(), n, width, from.get());
      std::vector<float> in_place = from.to_host();
      in_place.resize(want.size());
      EXPECT_SAME_BITS(want, in_place) << "every " << step;
    }
  }
}

// Sines and cosines of every position, long contexts and yarn's amplitude, and the rows that they rotate.
TEST(Rope, HasTheCpusBits) {
  TestStream stream;
  Random random(5);
  const std::vector<int32_t> positions = {0, 1, 77, 8191, 131071, 16000000};
  const auto rows = static_cast<uint32_t>(positions.size());
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
    for (const uint32_t dims : {2u, 16u, 48u, 64u}) {
      constexpr uint32_t kHeads = 3, kDim = 64, kStride = kHeads * kDim + 5;
      RopeParams params{style, dims, 500000.0f};
      params.scaling = dims == 48 ? RopeScaling::kYarn : RopeScaling::kNone;
      params.factor = 4, params.original_context = 4096;
      const uint32_t pairs = dims / 2;
      std::vector<double> inv_freq(pairs);
      rope_frequencies(params, inv_freq.data());
      std::vector<float> cos(rows * pairs), sin(rows * pairs), x = random.floats(rows * kStride);
      for (uint32_t i = 0; i < rows * pairs; ++i) {
        double s, c;
        rope_sincos(positions[i / pairs] * inv_freq[i % pairs], &s, &c);
        sin[i] = static_cast<float>(s * rope_amplitude(params));
        cos[i] = static_cast<float>(c * rope_amplitude(params));
      }
      const DeviceArray<int32_t> at(positions);
      const DeviceArray<double> frequencies(inv_freq);
      const DeviceArray<float> device_cos(cos.size()), device_sin(sin.size()), on_device(x);
      cuda::rope_table(stream, at.get(), rows, frequencies.get(), pairs, rope_amplitude(params), device_cos.get(), device_sin.get());
      EXPECT_SAME_BITS(cos, device_cos.to_host()) << dims;
      EXPECT_SAME_BITS(sin, device_sin.to_host()) << dims;
      cuda::rope(stream, device_cos.get(), device_sin.get(), pairs, style, rows, kHeads, kDim, kStride, on_device.get());
      for (uint32_t i = 0; i < rows * kHeads; ++i) {
        const uint32_t row = i / kHeads;
        scalar::rope_head(cos.data() + row * pairs, sin.data() + row * pairs, pairs, style == RopeStyle::kInterleaved,
                          x.data() + row * kStride + i % kHeads * kDim);
      }
      EXPECT_SAME_BITS(x, on_device.to_host()) << dims;
    }
  }
}

TEST(CopyBlocks, CopiesEachPairAndNoMore) {
  TestStream stream;
  Random random(6);
  for (const uint64_t bytes : {16ull, 4096ull, 32768ull, 32784ull, 100000ull}) {
    std::vector<uint8_t> pool(bytes * 8);
    for (uint8_t& b : pool) b = static_cast<uint8_t>(random.below(256));
    const DeviceArray<uint8_t> on_device(pool);
    std::vector<BlockPair> pairs;
    for (const auto& [to, from] : {std::pair{7u, 0u}, {2u, 1u}, {4u, 1u}}) {
      pairs.push_back({on_device.get() + to * bytes, on_device.get() + from * bytes});
      std::copy_n(pool.begin() + static_cast<ptrdiff_t>(from * bytes), bytes, pool.begin() + static_cast<ptrdiff_t>(to * bytes));
    }
    cuda::copy_blocks(stream, pairs, bytes);
    EXPECT_EQ(pool, on_device.to_host()) << bytes;
  }
}

}  // namespace
}  // namespace kvrt::test
