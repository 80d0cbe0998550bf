// wake: once for each time that the first unread event arrives; its argument is freed once. And next's timeouts: 0 never computes,
// and a wait ends in time while another thread's step is long.
#include "misuse.h"

struct bell {
  atomic_int rings, frees, in_ring;
  int free_seen_in_ring;
};

static void on_wake(void* user) {
  struct bell* b = user;
  atomic_fetch_add(&b->in_ring, 1);
  atomic_fetch_add(&b->rings, 1);
  EXPECT(atomic_load(&b->frees) == 0, "wake after its user was freed");
  atomic_fetch_sub(&b->in_ring, 1);
}

static void on_free(void* user) {
  struct bell* b = user;
  EXPECT(atomic_load(&b->in_ring) == 0, "freed inside wake");
  atomic_fetch_add(&b->frees, 1);
}

static kvrt_session_options with_bell(struct bell* b, kvrt_store* store) {
  return (kvrt_session_options){
      .struct_size = sizeof(kvrt_session_options), .store = store, .wake = on_wake, .wake_user = b, .wake_user_free = on_free};
}

static kvrt_session* open_with(struct stage* t, struct bell* b) {
  const kvrt_session_options o = with_bell(b, t->store);
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, &o, &s, NULL));
  int32_t tokens[60];
  prompt_tokens(tokens, 60, 8, t->vocab);
  MUST(kvrt_session_append(s, tokens, 60, NULL));
  return s;
}

static void expect_bell(struct bell* b, int rings, int frees, const char* what) {
  EXPECT(atomic_load(&b->rings) == rings && atomic_load(&b->frees) == frees, "%s: %d rings, expected %d; %d frees, expected %d", what,
         atomic_load(&b->rings), rings, atomic_load(&b->frees), frees);
}

// A host that empties the mailbox after each step is told as often as it was empty before one came; a host that does not is told once.
static void empty_to_not(struct stage* t) {
  struct bell b = {0}, lazy = {0};
  kvrt_session* s = open_with(t, &b);
  kvrt_session* unread = open_with(t, &lazy);
  const kvrt_generate_options o = run_options(10);
  MUST(kvrt_session_begin(s, &o, NULL));
  MUST(kvrt_session_begin(unread, &o, NULL));
  expect_bell(&b, 0, 0, "begin");
  int rings = 0, done = 0;
  for (int step = 0; step < 100 && !done; ++step) {
    MUST(kvrt_model_step(t->model, 0, NULL, NULL));
    rings += session_props(s).events_unread != 0;
    expect_bell(&b, rings, 0, "a step");
    for (kvrt_event e; take_event(s, &e);) done |= e.type == KVRT_EVENT_DONE;
    expect_bell(&b, rings, 0, "next");
  }
  EXPECT(done && rings >= 10, "done %d after %d rings", done, rings);
  for (uint32_t left = 1; left != 0;) MUST(kvrt_model_step(t->model, 0, &left, NULL));  // the other may be a step behind
  expect_bell(&lazy, 1, 0, "nobody read");
  struct run r = {0};
  drain(unread, &r);
  expect_bell(&lazy, 1, 0, "all was there");
  EXPECT(r.count == 10, "%zu tokens", r.count);
  // Partly read is not empty.
  MUST(kvrt_session_begin(unread, &o, NULL));
  for (int i = 0; i < 4; ++i) MUST(kvrt_model_step(t->model, 0, NULL, NULL));
  const int before = atomic_load(&lazy.rings);
  EXPECT(session_props(unread).events_unread > 1, "%" PRIu64 " unread", session_props(unread).events_unread);
  (void)next_event(unread, 0);
  MUST(kvrt_model_step(t->model, 0, NULL, NULL));
  expect_bell(&lazy, before, 0, "partly read");
  kvrt_session_close(unread);  // in the middle of a generation
  expect_bell(&lazy, before, 1, "close");
  kvrt_session_close(s);
  expect_bell(&b, rings, 1, "close");
}

// cancel and accept give events too, and so do failures; prefill and generate take theirs themselves.
static void other_events(struct stage* t) {
  struct bell b = {0};
  kvrt_session* s = open_with(t, &b);
  kvrt_generate_options o = run_options(5);
  MUST(kvrt_session_begin(s, &o, NULL));
  MUST(kvrt_session_cancel(s, NULL));
  expect_bell(&b, 1, 0, "cancel");
  struct run r = {0};
  drain(s, &r);
  EXPECT(r.report.reason == KVRT_REASON_CANCELLED, "reason %u", r.report.reason);
  o.sampler = KVRT_SAMPLER_HOST, o.max_tokens = 1;
  MUST(kvrt_session_begin(s, &o, NULL));
  for (kvrt_event e = {.struct_size = sizeof e}; e.type != KVRT_EVENT_LOGITS; e = next_event(s, -1)) {
  }
  const int before = atomic_load(&b.rings);
  MUST(kvrt_session_accept(s, 5, NULL));
  expect_bell(&b, before + 1, 0, "accept");
  kvrt_session_close(s);
  expect_bell(&b, before + 1, 1, "close after accept");
  kvrt_model* poisoned = nan_model(t);
  struct bell f = {0};
  const kvrt_session_options so = with_bell(&f, NULL);
  MUST(kvrt_session_open(poisoned, &so, &s, NULL));
  MUST(kvrt_session_append(s, &(const int32_t){5}, 1, NULL));
  const kvrt_generate_options plain = run_options(5);
  MUST(kvrt_session_begin(s, &plain, NULL));
  MUST(kvrt_model_step(poisoned, 0, NULL, NULL));
  expect_bell(&f, 1, 0, "a failure");
  kvrt_session_close(s);
  expect_bell(&f, 1, 1, "close of a failed one");
  kvrt_model_release(poisoned);
}

// The owner of a bell frees it: forks and resumed sessions have a bell of their own or none; a call that fails never frees.
static void lifetimes(struct stage* t) {
  struct bell b = {0}, of_fork = {0}, of_resume = {0}, failed = {0};
  kvrt_session* s = open_with(t, &b);
  kvrt_session *silent = NULL, *fork = NULL, *back = NULL, *none = NULL;
  const kvrt_session_options fo = with_bell(&of_fork, NULL), ro = with_bell(&of_resume, NULL);
  MUST(kvrt_session_fork(s, NULL, &silent, NULL));
  MUST(kvrt_session_fork(s, &fo, &fork, NULL));
  MUST(kvrt_session_checkpoint(s, "wake", 4, NULL, NULL, NULL));
  MUST(kvrt_session_resume(t->model, t->store, "wake", 4, &ro, NULL, NULL, NULL, &back, NULL));
  kvrt_session* const each[] = {silent, fork, back};
  for (int i = 0; i < 3; ++i) {
    const kvrt_generate_options o = run_options(3);
    MUST(kvrt_session_begin(each[i], &o, NULL));
    for (uint32_t left = 1; left != 0;) MUST(kvrt_model_step(t->model, 20, &left, NULL));
  }
  expect_bell(&b, 0, 0, "the original");
  expect_bell(&of_fork, 1, 0, "the fork");
  expect_bell(&of_resume, 1, 0, "the resumed one");
  kvrt_session_close(s);
  expect_bell(&b, 0, 1, "close of the original");
  kvrt_session_close(silent);
  kvrt_session_close(fork);
  kvrt_session_close(back);
  expect_bell(&of_fork, 1, 1, "close of the fork");
  expect_bell(&of_resume, 1, 1, "close of the resumed one");
  // The argument is freed, whether there is a wake to call or not.
  struct bell mute = {0};
  kvrt_session_options mo = with_bell(&mute, t->store);
  mo.wake = NULL;
  MUST(kvrt_session_open(t->model, &mo, &s, NULL));
  MUST(kvrt_session_append(s, &(const int32_t){5}, 1, NULL));
  MUST(kvrt_session_fork(s, &mo, &fork, NULL));
  MUST(kvrt_session_resume(t->model, t->store, "wake", 4, &mo, NULL, NULL, NULL, &back, NULL));
  kvrt_session* const mutes[] = {s, fork, back};
  for (int i = 0; i < 3; ++i) {
    struct run r = {0};
    generate_into(mutes[i], 3, &r);
    expect_bell(&mute, 0, i, "without wake");
    kvrt_session_close(mutes[i]);
    expect_bell(&mute, 0, i + 1, "close without wake");
  }
  kvrt_session_options bad = with_bell(&failed, t->store);
  bad.no_prefix_cache = 7;
  BAD("session_open", "no_prefix_cache 7, with wake", kvrt_session_open(t->model, &bad, &none, NULL));
  bad = with_bell(&failed, t->store);
  bad.tools = "{", bad.tools_size = 1;
  BAD("session_open", "bad tools, with wake", kvrt_session_open(t->model, &bad, &none, NULL));
  bad = with_bell(&failed, NULL);
  ROW("session_resume", "no such session, with wake", kvrt_session_resume(t->model, t->store, "no", 2, &bad, NULL, NULL, NULL, &none, NULL),
      ANY(KVRT_NOT_FOUND));
  kvrt_session* busy = open_session(t->model, NULL, 0);
  MUST(kvrt_session_append(busy, &(const int32_t){5}, 1, NULL));
  MUST(kvrt_session_begin(busy, NULL, NULL));
  ROW("session_fork", "a generating session, with wake", kvrt_session_fork(busy, &bad, &none, NULL), ANY(KVRT_BUSY));
  kvrt_session_close(busy);
  bad.wake = NULL, bad.no_prefix_cache = 7;
  BAD("session_open", "no_prefix_cache 7, with wake_user_free alone", kvrt_session_open(t->model, &bad, &none, NULL));
  expect_bell(&failed, 0, 0, "failed calls");
}

// A host's free waits for a thread of its own that asks the model something: the model must not be locked meanwhile.
struct asked {
  struct stage* t;
  pthread_t thread;
  atomic_int answered;
};

static void* ask(void* user) {
  struct asked* a = user;
  (void)model_props(a->t->model);
  atomic_store(&a->answered, 1);
  return NULL;
}

static void free_that_waits(void* user) {
  struct asked* a = user;
  pthread_create(&a->thread, NULL, ask, a);
  for (int ms = 0; ms < 10000 && !atomic_load(&a->answered); ++ms) usleep(1000);
  EXPECT(atomic_load(&a->answered), "the model was locked while close freed the user data of wake");
}

static void close_holds_no_lock(struct stage* t) {
  struct asked a = {.t = t};
  const kvrt_session_options o = {.struct_size = sizeof o, .wake_user = &a, .wake_user_free = free_that_waits};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, &o, &s, NULL));
  kvrt_session_close(s);
  pthread_join(a.thread, NULL);
}

// ---- timeouts of next ---------------------------------------------------------------------------------------------------------------

static void zero_never_computes(struct stage* t) {
  kvrt_session* s = open_session(t->model, NULL, 0);
  MUST(kvrt_session_append(s, &(const int32_t){5}, 1, NULL));
  const kvrt_generate_options o = run_options(3);
  MUST(kvrt_session_begin(s, &o, NULL));
  const uint64_t steps = metrics_of(t->model).steps;
  for (int i = 0; i < 1000; ++i) EXPECT(next_event(s, 0).type == KVRT_EVENT_NONE, "an event without compute");
  EXPECT(metrics_of(t->model).steps == steps, "next with timeout 0 ran %" PRIu64 " steps", metrics_of(t->model).steps - steps);
  EXPECT(next_event(s, 1).type != KVRT_EVENT_NONE && metrics_of(t->model).steps > steps, "a timeout bounds the wait, not the step");
  kvrt_session_close(s);
}

static atomic_int in_step, slow_done;

static void* slow_thread(void* user) {
  atomic_store(&in_step, 1);
  MUST(kvrt_session_prefill(user, 0, NULL, NULL, NULL, NULL));
  atomic_store(&slow_done, 1);
  return NULL;
}

struct waits {
  int none, in_time, events;
};

// Prompt steps of the real model with no bound of time, while this thread reads another session of it.
static void read_while_it_computes(kvrt_model* model, kvrt_session* s, uint64_t seed, struct waits* w) {
  enum { kSlow = 360 };
  int32_t tokens[kSlow];
  prompt_tokens(tokens, kSlow, seed, model_props(model).vocab_size);
  kvrt_session* slow = open_session(model, NULL, 1);
  MUST(kvrt_session_append(slow, tokens, kSlow, NULL));
  pthread_t thread;
  atomic_store(&in_step, 0);
  atomic_store(&slow_done, 0);
  pthread_create(&thread, NULL, slow_thread, slow);
  while (!atomic_load(&in_step)) usleep(100);
  while (!atomic_load(&slow_done)) {
    const uint64_t steps = metrics_of(model).steps;
    const double start = now_ms();
    const kvrt_event e = next_event(s, 20);
    const double took = now_ms() - start;
    if (e.type == KVRT_EVENT_NONE) {
      ++w->none;
      EXPECT(took >= 19, "NONE after %.1f ms of 20", took);
      w->in_time += took < 40 && metrics_of(model).steps == steps;
    } else {
      ++w->events;
    }
  }
  pthread_join(thread, NULL);
  kvrt_session_close(slow);
}

static void while_another_computes(const char* path) {
  kvrt_runtime* rt = open_runtime(1, 0);
  const kvrt_model_options mo = {.struct_size = sizeof mo, .step_ms_max = 60000};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &mo, NULL, NULL, &model, NULL));
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, &(const int32_t){3}, 1, NULL));
  MUST(kvrt_session_begin(s, &(kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .ignore_eos = 1}, NULL));
  struct waits w = {0};
  // If this thread came to the prompt first, it has computed the prompt itself: then once more.
  for (uint64_t attempt = 0; attempt < 20 && w.none == 0; ++attempt) read_while_it_computes(model, s, 3 + attempt, &w);
  printf("%d waits of 20 ms gave nothing, %d within 40 ms and one step; %d events; the longest step %.0f ms\n", w.none, w.in_time, w.events,
         metrics_of(model).step_ms_longest);
  EXPECT(w.none > 0 && 2 * w.in_time > w.none, "%d of %d waits in time", w.in_time, w.none);  // the machine may be busy with others
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "real") == 0) {
    char path[kPathMax];
    if (!find_real(path)) return kSkip;
    while_another_computes(path);
    return finish();
  }
  struct stage t;
  stage_open(&t);
  empty_to_not(&t);
  other_events(&t);
  lifetimes(&t);
  close_holds_no_lock(&t);
  zero_never_computes(&t);
  stage_close(&t);
  return finish();
}
