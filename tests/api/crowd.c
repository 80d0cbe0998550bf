// 64 sessions from 8 threads on a pool for a quarter of their tokens: all finish, each with the tokens and digests of its solo run, and at
// the peak the pool's blocks are in use and full. crowd [tiny]: on a tiny model instead of the real one.
#include "support.h"

enum { kThreads = 8, kEach = 8, kSessions = kThreads * kEach, kShare = 4, kBlock = 16, kPromptMax = 640 };

static struct member {
  int32_t prompt[kPromptMax];
  size_t count;
  uint32_t length;
  struct run solo, got;
  kvrt_session* _Atomic session;
} members[kSessions];

static kvrt_model* model;
static size_t shared_tokens;  // of a group of kShare sessions
static uint64_t pool_tokens;
static atomic_int finished, watching = 1;

// Lengths that end anywhere in a block.
static void make_prompts(uint32_t vocab) {
  uint64_t random = 2024, all = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    struct member* m = &members[i];
    prompt_tokens(m->prompt, shared_tokens, 100 + i / kShare, vocab);
    const size_t own = (shared_tokens > 100 ? 260 : 40) + next_random(&random) % 61;
    m->count = shared_tokens + own;
    m->length = 12 + (uint32_t)(next_random(&random) % 13);
    prompt_tokens(m->prompt + shared_tokens, own, 5000 + i, vocab);
    all += own + m->length + (i % kShare == 0 ? shared_tokens : 0);
  }
  pool_tokens = all / 4 / kBlock * kBlock;
  printf("%d sessions with %" PRIu64 " different tokens, a pool for %" PRIu64 "\n", kSessions, all, pool_tokens);
}

// Runs each alone: nobody else generates, and the pool holds it easily. The common beginning of a group is computed once and forked.
static void solo_runs(kvrt_runtime* rt, const char* path) {
  kvrt_model* own = open_model(rt, path, 0, 64, 0);
  kvrt_session* common = NULL;
  for (size_t i = 0; i < kSessions; ++i) {
    struct member* m = &members[i];
    if (i % kShare == 0) {
      kvrt_session_close(common);
      common = open_session(own, NULL, 1);
      MUST(kvrt_session_append(common, m->prompt, shared_tokens, NULL));
      MUST(kvrt_session_prefill(common, 0, NULL, NULL, NULL, NULL));
    }
    kvrt_session* s = NULL;
    MUST(kvrt_session_fork(common, NULL, &s, NULL));
    MUST(kvrt_session_append(s, m->prompt + shared_tokens, m->count - shared_tokens, NULL));
    generate_into(s, m->length, &m->solo);
    kvrt_session_close(s);
  }
  kvrt_session_close(common);
  kvrt_model_release(own);
}

static void* worker(void* user) {
  struct member* mine = (struct member*)user;
  for (int i = 0; i < kEach; ++i) {
    const kvrt_generate_options o = run_options(mine[i].length);
    kvrt_session* s = open_session(model, NULL, 0);
    MUST(kvrt_session_append(s, mine[i].prompt, mine[i].count, NULL));
    MUST(kvrt_session_begin(s, &o, NULL));
    atomic_store(&mine[i].session, s);
  }
  for (int left = kEach; left != 0;) {
    for (int i = 0; i < kEach; ++i) {
      struct member* m = &mine[i];
      if (m->got.done) continue;
      kvrt_event e = {.struct_size = sizeof e};
      const kvrt_status status = kvrt_session_next(m->session, &e, -1, NULL);
      EXPECT(status == KVRT_OK, "session %d: %s: %s", (int)(m - members), kvrt_status_name(status), last_message());
      if (status == KVRT_OK) run_event(&m->got, &e);
      if (status != KVRT_OK) m->got.done = 1;
      if (m->got.done) --left, atomic_fetch_add(&finished, 1);
    }
  }
  return NULL;
}

// ---- utilisation at the peak --------------------------------------------------------------------------------------------------------

static double peak_blocks, peak_slots;

// Tokens with KV in the pool's used blocks, shared blocks once: a full block is one by all the tokens up to its end.
static uint64_t tokens_stored(void) {
  static uint64_t seen[kSessions * (kPromptMax / kBlock)];
  size_t n = 0;
  uint64_t stored = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    kvrt_session* s = members[i].session;
    if (s == NULL) continue;
    int32_t tokens[2 * kPromptMax];
    const uint64_t kv = session_props(s).kv_tokens;
    (void)session_tokens(s, tokens, 2 * kPromptMax);
    uint64_t h = 1;
    for (uint64_t end = kBlock; end <= kv; end += kBlock) {
      h = hash_bytes(h, tokens + end - kBlock, kBlock * sizeof *tokens);
      size_t at = 0;
      while (at < n && seen[at] != h) ++at;
      if (at < n) continue;
      seen[n++] = h;
      stored += kBlock;
    }
    stored += kv % kBlock;
  }
  return stored;
}

// Looks between two steps: a sample counts when nothing moved meanwhile.
static void* watch(void* user) {
  (void)user;
  while (atomic_load(&watching)) {
    const kvrt_metrics before = metrics_of(model);
    const uint64_t stored = tokens_stored();
    const kvrt_metrics after = metrics_of(model);
    if (before.steps == after.steps && before.units_used == after.units_used && before.units_used != 0) {
      const double blocks = (double)before.units_used / (double)before.units;
      const double slots = (double)stored / (double)(before.units_used * kBlock);
      if (blocks > peak_blocks) peak_blocks = blocks, peak_slots = 0;
      if (blocks == peak_blocks && slots > peak_slots) peak_slots = slots;
    }
    usleep(500);
  }
  return NULL;
}

int main(int argc, char** argv) {
  char path[kPathMax];
  const int tiny = argc > 1 && strcmp(argv[1], "tiny") == 0;
  if (tiny) {
    tiny_path(path, 0);
  } else if (!find_real(path)) {
    printf("no model %s\n", path);
    return kSkip;
  }
  shared_tokens = 160;
  kvrt_runtime* rt = open_runtime(2, 0);
  model = open_model(rt, path, 0, 32, 0);
  make_prompts(model_props(model).vocab_size);
  kvrt_model_release(model);
  double start = now_ms();
  solo_runs(rt, path);
  printf("solo runs: %.1f s\n", (now_ms() - start) / 1e3);
  start = now_ms();
  model = open_model(rt, path, 0, kBlock, pool_tokens);
  pthread_t threads[kThreads], watcher;
  pthread_create(&watcher, NULL, watch, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, worker, &members[i * kEach]);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  atomic_store(&watching, 0);
  pthread_join(watcher, NULL);
  const double seconds = (now_ms() - start) / 1e3;
  uint64_t recomputed = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    struct member* m = &members[i];
    EXPECT(m->got.report.reason == KVRT_REASON_MAX_TOKENS && m->got.count == m->length, "session %zu: reason %u, %zu tokens of %u", i,
           m->got.report.reason, m->got.count, m->length);
    EXPECT(same_run(&m->got, &m->solo), "session %zu went on differently in the crowd", i);
    check_report(&m->got.report, "crowd");
    recomputed += m->got.report.recomputed;
    kvrt_session_close(m->session);
  }
  const kvrt_metrics m = metrics_of(model);
  printf("%d of %d finished in %.1f s; %" PRIu64 " blocks; at the peak %.4f of the blocks in use, %.4f of their slots full\n",
         atomic_load(&finished), kSessions, seconds, m.units, peak_blocks, peak_slots);
  printf("%" PRIu64 " steps, %" PRIu64 " preemptions, %" PRIu64 " rows recomputed, %" PRIu64 " evictions, prefilled %" PRIu64
         ", reused %" PRIu64 "\n",
         m.steps, m.preemptions, m.recomputed, m.evictions, m.prefilled, m.reused_memory);
  EXPECT(m.units == pool_tokens / kBlock, "%" PRIu64 " blocks", m.units);
  EXPECT(m.recomputed == recomputed && m.done_max_tokens == kSessions, "recomputed %" PRIu64 ", reports %" PRIu64, m.recomputed,
         recomputed);
  EXPECT(m.units_used == 0 && m.sessions == 0, "%" PRIu64 " blocks used by nobody", m.units_used);
  EXPECT(peak_blocks >= 0.96, "%.4f of the blocks were in use at the peak", peak_blocks);
  if (!tiny) EXPECT(peak_slots >= 0.96, "%.4f of the used blocks' slots held tokens at the peak", peak_slots);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  return finish();
}
