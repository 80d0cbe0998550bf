// kvrt_cancel: it ends every generation that was begun with it, as kvrt_session_cancel ends one; fired before, it ends a begin at once; it
// may live longer than the generation, or shorter. And a user interface's thread ends a generation whose callback waits for that thread.
#include "misuse.h"

enum { kPrompt = 40, kLong = 400 };

static struct stage stage;
static int32_t prompt[kPrompt];
static struct run whole;  // the generation that nobody cancels

static kvrt_cancel* open_cancel(void) {
  kvrt_cancel* cancel = NULL;
  MUST(kvrt_cancel_open(&cancel, NULL));
  EXPECT(kvrt_cancel_fired(cancel) == 0, "fired when it was opened");
  return cancel;
}

static kvrt_session* prepared(kvrt_model* model) {
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  return s;
}

static kvrt_generate_options with_cancel(kvrt_cancel* cancel) {
  kvrt_generate_options o = run_options(kLong);
  o.cancel = cancel;
  return o;
}

// The session has its prompt and the first `given` tokens of the answer, and goes on as if nobody had cancelled.
static void expect_goes_on(kvrt_session* s, uint64_t given, const char* what) {
  int32_t tokens[kPrompt + kRunMax];
  size_t count = 0;
  MUST(kvrt_session_tokens(s, tokens, kPrompt + kRunMax, &count, NULL));
  EXPECT(count == kPrompt + given && session_props(s).state == KVRT_STATE_IDLE, "%s: %zu tokens, %" PRIu64 " given, state %u", what, count,
         given, session_props(s).state);
  EXPECT(memcmp(tokens, prompt, sizeof prompt) == 0 && memcmp(tokens + kPrompt, whole.token, given * sizeof *tokens) == 0, "%s: its tokens",
         what);
  struct run rest = {0};
  generate_into(s, 3, &rest);
  EXPECT(rest.count == 3 && memcmp(rest.token, whole.token + given, sizeof *rest.token * 3) == 0, "%s: what it gives next", what);
}

static void fired_before(void) {
  kvrt_cancel* cancel = open_cancel();
  kvrt_cancel_fire(cancel);
  kvrt_cancel_fire(cancel);
  EXPECT(kvrt_cancel_fired(cancel) == 1, "not fired");
  kvrt_generate_options o = with_cancel(cancel);
  const kvrt_metrics before = metrics_of(stage.model);
  for (int mode = 0; mode < 4; ++mode) {  // all_or_nothing, prefill
    o.all_or_nothing = mode & 1, o.prefill = mode >> 1;
    kvrt_session* s = prepared(stage.model);
    MUST(kvrt_session_begin(s, &o, NULL));
    const kvrt_event e = next_event(s, 0);
    EXPECT(e.type == KVRT_EVENT_DONE && e.reason == KVRT_REASON_CANCELLED && e.report->generated == 0 && e.report->prompt_tokens == kPrompt,
           "mode %d: event %u, reason %u", mode, e.type, e.reason);
    kvrt_report report = {.struct_size = sizeof report};
    struct run r = {0};
    EXPECT_STATUS(kvrt_session_generate(s, &o, run_callback, &r, &report, NULL), KVRT_CANCELLED);
    EXPECT(r.done && r.count == 0 && report.reason == KVRT_REASON_CANCELLED, "mode %d: %zu tokens, reason %u", mode, r.count,
           report.reason);
    EXPECT(metrics_of(stage.model).steps == before.steps, "mode %d: steps were computed", mode);
    kvrt_session_close(s);
  }
  EXPECT(metrics_of(stage.model).done_cancelled == before.done_cancelled + 8, "%" PRIu64 " cancelled",
         metrics_of(stage.model).done_cancelled - before.done_cancelled);
  kvrt_session* s = prepared(stage.model);
  EXPECT_STATUS(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), KVRT_CANCELLED);
  expect_goes_on(s, 0, "fired before");
  kvrt_session_close(s);
  kvrt_cancel_release(cancel);
}

// For the style of a loop: sessions of two models share one handle; `wake` tells each, once.
static void on_wake(void* user) { atomic_fetch_add((atomic_int*)user, 1); }

static void fires_all(void) {
  enum { kSessions = 6 };
  kvrt_model* const models[] = {stage.model, open_model(stage.runtime, stage.tiny, 0, 0, 0)};
  kvrt_cancel* cancel = open_cancel();
  kvrt_session* s[kSessions];
  atomic_int rings[kSessions] = {0};
  struct run r[kSessions];
  memset(r, 0, sizeof r);
  for (int i = 0; i < kSessions; ++i) {
    const kvrt_session_options so = {.struct_size = sizeof so, .no_prefix_cache = 1, .wake = on_wake, .wake_user = &rings[i]};
    MUST(kvrt_session_open(models[i % 2], &so, &s[i], NULL));
    MUST(kvrt_session_append(s[i], prompt, kPrompt, NULL));
    const kvrt_generate_options o = with_cancel(i < 4 ? cancel : NULL);
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  for (int step = 0; step < 8; ++step) {
    for (int m = 0; m < 2; ++m) MUST(kvrt_model_step(models[m], 0, NULL, NULL));
    for (int i = 0; i < kSessions; ++i) {
      for (kvrt_event e; take_event(s[i], &e);) run_event(&r[i], &e);
      atomic_store(&rings[i], 0);
    }
  }
  kvrt_cancel_fire(cancel);
  kvrt_cancel_release(cancel);  // the generations keep it
  for (int i = 0; i < kSessions; ++i) EXPECT(atomic_load(&rings[i]) == (i < 4), "session %d rang %d times", i, atomic_load(&rings[i]));
  for (int i = 0; i < kSessions; ++i) {
    for (kvrt_event e; take_event(s[i], &e);) run_event(&r[i], &e);
    EXPECT(r[i].done == (i < 4) && (!r[i].done || r[i].report.reason == KVRT_REASON_CANCELLED), "session %d: done %d", i, r[i].done);
    if (i < 4) expect_goes_on(s[i], r[i].count, "fired in a loop");
    kvrt_session_close(s[i]);
  }
  kvrt_model_release(models[1]);
}

// A fire ends a generation that is over but was not taken; one that was taken it leaves, and so the next one of that session.
static void fired_late(void) {
  kvrt_cancel* cancel = open_cancel();
  kvrt_generate_options o = with_cancel(cancel);
  o.max_tokens = 3;
  kvrt_session* s = prepared(stage.model);
  kvrt_session* taken = prepared(stage.model);
  struct run r = {0};
  MUST(kvrt_session_generate(taken, &o, run_callback, &r, NULL, NULL));
  MUST(kvrt_session_begin(s, &o, NULL));
  for (uint32_t left = 1; left != 0;) MUST(kvrt_model_step(stage.model, 0, &left, NULL));
  const kvrt_generate_options plain = run_options(3);
  MUST(kvrt_session_begin(taken, &plain, NULL));
  kvrt_cancel_fire(cancel);
  memset(&r, 0, sizeof r);
  drain(s, &r);
  EXPECT(r.report.reason == KVRT_REASON_CANCELLED && r.count == 3, "unread: reason %u, %zu tokens", r.report.reason, r.count);
  memset(&r, 0, sizeof r);
  drain(taken, &r);
  EXPECT(r.report.reason == KVRT_REASON_MAX_TOKENS && r.count == 3, "taken: reason %u, %zu tokens", r.report.reason, r.count);
  kvrt_session_close(s);
  kvrt_session_close(taken);
  kvrt_cancel_release(cancel);
}

// ---- other threads ------------------------------------------------------------------------------------------------------------------

struct worker {
  kvrt_session* s;
  kvrt_cancel* cancel;
  kvrt_status status;
  struct run run;
  atomic_int tokens;
  int fire_at;  // in the callback itself
};

static int32_t count_tokens(void* user, const kvrt_event* e) {
  struct worker* w = user;
  run_event(&w->run, e);
  if (e->type == KVRT_EVENT_TOKEN && atomic_fetch_add(&w->tokens, 1) + 1 == w->fire_at) kvrt_cancel_fire(w->cancel);
  return 0;
}

static void* work(void* user) {
  struct worker* w = user;
  const kvrt_generate_options o = with_cancel(w->cancel);
  w->status = kvrt_session_generate(w->s, &o, count_tokens, w, NULL, NULL);
  return NULL;
}

// All sleep in next but the one that computes; any thread may fire, and all are back.
static void threads(int in_callback) {
  enum { kWorkers = 4 };
  static struct worker w[kWorkers];
  memset(w, 0, sizeof w);
  kvrt_cancel* cancel = open_cancel();
  pthread_t thread[kWorkers];
  for (int i = 0; i < kWorkers; ++i) {
    w[i].s = prepared(stage.model), w[i].cancel = cancel, w[i].fire_at = in_callback && i == 1 ? 5 : 0;
    pthread_create(&thread[i], NULL, work, &w[i]);
  }
  if (!in_callback) {
    while (atomic_load(&w[0].tokens) < 3) usleep(100);
    kvrt_cancel_fire(cancel);
  }
  for (int i = 0; i < kWorkers; ++i) {
    pthread_join(thread[i], NULL);
    EXPECT(w[i].status == KVRT_CANCELLED || (w[i].run.report.reason == KVRT_REASON_MAX_TOKENS && w[i].run.count == kLong), "worker %d: %s",
           i, kvrt_status_name(w[i].status));
    if (w[i].status == KVRT_CANCELLED) expect_goes_on(w[i].s, w[i].run.count, "fired by a thread");
    kvrt_session_close(w[i].s);
  }
  EXPECT(!in_callback || (w[1].status == KVRT_CANCELLED && w[1].run.count >= 5), "%zu tokens, fired at 5", w[1].run.count);
  kvrt_cancel_release(cancel);
}

static void* fire_thread(void* user) {
  kvrt_cancel_fire(user);
  kvrt_cancel_release(user);
  return NULL;
}

// Runtime, model, session and handle go in every order while another thread fires: nobody waits for ever, nothing is used after its end.
static void any_order(void) {
  for (int round = 0; round < 48; ++round) {
    kvrt_runtime* rt = open_runtime(1, 0);
    kvrt_model* model = open_model(rt, stage.tiny, 0, 0, 0);
    kvrt_session* s = prepared(model);
    kvrt_cancel* cancel = open_cancel();
    kvrt_cancel_retain(cancel);
    kvrt_generate_options o = with_cancel(cancel);
    o.max_tokens = 4;
    pthread_t thread;
    if (round % 2) pthread_create(&thread, NULL, fire_thread, cancel);
    MUST(kvrt_session_begin(s, &o, NULL));
    if (round % 2 == 0) pthread_create(&thread, NULL, fire_thread, cancel);
    if (round % 3 == 0) {
      struct run r = {0};
      drain(s, &r);
      EXPECT(r.report.reason == KVRT_REASON_CANCELLED || r.report.reason == KVRT_REASON_MAX_TOKENS, "reason %u", r.report.reason);
    }
    int left[4] = {0, 1, 2, 3}, n = 4;
    for (int code = round / 2; n > 0; code /= n + 1) {
      const int pick = code % n, which = left[pick];
      left[pick] = left[--n];
      if (which == 0) kvrt_runtime_release(rt);
      if (which == 1) kvrt_model_release(model);
      if (which == 2) kvrt_session_close(s);
      if (which == 3) kvrt_cancel_release(cancel);
    }
    pthread_join(thread, NULL);
  }
}

// ---- a user interface ---------------------------------------------------------------------------------------------------------------

// One thread has a queue of one post. The worker's callback posts its token and waits until it was shown.
struct interface {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  int posted, shown, closed;
  kvrt_cancel* cancel;
  kvrt_status status;
};

static int32_t post_and_wait(void* user, const kvrt_event* e) {
  struct interface* ui = user;
  if (e->type != KVRT_EVENT_TOKEN) return 0;
  pthread_mutex_lock(&ui->mu);
  const int mine = ++ui->posted;
  pthread_cond_broadcast(&ui->changed);
  while (ui->shown < mine) pthread_cond_wait(&ui->changed, &ui->mu);
  pthread_mutex_unlock(&ui->mu);
  return 0;
}

// The thread that makes the call closes the session when the call is back.
static void* interface_worker(void* user) {
  struct interface* ui = user;
  kvrt_session* s = prepared(stage.model);
  const kvrt_generate_options o = with_cancel(ui->cancel);
  const kvrt_status status = kvrt_session_generate(s, &o, post_and_wait, ui, NULL, NULL);
  kvrt_session_close(s);
  pthread_mutex_lock(&ui->mu);
  ui->status = status, ui->closed = 1;
  pthread_cond_broadcast(&ui->changed);
  pthread_mutex_unlock(&ui->mu);
  return NULL;
}

static void closed_by_an_interface(void) {
  struct interface ui = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .cancel = open_cancel()};
  pthread_t thread;
  pthread_create(&thread, NULL, interface_worker, &ui);
  pthread_mutex_lock(&ui.mu);
  while (!ui.closed) {  // the loop of the interface
    while (ui.posted == ui.shown && !ui.closed) pthread_cond_wait(&ui.changed, &ui.mu);
    if (ui.shown == 3) kvrt_cancel_fire(ui.cancel);  // its user closed the window, while the worker waits for this very thread
    ui.shown = ui.posted;
    pthread_cond_broadcast(&ui.changed);
  }
  pthread_mutex_unlock(&ui.mu);
  pthread_join(thread, NULL);
  EXPECT(ui.status == KVRT_CANCELLED && ui.shown >= 4 && ui.shown <= 6, "%s after %d tokens", kvrt_status_name(ui.status), ui.shown);
  kvrt_cancel_release(ui.cancel);
}

static void arguments(void) {
  kvrt_session* s = prepared(stage.model);
  kvrt_cancel* cancel = open_cancel();
  kvrt_generate_options o = with_cancel((kvrt_cancel*)s);
  BAD("session_begin", "cancel is a session", kvrt_session_begin(s, &o, NULL));
  o = with_cancel(cancel);
  o.struct_size = (uint32_t)offsetof(kvrt_generate_options, cancel);  // an older header
  o.max_tokens = 2;
  kvrt_cancel_fire(cancel);
  EXPECT_STATUS(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), KVRT_OK);
  kvrt_cancel_retain(cancel);
  kvrt_cancel_release(cancel);
  EXPECT(kvrt_cancel_fired(cancel) == 1, "retained, then released once");
  kvrt_cancel_release(cancel);
  kvrt_session_close(s);
}

int main(void) {
  alarm(200);
  stage_open(&stage);
  prompt_tokens(prompt, kPrompt, 11, stage.vocab);
  kvrt_session* s = prepared(stage.model);
  generate_into(s, kLong + 8, &whole);
  kvrt_session_close(s);
  REQUIRE(whole.count == kLong + 8, "%zu tokens of %d: the model's context is %u", whole.count, kLong + 8, stage.context);
  fired_before();
  fires_all();
  fired_late();
  threads(0);
  threads(1);
  any_order();
  closed_by_an_interface();
  arguments();
  stage_close(&stage);
  return finish();
}
