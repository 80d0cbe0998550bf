// launch(): the only way in which a kernel is started. Compiled with nvcc against the CUDA runtime, or with the host's compiler against the
// emulation of tests/cuda/emulation: both give <cuda_runtime.h>.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

namespace kvrt::cuda {

// An in-order queue of a device. The first error of the queued work is kept until take_error. One thread at a time.
struct Stream {
  cudaStream_t handle = nullptr;
  // Kernels may begin before the one ahead of them ends (programmatic dependent launch, sm_90 and up): each calls grid_wait() (device.h)
  // before it touches what another kernel writes.
  bool overlap = false;
  size_t shared_max = SIZE_MAX;  // bytes of shared memory that a block may have
  cudaError_t error = cudaSuccess;

  void check(cudaError_t status) {
    if (error == cudaSuccess) error = status;
  }
};

// Starts kernel<<<grid, block, shared bytes>>>(args...) on the stream. After an error it starts nothing more.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, uint32_t shared, Stream* stream, Args&&... args) {
  if (stream->error != cudaSuccess || grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream->handle;
  config.attrs = &overlap;
  config.numAttrs = stream->overlap ? 1 : 0;
  stream->check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...));
}

}  // namespace kvrt::cuda
