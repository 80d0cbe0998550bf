// Handles close in any order, two runtimes live side by side, the log ends when it says, an idle runtime burns no CPU, and the host's
// floating-point mode is left as it was.
#include <sys/resource.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "support.h"

static char tiny[kPathMax];

static kvrt_status generate_some(kvrt_session* s, uint32_t count) {
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = count, .ignore_eos = 1};
  return kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL);
}

// The four handles are let go in all 24 orders, and those that remain still work.
static void any_order(void) {
  char dir[kPathMax];
  make_dir(dir);
  const int32_t tokens[] = {3, 4, 5};
  for (int order = 0; order < 24; ++order) {
    kvrt_runtime* rt = open_runtime(1, 0);
    kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
    kvrt_store* store = open_store(rt, dir);
    kvrt_session* s = open_session(model, store, 0);
    MUST(kvrt_session_append(s, tokens, 3, NULL));
    int left[4] = {0, 1, 2, 3}, n = 4, session_open = 1;
    for (int code = order; n > 0; code /= n + 1) {
      const int pick = code % n, which = left[pick];
      left[pick] = left[--n];
      if (which == 0) kvrt_runtime_release(rt);
      if (which == 1) kvrt_model_release(model);
      if (which == 2) kvrt_store_release(store);
      if (which == 3) kvrt_session_close(s), session_open = 0;
      if (session_open) {
        EXPECT_STATUS(generate_some(s, 2), KVRT_OK);
        EXPECT_STATUS(
            kvrt_session_checkpoint(s, "o", 1, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL),
            KVRT_OK);
      }
    }
  }
  // Retained twice, released once: alive.
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_runtime_retain(rt);
  kvrt_runtime_release(rt);
  kvrt_runtime_props p = {.struct_size = sizeof p};
  EXPECT_STATUS(kvrt_runtime_info(rt, &p, NULL), KVRT_OK);
  EXPECT(p.threads == 1 && p.device[0] && p.isa[0] && p.numerics[0] && p.isa_tables[0] && p.libraries[0], "runtime_props are not filled");
  kvrt_runtime_release(rt);
  remove_tree(dir);
}

static atomic_int lines, frees;

static void on_log(void* user, int32_t level, const char* text, size_t size) {
  EXPECT(user == (void*)&lines && size != 0 && text != NULL && level >= KVRT_LOG_ERROR && level <= KVRT_LOG_DEBUG, "a log line");
  EXPECT(atomic_load(&frees) == 0, "a log line after free");
  atomic_fetch_add(&lines, 1);
}

static void on_free(void* user) {
  EXPECT(user == (void*)&lines, "free of another user");
  atomic_fetch_add(&frees, 1);
}

static void log_ends(void) {
  kvrt_runtime_options o = {
      .struct_size = sizeof o, .log_level = KVRT_LOG_DEBUG, .log = on_log, .log_user = &lines, .log_user_free = on_free};
  kvrt_runtime* rt = NULL;
  o.isa = 99;
  EXPECT(kvrt_runtime_open(&o, &rt, NULL) != KVRT_OK && atomic_load(&frees) == 0, "free after a failed open");
  o.isa = 0;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = open_session(model, store, 0);
  const int32_t token = 4;
  MUST(kvrt_session_append(s, &token, 1, NULL));
  kvrt_runtime_release(rt);
  kvrt_model_release(model);
  EXPECT_STATUS(generate_some(s, 3), KVRT_OK);
  EXPECT_STATUS(kvrt_session_suspend(s, "l", 1, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  EXPECT(atomic_load(&frees) == 0, "free while a session lives");
  kvrt_session_close(s);
  EXPECT(atomic_load(&frees) == 1, "free was called %d times", atomic_load(&frees));
  remove_tree(dir);
  o.log = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  kvrt_runtime_release(rt);
  EXPECT(atomic_load(&frees) == 2, "without log: free was called %d times in all", atomic_load(&frees));
  printf("%d log lines\n", atomic_load(&lines));
}

static void two_runtimes(void) {
  kvrt_runtime* rt[2];
  kvrt_model* model[2];
  kvrt_session* s[2];
  static struct run r[2];
  const int32_t tokens[] = {3, 4, 5, 200, 100, 50};
  for (int i = 0; i < 2; ++i) {
    rt[i] = open_runtime((uint32_t)i + 1, 0);
    model[i] = open_model(rt[i], tiny, 0, i ? 16 : 64, 0);
    s[i] = open_session(model[i], NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, 6, NULL));
  }
  for (int turn = 0; turn < 5; ++turn) {
    for (int i = 0; i < 2; ++i) generate_into(s[i], 10, &r[i]);
  }
  EXPECT(memcmp(r[0].token, r[1].token, sizeof r[0].token) == 0 && memcmp(r[0].digest, r[1].digest, sizeof r[0].digest) == 0,
         "they differ");
  for (int i = 0; i < 2; ++i) {
    kvrt_runtime_release(rt[i]);
    kvrt_model_release(model[i]);
    kvrt_session_close(s[i]);
  }
}

static double cpu_ms(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void idle(void) {
  char dir[kPathMax];
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(4, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = open_session(model, store, 0);
  const int32_t token = 4;
  MUST(kvrt_session_append(s, &token, 1, NULL));
  MUST(generate_some(s, 30));
  MUST(kvrt_session_checkpoint(s, "i", 1, NULL, NULL, NULL));
  double used = 1e9;
  for (int i = 0; i < 25 && used >= 10; ++i) {  // threads that spin for a moment after work may end first, when they get a CPU
    const double before = cpu_ms();
    usleep(200000);
    used = cpu_ms() - before;
  }
  printf("%.2f ms of CPU in 200 ms of idleness\n", used);
  EXPECT(used < 10, "%.2f ms", used);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
}

static int32_t mode_in_callback(void* user, const kvrt_event* e) {
  (void)e;
#ifdef __SSE__
  EXPECT((_mm_getcsr() & 0xFFC0u) == *(unsigned*)user, "in the callback the mode is %x", _mm_getcsr());
#endif
  return 0;
}

// The tokens, and the model's identity in a store, are those of the default mode; and where the host traps invalid operations, kvrt's infinities are none.
static void host_mode(void) {
#ifdef __SSE__
  const unsigned original = _mm_getcsr();
  const unsigned modes[] = {0x1F80u, 0x9FC0u, 0xFFC0u, 0x5F80u, 0x3F80u, 0x1F80u & ~0x680u};  // FTZ and DAZ; rounding; no masks for traps
  int32_t first[8], got[8];
  char dir[kPathMax];
  make_dir(dir);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
    const unsigned wanted = modes[i];
    _mm_setcsr(wanted);
    kvrt_runtime* rt = open_runtime(2, 0);
    kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
    kvrt_store* store = open_store(rt, dir);
    kvrt_session* s = open_session(model, store, 0);
    const int32_t tokens[] = {4, 5, 6};
    MUST(kvrt_session_append(s, tokens, 3, NULL));
    if (i == 0) MUST(kvrt_session_checkpoint(s, "first", 5, NULL, NULL, NULL));
    kvrt_session_close(s);
    s = resume_session(model, store, "first", NULL);
    kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 5, .temperature = 0.5f, .seed = 7};
    o.grammar_kind = KVRT_GRAMMAR_GBNF;
    o.grammar = "root ::= [^x]{40}";
    o.grammar_size = strlen(o.grammar);
    unsigned seen = wanted & 0xFFC0u;
    MUST(kvrt_session_generate(s, &o, mode_in_callback, &seen, NULL, NULL));
    const size_t n = session_tokens(s, got, 8);
    if (i == 0) memcpy(first, got, sizeof got);
    EXPECT(n == 8 && memcmp(first, got, sizeof got) == 0, "mode %x: other tokens", wanted);
    kvrt_session_close(s);
    kvrt_store_release(store);
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    EXPECT((_mm_getcsr() & 0xFFC0u) == (wanted & 0xFFC0u), "mode %x became %x", wanted, _mm_getcsr());
    _mm_setcsr(original);
  }
  remove_tree(dir);
#endif
}

int main(void) {
  tiny_path(tiny, 0);
  any_order();
  log_ends();
  two_runtimes();
  idle();
  host_mode();
  return finish();
}
