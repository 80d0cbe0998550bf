// Helpers of the tests of the public contract. They are plain C and know kvrt.h, libc and POSIX, nothing else of the project.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"
#include "host_locale.h"
#include "kvrt.h"

enum { kSkip = 77, kRunMax = 512, kPathMax = 512, kModelsMax = 256 };

// ---- small things ------------------------------------------------------------------------------------------------------------------

static inline double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline uint64_t next_random(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static inline uint64_t hash_bytes(uint64_t h, const void* data, size_t size) {
  const unsigned char* p = (const unsigned char*)data;
  for (; size >= 4; size -= 4, p += 4) {
    uint32_t word;
    memcpy(&word, p, 4);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  for (; size != 0; --size) h = (h ^ *p++) * 0x100000001B3u;
  return h;
}

static inline uint64_t hash_logits(const kvrt_event* e) { return hash_bytes(1 + e->position, e->logits, e->logits_count * sizeof(float)); }

static inline int remove_entry(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)s, (void)type, (void)f;
  return remove(path);
}

static inline void remove_tree(const char* path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

// A new private directory; remove_tree it at the end.
static inline void make_dir(char path[kPathMax]) {
  const char* base = getenv("TMPDIR");
  snprintf(path, kPathMax, "%s/kvrt-test-XXXXXX", base && *base ? base : "/tmp");
  REQUIRE(mkdtemp(path) != NULL, "mkdtemp %s: %s", path, strerror(errno));
}

// ---- models ------------------------------------------------------------------------------------------------------------------------

static inline int compare_paths(const void* a, const void* b) { return strcmp((const char*)a, (const char*)b); }

// The folder of the generated models: tests/golden/tiny, or the one that KVRT_TINY_DIR says they were brought to.
static inline const char* tiny_dir(void) {
  const char* given = getenv("KVRT_TINY_DIR");
  return given && *given ? given : KVRT_TINY_DIR;
}

// The generated models, by name.
static inline size_t list_tiny(char (*paths)[kPathMax]) {
  DIR* dir = opendir(tiny_dir());
  REQUIRE(dir != NULL, "no directory %s", tiny_dir());
  size_t count = 0;
  for (struct dirent* e; (e = readdir(dir)) != NULL && count < kModelsMax;) {
    const size_t size = strlen(e->d_name);
    if (size > 5 && strcmp(e->d_name + size - 5, ".gguf") == 0) snprintf(paths[count++], kPathMax, "%s/%s", tiny_dir(), e->d_name);
  }
  closedir(dir);
  REQUIRE(count != 0 && count < kModelsMax, "%zu models in %s, room for fewer than %d", count, tiny_dir(), kModelsMax);
  qsort(paths, count, kPathMax, compare_paths);
  return count;
}

// The real model, or 0 when this machine has none (the test is skipped then).
static inline int find_real(char path[kPathMax]) {
  const char* given = getenv("KVRT_MODEL");
  const char* home = getenv("HOME");
  if (given && *given) {
    snprintf(path, kPathMax, "%s", given);
  } else {
    snprintf(path, kPathMax, "%s/.cache/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
  }
  return access(path, R_OK) == 0;
}

// KVRT_TEST_CUDA_LIBRARY: the libkvrt_cuda.so whose device computes, so that any test runs on one; KVRT_TEST_CUDA_STRICT: to the bit.
static inline kvrt_runtime* open_runtime(uint32_t threads, uint32_t isa) {
  const char* cuda = getenv("KVRT_TEST_CUDA_LIBRARY");
  kvrt_runtime_options o;
  KVRT_INIT(&o);
  o.threads = threads;
  o.isa = cuda ? KVRT_ISA_DEFAULT : isa;
  o.device = cuda ? KVRT_DEVICE_CUDA : KVRT_DEVICE_DEFAULT;
  if (getenv("KVRT_TEST_CUDA_STRICT")) o.determinism = KVRT_DETERMINISM_STRICT;
  o.cuda_library = cuda;
  o.cuda_library_size = cuda ? strlen(cuda) : 0;
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  return rt;
}

static inline kvrt_model_props model_props(const kvrt_model* model) {
  kvrt_model_props p;
  KVRT_INIT(&p);
  MUST(kvrt_model_info(model, &p, NULL));
  return p;
}
// True where it has recurrent layers: the last token always runs, and going back means computing again from a boundary.
static inline int is_recurrent(const kvrt_model* model) {
  const kvrt_model_props m = model_props(model);
  return m.kv_groups != 0 && m.kv_group_kind[m.kv_groups - 1] == KVRT_GROUP_RECURRENT;
}

// No session is open, and none keeps blocks.
static inline void expect_no_leaks(const kvrt_model* model) {
  const kvrt_model_props p = model_props(model);
  EXPECT(p.sessions == 0 && p.units_free + p.units_cached == p.units,
         "%" PRIu64 " sessions; units: %" PRIu64 " free, %" PRIu64 " cached of %" PRIu64, p.sessions, p.units_free, p.units_cached,
         p.units);
}

// pool_tokens 0: the default pool. KVRT_TEST_KV: a KVRT_KV_* by its number, or those of K and V, "4/1", so that any test runs with any.
static inline kvrt_model* open_model(kvrt_runtime* rt, const char* path, uint32_t chunk, uint32_t block, uint64_t pool_tokens) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.prefill_chunk = chunk;
  o.block_tokens = block;
  const char* kv = getenv("KVRT_TEST_KV");
  if (kv) o.kv_format = (uint32_t)atoi(kv);
  if (kv && strchr(kv, '/')) o.kv_format_v = (uint32_t)atoi(strchr(kv, '/') + 1);
  const char* step_ms = getenv("KVRT_TEST_STEP_MS");  // so that a slow device cuts a prompt as a fast one does
  if (step_ms) o.step_ms_max = (uint32_t)atoi(step_ms);
  kvrt_model* model = NULL;
  if (pool_tokens != 0) {
    o.kv_bytes_max = 64u << 20;
    MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
    o.kv_bytes_max = pool_tokens * model_props(model).kv_bytes_per_token;
    kvrt_model_release(model);
  }
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

// The first tiny model that has weights and, if asked, a chat template.
static inline void tiny_path(char path[kPathMax], int with_template) {
  static char paths[kModelsMax][kPathMax];
  const char* given = getenv("KVRT_TINY_MODEL");
  const size_t count = list_tiny(paths);
  kvrt_runtime* rt = open_runtime(1, 0);
  size_t found = count;
  for (size_t i = 0; i < count && found == count; ++i) {
    if (given && strstr(paths[i], given) == NULL) continue;
    kvrt_model* model = open_model(rt, paths[i], 0, 0, 0);
    const kvrt_model_props p = model_props(model);
    if (p.has_weights && (!with_template || p.has_template)) found = i;
    kvrt_model_release(model);
  }
  kvrt_runtime_release(rt);
  REQUIRE(found != count, "no fitting model among %zu in %s", count, tiny_dir());
  snprintf(path, kPathMax, "%s", paths[found]);
}

static inline kvrt_metrics metrics_of(const kvrt_model* model) {
  kvrt_metrics m;
  KVRT_INIT(&m);
  MUST(kvrt_model_metrics(model, &m, NULL));
  return m;
}

static inline kvrt_store* open_store(kvrt_runtime* rt, const char* path) {
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, path, strlen(path), NULL, &store, NULL));
  return store;
}

// ---- sessions ----------------------------------------------------------------------------------------------------------------------

static inline kvrt_session* open_session(kvrt_model* model, kvrt_store* store, uint32_t no_prefix_cache) {
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.store = store;
  o.no_prefix_cache = no_prefix_cache;
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  return s;
}

static inline kvrt_session* resume_session(kvrt_model* model, kvrt_store* store, const char* name, kvrt_report* report) {
  kvrt_session* s = NULL;
  if (report) report->struct_size = sizeof *report;
  MUST(kvrt_session_resume(model, store, name, strlen(name), NULL, NULL, NULL, report, &s, NULL));
  return s;
}

static inline kvrt_session_props session_props(const kvrt_session* s) {
  kvrt_session_props p;
  KVRT_INIT(&p);
  MUST(kvrt_session_info(s, &p, NULL));
  return p;
}

static inline void prompt_tokens(int32_t* tokens, size_t count, uint64_t seed, uint32_t vocab) {
  for (size_t i = 0; i < count; ++i) tokens[i] = (int32_t)(next_random(&seed) % vocab);
}

// The record of a generation: the tokens and a hash of the logits that each was drawn from.
struct run {
  size_t count;
  int32_t token[kRunMax];
  uint64_t digest[kRunMax];
  uint64_t position[kRunMax];
  uint64_t pending, pending_position;  // the LOGITS event that waits for its TOKEN
  int has_pending, done;
  kvrt_report report;
};

static inline void run_event(struct run* r, const kvrt_event* e) {
  const int has_text = e->type == KVRT_EVENT_TOKEN || e->type == KVRT_EVENT_DONE || e->type >= KVRT_EVENT_CONTENT;
  EXPECT((e->text != NULL) == has_text, "event %u: text %p", e->type, (const void*)e->text);
  if (e->type == KVRT_EVENT_LOGITS) {
    r->pending = hash_logits(e), r->pending_position = e->position, r->has_pending = 1;
  } else if (e->type == KVRT_EVENT_TOKEN && r->count < kRunMax) {
    EXPECT(!r->has_pending || r->pending_position + 1 == e->position, "LOGITS of %" PRIu64 " before TOKEN at %" PRIu64, r->pending_position,
           e->position);
    r->token[r->count] = e->token;
    r->position[r->count] = e->position;
    r->digest[r->count++] = r->has_pending ? r->pending : 0;
    r->has_pending = 0;
  } else if (e->type == KVRT_EVENT_DONE) {
    r->done = 1;
    if (e->report) r->report = *e->report;
  }
}

static inline int32_t run_callback(void* user, const kvrt_event* e) {
  run_event((struct run*)user, e);
  return 0;
}

// Sampled (so that a run visits many tokens) with a fixed seed, past end tokens.
static inline kvrt_generate_options run_options(uint32_t max_tokens) {
  kvrt_generate_options o;
  KVRT_INIT(&o);
  o.max_tokens = max_tokens;
  o.temperature = 0.9f;
  o.top_k = 50;
  o.top_p = 0.95f;
  o.seed = 42;
  o.ignore_eos = 1;
  o.emit_logits = 1;
  return o;
}

static inline void check_report(const kvrt_report* r, const char* what) {
  EXPECT(r->prompt_tokens == r->reused_memory + r->reused_disk + r->prefilled,
         "%s: prompt %" PRIu64 " != memory %" PRIu64 " + disk %" PRIu64 " + prefilled %" PRIu64, what, r->prompt_tokens, r->reused_memory,
         r->reused_disk, r->prefilled);
}

// Generates max_tokens more into `r` (which keeps what it has); the report is of this call.
static inline kvrt_report generate_into(kvrt_session* s, uint32_t max_tokens, struct run* r) {
  const kvrt_generate_options o = run_options(max_tokens);
  kvrt_report report;
  KVRT_INIT(&report);
  MUST(kvrt_session_generate(s, &o, run_callback, r, &report, NULL));
  check_report(&report, "generate");
  EXPECT(report.generated == max_tokens && report.reason == KVRT_REASON_MAX_TOKENS, "generated %" PRIu64 " of %u, reason %u",
         report.generated, max_tokens, report.reason);
  return report;
}

static inline int32_t last_logits_callback(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_LOGITS) *(uint64_t*)user = hash_logits(e);
  return 0;
}

// The hash of the logits of the session's last position.
static inline uint64_t next_digest(kvrt_session* s, kvrt_report* report) {
  kvrt_report local;
  KVRT_INIT(&local);
  if (report == NULL) report = &local;
  report->struct_size = sizeof *report;
  uint64_t digest = 0;
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_LAST, last_logits_callback, &digest, report, NULL));
  check_report(report, "prefill");
  EXPECT(digest != 0, "prefill(LAST) gave no LOGITS event");
  return digest;
}

static inline size_t session_tokens(const kvrt_session* s, int32_t* tokens, size_t capacity) {
  size_t count = 0;
  MUST(kvrt_session_tokens(s, tokens, capacity, &count, NULL));
  return count;
}

static inline kvrt_event next_event(kvrt_session* s, int32_t timeout_ms) {
  kvrt_event e;
  KVRT_INIT(&e);
  MUST(kvrt_session_next(s, &e, timeout_ms, NULL));
  return e;
}

// An event that is there already, without compute; 0: there is none.
static inline int take_event(kvrt_session* s, kvrt_event* e) {
  *e = next_event(s, 0);
  return e->type != KVRT_EVENT_NONE && e->type != KVRT_EVENT_IDLE;
}

// Takes events until DONE.
static inline void drain(kvrt_session* s, struct run* r) {
  while (!r->done) {
    const kvrt_event e = next_event(s, -1);
    REQUIRE(e.type != KVRT_EVENT_NONE && e.type != KVRT_EVENT_IDLE, "next that waits gave nothing");
    run_event(r, &e);
  }
}

// The digest after `count` tokens of a session that computed them at once, alone, and was never interrupted.
static inline uint64_t digest_of(kvrt_model* model, const int32_t* tokens, size_t count) {
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, tokens, count, NULL));
  const uint64_t digest = next_digest(s, NULL);
  kvrt_session_close(s);
  return digest;
}

// The session's next digest is the one of its tokens in a session of its own.
static inline void expect_sound(kvrt_session* s, kvrt_model* reference, const char* what) {
  static _Thread_local int32_t tokens[8192];
  const size_t count = session_tokens(s, tokens, 8192);
  EXPECT(count == 0 || next_digest(s, NULL) == digest_of(reference, tokens, count), "%s: after %zu tokens it goes on differently", what,
         count);
}

static inline int same_run(const struct run* got, const struct run* want) {
  return got->count == want->count && memcmp(got->token, want->token, got->count * sizeof *got->token) == 0 &&
         memcmp(got->digest, want->digest, got->count * sizeof *got->digest) == 0;
}
