// What a C test steers the emulated device with that libkvrt_cuda_emulated drives: found there by dlsym.
#include "tests/cuda/controls.h"

#include "tests/cuda/emulation/emulator.h"

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
__attribute__((visibility("default"))) uint64_t kvrt_emulation_calls(void) { return emulation::calls(); }
__attribute__((visibility("default"))) uint64_t kvrt_emulation_queued(void) { return emulation::queued(); }
__attribute__((visibility("default"))) uint64_t kvrt_emulation_live(void) {
  const emulation::Live live = emulation::live();
  return live.device_allocations + live.pinned_allocations + live.streams + live.events + live.graphs + live.graph_execs;
}

}  // extern "C"
