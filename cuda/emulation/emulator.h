// The emulated device, and the functions by which a test steers it. By default there is one device, and a launch or a copy is done when its
// call returns. Thread-safe. It emulates CUDA's in-order streams, events, capture into graphs, and errors that come late and stay. Only
// kernels and copies may touch device memory: elsewhere it faults. Kernels that hang at a barrier abort the program with a message. A
// kernel's asynchronous copy to shared memory comes as late as it may: the old content is gone at once, the new is there after its wait.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>  // tests/cuda/emulation has one

namespace kvrt::cuda {
struct CublasLt;  // cuda/gemm/cublaslt_abi.h
}

namespace kvrt::emulation {

// The times at which device memory faults under host code: it is opened when work runs, and shut again after each piece of work, or at the
// next synchronization (which is cheaper: the system takes some 60 ns a page).
enum class Protection { kNone, kAfterSync, kAlways };

// The order in which the threads of a block take turns between barriers, and in which blocks do (kRandom: forwards). A missing barrier that
// one order hides shows in another.
enum class Order { kForwards, kBackwards, kRandom };

// Behaviour that a device may show and that kernels must bear. KVRT_EMULATION sets it for a whole program, as a list with commas:
// backwards, random or random:SEED, truncating.
struct Modes {
  Order order = Order::kForwards;
  uint32_t seed = 1;  // of kRandom; each grid begins with it
  // Tensor cores sum the products of a fragment and the old value at once: each is cut to the largest one's 24 bits and one more, and the
  // sum is cut too. By default the sum is a chain of fma.
  bool truncating = false;
};
Modes modes_of_environment();

struct Options {
  uint32_t devices = 1;
  int major = 9, minor = 0;                   // compute capability
  bool driver_missing = false;                // every call gives cudaErrorInsufficientDriver
  uint64_t budget_bytes = uint64_t{4} << 30;  // device memory; at most kArenaBytes (memory.h)
  // Work waits in its stream until someone synchronizes with it, so that a missing synchronization shows as wrong data. A query does one
  // piece of work, so that polling ends.
  bool deferred = false;
  Protection protection = Protection::kAfterSync;
  Modes modes = modes_of_environment();
  uint64_t fill_bytes = 64ull << 20;  // so much of an allocation is NaN (0xff) at first; the rest is zero and costs nothing
};

// Back to the start of the program: default options, no error, calls counted from zero, nothing queued. Allocations stay.
void reset();
void configure(const Options& options);
Options options();

// Set one option each.
void set_budget(uint64_t bytes);
void set_devices(uint32_t count);
void set_driver_missing(bool missing);
void set_capability(int major, int minor);
void set_deferred(bool deferred);

// The n-th call of the API from now on (1: the next) does nothing and returns the error. All calls that can fail count, so not
// cudaGetLastError and its like. A call that frees or ends something still does so.
void fail_call(uint64_t n, cudaError_t error);
// The n-th kernel, copy, memset or graph that is queued from now on fails on the device: its call succeeds, it does nothing, and neither
// does what follows; the next synchronization returns the error, and from then on every call does.
void fail_late(uint64_t n, cudaError_t error);
// From now on every call returns the error. Freeing and destroying still work as bookkeeping.
void lose_device(cudaError_t error = cudaErrorLaunchFailure);

// The device of the calling thread's context, and whether the thread has a context.
int current_device();
bool has_context();

// The library that a search for cuBLASLt finds; null, as at the start of the program: none. reset() leaves it.
void set_cublaslt(const cuda::CublasLt* table);
const cuda::CublasLt* cublaslt();

uint64_t calls();     // since reset(), counted as fail_call counts
uint64_t queued();    // likewise, counted as fail_late counts
uint64_t launches();  // kernels that have run since reset(), with those of graphs
uint64_t captures();  // graphs that were instantiated since reset()

struct Live {
  uint64_t device_allocations, device_bytes, pinned_allocations, pinned_bytes, streams, events, graphs, graph_execs;
  bool operator==(const Live&) const = default;
};
Live live();

}  // namespace kvrt::emulation
