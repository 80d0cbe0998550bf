#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/cuda/emulation/fibers.h"  // KVRT_FIBERS_ASAN
#include "tests/cuda/emulation/grid.h"
#include "tests/cuda/emulation/machine.h"

namespace kvrt::emulation {

#if defined(KVRT_FIBERS_ASAN) || defined(KVRT_FIBERS_TSAN)
void explain_faults() {}
#else
namespace {

struct sigaction g_segv, g_bus;  // as they were

// No lock: the thread that holds it may be the one that faulted.
void on_fault(int signal, siginfo_t* info, void*) {
  char text[512];
  int n = 0;
  if (in_kernel()) {
    char where[256];
    describe_thread(where, sizeof where);
    n = std::snprintf(text, sizeof text, "CUDA emulation: a kernel touched memory that is not its: %p: %s\n", info->si_addr, where);
  } else if (machine().memory.touches(info->si_addr, 1)) {
    n = std::snprintf(text, sizeof text, "CUDA emulation: host code touched device memory: %p\n", info->si_addr);
  }
  if (n > 0 && write(STDERR_FILENO, text, static_cast<size_t>(n)) < 0) _exit(1);
  sigaction(signal, signal == SIGSEGV ? &g_segv : &g_bus, nullptr);  // and the same fault again
}

}  // namespace

void explain_faults() {
  static const bool done = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, &g_segv) == 0 && sigaction(SIGBUS, &action, &g_bus) == 0;
  }();
  (void)done;
}
#endif

}  // namespace kvrt::emulation
