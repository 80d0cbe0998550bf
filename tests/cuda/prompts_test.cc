// Steps of more than 64 rows, whose matmuls are a library's: each within the bound of cuda/NUMERICS.md §3, logits against the CPU's, and
// a step whose library fails. On a device the library is cuBLASLt, else the stand-in.
#include "tests/cuda/prompts_rig.h"

namespace kvrt::test {
namespace {

TEST_F(CudaPrompts, AMatmulIsWithinTheBoundOfItsNumerics) {
  const std::vector<Matrix> all{{{{DType::kF32, 33}}, 72},
                                {{{DType::kQ4_1, 40}, {DType::kQ4_1, 8}, {DType::kQ8_0, 16}}, 96},
                                {{{DType::kQ4_K, 32}}, 512},
                                {{{DType::kF16, 48}}, 30}};  // no multiple of 8: own kernels
  for (const Matrix& matrix : all) {
    OneMatmul m(open_with_library(), matrix, 1);
    for (const bool with_bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        ASSERT_TRUE(m.run(with_bias, accumulate).is_ok());
        const std::vector<float> got = m.result();
        uint32_t first = 0;
        for (const Tensor& tensor : m.tensors) {
          const std::vector<float> w = tensor.dequantized();
          for (uint32_t at = 0; at < kRows * tensor.rows; ++at) {
            const uint32_t i = at / tensor.rows, row = at % tensor.rows;
            Product as_is;
            for (uint32_t k = 0; k < m.cols; ++k) {
              as_is.add(double{f16_to_f32(f32_to_f16(m.x[i * m.cols + k]))} * f16_to_f32(f32_to_f16(w[row * m.cols + k])));
            }
            if (with_bias) as_is.add(m.bias[first + row]);
            if (accumulate) as_is.add(m.before[i * m.rows + first + row]);
            ASSERT_NEAR(got[i * m.rows + first + row], as_is.value, 2 * as_is.bound()) << matrix.name() << " row " << row << " of " << i;
          }
          first += tensor.rows;
        }
      }
    }
  }
}

// ---- whole models

struct Variant {
  std::string model;
  bool mixed;  // few rows meet its weights as integers: the CPU's rows all do, here those with logits, which a last bit may tip over
};
class CudaPromptModels : public CudaPrompts, public testing::WithParamInterface<Variant> {
 protected:
  static std::unique_ptr<Runner> runner(std::unique_ptr<Backend> backend) {
    return std::make_unique<Runner>(GetParam().model, std::move(backend), KvFormat::kF16, kBlocks);
  }
};

TEST_P(CudaPromptModels, AreNearTheCpusAndOwnKernels) {
  const auto library = runner(open_with_library()), own = runner(open_own());
  const auto cpu = runner(std::move(open_cpu({1, ""}, nullptr)).value());
  Golden golden = prompt_of(cpu->model());
  const std::vector<float> found = library->logits(golden, kTokens);
  const auto compare = [&](Runner* other, const char* what, double median, double worst) {
    golden.logits = other->logits(golden, kTokens);
    const std::vector<double> errors = row_errors(golden, found);
    std::printf("%-20s against %s: relative error of a row: median %.2e, worst %.2e\n", GetParam().model.c_str(), what,
                errors[errors.size() / 2], errors.back());
    EXPECT_LE(errors[errors.size() / 2], median);
    EXPECT_LE(errors.back(), worst);
  };
  compare(own.get(), "own kernels", 1e-3, GetParam().mixed ? 2e-2 : 4e-3);
  compare(cpu.get(), "the CPU", GetParam().mixed ? 4e-2 : 3e-3, GetParam().mixed ? 8e-2 : 8e-3);
  // A row does not depend on the others of its step.
  EXPECT_EQ(library->logits(golden, kTokens / 2), found);
#ifdef KVRT_CUDA_EMULATION
  EXPECT_GT(lt_seen().matmuls, 0u);
#endif
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaPromptModels,
                         testing::Values(Variant{"llama_gqa_f32.gguf", false}, Variant{"qwen2_gqa_f32.gguf", false},
                                         Variant{"llama_gqa_q4_1.gguf", true}, Variant{"row_gemma3.gguf", false},
                                         Variant{"row_phi3_long.gguf", false}, Variant{"row_qwen3moe.gguf", false}),
                         [](const auto& variant) { return variant.param.model.substr(0, variant.param.model.find('.')); });

#ifdef KVRT_CUDA_EMULATION
using CudaPromptsStandIn = CudaPrompts;

const Matrix kMatrix{{{DType::kF32, 32}}, 64};

// The library's part of a step waits in the stream like any other.
TEST_F(CudaPromptsStandIn, WaitsWhereItMust) {
  const auto logits = [](bool deferred) {
    emulation::set_deferred(deferred);
    Runner runner("row_qwen3moe.gguf", open_with_library(), KvFormat::kF16, kBlocks);
    return runner.logits(prompt_of(runner.model()), kTokens);
  };
  EXPECT_EQ(logits(false), logits(true));
}

TEST_F(CudaPromptsStandIn, WhatItRefusesOwnKernelsDo) {
  const auto logits = [](std::unique_ptr<Backend> backend) {
    Runner runner("llama_gqa_q4_1.gguf", std::move(backend), KvFormat::kF16, kBlocks);
    return runner.logits(prompt_of(runner.model()), kTokens);
  };
  lt_reset({.has_algorithm = [](const LtProduct&) { return false; }});
  const std::vector<float> own = logits(open_own());
  EXPECT_EQ(logits(open_with_library()), own);
  EXPECT_EQ(lt_seen().matmuls, 0u);
  lt_reset({.matmul_status = 15});
  EXPECT_EQ(logits(open_with_library()), own);
  EXPECT_GT(lt_seen().matmuls, 0u);
  lt_reset();
  EXPECT_NE(logits(open_with_library()), own);
}

TEST_F(CudaPromptsStandIn, FewerRowsAreNotForIt) {
  const Matrix quantized{{{DType::kQ8_0, 32}}, 64};
  for (const auto& [matrix, most] : {std::pair{kMatrix, cuda::kFewRows}, {quantized, cuda::kMatvecRowsMax}}) {
    lt_reset();
    OneMatmul m(open_with_library(), matrix, 2);
    ASSERT_TRUE(m.run(false, false, most).is_ok());
    EXPECT_EQ(lt_seen().matmuls, 0u);
    const std::vector<float> few = m.result();
    ASSERT_TRUE(m.run(false, false, 1).is_ok());
    EXPECT_TRUE(std::equal(few.begin(), few.begin() + m.rows, m.result().begin()));
    ASSERT_TRUE(m.run(false, false, most + 1).is_ok());
    EXPECT_EQ(lt_seen().matmuls, 1u);
  }
}

TEST_F(CudaPromptsStandIn, WhyThereIsNoneIsLogged) {
  Lines log;
  (void)open_own(&log);
  EXPECT_NE(log.warnings.find("not by cuBLASLt: cublasLtCreate gave status 1"), std::string::npos) << log.all;
  log.warnings.clear();
  (void)open(nullptr, &log);  // nothing is found
  EXPECT_NE(log.warnings.find("libcublas-13-0"), std::string::npos) << log.all;
  log.warnings.clear();
  (void)open_with_library(false, &log);
  CudaOptions strict;
  strict.determinism = Determinism::kStrict;  // which uses none
  EXPECT_TRUE(CudaBackend::open(strict, &log).is_ok());
  EXPECT_EQ(log.warnings, "");
}

// A plan's figure of the device's own memory is the memory that it takes, and no step asks for more: be it long or short, first or last.
TEST_F(CudaPromptsStandIn, StepsHaveTheirMemoryFromTheStart) {
  struct Case {
    const char* model;
    bool library, fp8;
    Determinism determinism;
  };
  for (const Case& c :
       {Case{"llama_gqa_q4_1", true, false, Determinism::kByClass}, Case{"llama_mha_f16", true, true, Determinism::kByClass},
        Case{"llama_mha_f16", true, false, Determinism::kByClass},  // a head of plain numbers, of which a library wants a copy
        Case{"row_gemma3", false, false, Determinism::kByClass}, Case{"row_qwen3moe", true, false, Determinism::kByClass},
        Case{"llama_gqa_f32", true, false, Determinism::kStrict}}) {
    const uint64_t none = emulation::live().device_bytes;
    CudaOptions options;
    options.fp8_prompts = c.fp8;
    options.determinism = c.determinism;
    auto opened = CudaBackend::open(options, nullptr, c.library ? library_table() : nullptr);
    ASSERT_TRUE(opened.is_ok()) << opened.status().message();
    const uint64_t at_open = emulation::live().device_bytes - none;
    Runner runner(std::string(c.model) + ".gguf", std::move(opened).value(), KvFormat::kF16, kBlocks);
    Golden golden = prompt_of(runner.model());
    golden.tokens.resize(144);
    StepShape shape = step_shape(runner.model().dims, kStepRowsMax);
    shape.context = kTokens;
    const uint64_t before = emulation::live().device_bytes;
    ASSERT_TRUE(runner.backend()->reserve_steps(shape).is_ok());
    const uint64_t reserved = emulation::live().device_bytes;
    EXPECT_EQ(at_open + reserved - before, runner.backend()->step_memory(shape)) << c.model;
    ASSERT_TRUE(runner.backend()->reserve_steps(shape).is_ok());
    for (const uint32_t chunk : {16u, 144u}) runner.logits(golden, chunk);
    EXPECT_EQ(emulation::live().device_bytes, reserved) << c.model;
  }
}

// Contexts of a million tokens have thousands of parts: rows wait for each other sooner than that they take gigabytes.
TEST_F(CudaPromptsStandIn, PartsOfLongContextsAreBounded) {
  const auto backend = open_own();
  StepShape shape{kStepRowsMax, 256, 64, 64, 0, 40, 8, 128, {}};
  const uint64_t one = backend->step_memory(shape), part = uint64_t{40} * 130 * sizeof(float);
  const auto parts = [&](uint32_t context) {
    shape.context = context;
    return backend->step_memory(shape) - one + 16 * part;
  };
  EXPECT_EQ(parts(257), 2 * 16 * part);
  EXPECT_EQ(parts(32768), 128 * 16 * part);
  EXPECT_EQ(parts(131072), 128u << 20);
  EXPECT_EQ(parts(4 << 20), 16384 * part);
}

// A row that waits has the bits that it has alone.
TEST_F(CudaPromptsStandIn, RowsThatWaitForPartsAreTheSame) {
  constexpr uint32_t kHeads = 256, kDim = 512, kFirst = 8000, kFew = cuda::kFewRows;  // 32 parts, 17 MB a row
  const auto backend = open_own();
  const KvGeometry kv{1, 1, kDim, 256};
  Random random(11);
  auto pool = std::move(backend->alloc(kv.block_bytes(), false)).value();
  const std::vector<float> values = random.floats(kFew * kHeads * kDim);
  const uint64_t bytes = values.size() * sizeof(float);
  auto q = std::move(backend->alloc(bytes, false)).value(), out = std::move(backend->alloc(bytes, false)).value();
  const auto put = [&](std::span<uint8_t> to) { std::memcpy(to.data(), values.data(), to.size()); };
  ASSERT_TRUE(backend->upload(q->data(), bytes, put).is_ok());
  const std::vector<int32_t> blocks(kv.blocks_for(kFirst + kFew)), tokens(kFew);  // all of them one
  std::vector<int32_t> positions;
  for (uint32_t i = 0; i < kFew; ++i) positions.push_back(static_cast<int32_t>(kFirst + i));
  const auto attend = [&](uint32_t first, uint32_t n) {
    const StepSeq seq{0, n, static_cast<int32_t>(kFirst + first), blocks.data(), static_cast<uint32_t>(blocks.size())};
    const Step step{{&seq, 1}, std::span(tokens).first(n), std::span(positions).subspan(first, n), {}};
    const auto* from = reinterpret_cast<const float*>(q->data()) + uint64_t{first} * kHeads * kDim;
    const uint64_t before = emulation::launches();
    backend->run({&step}, [&] {
      const float* k = from;  // any numbers
      backend->kv_store(kv, pool->data(), {}, step, 0, n, k, k + kDim, kHeads * kDim);
      backend->attention(kv, pool->data(), {}, step, {kHeads, 0.125f, 0, 3}, from, kHeads * kDim, reinterpret_cast<float*>(out->data()));
    });
    EXPECT_TRUE(backend->sync().is_ok());
    EXPECT_EQ(emulation::launches() - before, n == 1 ? 3u : 1u + 3u * 2u);
    std::vector<float> host(uint64_t{n} * kHeads * kDim);
    EXPECT_TRUE(backend->download({reinterpret_cast<uint8_t*>(host.data()), host.size() * sizeof(float)}, out->data()).is_ok());
    return host;
  };
  const std::vector<float> together = attend(0, kFew);
  for (const uint32_t row : {0u, 6u, 7u, 15u}) {
    const auto at = together.begin() + static_cast<ptrdiff_t>(uint64_t{row} * kHeads * kDim);
    EXPECT_SAME_BITS(attend(row, 1), std::vector<float>(at, at + kHeads * kDim)) << row;
  }
}

// Whether the product ran or not: the step fails, no other kernel adds to the output, and the next step is as it should be.
TEST_F(CudaPromptsStandIn, AFailedProductFailsItsStepAlone) {
  for (const bool queued : {false, true}) {
    lt_reset();
    OneMatmul m(open_with_library(), kMatrix, 3);
    ASSERT_TRUE(m.run(true, true).is_ok());
    const std::vector<float> want = m.result();
    lt_reset({.matmul_status = 13, .fails_after_queueing = queued});
    const Status status = m.run(true, true);
    EXPECT_EQ(status.code(), Code::kDevice);
    EXPECT_NE(status.message().find("cublasLtMatmul gave status 13"), std::string::npos) << status.message();
    EXPECT_EQ(m.result(), queued ? want : m.before);
    lt_reset();
    ASSERT_TRUE(m.run(true, true).is_ok());
    EXPECT_EQ(m.result(), want);
  }
}

// A device that failed as well stays lost.
TEST_F(CudaPromptsStandIn, AFailedProductOfALostDevice) {
  OneMatmul m(open_with_library(), kMatrix, 4);
  ASSERT_TRUE(m.run(false, false).is_ok());  // every buffer has its size
  const uint64_t before = emulation::queued();
  ASSERT_TRUE(m.run(false, false).is_ok());
  lt_reset({.matmul_status = 13, .fails_after_queueing = true});
  emulation::fail_late(emulation::queued() - before, cudaErrorIllegalAddress);  // the product
  EXPECT_EQ(m.run(false, false).os_code(), 13);
  EXPECT_EQ(m.backend->sync().os_code(), cudaErrorIllegalAddress);
  EXPECT_EQ(m.backend->sync().os_code(), cudaErrorIllegalAddress);
}

// A step that found no memory is over with that: the device is not lost.
TEST_F(CudaPromptsStandIn, AStepWithoutMemoryFailsAlone) {
  OneMatmul m(open_with_library(), kMatrix, 5);
  emulation::set_budget(emulation::live().device_bytes + m.before.size() * sizeof(float) + 4096);
  const Status status = m.run(false, false);
  EXPECT_EQ(status.code(), Code::kNoMemory) << status.message();
  emulation::set_budget(uint64_t{4} << 30);
  ASSERT_TRUE(m.run(false, false).is_ok());
  EXPECT_GT(lt_seen().matmuls, 0u);
}
#endif

}  // namespace
}  // namespace kvrt::test
