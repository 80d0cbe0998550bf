// Checks of the public contract's tests: a failed EXPECT is counted and printed, a failed MUST or REQUIRE ends the test.
#pragma once

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvrt.h"

static atomic_long support_checks, support_failures;

static inline const char* last_message(void) {
  static _Thread_local kvrt_error error;
  error.struct_size = sizeof error;
  error.message[0] = 0;
  kvrt_last_error(&error);
  return error.message;
}

static inline int32_t last_detail(void) {
  kvrt_error error;
  KVRT_INIT(&error);
  kvrt_last_error(&error);
  return error.detail;
}

#define EXPECT(condition, ...)                                         \
  do {                                                                 \
    atomic_fetch_add(&support_checks, 1);                              \
    if (!(condition) && atomic_fetch_add(&support_failures, 1) < 40) { \
      printf("%s:%d: FAILED: %s: ", __FILE__, __LINE__, #condition);   \
      printf(__VA_ARGS__);                                             \
      printf("\n");                                                    \
      fflush(stdout);                                                  \
    }                                                                  \
  } while (0)

#define EXPECT_STATUS(call, want)                                                                                                  \
  do {                                                                                                                             \
    const kvrt_status got_ = (call);                                                                                               \
    EXPECT(got_ == (want), "%s: expected %s, got %s (%s)", #call, kvrt_status_name(want), kvrt_status_name(got_), last_message()); \
  } while (0)

#define MUST(call)                                                                                                                      \
  do {                                                                                                                                  \
    const kvrt_status got_ = (call);                                                                                                    \
    if (got_ != KVRT_OK) {                                                                                                              \
      printf("%s:%d: %s: %s (detail %d): %s\n", __FILE__, __LINE__, #call, kvrt_status_name(got_), (int)last_detail(), last_message()); \
      exit(1);                                                                                                                          \
    }                                                                                                                                   \
  } while (0)

#define REQUIRE(condition, ...)                                            \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: cannot go on: %s: ", __FILE__, __LINE__, #condition); \
      printf(__VA_ARGS__);                                                 \
      printf("\n");                                                        \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

static inline int finish(void) {
  printf("%ld checks, %ld failed\n", atomic_load(&support_checks), atomic_load(&support_failures));
  return atomic_load(&support_failures) != 0 || atomic_load(&support_checks) == 0;
}
