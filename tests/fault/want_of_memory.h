// Allocations that fail where a test says so. malloc and its kin are the program's own, so that those of SQLite, zstd and the C++ library
// fail too. Not for sanitizers, which bring theirs.
#pragma once

#include <malloc.h>

#include "../api/support.h"

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_long allocations, fail_at;  // fail_at 0: none
static atomic_int fail_all;               // those after it too

#define KVRT_OURS __attribute__((visibility("default")))

static int fails(void) {
  const long at = atomic_load(&fail_at);
  if (at == 0) return 0;
  const long n = atomic_fetch_add(&allocations, 1) + 1;
  if (n == at || (n > at && atomic_load(&fail_all))) {
    errno = ENOMEM;
    return 1;
  }
  return 0;
}
KVRT_OURS void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
KVRT_OURS void* calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
KVRT_OURS void* realloc(void* p, size_t size) { return fails() ? NULL : __libc_realloc(p, size); }
KVRT_OURS void* memalign(size_t align, size_t size) { return fails() ? NULL : __libc_memalign(align, size); }
KVRT_OURS void* aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
KVRT_OURS int posix_memalign(void** out, size_t align, size_t size) {
  void* p = memalign(align, size);
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}

// The allocations from here on count, and number `at` fails; `all`: and those after it.
static inline void want_memory_at(long at, int all) {
  atomic_store(&allocations, 0);
  atomic_store(&fail_all, all);
  atomic_store(&fail_at, at);
}
// Memory enough again. True: there were fewer allocations than that.
static inline int memory_again(long at) {
  atomic_store(&fail_at, 0);
  return atomic_load(&allocations) < at;
}
