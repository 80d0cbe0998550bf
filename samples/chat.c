/* A chat in the terminal, without a store: one session, one message and one answer at a time.
 *   chat MODEL.gguf [TOKENS-PER-ANSWER]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

/* {"role": "user", "content": TEXT}, with TEXT escaped as JSON wants it. */
static char* user_message(const char* text) {
  char* json = malloc(6 * strlen(text) + 64);
  char* p = json + sprintf(json, "{\"role\": \"user\", \"content\": \"");
  for (; *text; ++text) {
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

  char line[4096];
  while (fputs("> ", stderr), fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    char* message = user_message(line);
    must(kvrt_session_append_message(session, message, strlen(message), NULL, NULL), "message");
    free(message);

    kvrt_report report;
    KVRT_INIT(&report);
    must(kvrt_session_generate(session, &options, print_token, NULL, &report, NULL), "answer");
    printf("\n");
    fprintf(stderr, "[%llu prompt tokens: %llu in memory, %llu computed; first token after %.0f ms]\n",
            (unsigned long long)report.prompt_tokens, (unsigned long long)report.reused_memory, (unsigned long long)report.prefilled,
            report.ttft_ms);
  }
  kvrt_session_close(session); /* the order is free */
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
