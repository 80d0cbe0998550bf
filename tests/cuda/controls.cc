// Controls by which a C test steers the emulated device that libkvrt_cuda_emulated drives: found there by dlsym.
#include "tests/cuda/controls.h"

#include <cstdlib>

#include "cuda/emulation/emulator.h"
#include "tests/cuda/cublaslt_stand_in.h"

namespace emulation = kvrt::emulation;

extern "C" {

__attribute__((visibility("default"))) void kvrt_emulation_reset(void) { emulation::reset(); }
__attribute__((visibility("default"))) void kvrt_emulation_fail_call(uint64_t n, int32_t error) {
  emulation::fail_call(n, static_cast<cudaError_t>(error));
}
__attribute__((visibility("default"))) void kvrt_emulation_fail_late(uint64_t n, int32_t error) {
  emulation::fail_late(n, static_cast<cudaError_t>(error));
}
__attribute__((visibility("default"))) void kvrt_emulation_set_budget(uint64_t bytes) { emulation::set_budget(bytes); }
__attribute__((visibility("default"))) void kvrt_emulation_set_devices(uint32_t count) { emulation::set_devices(count); }
__attribute__((visibility("default"))) void kvrt_emulation_set_current(int32_t device) { (void)cudaSetDevice(device); }
__attribute__((visibility("default"))) int32_t kvrt_emulation_current(void) { return emulation::current_device(); }
__attribute__((visibility("default"))) uint64_t kvrt_emulation_calls(void) { return emulation::calls(); }
__attribute__((visibility("default"))) uint64_t kvrt_emulation_queued(void) { return emulation::queued(); }
__attribute__((visibility("default"))) uint64_t kvrt_emulation_live(void) {
  const emulation::Live live = emulation::live();
  return live.device_allocations + live.pinned_allocations + live.streams + live.events + live.graphs + live.graph_execs;
}

__attribute__((visibility("default"))) void kvrt_emulation_use_cublaslt(int32_t use) {
  emulation::set_cublaslt(use != 0 ? &kvrt::test::cublaslt_stand_in() : nullptr);
}

}  // extern "C"

namespace {
// KVRT_EMULATED_CUBLASLT=1: for programs that know nothing of controls.
[[maybe_unused]] const bool g_from_environment = [] {
  const char* use = std::getenv("KVRT_EMULATED_CUBLASLT");
  kvrt_emulation_use_cublaslt(use != nullptr && *use == '1');
  return true;
}();
}  // namespace
