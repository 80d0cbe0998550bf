// fp8 KV: the rounding of a row, against a table of the format's numbers (OCP 8-bit Floating Point Specification 1.0), and attention's
// reading of every element, on every instruction set.
#include <bit>

#include "runtime/compute/quant/quants.h"
#include "tests/ops/kv_reference.h"

namespace kvrt::test {
namespace {

std::vector<const CpuKernels*> kernels_here() {
  std::vector<const CpuKernels*> out = {scalar_kernels()};
  if (open_backend("avx2")) out.push_back(avx2_kernels());
  if (open_backend("avx512")) out.push_back(avx512_kernels());
  return out;
}

// Rounds each row to fp8 by all kernels, and compares with the reference.
void expect_rows(const std::vector<float>& rows, uint32_t n) {
  std::vector<uint8_t> out(n);
  for (const CpuKernels* kernels : kernels_here()) {
    for (size_t at = 0; at < rows.size(); at += n) {
      float want_scale;
      const std::vector<uint8_t> want =
          fp8_of({rows.begin() + static_cast<ptrdiff_t>(at), rows.begin() + static_cast<ptrdiff_t>(at + n)}, &want_scale);
      uint16_t scale;
      kernels->kv_row(KvFormat::kF8, 0, &rows[at], n, out.data(), &scale);
      ASSERT_EQ(f16_to_f32(scale), want_scale) << kernels->isa << " row " << at / n << " from " << rows[at];
      for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], want[i]) << kernels->isa << " " << rows[at + i] << " over " << want_scale;
    }
  }
}

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// Every upper half of an f32, alone, so that it sets its scale, and beside numbers that set it.
TEST(Fp8, EveryUpperHalfIsRoundedToTheNearest) {
  std::vector<float> alone, below_top, beside_large, beside_small;
  for (uint32_t high = 0; high < 1 << 16; ++high) {
    for (const uint32_t low : {0u, 1u, 0x8000u, 0xffffu}) {
      const float x = of_bits(high << 16 | low);
      alone.push_back(x);
      beside_large.insert(beside_large.end(), {x, 30000});
      beside_small.insert(beside_small.end(), {x, 1e-6f});
      if (!(std::fabs(x) > 1.75f)) below_top.push_back(x);
    }
  }
  expect_rows(alone, 1);
  expect_rows(beside_large, 2);
  expect_rows(beside_small, 2);
  below_top.resize((below_top.size() + 22) / 23 * 23, 1.75f);  // a row of whole vectors and a rest
  for (size_t i = 0; i < below_top.size(); i += 23) below_top[i] = 1.75f;
  expect_rows(below_top, 23);
}

// Numbers on, just below and just above each element and each middle of two, where scales are powers of two, so that products are exact.
TEST(Fp8, TiesGoToTheEvenElement) {
  std::vector<float> rows;
  for (const int exponent : {-14, -13, 0, 8, 15}) {
    for (uint32_t code = 0; code < 0x7e; ++code) {
      for (const double x : {e4m3(code), (e4m3(code) + e4m3(code + 1)) / 2, e4m3(code + 1)}) {
        const auto exact = static_cast<float>(std::ldexp(x / 256, exponent)), top = static_cast<float>(std::ldexp(1.75, exponent));
        for (const float near : {exact, std::nextafter(exact, 0.0f), std::nextafter(exact, 1e30f)}) {
          rows.insert(rows.end(), {near, -near, top});
          rows.insert(rows.end(), {near, -near, 0});
        }
      }
    }
  }
  expect_rows(rows, 3);
}

TEST(Fp8, RowsThatAreNoNumbers) {
  const float huge = 3.4e38f;
  expect_rows({NAN, NAN, NAN, 1, NAN, -1, NAN, INFINITY, -INFINITY, huge, -huge, 1e-45f, -1e-45f, 0, -0.0f, 0, 0, 0}, 3);
}

// Attention reads the number of every byte: one key, whose weight is 1.
TEST(Fp8, EveryElementIsReadExactly) {
  constexpr uint32_t kDim = 256, kBlock = 16;
  const KvGeometry kv{1, 1, kDim, kBlock, KvFormat::kF8};
  std::vector<uint8_t> pool(kv.block_bytes());
  for (const CpuKernels* kernels : kernels_here()) {
    for (uint32_t group : {1u, 13u}) {  // straight from V, and by way of a copy in f32
      for (const float scale : {1.0f, 0x1p-24f, 0x1p15f}) {
        const uint16_t half = f32_to_f16(scale);
        for (uint32_t d = 0; d < kDim; ++d) pool[kv.v_at() + d] = static_cast<uint8_t>(d);
        std::memcpy(pool.data() + kv.k_scales_at(), &half, 2);
        std::memcpy(pool.data() + kv.v_scales_at(), &half, 2);
        std::vector<float> q(group * kDim), scratch(attention_scratch(group, kDim)), max(group), sum(group), acc(group * kDim);
        const int32_t block = 0;
        AttentionTile tile{};
        tile.q = q.data(), tile.q_stride = group * kDim;
        tile.tokens = 1, tile.group = group, tile.k_dim = tile.v_dim = kDim;
        tile.scale = 1, tile.window = INT64_MAX / 2, tile.k_format = tile.v_format = KvFormat::kF8;
        tile.k = pool.data(), tile.v = pool.data() + kv.v_at();
        tile.k_scales = pool.data() + kv.k_scales_at(), tile.v_scales = pool.data() + kv.v_scales_at();
        tile.block_bytes = kv.block_bytes(), tile.block_tokens = kBlock, tile.blocks = &block;
        tile.scratch = scratch.data(), tile.max = max.data(), tile.sum = sum.data(), tile.acc = acc.data();
        kernels->attend_span(tile);
        for (uint32_t i = 0; i < acc.size(); ++i) {
          const uint32_t code = i % kDim;
          if ((code & 0x7f) == 0x7f) continue;  // never stored
          const double want = (code < 0x80 ? 1 : -1) * e4m3(code & 0x7f) / 256 * double{scale};
          ASSERT_EQ(double{acc[i]}, want) << kernels->isa << " element " << code << " group " << group;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvrt::test
