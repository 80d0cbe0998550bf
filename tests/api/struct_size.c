// The struct_size matrix. Options: 0, less than the field itself and what cuts a field is INVALID; shorter has zeros in the missing fields; longer with a zero
// tail is sound, with a dirty one UNSUPPORTED. Outputs: at most struct_size bytes are written.
#include <stddef.h>

#include "misuse.h"

enum { kTail = 64 };

typedef kvrt_status (*call_fn)(struct stage* t, void* s);

// Some call of a matrix succeeded where it should have: undone so that the next can run.
static kvrt_status runtime_call(struct stage* t, void* o) {
  (void)t;
  kvrt_runtime* rt = NULL;
  const kvrt_status status = kvrt_runtime_open(o, &rt, NULL);
  kvrt_runtime_release(rt);
  return status;
}

static kvrt_status fork_call(struct stage* t, void* o) {
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_fork(t->session, o, &s, NULL);
  kvrt_session_close(s);
  return status;
}

static kvrt_status model_call(struct stage* t, void* o) {
  kvrt_model* m = NULL;
  const kvrt_status status = kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), o, NULL, NULL, &m, NULL);
  kvrt_model_release(m);
  return status;
}

static kvrt_status cache_call(struct stage* t, void* o) {
  kvrt_cache_props props = {.struct_size = sizeof props};
  const kvrt_status status = kvrt_model_cache(t->runtime, o, &props, NULL);
  return status == KVRT_NOT_FOUND ? KVRT_OK : status;  // no directory is named
}

static kvrt_status plan_call(struct stage* t, void* o) {
  kvrt_plan plan = {.struct_size = sizeof plan};
  return kvrt_model_plan(t->runtime, t->tiny, strlen(t->tiny), o, &plan, NULL);
}

static kvrt_status template_call(struct stage* t, void* o) {
  const char* messages = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  char text[512];
  size_t needed = 0;
  return kvrt_model_apply_template(t->model, messages, strlen(messages), o, text, sizeof text, &needed, NULL);
}

static kvrt_status store_call(struct stage* t, void* o) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/other", t->dir);
  kvrt_store* s = NULL;
  const kvrt_status status = kvrt_store_open(t->runtime, path, strlen(path), o, &s, NULL);
  kvrt_store_release(s);
  return status;
}

static kvrt_status session_call(struct stage* t, void* o) {
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_open(t->model, o, &s, NULL);
  kvrt_session_close(s);
  return status;
}

static kvrt_status generate_call(struct stage* t, void* o) {
  // A struct without max_tokens would run long: the callback ends it, and CANCELLED then says that the options were taken.
  struct run r = {0};
  kvrt_generate_options whole;
  KVRT_INIT(&whole);
  const uint32_t size = *(uint32_t*)o;
  if (size > sizeof whole.struct_size) return kvrt_session_generate(t->session, o, run_callback, &r, NULL, NULL);
  const kvrt_status status = kvrt_session_begin(t->session, o, NULL);
  if (status != KVRT_OK) return status;
  kvrt_session_cancel(t->session, NULL);
  kvrt_event e = {.struct_size = sizeof e};
  while (kvrt_session_next(t->session, &e, -1, NULL) == KVRT_OK && e.type != KVRT_EVENT_DONE) {
  }
  return status;
}

static kvrt_status save_call(struct stage* t, void* o) { return kvrt_session_checkpoint(t->session, "sized", 5, o, NULL, NULL); }

static kvrt_status resume_call(struct stage* t, void* o) {
  kvrt_session* s = NULL;
  MUST(kvrt_session_checkpoint(t->session, "sized", 5, NULL, NULL, NULL));
  const kvrt_status status = kvrt_session_resume(t->model, t->store, "sized", 5, o, NULL, NULL, NULL, &s, NULL);
  kvrt_session_close(s);
  return status;
}

static void options(struct stage* t, const char* name, call_fn call, size_t size, size_t alignment) {
  unsigned char bytes[512] = {0};
  uint32_t* struct_size = (uint32_t*)(void*)bytes;
  REQUIRE(size + kTail < sizeof bytes, "%s", name);
  if (strcmp(name, "generate_options") == 0) ((kvrt_generate_options*)(void*)bytes)->max_tokens = 1;
  ROW(name, "NULL", strcmp(name, "generate_options") == 0 ? KVRT_OK : call(t, NULL), ANY(KVRT_OK));
  *struct_size = (uint32_t)size;
  ROW(name, "sizeof", call(t, bytes), ANY(KVRT_OK));
  for (uint32_t bad = 0; bad < 4; ++bad) {
    *struct_size = bad;
    BAD(name, bad ? "struct_size 1 to 3" : "struct_size 0", call(t, bytes));
  }
  memset(bytes + size, 0xFF, kTail);
  for (size_t n = 4; n < size; ++n) {  // bytes past a short struct are not read
    unsigned char part[512];
    memset(part, 0xFF, sizeof part);
    memcpy(part, bytes, n);
    *(uint32_t*)(void*)part = (uint32_t)n;
    const kvrt_status status = call(t, part);
    ROW(name, n % alignment ? "cut within a field" : "short", status, n % alignment ? ANY(KVRT_INVALID) : ANY(KVRT_OK));
  }
  *struct_size = (uint32_t)size + kTail;
  ROW(name, "long, dirty tail", call(t, bytes), ANY(KVRT_UNSUPPORTED));
  EXPECT(last_detail() == KVRT_DETAIL_STRUCT_TAIL, "%s: detail %d", name, (int)last_detail());
  memset(bytes + size, 0, kTail);
  bytes[size + kTail - 1] = 1;
  ROW(name, "long, the last byte dirty", call(t, bytes), ANY(KVRT_UNSUPPORTED));
  bytes[size + kTail - 1] = 0;
  ROW(name, "long, zero tail", call(t, bytes), ANY(KVRT_OK));
}

static kvrt_status error_out(struct stage* t, void* o) {
  (void)t;
  return kvrt_last_error(o);
}
static kvrt_status runtime_out(struct stage* t, void* o) { return kvrt_runtime_info(t->runtime, o, NULL); }
static kvrt_status model_out(struct stage* t, void* o) { return kvrt_model_info(t->model, o, NULL); }
static kvrt_status plan_out(struct stage* t, void* o) { return kvrt_model_plan(t->runtime, t->tiny, strlen(t->tiny), NULL, o, NULL); }
static kvrt_status cache_out(struct stage* t, void* o) {
  const kvrt_model_options options = {.struct_size = sizeof options, .cache_dir = t->dir, .cache_dir_size = strlen(t->dir)};
  return kvrt_model_cache(t->runtime, &options, o, NULL);
}
static kvrt_status store_out(struct stage* t, void* o) { return kvrt_store_info(t->store, o, NULL); }
static kvrt_status entry_out(struct stage* t, void* o) { return kvrt_store_stat(t->store, NULL, 0, "sized", 5, o, NULL); }
static kvrt_status session_out(struct stage* t, void* o) { return kvrt_session_info(t->session, o, NULL); }
static kvrt_status prefill_report_out(struct stage* t, void* o) { return kvrt_session_prefill(t->session, 0, NULL, NULL, o, NULL); }
static kvrt_status save_report_out(struct stage* t, void* o) { return kvrt_session_checkpoint(t->session, "sized", 5, NULL, o, NULL); }
static kvrt_status next_out(struct stage* t, void* o) { return kvrt_session_next(t->session, o, 0, NULL); }
static kvrt_status metrics_out(struct stage* t, void* o) { return kvrt_model_metrics(t->model, o, NULL); }
static kvrt_status set_messages_out(struct stage* t, void* o) {
  kvrt_session* s = open_session(t->model, NULL, 0);
  const char* messages = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  const kvrt_status status = kvrt_session_set_messages(s, messages, strlen(messages), o, NULL);
  kvrt_session_close(s);
  return status;
}
static kvrt_status message_out(struct stage* t, void* o) {
  kvrt_session* s = open_session(t->model, NULL, 0);
  const char* messages = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  char json[64];
  size_t needed = 0;
  MUST(kvrt_session_set_messages(s, messages, strlen(messages), NULL, NULL));
  const kvrt_status status = kvrt_session_message(s, 0, o, json, sizeof json, &needed, NULL);
  kvrt_session_close(s);
  return status;
}
static kvrt_status gc_out(struct stage* t, void* o) { return kvrt_store_gc(t->store, NULL, NULL, o, NULL); }
static kvrt_status repair_out(struct stage* t, void* o) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/repaired", t->dir);
  kvrt_store* s = NULL;
  MUST(kvrt_store_open(t->runtime, path, strlen(path), NULL, &s, NULL));
  kvrt_store_release(s);
  return kvrt_store_repair(t->runtime, path, strlen(path), NULL, NULL, o, NULL);
}
static kvrt_status append_out(struct stage* t, void* o) {
  kvrt_session* s = open_session(t->model, NULL, 0);
  const char* message = "{\"role\":\"user\",\"content\":\"hi\"}";
  const kvrt_status status = kvrt_session_append_message(s, message, strlen(message), o, NULL);
  kvrt_session_close(s);
  return status;
}
static kvrt_status generate_report_out(struct stage* t, void* o) {
  kvrt_generate_options g = {.struct_size = sizeof g, .max_tokens = 1};
  return kvrt_session_generate(t->session, &g, NULL, NULL, o, NULL);
}
static kvrt_status resume_report_out(struct stage* t, void* o) {
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_resume(t->model, t->store, "sized", 5, NULL, NULL, NULL, o, &s, NULL);
  kvrt_session_close(s);
  return status;
}

static void output(struct stage* t, const char* name, call_fn call, size_t size) {
  static unsigned char bytes[8192];
  for (uint32_t bad = 0; bad < 4; ++bad) {
    canary(bytes, sizeof bytes);
    memcpy(bytes, &bad, 4);
    BAD(name, bad ? "struct_size 1 to 3" : "struct_size 0", call(t, bytes));
    EXPECT(has_canary(bytes + 4, sizeof bytes - 4), "%s: a refused output was written to", name);
  }
  const size_t sizes[] = {4, 8, size / 2 / 4 * 4, size - 4, size, size + 4, size + kTail};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    canary(bytes, sizeof bytes);
    const uint32_t n = (uint32_t)sizes[i];
    memcpy(bytes, &n, 4);
    const kvrt_status status = call(t, bytes);
    ROW(name, n < size ? "short output" : n == size ? "sizeof output" : "long output", status, ANY(KVRT_OK));
    uint32_t after = 0;
    memcpy(&after, bytes, 4);
    EXPECT(has_canary(bytes + n, sizeof bytes - n), "%s: wrote past struct_size %u", name, n);
    EXPECT(after <= n && after >= 4, "%s: struct_size %u became %u", name, n, after);
    if (n == size) EXPECT(!has_canary(bytes + 4, size - 4), "%s: nothing was written", name);
  }
}

// A binding that lays out structs by itself asks for their sizes and offsets (those of every field: bindings/python/tests/test_abi.py).
static void sizes(void) {
#define SIZE_OF(name) EXPECT(kvrt_struct_size(#name) == sizeof(name), "%s: %u, here %zu", #name, kvrt_struct_size(#name), sizeof(name))
  SIZE_OF(kvrt_error);
  SIZE_OF(kvrt_report);
  SIZE_OF(kvrt_store_entry);
  SIZE_OF(kvrt_token_value);
  SIZE_OF(kvrt_event);
  SIZE_OF(kvrt_runtime_options);
  SIZE_OF(kvrt_runtime_props);
  SIZE_OF(kvrt_model_options);
  SIZE_OF(kvrt_model_props);
  SIZE_OF(kvrt_template_options);
  SIZE_OF(kvrt_metrics);
  SIZE_OF(kvrt_plan_options);
  SIZE_OF(kvrt_plan);
  SIZE_OF(kvrt_store_options);
  SIZE_OF(kvrt_store_props);
  SIZE_OF(kvrt_gc_report);
  SIZE_OF(kvrt_repair_report);
  SIZE_OF(kvrt_session_options);
  SIZE_OF(kvrt_session_props);
  SIZE_OF(kvrt_append_info);
  SIZE_OF(kvrt_message_props);
  SIZE_OF(kvrt_generate_options);
  SIZE_OF(kvrt_save_options);
  SIZE_OF(kvrt_save_report);
  SIZE_OF(kvrt_cache_props);
#undef SIZE_OF
  EXPECT(kvrt_struct_size("kvrt_nothing") == 0 && kvrt_struct_size("") == 0 && kvrt_struct_size("kvrt_even") == 0, "a size of nothing");
#define OFFSET_OF(name, field) EXPECT(kvrt_struct_offset(#name, #field) == offsetof(name, field), "%s.%s", #name, #field)
  OFFSET_OF(kvrt_error, struct_size);
  OFFSET_OF(kvrt_error, message);
  OFFSET_OF(kvrt_token_value, value);
  OFFSET_OF(kvrt_event, top_count);
  OFFSET_OF(kvrt_save_report, struct_size);
  OFFSET_OF(kvrt_save_report, ms);
#undef OFFSET_OF
  static const char* const kNothing[][2] = {{"kvrt_nothing", "type"},
                                            {"", "type"},
                                            {"", ""},
                                            {"kvrt_event", "nothing"},
                                            {"kvrt_event", ""},
                                            {"kvrt_event", "typ"},
                                            {"kvrt_event", "types"},
                                            {"type", "type"},
                                            {"kvrt_event", "kvrt_event"},
                                            {"kvrt_error", "type"},
                                            {"kvrt_event", "message"}};
  for (size_t i = 0; i < sizeof kNothing / sizeof *kNothing; ++i) {
    EXPECT(kvrt_struct_offset(kNothing[i][0], kNothing[i][1]) == UINT32_MAX, "an offset of %s.%s", kNothing[i][0], kNothing[i][1]);
  }
}

int main(void) {
  struct stage t;
  stage_open(&t);
  sizes();
  options(&t, "runtime_options", runtime_call, sizeof(kvrt_runtime_options), _Alignof(kvrt_runtime_options));
  options(&t, "model_options", model_call, sizeof(kvrt_model_options), _Alignof(kvrt_model_options));
  options(&t, "model_options of cache", cache_call, sizeof(kvrt_model_options), _Alignof(kvrt_model_options));
  options(&t, "plan_options", plan_call, sizeof(kvrt_plan_options), _Alignof(kvrt_plan_options));
  options(&t, "template_options", template_call, sizeof(kvrt_template_options), _Alignof(kvrt_template_options));
  options(&t, "store_options", store_call, sizeof(kvrt_store_options), _Alignof(kvrt_store_options));
  options(&t, "session_options", session_call, sizeof(kvrt_session_options), _Alignof(kvrt_session_options));
  options(&t, "generate_options", generate_call, sizeof(kvrt_generate_options), _Alignof(kvrt_generate_options));
  options(&t, "save_options", save_call, sizeof(kvrt_save_options), _Alignof(kvrt_save_options));
  options(&t, "fork options", fork_call, sizeof(kvrt_session_options), _Alignof(kvrt_session_options));
  options(&t, "resume options", resume_call, sizeof(kvrt_session_options), _Alignof(kvrt_session_options));
  kvrt_runtime_open(NULL, NULL, NULL);  // an error for last_error to show
  output(&t, "error", error_out, sizeof(kvrt_error));
  output(&t, "runtime_props", runtime_out, sizeof(kvrt_runtime_props));
  output(&t, "model_props", model_out, sizeof(kvrt_model_props));
  output(&t, "plan", plan_out, sizeof(kvrt_plan));
  output(&t, "cache_props", cache_out, sizeof(kvrt_cache_props));
  output(&t, "store_props", store_out, sizeof(kvrt_store_props));
  output(&t, "store_entry", entry_out, sizeof(kvrt_store_entry));
  output(&t, "session_props", session_out, sizeof(kvrt_session_props));
  output(&t, "append_info", append_out, sizeof(kvrt_append_info));
  output(&t, "append_info of set", set_messages_out, sizeof(kvrt_append_info));
  output(&t, "message_props", message_out, sizeof(kvrt_message_props));
  output(&t, "gc_report", gc_out, sizeof(kvrt_gc_report));
  output(&t, "repair_report", repair_out, sizeof(kvrt_repair_report));
  output(&t, "metrics", metrics_out, sizeof(kvrt_metrics));
  output(&t, "report of prefill", prefill_report_out, sizeof(kvrt_report));
  output(&t, "report of generate", generate_report_out, sizeof(kvrt_report));
  output(&t, "save_report", save_report_out, sizeof(kvrt_save_report));
  output(&t, "report of resume", resume_report_out, sizeof(kvrt_report));
  output(&t, "event of next", next_out, sizeof(kvrt_event));
  stage_close(&t);
  return finish();
}
