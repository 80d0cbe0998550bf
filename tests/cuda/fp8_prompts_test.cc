// Prompts in FP8: matmuls of more than 64 rows within the bound of cuda/NUMERICS.md §3, logits beside F16's, and where it cannot be.
#include "tests/cuda/fp8_reference.h"
#include "tests/cuda/prompts_rig.h"

namespace kvrt::test {
namespace {

class CudaFp8Prompts : public CudaPrompts {
 protected:
  void SetUp() override {
    CudaPrompts::SetUp();
#ifndef KVRT_CUDA_EMULATION
    if (IsSkipped()) return;
    CudaOptions fp8;
    fp8.fp8_prompts = true;
    auto opened = CudaBackend::open(fp8, nullptr);
    if (!opened.is_ok() && opened.status().code() == Code::kUnsupported) GTEST_SKIP() << opened.status().message();
#endif
  }
};

TEST_F(CudaFp8Prompts, AMatmulIsWithinTheBoundOfItsNumerics) {
  for (const Matrix& matrix : {Matrix{{{DType::kF16, 16}}, 64}, Matrix{{{DType::kQ4_1, 40}, {DType::kQ4_1, 8}, {DType::kQ8_0, 16}}, 96},
                               Matrix{{{DType::kQ4_K, 32}}, 512}}) {
    OneMatmul m(open_with_library(/*fp8=*/true), matrix, 1);
    const E4m3Rows x8 = e4m3_rows_of(m.x, m.cols);
    for (const bool with_bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        ASSERT_TRUE(m.run(with_bias, accumulate).is_ok());
        const std::vector<float> got = m.result();
        uint32_t first = 0;
        for (const Tensor& tensor : m.tensors) {
          const std::vector<float> w = tensor.dequantized();
          const E4m3Rows w8 = e4m3_rows_of(w, m.cols);
          for (uint32_t at = 0; at < kRows * tensor.rows; ++at) {
            const uint32_t i = at / tensor.rows, row = at % tensor.rows;
            Product as_is, before;
            double rounded = 0;
            for (uint32_t k = 0; k < m.cols; ++k) {
              const size_t xk = i * m.cols + k, wk = row * m.cols + k;
              as_is.add(x8.number(xk, m.cols) * w8.number(wk, m.cols));
              before.add(double{m.x[xk]} * w[wk]);
              // Each is off by 2^-4 of itself, or by half of the smallest e4m3.
              const double dx = std::max(0x1p-4 * std::fabs(m.x[xk]), 0x1p-10 * x8.scales[i]);
              const double dw = std::max(0x1p-4 * std::fabs(w[wk]), 0x1p-10 * w8.scales[row]);
              rounded += dx * std::fabs(w[wk]) + dw * std::fabs(m.x[xk]) + dx * dw;
            }
            for (Product* product : {&as_is, &before}) {
              if (with_bias) product->add(m.bias[first + row]);
              if (accumulate) product->add(m.before[i * m.rows + first + row]);
            }
            const float result = got[i * m.rows + first + row];
            ASSERT_NEAR(result, as_is.value, fp8_bound(as_is)) << matrix.name() << " row " << row << " of " << i;
            ASSERT_NEAR(result, before.value, fp8_bound(as_is) + rounded) << matrix.name() << " row " << row << " of " << i;
          }
          first += tensor.rows;
        }
      }
    }
  }
}

// 3 bits of fraction in every product of a small model of random weights, whose logits are small sums of large terms.
class CudaFp8Models : public CudaFp8Prompts, public testing::WithParamInterface<const char*> {};

TEST_P(CudaFp8Models, AreNearF16sAndRowsAreIndependent) {
  const auto runner = [](bool fp8) { return std::make_unique<Runner>(GetParam(), open_with_library(fp8), KvFormat::kF16, kBlocks); };
  const auto fp8 = runner(true), f16 = runner(false);
  Golden golden = prompt_of(f16->model());
  golden.logits = f16->logits(golden, kTokens);
  const std::vector<float> found = fp8->logits(golden, kTokens);
  const std::vector<double> errors = row_errors(golden, found);
  std::printf("%-20s FP8 against F16: relative error of a row: median %.2e, worst %.2e\n", GetParam(), errors[errors.size() / 2],
              errors.back());
  EXPECT_GT(errors[errors.size() / 2], 1e-3) << "it was not FP8";
  EXPECT_LE(errors[errors.size() / 2], 0.2);
  EXPECT_LE(errors.back(), 0.45);
  EXPECT_EQ(fp8->logits(golden, kTokens / 2), found);
  // Fewer rows: the same kernels as ever.
  EXPECT_EQ(fp8->logits(golden, cuda::kFewRows), f16->logits(golden, cuda::kFewRows));
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaFp8Models, testing::Values("llama_mha_f16.gguf", "llama_mqa_q8_0.gguf", "llama_gqa_q4_1.gguf"),
                         [](const auto& model) {
                           const std::string name = model.param;
                           return name.substr(0, name.find('.'));
                         });

TEST_F(CudaFp8Prompts, ItsNumericsAreItsOwnAndItSaysSo) {
  Lines log;
  const auto fp8 = open_with_library(/*fp8=*/true, &log), f16 = open_with_library();
  EXPECT_EQ(std::string(fp8->numerics()), std::string(f16->numerics()) + "-f8");
  EXPECT_LT(std::string(fp8->numerics()).size(), 16u);  // kvrt_runtime_props
  EXPECT_NE(log.all.find("multiply in FP8, by cuBLASLt"), std::string::npos) << log.all;
}

#ifdef KVRT_CUDA_EMULATION
using CudaFp8StandIn = CudaFp8Prompts;

Status open_status(const CublasLt* table) {
  CudaOptions options;
  options.fp8_prompts = true;
  return CudaBackend::open(options, nullptr, table).take_status();
}

TEST_F(CudaFp8StandIn, WhereItCannotBeItSaysWhatIsMissing) {
  const auto says = [](const Status& status, const char* what) {
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  };
  says(open_status(nullptr), "FP8 prompts need cuBLASLt: cuBLASLt does not run on an emulated device");
  lt_reset({.create_status = 1});
  says(open_status(&cublaslt_stand_in()), "FP8 prompts need cuBLASLt: cublasLtCreate gave status 1");
  lt_reset({.has_algorithm = [](const LtProduct& p) { return p.type != kLtF8E4m3; }});
  says(open_status(&cublaslt_stand_in()), "cuBLASLt 130000 has no product of e4m3");
  lt_reset();
  emulation::set_capability(8, 6);
  says(open_status(&cublaslt_stand_in()), "compute capability 8.6, at least 8.9");
  emulation::set_capability(8, 9);
  EXPECT_TRUE(open_status(&cublaslt_stand_in()).is_ok());
  emulation::set_capability(12, 0);
  EXPECT_STREQ(open_with_library(true)->numerics(), "cuda-2-sm120-f8");
}

// Shapes that are not for it, weights that a file has in F32, and products that the library refuses: f16.
TEST_F(CudaFp8StandIn, WhatItDoesNotTakeStaysF16) {
  for (const Matrix& matrix : {Matrix{{{DType::kF32, 32}}, 64}, Matrix{{{DType::kQ8_0, 24}}, 64}, Matrix{{{DType::kF16, 32}}, 40}}) {
    OneMatmul fp8(open_with_library(true), matrix, 2), f16(open_with_library(), matrix, 2);
    ASSERT_TRUE(fp8.run(true, true).is_ok() && f16.run(true, true).is_ok());
    EXPECT_EQ(fp8.result(), f16.result()) << matrix.name();
  }
  const Matrix taken{{{DType::kQ8_0, 32}}, 64};
  OneMatmul fp8(open_with_library(true), taken, 2), f16(open_with_library(), taken, 2);
  ASSERT_TRUE(fp8.run(true, true).is_ok() && f16.run(true, true).is_ok());
  EXPECT_NE(fp8.result(), f16.result());
  lt_reset({.matmul_status = 15});  // then of own kernels, both
  ASSERT_TRUE(fp8.run(true, true).is_ok() && f16.run(true, true).is_ok());
  EXPECT_EQ(fp8.result(), f16.result());
  lt_reset();
  OneMatmul few(open_with_library(true), taken, 2);
  ASSERT_TRUE(few.run(false, true, cuda::kMatvecRowsMax).is_ok());
  EXPECT_EQ(lt_seen().matmuls, 0u);
}

TEST_F(CudaFp8StandIn, AFailedProductFailsItsStepAlone) {
  OneMatmul m(open_with_library(true), {{{DType::kQ8_0, 32}}, 64}, 3);
  ASSERT_TRUE(m.run(true, true).is_ok());
  const std::vector<float> want = m.result();
  lt_reset({.matmul_status = 13, .fails_after_queueing = true});
  EXPECT_EQ(m.run(true, true).os_code(), 13);
  EXPECT_EQ(m.result(), m.before);
  lt_reset();
  ASSERT_TRUE(m.run(true, true).is_ok());
  EXPECT_EQ(m.result(), want);
}
#endif

}  // namespace
}  // namespace kvrt::test
