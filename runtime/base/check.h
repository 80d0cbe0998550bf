// KVRT_CHECK(cond): an invariant of kvrt's own code. On in dev, CI and fuzzing builds (KVRT_ASSERTS), nothing in release.
// Never for outside data: a file or an argument gets a Status.
#pragma once

#ifdef KVRT_ASSERTS
#include <cstdio>
#include <cstdlib>
#define KVRT_CHECK(cond)                                                                \
  do {                                                                                  \
    if (!(cond)) {                                                                      \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #cond); \
      std::abort();                                                                     \
    }                                                                                   \
  } while (0)
#else
#define KVRT_CHECK(cond) \
  do {                   \
    (void)sizeof(cond);  \
  } while (0)
#endif
