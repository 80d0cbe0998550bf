// bench_cuda: the speeds of kvrt's kernels and backend on a CUDA device. One JSON object a line; gpu_check.py (tests/gpu) collects them.
// Over the emulation (tests/cuda/emulation) it tries out itself and measures nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/kernels/kernels.h"
#include "runtime/base/status.h"

namespace kvrt::bench {

// A figure after an error is none: prints the error and ends the program.
[[noreturn]] void fail(const std::string& what);
void must(cudaError_t status, const char* what);
void must(const Status& status);
template <typename T>
T must(Result<T> result) {
  if (!result.is_ok()) fail(result.status().message());
  return std::move(result).value();
}

// One JSON object, printed when it ends.
class Line {
 public:
  explicit Line(const char* part) { add("part", part); }
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  Line& add(const char* key, const std::string& text);
  Line& add(const char* key, const char* text) { return add(key, std::string(text)); }
  template <typename T>
  requires std::is_arithmetic_v<T> Line& add(const char* key, T value) {
    return number(key, static_cast<double>(value), std::is_floating_point_v<T>);
  }

 private:
  Line& number(const char* key, double value, bool rounded);
  std::string text_;
};

class Memory {
 public:
  Memory() = default;
  explicit Memory(uint64_t bytes);
  // Holds the pattern over and over.
  Memory(uint64_t bytes, std::span<const uint8_t> pattern);
  template <typename T>
  explicit Memory(const std::vector<T>& from)
      : Memory(from.size() * sizeof(T), {reinterpret_cast<const uint8_t*>(from.data()), from.size() * sizeof(T)}) {}
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Memory() { (void)cudaFree(data_); }
  template <typename T>
  T* as(uint64_t at_byte = 0) const {
    return reinterpret_cast<T*>(data_ + at_byte);
  }

 private:
  uint8_t* data_ = nullptr;
};

struct Timed {
  double us, spread;  // the median; (most - least) / median
};

// The device, and how time is taken on it. One thread.
class Device {
 public:
  explicit Device(bool smoke);
  ~Device() { (void)cudaStreamDestroy(stream.handle); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The time of one call of queue, by replays of a graph that has called queue(0) ... queue(turn - 1), more than once where they are short.
  Timed time(uint32_t turn, const std::function<void(uint32_t)>& queue);
  // The same by the host's clock, which stops when work returns.
  Timed time_host(uint32_t runs, const std::function<void()>& work) const;
  // The number of arrays of so many bytes at which none is still in the cache when its turn comes again.
  uint32_t turns_for(uint64_t bytes) const;
  // The size of a measurement, or the one to try the program out with.
  template <typename T>
  T size(T whole, T tried) const {
    return smoke ? tried : whole;
  }
  void finish();
  void print();

  const bool smoke;
  cuda::Stream stream;
  cudaDeviceProp properties{};
  double copy_gb_s = 0;  // read and written, of a copy within the device: the rate that kernels are held against
};

// Random numbers of some 0.02 as a tensor of the type, in panels, in device memory, once and again.
class Weights {
 public:
  Weights(DType type, uint32_t rows, uint32_t cols, uint32_t copies);
  cuda::DeviceWeight view(uint32_t copy) const { return view(copy, {{rows_}}); }
  // Parts of so many rows each.
  cuda::DeviceWeight view(uint32_t copy, std::span<const uint32_t> parts) const;
  cuda::DeviceWeight view(uint32_t copy, std::initializer_list<uint32_t> parts) const {
    return view(copy, std::span(parts.begin(), parts.size()));
  }
  uint64_t bytes() const { return bytes_; }  // of one copy
  static uint64_t bytes_of(DType type, uint32_t rows, uint32_t cols);

 private:
  DType type_;
  uint32_t rows_, cols_;
  uint64_t panel_bytes_, bytes_;
  Memory memory_;
};

std::vector<uint8_t> random_bytes(uint64_t n, uint32_t seed);
// Halves of random signs and mantissas in [2^exponent, 2^(exponent + 2)).
std::vector<uint8_t> random_halves(uint64_t n, int exponent, uint32_t seed);
std::vector<float> random_floats(uint64_t n, uint32_t seed);
const char* type_name(DType type);

// The parts, each in a file of its own.
void bench_copies(Device* device);
void bench_rows(Device* device);
void bench_matvec(Device* device);
void bench_gemm(Device* device);
void bench_attention(Device* device);
void bench_step(Device* device);

}  // namespace kvrt::bench
