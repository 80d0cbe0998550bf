// The API of devices and memory, and the launch of a kernel.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda/emulation/machine.h"
#include "tests/cuda/emulation/shared_memory.h"

using kvrt::emulation::Call;
using kvrt::emulation::machine;
using kvrt::emulation::Machine;
using kvrt::emulation::Work;

namespace {

// A context of each device, by its place here; a thread begins with none, which counts as the first device's.
char g_contexts[16];
thread_local char* t_context = nullptr;

int get_context(void** context) {
  *context = t_context;
  return 0;
}
int set_context(void* context) {
  t_context = static_cast<char*>(context);
  return 0;
}

constexpr int kVersion = 13000;

bool is_device(const Machine& m, int device) {
  return device >= 0 && static_cast<uint32_t>(device) < std::min<uint64_t>(m.options.devices, sizeof g_contexts);
}

// A direction that agrees with the pointers. Memory of the host is believed.
cudaError_t check_copy(const Machine& m, const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = m.memory.touches(to, bytes), from_device = m.memory.touches(from, bytes);
  if ((to_device && !m.memory.holds(to, bytes)) || (from_device && !m.memory.holds(from, bytes))) return cudaErrorInvalidValue;
  if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDefault:
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

bool is_pinned(const Machine& m, const void* p) {
  const auto at = m.pinned.upper_bound(static_cast<const uint8_t*>(p));
  if (at == m.pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(at);
  return static_cast<const uint8_t*>(p) < begin + bytes;
}

Work copy_work(void* to, const void* from, size_t bytes) {
  Work work{};
  work.kind = Work::Kind::kCopy;
  work.to = to;
  work.from = from;
  work.bytes = bytes;
  return work;
}
Work set_work(void* to, int value, size_t bytes) {
  Work work{};
  work.kind = Work::Kind::kSet;
  work.to = to;
  work.value = value;
  work.bytes = bytes;
  return work;
}

}  // namespace

int kvrt::emulation::current_device() { return t_context != nullptr ? static_cast<int>(t_context - g_contexts) : 0; }
bool kvrt::emulation::has_context() { return t_context != nullptr; }

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  KVRT_CALL();
  *count = static_cast<int>(m.options.devices);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  KVRT_CALL();
  if (!is_device(m, device)) return call.result(cudaErrorInvalidDevice);
  t_context = g_contexts + device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  KVRT_CALL();
  *device = kvrt::emulation::current_device();
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  KVRT_CALL();
  *function = std::strcmp(name, "cuCtxGetCurrent") == 0   ? reinterpret_cast<void*>(get_context)
              : std::strcmp(name, "cuCtxSetCurrent") == 0 ? reinterpret_cast<void*>(set_context)
                                                          : nullptr;
  if (found != nullptr) *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  KVRT_CALL();
  if (!is_device(m, device)) return call.result(cudaErrorInvalidDevice);
  *prop = {};
  std::snprintf(prop->name, sizeof prop->name, "Emulated GPU");
  prop->totalGlobalMem = m.options.budget_bytes;
  prop->sharedMemPerBlock = kvrt::emulation::kSharedBytesDefault;
  prop->sharedMemPerBlockOptin = kvrt::emulation::kSharedBytesMax;
  prop->sharedMemPerMultiprocessor = kvrt::emulation::kSharedBytesMax + 1024;
  prop->reservedSharedMemPerBlock = 1024;
  prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
  prop->warpSize = 32;
  prop->maxThreadsPerBlock = prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = 0x7fffffff;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  prop->major = m.options.major;
  prop->minor = m.options.minor;
  prop->multiProcessorCount = 4;  // few: blocks that a kernel spreads over the multiprocessors run one after the other here
  prop->concurrentKernels = prop->unifiedAddressing = 1;
  prop->asyncEngineCount = 2;
  prop->memoryBusWidth = 512;
  prop->l2CacheSize = 4 << 20;
  prop->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  KVRT_CALL();
  if (!is_device(m, device)) return call.result(cudaErrorInvalidDevice);
  switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
      return *value = 1024, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return *value = kvrt::emulation::kSharedBytesDefault, cudaSuccess;
    case cudaDevAttrWarpSize:
      return *value = 32, cudaSuccess;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      return *value = 1000000, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = 4, cudaSuccess;
    case cudaDevAttrIntegrated:
    case cudaDevAttrPageableMemoryAccess:
      return *value = 0, cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      return *value = 512, cudaSuccess;
    case cudaDevAttrL2CacheSize:
      return *value = 4 << 20, cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return *value = 2048, cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
      return *value = 1, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      return *value = m.options.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = m.options.minor, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return *value = kvrt::emulation::kSharedBytesMax + 1024, cudaSuccess;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return *value = 65536, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = kvrt::emulation::kSharedBytesMax, cudaSuccess;
  }
  return call.result(cudaErrorInvalidValue);
}

cudaError_t cudaDriverGetVersion(int* version) {
  Call call(false);
  if (call.error() != cudaSuccess) return call.result(call.error());
  *version = machine().options.driver_missing ? 0 : kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  Call call(false);
  if (call.error() != cudaSuccess) return call.result(call.error());
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  KVRT_CALL();
  for (CUstream_st* const stream : m.streams) {
    if (const cudaError_t error = kvrt::emulation::refuse_captured(stream); error != cudaSuccess) return call.result(error);
  }
  kvrt::emulation::drain_all(false);
  return call.result(kvrt::emulation::synchronized());
}

// ---- memory

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  KVRT_CALL();
  *total = m.options.budget_bytes;
  *free = m.memory.bytes() < *total ? *total - m.memory.bytes() : 0;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, size_t bytes) {
  KVRT_CALL();
  *p = nullptr;
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  if (bytes == 0) return cudaSuccess;
  kvrt::emulation::explain_faults();
  *p = m.memory.allocate(bytes, m.options.budget_bytes, m.options.fill_bytes);
  return *p != nullptr ? cudaSuccess : call.result(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* p) {
  Call call;
  Machine& m = machine();
  if (p == nullptr) return call.result(call.error());
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  kvrt::emulation::drain_all(false);  // as a device does: memory is freed when nobody uses it
  if (!m.memory.release(p)) return call.result(cudaErrorInvalidValue);
  return call.result(call.error());
}

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
  KVRT_CALL();
  *p = nullptr;
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  if ((flags & ~7u) != 0) return call.result(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(p, 4096, bytes) != 0) return call.result(cudaErrorMemoryAllocation);
  std::memset(*p, 0xff, bytes);
  m.pinned[static_cast<uint8_t*>(*p)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* p) {
  Call call;
  Machine& m = machine();
  if (p == nullptr) return call.result(call.error());
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  kvrt::emulation::drain_all(false);
  if (m.pinned.erase(static_cast<uint8_t*>(p)) == 0) return call.result(cudaErrorInvalidValue);
  std::free(p);
  return call.result(call.error());
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  KVRT_CALL();
  CUstream_st* const stream = kvrt::emulation::find_stream(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t error = check_copy(m, to, from, bytes, kind); error != cudaSuccess) return call.result(error);
  Work work = copy_work(to, from, bytes);
  if (m.options.deferred && stream->capture == nullptr) {
    // Pageable memory goes through a buffer of the driver: it is read before the call returns, and written before too.
    if (!m.memory.touches(from, bytes) && !is_pinned(m, from)) {
      auto kept = std::make_shared<std::vector<uint8_t>>(static_cast<const uint8_t*>(from), static_cast<const uint8_t*>(from) + bytes);
      work.from = kept->data();
      work.kept = std::move(kept);
    }
    if (!m.memory.touches(to, bytes) && !is_pinned(m, to)) {
      const cudaError_t error = kvrt::emulation::submit(stream, std::move(work));
      kvrt::emulation::drain(stream);
      return call.result(error != cudaSuccess ? error : kvrt::emulation::synchronized());
    }
  }
  return call.result(kvrt::emulation::submit(stream, std::move(work)));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  KVRT_CALL();
  CUstream_st* const stream = kvrt::emulation::find_stream(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!m.memory.holds(to, bytes)) return call.result(cudaErrorInvalidValue);
  return call.result(kvrt::emulation::submit(stream, set_work(to, value, bytes)));
}

// Both on the default stream, for which blocking streams wait, and it for them.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  KVRT_CALL();
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  if (bytes != 0) {
    if (const cudaError_t error = check_copy(m, to, from, bytes, kind); error != cudaSuccess) return call.result(error);
  }
  kvrt::emulation::drain_all(true);
  if (bytes != 0) (void)kvrt::emulation::submit(&m.default_stream, copy_work(to, from, bytes));
  kvrt::emulation::drain(&m.default_stream);
  return call.result(kvrt::emulation::synchronized());
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  KVRT_CALL();
  if (const cudaError_t error = kvrt::emulation::refuse_in_capture(); error != cudaSuccess) return call.result(error);
  if (bytes == 0) return cudaSuccess;
  if (!m.memory.holds(to, bytes)) return call.result(cudaErrorInvalidValue);
  kvrt::emulation::drain_all(true);
  return call.result(kvrt::emulation::submit(&m.default_stream, set_work(to, value, bytes)));
}
