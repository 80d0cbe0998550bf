// Which kernel table a backend uses: the best that this machine supports and that agrees with scalar.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/compute/cpu_backend.h"

namespace kvrt {
namespace {

[[maybe_unused]] bool machine_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

}  // namespace

const CpuKernels* avx2_kernels() { return nullptr; }

Result<std::unique_ptr<Backend>> open_cpu(const CpuOptions& options, Log* log) {
  const CpuKernels* kernels = scalar_kernels();
  if (!options.isa.empty() && options.isa != kernels->isa) {
    return error(Code::kUnsupported, Detail::kNone, "no kernels for instruction set \"%s\"", options.isa.c_str());
  }
  const uint32_t threads = options.threads == 0 ? usable_cpus() : options.threads;
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(kernels, std::min(threads, kThreadsMax)));
}

std::vector<KernelTableState> cpu_kernel_tables() { return {{"scalar", true, true}}; }

}  // namespace kvrt
