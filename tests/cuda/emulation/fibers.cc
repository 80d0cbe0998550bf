#include "tests/cuda/emulation/fibers.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#ifdef KVRT_FIBERS_PORTABLE
#include <ucontext.h>
#endif
#ifdef KVRT_FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KVRT_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#ifndef KVRT_FIBERS_PORTABLE
// Saves the registers that a call must keep, swaps the stacks, restores. All fibers stop at one place, so the CPU predicts the return.
extern "C" void kvrt_emulation_switch(void** save, void* to);
asm(R"(
  .text
  .p2align 4
  .globl kvrt_emulation_switch
  .hidden kvrt_emulation_switch
  .type kvrt_emulation_switch, @function
kvrt_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size kvrt_emulation_switch, .-kvrt_emulation_switch
)");
#endif

namespace kvrt::emulation {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr size_t kStackBytes = size_t{256} << 10;  // touched page by page; sanitizers' frames are large

#ifdef KVRT_FIBERS_ASAN
Fiber* g_left = nullptr;  // the fiber that the last switch left
#endif

// Runs on the fiber that has just been switched to, first of all.
void arrived([[maybe_unused]] Fiber* self) {
#ifdef KVRT_FIBERS_ASAN
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self != nullptr ? self->fake_stack : nullptr, &bottom, &bytes);
  if (g_left->bottom == nullptr) {  // a host thread's stack: only ASan knows where it lies
    g_left->bottom = bottom;
    g_left->bytes = bytes;
  }
#endif
}

}  // namespace

Fiber* make_fiber(void (*entry)(), uint32_t index) {
  void* const mapped = mmap(nullptr, kGuardBytes + kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* const stack = static_cast<uint8_t*>(mapped) + kGuardBytes;
  if (mapped == MAP_FAILED || mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "CUDA emulation: no memory for stack %u\n", index);
    std::abort();
  }
  auto* const fiber = new Fiber;
  fiber->bottom = stack;
  fiber->bytes = kStackBytes;
  uint8_t* const top = stack + kStackBytes - index % 13 * 320;  // else the tops of all would share a few sets of the cache
#ifdef KVRT_FIBERS_PORTABLE
  auto* const context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = static_cast<size_t>(top - stack);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  fiber->sp = context;
#else
  auto** sp = reinterpret_cast<void**>(top) - 8;  // six registers, the entry, and no return address: a backtrace ends here
  for (int i = 0; i < 8; ++i) sp[i] = nullptr;
  sp[6] = reinterpret_cast<void*>(entry);
  fiber->sp = sp;
#endif
#ifdef KVRT_FIBERS_TSAN
  fiber->tsan = __tsan_create_fiber(0);
#endif
  return fiber;
}

void adopt_host_stack(Fiber* fiber) {
#ifdef KVRT_FIBERS_PORTABLE
  if (fiber->sp == nullptr) fiber->sp = new ucontext_t;
#endif
#ifdef KVRT_FIBERS_TSAN
  fiber->tsan = __tsan_get_current_fiber();
#endif
  fiber->bottom = nullptr;
}

void switch_fiber(Fiber* from, Fiber* to, [[maybe_unused]] bool idle) {
#ifdef KVRT_FIBERS_ASAN
  // An idle fiber may go on under another host thread: its fake stack must not.
  if (idle) from->fake_stack = nullptr;
  g_left = from;
  __sanitizer_start_switch_fiber(idle ? nullptr : &from->fake_stack, to->bottom, to->bytes);
#endif
#ifdef KVRT_FIBERS_TSAN
  __tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef KVRT_FIBERS_PORTABLE
  swapcontext(static_cast<ucontext_t*>(from->sp), static_cast<ucontext_t*>(to->sp));
#else
  kvrt_emulation_switch(&from->sp, to->sp);
#endif
  arrived(from);
}

void fiber_entered() { arrived(nullptr); }

}  // namespace kvrt::emulation
