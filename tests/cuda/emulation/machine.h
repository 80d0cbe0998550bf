// The emulated device's state, behind one lock: every call of the API takes it, and holds it while work runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "tests/cuda/emulation/cuda_runtime.h"  // which others have as <cuda_runtime.h>
#include "tests/cuda/emulation/grid.h"
#include "tests/cuda/emulation/memory.h"

namespace kvrt::emulation {

// One piece of work of a stream.
struct Work {
  enum class Kind : uint8_t { kKernel, kCopy, kSet, kGraph, kRecord, kWait };
  Kind kind;
  bool fails = false;                              // fail_late
  Grid grid{};                                     // kKernel
  std::shared_ptr<const void> kept;                // the object that grid.self, or `from`, points to where the work runs later
  std::shared_ptr<const std::vector<Work>> nodes;  // kGraph
  void* to = nullptr;                              // kCopy, kSet
  const void* from = nullptr;                      // kCopy
  uint64_t bytes = 0;                              // kCopy, kSet
  int value = 0;                                   // kSet
  std::shared_ptr<struct EventState> event;        // kRecord, kWait
  uint64_t record = 0;                             // kRecord, kWait: which of the event's records
};

struct EventState {
  uint64_t recorded = 0, done = 0;   // how many records were queued, and how many came to pass
  CUstream_st* stream = nullptr;     // of the last record
  CUstream_st* capturing = nullptr;  // the last record was captured there
  bool timed = true;
  std::chrono::steady_clock::time_point at{};
};

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool valid = true;
  std::vector<Work> nodes;
};

}  // namespace kvrt::emulation

struct CUstream_st {
  bool blocking = true;  // waits for the default stream
  int device = 0;
  std::deque<kvrt::emulation::Work> queue;
  std::unique_ptr<kvrt::emulation::Capture> capture;
};
struct CUevent_st {
  std::shared_ptr<kvrt::emulation::EventState> state;
};
struct CUgraph_st {
  std::shared_ptr<const std::vector<kvrt::emulation::Work>> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<kvrt::emulation::Work>> nodes;
};

namespace kvrt::emulation {

struct Failure {
  uint64_t in = 0;  // calls, or pieces of work, from now on; 0: none
  cudaError_t error = cudaSuccess;
};

struct Machine {
  std::recursive_mutex mutex;
  Options options;
  DeviceMemory memory;
  std::map<const uint8_t*, uint64_t> pinned;  // bytes of each
  CUstream_st default_stream;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> graph_execs;
  std::map<const void*, uint32_t> shared_limits;  // cudaFuncSetAttribute's, by kernel

  uint64_t calls = 0, queued = 0, launches = 0, captures = 0;
  Failure fail_call, fail_late;
  const cuda::CublasLt* cublaslt = nullptr;
  cudaError_t failed = cudaSuccess;  // work failed, nobody was told yet
  cudaError_t lost = cudaSuccess;    // and now they were: for good
};
Machine& machine();

// One call of the API: takes the lock, counts, and says whether the call is to fail. `needs_device` false: works without one.
class Call {
 public:
  explicit Call(bool needs_device = true);
  cudaError_t error() const { return error_; }
  // The status that the call returns; remembered for cudaGetLastError.
  cudaError_t result(cudaError_t error);

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  cudaError_t error_;
};

// Begins a function of the API: counted, locked, and left at once where it is to fail. Gives it `call` and `m`.
#define KVRT_CALL()                                                            \
  ::kvrt::emulation::Call call;                                                \
  [[maybe_unused]] ::kvrt::emulation::Machine& m = kvrt::emulation::machine(); \
  if (call.error() != cudaSuccess) return call.result(call.error())
// `stream` of a handle, or out of the function.
#define KVRT_STREAM(handle)                                         \
  CUstream_st* const stream = kvrt::emulation::find_stream(handle); \
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle)

// ---- streams.cc

// The stream of a handle; null: there is none such.
CUstream_st* find_stream(cudaStream_t handle);
// Queues the work, or runs it at once, or captures it.
cudaError_t submit(CUstream_st* stream, Work work);
// Runs queued work: all of it, one piece of it, until the event's record came to pass, of all streams (or those that wait for the
// default stream).
void drain(CUstream_st* stream);
void drain_one(CUstream_st* stream);
void drain_until(EventState* event, uint64_t record);
void drain_all(bool blocking_only);
// A synchronization ends: late failures are told, device memory is shut.
cudaError_t synchronized();
// Gives the error of a call that no capture may see, if there is a capture; the capture ends with it.
cudaError_t refuse_in_capture();
cudaError_t refuse_captured(CUstream_st* stream);

}  // namespace kvrt::emulation
