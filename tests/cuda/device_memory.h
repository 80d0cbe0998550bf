// Device memory of the CUDA tests: arrays allocated to the byte, so that a sanitizer sees a read beyond them, and weights as the
// backend has them. Works on a device and in the emulation (tests/cuda/emulation).
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/kernels/kernels.h"
#include "runtime/compute/cpu/weights.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {

// Every byte 0xff until it is written: a float NaN, an index that is out of range.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t count) : count_(count) {
    if (count == 0) return;
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xff, count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) { upload(from); }
  DeviceArray(DeviceArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() {
    EXPECT_EQ(cudaFree(data_), cudaSuccess);  // null is fine
  }

  T* get() const { return data_; }
  size_t size() const { return count_; }
  void upload(const std::vector<T>& from) {
    ASSERT_EQ(from.size(), count_);
    if (count_ == 0) return;
    EXPECT_EQ(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  // Waits for everything that was queued.
  std::vector<T> to_host() const {
    std::vector<T> out(count_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (count_ == 0) return out;
    EXPECT_EQ(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return out;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

// A stream of one's own; an error that it kept fails the test.
struct TestStream {
  cuda::Stream stream;
  TestStream() { EXPECT_EQ(cudaStreamCreate(&stream.handle), cudaSuccess); }
  ~TestStream() {
    EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
    EXPECT_EQ(stream.error, cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream.handle), cudaSuccess);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cuda::Stream*() { return &stream; }  // NOLINT: wherever a kernel wants one
};

// A weight on the device, each part's panels in an array of its own; `host` holds the same panels.
struct UploadedWeight {
  cuda::DeviceWeight device;
  std::unique_ptr<Weight> host;
  std::vector<DeviceArray<uint8_t>> data;

  const PanelWeight& panels() const { return static_cast<const PanelWeight&>(*host); }
};

inline UploadedWeight upload_weight(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  WeightImage image;
  const Status added = image.add(views);
  EXPECT_TRUE(added.is_ok()) << added.message();
  const std::shared_ptr<uint8_t[]> bytes(new uint8_t[image.bytes()]());
  image.pack(0, image.bytes(), bytes.get());
  UploadedWeight out;
  out.host = std::move(image.bind(std::shared_ptr<const uint8_t>(bytes, bytes.get()))[0]);
  out.device.rows = out.host->rows();
  out.device.cols = out.host->cols();
  for (const WeightPart& part : out.panels().parts()) {
    out.data.emplace_back(std::vector<uint8_t>(part.data, part.data + part.panels * part.panel_bytes));
    EXPECT_LT(out.device.n_parts, cuda::kWeightPartsMax);
    out.device.parts[out.device.n_parts++] = {part.type, part.row_begin, part.rows, part.panels, part.panel_bytes, out.data.back().get()};
  }
  return out;
}

}  // namespace kvrt::test
