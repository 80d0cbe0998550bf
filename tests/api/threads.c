// 8 threads x 200 generations on one model, with random cancels and closes from other threads: every finished output equals its solo
// run, and an output that was cut short is a beginning of it. threads [generations per thread] [seed]
#include "support.h"

enum { kThreads = 8, kCases = 24, kPromptTokens = 40, kLength = 12 };

struct one_case {
  int32_t prompt[kPromptTokens];
  size_t prompt_count;
  uint32_t length;
  struct run solo;
};

static struct one_case cases[kCases];
static kvrt_model* model;
static kvrt_store* store;
static int generations = 200;
static _Atomic(kvrt_session*) slots[kThreads];  // sessions inside generate; the thread that exchanges one out of here closes it
static atomic_int stop_chaos, finished, cut;

static void solo_runs(const char* tiny) {
  kvrt_runtime* rt = open_runtime(1, KVRT_ISA_SCALAR);
  kvrt_model* m = open_model(rt, tiny, 0, 16, 0);
  const uint32_t vocab = model_props(m).vocab_size;
  for (size_t i = 0; i < kCases; ++i) {
    struct one_case* c = &cases[i];
    c->prompt_count = 6 + i * 34 / kCases;
    c->length = 4 + (uint32_t)(i % (kLength - 3));
    prompt_tokens(c->prompt, c->prompt_count, 77 + i / 3, vocab);  // three of a kind share their prefix
    if (i % 3 == 2) c->prompt[c->prompt_count - 1] ^= 1;
    kvrt_session* s = open_session(m, NULL, 1);
    MUST(kvrt_session_append(s, c->prompt, c->prompt_count, NULL));
    generate_into(s, c->length, &c->solo);
    kvrt_session_close(s);
  }
  kvrt_model_release(m);
  kvrt_runtime_release(rt);
}

struct call {
  struct run run;
  int thread;
  kvrt_session* session;
  int exposed;
};

// In the first callback the session is given to the chaos thread, which may cancel or close it from then on.
static int32_t expose(void* user, const kvrt_event* e) {
  struct call* c = user;
  if (c->exposed == 0) {
    atomic_store(&slots[c->thread], c->session);
    c->exposed = 1;
  }
  run_event(&c->run, e);
  return 0;
}

static void compare(const struct one_case* c, const struct run* r, int whole) {
  EXPECT(!whole || r->count == c->length, "%zu tokens of %u", r->count, c->length);
  EXPECT(memcmp(r->token, c->solo.token, r->count * sizeof *r->token) == 0 &&
             memcmp(r->digest, c->solo.digest, r->count * sizeof *r->digest) == 0,
         "case %d went on differently in company", (int)(c - cases));
  atomic_fetch_add(whole ? &finished : &cut, 1);
}

// One generation by generate, whose session another thread may close.
static void by_generate(int thread, const struct one_case* c, kvrt_session* s, int exposed) {
  struct call call = {.thread = thread, .session = s, .exposed = exposed ? 0 : 1};
  const kvrt_generate_options o = run_options(c->length);
  const kvrt_status status = kvrt_session_generate(s, &o, expose, &call, NULL, NULL);
  EXPECT(status == KVRT_OK || status == KVRT_CANCELLED, "generate: %s: %s", kvrt_status_name(status), last_message());
  compare(c, &call.run, status == KVRT_OK && call.run.report.reason == KVRT_REASON_MAX_TOKENS);
  if (!exposed || call.exposed == 0 || atomic_exchange(&slots[thread], NULL) == s) kvrt_session_close(s);
}

static void by_next(const struct one_case* c, kvrt_session* s, int give_up_after) {
  const kvrt_generate_options o = run_options(c->length);
  MUST(kvrt_session_begin(s, &o, NULL));
  struct run r = {0};
  for (int i = 0; i != give_up_after && !r.done; ++i) {
    kvrt_event e = {.struct_size = sizeof e};
    MUST(kvrt_session_next(s, &e, i % 3 == 0 ? 5 : -1, NULL));
    run_event(&r, &e);
  }
  compare(c, &r, r.done);
  kvrt_session_close(s);
}

static void* worker(void* user) {
  const int thread = (int)(intptr_t)user;
  uint64_t random = 31 + (uint64_t)thread;
  for (int i = 0; i < generations; ++i) {
    const struct one_case* c = &cases[next_random(&random) % kCases];
    kvrt_session* s = open_session(model, store, next_random(&random) % 4 == 0);
    MUST(kvrt_session_append(s, c->prompt, c->prompt_count, NULL));
    switch (next_random(&random) % 5) {
      case 0:
        by_next(c, s, -1);
        break;
      case 1:
        by_next(c, s, (int)(next_random(&random) % 8));
        break;
      case 2:
        by_generate(thread, c, s, 0);
        break;
      case 3: {
        kvrt_session* copy = NULL;
        MUST(kvrt_session_fork(s, NULL, &copy, NULL));
        by_generate(thread, c, s, 1);
        by_generate(thread, c, copy, 0);
        break;
      }
      default:
        by_generate(thread, c, s, 1);
        break;
    }
    if (i % 25 == 0) {  // a save in the middle of all this
      char name[16];
      snprintf(name, sizeof name, "t%d", thread);
      kvrt_save_options save = {.struct_size = sizeof save, .durability = KVRT_DURABILITY_NONE, .overwrite = 1};
      kvrt_session* saved = open_session(model, store, 0);
      MUST(kvrt_session_append(saved, c->prompt, c->prompt_count, NULL));
      MUST(kvrt_session_prefill(saved, 0, NULL, NULL, NULL, NULL));
      MUST(kvrt_session_suspend(saved, name, strlen(name), &save, NULL, NULL));
      kvrt_session_close(saved);
      saved = resume_session(model, store, name, NULL);
      by_generate(thread, c, saved, 0);
    }
  }
  return NULL;
}

static void* chaos(void* user) {
  uint64_t random = (uint64_t)(intptr_t)user;
  while (!atomic_load(&stop_chaos)) {
    const size_t i = next_random(&random) % kThreads;
    if (next_random(&random) % 3 == 0) {
      kvrt_session* s = atomic_exchange(&slots[i], NULL);
      if (s && next_random(&random) % 2) kvrt_session_cancel(s, NULL);
      kvrt_session_close(s);
    }
    usleep(300);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) generations = atoi(argv[1]);
  const intptr_t seed = argc > 2 ? atol(argv[2]) : 1;
  printf("seed %ld\n", (long)seed);
  char tiny[kPathMax], dir[kPathMax];
  tiny_path(tiny, 0);
  make_dir(dir);
  solo_runs(tiny);
  kvrt_runtime* rt = open_runtime(2, 0);
  model = open_model(rt, tiny, 64, 16, 1500);
  store = open_store(rt, dir);
  const double start = now_ms();
  pthread_t threads[kThreads], mischief;
  pthread_create(&mischief, NULL, chaos, (void*)seed);
  for (intptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, worker, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  atomic_store(&stop_chaos, 1);
  pthread_join(mischief, NULL);
  expect_no_leaks(model);
  EXPECT(atomic_load(&finished) > generations, "only %d finished", atomic_load(&finished));
  MUST(kvrt_store_verify(store, NULL, NULL, NULL));
  printf("%d finished, %d cut short, %.1f s\n", atomic_load(&finished), atomic_load(&cut), (now_ms() - start) / 1e3);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
