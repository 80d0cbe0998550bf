// What the calls of kvrt.h cost, for before.py, which compiles it against two trees: calls MODEL [NAME...]. Prints one JSON object of
// milliseconds: of these measurements, or of all. It knows kvrt.h only, and of that what both trees have.
//   prefill_N      a prompt of N tokens, computed
//   decode_N       a token after N others
//   eight          a token of each of eight sessions
//   save           a checkpoint of 2,048 tokens that the store does not have
//   resume         of them, from the page cache
//   fork           a fork of 2,048 tokens, and its close
//   crowd          64 sessions, prompts of 192 tokens and answers of 16, in a pool for a quarter of them
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvrt.h"

enum { kLong = 2048, kDecoded = 48, kForks = 400, kCrowd = 64, kCrowdPrompt = 192, kCrowdAnswer = 16, kBytesPerToken = 23040 };

static kvrt_model* model;
static int32_t tokens[kLong];

static void check(kvrt_status status, const kvrt_error* e, int line) {
  if (status == KVRT_OK) return;
  fprintf(stderr, "calls.c:%d: status %d: %s\n", line, (int)status, e->message);
  exit(1);
}
static kvrt_error failure;
#define MUST(call) check((call), &failure, __LINE__)

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static kvrt_session* open_with(uint32_t seed, size_t count) {
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, NULL, &s, &failure));
  for (size_t i = 0; i < count; ++i) tokens[i] = (int32_t)(1000 + ((seed * 2654435761u + i * 40503u) >> 7) % 40000);
  MUST(kvrt_session_append(s, tokens, count, &failure));
  return s;
}

static double prefill(uint32_t seed, size_t count, kvrt_session** out) {
  *out = open_with(seed, count);
  const double start = now_ms();
  MUST(kvrt_session_prefill(*out, 0, NULL, NULL, NULL, &failure));
  return now_ms() - start;
}

static void begin(kvrt_session* s, uint32_t count) {
  kvrt_generate_options o;
  KVRT_INIT(&o);
  o.max_tokens = count;
  o.ignore_eos = 1;
  MUST(kvrt_session_begin(s, &o, &failure));
}

// Runs until every session is done.
static void run_all(kvrt_session** s, size_t count) {
  for (size_t done = 0; done < count;) {
    MUST(kvrt_model_step(model, 0, NULL, &failure));
    for (size_t i = 0; i < count; ++i) {
      kvrt_event e;
      do {
        KVRT_INIT(&e);
        MUST(kvrt_session_next(s[i], &e, 0, &failure));
        done += e.type == KVRT_EVENT_DONE;
      } while (e.type != KVRT_EVENT_NONE && e.type != KVRT_EVENT_IDLE && e.type != KVRT_EVENT_DONE);
    }
  }
}

static double decode(kvrt_session* s, uint32_t count) {
  begin(s, count);
  kvrt_event e;
  double start = 0;
  for (;;) {
    KVRT_INIT(&e);
    MUST(kvrt_session_next(s, &e, -1, &failure));
    if (e.type == KVRT_EVENT_TOKEN && start == 0) start = now_ms();
    if (e.type == KVRT_EVENT_DONE) break;
  }
  return (now_ms() - start) / (count - 1);
}

static double eight(void) {
  kvrt_session* s[8];
  for (uint32_t i = 0; i < 8; ++i) prefill(100 + i, 64, &s[i]);
  const double start = now_ms();
  for (int i = 0; i < 8; ++i) begin(s[i], kDecoded);
  run_all(s, 8);
  const double took = now_ms() - start;
  for (int i = 0; i < 8; ++i) kvrt_session_close(s[i]);
  return took / kDecoded;
}

static double crowd(void) {
  kvrt_session* s[kCrowd];
  const double start = now_ms();
  for (uint32_t i = 0; i < kCrowd; ++i) s[i] = open_with(1000 + i, kCrowdPrompt), begin(s[i], kCrowdAnswer);
  run_all(s, kCrowd);
  const double took = now_ms() - start;
  for (int i = 0; i < kCrowd; ++i) kvrt_session_close(s[i]);
  return took;
}

static int remove_entry(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)s, (void)type, (void)f;
  return remove(path);
}

static double save(kvrt_runtime* rt, double* resumed) {
  char path[] = "/dev/shm/kvrt-calls-XXXXXX";
  if (!mkdtemp(path)) exit(1);
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, path, strlen(path), NULL, &store, &failure));
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.store = store;
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, &failure));
  MUST(kvrt_session_append(s, tokens, kLong, &failure));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, &failure));
  const double start = now_ms();
  MUST(kvrt_session_checkpoint(s, "a", 1, NULL, NULL, &failure));
  const double took = now_ms() - start;
  kvrt_session_close(s);
  o.no_prefix_cache = 1;  // from the store, though memory has it
  const double again = now_ms();
  MUST(kvrt_session_resume(model, store, "a", 1, &o, NULL, NULL, NULL, &s, &failure));
  *resumed = now_ms() - again;
  kvrt_session_close(s);
  kvrt_store_release(store);
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  return took;
}

static void open_pool(kvrt_runtime* rt, const char* path, uint64_t pool_tokens) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.kv_populate = 1;
  o.kv_bytes_max = pool_tokens * kBytesPerToken;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, &failure));
}

static char** names;  // NULL at the end
static bool wanted(const char* name) {
  for (char** n = names; *n; ++n) {
    if (strcmp(*n, name) == 0) return true;
  }
  return *names == NULL;
}

static void tell(const char* name, double ms) {
  static int told;
  printf("%s\"%s\": %.5f", told++ ? ", " : "{", name, ms);
}

static void measure_prompts(kvrt_runtime* rt) {
  kvrt_session *s = NULL, *copy = NULL;
  if (wanted("prefill_512")) {
    tell("prefill_512", prefill(2, 512, &s));
    kvrt_session_close(s);
  }
  if (!wanted("prefill_2048") && !wanted("fork") && !wanted("save") && !wanted("resume") && !wanted("decode_2048")) return;
  tell("prefill_2048", prefill(4, kLong, &s));
  double fork = now_ms();
  for (int i = 0; i < kForks; ++i) {
    MUST(kvrt_session_fork(s, NULL, &copy, &failure));
    kvrt_session_close(copy);
  }
  fork = (now_ms() - fork) / kForks;
  tell("fork", fork);
  if (wanted("save") || wanted("resume")) {
    double resume = 0;
    tell("save", save(rt, &resume));
    tell("resume", resume);
  }
  if (wanted("decode_2048")) tell("decode_2048", decode(s, kDecoded));
  kvrt_session_close(s);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  names = argv + 2;
  KVRT_INIT(&failure);
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(NULL, &rt, &failure));
  open_pool(rt, argv[1], 4 * kLong);
  kvrt_session* s = NULL;
  prefill(1, 256, &s);  // the weights' pages
  kvrt_session_close(s);
  if (wanted("decode_0")) {
    prefill(3, 1, &s);
    tell("decode_0", decode(s, kDecoded));
    kvrt_session_close(s);
  }
  measure_prompts(rt);
  if (wanted("eight")) tell("eight", eight());
  kvrt_model_release(model);
  if (wanted("crowd")) {
    open_pool(rt, argv[1], (uint64_t)kCrowd * (kCrowdPrompt + kCrowdAnswer) / 4);
    tell("crowd", crowd());
    kvrt_model_release(model);
  }
  kvrt_runtime_release(rt);
  printf("}\n");
  return 0;
}
