// One session, one call at a time: from a second thread and from inside a callback everything but cancel, accept,
// checkpoint and the calls that only read is BUSY; other sessions may be used.
#include "misuse.h"

struct inside {
  struct stage* t;
  kvrt_session *self, *other;
  int calls, stop_after;
  atomic_int entered, leave;  // for the second thread
};

static void expect_busy(struct inside* in, int32_t detail) {
  const int32_t token = 1;
  kvrt_session* out = NULL;
  kvrt_event e = {.struct_size = sizeof e};
  const char* message = "{\"role\":\"user\",\"content\":\"hi\"}";
  const char* where = detail == KVRT_DETAIL_REENTRANT ? "inside its own callback" : "from a second thread";
#define REFUSED(name, call)                                                               \
  do {                                                                                    \
    ROW(name, where, call, ANY(KVRT_BUSY));                                               \
    EXPECT(last_detail() == detail, "%s %s: detail %d", name, where, (int)last_detail()); \
  } while (0)
  REFUSED("session_append", kvrt_session_append(in->self, &token, 1, NULL));
  REFUSED("session_append_text", kvrt_session_append_text(in->self, "a", 1, 0, NULL));
  REFUSED("session_append_message", kvrt_session_append_message(in->self, message, strlen(message), NULL, NULL));
  REFUSED("session_prefill", kvrt_session_prefill(in->self, 0, NULL, NULL, NULL, NULL));
  REFUSED("session_begin", kvrt_session_begin(in->self, NULL, NULL));
  REFUSED("session_next", kvrt_session_next(in->self, &e, 0, NULL));
  REFUSED("session_generate", kvrt_session_generate(in->self, NULL, NULL, NULL, NULL, NULL));
  REFUSED("session_fork", kvrt_session_fork(in->self, NULL, &out, NULL));
  REFUSED("session_set_messages", kvrt_session_set_messages(in->self, "[]", 2, NULL, NULL));
  REFUSED("session_erase", kvrt_session_erase(in->self, 0, 1, NULL));
  REFUSED("session_mark", kvrt_session_mark(in->self, 1, NULL));
  REFUSED("session_truncate", kvrt_session_truncate(in->self, 1, NULL));
  REFUSED("session_suspend", kvrt_session_suspend(in->self, "x", 1, NULL, NULL, NULL));
#undef REFUSED
  kvrt_session_props p = {.struct_size = sizeof p};
  ROW("session_checkpoint", where, kvrt_session_checkpoint(in->self, "beside", 6, NULL, NULL, NULL), ANY(KVRT_OK));
  EXPECT_STATUS(kvrt_session_info(in->self, &p, NULL), KVRT_OK);
  EXPECT(p.revision > 0 && strcmp(p.name, "beside") == 0, "revision %" PRIu64, p.revision);
  EXPECT(p.state == KVRT_STATE_GENERATING, "state %u", p.state);
  int32_t tokens[64];  // a const handle: as free as info
  size_t needed = 0;
  EXPECT_STATUS(kvrt_session_tokens(in->self, tokens, 64, &needed, NULL), KVRT_OK);
  EXPECT(needed >= 20, "%zu tokens", needed);
  char text[1024];
  EXPECT_STATUS(kvrt_session_text(in->self, 0, 20, KVRT_TEXT_SPECIAL, text, sizeof text, &needed, NULL), KVRT_OK);
  EXPECT_STATUS(kvrt_session_message(in->self, 0, NULL, text, sizeof text, &needed, NULL), KVRT_NOT_FOUND);  // it has none
  ROW("session_accept", where, kvrt_session_accept(in->self, 1, NULL), ANY(KVRT_INVALID));                   // and asks for none
}

static int32_t reenter(void* user, const kvrt_event* e) {
  struct inside* in = user;
  if (e->type != KVRT_EVENT_TOKEN || in->calls++ != 1) return 0;
  expect_busy(in, KVRT_DETAIL_REENTRANT);
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 4, .ignore_eos = 1};
  EXPECT_STATUS(kvrt_session_generate(in->other, &o, NULL, NULL, NULL, NULL), KVRT_OK);  // another session of the same model
  kvrt_model_props mp = {.struct_size = sizeof mp};
  EXPECT_STATUS(kvrt_model_info(in->t->model, &mp, NULL), KVRT_OK);
  kvrt_session* made = NULL;
  EXPECT_STATUS(kvrt_session_open(in->t->model, NULL, &made, NULL), KVRT_OK);
  kvrt_session_close(made);
  uint32_t runnable = 77;  // the model and the runtime are everybody's
  kvrt_metrics m = {.struct_size = sizeof m};
  EXPECT_STATUS(kvrt_model_metrics(in->t->model, &m, NULL), KVRT_OK);
  EXPECT(m.generating == 1, "%" PRIu64 " generate", m.generating);
  EXPECT_STATUS(kvrt_runtime_set_threads(in->t->runtime, 2, NULL), KVRT_OK);
  EXPECT_STATUS(kvrt_model_step(in->t->model, 0, &runnable, NULL), KVRT_OK);
  EXPECT(runnable <= 1, "%u runnable", runnable);
  EXPECT_STATUS(kvrt_runtime_set_threads(in->t->runtime, 1, NULL), KVRT_OK);
  return 0;
}

static int32_t cancel_inside(void* user, const kvrt_event* e) {
  struct inside* in = user;
  if (e->type == KVRT_EVENT_TOKEN && ++in->calls == 3) EXPECT_STATUS(kvrt_session_cancel(in->self, NULL), KVRT_OK);
  return 0;
}

static int32_t stop_inside(void* user, const kvrt_event* e) {
  struct inside* in = user;
  return e->type == KVRT_EVENT_TOKEN && ++in->calls == in->stop_after ? -5 : 0;
}

static int32_t hold(void* user, const kvrt_event* e) {
  struct inside* in = user;
  (void)e;
  atomic_store(&in->entered, 1);
  for (int i = 0; i < 120000 && !atomic_load(&in->leave); ++i) usleep(1000);
  return 0;
}

static void* generate_thread(void* user) {
  struct inside* in = user;
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 6, .ignore_eos = 1};
  EXPECT_STATUS(kvrt_session_generate(in->self, &o, hold, in, NULL, NULL), KVRT_OK);
  return NULL;
}

static void from_callback(struct stage* t) {
  struct inside in = {.t = t, .self = t->session, .other = open_session(t->model, NULL, 0)};
  const int32_t tokens[] = {9, 8, 7};
  MUST(kvrt_session_append(in.other, tokens, 3, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 6, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  EXPECT_STATUS(kvrt_session_generate(t->session, &o, reenter, &in, &report, NULL), KVRT_OK);
  EXPECT(in.calls == 6 && report.generated == 6, "%d tokens", in.calls);
  o.max_tokens = 50;
  in.calls = 0;
  const kvrt_status cancelled = kvrt_session_generate(t->session, &o, cancel_inside, &in, &report, NULL);
  ROW("session_cancel", "inside the callback", cancelled, ANY(KVRT_CANCELLED));
  EXPECT(in.calls >= 3 && in.calls <= 5, "%d tokens after cancel", in.calls);
  const uint64_t before = session_props(t->session).tokens;
  in.calls = 0, in.stop_after = 3;
  ROW("session_generate", "the callback stops", kvrt_session_generate(t->session, &o, stop_inside, &in, NULL, NULL), ANY(KVRT_CANCELLED));
  EXPECT(in.calls == 3 && session_props(t->session).tokens >= before + 3 && session_props(t->session).tokens <= before + 5,
         "%d calls, %" PRIu64 " tokens", in.calls, session_props(t->session).tokens - before);
  EXPECT(session_props(t->session).state == KVRT_STATE_IDLE, "state %u", session_props(t->session).state);
  kvrt_session_close(in.other);
}

static void from_thread(struct stage* t) {
  struct inside in = {.t = t, .self = t->session};
  pthread_t thread;
  pthread_create(&thread, NULL, generate_thread, &in);
  while (!atomic_load(&in.entered)) usleep(200);
  expect_busy(&in, KVRT_DETAIL_CONCURRENT);
  kvrt_session* other = open_session(t->model, NULL, 0);  // the model goes on: no lock is held in a callback
  const int32_t tokens[] = {9, 8, 7};
  MUST(kvrt_session_append(other, tokens, 3, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 8, .ignore_eos = 1};
  EXPECT_STATUS(kvrt_session_generate(other, &o, NULL, NULL, NULL, NULL), KVRT_OK);
  kvrt_session_close(other);
  atomic_store(&in.leave, 1);
  pthread_join(thread, NULL);
}

static atomic_int long_status, long_running;

static int32_t note_running(void* user, const kvrt_event* e) {
  (void)user;
  if (e->type == KVRT_EVENT_TOKEN) atomic_store(&long_running, 1);
  return 0;
}

static void* long_thread(void* user) {
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1};
  atomic_store(&long_status, kvrt_session_generate(user, &o, note_running, NULL, NULL, NULL));
  return NULL;
}

// cancel and close of a session that another thread is inside.
static void interrupt(struct stage* t, int close) {
  kvrt_session* s = open_session(t->model, NULL, 1);
  const int32_t tokens[] = {9, 8, 7};
  MUST(kvrt_session_append(s, tokens, 3, NULL));
  atomic_store(&long_status, -1);
  atomic_store(&long_running, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, long_thread, s);
  while (!atomic_load(&long_running)) usleep(100);
  const double start = now_ms();
  if (close) {
    kvrt_session_close(s);
  } else {
    EXPECT_STATUS(kvrt_session_cancel(s, NULL), KVRT_OK);
  }
  pthread_join(thread, NULL);
  EXPECT(now_ms() - start < 20000, "took %.0f ms", now_ms() - start);
  const kvrt_status status = atomic_load(&long_status);  // OK: the context was full before
  EXPECT(status == KVRT_CANCELLED || status == KVRT_OK, "%s of a generate of another thread: it gave %s", close ? "close" : "cancel",
         kvrt_status_name(status));
  if (!close) kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  from_callback(&t);
  from_thread(&t);
  interrupt(&t, 0);
  interrupt(&t, 1);
  stage_close(&t);
  return finish();
}
