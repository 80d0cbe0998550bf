/* A chat in the terminal, without a store: one session, one message and one answer at a time.
 *   chat MODEL.gguf [TOKENS-PER-ANSWER]
 */
#define _POSIX_C_SOURCE 200809L /* getline */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

static void complain(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
}

static void must(kvrt_status status, const char* what) {
  if (status == KVRT_OK) return;
  complain(status, what);
  exit(status);
}

/* Returns 0 where the model cannot take what was said: it is no reason to end the chat. */
static int accepted(kvrt_status status, const char* what) {
  if (status != KVRT_INVALID && status != KVRT_LIMIT) must(status, what);
  if (status != KVRT_OK) complain(status, what);
  return status == KVRT_OK;
}

/* {"role": "user", "content": TEXT}, with TEXT escaped as JSON wants it. */
static char* user_message(const char* text, size_t size) {
  char* json = malloc(6 * size + 64);
  if (!json) must(KVRT_NO_MEMORY, "memory");
  char* p = json + sprintf(json, "{\"role\": \"user\", \"content\": \"");
  for (const char* end = text + size; text < end; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      p += sprintf(p, "\\%c", c);
    } else if (c < 0x20) {
      p += sprintf(p, "\\u%04x", c);
    } else {
      *p++ = (char)c;
    }
  }
  strcpy(p, "\"}");
  return json;
}

static int32_t print_token(void* user, const kvrt_event* event) {
  (void)user;
  if (event->type == KVRT_EVENT_TOKEN) {
    fwrite(event->text, 1, event->text_size, stdout);
    fflush(stdout);
  }
  return 0; /* anything else would stop the answer */
}

/* One message and its answer. */
static void turn(kvrt_session* session, const kvrt_generate_options* options, const char* text, size_t size) {
  kvrt_session_props before;
  KVRT_INIT(&before);
  must(kvrt_session_info(session, &before, NULL), "session");
  char* message = user_message(text, size);
  const int said = accepted(kvrt_session_append_message(session, message, strlen(message), NULL, NULL), "message");
  free(message);
  if (!said) return;

  kvrt_report report;
  KVRT_INIT(&report);
  const int answered = accepted(kvrt_session_generate(session, options, print_token, NULL, &report, NULL), "answer");
  printf("\n");
  if (!answered) { /* take the message back: many templates refuse two of the user's in a row */
    kvrt_message_props props;
    KVRT_INIT(&props);
    must(kvrt_session_message(session, before.messages, &props, NULL, 0, NULL, NULL), "message");
    accepted(kvrt_session_truncate(session, props.begin, NULL), "message");
    return;
  }
  fprintf(stderr, "[%llu prompt tokens: %llu in memory, %llu computed; first token after %.0f ms]\n",
          (unsigned long long)report.prompt_tokens, (unsigned long long)report.reused_memory, (unsigned long long)report.prefilled,
          report.ttft_ms);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: chat MODEL.gguf [TOKENS-PER-ANSWER]\n");
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session* session = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL), "model");
  must(kvrt_session_open(model, NULL, &session, NULL), "session");

  kvrt_generate_options options;
  KVRT_INIT(&options);
  options.max_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0; /* 0: until the model ends its turn */
  options.temperature = 0.7f;
  options.top_p = 0.9f;
  options.seed = 1;

  char* line = NULL;
  size_t room = 0;
  for (ssize_t size; fputs("> ", stderr), (size = getline(&line, &room, stdin)) >= 0;) {
    turn(session, &options, line, (size_t)size - (line[size - 1] == '\n'));
  }
  free(line);
  kvrt_session_close(session); /* the order is free */
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
