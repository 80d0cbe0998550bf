/* Several answers to one question. The question is computed once; each fork shares its KV blocks and draws with a seed of its own. All
 * forks generate together: one step of the model serves them all.
 *   fork MODEL.gguf "question" [TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

enum { kForks = 3, kTextMax = 16384 };

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

int main(int argc, char** argv) {
  static char text[kForks][kTextMax];
  size_t size[kForks] = {0};
  if (argc < 3) {
    fprintf(stderr, "usage: fork MODEL.gguf TEXT [TOKENS]\n");
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session *question = NULL, *answer[kForks];
  must(kvrt_runtime_open(NULL, &runtime), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model), "model");
  must(kvrt_session_open(model, NULL, &question), "session");
  must(kvrt_session_append_text(question, argv[2], strlen(argv[2]), 0), "text");
  must(kvrt_session_prefill(question, KVRT_LOGITS_NONE, NULL, NULL, NULL), "prefill");

  kvrt_generate_options options;
  KVRT_INIT(&options);
  options.max_tokens = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 48;
  options.temperature = 1.0f;
  for (int i = 0; i < kForks; ++i) {
    must(kvrt_session_fork(question, NULL, &answer[i]), "fork");
    options.seed = 1 + (uint64_t)i;
    must(kvrt_session_begin(answer[i], &options), "begin");
  }

  int left = kForks, done[kForks] = {0};
  while (left) {
    for (int i = 0; i < kForks; ++i) {
      kvrt_event event;
      KVRT_INIT(&event);
      if (done[i]) continue;
      must(kvrt_session_next(answer[i], &event, -1), "next"); /* computes a step when there is no event yet */
      if (event.type == KVRT_EVENT_TOKEN && size[i] + event.text_size <= kTextMax) {
        memcpy(text[i] + size[i], event.text, event.text_size);
        size[i] += event.text_size;
      } else if (event.type == KVRT_EVENT_DONE) {
        fprintf(stderr, "fork %d: %llu of %llu prompt tokens shared, %llu computed\n", i, (unsigned long long)event.report->reused_memory,
                (unsigned long long)event.report->prompt_tokens, (unsigned long long)event.report->prefilled);
        done[i] = 1;
        --left;
      }
    }
  }
  for (int i = 0; i < kForks; ++i) {
    printf("--- %d\n%.*s\n", i, (int)size[i], text[i]);
    kvrt_session_close(answer[i]);
  }
  kvrt_session_close(question);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
