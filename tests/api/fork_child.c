// After fork(2) every call in the child gives UNSUPPORTED and touches nothing; the parent goes on.
#include <sys/wait.h>

#include "misuse.h"

static int wrong;
static kvrt_cancel* parents_cancel;

static void expect_forked(const char* name, kvrt_status status) {
  kvrt_error e = {.struct_size = sizeof e};
  kvrt_last_error(&e);
  const int ok = status == KVRT_UNSUPPORTED && e.detail == KVRT_DETAIL_FORKED;
  printf("%-8s %-24s in the child of a fork: expected UNSUPPORTED got %s\n", ok ? "ok" : "WRONG", name, kvrt_status_name(status));
  wrong += !ok;
}

// The parent's is not fired, nor given to a session of the child's own.
static void cancel(struct stage* t) {
  kvrt_cancel_fire(parents_cancel);
  if (kvrt_cancel_fired(parents_cancel)) ++wrong, printf("WRONG    cancel_fire in the child of a fork\n");
  kvrt_generate_options go = run_options(1);
  kvrt_runtime* own = open_runtime(1, 0);
  kvrt_model* own_model = open_model(own, t->tiny, 0, 0, 0);
  kvrt_session* own_session = open_session(own_model, NULL, 0);
  MUST(kvrt_session_append(own_session, &(const int32_t){1}, 1, NULL));
  go.cancel = parents_cancel;
  expect_forked("session_begin, cancel", kvrt_session_begin(own_session, &go, NULL));
  kvrt_cancel_release(parents_cancel);
  kvrt_session_close(own_session);
  kvrt_model_release(own_model);
  kvrt_runtime_release(own);
}

static void child_before_opening(struct stage* t) {
  char text[64];
  size_t needed = 0;
  kvrt_plan plan = {.struct_size = sizeof plan};
  expect_forked("model_plan", kvrt_model_plan(t->runtime, t->tiny, strlen(t->tiny), NULL, &plan, NULL));
  kvrt_cache_props cache = {.struct_size = sizeof cache};
  expect_forked("model_cache", kvrt_model_cache(t->runtime, NULL, &cache, NULL));
  expect_forked("model_inspect", kvrt_model_inspect(t->runtime, t->tiny, strlen(t->tiny), 0, text, 64, &needed, NULL));
}

static void child(struct stage* t) {
  const char* message = "{\"role\":\"user\",\"content\":\"hi\"}";
  int32_t tokens[64], token = 1;
  char text[64];
  size_t needed = 0;
  kvrt_event event = {.struct_size = sizeof event};
  kvrt_runtime_props rp = {.struct_size = sizeof rp};
  kvrt_model_props mp = {.struct_size = sizeof mp};
  kvrt_store_props sp = {.struct_size = sizeof sp};
  kvrt_session_props p = {.struct_size = sizeof p};
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  kvrt_model* m = NULL;
  kvrt_store* st = NULL;
  kvrt_session* s = NULL;
  child_before_opening(t);
  expect_forked("runtime_info", kvrt_runtime_info(t->runtime, &rp, NULL));
  expect_forked("runtime_set_threads", kvrt_runtime_set_threads(t->runtime, 1, NULL));
  expect_forked("model_open", kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), NULL, NULL, NULL, &m, NULL));
  expect_forked("model_info", kvrt_model_info(t->model, &mp, NULL));
  expect_forked("model_tokenize", kvrt_model_tokenize(t->model, "a", 1, 0, tokens, 64, &needed, NULL));
  expect_forked("model_detokenize", kvrt_model_detokenize(t->model, &token, 1, 0, text, 64, &needed, NULL));
  kvrt_metrics mm = {.struct_size = sizeof mm};
  const char* messages = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  expect_forked("model_apply_template", kvrt_model_apply_template(t->model, messages, strlen(messages), NULL, text, 64, &needed, NULL));
  expect_forked("model_step", kvrt_model_step(t->model, 0, NULL, NULL));
  expect_forked("model_metrics", kvrt_model_metrics(t->model, &mm, NULL));
  expect_forked("model_metrics_text", kvrt_model_metrics_text(t->model, NULL, 0, text, 64, &needed, NULL));
  expect_forked("store_open", kvrt_store_open(t->runtime, t->dir, strlen(t->dir), NULL, &st, NULL));
  expect_forked("store_info", kvrt_store_info(t->store, &sp, NULL));
  expect_forked("store_stat", kvrt_store_stat(t->store, NULL, 0, "a", 1, &entry, NULL));
  expect_forked("store_show", kvrt_store_show(t->store, NULL, 0, "a", 1, text, 64, &needed, NULL));
  expect_forked("store_list", kvrt_store_list(t->store, NULL, 0, run_callback, NULL, NULL));
  expect_forked("store_remove", kvrt_store_remove(t->store, NULL, 0, "a", 1, NULL));
  expect_forked("store_rename", kvrt_store_rename(t->store, NULL, 0, "a", 1, "b", 1, NULL));
  expect_forked("store_pin", kvrt_store_pin(t->store, NULL, 0, "a", 1, 1, NULL));
  expect_forked("store_set_ttl", kvrt_store_set_ttl(t->store, NULL, 0, "a", 1, 1, NULL));
  expect_forked("store_remove_old", kvrt_store_remove_old(t->store, NULL, NULL));
  expect_forked("store_gc", kvrt_store_gc(t->store, NULL, NULL, NULL, NULL));
  expect_forked("store_repair", kvrt_store_repair(t->runtime, t->dir, strlen(t->dir), NULL, NULL, NULL, NULL));
  expect_forked("store_verify", kvrt_store_verify(t->store, NULL, NULL, NULL));
  expect_forked("session_open", kvrt_session_open(t->model, NULL, &s, NULL));
  expect_forked("session_info", kvrt_session_info(t->session, &p, NULL));
  expect_forked("session_append", kvrt_session_append(t->session, &token, 1, NULL));
  expect_forked("session_append_text", kvrt_session_append_text(t->session, "a", 1, 0, NULL));
  expect_forked("session_append_message", kvrt_session_append_message(t->session, message, strlen(message), NULL, NULL));
  expect_forked("session_set_messages", kvrt_session_set_messages(t->session, messages, strlen(messages), NULL, NULL));
  expect_forked("session_message", kvrt_session_message(t->session, 0, NULL, text, 64, &needed, NULL));
  expect_forked("session_text", kvrt_session_text(t->session, 0, 1, 0, text, 64, &needed, NULL));
  expect_forked("session_erase", kvrt_session_erase(t->session, 0, 0, NULL));
  expect_forked("session_accept", kvrt_session_accept(t->session, 1, NULL));
  expect_forked("session_prefill", kvrt_session_prefill(t->session, 0, NULL, NULL, NULL, NULL));
  expect_forked("session_begin", kvrt_session_begin(t->session, NULL, NULL));
  expect_forked("session_next", kvrt_session_next(t->session, &event, 0, NULL));
  expect_forked("session_generate", kvrt_session_generate(t->session, NULL, NULL, NULL, NULL, NULL));
  expect_forked("session_cancel", kvrt_session_cancel(t->session, NULL));
  expect_forked("session_fork", kvrt_session_fork(t->session, NULL, &s, NULL));
  expect_forked("session_mark", kvrt_session_mark(t->session, 0, NULL));
  expect_forked("session_truncate", kvrt_session_truncate(t->session, 0, NULL));
  expect_forked("session_tokens", kvrt_session_tokens(t->session, tokens, 64, &needed, NULL));
  expect_forked("session_checkpoint", kvrt_session_checkpoint(t->session, "a", 1, NULL, NULL, NULL));
  expect_forked("session_suspend", kvrt_session_suspend(t->session, "a", 1, NULL, NULL, NULL));
  expect_forked("session_resume", kvrt_session_resume(t->model, t->store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL));
  kvrt_session_close(t->session);  // no-ops that must not hang, crash or touch the store
  kvrt_store_release(t->store);
  kvrt_model_release(t->model);
  kvrt_runtime_release(t->runtime);
  fflush(stdout);
  _exit(wrong);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  MUST(kvrt_cancel_open(&parents_cancel, NULL));
  kvrt_model_release(t.model);  // two threads, so that a child that tried to use the pool would hang
  kvrt_session_close(t.session);
  kvrt_store_release(t.store);
  kvrt_runtime_release(t.runtime);
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/store", t.dir);
  t.runtime = open_runtime(2, 0);
  t.model = open_model(t.runtime, t.tiny, 0, 0, 0);
  t.store = open_store(t.runtime, path);
  t.session = open_session(t.model, t.store, 0);
  const int32_t tokens[] = {5, 6, 7, 8};
  MUST(kvrt_session_append(t.session, tokens, 4, NULL));
  struct run r = {0};
  generate_into(t.session, 20, &r);
  MUST(kvrt_session_checkpoint(t.session, "a", 1, NULL, NULL, NULL));
  for (int generating = 0; generating < 2; ++generating) {
    kvrt_generate_options o = run_options(30);
    kvrt_event e = {.struct_size = sizeof e};
    if (generating) {
      MUST(kvrt_session_begin(t.session, &o, NULL));
      MUST(kvrt_session_next(t.session, &e, -1, NULL));
    }
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(120);
      cancel(&t);
      child(&t);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
    while (generating && e.type != KVRT_EVENT_DONE) MUST(kvrt_session_next(t.session, &e, -1, NULL));
    generate_into(t.session, 5, &r);
    MUST(kvrt_session_checkpoint(t.session, "a", 1, NULL, NULL, NULL));
    MUST(kvrt_store_verify(t.store, NULL, NULL, NULL));
  }
  EXPECT(kvrt_cancel_fired(parents_cancel) == 0, "a child fired its parent's");
  kvrt_cancel_release(parents_cancel);
  stage_close(&t);
  return finish();
}
