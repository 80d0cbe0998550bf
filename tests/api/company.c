// A generation does not depend on its company: the number of threads, another model that is opened, sessions without end.
// company [real]: 200 open sessions on the real model too.
#include "support.h"

enum { kLength = 40, kBlock = 16, kOpen = 200, kGenerating = 4 };

static char path[kPathMax];
static uint32_t vocab;
static atomic_int stop;

static void prompt_of(size_t i, int32_t tokens[60]) { prompt_tokens(tokens, 60, 300 + i, vocab); }

static void solo(kvrt_model* model, size_t i, uint32_t length, struct run* want) {
  int32_t tokens[60];
  prompt_of(i, tokens);
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, tokens, 40 + i % 21, NULL));
  memset(want, 0, sizeof *want);
  generate_into(s, length, want);
  kvrt_session_close(s);
}

static void* change_threads(void* user) {
  uint64_t random = 5;
  int changes = 0;
  for (; !atomic_load(&stop); ++changes) {
    MUST(kvrt_runtime_set_threads(user, (uint32_t)(next_random(&random) % 5), NULL));
    usleep(200);
  }
  EXPECT(changes > 3, "%d changes", changes);
  return NULL;
}

static void threads(kvrt_runtime* rt, kvrt_model* model) {
  static struct run want, got;
  const uint32_t counts[] = {1, 2, 3, 8, 256, 0};
  solo(model, 1, kLength, &want);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    MUST(kvrt_runtime_set_threads(rt, counts[i], NULL));
    kvrt_runtime_props p = {.struct_size = sizeof p};
    MUST(kvrt_runtime_info(rt, &p, NULL));
    EXPECT(counts[i] ? p.threads == counts[i] : p.threads >= 1, "%u threads, asked for %u", p.threads, counts[i]);
    solo(model, 1, kLength, &got);
    EXPECT(same_run(&got, &want), "%u threads say something else", counts[i]);
  }
  pthread_t thread;
  atomic_store(&stop, 0);
  pthread_create(&thread, NULL, change_threads, rt);
  for (int i = 0; i < 30; ++i) {
    solo(model, 1, kLength, &got);
    EXPECT(same_run(&got, &want), "threads that change make it say something else");
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  MUST(kvrt_runtime_set_threads(rt, 2, NULL));
}

static atomic_int opened;

static void* open_models(void* user) {
  while (!atomic_load(&stop)) {
    kvrt_model* other = open_model(user, path, 0, kBlock, 0);
    static struct run first, got;
    const int n = atomic_fetch_add(&opened, 1);
    solo(other, 2, 8, n == 0 ? &first : &got);
    EXPECT(n == 0 || same_run(&got, &first), "the other model says something else");
    kvrt_model_release(other);
  }
  return NULL;
}

static void second_model(kvrt_runtime* rt, kvrt_model* model) {
  static struct run want, got;
  solo(model, 3, kLength, &want);
  pthread_t thread;
  atomic_store(&stop, 0);
  pthread_create(&thread, NULL, open_models, rt);
  int runs = 0;
  for (; runs < 20 || (atomic_load(&opened) < 3 && runs < 100000); ++runs) {
    solo(model, 3, kLength, &got);
    EXPECT(same_run(&got, &want), "beside a model that loads it says something else");
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  EXPECT(atomic_load(&opened) >= 3, "%d models opened in %d runs", atomic_load(&opened), runs);
}

// 200 open sessions, 4 of which generate, and blocks for 20: every call succeeds, turn after turn.
static void many_open(kvrt_runtime* rt, int turns) {
  enum { kPool = 20 * 6 * kBlock };  // each has up to 60 + 24 tokens
  static struct run want[kOpen], got[kOpen];
  kvrt_model* reference = open_model(rt, path, 0, 64, 0);
  kvrt_model* model = open_model(rt, path, 0, kBlock, kPool);
  kvrt_session* s[kOpen];
  const uint32_t length = turns == 1 ? 8 : 24;
  uint64_t random = 8, begun = 0;
  for (size_t i = 0; i < kOpen; ++i) {
    int32_t tokens[60];
    solo(reference, i, length, &want[i]);
    prompt_of(i, tokens);
    s[i] = open_session(model, NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, 40 + i % 21, NULL));
    memset(&got[i], 0, sizeof got[i]);
  }
  EXPECT(metrics_of(model).sessions == kOpen, "%" PRIu64 " open", metrics_of(model).sessions);
  // In random order, each in `turns` parts, so that most come back after others have had their blocks.
  for (int turn = 0; turn < turns; ++turn) {
    size_t order[kOpen];
    for (size_t i = 0; i < kOpen; ++i) order[i] = i;
    for (size_t i = kOpen - 1; i > 0; --i) {
      const size_t j = next_random(&random) % (i + 1), was = order[i];
      order[i] = order[j], order[j] = was;
    }
    size_t running[kGenerating], count = 0, at = 0;
    while (at < kOpen || count > 0) {
      while (count < kGenerating && at < kOpen) {
        const kvrt_generate_options o = run_options(length / (uint32_t)turns);
        MUST(kvrt_session_begin(s[order[at]], &o, NULL));
        got[order[at]].done = 0;
        running[count++] = order[at++];
        ++begun;
      }
      EXPECT(metrics_of(model).generating == count, "%" PRIu64 " generate, expected %zu", metrics_of(model).generating, count);
      for (size_t k = 0; k < count;) {
        const kvrt_event e = next_event(s[running[k]], -1);
        run_event(&got[running[k]], &e);
        if (got[running[k]].done)
          running[k] = running[--count];
        else
          ++k;
      }
    }
  }
  for (size_t i = 0; i < kOpen; ++i) {
    EXPECT(same_run(&got[i], &want[i]), "session %zu of %d open ones says something else", i, kOpen);
    EXPECT(session_props(s[i]).state == KVRT_STATE_IDLE, "state %u", session_props(s[i]).state);
    kvrt_session_close(s[i]);
  }
  const kvrt_metrics m = metrics_of(model);
  printf("%d open, %d generating: %" PRIu64 " generations, %" PRIu64 " blocks, %" PRIu64 " evictions, %" PRIu64 " preemptions\n", kOpen,
         kGenerating, m.generations, m.units, m.evictions, m.preemptions);
  EXPECT(m.generations == begun && m.done_max_tokens == begun && m.failed == 0, "%" PRIu64 " ended", m.done_max_tokens);
  EXPECT(m.units_used == 0 && m.sessions == 0, "%" PRIu64 " units leak", m.units_used);
  kvrt_model_release(model);
  kvrt_model_release(reference);
}

int main(int argc, char** argv) {
  const int real = argc > 1 && strcmp(argv[1], "real") == 0;
  if (real && !find_real(path)) return kSkip;
  if (!real) tiny_path(path, 0);
  kvrt_runtime* rt = open_runtime(2, 0);
  kvrt_model* model = open_model(rt, path, 0, kBlock, 0);
  vocab = model_props(model).vocab_size;
  if (!real) threads(rt, model);
  if (!real) second_model(rt, model);
  kvrt_model_release(model);
  many_open(rt, real ? 1 : 3);
  kvrt_runtime_release(rt);
  return finish();
}
