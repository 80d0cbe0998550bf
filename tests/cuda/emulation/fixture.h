// The fixture of the emulation's tests: a clean machine, a stream, memory that is freed; nothing may be left over.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cuda/emulation/emulator.h"
#include "cuda/kernels/launch.h"

namespace kvrt::cuda {

class Emulation : public testing::Test {
 protected:
  Emulation() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    emulation::reset();
    before_ = emulation::live();
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Emulation() override {
    emulation::reset();
    for (void* p : device_) EXPECT_EQ(cudaFree(p), cudaSuccess);
    for (void* p : pinned_) EXPECT_EQ(cudaFreeHost(p), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_.handle), cudaSuccess);
    EXPECT_EQ(emulation::live(), before_);
  }

  template <typename T>
  T* device(size_t n) {
    T* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, n * sizeof(T)), cudaSuccess);
    device_.push_back(p);
    return p;
  }
  template <typename T>
  T* device(const std::vector<T>& values) {
    T* const p = device<T>(values.size());
    EXPECT_EQ(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return p;
  }
  int* pinned(int value) {
    int* p = nullptr;
    EXPECT_EQ(cudaMallocHost(&p, sizeof(int)), cudaSuccess);
    pinned_.push_back(p);
    *p = value;
    return p;
  }
  template <typename T>
  static std::vector<T> host(const T* p, size_t n) {
    std::vector<T> values(n);
    EXPECT_EQ(cudaMemcpy(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  cudaError_t sync() { return cudaStreamSynchronize(stream_.handle); }

  Stream stream_;
  emulation::Live before_{};
  std::vector<void*> device_, pinned_;
};
using EmulationDeathTest = Emulation;

}  // namespace kvrt::cuda
