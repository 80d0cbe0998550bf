/* host MODEL DIRECTORY: a whole life of a conversation in a process that may carry libraries of kvrt's itself. Prints the error and exits 3
 * where one refused it; or "worked", and how often its own libraries were called, which the fakes of takeover.sh count. */
#include <kvrt.h>
#include <stdio.h>
#include <string.h>

int host_calls = 0; /* of the copies of libraries in this program */

static int failed(const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (kvrt_last_error(&error) == KVRT_OK) printf("%s: %s: %s\n", what, kvrt_status_name(error.status), error.message);
  return error.status == KVRT_UNSUPPORTED ? 3 : 4;
}

int main(int argc, char** argv) {
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_store* store = NULL;
  kvrt_session* chat = NULL;
  kvrt_session_options fresh;
  kvrt_generate_options greedy;
  kvrt_save_report saved;
  kvrt_report resumed;
  if (argc < 3) return 2;
  KVRT_INIT(&fresh);
  KVRT_INIT(&greedy);
  KVRT_INIT(&saved);
  KVRT_INIT(&resumed);
  greedy.max_tokens = 40;
  greedy.ignore_eos = 1;
  if (kvrt_runtime_open(NULL, &runtime, NULL)) return failed("kvrt_runtime_open");
  if (kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL)) return failed("kvrt_model_open");
  if (kvrt_store_open(runtime, argv[2], strlen(argv[2]), NULL, &store, NULL)) return failed("kvrt_store_open");
  fresh.store = store;
  if (kvrt_session_open(model, &fresh, &chat, NULL)) return failed("kvrt_session_open");
  if (kvrt_session_append_text(chat, "It's a lighthouse!", 18, 0, NULL)) return failed("kvrt_session_append_text");
  if (kvrt_session_generate(chat, &greedy, NULL, NULL, NULL, NULL)) return failed("kvrt_session_generate");
  if (kvrt_session_suspend(chat, "ann", 3, NULL, &saved, NULL)) return failed("kvrt_session_suspend");
  kvrt_session_close(chat);
  if (kvrt_session_resume(model, store, "ann", 3, NULL, NULL, NULL, &resumed, &chat, NULL)) return failed("kvrt_session_resume");
  if (!saved.chunks_written || !resumed.prompt_tokens || !(resumed.reused_disk + resumed.reused_memory)) return 5;
  kvrt_session_close(chat);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  printf("worked, %d calls\n", host_calls);
  return 0;
}
