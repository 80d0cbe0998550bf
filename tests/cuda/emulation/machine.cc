// The machine itself, the beginning of a call, and the requests of a test.
#include "tests/cuda/emulation/machine.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace kvrt::emulation {
namespace {

thread_local cudaError_t t_last_error = cudaSuccess;

cudaError_t device_error(const Machine& m) {
  if (m.options.driver_missing) return cudaErrorInsufficientDriver;
  if (m.options.devices == 0) return cudaErrorNoDevice;
  return m.lost;
}

}  // namespace

Modes modes_of_environment() {
  const char* const given = std::getenv("KVRT_EMULATION");
  Modes modes;
  std::string word;
  for (std::istringstream list(given != nullptr ? given : ""); std::getline(list, word, ',');) {
    if (word == "backwards") {
      modes.order = Order::kBackwards;
    } else if (word == "truncating") {
      modes.truncating = true;
    } else if (word == "random" || std::sscanf(word.c_str(), "random:%u", &modes.seed) == 1) {
      modes.order = Order::kRandom;
    } else {
      std::fprintf(stderr, "CUDA emulation: KVRT_EMULATION: there is no %s\n", word.c_str());
      std::abort();
    }
  }
  return modes;
}

Machine& machine() {
  static Machine* const m = new Machine;  // never destroyed: objects that outlive main may still free
  return *m;
}

Call::Call(bool needs_device) : lock_(machine().mutex), error_(cudaSuccess) {
  Machine& m = machine();
  ++m.calls;
  if (m.fail_call.in != 0 && --m.fail_call.in == 0) error_ = m.fail_call.error;
  if (error_ == cudaSuccess && needs_device) error_ = device_error(m);
}

cudaError_t Call::result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
  return error;
}

void reset() {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.calls = m.queued = m.launches = m.captures = 0;
  m.fail_call = m.fail_late = {};
  m.failed = m.lost = t_last_error = cudaSuccess;
  m.default_stream.queue.clear();
  for (CUstream_st* const stream : m.streams) {
    stream->queue.clear();
    stream->capture.reset();
  }
  configure({});
}

void configure(const Options& options) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.options = options;
  m.memory.set_protection(options.protection);
}

Options options() {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  return m.options;
}

void set_budget(uint64_t bytes) {
  Options o = options();
  o.budget_bytes = bytes;
  configure(o);
}
void set_devices(uint32_t count) {
  Options o = options();
  o.devices = count;
  configure(o);
}
void set_driver_missing(bool missing) {
  Options o = options();
  o.driver_missing = missing;
  configure(o);
}
void set_capability(int major, int minor) {
  Options o = options();
  o.major = major;
  o.minor = minor;
  configure(o);
}
void set_deferred(bool deferred) {
  Options o = options();
  o.deferred = deferred;
  configure(o);
}

void fail_call(uint64_t n, cudaError_t error) {
  const std::lock_guard lock(machine().mutex);
  machine().fail_call = {n, error};
}
void fail_late(uint64_t n, cudaError_t error) {
  const std::lock_guard lock(machine().mutex);
  machine().fail_late = {n, error};
}
void lose_device(cudaError_t error) {
  const std::lock_guard lock(machine().mutex);
  machine().lost = error;
}

void set_cublaslt(const cuda::CublasLt* table) {
  const std::lock_guard lock(machine().mutex);
  machine().cublaslt = table;
}
const cuda::CublasLt* cublaslt() {
  const std::lock_guard lock(machine().mutex);
  return machine().cublaslt;
}

uint64_t calls() {
  const std::lock_guard lock(machine().mutex);
  return machine().calls;
}
uint64_t queued() {
  const std::lock_guard lock(machine().mutex);
  return machine().queued;
}
uint64_t launches() {
  const std::lock_guard lock(machine().mutex);
  return machine().launches;
}
uint64_t captures() {
  const std::lock_guard lock(machine().mutex);
  return machine().captures;
}

Live live() {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  uint64_t pinned_bytes = 0;
  for (const auto& [p, bytes] : m.pinned) pinned_bytes += bytes;
  return {m.memory.allocations(), m.memory.bytes(), m.pinned.size(), pinned_bytes,
          m.streams.size(),       m.events.size(),  m.graphs.size(), m.graph_execs.size()};
}

}  // namespace kvrt::emulation

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(kvrt::emulation::machine().mutex);
  const cudaError_t lost = kvrt::emulation::machine().lost;
  return lost != cudaSuccess ? lost : kvrt::emulation::t_last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  kvrt::emulation::t_last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define KVRT_NAME(e) \
  case e:            \
    return #e;
    KVRT_NAME(cudaSuccess)
    KVRT_NAME(cudaErrorInvalidValue)
    KVRT_NAME(cudaErrorMemoryAllocation)
    KVRT_NAME(cudaErrorInitializationError)
    KVRT_NAME(cudaErrorInvalidConfiguration)
    KVRT_NAME(cudaErrorInvalidMemcpyDirection)
    KVRT_NAME(cudaErrorInsufficientDriver)
    KVRT_NAME(cudaErrorDevicesUnavailable)
    KVRT_NAME(cudaErrorInvalidDeviceFunction)
    KVRT_NAME(cudaErrorNoDevice)
    KVRT_NAME(cudaErrorInvalidDevice)
    KVRT_NAME(cudaErrorNoKernelImageForDevice)
    KVRT_NAME(cudaErrorECCUncorrectable)
    KVRT_NAME(cudaErrorUnsupportedPtxVersion)
    KVRT_NAME(cudaErrorInvalidResourceHandle)
    KVRT_NAME(cudaErrorIllegalState)
    KVRT_NAME(cudaErrorNotReady)
    KVRT_NAME(cudaErrorIllegalAddress)
    KVRT_NAME(cudaErrorLaunchOutOfResources)
    KVRT_NAME(cudaErrorLaunchTimeout)
    KVRT_NAME(cudaErrorAssert)
    KVRT_NAME(cudaErrorMisalignedAddress)
    KVRT_NAME(cudaErrorLaunchFailure)
    KVRT_NAME(cudaErrorNotPermitted)
    KVRT_NAME(cudaErrorNotSupported)
    KVRT_NAME(cudaErrorSystemDriverMismatch)
    KVRT_NAME(cudaErrorStreamCaptureUnsupported)
    KVRT_NAME(cudaErrorStreamCaptureInvalidated)
    KVRT_NAME(cudaErrorStreamCaptureMerge)
    KVRT_NAME(cudaErrorStreamCaptureUnmatched)
    KVRT_NAME(cudaErrorStreamCaptureUnjoined)
    KVRT_NAME(cudaErrorStreamCaptureIsolation)
    KVRT_NAME(cudaErrorStreamCaptureImplicit)
    KVRT_NAME(cudaErrorCapturedEvent)
    KVRT_NAME(cudaErrorStreamCaptureWrongThread)
    KVRT_NAME(cudaErrorTimeout)
    KVRT_NAME(cudaErrorUnknown)
#undef KVRT_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {  // those that a user of kvrt may well read
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    default:
      return cudaGetErrorName(error);
  }
}
