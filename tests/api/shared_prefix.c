// Sessions that need the same prefix at the same time compute it once, also when the pool is short; one that nobody reads stops at its
// 64 unread events, lends its blocks and goes on right.
#include "support.h"

enum { kBlock = 16, kPrefix = 10 * kBlock, kTail = 21, kLength = 12, kMost = 8 };

static kvrt_runtime* rt;
static char path[kPathMax];
static kvrt_model* reference;
static uint32_t vocab;

static void make_prompt(int32_t* tokens, size_t i) {
  prompt_tokens(tokens, kPrefix, 7, vocab);
  prompt_tokens(tokens + kPrefix, kTail, 70 + i, vocab);
}

static void solo(size_t i, struct run* want) {
  int32_t tokens[kPrefix + kTail];
  make_prompt(tokens, i);
  kvrt_session* s = open_session(reference, NULL, 1);
  MUST(kvrt_session_append(s, tokens, kPrefix + kTail, NULL));
  generate_into(s, kLength, want);
  kvrt_session_close(s);
}

struct reader {
  kvrt_session* s;
  struct run* r;
};

static void* read_to_end(void* user) {
  struct reader* reader = user;
  drain(reader->s, reader->r);
  return NULL;
}

// n sessions begun together, read in turn by one thread or by a thread each. pool_tokens 0: plenty.
static void together(int n, uint64_t pool_tokens, int threads) {
  static struct run want[kMost], got[kMost];
  char what[96];
  snprintf(what, sizeof what, "%d sessions, pool of %" PRIu64 ", %s", n, pool_tokens, threads ? "a thread each" : "one thread");
  kvrt_model* model = open_model(rt, path, 0, kBlock, pool_tokens);
  kvrt_session* s[kMost];
  memset(got, 0, sizeof got);
  memset(want, 0, sizeof want);
  for (int i = 0; i < n; ++i) {
    int32_t tokens[kPrefix + kTail];
    solo((size_t)i, &want[i]);
    make_prompt(tokens, (size_t)i);
    s[i] = open_session(model, NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, kPrefix + kTail, NULL));
  }
  for (int i = 0; i < n; ++i) {
    const kvrt_generate_options o = run_options(kLength);
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  pthread_t thread[kMost];
  struct reader readers[kMost];
  for (int i = 0; i < n && threads; ++i) {
    readers[i] = (struct reader){s[i], &got[i]};
    pthread_create(&thread[i], NULL, read_to_end, &readers[i]);
  }
  for (int i = 0; i < n && threads; ++i) pthread_join(thread[i], NULL);
  for (int left = n; left != 0 && !threads;) {
    for (int i = 0; i < n; ++i) {
      if (got[i].done) continue;
      const kvrt_event e = next_event(s[i], -1);
      run_event(&got[i], &e);
      left -= got[i].done;
    }
  }
  uint64_t prefilled = 0, recomputed = 0;
  for (int i = 0; i < n; ++i) {
    EXPECT(same_run(&got[i], &want[i]), "%s: session %d differs", what, i);
    check_report(&got[i].report, what);
    prefilled += got[i].report.prefilled;
    recomputed += got[i].report.recomputed;
    kvrt_session_close(s[i]);
  }
  const kvrt_metrics m = metrics_of(model);
  printf("%s: prefilled %" PRIu64 ", recomputed %" PRIu64 ", %" PRIu64 " steps, %" PRIu64 " preemptions\n", what, prefilled, recomputed,
         m.steps, m.preemptions);
  EXPECT(prefilled == kPrefix + (uint64_t)n * kTail, "%s: prefilled %" PRIu64 ", the prefix once is %d", what, prefilled,
         kPrefix + n * kTail);
  EXPECT(m.prefilled == prefilled && m.recomputed == recomputed, "%s: metrics", what);
  EXPECT(m.units_used == 0, "%s: units leak", what);
  kvrt_model_release(model);
}

// All prompts are the same: only the last token runs for each of the others.
static void identical(int n) {
  kvrt_model* model = open_model(rt, path, 0, kBlock, 0);
  kvrt_session* s[kMost];
  static struct run want, got[kMost];
  int32_t tokens[kPrefix];
  prompt_tokens(tokens, kPrefix, 7, vocab);
  kvrt_session* alone = open_session(reference, NULL, 1);
  MUST(kvrt_session_append(alone, tokens, kPrefix, NULL));
  memset(&want, 0, sizeof want);
  memset(got, 0, sizeof got);
  generate_into(alone, kLength, &want);
  kvrt_session_close(alone);
  const kvrt_generate_options o = run_options(kLength);
  for (int i = 0; i < n; ++i) {
    s[i] = open_session(model, NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, kPrefix, NULL));
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  uint64_t prefilled = 0;
  for (int i = 0; i < n; ++i) {
    drain(s[i], &got[i]);
    EXPECT(same_run(&got[i], &want), "identical session %d differs", i);
    prefilled += got[i].report.prefilled;
    kvrt_session_close(s[i]);
  }
  EXPECT(prefilled == kPrefix + (uint64_t)n - 1, "%d identical: prefilled %" PRIu64, n, prefilled);
  kvrt_model_release(model);
}

// Nobody reads `idle` while others need every block of the pool.
static void unread(void) {
  enum { kLong = 150, kPool = 26 * kBlock };
  kvrt_model* model = open_model(rt, path, 0, kBlock, kPool);
  static struct run want, got, others;
  int32_t tokens[kPool];
  prompt_tokens(tokens, 40, 3, vocab);
  for (int which = 0; which < 2; ++which) {
    memset(which ? &got : &want, 0, sizeof want);
    kvrt_session* s = open_session(which ? model : reference, NULL, 1);
    MUST(kvrt_session_append(s, tokens, 40, NULL));
    if (which == 0) {
      generate_into(s, kLong, &want);
      kvrt_session_close(s);
      continue;
    }
    const kvrt_generate_options o = run_options(kLong);
    MUST(kvrt_session_begin(s, &o, NULL));
    uint32_t left = 1;
    for (int i = 0; i < 1000 && left != 0; ++i) MUST(kvrt_model_step(model, 0, &left, NULL));
    const uint64_t unread = session_props(s).events_unread;  // a step gives LOGITS and TOKEN
    EXPECT(left == 0 && unread >= 64 && unread <= 65, "%u runnable, %" PRIu64 " unread", left, unread);
    EXPECT(session_props(s).state == KVRT_STATE_GENERATING && metrics_of(model).paused == 1, "it pauses");
    const uint64_t held = session_props(s).kv_units, paused_at = session_props(s).tokens;
    for (uint64_t seed = 0; seed < 3; ++seed) {  // each of them needs nearly all
      kvrt_session* big = open_session(model, NULL, 1);
      int32_t many[kPool - kBlock];
      prompt_tokens(many, kPool - kBlock, 900 + seed, vocab);
      MUST(kvrt_session_append(big, many, kPool - kBlock, NULL));
      memset(&others, 0, sizeof others);
      generate_into(big, 8, &others);
      kvrt_session_close(big);
    }
    EXPECT(held > 3 && session_props(s).kv_units == 0 && metrics_of(model).preemptions == 1, "%" PRIu64 " blocks not lent",
           session_props(s).kv_units);
    EXPECT(session_props(s).tokens == paused_at && session_props(s).events_unread == unread, "it went on unread");
    drain(s, &got);
    EXPECT(same_run(&got, &want), "after its blocks were lent it went on differently");
    EXPECT(got.report.recomputed > 0, "nothing was computed again");
    kvrt_session_close(s);
  }
  kvrt_model_release(model);
}

int main(void) {
  tiny_path(path, 0);
  rt = open_runtime(2, 0);
  reference = open_model(rt, path, 0, 64, 0);
  vocab = model_props(reference).vocab_size;
  // Under pressure: the prefix, and tails for a few of them at a time.
  const uint64_t pools[] = {0, kPrefix + 6 * 3 * kBlock};
  for (int n = 2; n <= kMost; n += 6) {
    for (int p = 0; p < 2; ++p) {
      for (int threads = 0; threads < 2; ++threads) together(n, pools[p], threads);
    }
    identical(n);
  }
  unread();
  kvrt_model_release(reference);
  kvrt_runtime_release(rt);
  return finish();
}
