// Helpers of the tests of steps of more than 64 rows: backends with a library's gemm and without, one matmul of such a step, a prompt.
#pragma once

#include "cuda/backend/cuda_backend.h"
#include "runtime/base/limits.h"
#include "tests/cuda/matmul_reference.h"
#include "tests/support/golden_rig.h"

#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/emulator.h"
#include "tests/cuda/cublaslt_stand_in.h"
#endif

namespace kvrt::test {
using cuda::CublasLt;
using cuda::CudaBackend;

struct Lines final : Log {
  void write(LogLevel level, std::string_view text) override {
    all.append(text).push_back('\n');
    if (level == LogLevel::kWarn) warnings.append(text).push_back('\n');
  }
  std::string all, warnings;
};

inline std::unique_ptr<Backend> open(const CublasLt* table, Log* log = nullptr, bool fp8 = false) {
  CudaOptions options;
  options.fp8_prompts = fp8;
  auto opened = CudaBackend::open(options, log, table);
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
  return std::move(opened).value();
}

// Own kernels only.
inline std::unique_ptr<Backend> open_own(Log* log = nullptr) {
  CublasLt none{};
  none.create = [](void**) { return 1; };
  return open(&none, log);
}

// The functions of the library; null: those of the library that is found.
inline const CublasLt* library_table() {
#ifdef KVRT_CUDA_EMULATION
  return &cublaslt_stand_in();
#else
  return nullptr;
#endif
}
inline std::unique_ptr<Backend> open_with_library(bool fp8 = false, Log* log = nullptr) { return open(library_table(), log, fp8); }

class CudaPrompts : public testing::Test {
 protected:
  void SetUp() override {
#ifdef KVRT_CUDA_EMULATION
    emulation::reset();
    lt_reset();
#else
    if (auto loaded = cuda::load_cublaslt(); !loaded.is_ok()) GTEST_SKIP() << loaded.status().message();
#endif
  }
  void TearDown() override {
#ifdef KVRT_CUDA_EMULATION
    emulation::reset();
    EXPECT_EQ(lt_seen().live, 0);
    EXPECT_EQ(emulation::live(), before_);
  }
  const emulation::Live before_ = emulation::live();
#else
  }
#endif
};

// ---- one matmul of a step

inline constexpr uint32_t kRows = 130;

struct OneMatmul {
  std::unique_ptr<Backend> backend;
  std::vector<Tensor> tensors;
  std::vector<float> x, bias, before;
  uint32_t rows = 0, cols = 0;
  std::vector<std::unique_ptr<Weight>> weights;
  std::unique_ptr<Buffer> device_x, device_bias, out;

  OneMatmul(std::unique_ptr<Backend> b, const Matrix& matrix, uint32_t seed) : backend(std::move(b)) {
    Random random(seed);
    tensors = matrix.make(&random);
    cols = matrix.cols;
    TensorStack stack;
    for (const Tensor& tensor : tensors) {
      stack.push_back(tensor.view());
      rows += tensor.rows;
    }
    x = random.floats(kRows * cols);
    bias = random.floats(rows);
    before = random.floats(kRows * rows);
    weights = std::move(backend->make_weights(std::span(&stack, 1), {[](auto) { return Status::ok(); }})).value();
    device_x = upload(x);
    device_bias = upload(bias);
    out = upload(before);
  }
  std::unique_ptr<Buffer> upload(const std::vector<float>& from) const {
    auto to = std::move(backend->alloc(from.size() * sizeof(float), false)).value();
    EXPECT_TRUE(backend
                    ->upload(to->data(), from.size() * sizeof(float),
                             [&](std::span<uint8_t> host) { std::memcpy(host.data(), from.data(), host.size()); })
                    .is_ok());
    return to;
  }
  static float* floats(const std::unique_ptr<Buffer>& buffer) { return reinterpret_cast<float*>(buffer->data()); }
  Status run(bool with_bias, bool accumulate, uint32_t n = kRows) {
    const std::vector<int32_t> tokens(n), block(1);
    std::vector<int32_t> positions(n);
    const StepSeq seq{0, n, 0, block.data(), 1, 0};
    const Step step{{&seq, 1}, tokens, positions, {}};
    out = upload(before);
    backend->run({&step}, [&] {
      backend->matmul(*weights[0], with_bias ? floats(device_bias) : nullptr, {floats(device_x), n}, accumulate, floats(out));
    });
    return backend->sync();
  }
  std::vector<float> result() const {
    std::vector<float> host(before.size());
    EXPECT_TRUE(backend->download({reinterpret_cast<uint8_t*>(host.data()), host.size() * sizeof(float)}, out->data()).is_ok());
    return host;
  }
};

// ---- whole models

inline constexpr uint32_t kTokens = 280, kBlocks = 18;

inline Golden prompt_of(const Model& model) {
  Golden golden;
  Random random(7);
  golden.vocab = model.dims.vocab;
  for (uint32_t i = 0; i < kTokens; ++i) golden.tokens.push_back(static_cast<int32_t>(random.below(golden.vocab)));
  for (const uint32_t row : {0u, 5u, 127u, 139u, 140u, 200u, 261u, 279u}) golden.rows.push_back(row);
  return golden;
}

}  // namespace kvrt::test
