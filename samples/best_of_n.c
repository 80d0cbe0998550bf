/* Best of n: one prompt is computed once and forked; each fork draws its own answer with its own seed, all in the same steps; the answer
 * that the model itself finds the likeliest per token wins.
 *   best_of_n MODEL.gguf QUESTION [N] [TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

enum { kAnswersMax = 16, kTextMax = 8192 };

struct answer {
  kvrt_session* session;
  char text[kTextMax];
  size_t size;
  double logprob; /* the sum over its tokens */
  int tokens, done;
};

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

static void take(struct answer* a, const kvrt_event* event) {
  if (event->type == KVRT_EVENT_TOKEN) {
    a->logprob += event->logprob;
    ++a->tokens;
  }
  if ((event->type == KVRT_EVENT_TOKEN || event->type == KVRT_EVENT_DONE) && a->size + event->text_size <= kTextMax) {
    memcpy(a->text + a->size, event->text, event->text_size); /* DONE brings the text that a stop string held back */
    a->size += event->text_size;
  }
  if (event->type == KVRT_EVENT_DONE) {
    a->done = 1;
    fprintf(stderr, "seed %llu: %llu of %llu prompt tokens shared, %llu computed\n", (unsigned long long)event->report->seed,
            (unsigned long long)event->report->reused_memory, (unsigned long long)event->report->prompt_tokens,
            (unsigned long long)event->report->prefilled);
  }
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: best_of_n MODEL.gguf QUESTION [N] [TOKENS]\n");
    return 1;
  }
  static struct answer answers[kAnswersMax];
  const int n = argc > 3 ? atoi(argv[3]) : 4;
  if (n < 1 || n > kAnswersMax) {
    fprintf(stderr, "best_of_n: N is %d, expected 1 to %d\n", n, kAnswersMax);
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session* question = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL), "model");
  must(kvrt_session_open(model, NULL, &question, NULL), "session");
  must(kvrt_session_append_text(question, argv[2], strlen(argv[2]), 0, NULL), "text");
  must(kvrt_session_prefill(question, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL), "prefill");

  kvrt_generate_options options;
  KVRT_INIT(&options);
  options.max_tokens = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 48;
  options.temperature = 1.0f;
  options.min_p = 0.05f;
  for (int i = 0; i < n; ++i) {
    must(kvrt_session_fork(question, NULL, &answers[i].session, NULL), "fork");
    options.seed = 1 + (uint64_t)i;
    must(kvrt_session_begin(answers[i].session, &options, NULL), "begin");
  }
  for (int left = n; left > 0;) {
    for (int i = 0; i < n; ++i) {
      kvrt_event event;
      KVRT_INIT(&event);
      if (answers[i].done) continue;
      must(kvrt_session_next(answers[i].session, &event, -1, NULL),
           "next"); /* computes a step for all of them when there is no event yet */
      take(&answers[i], &event);
      left -= answers[i].done;
    }
  }
  const struct answer* best = NULL;
  for (int i = 0; i < n; ++i) {
    const struct answer* a = &answers[i];
    printf("--- %d: %.3f a token\n%.*s\n", i + 1, a->logprob / a->tokens, (int)a->size, a->text);
    if (!best || a->logprob / a->tokens > best->logprob / best->tokens) best = a;
  }
  printf("=== best: %d\n", (int)(best - answers) + 1);
  for (int i = 0; i < n; ++i) kvrt_session_close(answers[i].session);
  kvrt_session_close(question);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
