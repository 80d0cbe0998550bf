#include "cuda/backend/device_context.h"

#include <algorithm>
#include <type_traits>

namespace kvrt::cuda {
namespace {

constexpr size_t kSlots = 8;  // copies under way at a time: one for each thread that reads chunks in a resume

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(const DeviceContext* context, uint8_t* data, uint64_t bytes) : context_(context), data_(data), bytes_(bytes) {}
  ~DeviceBuffer() override {
    const DeviceContext::Use use(context_);  // a lost device has nothing to give back
    (void)cudaFree(data_);
  }
  uint8_t* data() override { return data_; }
  uint64_t bytes() const override { return bytes_; }

 private:
  const DeviceContext* context_;
  uint8_t* data_;
  uint64_t bytes_;
};

class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(const DeviceContext* context, uint8_t* data, uint64_t bytes) : context_(context), data_(data), bytes_(bytes) {}
  ~PinnedBuffer() override {
    const DeviceContext::Use use(context_);
    (void)cudaFreeHost(data_);
  }
  uint8_t* data() override { return data_; }
  uint64_t bytes() const override { return bytes_; }

 private:
  const DeviceContext* context_;
  uint8_t* data_;
  uint64_t bytes_;
};

using ull = unsigned long long;

// Errors that leave the device usable by the process; after any other CUDA returns only that error. An error that ends a capture, ours or
// the host's own, says nothing about the device.
bool forgiven(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidValue:
    case cudaErrorIllegalState:
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status to_status(cudaError_t error, const std::string& what) {
  const bool memory = error == cudaErrorMemoryAllocation;
  return Status::make(memory ? Code::kNoMemory : Code::kDevice, Detail::kNone, static_cast<int32_t>(error),
                      what + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

Result<std::unique_ptr<DeviceContext>> DeviceContext::open(uint32_t device) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    return error(Code::kUnsupported, Detail::kNone, "CUDA: there is no NVIDIA driver, or it is older than CUDA 13 needs (580)");
  }
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) {
    return error(Code::kUnsupported, Detail::kNone, "CUDA: the driver shows no device");
  }
  if (counted != cudaSuccess) return to_status(counted, "CUDA: the driver's devices");
  if (device >= static_cast<uint32_t>(count)) {
    return error(Code::kUnsupported, Detail::kNone, "CUDA: device_index is %u, the driver shows %d device%s", device, count,
                 count > 1 ? "s" : "");
  }
  std::unique_ptr<DeviceContext> context(new DeviceContext);
  context->device_ = static_cast<int>(device);
  const cudaError_t got = cudaGetDeviceProperties(&context->properties_, context->device_);
  if (got != cudaSuccess) return to_status(got, "CUDA: properties of device " + std::to_string(device));
  const auto& p = context->properties_;
  if (p.major * 10 + p.minor < 75) {
    return error(Code::kUnsupported, Detail::kNone, "CUDA: %s has compute capability %d.%d, at least 7.5 is needed", p.name, p.major,
                 p.minor);
  }
  KVRT_TRY(context->find_driver());
  const Use use(context.get());
  KVRT_TRY(use.status());
  context->slots_.resize(kSlots);
  for (Slot& slot : context->slots_) {
    const cudaError_t made = cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking);
    if (made != cudaSuccess) return to_status(made, "CUDA: a stream for copies");
  }
  return context;
}

DeviceContext::~DeviceContext() {
  const Use use(this);
  for (Slot& slot : slots_) {
    slot.memory.reset();
    if (slot.stream) (void)cudaStreamDestroy(slot.stream);
  }
}

Status DeviceContext::find_driver() {
  constexpr unsigned kVersion = 12000;  // a CUDA version; the functions are older
  const auto find = [](const char* name, auto* function) {
    void* found = nullptr;
    const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, nullptr);
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(found);
    return status == cudaSuccess && !found ? cudaErrorNotSupported : status;
  };
  Driver driver;
  cudaError_t found = find("cuCtxGetCurrent", &driver.get_current);
  if (found == cudaSuccess) found = find("cuCtxSetCurrent", &driver.set_current);
  if (found != cudaSuccess) return failed(found, "CUDA: the driver's contexts");
  driver_ = driver;
  return {};
}

DeviceContext::Use::Use(const DeviceContext* context)
    : driver_(context->driver_), restores_(driver_.get_current && driver_.get_current(&before_) == 0) {
  {
    Lock lock(context->mu_);
    status_ = context->lost_.clone();
  }
  if (status_.is_ok() && !restores_) status_ = error(Code::kDevice, Detail::kNone, "CUDA: the driver has gone");  // as at a process's end
  if (!status_.is_ok()) return;
  const cudaError_t set = cudaSetDevice(context->device_);
  if (set != cudaSuccess) status_ = const_cast<DeviceContext*>(context)->failed(set, "CUDA: cudaSetDevice");
}

DeviceContext::Use::~Use() {
  if (restores_) (void)driver_.set_current(before_);
}

Status DeviceContext::failed(cudaError_t error, const std::string& what) {
  (void)cudaGetLastError();  // else the next caller would get this error
  Status status = to_status(error, what);
  Lock lock(mu_);
  if (!lost_.is_ok()) return lost_.clone();
  if (!forgiven(error)) lost_ = status.clone();
  return status;
}

Result<std::unique_ptr<Buffer>> DeviceContext::alloc(uint64_t bytes) {
  const Use use(this);
  KVRT_TRY(use.status());
  void* data = nullptr;
  const cudaError_t got = cudaMalloc(&data, std::max<uint64_t>(bytes, 1));
  if (got == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return error(Code::kNoMemory, Detail::kNone, "%s gave no %llu bytes: %llu of %llu are free", properties_.name, ull{bytes}, ull{free},
                 ull{total});
  }
  if (got != cudaSuccess) return failed(got, "cudaMalloc of " + std::to_string(bytes) + " bytes");
  auto buffer = std::make_unique<DeviceBuffer>(this, static_cast<uint8_t*>(data), bytes);
  const cudaError_t cleared = cudaMemsetAsync(data, 0, std::max<uint64_t>(bytes, 1), nullptr);
  if (cleared != cudaSuccess) return failed(cleared, "cudaMemsetAsync");
  const cudaError_t done = cudaStreamSynchronize(nullptr);
  if (done != cudaSuccess) return failed(done, "cudaMemsetAsync");
  return std::unique_ptr<Buffer>(std::move(buffer));
}

Result<std::unique_ptr<Buffer>> DeviceContext::alloc_pinned(uint64_t bytes) {
  const Use use(this);
  KVRT_TRY(use.status());
  void* data = nullptr;
  const cudaError_t got = cudaMallocHost(&data, std::max<uint64_t>(bytes, 1));
  if (got != cudaSuccess) return failed(got, "cudaMallocHost of " + std::to_string(bytes) + " bytes");
  return std::unique_ptr<Buffer>(std::make_unique<PinnedBuffer>(this, static_cast<uint8_t*>(data), bytes));
}

Result<std::unique_ptr<DeviceContext::Staging>> DeviceContext::staging(uint64_t bytes) {
  const Use use(this);
  KVRT_TRY(use.status());
  size_t i = 0;
  {
    Lock lock(mu_);
    const auto free = [&] {
      const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.taken; });
      i = static_cast<size_t>(slot - slots_.begin());
      return slot != slots_.end();
    };
    while (!free()) slot_free_.wait(mu_);
    slots_[i].taken = true;
  }
  auto staging = std::make_unique<Staging>(this, i);  // gives the slot back, also after an error
  Slot& slot = slots_[i];
  if (!slot.memory || slot.memory->bytes() < bytes) {
    slot.memory.reset();
    KVRT_ASSIGN(slot.memory, alloc_pinned(bytes));
  }
  return staging;
}

DeviceContext::Staging::~Staging() {
  if (under_way_) (void)wait("a copy that was given up");
  Lock lock(context_->mu_);
  context_->slots_[slot_].taken = false;
  context_->slot_free_.notify_one();
}

std::span<uint8_t> DeviceContext::Staging::memory() const {
  Buffer& memory = *context_->slots_[slot_].memory;
  return {memory.data(), memory.bytes()};
}
cudaStream_t DeviceContext::Staging::stream() const { return context_->slots_[slot_].stream; }

Status DeviceContext::Staging::start(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, const char* what) {
  const Use use(context_);
  const cudaError_t queued = cudaMemcpyAsync(to, from, bytes, kind, stream());
  if (queued != cudaSuccess) return context_->failed(queued, what);
  under_way_ = true;
  return {};
}

Status DeviceContext::Staging::wait(const char* what) {
  under_way_ = false;
  const Use use(context_);
  const cudaError_t done = cudaStreamSynchronize(stream());
  if (done != cudaSuccess) return context_->failed(done, what);
  return {};
}

Status DeviceContext::Staging::copy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, const char* what) {
  KVRT_TRY(start(to, from, bytes, kind, what));
  return wait(what);
}

}  // namespace kvrt::cuda
