// The choice of a backend's kernel table: the best that this machine supports and whose bits are scalar's.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <string>

#include "runtime/base/cpus.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cold_block.h"
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/compute/cpu/self_check.h"

namespace kvrt {
namespace {

bool machine_has_avx2() {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;  // F16C by hand: clang 14's __builtin_cpu_supports does not know it
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // these two know whether the system saves ymm
#else
  return false;
#endif
}

bool machine_has_avx512() {
#if defined(__x86_64__)
  return machine_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&  // these know of zmm too
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

struct Candidate {
  const CpuKernels* kernels;
  bool supported;
};

// Best first; scalar last, always there.
std::vector<Candidate> candidates() {
  return {{avx512_kernels(), machine_has_avx512()}, {avx2_kernels(), machine_has_avx2()}, {scalar_kernels(), true}};
}

bool agrees(const CpuKernels& kernels, Log* log) {
  std::string mismatch;
  if (check_kernels(kernels, &mismatch)) return true;
  logf(log, LogLevel::kError, "kernels \"%s\" are not used: %s differs from scalar on this machine", kernels.isa, mismatch.c_str());
  return false;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu(const CpuOptions& options, Log* log) {
  const CpuKernels* chosen = nullptr;
  bool known = options.isa.empty();
  for (const Candidate& candidate : candidates()) {
    if (!options.isa.empty() && options.isa != candidate.kernels->isa) continue;
    known = true;
    if (candidate.supported && agrees(*candidate.kernels, log)) {
      chosen = candidate.kernels;
      break;
    }
  }
  if (!known)
    return error(Code::kUnsupported, Detail::kNone, "instruction set \"%s\": no such kernels; scalar, avx2, avx512", options.isa.c_str());
  if (chosen == nullptr) {
    return error(Code::kUnsupported, Detail::kNone, "instruction set \"%s\": this machine lacks it or fails its self-check",
                 options.isa.c_str());
  }
  const uint32_t threads = std::min(options.threads == 0 ? usable_cpus() : options.threads, kThreadsMax);
  auto backend = std::make_unique<CpuBackend>(chosen, threads);
  logf(log, LogLevel::kInfo, "cpu backend: %s kernels, %u threads", chosen->isa, backend->threads());
  return std::unique_ptr<Backend>(std::move(backend));
}

RoundRow round_row_kernel(Log* log) {
  for (const Candidate& candidate : candidates()) {
    if (candidate.supported && agrees(*candidate.kernels, log)) return candidate.kernels->kv_row;
  }
  return scalar_kernels()->kv_row;
}

std::vector<KernelTableState> cpu_kernel_tables() {
  std::vector<KernelTableState> states;
  for (const Candidate& candidate : candidates()) {
    states.push_back({candidate.kernels->isa, candidate.supported, candidate.supported && agrees(*candidate.kernels, nullptr)});
  }
  return states;
}

}  // namespace kvrt
