// NULL for every pointer argument of every function.
#include "misuse.h"

static int32_t go_on(void* user, const kvrt_event* e) {
  (void)user, (void)e;
  return 0;
}

static void no_ops(void) {
  kvrt_runtime_retain(NULL);
  kvrt_runtime_release(NULL);
  kvrt_model_retain(NULL);
  kvrt_model_release(NULL);
  kvrt_store_retain(NULL);
  kvrt_store_release(NULL);
  kvrt_cancel_retain(NULL);
  kvrt_cancel_release(NULL);
  kvrt_cancel_fire(NULL);
  EXPECT(kvrt_cancel_fired(NULL) == 0, "NULL was fired");
  BAD("cancel_open", "out NULL", kvrt_cancel_open(NULL, ERR));
  kvrt_session_close(NULL);
  EXPECT(1, "retain, release and close of NULL are no-ops");
}

static void runtime_calls(struct stage* t) {
  kvrt_runtime_props rp = {.struct_size = sizeof rp};
  BAD("last_error", "out NULL", kvrt_last_error(NULL));
  BAD("runtime_open", "out NULL", kvrt_runtime_open(NULL, NULL, ERR));
  BAD("runtime_info", "runtime NULL", kvrt_runtime_info(NULL, &rp, ERR));
  BAD("runtime_info", "out NULL", kvrt_runtime_info(t->runtime, NULL, ERR));
  BAD("runtime_set_threads", "runtime NULL", kvrt_runtime_set_threads(NULL, 2, ERR));
}

static void model_calls(struct stage* t) {
  kvrt_model_props mp = {.struct_size = sizeof mp};
  kvrt_model* m = NULL;
  char buffer[64];
  int32_t tokens[8] = {1, 2, 3};
  size_t needed = 77;
  const size_t n = strlen(t->tiny);
  const char* json = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  BAD("model_open", "runtime NULL", kvrt_model_open(NULL, t->tiny, n, NULL, NULL, NULL, &m, ERR));
  BAD("model_open", "path NULL", kvrt_model_open(t->runtime, NULL, n, NULL, NULL, NULL, &m, ERR));
  BAD("model_open", "path NULL, size 0", kvrt_model_open(t->runtime, NULL, 0, NULL, NULL, NULL, &m, ERR));
  BAD("model_open", "out NULL", kvrt_model_open(t->runtime, t->tiny, n, NULL, NULL, NULL, NULL, ERR));
  kvrt_plan plan = {.struct_size = sizeof plan};
  BAD("model_plan", "runtime NULL", kvrt_model_plan(NULL, t->tiny, n, NULL, &plan, ERR));
  BAD("model_plan", "path NULL", kvrt_model_plan(t->runtime, NULL, n, NULL, &plan, ERR));
  BAD("model_plan", "path NULL, size 0, options NULL", kvrt_model_plan(t->runtime, NULL, 0, NULL, &plan, ERR));
  BAD("model_plan", "out NULL", kvrt_model_plan(t->runtime, t->tiny, n, NULL, NULL, ERR));
  kvrt_cache_props cache = {.struct_size = sizeof cache};
  BAD("model_cache", "runtime NULL", kvrt_model_cache(NULL, NULL, &cache, ERR));
  BAD("model_cache", "out NULL", kvrt_model_cache(t->runtime, NULL, NULL, ERR));
  BAD("model_inspect", "runtime NULL", kvrt_model_inspect(NULL, t->tiny, n, 0, buffer, sizeof buffer, &needed, ERR));
  BAD("model_inspect", "path NULL", kvrt_model_inspect(t->runtime, NULL, n, 0, buffer, sizeof buffer, &needed, ERR));
  BAD("model_inspect", "json NULL", kvrt_model_inspect(t->runtime, t->tiny, n, 0, NULL, 8, &needed, ERR));
  BAD("model_inspect", "needed NULL", kvrt_model_inspect(t->runtime, t->tiny, n, 0, buffer, sizeof buffer, NULL, ERR));
  BAD("model_inspect", "flags 2", kvrt_model_inspect(t->runtime, t->tiny, n, 2, buffer, sizeof buffer, &needed, ERR));
  BAD("model_info", "model NULL", kvrt_model_info(NULL, &mp, ERR));
  BAD("model_info", "out NULL", kvrt_model_info(t->model, NULL, ERR));
  BAD("model_tokenize", "model NULL", kvrt_model_tokenize(NULL, "a", 1, 0, tokens, 8, &needed, ERR));
  BAD("model_tokenize", "text NULL", kvrt_model_tokenize(t->model, NULL, 1, 0, tokens, 8, &needed, ERR));
  BAD("model_tokenize", "tokens NULL, capacity 8", kvrt_model_tokenize(t->model, "a", 1, 0, NULL, 8, &needed, ERR));
  BAD("model_tokenize", "needed NULL", kvrt_model_tokenize(t->model, "a", 1, 0, tokens, 8, NULL, ERR));
  BAD("model_detokenize", "model NULL", kvrt_model_detokenize(NULL, tokens, 3, 0, buffer, sizeof buffer, &needed, ERR));
  BAD("model_detokenize", "tokens NULL", kvrt_model_detokenize(t->model, NULL, 3, 0, buffer, sizeof buffer, &needed, ERR));
  BAD("model_detokenize", "text NULL, capacity 8", kvrt_model_detokenize(t->model, tokens, 3, 0, NULL, 8, &needed, ERR));
  BAD("model_detokenize", "needed NULL", kvrt_model_detokenize(t->model, tokens, 3, 0, buffer, sizeof buffer, NULL, ERR));
  BAD("model_apply_template", "model NULL without a source",
      kvrt_model_apply_template(NULL, json, strlen(json), NULL, buffer, sizeof buffer, &needed, ERR));
  BAD("model_apply_template", "messages NULL", kvrt_model_apply_template(t->model, NULL, 5, NULL, buffer, sizeof buffer, &needed, ERR));
  BAD("model_apply_template", "text NULL, capacity 8",
      kvrt_model_apply_template(t->model, json, strlen(json), NULL, NULL, 8, &needed, ERR));
  BAD("model_apply_template", "needed NULL",
      kvrt_model_apply_template(t->model, json, strlen(json), NULL, buffer, sizeof buffer, NULL, ERR));
  kvrt_template_options o = {.struct_size = sizeof o, .source = NULL, .source_size = 4};
  BAD("model_apply_template", "source NULL, size 4",
      kvrt_model_apply_template(t->model, json, strlen(json), &o, buffer, sizeof buffer, &needed, ERR));
  o = (kvrt_template_options){.struct_size = sizeof o, .tools_size = 4};
  BAD("model_apply_template", "tools NULL, size 4",
      kvrt_model_apply_template(t->model, json, strlen(json), &o, buffer, sizeof buffer, &needed, ERR));
  o = (kvrt_template_options){.struct_size = sizeof o, .documents_size = 4};
  BAD("model_apply_template", "documents NULL, size 4",
      kvrt_model_apply_template(t->model, json, strlen(json), &o, buffer, sizeof buffer, &needed, ERR));
  o = (kvrt_template_options){.struct_size = sizeof o, .variables_size = 4};
  BAD("model_apply_template", "variables NULL, size 4",
      kvrt_model_apply_template(t->model, json, strlen(json), &o, buffer, sizeof buffer, &needed, ERR));
  kvrt_metrics mm = {.struct_size = sizeof mm};
  uint32_t runnable = 77;
  BAD("model_step", "model NULL", kvrt_model_step(NULL, 0, &runnable, ERR));
  ROW("model_step", "runnable NULL (no misuse)", kvrt_model_step(t->model, 0, NULL, ERR), ANY(KVRT_OK));
  BAD("model_metrics", "model NULL", kvrt_model_metrics(NULL, &mm, ERR));
  BAD("model_metrics", "out NULL", kvrt_model_metrics(t->model, NULL, ERR));
  BAD("model_metrics_text", "model NULL", kvrt_model_metrics_text(NULL, "a", 1, buffer, sizeof buffer, &needed, ERR));
  BAD("model_metrics_text", "label NULL, size 4", kvrt_model_metrics_text(t->model, NULL, 4, buffer, sizeof buffer, &needed, ERR));
  BAD("model_metrics_text", "text NULL, capacity 8", kvrt_model_metrics_text(t->model, "a", 1, NULL, 8, &needed, ERR));
  BAD("model_metrics_text", "needed NULL", kvrt_model_metrics_text(t->model, "a", 1, buffer, sizeof buffer, NULL, ERR));
  EXPECT(kvrt_struct_size(NULL) == 0, "struct_size of NULL is %u", kvrt_struct_size(NULL));
  EXPECT(kvrt_struct_offset(NULL, "type") == UINT32_MAX && kvrt_struct_offset("kvrt_event", NULL) == UINT32_MAX, "struct_offset of NULL");
  EXPECT(runnable == 77, "runnable changed on failure");
  EXPECT(needed == 77 && m == NULL, "outputs changed on failure: needed %zu, model %p", needed, (void*)m);
}

static void store(struct stage* t) {
  kvrt_store_props sp = {.struct_size = sizeof sp};
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  kvrt_store* s = NULL;
  BAD("store_open", "runtime NULL", kvrt_store_open(NULL, t->dir, strlen(t->dir), NULL, &s, ERR));
  BAD("store_open", "path NULL", kvrt_store_open(t->runtime, NULL, 5, NULL, &s, ERR));
  BAD("store_open", "path NULL, size 0", kvrt_store_open(t->runtime, NULL, 0, NULL, &s, ERR));
  BAD("store_open", "out NULL", kvrt_store_open(t->runtime, t->dir, strlen(t->dir), NULL, NULL, ERR));
  BAD("store_info", "store NULL", kvrt_store_info(NULL, &sp, ERR));
  BAD("store_info", "out NULL", kvrt_store_info(t->store, NULL, ERR));
  BAD("store_list", "store NULL", kvrt_store_list(NULL, NULL, 0, go_on, NULL, ERR));
  BAD("store_list", "domain NULL, size 4", kvrt_store_list(t->store, NULL, 4, go_on, NULL, ERR));
  ROW("store_list", "callback NULL", kvrt_store_list(t->store, NULL, 0, NULL, NULL, ERR), ANY(KVRT_INVALID) | ANY(KVRT_OK));
  BAD("store_stat", "store NULL", kvrt_store_stat(NULL, NULL, 0, "a", 1, &entry, ERR));
  BAD("store_stat", "name NULL", kvrt_store_stat(t->store, NULL, 0, NULL, 1, &entry, ERR));
  BAD("store_stat", "domain NULL, size 4", kvrt_store_stat(t->store, NULL, 4, "a", 1, &entry, ERR));
  BAD("store_stat", "out NULL", kvrt_store_stat(t->store, NULL, 0, "a", 1, NULL, ERR));
  char json[64];
  size_t needed = 0;
  BAD("store_show", "store NULL", kvrt_store_show(NULL, NULL, 0, "a", 1, json, 64, &needed, ERR));
  BAD("store_show", "name NULL", kvrt_store_show(t->store, NULL, 0, NULL, 1, json, 64, &needed, ERR));
  BAD("store_show", "domain NULL, size 4", kvrt_store_show(t->store, NULL, 4, "a", 1, json, 64, &needed, ERR));
  BAD("store_show", "json NULL", kvrt_store_show(t->store, NULL, 0, "a", 1, NULL, 8, &needed, ERR));
  BAD("store_show", "needed NULL", kvrt_store_show(t->store, NULL, 0, "a", 1, json, 64, NULL, ERR));
  BAD("store_remove", "store NULL", kvrt_store_remove(NULL, NULL, 0, "a", 1, ERR));
  BAD("store_remove", "name NULL", kvrt_store_remove(t->store, NULL, 0, NULL, 1, ERR));
  BAD("store_remove", "domain NULL, size 4", kvrt_store_remove(t->store, NULL, 4, "a", 1, ERR));
  BAD("store_rename", "store NULL", kvrt_store_rename(NULL, NULL, 0, "a", 1, "b", 1, ERR));
  BAD("store_rename", "from NULL", kvrt_store_rename(t->store, NULL, 0, NULL, 1, "b", 1, ERR));
  BAD("store_rename", "to NULL", kvrt_store_rename(t->store, NULL, 0, "a", 1, NULL, 1, ERR));
  BAD("store_rename", "domain NULL, size 4", kvrt_store_rename(t->store, NULL, 4, "a", 1, "b", 1, ERR));
  BAD("store_pin", "store NULL", kvrt_store_pin(NULL, NULL, 0, "a", 1, 1, ERR));
  BAD("store_pin", "name NULL", kvrt_store_pin(t->store, NULL, 0, NULL, 1, 1, ERR));
  BAD("store_pin", "domain NULL, size 4", kvrt_store_pin(t->store, NULL, 4, "a", 1, 1, ERR));
  BAD("store_set_ttl", "store NULL", kvrt_store_set_ttl(NULL, NULL, 0, "a", 1, 1, ERR));
  BAD("store_set_ttl", "name NULL", kvrt_store_set_ttl(t->store, NULL, 0, NULL, 1, 1, ERR));
  BAD("store_set_ttl", "domain NULL, size 4", kvrt_store_set_ttl(t->store, NULL, 4, "a", 1, 1, ERR));
  BAD("store_remove_old", "store NULL", kvrt_store_remove_old(NULL, NULL, ERR));
  ROW("store_remove_old", "bytes NULL (no misuse)", kvrt_store_remove_old(t->store, NULL, ERR), ANY(KVRT_OK));
  BAD("store_gc", "store NULL", kvrt_store_gc(NULL, go_on, NULL, NULL, ERR));
  ROW("store_gc", "callback and report NULL (no misuse)", kvrt_store_gc(t->store, NULL, NULL, NULL, ERR), ANY(KVRT_OK));
  BAD("store_repair", "runtime NULL", kvrt_store_repair(NULL, t->dir, strlen(t->dir), go_on, NULL, NULL, ERR));
  BAD("store_repair", "path NULL", kvrt_store_repair(t->runtime, NULL, 4, go_on, NULL, NULL, ERR));
  BAD("store_verify", "store NULL", kvrt_store_verify(NULL, go_on, NULL, ERR));
  ROW("store_verify", "callback NULL (no misuse)", kvrt_store_verify(t->store, NULL, NULL, ERR), ANY(KVRT_OK));
  EXPECT(s == NULL, "out changed on failure");
}

static void session(struct stage* t) {
  kvrt_session_props sp = {.struct_size = sizeof sp};
  kvrt_event e = {.struct_size = sizeof e};
  kvrt_session* s = NULL;
  int32_t tokens[32] = {1};
  size_t needed = 77;
  const char* json = "{\"role\":\"user\",\"content\":\"hi\"}";
  kvrt_session_options so = {.struct_size = sizeof so, .domain_size = 3};
  BAD("session_open", "model NULL", kvrt_session_open(NULL, NULL, &s, ERR));
  BAD("session_open", "out NULL", kvrt_session_open(t->model, NULL, NULL, ERR));
  BAD("session_open", "domain NULL, size 3", kvrt_session_open(t->model, &so, &s, ERR));
  so = (kvrt_session_options){.struct_size = sizeof so, .tools_size = 3};
  BAD("session_open", "tools NULL, size 3", kvrt_session_open(t->model, &so, &s, ERR));
  BAD("session_resume", "tools NULL, size 3", kvrt_session_resume(t->model, t->store, "a", 1, &so, NULL, NULL, NULL, &s, ERR));
  so = (kvrt_session_options){.struct_size = sizeof so, .documents_size = 3};
  BAD("session_open", "documents NULL, size 3", kvrt_session_open(t->model, &so, &s, ERR));
  so = (kvrt_session_options){.struct_size = sizeof so, .variables_size = 3};
  BAD("session_open", "variables NULL, size 3", kvrt_session_open(t->model, &so, &s, ERR));
  BAD("session_info", "session NULL", kvrt_session_info(NULL, &sp, ERR));
  BAD("session_info", "out NULL", kvrt_session_info(t->session, NULL, ERR));
  BAD("session_append", "session NULL", kvrt_session_append(NULL, tokens, 1, ERR));
  BAD("session_append", "tokens NULL", kvrt_session_append(t->session, NULL, 1, ERR));
  BAD("session_append_text", "session NULL", kvrt_session_append_text(NULL, "a", 1, 0, ERR));
  BAD("session_append_text", "text NULL", kvrt_session_append_text(t->session, NULL, 1, 0, ERR));
  BAD("session_append_message", "session NULL", kvrt_session_append_message(NULL, json, strlen(json), NULL, ERR));
  BAD("session_append_message", "message NULL", kvrt_session_append_message(t->session, NULL, 4, NULL, ERR));
  BAD("session_set_messages", "session NULL", kvrt_session_set_messages(NULL, "[]", 2, NULL, ERR));
  BAD("session_set_messages", "messages NULL", kvrt_session_set_messages(t->session, NULL, 4, NULL, ERR));
  BAD("session_set_messages", "messages NULL, size 0", kvrt_session_set_messages(t->session, NULL, 0, NULL, ERR));
  kvrt_message_props mp = {.struct_size = sizeof mp};
  char text[64];
  BAD("session_message", "session NULL", kvrt_session_message(NULL, 0, &mp, text, sizeof text, &needed, ERR));
  BAD("session_message", "json NULL, capacity 8", kvrt_session_message(t->session, 0, &mp, NULL, 8, &needed, ERR));
  BAD("session_message", "needed NULL", kvrt_session_message(t->session, 0, &mp, text, sizeof text, NULL, ERR));
  BAD("session_erase", "session NULL", kvrt_session_erase(NULL, 0, 0, ERR));
  BAD("session_text", "session NULL", kvrt_session_text(NULL, 0, 0, 0, text, sizeof text, &needed, ERR));
  BAD("session_text", "text NULL, capacity 8", kvrt_session_text(t->session, 0, 1, 0, NULL, 8, &needed, ERR));
  BAD("session_text", "needed NULL", kvrt_session_text(t->session, 0, 1, 0, text, sizeof text, NULL, ERR));
  BAD("session_accept", "session NULL", kvrt_session_accept(NULL, 0, ERR));
  kvrt_generate_options go = {.struct_size = sizeof go, .logit_bias_count = 1};
  BAD("session_begin", "logit_bias NULL, count 1", kvrt_session_begin(t->session, &go, ERR));
  go = (kvrt_generate_options){.struct_size = sizeof go, .sampler = KVRT_SAMPLER_HOST};
  BAD("session_generate", "callback NULL with the host's sampler", kvrt_session_generate(t->session, &go, NULL, NULL, NULL, ERR));
  BAD("session_prefill", "session NULL", kvrt_session_prefill(NULL, 0, go_on, NULL, NULL, ERR));
  BAD("session_begin", "session NULL", kvrt_session_begin(NULL, NULL, ERR));
  BAD("session_next", "session NULL", kvrt_session_next(NULL, &e, 0, ERR));
  BAD("session_next", "event NULL", kvrt_session_next(t->session, NULL, 0, ERR));
  BAD("session_generate", "session NULL", kvrt_session_generate(NULL, NULL, go_on, NULL, NULL, ERR));
  BAD("session_cancel", "session NULL", kvrt_session_cancel(NULL, ERR));
  BAD("session_fork", "session NULL", kvrt_session_fork(NULL, NULL, &s, ERR));
  BAD("session_fork", "out NULL", kvrt_session_fork(t->session, NULL, NULL, ERR));
  BAD("session_mark", "session NULL", kvrt_session_mark(NULL, 0, ERR));
  BAD("session_truncate", "session NULL", kvrt_session_truncate(NULL, 0, ERR));
  BAD("session_tokens", "session NULL", kvrt_session_tokens(NULL, tokens, 32, &needed, ERR));
  BAD("session_tokens", "tokens NULL, capacity 32", kvrt_session_tokens(t->session, NULL, 32, &needed, ERR));
  BAD("session_tokens", "needed NULL", kvrt_session_tokens(t->session, tokens, 32, NULL, ERR));
  BAD("session_checkpoint", "session NULL", kvrt_session_checkpoint(NULL, "a", 1, NULL, NULL, ERR));
  BAD("session_checkpoint", "name NULL", kvrt_session_checkpoint(t->session, NULL, 1, NULL, NULL, ERR));
  BAD("session_suspend", "session NULL", kvrt_session_suspend(NULL, "a", 1, NULL, NULL, ERR));
  BAD("session_suspend", "name NULL", kvrt_session_suspend(t->session, NULL, 1, NULL, NULL, ERR));
  BAD("session_resume", "model NULL", kvrt_session_resume(NULL, t->store, "a", 1, NULL, NULL, NULL, NULL, &s, ERR));
  BAD("session_resume", "store NULL", kvrt_session_resume(t->model, NULL, "a", 1, NULL, NULL, NULL, NULL, &s, ERR));
  BAD("session_resume", "name NULL", kvrt_session_resume(t->model, t->store, NULL, 1, NULL, NULL, NULL, NULL, &s, ERR));
  BAD("session_resume", "out NULL", kvrt_session_resume(t->model, t->store, "a", 1, NULL, NULL, NULL, NULL, NULL, ERR));
  EXPECT(s == NULL && needed == 77, "outputs changed on failure");
  EXPECT(session_props(t->session).tokens == 20, "the session changed: %" PRIu64 " tokens", session_props(t->session).tokens);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  no_ops();
  runtime_calls(&t);
  model_calls(&t);
  store(&t);
  session(&t);
  stage_close(&t);
  return finish();
}
