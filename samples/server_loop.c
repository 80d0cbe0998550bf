/* Many sessions on one thread, as an event loop has them. Each line of standard input is a client's request; the answers come token by
 * token, all computed together. Nothing here blocks for longer than a step: poll waits for requests only while there is nothing to compute.
 *   server_loop MODEL.gguf [TOKENS-PER-ANSWER] < requests
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvrt.h"

enum { kClientsMax = 64, kLineMax = 4096 };

struct client {
  kvrt_session* session; /* NULL: free */
  int number;
  int ready; /* wake was called: next has an event */
};

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

/* Only signals. A server with its sockets on another thread would write to a pipe or an eventfd here. */
static void wake(void* user) { ((struct client*)user)->ready = 1; }

/* A request becomes a session that generates. A request that the model cannot take is answered at once. */
static void serve(kvrt_model* model, struct client* c, int number, const char* text, uint32_t max_tokens) {
  kvrt_session_options options;
  kvrt_generate_options generate;
  KVRT_INIT(&options);
  KVRT_INIT(&generate);
  options.wake = wake;
  options.wake_user = c;
  generate.max_tokens = max_tokens;
  c->number = number;
  must(kvrt_session_open(model, &options, &c->session, NULL), "session");
  kvrt_status status = kvrt_session_append_text(c->session, text, strlen(text), 0, NULL);
  if (status == KVRT_OK) status = kvrt_session_begin(c->session, &generate, NULL);
  if (status == KVRT_OK) return;
  printf("%d: refused: %s\n", number, kvrt_status_name(status));
  kvrt_session_close(c->session);
  c->session = NULL;
}

/* Takes the events that are there; never computes. Returns 1 when the answer is over. */
static int take_events(struct client* c) {
  c->ready = 0; /* before next: a wake that comes meanwhile counts */
  for (;;) {
    kvrt_event event;
    KVRT_INIT(&event);
    const kvrt_status status = kvrt_session_next(c->session, &event, 0, NULL);
    if (status != KVRT_OK) {
      printf("%d: failed: %s\n", c->number, kvrt_status_name(status));
      return 1;
    }
    if (event.type == KVRT_EVENT_NONE) return 0;
    if (event.type == KVRT_EVENT_TOKEN && event.text_size) printf("%d: %.*s\n", c->number, (int)event.text_size, event.text);
    if (event.type == KVRT_EVENT_DONE) {
      printf("%d: done: %llu tokens, the first after %.0f ms\n", c->number, (unsigned long long)event.report->generated,
             event.report->ttft_ms);
      return 1;
    }
  }
}

/* One line of standard input without stdio's buffer, which poll does not see. Returns 0 at the end. */
static int read_line(char* line) {
  size_t n = 0;
  for (char c; read(STDIN_FILENO, &c, 1) == 1;) {
    if (c == '\n') {
      line[n] = '\0';
      return 1;
    }
    if (n + 1 < kLineMax) line[n++] = c;
  }
  line[n] = '\0';
  return n > 0;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: server_loop MODEL.gguf [TOKENS-PER-ANSWER] < requests\n");
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL), "model");
  const uint32_t max_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 32;

  static struct client clients[kClientsMax];
  int open = 1, requests = 0;
  uint32_t runnable = 0;
  for (int active = 0; open || active;) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (open && active < kClientsMax && poll(&input, 1, runnable ? 0 : -1) > 0) {
      char line[kLineMax];
      open = read_line(line);
      if (open && line[0]) {
        struct client* c = clients;
        while (c->session) ++c;
        serve(model, c, ++requests, line, max_tokens);
        active += c->session != NULL;
      }
    }
    must(kvrt_model_step(model, 0, &runnable, NULL), "step");
    for (struct client* c = clients; c < clients + kClientsMax; ++c) {
      if (!c->session || !c->ready || !take_events(c)) continue;
      kvrt_session_close(c->session);
      c->session = NULL;
      --active;
    }
    fflush(stdout);
  }
  char metrics[16384];
  size_t size = 0;
  must(kvrt_model_metrics_text(model, NULL, 0, metrics, sizeof metrics, &size, NULL), "metrics");
  fwrite(metrics, 1, size, stderr); /* a server would show it at /metrics */
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
