// The event loop that the bindings are compared with: loop MODEL. A line "next N" or "callback N" of standard input is a generation of N tokens, by
// kvrt_session_next or kvrt_session_generate. The answer: its nanoseconds, its events, the sum of its token ids.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/kvrt.h"

enum { kPrompt = 4 };

struct seen {
  uint64_t events, tokens;
  size_t bytes;
};

static void must(kvrt_status status) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "loop: %s\n", error.message);
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int32_t see(void* user, const kvrt_event* event) {
  struct seen* seen = user;
  ++seen->events;
  seen->tokens += (uint64_t)event->token;
  seen->bytes += event->text_size;
  return 0;
}

static void by_next(kvrt_session* session, const kvrt_generate_options* options, struct seen* seen) {
  kvrt_event event;
  KVRT_INIT(&event);
  must(kvrt_session_begin(session, options, NULL));
  do {
    must(kvrt_session_next(session, &event, -1, NULL));
    see(seen, &event);
  } while (event.type != KVRT_EVENT_DONE);
}

int main(int argc, char** argv) {
  static const int32_t kTokens[kPrompt] = {5, 6, 7, 8};
  kvrt_runtime_options one = {.struct_size = sizeof one, .threads = 1};
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session* session = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: loop MODEL\n");
    return 2;
  }
  must(kvrt_runtime_open(&one, &runtime, NULL));
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL));
  must(kvrt_session_open(model, NULL, &session, NULL));
  must(kvrt_session_append(session, kTokens, kPrompt, NULL));
  char way[16];
  uint32_t count;
  while (scanf("%15s %" SCNu32, way, &count) == 2) {
    kvrt_generate_options options = {.struct_size = sizeof options, .max_tokens = count, .ignore_eos = 1};
    struct seen seen = {0, 0, 0};
    must(kvrt_session_truncate(session, kPrompt, NULL));
    const uint64_t begin = now_ns();
    if (strcmp(way, "next") == 0) {
      by_next(session, &options, &seen);
    } else {
      must(kvrt_session_generate(session, &options, see, &seen, NULL, NULL));
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now_ns() - begin, seen.events, seen.tokens);
    fflush(stdout);
  }
  kvrt_session_close(session);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
