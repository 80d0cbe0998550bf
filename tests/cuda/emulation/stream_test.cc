// The emulated runtime: when work runs, capture into graphs, and errors that a test orders.
#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "cuda/kernels/launch.h"
#include "tests/cuda/emulation/fixture.h"

namespace kvrt::cuda {
namespace {

using emulation::Live;

__global__ void add_to(int by, int* x) { *x += by; }
__global__ void add_from(const int* by, int* x) { *x += *by; }

constexpr auto kUp = cudaMemcpyHostToDevice;
constexpr auto kDown = cudaMemcpyDeviceToHost;
constexpr auto kCaptureMode = cudaStreamCaptureModeThreadLocal;

// ---- capture

TEST_F(Emulation, GraphsReplay) {
  int *const x = device(std::vector<int>{1}), *const by_device = device<int>(1);
  int *const by = pinned(10), *const back = pinned(0);
  ASSERT_EQ(cudaStreamBeginCapture(stream_.handle, kCaptureMode), cudaSuccess);
  stream_.check(cudaMemcpyAsync(by_device, by, sizeof(int), kUp, stream_.handle));
  launch(add_from, 1, 1, 0, &stream_, by_device, x);
  launch(add_to, 1, 1, 0, &stream_, 100, x);
  stream_.check(cudaMemcpyAsync(back, x, sizeof(int), kDown, stream_.handle));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_.handle, &graph), cudaSuccess);
  ASSERT_EQ(stream_.error, cudaSuccess);
  EXPECT_EQ(*back, 0);  // nothing ran
  EXPECT_EQ(host(x, 1)[0], 1);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_.handle), cudaSuccess);
  EXPECT_EQ(*back, 111);
  *by = 1000;  // the graph has the address, not the value
  EXPECT_EQ(cudaGraphLaunch(exec, stream_.handle), cudaSuccess);
  EXPECT_EQ(*back, 1211);
  emulation::set_deferred(true);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_.handle), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);  // queued work still runs
  EXPECT_EQ(*back, 1211);
  EXPECT_EQ(sync(), cudaSuccess);
  EXPECT_EQ(*back, 2311);
}

// `illegal` during a capture returns the error, and the capture is lost.
template <typename F>
void ends_capture(cudaStream_t stream, cudaError_t error, const F& illegal) {
  ASSERT_EQ(cudaStreamBeginCapture(stream, kCaptureMode), cudaSuccess);
  EXPECT_EQ(illegal(), error);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  auto* graph = reinterpret_cast<cudaGraph_t>(stream);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST_F(Emulation, WhatACaptureMayNotSee) {
  int* const x = device(std::vector<int>{1});
  void* p = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const auto recorded = [&](auto then) {
    EXPECT_EQ(cudaEventRecord(event, stream_.handle), cudaSuccess);
    return then();
  };
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return sync(); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(stream_.handle); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&p, 4); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaMallocHost(&p, 4); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(x); });
  ends_capture(stream_.handle, cudaErrorStreamCaptureUnsupported, [&] { return cudaMemcpy(x, x, 4, cudaMemcpyDefault); });
  ends_capture(stream_.handle, cudaErrorCapturedEvent, [&] { return recorded([&] { return cudaEventSynchronize(event); }); });
  ends_capture(stream_.handle, cudaErrorCapturedEvent, [&] { return recorded([&] { return cudaEventQuery(event); }); });
  EXPECT_EQ(cudaEventRecord(event, stream_.handle), cudaSuccess);
  ends_capture(stream_.handle, cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(stream_.handle, event); });
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  // Another thread may do all that.
  ASSERT_EQ(cudaStreamBeginCapture(stream_.handle, kCaptureMode), cudaSuccess);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&p, 4), cudaSuccess); }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_.handle, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, kCaptureMode), cudaErrorStreamCaptureUnsupported);
}

// ---- deferred work

TEST_F(Emulation, DeferredWorkWaitsForASynchronization) {
  emulation::set_deferred(true);
  int *const up = pinned(1), *const back = pinned(0), *const x = device<int>(1);
  EXPECT_EQ(cudaMemcpyAsync(x, up, sizeof(int), kUp, stream_.handle), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(back, x, sizeof(int), kDown, stream_.handle), cudaSuccess);
  EXPECT_EQ(*back, 0);
  *up = 2;  // too early: the copy reads it later
  EXPECT_EQ(sync(), cudaSuccess);
  EXPECT_EQ(*back, 2);
  // Pageable memory is read at once, and a copy into it is done at once.
  int pageable = 3, answer = 0;
  EXPECT_EQ(cudaMemcpyAsync(x, &pageable, sizeof(int), kUp, stream_.handle), cudaSuccess);
  pageable = 4;
  EXPECT_EQ(cudaMemcpyAsync(&answer, x, sizeof(int), kDown, stream_.handle), cudaSuccess);
  EXPECT_EQ(answer, 3);
  // cudaMemcpy does not wait for a stream that does not block.
  launch(add_to, 1, 1, 0, &stream_, 5, x);
  EXPECT_EQ(host(x, 1)[0], 3);
  EXPECT_EQ(cudaStreamQuery(stream_.handle), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream_.handle), cudaSuccess);
  EXPECT_EQ(host(x, 1)[0], 8);
  EXPECT_EQ(emulation::launches(), 1u);
}

TEST_F(Emulation, EventsOrderStreams) {
  emulation::set_deferred(true);
  Stream other;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other.handle, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  int *const x = device(std::vector<int>{1}), *const y = device(std::vector<int>{0});
  for (const bool ordered : {false, true}) {
    launch(add_to, 1, 1, 0, &stream_, 10, x);
    EXPECT_EQ(cudaEventRecord(event, stream_.handle), cudaSuccess);
    launch(add_to, 1, 1, 0, &stream_, 100, x);  // behind the event
    EXPECT_EQ(ordered ? cudaStreamWaitEvent(other.handle, event) : cudaSuccess, cudaSuccess);
    launch(add_from, 1, 1, 0, &other, x, y);
    EXPECT_EQ(cudaStreamSynchronize(other.handle), cudaSuccess);
    EXPECT_EQ(host(y, 1)[0], ordered ? 1 + 121 : 1);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  launch(add_to, 1, 1, 0, &stream_, 1, x);
  EXPECT_EQ(cudaEventRecord(event, stream_.handle), cudaSuccess);
  int queries = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++queries;
  EXPECT_EQ(queries, 2);  // the kernel, and the record
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, event, event), cudaSuccess);
  EXPECT_EQ(ms, 0.0f);
  launch(add_to, 1, 1, 0, &stream_, 1, x);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);  // of the recorded work, not of all queued work
  EXPECT_EQ(host(x, 1)[0], 222);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other.handle), cudaSuccess);
}

// ---- ordered failures

// A small program that gives up at the first error and leaves nothing. Its result, or -1.
cudaError_t small_program(int* result) {
  Stream s;
  int *x = nullptr, *back = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  s.check(cudaStreamCreateWithFlags(&s.handle, cudaStreamNonBlocking));
  if (s.error == cudaSuccess) s.check(cudaMalloc(&x, sizeof(int)));
  if (s.error == cudaSuccess) s.check(cudaMallocHost(&back, sizeof(int)));
  if (s.error == cudaSuccess) s.check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (s.error == cudaSuccess) s.check(cudaMemsetAsync(x, 0, sizeof(int), s.handle));
  if (s.error == cudaSuccess) s.check(cudaStreamBeginCapture(s.handle, kCaptureMode));
  launch(add_to, 1, 1, 0, &s, 7, x);
  if (s.handle != nullptr) {  // also after an error: the capture must end
    const cudaError_t ended = cudaStreamEndCapture(s.handle, &graph);
    s.check(ended);
  }
  if (s.error == cudaSuccess) s.check(cudaGraphInstantiate(&exec, graph, 0));
  if (s.error == cudaSuccess) s.check(cudaGraphLaunch(exec, s.handle));
  launch(add_to, 1, 1, 0, &s, 1, x);
  if (s.error == cudaSuccess) s.check(cudaMemcpyAsync(back, x, sizeof(int), kDown, s.handle));
  if (s.error == cudaSuccess) s.check(cudaEventRecord(event, s.handle));
  if (s.error == cudaSuccess) s.check(cudaEventSynchronize(event));
  *result = s.error == cudaSuccess ? *back : -1;
  for (const cudaError_t freed :
       {exec != nullptr ? cudaGraphExecDestroy(exec) : cudaSuccess, graph != nullptr ? cudaGraphDestroy(graph) : cudaSuccess,
        event != nullptr ? cudaEventDestroy(event) : cudaSuccess, cudaFreeHost(back), cudaFree(x),
        s.handle != nullptr ? cudaStreamDestroy(s.handle) : cudaSuccess}) {
    s.check(freed);
  }
  return s.error;
}

TEST_F(Emulation, EveryCallCanFailOnce) {
  int result = 0;
  emulation::reset();
  EXPECT_EQ(small_program(&result), cudaSuccess);
  EXPECT_EQ(result, 8);
  const uint64_t calls = emulation::calls();
  EXPECT_EQ(calls, 20u);
  const Live before = emulation::live();
  for (uint64_t n = 1; n <= calls + 1; ++n) {
    emulation::fail_call(n, cudaErrorUnknown);
    const cudaError_t error = small_program(&result);
    EXPECT_EQ(error, n <= calls ? cudaErrorUnknown : cudaSuccess) << n;
    EXPECT_EQ(emulation::live(), before) << n;
    emulation::reset();
  }
}

TEST_F(Emulation, LateFailuresAreToldAtTheNextSynchronization) {
  int result = 0;
  emulation::reset();
  EXPECT_EQ(small_program(&result), cudaSuccess);
  const uint64_t queued = emulation::queued();
  EXPECT_EQ(queued, 4u);  // memset, graph, kernel, copy
  const Live before = emulation::live();
  for (const bool deferred : {false, true}) {
    for (uint64_t n = 1; n <= queued; ++n) {
      emulation::reset();
      emulation::set_deferred(deferred);
      emulation::fail_late(n, cudaErrorIllegalAddress);
      EXPECT_EQ(small_program(&result), cudaErrorIllegalAddress) << n;
      EXPECT_EQ(emulation::live(), before) << n;
      int devices = 0;
      EXPECT_EQ(cudaGetDeviceCount(&devices), cudaErrorIllegalAddress);  // for good
      EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
      EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    }
  }
  emulation::reset();
  int* const x = device(std::vector<int>{1});
  emulation::fail_late(1, cudaErrorLaunchFailure);
  launch(add_to, 1, 1, 0, &stream_, 1, x);
  EXPECT_EQ(stream_.error, cudaSuccess);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 4), cudaSuccess);  // nobody was told yet
  EXPECT_EQ(sync(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaFree(p), cudaErrorLaunchFailure);
  emulation::reset();
  EXPECT_EQ(host(x, 1)[0], 1);
}

TEST_F(Emulation, ADeviceIsLostOrWasNeverThere) {
  int* const x = device(std::vector<int>{1});
  emulation::lose_device(cudaErrorECCUncorrectable);
  EXPECT_EQ(sync(), cudaErrorECCUncorrectable);
  launch(add_to, 1, 1, 0, &stream_, 1, x);
  EXPECT_EQ(std::exchange(stream_.error, cudaSuccess), cudaErrorECCUncorrectable);
  emulation::reset();
  int n = -1;
  emulation::set_devices(0);
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorNoDevice);
  emulation::set_devices(2);
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaSuccess);
  EXPECT_EQ(n, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  cudaDeviceProp prop;
  emulation::set_capability(7, 5);
  EXPECT_EQ(cudaGetDeviceProperties(&prop, 1), cudaSuccess);
  EXPECT_EQ(prop.major * 10 + prop.minor, 75);
  stream_.overlap = true;  // dependent launch is of 9.0 and up
  launch(add_to, 1, 1, 0, &stream_, 1, x);
  EXPECT_EQ(std::exchange(stream_.error, cudaSuccess), cudaErrorNotSupported);
  emulation::set_driver_missing(true);
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaDriverGetVersion(&n), cudaSuccess);
  EXPECT_EQ(n, 0);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInsufficientDriver), "cudaErrorInsufficientDriver");
  EXPECT_EQ(cudaErrorInsufficientDriver, 35);
}

TEST_F(Emulation, ThreadsUseStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<int> results(4);
  for (int& result : results) {
    threads.emplace_back([&result] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(small_program(&result), cudaSuccess);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(results, std::vector<int>(4, 8));
}

}  // namespace
}  // namespace kvrt::cuda
