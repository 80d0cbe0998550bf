// Kernels that do the work of several: they have the bits of those.
#include "cuda/kernels/kernels.h"
#include "tests/cuda/attention_support.h"
#include "tests/cuda/matmul_reference.h"

namespace kvrt::test {
namespace {

using cuda::DeviceActivation;
using cuda::MatvecInput;

constexpr float kEps = 1e-5f;

// A NaN may become a NaN of any kind; all else has the same bits.
void expect_same_numbers(const std::vector<float>& want, const std::vector<float>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::memcmp(&want[i], &got[i], sizeof(float)), 0) << i << ": " << got[i] << ", expected " << want[i];
  }
}

// ---- rows that a matvec normalizes and quantizes itself

// Rows as they are, and as quantize_rows and rmsnorm make them.
struct RawRows {
  DeviceArray<float> x, norm, normed, d, s;
  DeviceArray<int8_t> q;
  DeviceArray<int16_t> sums;
  MatvecInput own, given;
  RawRows(cuda::Stream* stream, const std::vector<float>& from, uint32_t cols, const std::vector<float>* weight) : x(from) {
    const auto n = static_cast<uint32_t>(from.size() / cols);
    if (weight != nullptr) {
      norm = DeviceArray<float>(*weight);
      normed = DeviceArray<float>(from.size());
      cuda::rmsnorm(stream, x.get(), norm.get(), kEps, n, cols, normed.get());
    }
    own = {x.get(), {}, n, norm.get(), kEps};
    given = {weight ? normed.get() : x.get(), {}, n};
    if (cols % 32 != 0) return;
    const size_t cells = size_t{cuda::quant_room(n)} * cols;
    q = DeviceArray<int8_t>(cells);
    d = DeviceArray<float>(cells / 32);
    s = DeviceArray<float>(cells / 32);
    sums = DeviceArray<int16_t>(cells / 16);
    given.quantized = {q.get(), d.get(), s.get(), sums.get()};
    cuda::quantize_rows(stream, x.get(), norm.get(), kEps, n, cols, given.quantized);
  }
};

// Matrices of each type, small and with more columns than threads, of several parts, and of several types.
std::vector<Matrix> matrices() {
  std::vector<Matrix> out;
  for (const DType type : all_types()) {
    const bool super = dtype_info(static_cast<uint32_t>(type))->block_elems == 256;
    out.push_back({{{type, 37}, {type, 16}, {type, 1}}, super ? 512u : is_plain(type) ? 75u : 96u});
    out.push_back({{{type, 3}}, is_plain(type) ? 1100u : 4864u});
  }
  out.push_back({{{DType::kQ4_1, 33}}, 32});
  out.push_back({{{DType::kQ8_0, 33}, {DType::kF16, 20}, {DType::kQ8_0, 7}}, 96});
  out.push_back({{{DType::kQ4_K, 40}, {DType::kQ6_K, 24}}, 2048});
  return out;
}

TEST(OwnRows, HaveTheBitsOfGivenOnes) {
  Random random(1);
  for (const Matrix& matrix : matrices()) {
    const UploadedWeight w = upload_weight(matrix.make(&random));
    const uint32_t cols = w.device.cols, rows = w.device.rows;
    for (const uint32_t n : {1u, 2u, 3u, 8u}) {
      if (!cuda::matvec_takes_rows(w.device, n)) continue;
      for (const bool norm : {false, true}) {
        std::vector<float> x = norm ? random.floats(uint64_t{n} * cols) : random.extremes(uint64_t{n} * cols);
        if (n == 3) x[2] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> weight = random.floats(cols);
        TestStream stream;
        const DeviceArray<float> bias(random.floats(rows));
        const RawRows in(stream, x, cols, norm ? &weight : nullptr);
        const auto run = [&](const MatvecInput& one) {
          const DeviceArray<float> out(std::vector<float>(uint64_t{n} * rows, 0.25f));
          cuda::matvec(stream, w.device, norm ? bias.get() : nullptr, one, /*accumulate=*/norm, out.get());
          return out.to_host();
        };
        SCOPED_TRACE(matrix.name() + " n " + std::to_string(n));
        expect_same_numbers(run(in.given), run(in.own));
      }
    }
  }
}

// Gate and up in one launch and in two.
TEST(OwnRows, HaveTheBitsOfGivenOnesInActivations) {
  Random random(2);
  for (const Matrix& matrix : {Matrix{{{DType::kQ4_1, 192}, {DType::kQ4_1, 192}}, 64}, Matrix{{{DType::kQ4_1, 37}, {DType::kQ8_0, 37}}, 96},
                               Matrix{{{DType::kF16, 100}, {DType::kQ5_0, 100}}, 32}, Matrix{{{DType::kQ6_K, 2 * 16}}, 2560},
                               Matrix{{{DType::kF16, 2 * 20}}, 75}}) {
    const UploadedWeight w = upload_weight(matrix.make(&random));
    for (const uint32_t n : {1u, 2u, 7u}) {
      if (!cuda::matvec_takes_rows(w.device, n)) continue;
      const std::vector<float> x = random.floats(uint64_t{n} * w.device.cols), weight = random.floats(w.device.cols);
      TestStream stream;
      const RawRows in(stream, x, w.device.cols, &weight);
      const auto run = [&](const MatvecInput& one) {
        const DeviceArray<float> out(uint64_t{n} * w.device.rows / 2);
        cuda::matvec_act(stream, w.device, DeviceActivation::kSilu, one, out.get());
        return out.to_host();
      };
      EXPECT_SAME_BITS(run(in.given), run(in.own)) << matrix.name() << " n " << n;
    }
  }
}

TEST(OwnRows, WhereTheyAreCheap) {
  const auto takes = [](uint32_t rows, uint32_t cols, uint32_t n) { return cuda::matvec_takes_rows({rows, cols, 1, {}}, n); };
  EXPECT_TRUE(takes(49152, 576, 1));  // SmolLM2's head
  EXPECT_TRUE(takes(960, 576, 8));
  EXPECT_FALSE(takes(960, 576, 9));
  EXPECT_TRUE(takes(576, 1536, 5));
  EXPECT_FALSE(takes(576, 1536, 6));    // more than a block's shared memory
  EXPECT_TRUE(takes(6144, 4096, 1));    // Llama 3 8B's qkv
  EXPECT_FALSE(takes(28672, 4096, 1));  // gate and up
}

// ---- norms, rotation and store in one

struct RopeCase {
  Shape shape;
  RopeStyle style;
  uint32_t dims;  // rotated
  bool norm, norm_rows;
  bool factors = false;  // of Q and K
};

// The values in Q's place and in the pool after the batch: in one kernel, or in four.
std::pair<std::vector<float>, std::vector<uint8_t>> rope_and_store(const RopeCase& c, bool fused) {
  const Shape& s = c.shape;
  const uint32_t pairs = c.dims / 2, runs = c.norm_rows ? 1 : s.heads, kv_runs = c.norm_rows ? 1 : s.kv_heads;
  World world(s, {45, 20}, s.head_dim);
  for (uint32_t d = 0; d < s.head_dim; ++d) world.k(0, 31, 0)[d] *= 1e9f, world.v(1, 5, 0)[d] = 0, world.k(1, 6, 0)[d] *= 1e-7f;
  const BatchOnDevice on(&world, {{1, 3, 5}, {0, 44, 1, false}, {0, 29, 4}, {1, 19, 1}});
  Random random(s.heads);
  const DeviceArray<float> cos(random.floats(on.rows * pairs)), sin(random.floats(on.rows * pairs));
  const DeviceArray<float> q_norm(random.floats(s.q_width() / runs)), k_norm(random.floats(s.k_width() / kv_runs));
  const DeviceArray<float> factors(random.floats(s.q_width() + s.k_width()));
  float *q = on.x.get(), *k = q + s.q_width(), *v = k + s.k_width();
  if (fused) {
    cuda::DeviceRopeStore params{
        cos.get(), sin.get(), pairs, c.style, s.heads, c.norm ? q_norm.get() : nullptr, c.norm ? k_norm.get() : nullptr, c.norm_rows, kEps};
    if (c.factors) params.factors = factors.get();
    cuda::rope_store(world.stream, s.kv(), world.pool.get(), kLayer, on.step, on.rows, params, s.stride(), q);
  } else {
    if (c.norm) {
      cuda::rmsnorm_heads(world.stream, q_norm.get(), kEps, on.rows, runs, s.q_width() / runs, s.stride(), q);
      cuda::rmsnorm_heads(world.stream, k_norm.get(), kEps, on.rows, kv_runs, s.k_width() / kv_runs, s.stride(), k);
    }
    cuda::rope(world.stream, cos.get(), sin.get(), pairs, c.style, on.rows, s.heads + s.kv_heads, s.head_dim, s.stride(), q);
    if (c.factors) {
      cuda::multiply(world.stream, Gate::kPlain, on.rows, s.q_width() + s.k_width(), q, s.stride(), factors.get(), 0, q, s.stride());
    }
    cuda::kv_store(world.stream, s.kv(), world.pool.get(), kLayer, on.step, on.rows, k, v, s.stride());
  }
  std::vector<float> x = on.x.to_host();
  for (uint32_t row = 0; row < on.rows; ++row) std::fill_n(x.begin() + row * s.stride() + s.q_width(), s.k_width(), 0.0f);  // K: nobody's
  return {x, world.pool.to_host()};
}

TEST(RopeStore, HasTheBitsOfItsParts) {
  for (const KvFormats formats : some_formats()) {
    for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
      for (const RopeCase& c :
           {RopeCase{{9, 3, 64, formats, 32}, style, 64, false, false}, RopeCase{{4, 1, 128, formats, 16}, style, 128, true, false},
            RopeCase{{5, 5, 80, formats, 16}, style, 32, false, false}, RopeCase{{3, 1, 512, formats, 64}, style, 128, true, false},
            RopeCase{{40, 40, 64, formats, 16}, style, 64, true, true}, RopeCase{{6, 2, 24, formats, 32}, style, 8, true, true},
            RopeCase{{2, 1, 16, formats, 16}, style, 0, false, false}, RopeCase{{6, 2, 64, formats, 32, 0, 0, 24}, style, 64, true, true},
            RopeCase{{9, 3, 64, formats, 32}, style, 48, false, false, true},
            RopeCase{{6, 2, 80, formats, 16}, style, 80, true, false, true}}) {
        const auto [want_x, want_pool] = rope_and_store(c, false);
        const auto [x, pool] = rope_and_store(c, true);
        EXPECT_SAME_BITS(want_x, x) << c.shape << ", rotated " << c.dims << ", norms " << c.norm << c.norm_rows;
        EXPECT_EQ(want_pool, pool) << c.shape << ", rotated " << c.dims << ", norms " << c.norm << c.norm_rows;
      }
    }
  }
}

}  // namespace
}  // namespace kvrt::test
