// A call keeps its objects: the last handle of a runtime, model or store is let go in a callback of every call that has one, by the
// callback itself and by another thread. And a handle of another kind is nothing to retain, release and close.
#include "misuse.h"

struct hands {
  kvrt_runtime* runtime;
  kvrt_model* model;
  kvrt_store* store;
  kvrt_session* close;  // closed there, too
  int by_thread, calls;
};

static void* let_go(void* user) {
  struct hands* h = user;
  kvrt_session_close(h->close);
  kvrt_store_release(h->store);
  kvrt_model_release(h->model);
  kvrt_runtime_release(h->runtime);
  h->close = NULL, h->store = NULL, h->model = NULL, h->runtime = NULL;
  return NULL;
}

static int32_t in_callback(void* user, const kvrt_event* e) {
  struct hands* h = user;
  (void)e;
  if (h->calls++ != 0) return 0;
  pthread_t thread;
  if (!h->by_thread) {
    let_go(h);
  } else {
    pthread_create(&thread, NULL, let_go, h);
    pthread_join(thread, NULL);
  }
  return 0;
}

static void expect_let_go(const struct hands* h, const char* call) {
  EXPECT(h->calls != 0 && h->runtime == NULL, "%s: its callback was called %d times", call, h->calls);
}

static char tiny[kPathMax], dir[kPathMax], store_path[kPathMax + 32];

// Everything open once, with a saved session of some chunks in the store.
static struct hands open_all(int by_thread) {
  struct hands h = {.by_thread = by_thread};
  h.runtime = open_runtime(2, 0);
  h.model = open_model(h.runtime, tiny, 0, 16, 0);
  h.store = open_store(h.runtime, store_path);
  return h;
}

static kvrt_session* with_prompt(const struct hands* h) {
  int32_t tokens[80];
  prompt_tokens(tokens, 80, 3, model_props(h->model).vocab_size);
  kvrt_session* s = open_session(h->model, h->store, 1);
  MUST(kvrt_session_append(s, tokens, 80, NULL));
  return s;
}

static void save_one(void) {
  struct hands h = open_all(0);
  kvrt_session* s = with_prompt(&h);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_checkpoint(s, "kept", 4, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
  kvrt_session_close(s);
  let_go(&h);
}

static void stores(int by_thread) {
  struct hands h = open_all(by_thread);
  EXPECT_STATUS(kvrt_store_list(h.store, NULL, 0, in_callback, &h, NULL), KVRT_OK);
  expect_let_go(&h, "list");
  h = open_all(by_thread);
  EXPECT_STATUS(kvrt_store_verify(h.store, in_callback, &h, NULL), KVRT_OK);
  expect_let_go(&h, "verify");
  h = open_all(by_thread);
  kvrt_gc_report gc = {.struct_size = sizeof gc};
  EXPECT_STATUS(kvrt_store_gc(h.store, in_callback, &h, &gc, NULL), KVRT_OK);
  expect_let_go(&h, "gc");
  h = open_all(by_thread);
  kvrt_store_release(h.store);
  kvrt_model_release(h.model);
  h.store = NULL, h.model = NULL;
  kvrt_repair_report repair = {.struct_size = sizeof repair};
  EXPECT_STATUS(kvrt_store_repair(h.runtime, store_path, strlen(store_path), in_callback, &h, &repair, NULL), KVRT_OK);
  expect_let_go(&h, "repair");
  EXPECT(repair.outcome == KVRT_REPAIR_SOUND && repair.sessions_kept == 1, "outcome %u, %" PRIu64 " sessions", repair.outcome,
         repair.sessions_kept);
}

static void models(int by_thread) {
  struct hands h = open_all(by_thread);
  kvrt_model* model = NULL;
  EXPECT_STATUS(kvrt_model_open(h.runtime, tiny, strlen(tiny), NULL, in_callback, &h, &model, NULL), KVRT_OK);
  expect_let_go(&h, "model_open");
  EXPECT(model_props(model).has_weights, "a model without weights");
  kvrt_model_release(model);
  h = open_all(by_thread);
  kvrt_session* s = NULL;
  kvrt_report report = {.struct_size = sizeof report};
  EXPECT_STATUS(kvrt_session_resume(h.model, h.store, "kept", 4, NULL, in_callback, &h, &report, &s, NULL), KVRT_OK);
  expect_let_go(&h, "resume");
  EXPECT(report.reused_disk == 80, "%" PRIu64 " tokens from the disk", report.reused_disk);
  struct run r = {0};
  generate_into(s, 5, &r);
  EXPECT(r.count == 5, "%zu tokens", r.count);
  kvrt_session_close(s);
}

// The session keeps its model and store, in whatever order they are let go. Closed in its own callback it goes when the call returns.
static void sessions(int by_thread, int close) {
  for (int prefill = 0; prefill < 2; ++prefill) {
    struct hands h = open_all(by_thread);
    kvrt_session* s = with_prompt(&h);
    if (close) h.close = s;
    const kvrt_generate_options o = run_options(5);
    kvrt_report report = {.struct_size = sizeof report};
    const kvrt_status got = prefill ? kvrt_session_prefill(s, KVRT_LOGITS_LAST, in_callback, &h, &report, NULL)
                                    : kvrt_session_generate(s, &o, in_callback, &h, &report, NULL);
    EXPECT(got == (close ? KVRT_CANCELLED : KVRT_OK), "%s: %s (%s)", prefill ? "prefill" : "generate", kvrt_status_name(got),
           last_message());
    expect_let_go(&h, prefill ? "prefill" : "generate");
    if (close) continue;
    EXPECT_STATUS(
        kvrt_session_checkpoint(s, "later", 5, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL),
        KVRT_OK);
    kvrt_session_close(s);
    h = open_all(0);
    MUST(kvrt_store_remove(h.store, NULL, 0, "later", 5, NULL));
    let_go(&h);
  }
}

static void other_kinds(void) {
  struct hands h = open_all(0);
  kvrt_session* s = with_prompt(&h);
  kvrt_cancel* cancel = NULL;
  MUST(kvrt_cancel_open(&cancel, NULL));
  void* const all[] = {h.runtime, h.model, h.store, s, cancel};
  for (int i = 0; i < 5; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      if (i != 0) kvrt_runtime_retain(all[i]), kvrt_runtime_release(all[i]), kvrt_runtime_release(all[i]);
      if (i != 1) kvrt_model_retain(all[i]), kvrt_model_release(all[i]), kvrt_model_release(all[i]);
      if (i != 2) kvrt_store_retain(all[i]), kvrt_store_release(all[i]), kvrt_store_release(all[i]);
      if (i != 3) kvrt_session_close(all[i]);
      if (i != 4) kvrt_cancel_retain(all[i]), kvrt_cancel_release(all[i]), kvrt_cancel_release(all[i]), kvrt_cancel_fire(all[i]);
      EXPECT(i == 4 || kvrt_cancel_fired(all[i]) == 0, "kind %d was fired", i);
    }
  }
  kvrt_runtime_props p = {.struct_size = sizeof p};
  kvrt_store_props sp = {.struct_size = sizeof sp};
  EXPECT_STATUS(kvrt_runtime_info(h.runtime, &p, NULL), KVRT_OK);
  EXPECT_STATUS(kvrt_store_info(h.store, &sp, NULL), KVRT_OK);
  EXPECT(model_props(h.model).sessions == 1 && session_props(s).tokens == 80 && kvrt_cancel_fired(cancel) == 0,
         "what was passed as another kind");
  kvrt_cancel_release(cancel);
  kvrt_session_close(s);
  expect_no_leaks(h.model);
  let_go(&h);
}

int main(void) {
  make_dir(dir);
  tiny_path(tiny, 0);
  snprintf(store_path, sizeof store_path, "%s/store", dir);
  save_one();
  for (int by_thread = 0; by_thread < 2; ++by_thread) {
    stores(by_thread);
    models(by_thread);
    sessions(by_thread, 0);
  }
  sessions(0, 1);
  other_kinds();
  remove_tree(dir);
  return finish();
}
