// e4m3 on the device: rows and weights against a table of its numbers, and GemmLibrary's products of them against float64.
#include "cuda/backend/gemm_library.h"
#include "runtime/base/limits.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/fp8_reference.h"

#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/emulator.h"
#include "cuda/kernels/device.h"
#include "tests/cuda/cublaslt_stand_in.h"
#endif

namespace kvrt::test {
namespace {

constexpr float kEps = 1e-5f;

// Floats around every number and every middle of two, and all floats of 16 bits.
std::vector<float> telling_floats() {
  std::vector<float> out;
  const auto around = [&](double exact) {
    const auto f = static_cast<float>(exact);
    for (const float near : {std::nextafter(f, 0.0f), f, std::nextafter(f, 1e30f)}) out.push_back(near), out.push_back(-near);
  };
  for (uint32_t code = 0; code < 127; ++code) {
    around(e4m3_number(code));
    if (code < 126) around((e4m3_number(code) + e4m3_number(code + 1)) / 2);
  }
  for (uint32_t half = 0; half < 0x10000; ++half) out.push_back(bf16_to_f32(static_cast<uint16_t>(half)));
  for (uint32_t half = 0; half < 0x10000; ++half) out.push_back(f16_to_f32(static_cast<uint16_t>(half)));
  for (float& f : out) f = std::isnan(f) ? std::copysign(std::numeric_limits<float>::quiet_NaN(), f) : f;  // as arithmetic gives it
  return out;
}

// A row that holds 448 has the scale 1: its numbers become e4m3 as they are.
TEST(CudaE4m3, IsTheNearestNumber) {
  constexpr uint32_t kCols = 32;
  std::vector<float> x;
  for (const float f : telling_floats()) {
    if (x.size() % kCols == 0) x.push_back(448);
    if (!(std::fabs(f) > 448)) x.push_back(f);  // NaN too
  }
  x.resize((x.size() + kCols - 1) / kCols * kCols, 448);
  const auto n = static_cast<uint32_t>(x.size() / kCols);
  const DeviceArray<float> device_x(x), scales(n);
  const DeviceArray<uint8_t> out(x.size());
  TestStream stream;
  cuda::e4m3_rows(stream, device_x.get(), nullptr, 0, n, kCols, out.get(), scales.get());
  EXPECT_EQ(scales.to_host(), std::vector<float>(n, 1));
  const std::vector<uint8_t> codes = out.to_host();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(std::isnan(x[i]) ? codes[i] | 0x80 : codes[i], std::isnan(x[i]) ? 0xff : to_e4m3(x[i])) << x[i];  // a NaN has no sign
}

#ifdef KVRT_CUDA_EMULATION
TEST(CudaE4m3, IsTheNearestNumberBeyondItsRangeToo) {
  for (const float f : telling_floats()) ASSERT_EQ(cuda::float_to_e4m3(f), to_e4m3(f)) << f;
  for (uint32_t code = 0; code < 256; ++code) EXPECT_TRUE(code % 128 == 127 || lt_e4m3_to_float(code) == e4m3_number(code)) << code;
}
#endif

void expect_rows(const std::vector<float>& x, uint32_t cols, const std::vector<uint8_t>& codes, const std::vector<float>& scales) {
  const E4m3Rows want = e4m3_rows_of(x, cols);
  ASSERT_EQ(scales, want.scales);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(codes[i], want.codes[i]) << i << ": " << x[i] << " over " << scales[i / cols];
}

TEST(CudaE4m3Rows, HaveAScaleEach) {
  Random random(1);
  for (const uint32_t cols : {16u, 576u, 4112u}) {
    for (const bool norm : {false, true}) {
      constexpr uint32_t kRows = 5;
      std::vector<float> x = norm ? random.floats(kRows * cols, 100) : random.extremes(kRows * cols);
      if (!norm) {
        for (uint32_t i = 0; i < cols; ++i) x[cols + i] = 0, x[2 * cols + i] *= 0x1p-140f;
        x[3 * cols + 1] = std::numeric_limits<float>::infinity();
        x[4 * cols + 2] = std::numeric_limits<float>::quiet_NaN();
      }
      const std::vector<float> weight = random.floats(cols);
      std::vector<float> rows = x;
      for (uint32_t i = 0; norm && i < kRows; ++i) {
        scalar_kernels()->rmsnorm_row(&x[i * cols], weight.data(), kEps, cols, &rows[i * cols]);
      }
      const DeviceArray<float> device_x(x), device_weight(weight), scales(kRows);
      const DeviceArray<uint8_t> out(x.size());
      TestStream stream;
      const float* norm_of = norm ? device_weight.get() : nullptr;
      cuda::e4m3_rows(stream, device_x.get(), norm_of, kEps, kRows, cols, out.get(), scales.get());
      expect_rows(rows, cols, out.to_host(), scales.to_host());
      const DeviceArray<uint8_t> alone(cols);  // the last row by itself
      cuda::e4m3_rows(stream, device_x.get() + (kRows - 1) * cols, norm_of, kEps, 1, cols, alone.get(), scales.get());
      const std::vector<uint8_t> all = out.to_host();
      EXPECT_EQ(alone.to_host(), std::vector<uint8_t>(all.end() - cols, all.end()));
    }
  }
}

TEST(CudaE4m3Weights, AreTheDequantizedOnes) {
  Random random(2);
  for (const DType type : all_types()) {
    const uint32_t cols = dtype_info(static_cast<uint32_t>(type))->block_elems == 256 ? 768 : 608;
    const UploadedWeight w = upload_weight({random_tensor(type, 37, cols, &random), random_tensor(type, 11, cols, &random)});
    std::vector<float> all(uint64_t{w.device.rows} * cols);
    for (uint32_t row = 0; row < w.device.rows; ++row) w.panels().dequantize(row, &all[row * cols]);
    const DeviceArray<uint8_t> out(all.size());
    const DeviceArray<float> scales(w.device.rows);
    TestStream stream;
    cuda::dequantize_e4m3(stream, w.device, out.get(), scales.get());
    SCOPED_TRACE(name_of(type));
    expect_rows(all, cols, out.to_host(), scales.to_host());
  }
}

TEST(CudaScaleProducts, MultipliesThenAdds) {
  Random random(3);
  for (const uint32_t rows : {4u, 16u, 1028u}) {
    constexpr uint32_t kN = 3;
    const std::vector<float> products = random.floats(kN * rows), bias = random.floats(rows), before = random.floats(kN * rows);
    const std::vector<float> x_scales{0x1p-7f, 1, 0x1p20f};
    std::vector<float> w_scales;
    for (uint32_t i = 0; i < rows; ++i) w_scales.push_back(std::ldexp(1.0f, static_cast<int>(i % 40) - 20));
    const DeviceArray<float> p(products), b(bias), xs(x_scales), ws(w_scales);
    for (const bool with_bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        std::vector<float> want(products.size());
        for (uint32_t i = 0; i < want.size(); ++i) {
          float v = products[i] * x_scales[i / rows] * w_scales[i % rows];
          if (with_bias) v += bias[i % rows];
          want[i] = accumulate ? before[i] + v : v;
        }
        const DeviceArray<float> out(accumulate ? before : products);
        TestStream stream;
        cuda::scale_products(stream, accumulate ? p.get() : out.get(), xs.get(), ws.get(), with_bias ? b.get() : nullptr, kN, rows,
                             accumulate, out.get());
        EXPECT_SAME_BITS(out.to_host(), want) << rows;
      }
    }
  }
}

// ---- products

class CudaE4m3Products : public testing::Test {
 protected:
  void SetUp() override {
#ifdef KVRT_CUDA_EMULATION
    emulation::reset();
    lt_reset();
    const cuda::CublasLt table = cublaslt_stand_in();
#else
    auto loaded = cuda::load_cublaslt();
    if (!loaded.is_ok()) GTEST_SKIP() << loaded.status().message();
    const cuda::CublasLt table = *loaded;
#endif
    context_ = std::move(cuda::DeviceContext::open(0)).value();
    const auto& p = context_->properties();
    if (p.major * 10 + p.minor < 89) GTEST_SKIP() << "compute capability " << p.major << "." << p.minor;
    library_ = std::move(cuda::GemmLibrary::open(table, context_.get(), false)).value();
  }
  std::unique_ptr<cuda::DeviceContext> context_;
  std::unique_ptr<cuda::GemmLibrary> library_;
};

std::vector<uint8_t> random_codes(size_t n, Random* random) {
  std::vector<uint8_t> codes(n);
  for (uint8_t& code : codes) code = to_e4m3(random->normal() * 60);
  return codes;
}

TEST_F(CudaE4m3Products, AreWithinBoundAndRowsAreIndependent) {
  Random random(4);
  for (const auto& [rows, cols] : {std::pair{16u, 16u}, {48u, 272u}, {64u, 1024u}}) {
    const std::vector<uint8_t> w = random_codes(rows * cols, &random), x = random_codes(kStepRowsMax * cols, &random);
    const DeviceArray<uint8_t> device_w(w), device_x(x);
    ASSERT_TRUE(library_->takes_e4m3(rows, cols, kStepRowsMax));
    std::vector<float> all;
    for (const uint32_t n : {kStepRowsMax, 129u, 17u, 1u}) {
      const DeviceArray<float> out(uint64_t{n} * rows);
      TestStream stream;
      auto done = library_->gemm_e4m3(device_w.get(), rows, cols, device_x.get(), n, out.get(), stream.stream.handle);
      ASSERT_TRUE(done.is_ok() && *done);
      const std::vector<float> got = out.to_host();
      if (all.empty()) all = got;
      EXPECT_SAME_BITS(got, rows_of(all, rows, 0, n)) << n;
    }
    for (uint32_t i = 0; i < kStepRowsMax; i += 7) {
      for (uint32_t row = 0; row < rows; ++row) {
        Product want;
        for (uint32_t k = 0; k < cols; ++k) want.add(e4m3_number(x[i * cols + k]) * e4m3_number(w[row * cols + k]));
        ASSERT_NEAR(all[i * rows + row], want.value, fp8_bound(want)) << rows << " x " << cols << ", row " << row << " of " << i;
      }
    }
  }
}

#ifdef KVRT_CUDA_EMULATION
TEST_F(CudaE4m3Products, ShapesThatItDoesNotTake) {
  EXPECT_FALSE(library_->takes_e4m3(24, 32, 512));
  EXPECT_FALSE(library_->takes_e4m3(32, 24, 512));
  EXPECT_EQ(lt_seen().heuristics, 0u);
  lt_reset({.has_algorithm = [](const LtProduct& p) { return p.type != kLtF8E4m3 || p.m != 32; }});
  EXPECT_FALSE(library_->takes_e4m3(32, 32, 512));
  EXPECT_TRUE(library_->takes_e4m3(48, 32, 512));
  EXPECT_EQ(lt_seen().asked.type, kLtF8E4m3);
}
#endif

}  // namespace
}  // namespace kvrt::test
