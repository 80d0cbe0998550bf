// The only symbol that libkvrt_cuda exports: kvrt_cuda_plugin, for which open_cuda of libkvrt looks.
#include <new>

#include "cuda/backend/cuda_backend.h"

namespace kvrt::cuda {
namespace {

Backend* open_backend(const CudaOptions& options, Log* log, Status* status) {
  auto opened = CudaBackend::open(options, log);
  if (opened.is_ok()) return std::move(opened).value().release();
  *status = opened.take_status();
  return nullptr;
}

Status describe(std::string* text) {
  int driver = 0, runtime = 0, count = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) return to_status(counted, "CUDA: the driver's devices");
  (void)cudaDriverGetVersion(&driver);
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  *text = "driver for CUDA " + version(driver) + ", runtime " + version(runtime);
  auto gemm = load_cublaslt();
  *text += gemm.is_ok() ? "\ncuBLASLt " + std::to_string(gemm->version()) : "\nno cuBLASLt: " + gemm.status().message();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    if (cudaGetDeviceProperties(&p, i) != cudaSuccess) continue;
    *text += "\n" + std::to_string(i) + ": " + p.name + ", compute capability " + std::to_string(p.major) + "." + std::to_string(p.minor) +
             ", " + std::to_string(p.totalGlobalMem >> 20) + " MiB";
  }
  return {};
}

}  // namespace
}  // namespace kvrt::cuda

extern "C" __attribute__((visibility("default"))) const kvrt::CudaPlugin kvrt_cuda_plugin;
const kvrt::CudaPlugin kvrt_cuda_plugin = {KVRT_CUDA_PLUGIN_VERSION, kvrt::cuda::open_backend, kvrt::cuda::describe};
