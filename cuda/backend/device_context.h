// DeviceContext: the device that the parts of the backend share, with its errors, memory and pinned staging.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/compute/backend.h"

namespace kvrt::cuda {

// NO_MEMORY where memory is missing, else DEVICE, with CUDA's number as os_code: "what: name (text)".
Status to_status(cudaError_t error, const std::string& what);

// Any thread, unless a member says otherwise. After the device was lost every call gives the same DEVICE.
class DeviceContext {
 public:
  static Result<std::unique_ptr<DeviceContext>> open(uint32_t device);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const cudaDeviceProp& properties() const { return properties_; }
  // Every CUDA call is made within a Use.
  class Use;
  // The error's status. An error after which CUDA does not go on is kept.
  Status failed(cudaError_t error, const std::string& what);

  Result<std::unique_ptr<Buffer>> alloc(uint64_t bytes);
  Result<std::unique_ptr<Buffer>> alloc_pinned(uint64_t bytes);

  // A pinned buffer with a stream of its own, for one copy at a time. Waits while all are taken.
  class Staging;
  Result<std::unique_ptr<Staging>> staging(uint64_t bytes);

 private:
  // Functions of the driver: a thread's context may belong to no device's own, and a thread that had none is left without.
  struct Driver {
    int (*get_current)(void** context) = nullptr;
    int (*set_current)(void* context) = nullptr;
  };
  struct Slot {
    cudaStream_t stream = nullptr;
    std::unique_ptr<Buffer> memory;
    bool taken = false;
  };
  DeviceContext() = default;
  Status find_driver();
  int device_ = 0;
  Driver driver_;
  cudaDeviceProp properties_{};
  mutable Mutex mu_;
  Status lost_ KVRT_GUARDED_BY(mu_);
  Condition slot_free_;
  std::vector<Slot> slots_;  // a slot's `taken` is guarded by mu_, the rest belongs to who took it
};

// While it lives, the device is current in the calling thread; after it the thread's former one is again. Uses nest.
class DeviceContext::Use {
 public:
  explicit Use(const DeviceContext* context);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  // OK unless the device was lost.
  Status status() const { return status_.clone(); }

 private:
  Driver driver_;  // a copy: the context may end first
  void* before_ = nullptr;
  bool restores_;
  Status status_;
};

class DeviceContext::Staging {
 public:
  Staging(DeviceContext* context, size_t slot) : context_(context), slot_(slot) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  std::span<uint8_t> memory() const;
  cudaStream_t stream() const;
  Status start(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, const char* what);
  Status wait(const char* what);
  // Starts the copy and waits for it.
  Status copy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, const char* what);

 private:
  DeviceContext* context_;
  size_t slot_;
  bool under_way_ = false;
};

}  // namespace kvrt::cuda
