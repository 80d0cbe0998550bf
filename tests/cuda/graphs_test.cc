// Steps as graphs: when they are captured, how long they are kept, and a capture that fails.
#include <gtest/gtest.h>

#include "cuda/backend/cuda_backend.h"

#ifdef KVRT_CUDA_EMULATION
#include "tests/cuda/emulation/clean.h"
#endif

namespace kvrt::test {
namespace {

std::unique_ptr<Backend> device() {
  auto opened = cuda::CudaBackend::open({}, nullptr);
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
  return std::move(opened).value();
}

RopeParams rope_of(uint32_t kind) { return {RopeStyle::kHalves, 8, 100.0f * static_cast<float>(kind + 1)}; }

// One head of 8, rotated by each of the kinds in turn.
struct Rotations {
  Backend* backend;
  std::vector<uint32_t> kinds;
  std::unique_ptr<Buffer> x = std::move(backend->alloc(8 * sizeof(float), false)).value();
  std::unique_ptr<RunCache> cache = backend->make_run_cache();

  std::vector<float> step(int32_t position) {
    const std::vector<int32_t> token = {0}, positions = {position};
    const Step step{{}, token, positions, {}};
    std::vector<float> host = {1, 2, 3, 4, 5, 6, 7, 8};
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(host.data()), 8 * sizeof(float));
    EXPECT_TRUE(backend->upload(x->data(), bytes.size(), [&](auto to) { std::copy(bytes.begin(), bytes.end(), to.begin()); }).is_ok());
    backend->run({&step, cache.get(), 1}, [&] {
      for (const uint32_t kind : kinds) backend->prepare_rope(rope_of(kind), step);
      for (const uint32_t kind : kinds) backend->rope(rope_of(kind), 0, 1, 1, 8, 8, reinterpret_cast<float*>(x->data()));
    });
    EXPECT_TRUE(backend->sync().is_ok());
    EXPECT_TRUE(backend->download(bytes, x->data()).is_ok());
    return host;
  }
};

std::vector<float> rotated(const std::vector<uint32_t>& kinds, int32_t position) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto backend = std::move(open_cpu({1, ""}, nullptr)).value();
  const std::vector<int32_t> positions = {position};
  backend->run({}, [&] {
    for (const uint32_t kind : kinds) {
      backend->prepare_rope(rope_of(kind), Step{{}, {}, positions, {}});
      backend->rope(rope_of(kind), 0, 1, 1, 8, 8, x.data());
    }
  });
  return x;
}

// There are more kinds than are kept: those used longest ago go, and no graph reads the places where they were.
TEST(CudaGraphs, ManyKindsOfRotationsAreRight) {
  const auto backend = device();
  std::vector<std::unique_ptr<Rotations>> models;
  for (uint32_t kind = 0; kind < 20; ++kind)
    models.push_back(std::make_unique<Rotations>(Rotations{backend.get(), {kind, 100 + kind / 4}}));
  for (int32_t round = 0; round < 12; ++round) {
    const uint32_t first = round < 6 ? 0 : 12, n = round % 6 < 3 ? 20 : 8;
    for (uint32_t i = first; i < std::min(first + n, 20u); ++i)
      EXPECT_EQ(models[i]->step(round), rotated(models[i]->kinds, round)) << round << " " << i;
  }
}

#ifdef KVRT_CUDA_EMULATION
using CudaGraphsEmulated = CleanEmulation;

// Each model's kinds of rotations stay where they are, however many there are: a step is its arrays and its graph.
TEST_F(CudaGraphsEmulated, ThreeKindsOfRotationsKeepTheirGraphs) {
  const auto backend = device();
  Rotations models[] = {{backend.get(), {0, 1}}, {backend.get(), {2}}, {backend.get(), {0, 3, 4}}};
  for (int32_t round = 0; round < 5; ++round) {
    for (Rotations& model : models) {
      const uint64_t before = emulation::queued();
      EXPECT_EQ(model.step(round + 7), rotated(model.kinds, round + 7)) << round;
      EXPECT_TRUE(round < 3 || emulation::queued() - before == 2 + 2) << round;  // and the test's two copies
    }
    EXPECT_EQ(emulation::live().graph_execs, round < 1 ? 0u : 3u);
  }
}

// A step that doubles a value in memory, with a cache of graphs.
struct Doubling {
  std::unique_ptr<Backend> backend = device();
  std::unique_ptr<Buffer> buffer = std::move(backend->alloc(4 * sizeof(float), false)).value();
  std::unique_ptr<RunCache> cache = backend->make_run_cache();
  std::function<void()> midway = [] {};

  Doubling() { put(1); }
  void put(float x) {
    const auto fill = [x](std::span<uint8_t> host) { std::fill_n(reinterpret_cast<float*>(host.data()), 4, x); };
    EXPECT_TRUE(backend->upload(buffer->data(), 4 * sizeof(float), fill).is_ok());
  }
  float value() {
    float x = 0;
    EXPECT_TRUE(backend->download({reinterpret_cast<uint8_t*>(&x), sizeof x}, buffer->data()).is_ok());
    return x;
  }
  Status step() {
    const std::vector<int32_t> one = {0};
    const Step step{{}, one, one, {}};
    backend->run({&step, cache.get(), 1}, [&] {
      midway();
      backend->scale(2, 1, 4, reinterpret_cast<float*>(buffer->data()));
    });
    return backend->sync();
  }
};

// Whatever call of a capture fails, and how: the step runs without a graph, once, and the device is not taken for lost.
TEST_F(CudaGraphsEmulated, ACaptureThatFailsIsGonePast) {
  for (const cudaError_t error :
       {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated, cudaErrorStreamCaptureMerge, cudaErrorStreamCaptureUnmatched,
        cudaErrorStreamCaptureUnjoined, cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureImplicit, cudaErrorCapturedEvent,
        cudaErrorStreamCaptureWrongThread, cudaErrorIllegalState, cudaErrorNotSupported, cudaErrorMemoryAllocation}) {
    uint64_t failed = 0;
    for (const uint64_t call : {3u, 4u, 5u, 6u}) {  // after the device and the step's arrays: begin, a launch, end, instantiate
      Doubling doubling;
      ASSERT_TRUE(doubling.step().is_ok());
      emulation::fail_call(call, error);
      const Status captured = doubling.step();
      EXPECT_TRUE(captured.is_ok()) << "call " << call << ": " << captured.message();
      EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << cudaGetErrorName(error);
      failed += emulation::live().graph_execs == 0;
      EXPECT_EQ(doubling.value(), 4);
      EXPECT_TRUE(doubling.step().is_ok());
      EXPECT_EQ(doubling.value(), 8);
    }
    EXPECT_EQ(failed, 4u) << cudaGetErrorName(error);
  }
}

// One that the host began on its own stream, or that waits for ours, ends a call of ours: that call alone.
TEST_F(CudaGraphsEmulated, AnErrorOfTheHostsCaptureLosesNoDevice) {
  Doubling doubling;
  for (const cudaError_t error : {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureImplicit}) {
    emulation::fail_call(2, error);  // the copy of the step's arrays
    EXPECT_EQ(doubling.step().os_code(), error);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    doubling.put(3);
    EXPECT_TRUE(doubling.step().is_ok());
    EXPECT_EQ(doubling.value(), 6);
  }
}

TEST_F(CudaGraphsEmulated, ADeviceThatIsLostInACaptureIsLost) {
  Doubling doubling;
  ASSERT_TRUE(doubling.step().is_ok());
  doubling.midway = [] { emulation::lose_device(cudaErrorIllegalAddress); };
  EXPECT_EQ(doubling.step().os_code(), cudaErrorIllegalAddress);
  doubling.midway = [] {};
  emulation::reset();  // the device would work again
  EXPECT_EQ(doubling.step().os_code(), cudaErrorIllegalAddress);
  EXPECT_EQ(doubling.backend->alloc(1, false).status().os_code(), cudaErrorIllegalAddress);
}

#endif

}  // namespace
}  // namespace kvrt::test
