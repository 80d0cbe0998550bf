// cancel at every step of a prefill and of a decode, by the caller, from a callback and from another thread: the call is back within one
// step, the session's next digest is right, its neighbour does not notice, and all_or_nothing leaves the state before the call.
#include <math.h>
#include <stdbool.h>

#include "chat.h"
#include "misuse.h"

enum { kPrompt = 90, kChunk = 8, kAnswer = 12, kStepsMax = 60 };

static kvrt_model *model, *reference;
static int32_t prompt[kPrompt];
static uint64_t rounds;

struct before {
  size_t count;
  int32_t tokens[1024];
  char messages[4096];
};

static void remember(kvrt_session* s, struct before* b) {
  b->count = session_tokens(s, b->tokens, 1024);
  all_messages(s, b->messages, sizeof b->messages);
}

static void expect_as_before(kvrt_session* s, const struct before* b, const char* what) {
  static struct before now;
  remember(s, &now);
  EXPECT(now.count == b->count && memcmp(now.tokens, b->tokens, b->count * sizeof *b->tokens) == 0, "%s: %zu tokens, before %zu", what,
         now.count, b->count);
  EXPECT(strcmp(now.messages, b->messages) == 0, "%s: messages %s, before %s", what, now.messages, b->messages);
}

// A prompt of tokens, or of messages, where begin opens the assistant's turn.
static kvrt_session* prepared(int messages, int no_cache) {
  kvrt_session* s = open_session(model, NULL, (uint32_t)no_cache);
  if (messages) {
    say(s, "system", "You answer in a few words, and you never say anything that you do not know.", NULL);
    say(s, "user", "What is the name of the sea between two lands?", NULL);
  } else {
    MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  }
  return s;
}

static kvrt_generate_options answer_options(int all) {
  kvrt_generate_options o = run_options(kAnswer);
  o.all_or_nothing = (uint32_t)all;
  return o;
}

static void never_cancelled(int messages, struct run* want) {
  kvrt_session* s = prepared(messages, 1);
  generate_into(s, kAnswer, want);
  kvrt_session_close(s);
}

// Cancels after `steps` steps, with a neighbour that generates on. 0: the generation was over before.
static int by_caller(int messages, int all, int steps) {
  static struct run want[2], neighbour_want;
  static int filled[2], neighbour_filled;
  char what[96];
  snprintf(what, sizeof what, "%s, all_or_nothing %d, cancelled after %d steps", messages ? "messages" : "tokens", all, steps);
  if (!filled[messages]++) never_cancelled(messages, &want[messages]);
  const int32_t other[] = {7, 8, 9, 10, 11};
  kvrt_session* neighbour = open_session(model, NULL, 1);
  MUST(kvrt_session_append(neighbour, other, 5, NULL));
  if (!neighbour_filled++) {
    kvrt_session* alone = open_session(reference, NULL, 1);
    MUST(kvrt_session_append(alone, other, 5, NULL));
    generate_into(alone, kAnswer, &neighbour_want);
    kvrt_session_close(alone);
  }
  kvrt_session* s = prepared(messages, 1);
  struct before before;
  remember(s, &before);
  kvrt_generate_options o = answer_options(all), plain = run_options(kAnswer);
  struct run got = {0}, beside = {0};
  MUST(kvrt_session_begin(neighbour, &plain, NULL));
  MUST(kvrt_session_begin(s, &o, NULL));
  for (int i = 0; i < steps; ++i) MUST(kvrt_model_step(model, 0, NULL, NULL));
  for (kvrt_event e; take_event(s, &e);) run_event(&got, &e);
  const int over = got.done;
  const uint64_t at_cancel = metrics_of(model).steps;
  MUST(kvrt_session_cancel(s, NULL));
  drain(s, &got);
  EXPECT(metrics_of(model).steps <= at_cancel + 1, "%s: %" PRIu64 " steps more", what, metrics_of(model).steps - at_cancel);
  if (over) {
    EXPECT(got.report.reason == KVRT_REASON_MAX_TOKENS && same_run(&got, &want[messages]), "%s: the end", what);
  } else {
    EXPECT(got.report.reason == KVRT_REASON_CANCELLED && got.report.generated == got.count, "%s: reason %u", what, got.report.reason);
    EXPECT(memcmp(got.token, want[messages].token, got.count * sizeof *got.token) == 0, "%s: other tokens before the cancel", what);
    if (all) expect_as_before(s, &before, what);
    if (!all && got.count == 0) EXPECT(session_props(s).tokens >= before.count, "%s: tokens are gone", what);
    if (all) {  // again, as if it had never been
      struct run again = {0};
      MUST(kvrt_session_begin(s, &o, NULL));
      drain(s, &again);
      EXPECT(same_run(&again, &want[messages]), "%s: the second try differs", what);
    }
  }
  expect_sound(s, reference, what);
  drain(neighbour, &beside);
  EXPECT(same_run(&beside, &neighbour_want), "%s: the neighbour noticed", what);
  kvrt_session_close(neighbour);
  kvrt_session_close(s);
  ++rounds;
  return !over;
}

// ---- inside a call ------------------------------------------------------------------------------------------------------------------

struct inside {
  kvrt_session* s;
  int events, at;   // cancel at this event
  int by_return;    // the callback's value instead of kvrt_session_cancel
  atomic_int asks;  // another thread is to cancel
  atomic_int asked;
  uint64_t steps;  // when it was cancelled
  struct run run;
};

static int32_t watch(void* user, const kvrt_event* e) {
  struct inside* in = user;
  run_event(&in->run, e);
  if (in->events++ != in->at) return 0;
  in->steps = metrics_of(model).steps;
  if (in->by_return) return 1;
  if (atomic_load(&in->asks) == 0) {
    MUST(kvrt_session_cancel(in->s, NULL));
  } else {
    atomic_store(&in->asks, 2);
  }
  return 0;
}

static void* canceller(void* user) {
  struct inside* in = user;
  while (atomic_load(&in->asks) == 1) {
  }
  if (atomic_load(&in->asks) == 3) return NULL;
  MUST(kvrt_session_cancel(in->s, NULL));
  in->steps = metrics_of(model).steps;
  atomic_store(&in->asked, 1);
  return NULL;
}

enum how { kByCallback, kByReturn, kByThread };
enum what_call { kGenerate, kAllOrNothing, kPrefillNone, kPrefillLast, kPrefillAll };

// Returns 0 when the call was over before its event `at`.
static int by_event(enum what_call call, enum how how, int at) {
  char what[96];
  snprintf(what, sizeof what, "call %d, how %d, cancelled at event %d", (int)call, (int)how, at);
  kvrt_session* s = prepared(1, 1);
  struct before before;
  remember(s, &before);
  struct inside in = {.s = s, .at = at, .by_return = how == kByReturn};
  atomic_store(&in.asks, how == kByThread);
  pthread_t thread;
  if (how == kByThread) pthread_create(&thread, NULL, canceller, &in);
  kvrt_status status = KVRT_OK;
  kvrt_report report = {.struct_size = sizeof report, .reason = 99};
  if (call <= kAllOrNothing) {
    const kvrt_generate_options o = answer_options(call == kAllOrNothing);
    status = kvrt_session_generate(s, &o, watch, &in, &report, NULL);
  } else {
    status = kvrt_session_prefill(s, (uint32_t)call - kPrefillNone, watch, &in, &report, NULL);
  }
  const uint64_t steps = metrics_of(model).steps;
  if (how == kByThread) {
    int waiting = 1;
    atomic_compare_exchange_strong(&in.asks, &waiting, 3);  // it was over before: nobody is to cancel
    pthread_join(thread, NULL);
  }
  const int reached = in.events > at;
  if (!reached) EXPECT(status == KVRT_OK, "%s: %s: %s", what, kvrt_status_name(status), last_message());
  if (status != KVRT_OK) {
    EXPECT(status == KVRT_CANCELLED && report.reason == KVRT_REASON_CANCELLED, "%s: %s, reason %u", what, kvrt_status_name(status),
           report.reason);
    EXPECT(steps <= in.steps + 1, "%s: %" PRIu64 " steps more", what, steps - in.steps);
    if (call != kGenerate) expect_as_before(s, &before, what);
  } else if (reached && how != kByThread) {  // too late: its last event was DONE
    EXPECT(in.run.done, "%s: the cancel was lost", what);
  }
  const kvrt_session_props p = session_props(s);
  EXPECT(p.state == KVRT_STATE_IDLE && p.events_unread == 0, "%s: state %u", what, p.state);
  const uint64_t kv = p.kv_tokens, count = p.tokens;
  kvrt_report after = {.struct_size = sizeof after};
  (void)next_digest(s, &after);
  EXPECT(after.prefilled == (kv == count ? 1 : count - kv), "%s: %" PRIu64 " computed again, %" PRIu64 " of %" PRIu64 " had KV", what,
         after.prefilled, kv, count);
  expect_sound(s, reference, what);
  kvrt_session_close(s);
  ++rounds;
  return reached;
}

// Every token is banned, so that there is none to draw: the caller's mistake, and the session is sound.
static void banned(int all) {
  static kvrt_token_value bans[512];
  const uint32_t vocab = model_props(model).vocab_size;
  REQUIRE(vocab <= 512, "%u", vocab);
  for (uint32_t i = 0; i < vocab; ++i) bans[i] = (kvrt_token_value){(int32_t)i, -INFINITY};
  kvrt_session* s = prepared(1, 1);
  struct before before;
  remember(s, &before);
  kvrt_generate_options o = answer_options(all);
  o.logit_bias = bans, o.logit_bias_count = vocab;
  ROW("session_generate", "every token is banned", kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), ANY(KVRT_INVALID));
  const kvrt_session_props p = session_props(s);
  EXPECT(p.state == KVRT_STATE_IDLE && p.last_error_status == KVRT_INVALID, "state %u", p.state);
  if (all) expect_as_before(s, &before, "banned");
  expect_sound(s, reference, "banned");
  kvrt_session_close(s);
}

// A generation that fails leaves no trace either, and its session goes on.
static void failing(int all) {
  struct stage t;
  stage_open(&t);
  kvrt_model* poisoned = nan_model(&t);
  kvrt_session* s = open_session(poisoned, NULL, 0);
  say(s, "user", "What is the name of the sea between two lands?", NULL);
  struct before before;
  remember(s, &before);
  const kvrt_generate_options o = answer_options(all);
  for (int i = 0; i < (all ? 2 : 1); ++i) {
    ROW("session_generate", "logits are NaN", kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), ANY(KVRT_DEVICE));
    const kvrt_session_props p = session_props(s);
    EXPECT(p.state == (all ? KVRT_STATE_IDLE : KVRT_STATE_FAILED) && p.last_error_status == KVRT_DEVICE, "state %u", p.state);
    if (all) expect_as_before(s, &before, "failed");
  }
  kvrt_session_close(s);
  kvrt_model_release(poisoned);
  stage_close(&t);
}

struct compiling {
  kvrt_session* s;
  kvrt_status status;
  int number;  // a schema that was compiled before is not compiled again
  atomic_int begun, ended;
};
// An answer of up to the whole context, after the compilation of a schema with 20,000 words, which takes a while.
static void* answer_by_words(void* user) {
  struct compiling* c = user;
  static char schema[400000];
  size_t n = (size_t)snprintf(schema, sizeof schema, "{\"enum\": [\"w%d\"", c->number);
  for (int i = 0; i < 20000; ++i) n += (size_t)snprintf(schema + n, sizeof schema - n, ", \"%x %x\"", i * 2654435761u, i);
  n += (size_t)snprintf(schema + n, sizeof schema - n, "]}");
  kvrt_generate_options o = {.struct_size = sizeof o, .grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA, .grammar = schema, .grammar_size = n};
  atomic_store(&c->begun, 1);
  do {  // the other thread may be in its own call
    c->status = kvrt_session_generate(c->s, &o, NULL, NULL, NULL, NULL);
  } while (c->status == KVRT_BUSY);
  atomic_store(&c->ended, 1);
  return NULL;
}
// A cancel, or a close, within a call of generate. True where the call still compiled its grammar.
static bool stopped_early(int close) {
  static int number;
  struct compiling c = {.s = prepared(1, 1), .number = ++number};
  pthread_t thread;
  const double start = now_ms();
  pthread_create(&thread, NULL, answer_by_words, &c);
  while (atomic_load(&c.begun) == 0) usleep(100);
  const uint64_t tokens = session_props(c.s).tokens;
  while (kvrt_session_truncate(c.s, tokens, NULL) != KVRT_BUSY && !atomic_load(&c.ended)) usleep(100);  // until the call is inside
  if (atomic_load(&c.ended)) {                                                                          // this thread looked too late
    pthread_join(thread, NULL);
    kvrt_session_close(c.s);
    return false;
  }
  const kvrt_session_props p = session_props(c.s);
  if (close) {
    kvrt_session_close(c.s);
  } else {
    MUST(kvrt_session_cancel(c.s, NULL));
  }
  pthread_join(thread, NULL);
  const bool whole = c.status == KVRT_OK && p.state == KVRT_STATE_GENERATING;  // its answer was faster
  EXPECT(c.status == KVRT_CANCELLED || whole, "%s after %.0f ms, cancelled in state %u", kvrt_status_name(c.status), now_ms() - start,
         p.state);
  if (!close) kvrt_session_close(c.s);
  return p.state == KVRT_STATE_IDLE;
}
// While the call still compiles its grammar, neither is lost. A busy machine may let this thread look too late: it looks again.
static void while_it_begins(int close) {
  int tries = 1;
  while (!stopped_early(close) && tries < 50) ++tries;
  EXPECT(tries < 50, "each of %d calls generated before it was stopped: the schema is compiled too fast for this test", tries);
}

static kvrt_session* cancelled_session;
static atomic_int after_call;
static int32_t cancel_own_thread(void* user, const kvrt_event* e) {
  (void)user;
  if (e->type == KVRT_EVENT_TOKEN) pthread_cancel(pthread_self());
  pthread_testcancel();  // a point at which a thread ends
  return 0;
}
static void* cancelled_thread(void* user) {
  const kvrt_generate_options o = answer_options(0);
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(cancelled_session, &o, cancel_own_thread, user, &report, NULL));
  atomic_store(&after_call, 1);
  pthread_testcancel();
  atomic_store(&after_call, 2);
  return NULL;
}
// pthread_cancel in the middle of a call: the call goes on to its end, then the thread ends. The process stays.
static void thread_cancelled(void) {
  cancelled_session = prepared(1, 1);
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, cancelled_thread, NULL);
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED && atomic_load(&after_call) == 1, "%p, %d", result, atomic_load(&after_call));
  EXPECT(session_props(cancelled_session).state == KVRT_STATE_IDLE, "state %u", session_props(cancelled_session).state);
  kvrt_session_close(cancelled_session);
}

// A generation that was cancelled before any step: all of its prompt is left to compute.
static void before_any_step(void) {
  kvrt_session* s = open_session(model, NULL, 0);
  MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  const kvrt_generate_options o = answer_options(0);
  MUST(kvrt_session_begin(s, &o, NULL));
  MUST(kvrt_session_cancel(s, NULL));
  struct run r = {0};
  drain(s, &r);
  check_report(&r.report, "cancelled before any step");
  EXPECT(r.report.reason == KVRT_REASON_CANCELLED && r.report.prompt_tokens == kPrompt, "reason %u, prompt %" PRIu64, r.report.reason,
         r.report.prompt_tokens);
  kvrt_session_close(s);
}

int main(void) {
  char path[kPathMax];
  tiny_path(path, 1);
  kvrt_runtime* rt = open_runtime(2, 0);
  model = open_model(rt, path, kChunk, 16, 0);
  reference = open_model(rt, path, 0, 64, 0);
  prompt_tokens(prompt, kPrompt, 21, model_props(model).vocab_size);
  for (int messages = 0; messages < 2; ++messages) {
    for (int all = 0; all < 2; ++all) {
      int steps = 0;
      while (steps < kStepsMax && by_caller(messages, all, steps)) ++steps;
      EXPECT(steps > kPrompt / kChunk + kAnswer / 2 && steps < kStepsMax, "over after %d steps", steps);
    }
  }
  for (int call = kGenerate; call <= kPrefillAll; ++call) {
    for (int how = kByCallback; how <= kByThread; ++how) {
      int at = 0;
      while (at < 400 && by_event((enum what_call)call, (enum how)how, at)) ++at;
      EXPECT(at > 5 && at < 400, "call %d had %d events", call, at);
    }
  }
  before_any_step();
  thread_cancelled();
  while_it_begins(0);
  while_it_begins(1);
  banned(0);
  banned(1);
  failing(0);
  failing(1);
  printf("%" PRIu64 " cancels\n", rounds);
  kvrt_model_release(model);
  kvrt_model_release(reference);
  kvrt_runtime_release(rt);
  return finish();
}
