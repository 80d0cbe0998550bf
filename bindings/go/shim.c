#include "shim.h"

// ---- callbacks: a cgo.Handle goes through kvrt as the user pointer ------------------------------------------------------------------

// callback.go exports these.
int32_t kvrtGoEvent(uintptr_t user, kvrt_event* event);
void kvrtGoLog(uintptr_t user, int32_t level, char* text, size_t size);
void kvrtGoWake(uintptr_t user);
void kvrtGoFree(uintptr_t user);

static int32_t on_event(void* user, const kvrt_event* event) { return kvrtGoEvent((uintptr_t)user, (kvrt_event*)event); }
static void on_log(void* user, int32_t level, const char* text, size_t size) { kvrtGoLog((uintptr_t)user, level, (char*)text, size); }
static void on_wake(void* user) { kvrtGoWake((uintptr_t)user); }
static void on_free(void* user) { kvrtGoFree((uintptr_t)user); }

static kvrt_event_fn event_fn(uintptr_t callback) { return callback ? on_event : NULL; }

// ---- texts: the next `size` bytes; none: NULL ---------------------------------------------------------------------------------------

static const char* take(const char** texts, size_t size) {
  const char* text = size ? *texts : NULL;
  *texts += size;
  return text;
}

static void set_model_texts(kvrt_model_options* o, const char* texts) { o->cache_dir = take(&texts, o->cache_dir_size); }

static void set_session(kvrt_session_options* o, const char* texts, uintptr_t wake) {
  o->domain = take(&texts, o->domain_size);
  o->tools = take(&texts, o->tools_size);
  o->documents = take(&texts, o->documents_size);
  o->variables = take(&texts, o->variables_size);
  o->autosave_name = take(&texts, o->autosave_name_size);
  if (wake) {
    o->wake = on_wake;
    o->wake_user = (void*)wake;
    o->wake_user_free = on_free;
  }
}

static void set_generate(kvrt_generate_options* o, const char* texts, const kvrt_token_value* logit_bias, const int32_t* stop_tokens) {
  o->stop_strings = take(&texts, o->stop_strings_size);
  o->grammar = take(&texts, o->grammar_size);
  o->tool_name = take(&texts, o->tool_name_size);
  o->prediction = take(&texts, o->prediction_size);
  o->logit_bias = logit_bias;
  o->stop_tokens = stop_tokens;
}

// ---- calls: the options struct is the caller's own, so pointers are set in a copy ------------------------------------------------------

kvrt_status go_runtime_open(kvrt_runtime_options* options, const char* texts, uintptr_t log, kvrt_runtime** out, kvrt_error* err) {
  kvrt_runtime_options o = *options;
  o.cuda_library = take(&texts, o.cuda_library_size);
  if (log) {
    o.log = on_log;
    o.log_user = (void*)log;
    o.log_user_free = on_free;
  }
  return kvrt_runtime_open(&o, out, err);
}

kvrt_status go_model_open(kvrt_runtime* runtime, const char* path, size_t path_size, kvrt_model_options* options, const char* texts,
                          uintptr_t callback, kvrt_model** out, kvrt_error* err) {
  kvrt_model_options o = *options;
  set_model_texts(&o, texts);
  return kvrt_model_open(runtime, path, path_size, &o, event_fn(callback), (void*)callback, out, err);
}

kvrt_status go_model_cache(const kvrt_runtime* runtime, kvrt_model_options* options, const char* texts, kvrt_cache_props* out,
                           kvrt_error* err) {
  kvrt_model_options o = *options;
  set_model_texts(&o, texts);
  return kvrt_model_cache(runtime, &o, out, err);
}

kvrt_status go_model_apply_template(const kvrt_model* model, const char* messages, size_t messages_size, kvrt_template_options* options,
                                    const char* texts, char* text, size_t capacity, size_t* needed, kvrt_error* err) {
  kvrt_template_options o = *options;
  o.source = take(&texts, o.source_size);
  o.tools = take(&texts, o.tools_size);
  o.documents = take(&texts, o.documents_size);
  o.variables = take(&texts, o.variables_size);
  return kvrt_model_apply_template(model, messages, messages_size, &o, text, capacity, needed, err);
}

kvrt_status go_store_list(const kvrt_store* store, const char* domain, size_t domain_size, uintptr_t callback, kvrt_error* err) {
  return kvrt_store_list(store, domain, domain_size, on_event, (void*)callback, err);
}

kvrt_status go_store_gc(kvrt_store* store, uintptr_t callback, kvrt_gc_report* report, kvrt_error* err) {
  return kvrt_store_gc(store, event_fn(callback), (void*)callback, report, err);
}

kvrt_status go_store_verify(kvrt_store* store, uintptr_t callback, kvrt_error* err) {
  return kvrt_store_verify(store, event_fn(callback), (void*)callback, err);
}

kvrt_status go_store_repair(kvrt_runtime* runtime, const char* path, size_t path_size, uintptr_t callback, kvrt_repair_report* report,
                            kvrt_error* err) {
  return kvrt_store_repair(runtime, path, path_size, event_fn(callback), (void*)callback, report, err);
}

kvrt_status go_session_open(kvrt_model* model, kvrt_session_options* options, const char* texts, uintptr_t wake, kvrt_session** out,
                            kvrt_error* err) {
  kvrt_session_options o = *options;
  set_session(&o, texts, wake);
  return kvrt_session_open(model, &o, out, err);
}

kvrt_status go_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size, kvrt_session_options* options,
                              const char* texts, uintptr_t wake, uintptr_t callback, kvrt_report* report, kvrt_session** out,
                              kvrt_error* err) {
  kvrt_session_options o = *options;
  set_session(&o, texts, wake);
  return kvrt_session_resume(model, store, name, name_size, &o, event_fn(callback), (void*)callback, report, out, err);
}

kvrt_status go_session_fork(kvrt_session* session, uintptr_t wake, kvrt_session** out, kvrt_error* err) {
  kvrt_session_options o;
  KVRT_INIT(&o);
  set_session(&o, "", wake);
  return kvrt_session_fork(session, &o, out, err);
}

kvrt_status go_session_prefill(kvrt_session* session, uint32_t logits, uintptr_t callback, kvrt_report* report, kvrt_error* err) {
  return kvrt_session_prefill(session, logits, event_fn(callback), (void*)callback, report, err);
}

kvrt_status go_session_begin(kvrt_session* session, kvrt_generate_options* options, const char* texts, const kvrt_token_value* logit_bias,
                             const int32_t* stop_tokens, kvrt_error* err) {
  kvrt_generate_options o = *options;
  set_generate(&o, texts, logit_bias, stop_tokens);
  return kvrt_session_begin(session, &o, err);
}

kvrt_status go_session_generate(kvrt_session* session, kvrt_generate_options* options, const char* texts,
                                const kvrt_token_value* logit_bias, const int32_t* stop_tokens, uintptr_t callback, kvrt_report* report,
                                kvrt_error* err) {
  kvrt_generate_options o = *options;
  set_generate(&o, texts, logit_bias, stop_tokens);
  return kvrt_session_generate(session, &o, event_fn(callback), (void*)callback, report, err);
}
