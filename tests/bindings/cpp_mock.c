// kvrt.h without kvrt: every call notes its name and gives a fixed answer, so that the C++ header's own work can be seen alone.
#include <stdio.h>

#include "kvrt.h"

static char names[4096];

static kvrt_status note(const char* name) {
  char word[80];
  const int n = snprintf(word, sizeof word, " %s ", name);
  if (strstr(names, word) == NULL && strlen(names) + (size_t)n < sizeof names) strcat(names, word);
  return KVRT_OK;
}

// The names of the calls so far, each between spaces.
const char* mock_calls(void) { return names; }

static const int32_t kTokens[] = {1, 2, 3};
static const float kLogits[] = {0.5f, 1.5f};

static kvrt_status give(const char* name, const void* data, size_t count, size_t size, void* out, size_t capacity, size_t* needed) {
  note(name);
  *needed = count;
  if (capacity < count) return KVRT_TOO_SMALL;
  memcpy(out, data, count * size);
  return KVRT_OK;
}

// Three events, as long as the callback goes on.
static kvrt_status call_back(const char* name, kvrt_event_fn callback, void* user) {
  note(name);
  kvrt_report report;
  KVRT_INIT(&report);
  report.generated = 1;
  kvrt_event events[3];
  for (int i = 0; i < 3; ++i) KVRT_INIT(&events[i]);
  events[0].type = KVRT_EVENT_TOKEN, events[0].text = "ab", events[0].text_size = 2;
  events[1].type = KVRT_EVENT_LOGITS, events[1].logits = kLogits, events[1].logits_count = 2;
  events[2].type = KVRT_EVENT_DONE, events[2].report = &report;
  for (int i = 0; i < 3; ++i) {
    if (callback && callback(user, &events[i])) return KVRT_CANCELLED;
  }
  return KVRT_OK;
}

// A handle is the address of a byte that nobody reads.
#define HANDLE(out, type) (*(out) = (type*)(void*)&handles[0])
static char handles[1];

uint32_t kvrt_version(void) { return (uint32_t)note("kvrt_version"); }
uint32_t kvrt_abi_version(void) { return (uint32_t)note("kvrt_abi_version"); }
uint32_t kvrt_struct_size(const char* name) { return (uint32_t)(note("kvrt_struct_size") + (name == NULL)); }
uint32_t kvrt_struct_offset(const char* name, const char* field) { return (uint32_t)(note("kvrt_struct_offset") + (name == field)); }
const char* kvrt_status_name(kvrt_status status) {
  note("kvrt_status_name");
  return status ? "FAILED" : "OK";
}
kvrt_status kvrt_last_error(kvrt_error* out) {
  out->status = KVRT_CANCELLED;
  strcpy(out->message, "mock");
  return note("kvrt_last_error");
}

kvrt_status kvrt_runtime_open(const kvrt_runtime_options* o, kvrt_runtime** out, kvrt_error* err) {
  if (o->log) o->log(o->log_user, KVRT_LOG_WARN, "line", 4);
  HANDLE(out, kvrt_runtime);
  return note(__func__);
}
void kvrt_runtime_retain(kvrt_runtime* r) { note(__func__), (void)r; }
void kvrt_runtime_release(kvrt_runtime* r) { note(__func__), (void)r; }
kvrt_status kvrt_runtime_info(const kvrt_runtime* r, kvrt_runtime_props* out, kvrt_error* err) {
  return (void)r, out->threads = 2, note(__func__);
}
kvrt_status kvrt_runtime_set_threads(kvrt_runtime* r, uint32_t n, kvrt_error* err) { return (void)r, (void)n, note(__func__); }
kvrt_status kvrt_model_plan(const kvrt_runtime* r, const char* p, size_t n, const kvrt_plan_options* o, kvrt_plan* out, kvrt_error* err) {
  return (void)r, (void)p, (void)n, (void)o, out->fits = 1, note(__func__);
}

kvrt_status kvrt_model_cache(const kvrt_runtime* r, const kvrt_model_options* o, kvrt_cache_props* out, kvrt_error* err) {
  return (void)r, (void)o, out->files = 3, note(__func__);
}

kvrt_status kvrt_model_inspect(const kvrt_runtime* r, const char* p, size_t n, uint32_t flags, char* json, size_t capacity, size_t* needed,
                               kvrt_error* err) {
  (void)r, (void)p, (void)n, (void)flags;
  if (capacity >= 2) memcpy(json, "{}", 2);
  return *needed = 2, note(__func__);
}

kvrt_status kvrt_model_open(kvrt_runtime* r, const char* p, size_t n, const kvrt_model_options* o, kvrt_event_fn f, void* u,
                            kvrt_model** out, kvrt_error* err) {
  (void)r, (void)p, (void)n, (void)o;
  HANDLE(out, kvrt_model);
  return call_back(__func__, f, u);
}
void kvrt_model_retain(kvrt_model* m) { note(__func__), (void)m; }
void kvrt_model_release(kvrt_model* m) { note(__func__), (void)m; }
kvrt_status kvrt_model_info(const kvrt_model* m, kvrt_model_props* out, kvrt_error* err) {
  return (void)m, out->layers = 4, note(__func__);
}
kvrt_status kvrt_model_tokenize(const kvrt_model* m, const char* t, size_t n, uint32_t f, int32_t* out, size_t c, size_t* needed,
                                kvrt_error* err) {
  return (void)m, (void)t, (void)n, (void)f, give(__func__, kTokens, 3, sizeof *kTokens, out, c, needed);
}
kvrt_status kvrt_model_detokenize(const kvrt_model* m, const int32_t* t, size_t n, uint32_t f, char* out, size_t c, size_t* needed,
                                  kvrt_error* err) {
  return (void)m, (void)t, (void)n, (void)f, give(__func__, "text", 4, 1, out, c, needed);
}
kvrt_status kvrt_model_apply_template(const kvrt_model* m, const char* t, size_t n, const kvrt_template_options* o, char* out, size_t c,
                                      size_t* needed, kvrt_error* err) {
  return (void)m, (void)t, (void)n, (void)o, give(__func__, "text", 4, 1, out, c, needed);
}
kvrt_status kvrt_model_step(kvrt_model* m, uint32_t ms, uint32_t* runnable, kvrt_error* err) {
  return (void)m, (void)ms, *runnable = 3, note(__func__);
}
kvrt_status kvrt_model_metrics(const kvrt_model* m, kvrt_metrics* out, kvrt_error* err) { return (void)m, out->steps = 5, note(__func__); }
kvrt_status kvrt_model_metrics_text(const kvrt_model* m, const char* l, size_t n, char* out, size_t c, size_t* needed, kvrt_error* err) {
  // An empty label is a label: the model's name comes with NULL alone.
  return (void)m, n || !l ? give(__func__, "text", 4, 1, out, c, needed) : KVRT_INVALID;
}

kvrt_status kvrt_store_open(kvrt_runtime* r, const char* p, size_t n, const kvrt_store_options* o, kvrt_store** out, kvrt_error* err) {
  (void)r, (void)p, (void)n, (void)o;
  HANDLE(out, kvrt_store);
  return note(__func__);
}
void kvrt_store_retain(kvrt_store* s) { note(__func__), (void)s; }
void kvrt_store_release(kvrt_store* s) { note(__func__), (void)s; }
kvrt_status kvrt_store_info(const kvrt_store* s, kvrt_store_props* out, kvrt_error* err) {
  return (void)s, out->sessions = 6, note(__func__);
}
kvrt_status kvrt_cancel_open(kvrt_cancel** out, kvrt_error* err) {
  HANDLE(out, kvrt_cancel);
  return note(__func__);
}
void kvrt_cancel_retain(kvrt_cancel* c) { note(__func__), (void)c; }
void kvrt_cancel_release(kvrt_cancel* c) { note(__func__), (void)c; }
void kvrt_cancel_fire(kvrt_cancel* c) { note(__func__), (void)c; }
uint32_t kvrt_cancel_fired(const kvrt_cancel* c) { return (void)c, (uint32_t)note(__func__) + 1; }
#define STORE_CALL kvrt_store *s, NAME
#define NAME const char *d, size_t dn, const char *n, size_t nn
#define UNUSED (void)s, (void)d, (void)dn, (void)n, (void)nn
kvrt_status kvrt_store_list(const kvrt_store* s, const char* d, size_t dn, kvrt_event_fn f, void* u, kvrt_error* err) {
  return (void)s, (void)d, (void)dn, call_back(__func__, f, u);
}
kvrt_status kvrt_store_stat(const kvrt_store* s, NAME, kvrt_store_entry* out, kvrt_error* err) {
  return UNUSED, out->tokens = 7, note(__func__);
}
kvrt_status kvrt_store_show(const kvrt_store* s, NAME, char* json, size_t c, size_t* needed, kvrt_error* err) {
  return UNUSED, give(__func__, "{}", 2, 1, json, c, needed);
}
kvrt_status kvrt_store_remove(STORE_CALL, kvrt_error* err) { return UNUSED, note(__func__); }
kvrt_status kvrt_store_rename(STORE_CALL, const char* t, size_t tn, kvrt_error* err) { return UNUSED, (void)t, (void)tn, note(__func__); }
kvrt_status kvrt_store_pin(STORE_CALL, uint32_t p, kvrt_error* err) { return UNUSED, (void)p, note(__func__); }
kvrt_status kvrt_store_set_ttl(STORE_CALL, uint64_t t, kvrt_error* err) { return UNUSED, (void)t, note(__func__); }
kvrt_status kvrt_store_gc(kvrt_store* s, kvrt_event_fn f, void* u, kvrt_gc_report* out, kvrt_error* err) {
  return (void)s, out->chunks_removed = 8, call_back(__func__, f, u);
}
kvrt_status kvrt_store_remove_old(kvrt_store* s, uint64_t* bytes, kvrt_error* err) { return (void)s, *bytes = 5, note(__func__); }
kvrt_status kvrt_store_repair(kvrt_runtime* r, const char* p, size_t n, kvrt_event_fn f, void* u, kvrt_repair_report* out,
                              kvrt_error* err) {
  return (void)r, (void)p, (void)n, out->sessions_kept = 9, call_back(__func__, f, u);
}
kvrt_status kvrt_store_verify(kvrt_store* s, kvrt_event_fn f, void* u, kvrt_error* err) { return (void)s, call_back(__func__, f, u); }

kvrt_status kvrt_session_open(kvrt_model* m, const kvrt_session_options* o, kvrt_session** out, kvrt_error* err) {
  (void)m;
  if (o->wake) o->wake(o->wake_user);
  if (o->autosave_turn && !(o->store && o->autosave_name_size)) return KVRT_INVALID;
  HANDLE(out, kvrt_session);
  return note(__func__);
}
kvrt_status kvrt_session_resume(kvrt_model* m, kvrt_store* s, const char* n, size_t nn, const kvrt_session_options* o, kvrt_event_fn f,
                                void* u, kvrt_report* r, kvrt_session** out, kvrt_error* err) {
  (void)m, (void)s, (void)o, (void)r;
  if (nn == 6 && !memcmp(n, "nobody", 6)) return KVRT_NOT_FOUND;
  HANDLE(out, kvrt_session);
  return call_back(__func__, f, u);
}
kvrt_status kvrt_session_fork(kvrt_session* s, const kvrt_session_options* o, kvrt_session** out, kvrt_error* err) {
  (void)s, (void)o;
  HANDLE(out, kvrt_session);
  return note(__func__);
}
void kvrt_session_close(kvrt_session* s) { note(__func__), (void)s; }
kvrt_status kvrt_session_info(const kvrt_session* s, kvrt_session_props* out, kvrt_error* err) {
  return (void)s, out->tokens = 9, note(__func__);
}
kvrt_status kvrt_session_append(kvrt_session* s, const int32_t* t, size_t n, kvrt_error* err) {
  return (void)s, (void)t, (void)n, note(__func__);
}
kvrt_status kvrt_session_append_text(kvrt_session* s, const char* t, size_t n, uint32_t f, kvrt_error* err) {
  return (void)s, (void)t, (void)n, (void)f, note(__func__);
}
kvrt_status kvrt_session_append_message(kvrt_session* s, const char* t, size_t n, kvrt_append_info* out, kvrt_error* err) {
  return (void)s, (void)t, (void)n, out->appended = 10, note(__func__);
}
kvrt_status kvrt_session_set_messages(kvrt_session* s, const char* t, size_t n, kvrt_append_info* out, kvrt_error* err) {
  return (void)s, (void)t, (void)n, out->appended = 11, note(__func__);
}
kvrt_status kvrt_session_message(const kvrt_session* s, uint64_t i, kvrt_message_props* p, char* out, size_t c, size_t* needed,
                                 kvrt_error* err) {
  return (void)s, (void)i, (void)p, give(__func__, "{}", 2, 1, out, c, needed);
}
kvrt_status kvrt_session_prefill(kvrt_session* s, uint32_t l, kvrt_event_fn f, void* u, kvrt_report* out, kvrt_error* err) {
  return (void)s, (void)l, out->prefilled = 12, call_back(__func__, f, u);
}
kvrt_status kvrt_session_begin(kvrt_session* s, const kvrt_generate_options* o, kvrt_error* err) {
  return (void)s, (void)o, note(__func__);
}
kvrt_status kvrt_session_next(kvrt_session* s, kvrt_event* e, int32_t timeout, kvrt_error* err) {
  static int count;
  (void)s, (void)timeout;
  e->type = ++count % 3 ? KVRT_EVENT_TOKEN : KVRT_EVENT_DONE;
  return note(__func__);
}
kvrt_status kvrt_session_accept(kvrt_session* s, int32_t t, kvrt_error* err) { return (void)s, (void)t, note(__func__); }
kvrt_status kvrt_session_generate(kvrt_session* s, const kvrt_generate_options* o, kvrt_event_fn f, void* u, kvrt_report* out,
                                  kvrt_error* err) {
  return (void)s, (void)o, out->generated = 13, call_back(__func__, f, u);
}
kvrt_status kvrt_session_cancel(kvrt_session* s, kvrt_error* err) { return (void)s, note(__func__); }
kvrt_status kvrt_session_truncate(kvrt_session* s, uint64_t n, kvrt_error* err) { return (void)s, (void)n, note(__func__); }
kvrt_status kvrt_session_mark(kvrt_session* s, uint64_t n, kvrt_error* err) { return (void)s, (void)n, note(__func__); }
kvrt_status kvrt_session_erase(kvrt_session* s, uint64_t a, uint64_t b, kvrt_error* err) {
  return (void)s, (void)a, (void)b, note(__func__);
}
kvrt_status kvrt_session_text(const kvrt_session* s, uint64_t a, uint64_t b, uint32_t f, char* out, size_t c, size_t* needed,
                              kvrt_error* err) {
  return (void)s, (void)a, (void)b, (void)f, give(__func__, "text", 4, 1, out, c, needed);
}
kvrt_status kvrt_session_tokens(const kvrt_session* s, int32_t* out, size_t c, size_t* needed, kvrt_error* err) {
  return (void)s, give(__func__, kTokens, 3, sizeof *kTokens, out, c, needed);
}
kvrt_status kvrt_session_checkpoint(kvrt_session* s, const char* n, size_t nn, const kvrt_save_options* o, kvrt_save_report* out,
                                    kvrt_error* err) {
  return (void)s, (void)n, (void)nn, (void)o, out->chunks = 14, note(__func__);
}
kvrt_status kvrt_session_suspend(kvrt_session* s, const char* n, size_t nn, const kvrt_save_options* o, kvrt_save_report* out,
                                 kvrt_error* err) {
  return (void)s, (void)n, (void)nn, (void)o, out->chunks = 15, note(__func__);
}
