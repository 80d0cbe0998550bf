// One pair of answers at a time, without speculation and with it, for speculate.py: speculate MODEL [--draft FILE] [--isa N] [--threads N]
// [--pool TOKENS]. It reads commands, a line each, and answers each with a line of JSON:
//   count FILE                                          tokens of these messages
//   probe                                               GB/s that all threads read from memory
//   pair MODE K ANSWER IGNORE_EOS WHOLE FIRST FILE...   conversations (files of messages), all at once; MODE of lookup, draft, both; K 0: as it
//                                                       pays; WHOLE: with the prompt; FIRST: 1 if the plain one comes first
//   resume MODE K ANSWER FILE                           half an answer, everything closed and opened again, the other half
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kvrt.h"

enum { kSessions = 8, kAnswer = 2048, kFileMax = 1 << 20, kThreadsMax = 64 };
static const size_t kProbeBytes = (size_t)1 << 30;

static struct {
  const char *path, *draft_path;
  uint32_t isa, threads;
  uint64_t pool_tokens;
} asked = {.pool_tokens = 24576};
static kvrt_runtime* runtime;
static kvrt_model *model, *draft;
static kvrt_error failure;

static void check(kvrt_status status, int line) {
  if (status == KVRT_OK) return;
  fprintf(stderr, "speculate.c:%d: status %d: %s\n", line, (int)status, failure.message);
  exit(1);
}
#define MUST(call) check((call), __LINE__)

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// ---- the memory's speed ------------------------------------------------------------------------------------------------------------

static uint64_t* memory;
struct part {
  const uint64_t *from, *to;
  uint64_t sum;
};
static void* read_part(void* user) {
  struct part* p = user;
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (const uint64_t* at = p->from; at + 4 <= p->to; at += 4) a += at[0], b += at[1], c += at[2], d += at[3];
  p->sum = a + b + c + d;
  return NULL;
}

static double probe(void) {
  kvrt_runtime_props props = {.struct_size = sizeof props};
  MUST(kvrt_runtime_info(runtime, &props, &failure));
  const size_t threads = props.threads < kThreadsMax ? props.threads : kThreadsMax, words = kProbeBytes / sizeof *memory;
  if (memory == NULL) {
    memory = malloc(kProbeBytes);
    if (memory == NULL) exit(1);
    memset(memory, 1, kProbeBytes);
  }
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    struct part parts[kThreadsMax];
    pthread_t thread[kThreadsMax];
    const double start = now_ms();
    for (size_t i = 0; i < threads; ++i) {
      parts[i] = (struct part){memory + words * i / threads, memory + words * (i + 1) / threads, 0};
      pthread_create(&thread[i], NULL, read_part, &parts[i]);
    }
    for (size_t i = 0; i < threads; ++i) pthread_join(thread[i], NULL);
    const double speed = (double)kProbeBytes / (now_ms() - start) / 1e6;
    best = speed > best ? speed : best;
  }
  return best;
}

// ---- models and sessions -----------------------------------------------------------------------------------------------------------

static kvrt_model* open_model(const char* path) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  kvrt_plan_options q;
  KVRT_INIT(&q);
  kvrt_plan plan = {.struct_size = sizeof plan};
  MUST(kvrt_model_plan(runtime, path, strlen(path), &q, &plan, &failure));
  o.kv_bytes_max = asked.pool_tokens * plan.kv_bytes_per_token;
  o.kv_populate = 1;
  kvrt_model* out = NULL;
  MUST(kvrt_model_open(runtime, path, strlen(path), &o, NULL, NULL, &out, &failure));
  return out;
}

static void open_all(void) {
  kvrt_runtime_options o;
  KVRT_INIT(&o);
  o.isa = asked.isa, o.threads = asked.threads;
  MUST(kvrt_runtime_open(&o, &runtime, &failure));
  model = open_model(asked.path);
  draft = asked.draft_path ? open_model(asked.draft_path) : NULL;
}

static void close_all(void) {
  kvrt_model_release(draft);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
}

static kvrt_session* open_file(const char* path, kvrt_store* store) {
  static char json[kFileMax];
  FILE* f = fopen(path, "rb");
  if (f == NULL) perror(path), exit(1);
  const size_t size = fread(json, 1, sizeof json, f);
  fclose(f);
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.no_prefix_cache = 1, o.store = store;
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, &failure));
  MUST(kvrt_session_set_messages(s, json, size, NULL, &failure));
  return s;
}

static kvrt_generate_options options(const char* mode, uint32_t fixed, uint32_t answer, uint32_t ignore_eos) {
  kvrt_generate_options o;
  KVRT_INIT(&o);
  o.max_tokens = answer, o.ignore_eos = ignore_eos;
  o.lookup = strcmp(mode, "lookup") == 0 || strcmp(mode, "both") == 0;
  o.draft = strcmp(mode, "draft") == 0 || strcmp(mode, "both") == 0 ? draft : NULL;
  o.draft_tokens_min = o.draft_tokens_max = fixed;
  return o;
}

// ---- answers -----------------------------------------------------------------------------------------------------------------------

struct answer {
  int32_t tokens[kSessions][kAnswer];
  size_t count[kSessions];
  double ms, decode_ms, ttft_ms;  // from begin to the last DONE; of sessions' reports, summed
  uint64_t generated, drafted, accepted, steps, prompt;
};

static size_t take(kvrt_session* s, struct answer* a, size_t i) {
  for (;;) {
    kvrt_event e;
    KVRT_INIT(&e);
    MUST(kvrt_session_next(s, &e, 0, &failure));
    if (e.type == KVRT_EVENT_TOKEN && a->count[i] < kAnswer) a->tokens[i][a->count[i]++] = e.token;
    if (e.type == KVRT_EVENT_NONE || e.type == KVRT_EVENT_IDLE) return 0;
    if (e.type != KVRT_EVENT_DONE) continue;
    a->decode_ms += e.report->decode_ms, a->ttft_ms += e.report->ttft_ms;
    a->generated += e.report->generated, a->drafted += e.report->drafted, a->accepted += e.report->accepted;
    a->prompt += e.report->prompt_tokens;
    return 1;
  }
}

// Goes on with what `a` has.
static void answer_all(kvrt_session** s, size_t count, const kvrt_generate_options* o, struct answer* a) {
  kvrt_metrics before = {.struct_size = sizeof before}, after = before;
  MUST(kvrt_model_metrics(model, &before, &failure));
  const double start = now_ms();
  for (size_t i = 0; i < count; ++i) MUST(kvrt_session_begin(s[i], o, &failure));
  for (size_t done = 0; done < count;) {
    MUST(kvrt_model_step(model, 0, NULL, &failure));
    for (size_t i = 0; i < count; ++i) done += take(s[i], a, i);
  }
  a->ms += now_ms() - start;
  MUST(kvrt_model_metrics(model, &after, &failure));
  a->steps += after.steps - before.steps;
}

static int same(const struct answer* a, const struct answer* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (a->count[i] != b->count[i] || memcmp(a->tokens[i], b->tokens[i], a->count[i] * sizeof **a->tokens) != 0) return 0;
  }
  return 1;
}

static void tell(const char* name, const struct answer* a) {
  printf(
      ", \"%s\": {\"ms\": %.3f, \"decode_ms\": %.3f, \"ttft_ms\": %.3f, \"prompt\": %llu, \"generated\": %llu, \"drafted\": %llu, "
      "\"accepted\": %llu, \"steps\": %llu}",
      name, a->ms, a->decode_ms, a->ttft_ms, (unsigned long long)a->prompt, (unsigned long long)a->generated,
      (unsigned long long)a->drafted, (unsigned long long)a->accepted, (unsigned long long)a->steps);
}

// ---- commands ----------------------------------------------------------------------------------------------------------------------

static kvrt_session* prompts[kSessions];  // of the last pair, kept for its repetition
static char last_files[4096];

static size_t open_prompts(char** files, size_t count, int whole) {
  char all[sizeof last_files] = "";
  if (whole) strcpy(all, "whole ");
  for (size_t i = 0; i < count; ++i) strncat(all, files[i], sizeof all - strlen(all) - 1);
  if (strcmp(all, last_files) == 0) return count;
  for (size_t i = 0; i < kSessions; ++i) kvrt_session_close(prompts[i]), prompts[i] = NULL;
  for (size_t i = 0; i < count; ++i) {
    prompts[i] = open_file(files[i], NULL);
    if (!whole) MUST(kvrt_session_prefill(prompts[i], KVRT_LOGITS_NONE, NULL, NULL, NULL, &failure));
  }
  strcpy(last_files, all);
  return count;
}

static void pair(char** words, size_t count) {
  static struct answer answers[2];  // plain, and the mode
  memset(answers, 0, sizeof answers);
  const int whole = atoi(words[4]), first = atoi(words[5]);
  const size_t sessions = open_prompts(words + 6, count - 6, whole);
  const double before = probe();
  for (int i = 0; i < 2; ++i) {
    const int speculates = first ? i : !i;
    const kvrt_generate_options o = options(speculates ? words[0] : "plain", speculates ? (uint32_t)atoi(words[1]) : 0,
                                            (uint32_t)atoi(words[2]), (uint32_t)atoi(words[3]));
    kvrt_session* s[kSessions];
    for (size_t k = 0; k < sessions; ++k) MUST(kvrt_session_fork(prompts[k], NULL, &s[k], &failure));
    answer_all(s, sessions, &o, &answers[speculates]);
    for (size_t k = 0; k < sessions; ++k) kvrt_session_close(s[k]);
  }
  printf("{\"gb_s\": [%.3f, %.3f], \"same\": %s", before, probe(), same(&answers[0], &answers[1], sessions) ? "true" : "false");
  tell("plain", &answers[0]);
  tell("mode", &answers[1]);
  printf("}\n");
}

static int remove_entry(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)s, (void)type, (void)f;
  return remove(path);
}

// Half and half: in one process without a break, then with everything closed between.
static void resume(char** words) {
  static struct answer halves[4], whole[2];
  memset(halves, 0, sizeof halves);
  memset(whole, 0, sizeof whole);
  char dir[] = "/tmp/kvrt-speculate-XXXXXX";
  if (mkdtemp(dir) == NULL) exit(1);
  for (int way = 0; way < 2; ++way) {
    kvrt_store* store = NULL;
    MUST(kvrt_store_open(runtime, dir, strlen(dir), NULL, &store, &failure));
    kvrt_session* s = open_file(words[3], store);
    for (int half = 0; half < 2; ++half) {
      if (way == 1 && half == 1) {
        MUST(kvrt_session_suspend(s, "a", 1, NULL, NULL, &failure));
        kvrt_session_close(s), kvrt_store_release(store), close_all();
        open_all();
        MUST(kvrt_store_open(runtime, dir, strlen(dir), NULL, &store, &failure));
        MUST(kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, NULL, &s, &failure));
      }
      const kvrt_generate_options o = options(words[0], (uint32_t)atoi(words[1]), (uint32_t)atoi(words[2]) / 2, 0);
      struct answer* a = &halves[2 * way + half];
      answer_all(&s, 1, &o, a);
      memcpy(whole[way].tokens[0] + whole[way].count[0], a->tokens[0], a->count[0] * sizeof **a->tokens);
      whole[way].count[0] += a->count[0];
    }
    kvrt_session_close(s), kvrt_store_release(store);
  }
  nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  printf("{\"same\": %s", same(&whole[0], &whole[1], 1) ? "true" : "false");
  tell("first", &halves[0]), tell("second", &halves[1]), tell("before", &halves[2]), tell("after", &halves[3]);
  printf("}\n");
}

static void run_command(char** words, size_t count) {
  if (strcmp(words[0], "probe") == 0) {
    printf("{\"gb_s\": %.3f}\n", probe());
  } else if (strcmp(words[0], "count") == 0 && count == 2) {
    kvrt_session* s = open_file(words[1], NULL);
    kvrt_session_props p = {.struct_size = sizeof p};
    MUST(kvrt_session_info(s, &p, &failure));
    printf("{\"tokens\": %llu}\n", (unsigned long long)p.tokens);
    kvrt_session_close(s);
  } else if (strcmp(words[0], "pair") == 0 && count > 7 && count <= 7 + kSessions) {
    pair(words + 1, count - 1);
  } else if (strcmp(words[0], "resume") == 0 && count == 5) {
    for (size_t i = 0; i < kSessions; ++i) kvrt_session_close(prompts[i]), prompts[i] = NULL;
    last_files[0] = 0;
    resume(words + 1);
  } else {
    fprintf(stderr, "speculate.c: unknown command %s of %zu words\n", words[0], count);
    exit(2);
  }
  fflush(stdout);
}

int main(int argc, char** argv) {
  KVRT_INIT(&failure);
  if (argc < 2) return 2;
  asked.path = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--draft") == 0) asked.draft_path = argv[i + 1];
    if (strcmp(argv[i], "--isa") == 0) asked.isa = (uint32_t)atoi(argv[i + 1]);
    if (strcmp(argv[i], "--threads") == 0) asked.threads = (uint32_t)atoi(argv[i + 1]);
    if (strcmp(argv[i], "--pool") == 0) asked.pool_tokens = (uint64_t)atoll(argv[i + 1]);
  }
  open_all();
  static char line[1 << 16];
  while (fgets(line, sizeof line, stdin)) {
    char* words[64];
    size_t count = 0;
    for (char* word = strtok(line, " \n"); word && count < 64; word = strtok(NULL, " \n")) words[count++] = word;
    if (count) run_command(words, count);
  }
  for (size_t i = 0; i < kSessions; ++i) kvrt_session_close(prompts[i]);
  close_all();
  free(memory);
  return 0;
}
