/* A prefix that processes share through the store. The first process computes a long system prompt and saves it; each later process that
 * begins a conversation with the same text finds its KV on disk, without the name under which it was saved. Run again, both find it.
 * A mark at the prefix's end has the save keep what layers with windows, or recurrent ones, need there.
 *   shared_prefix MODEL.gguf STORE-DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvrt.h"

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

static const char kPrefix[] =
    "You help the visitors of a museum of clocks. The ground floor has the tower clocks: the oldest was made in 1571 and still strikes. "
    "The first floor has the long-case clocks, the regulators and the sea clocks; the second floor the watches. The museum opens at ten "
    "and "
    "closes at five; on Mondays it is closed. Children may wind the tower clock at noon. Photographs are welcome, flashes are not.\n\n";

/* Begins a conversation with the prefix, and returns how many of its tokens the store had. */
static uint64_t begin_conversation(const char* path, const char* directory, const char* name, const char* question) {
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_store* store = NULL;
  kvrt_session* session = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, path, strlen(path), NULL, NULL, NULL, &model, NULL), "model");
  must(kvrt_store_open(runtime, directory, strlen(directory), NULL, &store, NULL), "store");
  kvrt_session_options options;
  KVRT_INIT(&options);
  options.store = store;
  must(kvrt_session_open(model, &options, &session, NULL), "session");
  must(kvrt_session_append_text(session, kPrefix, strlen(kPrefix), 0, NULL), "prefix");
  must(kvrt_session_mark(session, 0, NULL), "mark"); /* layers with windows, or recurrent ones, can go on from here */
  must(kvrt_session_append_text(session, question, strlen(question), 0, NULL), "question");

  kvrt_generate_options generate;
  KVRT_INIT(&generate);
  generate.max_tokens = 16;
  kvrt_report report;
  KVRT_INIT(&report);
  must(kvrt_session_generate(session, &generate, NULL, NULL, &report, NULL), "generate");
  printf("%s: %llu prompt tokens, %llu from disk, %llu computed, first token after %.1f ms\n", name,
         (unsigned long long)report.prompt_tokens, (unsigned long long)report.reused_disk, (unsigned long long)report.prefilled,
         report.ttft_ms);
  kvrt_save_options save;
  KVRT_INIT(&save);
  save.overwrite = 1; /* replaces the conversation of that name from an earlier run */
  must(kvrt_session_suspend(session, name, strlen(name), &save, NULL, NULL), "save");
  kvrt_session_close(session);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return report.reused_disk;
}

/* Runs in a child process, made before any handle exists here. `shared`: the store must have tokens of it, else the exit code is 70. */
static int in_child(char** argv, const char* name, const char* question, int shared) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t disk = begin_conversation(argv[1], argv[2], name, question);
    if (!shared || disk > 0) exit(0);
    fprintf(stderr, "%s: none of the prefix came from the store\n", name);
    exit(70);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 71;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: shared_prefix MODEL.gguf STORE-DIRECTORY\n");
    return 1;
  }
  const int first = in_child(argv, "ann", "Which clock is the oldest?", 0);
  return first ? first : in_child(argv, "bob", "May I take photographs?", 1);
}
