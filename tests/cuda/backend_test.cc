// The whole backend on tiny models, against the numpy reference that the CPU is held to.
#include <thread>

#include "cuda/backend/cuda_backend.h"
#include "tests/ops/kv_reference.h"
#include "tests/support/golden_rig.h"

#ifdef KVRT_CUDA_EMULATION
#include "tests/cuda/emulation/clean.h"
#endif

namespace kvrt::test {
namespace {

std::unique_ptr<Backend> cuda_backend(Determinism determinism = Determinism::kByClass) {
  auto opened = cuda::CudaBackend::open({.determinism = determinism}, nullptr);
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
  return std::move(opened).value();
}
std::unique_ptr<Backend> cpu() { return std::move(open_cpu({1, ""}, nullptr)).value(); }

class CudaGolden : public testing::TestWithParam<GoldenModel> {};

// Few rows: the roundings of f32, in another order than the CPU's. Many: activations and weights are f16 on the way into the tensor cores.
// In a mixed model a step's head and its last rows have activations of 8 bits, as few rows have; the reference for many rows has f16.
TEST_P(CudaGolden, IsNearTheReferenceInEveryClassOfKernels) {
  const bool mixed = GetParam().few != GetParam().many;
  Runner runner(GetParam().model, cuda_backend());
  for (const uint32_t chunk : {1u, 7u, 70u, 96u}) {
    const bool few = chunk <= cuda::kFewRows;
    const Golden golden = read_golden(few ? GetParam().few : GetParam().many);
    const std::vector<float> found = runner.logits(golden, chunk);
    const std::vector<double> errors = row_errors(golden, found);
    std::printf("%-20s chunks of %2u: relative error of a row: median %.2e, worst %.2e\n", GetParam().model.c_str(), chunk,
                errors[errors.size() / 2], errors.back());
    EXPECT_LE(errors[errors.size() / 2], few ? 1e-4 : mixed ? 1.2e-2 : 3e-3);
    EXPECT_LE(errors.back(), few ? 3e-4 : mixed ? 5e-2 : 8e-3);
  }
}

// Within a class of kernels a row does not depend on the others of its step, nor on whether a graph replays it.
TEST_P(CudaGolden, ChunksAndGraphsDoNotShow) {
  const Golden golden = read_golden(GetParam().few);
  Runner runner(GetParam().model, cuda_backend());
  const std::vector<float> alone = runner.logits(golden, 1);
  EXPECT_EQ(alone, runner.logits(golden, 1));  // captured
  EXPECT_EQ(alone, runner.logits(golden, 1));  // replayed
  EXPECT_EQ(alone, runner.logits(golden, 7));
  EXPECT_EQ(alone, runner.logits(golden, 16));
  std::vector<float> many = runner.logits(golden, 70), all = runner.logits(golden, 96);
  const auto in_first = static_cast<size_t>(std::ranges::count_if(golden.rows, [](uint32_t row) { return row < 70; }));
  for (std::vector<float>* rows : {&many, &all}) rows->resize(in_first * golden.vocab);  // the second step of 70 has few
  EXPECT_EQ(many, all);
  EXPECT_EQ(alone, Runner(GetParam().model, cuda_backend(Determinism::kStrict)).logits(golden, 55));  // strict: nor on how many they are
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaGolden, testing::ValuesIn(golden_models()), golden_name);

// Every KV format, and pairs of two, against the CPU with the same.
TEST(CudaBackend, KvFormatsAreTheCpus) {
  const Golden golden = read_golden("row_llama3.golden");
  for (const KvFormats formats : some_formats()) {
    for (const uint32_t chunk : {1u, 48u}) {
      Golden want = golden;
      want.logits = Runner("row_llama3.gguf", cpu(), formats).logits(golden, chunk);
      const std::vector<double> errors = row_errors(want, Runner("row_llama3.gguf", cuda_backend(), formats).logits(golden, chunk));
      const bool int8 = formats.k == KvFormat::kI8 || formats.v == KvFormat::kI8;
      const bool int4 = formats.k == KvFormat::kI4 || formats.v == KvFormat::kI4;
      EXPECT_LE(errors.back(), int4                  ? 1e-1
                               : chunk == 1 && !int8 ? 1e-3
                                                     : 2e-2)
          << static_cast<uint32_t>(formats.k) << " " << static_cast<uint32_t>(formats.v) << ", chunks of " << chunk;
    }
  }
}

// Models whose K is stored without a part of its bias, in the formats that do so: RoPE over halves of a head, with YaRN, over a part of it,
// over neighbours; windows and sinks. And a model without biases, whose Q and K have factors.
TEST(CudaBackend, KeysWithoutTheirBiasAreTheCpus) {
  struct Case {
    const char *model, *golden;
    bool apart;
  };
  for (const Case& c : {Case{"with_bias_qwen2", "with_bias_qwen2", true}, Case{"with_bias_qwen2_yarn", "row_qwen2_yarn", true},
                        Case{"with_bias_stablelm", "row_stablelm_bias", true}, Case{"with_bias_glm4", "row_glm4", true},
                        Case{"with_bias_gpt_oss", "row_gpt_oss", true}, Case{"llama_gqa_f32", "llama_gqa_f32", false}}) {
    const Golden golden = read_golden(std::string(c.golden) + ".golden");
    for (const KvFormats formats :
         {KvFormats(KvFormat::kI8), {KvFormat::kF8}, {KvFormat::kI4}, {KvFormat::kI8, KvFormat::kI4}, {KvFormat::kI4, KvFormat::kF16}}) {
      for (const uint32_t chunk : {1u, 48u}) {
        if (chunk > 1 && std::string(c.model) == "with_bias_gpt_oss")
          continue;  // such a step chooses other experts: cuda_key_bias has prefills
        Runner on_cpu(std::string(c.model) + ".gguf", cpu(), formats), runner(std::string(c.model) + ".gguf", cuda_backend(), formats);
        Golden want = golden;
        want.logits = on_cpu.logits(golden, chunk);
        const std::vector<double> errors = row_errors(want, runner.logits(golden, chunk));
        std::printf("%-20s formats %u %u, chunks of %2u: relative error of a row: median %.2e, worst %.2e\n", c.model,
                    static_cast<uint32_t>(formats.k), static_cast<uint32_t>(formats.v), chunk, errors[errors.size() / 2], errors.back());
        EXPECT_EQ(runner.model().bias_apart, c.apart) << c.model;
        // Many rows go through f16 in each matmul, and few bits of K and V make a step of that where a code changes.
        EXPECT_LE(errors[errors.size() / 2], chunk == 1 ? 1e-3 : 3e-2) << c.model;
        EXPECT_LE(errors.back(), chunk == 1 ? 5e-3 : 2e-1) << c.model;
      }
    }
  }
}

// What turns the bias grows with the contexts that come; graphs of before do not keep an older table.
TEST(CudaBackend, BiasesTurnBeyondASpan) {
  Golden golden = read_golden("with_bias_qwen2.golden");
  const size_t few = golden.tokens.size();
  while (golden.tokens.size() < 600) golden.tokens.push_back(golden.tokens[golden.tokens.size() * 7 % few]);
  golden.rows = {0, 255, 511, 512, 530, 599};
  golden.logits.resize(golden.rows.size() * golden.vocab);
  for (const uint32_t chunk : {16u, 120u}) {
    Golden want = golden;
    want.logits = Runner("with_bias_qwen2.gguf", cpu(), KvFormat::kF8, 40).logits(golden, chunk);
    Runner runner("with_bias_qwen2.gguf", cuda_backend(), KvFormat::kF8, 40);
    const std::vector<float> first = runner.logits(golden, chunk);
    EXPECT_LE(row_errors(want, first).back(), chunk == 16 ? 1e-3 : 2e-2) << chunk;
    EXPECT_EQ(first, runner.logits(golden, chunk)) << chunk;  // with the graphs and the table of long contexts from the start
  }
}

#ifdef KVRT_CUDA_EMULATION
using CudaEmulated = CleanEmulation;

// Nothing runs before it has to: a result that the backend reads too early is not there yet.
TEST_F(CudaEmulated, WaitsWhereItMust) {
  const Golden golden = read_golden("row_qwen3moe.golden");
  const std::vector<float> want = Runner("row_qwen3moe.gguf", cuda_backend()).logits(golden, 24);
  emulation::set_deferred(true);
  Runner runner("row_qwen3moe.gguf", cuda_backend());
  EXPECT_EQ(want, runner.logits(golden, 24));
  runner.logits(golden, 1);
  EXPECT_EQ(runner.logits(golden, 1), runner.logits(golden, 1));
}

TEST_F(CudaEmulated, DecodesAreGraphs) {
  const Golden golden = read_golden("row_llama3.golden");
  Runner runner("row_llama3.gguf", cuda_backend());
  runner.logits(golden, 1);
  const uint64_t graphs = emulation::live().graph_execs, queued = emulation::queued();
  EXPECT_GE(graphs, 1u);
  runner.logits(golden, 1);
  EXPECT_EQ(emulation::live().graph_execs, graphs);
  EXPECT_EQ(emulation::queued() - queued, 2 * golden.tokens.size());  // a step: its arrays, and the graph
}

// A small model's decode is launches, each some 1.3 us: these are all that there are. Of a layer: the projection with its norm, what is between
// it and attention, attention, its output, gate and up with theirs, down. A norm of a block's output is two more.
TEST_F(CudaEmulated, DecodeLaunchesNoMoreThanItMust) {
  struct Case {
    const char* model;
    uint32_t layer, step;  // kernels of a layer; of a step beside its layers: embedding, rotations, head
  };
  for (const Case& c : {Case{"row_llama3", 6, 3}, Case{"llama_gqa_q4_1", 6, 3}, Case{"llama_mqa_q8_0", 6, 3}, Case{"llama_mha_f16", 6, 3},
                        Case{"row_qwen3", 6, 3}, Case{"row_olmo2", 10, 3}, Case{"row_gemma3", 10, 5}}) {
    Golden golden = read_golden(std::string(c.model) + ".golden");
    golden.rows.clear();
    for (uint32_t i = 0; i < golden.tokens.size(); ++i) golden.rows.push_back(i);
    Runner runner(std::string(c.model) + ".gguf", cuda_backend());
    const uint64_t before = emulation::launches();
    runner.logits(golden, 1);
    EXPECT_EQ(emulation::launches() - before, golden.tokens.size() * (c.step + runner.model().dims.layers * c.layer)) << c.model;
  }
}

TEST_F(CudaEmulated, NoDriverNoDeviceAndAnOldOneAreNamed) {
  emulation::set_driver_missing(true);
  Status status = cuda::CudaBackend::open({}, nullptr).take_status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("driver"), std::string::npos) << status.message();
  emulation::reset();
  emulation::set_devices(0);
  status = cuda::CudaBackend::open({}, nullptr).take_status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  emulation::reset();
  CudaOptions second;
  second.device = 1;
  status = cuda::CudaBackend::open(second, nullptr).take_status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("device_index is 1"), std::string::npos) << status.message();
  emulation::set_capability(7, 0);
  status = cuda::CudaBackend::open({}, nullptr).take_status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("7.0"), std::string::npos) << status.message();
}

// Whatever is called, the calling thread's device stays the one that it was: also none at all, which a thread begins with.
TEST_F(CudaEmulated, TheThreadsOwnDeviceStays) {
  const auto works = [](const auto& same) {
    CudaOptions options;
    options.device = 1;
    auto backend = std::move(cuda::CudaBackend::open(options, nullptr)).value();
    same("open");
    auto buffer = std::move(backend->alloc(64, false)).value();
    auto pinned = std::move(backend->alloc_host(64)).value();
    same("alloc");
    std::vector<uint8_t> host(64);
    EXPECT_TRUE(backend->upload(buffer->data(), 64, [&](std::span<uint8_t>) { same("filling an upload"); }).is_ok());
    EXPECT_TRUE(backend->download(host, buffer->data()).is_ok());
    same("upload and download");
    auto cache = backend->make_run_cache();
    const std::vector<int32_t> one = {0};
    const Step step{{}, one, one, {}};
    for (int i = 0; i < 3; ++i) {  // as it is, captured, replayed
      backend->run({&step, cache.get(), 1}, [&] { backend->scale(2, 1, 4, reinterpret_cast<float*>(buffer->data())); });
      same("run");
    }
    backend->clear(buffer->data(), 64);
    same("clear");
    EXPECT_TRUE(backend->sync().is_ok());
    same("sync");
    uint64_t total = 0, free = 0;
    backend->device_memory(&total, &free);
    same("device_memory");
    EXPECT_EQ(backend->alloc(uint64_t{1} << 40, false).status().code(), Code::kNoMemory);
    same("want of memory");
    options.device = 7;
    EXPECT_EQ(cuda::CudaBackend::open(options, nullptr).status().code(), Code::kUnsupported);
    same("no such device");
    emulation::lose_device();
    EXPECT_EQ(backend->sync().code(), Code::kDevice);
    same("the device's loss");
    cache.reset();
    buffer.reset();
    pinned.reset();
    backend.reset();
    same("the end of a lost device");
  };
  emulation::set_devices(3);
  std::thread([&] {
    EXPECT_FALSE(emulation::has_context());
    works([](const char* after) { EXPECT_FALSE(emulation::has_context()) << after; });
  }).join();
  emulation::reset();
  emulation::set_devices(3);
  std::thread([&] {
    EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
    works([](const char* after) { EXPECT_EQ(emulation::current_device(), 2) << after; });
  }).join();
}

// Token by token the windows move over the blocks, which are freed behind them: no step is captured for that.
TEST_F(CudaEmulated, ARollingWindowKeepsItsGraphs) {
  for (const char* model : {"row_gemma2", "row_gemma3", "row_phi3_long"}) {
    const Golden golden = read_golden(std::string(model) + ".golden");
    uint64_t captures[2];
    for (const bool gives_up : {false, true}) {
      emulation::reset();
      Runner runner(std::string(model) + ".gguf", cuda_backend());
      runner.gives_up = gives_up;
      EXPECT_EQ(runner.logits(golden, 1).size(), golden.logits.size());
      captures[gives_up] = emulation::captures();
    }
    EXPECT_GT(captures[0], 0u) << model;
    EXPECT_EQ(captures[1], captures[0]) << model;
    EXPECT_GT(golden.tokens.size(), 3 * 16u + 48) << "windows that move over three blocks";
  }
}

TEST_F(CudaEmulated, TooMuchMemoryIsAStatusThatSaysHowMuchThereIs) {
  emulation::set_budget(64 << 20);
  const auto backend = cuda_backend();
  const Status status = backend->alloc(65 << 20, false).take_status();
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_NE(status.message().find("68157440"), std::string::npos) << status.message();
  EXPECT_TRUE(backend->alloc(1 << 20, false).is_ok());
  EXPECT_TRUE(backend->sync().is_ok());
}

// From its first error on every call gives that error, and nothing is torn down twice.
TEST_F(CudaEmulated, ALostDeviceStaysLost) {
  const auto backend = cuda_backend();
  auto buffer = std::move(backend->alloc(4096, false)).value();
  std::vector<uint8_t> host(4096);
  EXPECT_TRUE(backend->download(host, buffer->data()).is_ok());
  emulation::fail_late(1, cudaErrorIllegalAddress);
  backend->clear(buffer->data(), 4096);
  const Status first = backend->sync();
  EXPECT_EQ(first.code(), Code::kDevice);
  EXPECT_EQ(first.os_code(), cudaErrorIllegalAddress);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(backend->sync().os_code(), cudaErrorIllegalAddress);
    EXPECT_EQ(backend->download(host, buffer->data()).os_code(), cudaErrorIllegalAddress);
    EXPECT_EQ(backend->alloc(1, false).status().os_code(), cudaErrorIllegalAddress);
  }
}
#endif

}  // namespace
}  // namespace kvrt::test
