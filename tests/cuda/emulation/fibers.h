// Stacks to switch between: the threads of a block run on them. A fiber belongs to no host thread; the lock's holder runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define KVRT_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVRT_FIBERS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define KVRT_FIBERS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KVRT_FIBERS_TSAN 1
#endif
#endif
#if !defined(__x86_64__) || defined(KVRT_FIBERS_UCONTEXT)
#define KVRT_FIBERS_PORTABLE 1
#endif

namespace kvrt::emulation {

struct Fiber {
  void* sp = nullptr;  // where it stopped; with ucontext, its ucontext_t
  // For the sanitizers: the stack's bounds, ASan's fake stack, TSan's name of it.
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;
  void* tsan = nullptr;
};

// A new stack on which `entry` runs at the first switch to it; entry never returns. `index` spreads the stacks over the cache's sets.
// Never freed: a process has at most as many as a block has threads.
Fiber* make_fiber(void (*entry)(), uint32_t index);
// The host thread's own stack as a fiber, to come back to.
void adopt_host_stack(Fiber* fiber);
// Stops `from`, goes on with `to`; returns when something switches back. `idle`: nothing of `from` is needed but its outermost frame.
void switch_fiber(Fiber* from, Fiber* to, bool idle);
// First thing on a new fiber.
void fiber_entered();

}  // namespace kvrt::emulation
