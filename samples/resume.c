/* A conversation that outlives the process. Each run says one thing more in the conversation NAME and saves it; run it again, and it
 * goes on where it was, with its KV from the store.
 *   resume MODEL.gguf STORE-DIRECTORY NAME "what to say" [TOKENS]
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

static int32_t print_token(void* user, const kvrt_event* event) {
  (void)user;
  if (event->type == KVRT_EVENT_TOKEN) fwrite(event->text, 1, event->text_size, stdout);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: resume MODEL.gguf STORE-DIRECTORY NAME TEXT [TOKENS]\n");
    return 1;
  }
  const char *path = argv[1], *directory = argv[2], *name = argv[3], *text = argv[4];
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_store* store = NULL;
  kvrt_session* session = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, path, strlen(path), NULL, NULL, NULL, &model, NULL), "model");
  must(kvrt_store_open(runtime, directory, strlen(directory), NULL, &store, NULL), "store");

  kvrt_report report;
  KVRT_INIT(&report);
  kvrt_status status = kvrt_session_resume(model, store, name, strlen(name), NULL, NULL, NULL, &report, &session, NULL);
  if (status == KVRT_NOT_FOUND) { /* the first run */
    kvrt_session_options options;
    KVRT_INIT(&options);
    options.store = store;
    must(kvrt_session_open(model, &options, &session, NULL), "session");
    fprintf(stderr, "new conversation\n");
  } else {
    must(status, "resume");
    fprintf(stderr, "resumed: %llu tokens from disk, %llu to compute\n", (unsigned long long)report.reused_disk,
            (unsigned long long)report.prefilled);
  }

  kvrt_generate_options options;
  KVRT_INIT(&options);
  options.max_tokens = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 64;
  must(kvrt_session_append_text(session, text, strlen(text), 0, NULL), "text");
  must(kvrt_session_generate(session, &options, print_token, NULL, NULL, NULL), "generate");
  printf("\n");

  kvrt_save_report saved;
  KVRT_INIT(&saved);
  must(kvrt_session_suspend(session, name, strlen(name), NULL, &saved, NULL), "save");
  fprintf(stderr, "saved %llu tokens: %llu of %llu chunks were new, %llu bytes, %.1f ms\n", (unsigned long long)saved.tokens,
          (unsigned long long)saved.chunks_written, (unsigned long long)saved.chunks, (unsigned long long)saved.bytes_written, saved.ms);

  kvrt_session_close(session);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
