// GemmLibrary: its products against float64, and those that the library refuses or fails. On a device it is cuBLASLt, else
// the stand-in.
#include "cuda/backend/gemm_library.h"

#include "runtime/base/limits.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/matmul_reference.h"

#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/emulator.h"
#include "tests/cuda/cublaslt_stand_in.h"
#endif

namespace kvrt::test {
namespace {

using cuda::CublasLt;
using cuda::DeviceContext;
using cuda::GemmLibrary;

class CudaGemmLibrary : public testing::Test {
 protected:
  void SetUp() override {
#ifdef KVRT_CUDA_EMULATION
    emulation::reset();
    lt_reset();
    table_ = cublaslt_stand_in();
#else
    auto loaded = cuda::load_cublaslt();
    if (!loaded.is_ok()) GTEST_SKIP() << loaded.status().message();
    table_ = *loaded;
#endif
    context_ = std::move(DeviceContext::open(0)).value();
  }
  void TearDown() override {
#ifdef KVRT_CUDA_EMULATION
    EXPECT_EQ(lt_seen().live, 0);
#endif
  }
  std::unique_ptr<GemmLibrary> open(bool nondeterministic = false) {
    return std::move(GemmLibrary::open(table_, context_.get(), nondeterministic)).value();
  }

  CublasLt table_{};
  std::unique_ptr<DeviceContext> context_;
};

// n rows of x and a weight, and their product by a library.
struct Problem {
  uint32_t rows, cols, n;
  std::vector<uint16_t> w, x;
  std::vector<float> bias, before;
  DeviceArray<uint16_t> device_w, device_x;
  DeviceArray<float> device_bias, out;

  Problem(uint32_t rows_, uint32_t cols_, uint32_t n_, Random* random)
      : rows(rows_), cols(cols_), n(n_), w(rows_ * cols_), x(n_ * cols_), bias(random->floats(rows_)), before(random->floats(n_ * rows_)) {
    for (uint16_t& half : w) half = f32_to_f16(random->normal());
    for (uint16_t& half : x) half = f32_to_f16(random->normal());
    device_w = DeviceArray<uint16_t>(w);
    device_x = DeviceArray<uint16_t>(x);
    device_bias = DeviceArray<float>(bias);
  }
  Result<bool> run(GemmLibrary* library, bool with_bias = false, bool accumulate = false) {
    out = accumulate ? DeviceArray<float>(before) : DeviceArray<float>(before.size());
    TestStream stream;
    return library->gemm(device_w.get(), rows, cols, device_x.get(), n, with_bias ? device_bias.get() : nullptr, accumulate, out.get(),
                         stream.stream.handle);
  }
  Product product(uint32_t i, uint32_t row, bool with_bias, bool accumulate) const {
    Product p;
    for (uint32_t k = 0; k < cols; ++k) p.add(double{f16_to_f32(x[i * cols + k])} * f16_to_f32(w[row * cols + k]));
    if (with_bias) p.add(bias[row]);
    if (accumulate) p.add(before[i * rows + row]);
    return p;
  }
};

bool works(Result<bool> result) {
  EXPECT_TRUE(result.is_ok()) << result.status().message();
  return result.is_ok() && *result;
}

TEST_F(CudaGemmLibrary, IsWithinBoundAndRowsAreIndependent) {
  const auto library = open();
  Random random(1);
  for (const auto& [rows, cols] : {std::pair{16u, 16u}, {33u, 72u}, {100u, 264u}}) {
    for (const bool with_bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        Problem whole(rows, cols, 512, &random);
        ASSERT_TRUE(works(whole.run(library.get(), with_bias, accumulate)));
        const std::vector<float> all = whole.out.to_host();
        for (uint32_t i = 0; i < whole.n; i += 5) {
          for (uint32_t row = 0; row < rows; ++row) {
            const Product want = whole.product(i, row, with_bias, accumulate);
            ASSERT_NEAR(all[i * rows + row], want.value, 2 * want.bound()) << rows << " x " << cols << ", row " << row << " of " << i;
          }
        }
        for (const uint32_t n : {1u, 17u, 129u}) {
          whole.n = n;
          ASSERT_TRUE(works(whole.run(library.get(), with_bias, accumulate)));
          EXPECT_SAME_BITS(rows_of(whole.out.to_host(), rows, 0, n), rows_of(all, rows, 0, n)) << rows << " x " << cols << ", " << n;
        }
      }
    }
  }
#ifdef KVRT_CUDA_EMULATION
  EXPECT_EQ(lt_seen().heuristics, 6u);  // a shape with a bias, and without
  EXPECT_EQ(lt_seen().matmuls, 4u * 4 * 3);
#endif
}

TEST_F(CudaGemmLibrary, FastestIsWithinBound) {
  const auto library = open(/*nondeterministic=*/true);
  Random random(2);
  for (const uint32_t n : {1u, 17u, 129u, 512u}) {
    Problem p(64, 512, n, &random);
    ASSERT_TRUE(works(p.run(library.get())));
    const std::vector<float> all = p.out.to_host();
    for (uint32_t i = 0; i < n; ++i) {
      const Product want = p.product(i, i % p.rows, false, false);
      ASSERT_NEAR(all[i * p.rows + i % p.rows], want.value, 2 * want.bound());
    }
  }
}

#ifdef KVRT_CUDA_EMULATION
using CudaGemmStandIn = CudaGemmLibrary;

TEST_F(CudaGemmStandIn, AsksOnceForAWholeStepAndForNoSumInParts) {
  const auto fixed = open(), fastest = open(/*nondeterministic=*/true);
  Random random(3);
  Problem p(16, 32, 17, &random);
  ASSERT_TRUE(works(p.run(fixed.get())));
  EXPECT_EQ(lt_seen().asked.n, kStepRowsMax);
  EXPECT_EQ(lt_seen().asked.m, 16u);
  EXPECT_EQ(lt_seen().asked.k, 32u);
  EXPECT_EQ(lt_seen().reductions, 0u);
  EXPECT_EQ(lt_seen().workspace_bytes, 32u << 20);
  ASSERT_TRUE(works(p.run(fastest.get())));
  EXPECT_EQ(lt_seen().asked.n, 17u);
  EXPECT_EQ(lt_seen().reductions, 7u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(works(p.run(fixed.get())) && works(p.run(fastest.get())));
  EXPECT_EQ(lt_seen().heuristics, 2u);
}

TEST_F(CudaGemmStandIn, WhatItDoesNotDoIsLeftToOthers) {
  const auto library = open();
  Random random(4);
  Problem p(16, 32, 17, &random);
  lt_reset({.has_algorithm = [](const LtProduct& product) { return !product.bias; }});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(works(p.run(library.get(), /*with_bias=*/true, /*accumulate=*/true)));
    EXPECT_SAME_BITS(p.out.to_host(), p.before);
    EXPECT_TRUE(works(p.run(library.get())));
  }
  EXPECT_EQ(lt_seen().heuristics, 2u);
  // Memory that is not aligned as the library was told.
  TestStream stream;
  const DeviceArray<float> out(p.before.size() + 1);
  EXPECT_FALSE(
      works(library->gemm(p.device_w.get(), p.rows, p.cols, p.device_x.get(), p.n, nullptr, false, out.get() + 1, stream.stream.handle)));
}

// Once refused, always: a weight's rows keep their kernel.
TEST_F(CudaGemmStandIn, ARefusedProductIsLeftToOthersForGood) {
  const auto library = open();
  Random random(5);
  Problem p(16, 32, 17, &random);
  for (const int refused : {7, 8, 15}) {
    p.cols = p.cols == 32 ? 16 : 8;  // another shape
    if (refused == 15) p.rows = 8;
    lt_reset({.matmul_status = refused});
    EXPECT_FALSE(works(p.run(library.get(), false, /*accumulate=*/true))) << refused;
    EXPECT_SAME_BITS(p.out.to_host(), p.before);
    lt_reset();
    EXPECT_FALSE(works(p.run(library.get())));
    EXPECT_EQ(lt_seen().matmuls, 0u);
  }
}

TEST_F(CudaGemmStandIn, AFailedProductIsAnError) {
  const auto library = open();
  Random random(6);
  Problem p(16, 32, 17, &random);
  lt_reset({.matmul_status = 13});
  const Result<bool> result = p.run(library.get());
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), Code::kDevice);
  EXPECT_EQ(result.status().os_code(), 13);
  EXPECT_NE(result.status().message().find("cublasLtMatmul gave status 13 for 16 x 32"), std::string::npos) << result.status().message();
  lt_reset();
  EXPECT_TRUE(works(p.run(library.get())));
}

TEST_F(CudaGemmStandIn, WhatDoesNotOpenSaysWhy) {
  lt_reset({.create_status = 1});
  const Status status = GemmLibrary::open(table_, context_.get(), false).take_status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("cublasLtCreate gave status 1"), std::string::npos) << status.message();
  lt_reset();
  emulation::set_budget(emulation::live().device_bytes + (1 << 20));
  EXPECT_EQ(GemmLibrary::open(table_, context_.get(), false).take_status().code(), Code::kNoMemory);  // no room to work in
}

// The stand-in sees the mistakes that it is there to see.
TEST_F(CudaGemmStandIn, TellsOfMisuse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(table_.destroy(&table_), "an object that is not there");
  void* layout = nullptr;
  EXPECT_DEATH(table_.layout_create(&layout, cuda::lt::kF16, 16, 2, 8), "columns that overlap");
}
#endif

}  // namespace
}  // namespace kvrt::test
