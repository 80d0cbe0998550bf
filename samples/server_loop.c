/* Many sessions on one thread, as an event loop has them. Each line of standard input is a client's request; the answers come token by
 * token, all computed together. Nothing here blocks for longer than a step: poll waits for requests only while there is nothing to compute,
 * and half a line waits in a buffer for its other half.
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

/* What was read of standard input and not served yet. */
struct input {
  char text[kLineMax];
  size_t size;
  int open;     /* 0: it has ended */
  int too_long; /* the line so far */
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
static void serve(kvrt_model* model, struct client* c, int number, const char* text, size_t size, uint32_t max_tokens) {
  kvrt_session_options options;
  kvrt_generate_options generate;
  KVRT_INIT(&options);
  KVRT_INIT(&generate);
  options.wake = wake;
  options.wake_user = c;
  generate.max_tokens = max_tokens;
  c->number = number;
  must(kvrt_session_open(model, &options, &c->session, NULL), "session");
  kvrt_status status = kvrt_session_append_text(c->session, text, size, 0, NULL);
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

/* Reads what is there, if it ends within a line, too: one read does not block when poll has told of it. stdio has a buffer that poll does not
 * see. */
static void read_more(struct input* in) {
  const ssize_t n = read(STDIN_FILENO, in->text + in->size, sizeof in->text - in->size);
  if (n <= 0) in->open = 0;
  if (n > 0) in->size += (size_t)n;
}

/* Takes the next whole line out of the buffer; at the end of the input also the rest. Returns 0 where there is none. Of a line that is longer
 * than the buffer nothing comes. */
static int take_line(struct input* in, char* line, size_t* size) {
  const char* end = memchr(in->text, '\n', in->size);
  const int too_long = !end && in->size == sizeof in->text;
  if (!end && !too_long && (in->open || !in->size)) return 0;
  const size_t taken = end ? (size_t)(end - in->text) + 1 : in->size;
  if (too_long && !in->too_long) printf("refused: a line of %d bytes or more\n", kLineMax);
  *size = too_long || in->too_long ? 0 : taken - (end != NULL);
  in->too_long = too_long;
  memcpy(line, in->text, *size);
  memmove(in->text, in->text + taken, in->size - taken);
  in->size -= taken;
  return 1;
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
  static struct input in = {.open = 1};
  static char line[kLineMax];
  int requests = 0;
  uint32_t runnable = 0;
  for (int active = 0; in.open || in.size || active;) {
    struct pollfd readable = {STDIN_FILENO, POLLIN, 0};
    const int wanted = in.open && active < kClientsMax && !memchr(in.text, '\n', in.size);
    if (wanted && poll(&readable, 1, runnable ? 0 : -1) > 0) read_more(&in);
    for (size_t size; active < kClientsMax && take_line(&in, line, &size);) {
      if (!size) continue;
      struct client* c = clients;
      while (c->session) ++c;
      serve(model, c, ++requests, line, size, max_tokens);
      active += c->session != NULL;
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
