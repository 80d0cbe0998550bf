// Checkpoints beside everything else: of a session that another thread generates with, edits or closes, and of one that is between two
// events. A save holds the session as it was at some moment, with the KV of its tokens; the generation does not notice.
#include "support.h"

enum { kPrompt = 150, kLength = 200, kNames = 40 };

static kvrt_model *model, *reference;
static kvrt_store* store;
static uint32_t vocab;

// A saved session holds a beginning of `tokens`, with the right KV: the logits after it are those of a session that computed it alone.
static size_t expect_saved(const char* name, const int32_t* tokens, size_t most, const char* what) {
  static int32_t got[kPrompt + kLength];
  kvrt_session* s = resume_session(model, store, name, NULL);
  const size_t count = session_tokens(s, got, kPrompt + kLength);
  EXPECT(count <= most && memcmp(got, tokens, count * sizeof *got) == 0, "%s %s: %zu tokens, or others", what, name, count);
  EXPECT(next_digest(s, NULL) == digest_of(reference, got, count), "%s %s: other logits after %zu tokens", what, name, count);
  kvrt_session_close(s);
  return count;
}

static kvrt_status checkpoint(kvrt_session* s, const char* name) {
  return kvrt_session_checkpoint(s, name, strlen(name), NULL, NULL, NULL);
}

static kvrt_session* with_prompt(uint64_t seed) {
  int32_t prompt[kPrompt];
  prompt_tokens(prompt, kPrompt, seed, vocab);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  return s;
}

// ---- from another thread

struct generating {
  kvrt_session* session;
  struct run run;
  atomic_int tokens, saves, over;
};

static int32_t count_tokens(void* user, const kvrt_event* e) {
  struct generating* g = user;
  run_event(&g->run, e);
  atomic_store(&g->tokens, (int)g->run.count);
  usleep(400);                                                          // a host's work on a token
  while (atomic_load(&g->saves) < (int)g->run.count / 30) usleep(100);  // however slow the saves are, some meet the generation
  return 0;
}

static void* generate_thread(void* user) {
  struct generating* g = user;
  const kvrt_generate_options o = run_options(kLength);
  EXPECT_STATUS(kvrt_session_generate(g->session, &o, count_tokens, g, NULL, NULL), KVRT_OK);
  atomic_store(&g->over, 1);
  return NULL;
}

static void from_a_thread(const struct run* solo) {
  static struct generating g;
  g.session = with_prompt(1);
  pthread_t thread;
  pthread_create(&thread, NULL, generate_thread, &g);
  char names[kNames][16];
  uint64_t least[kNames];
  size_t saved = 0, while_generating = 0;
  for (; saved < kNames && !atomic_load(&g.over); ++saved) {
    snprintf(names[saved], sizeof names[saved], "t%zu", saved);
    least[saved] = kPrompt + (uint64_t)atomic_load(&g.tokens);
    kvrt_save_report report = {.struct_size = sizeof report};
    MUST(kvrt_session_checkpoint(g.session, names[saved], strlen(names[saved]), NULL, &report, NULL));
    EXPECT(report.tokens >= least[saved] && report.revision == 1, "%" PRIu64 " tokens were accepted, %" PRIu64 " saved", least[saved],
           report.tokens);
    atomic_fetch_add(&g.saves, 1);
    while_generating += report.tokens > kPrompt && report.tokens < kPrompt + kLength;
  }
  pthread_join(thread, NULL);
  EXPECT(while_generating >= 5, "only %zu saves met the generation", while_generating);
  EXPECT(g.run.count == kLength && memcmp(g.run.token, solo->token, sizeof g.run.token) == 0 &&
             memcmp(g.run.digest, solo->digest, sizeof g.run.digest) == 0,
         "the generation came out differently beside %zu saves", saved);
  int32_t tokens[kPrompt + kLength];
  session_tokens(g.session, tokens, kPrompt + kLength);
  kvrt_session_close(g.session);
  for (size_t i = 0; i < saved; ++i) {
    const size_t count = expect_saved(names[i], tokens, kPrompt + kLength, "beside generate");
    EXPECT(count >= least[i], "%s has %zu tokens of %" PRIu64, names[i], count, least[i]);
  }
}

// ---- between two events

static void between_events(const struct run* solo) {
  kvrt_session* s = with_prompt(1);
  const kvrt_generate_options o = run_options(100);
  MUST(kvrt_session_begin(s, &o, NULL));
  struct run r = {0};
  int32_t tokens[kPrompt + kLength];
  while (!r.done) {
    const kvrt_event e = next_event(s, -1);
    run_event(&r, &e);
    if (e.type != KVRT_EVENT_TOKEN || r.count % 17) continue;
    MUST(checkpoint(s, "between"));
    const size_t count = session_tokens(s, tokens, kPrompt + kLength);
    EXPECT(expect_saved("between", tokens, count, "between events") == count, "not all of %zu tokens", count);
  }
  EXPECT(r.count == 100 && memcmp(r.token, solo->token, 100 * sizeof *r.token) == 0 &&
             memcmp(r.digest, solo->digest, 100 * sizeof *r.digest) == 0,
         "the generation came out differently");
  kvrt_session_close(s);
}

// ---- beside edits, and at once

struct saver {
  kvrt_session* session;
  char name[16];
  uint32_t durability;
  kvrt_save_report report;
  kvrt_status status;
  atomic_int over;
};

static void* save_thread(void* user) {
  struct saver* v = user;
  v->report.struct_size = sizeof v->report;
  const kvrt_save_options o = {.struct_size = sizeof o, .durability = v->durability};
  v->status = kvrt_session_checkpoint(v->session, v->name, strlen(v->name), &o, &v->report, NULL);
  atomic_store(&v->over, 1);
  return NULL;
}

static void beside_edits(void) {
  for (int round = 0; round < 24; ++round) {
    kvrt_session* s = with_prompt(100 + (uint64_t)round);
    MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
    int32_t before[kPrompt], after[kPrompt + 40], more[40];
    session_tokens(s, before, kPrompt);
    prompt_tokens(more, 40, 900 + (uint64_t)round, vocab);
    struct saver v = {.session = s}, w = {.session = s};
    snprintf(v.name, sizeof v.name, "e%d", round);
    snprintf(w.name, sizeof w.name, round % 2 ? "e%d" : "f%d", round);
    pthread_t one, two;
    pthread_create(&one, NULL, save_thread, &v);
    pthread_create(&two, NULL, save_thread, &w);
    usleep((useconds_t)(round * 60));
    kvrt_session* copy = NULL;
    if (round % 3 == 0) MUST(kvrt_session_truncate(s, 41, NULL));
    if (round % 3 == 1) MUST(kvrt_session_erase(s, 20, 90, NULL));
    if (round % 3 == 2) MUST(kvrt_session_fork(s, NULL, &copy, NULL));
    MUST(kvrt_session_append(s, more, 40, NULL));  // over the blocks that are being saved
    MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
    const size_t count = session_tokens(s, after, kPrompt + 40);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    EXPECT(v.status == KVRT_OK && w.status == KVRT_OK, "round %d: %s, %s", round, kvrt_status_name(v.status), kvrt_status_name(w.status));
    const struct saver* savers[] = {&v, &w};
    for (int i = 0; i < 2; ++i) {  // the one or the other state, or the one between: truncated, nothing appended yet
      const struct saver* x = savers[i];
      const int32_t* tokens = x->report.tokens == kPrompt && round % 3 != 2 ? before : after;
      if (round % 2 == 0) EXPECT(expect_saved(x->name, tokens, x->report.tokens, "beside edits") == x->report.tokens, "round %d", round);
    }
    if (round % 2)
      expect_saved(v.name,
                   v.report.revision > w.report.revision ? (v.report.tokens == kPrompt ? before : after)
                                                         : (w.report.tokens == kPrompt ? before : after),
                   kPrompt + 40, "twice at once");
    if (copy) {
      expect_sound(copy, reference, "the fork");
      kvrt_session_close(copy);
    }
    EXPECT(next_digest(s, NULL) == digest_of(reference, after, count), "round %d: the session has other logits", round);
    kvrt_session_close(s);
  }
}

static off_t segment_bytes;

static int add_segment(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)f;
  const size_t size = strlen(path);
  if (type == FTW_F && size > 4 && strcmp(path + size - 4, ".seg") == 0) segment_bytes += s->st_size;
  return 0;
}

static off_t bytes_in_segments(const char* dir) {
  segment_bytes = 0;
  nftw(dir, add_segment, 16, FTW_PHYS);
  return segment_bytes;
}

// close waits for the save to end. That the save has begun is seen by the growth of the store's segments.
static void beside_close(const char* dir) {
  int met = 0;
  for (int round = 0; round < 200 && met < 3; ++round) {
    kvrt_session* s = with_prompt(500 + (uint64_t)round);
    MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
    int32_t tokens[kPrompt];
    session_tokens(s, tokens, kPrompt);
    struct saver v = {.session = s, .durability = KVRT_DURABILITY_KV};  // it takes its time
    snprintf(v.name, sizeof v.name, "c%d", round);
    pthread_t thread;
    const off_t before = bytes_in_segments(dir);
    pthread_create(&thread, NULL, save_thread, &v);
    int begun = 0;
    while (!begun && !atomic_load(&v.over)) begun = bytes_in_segments(dir) > before;
    met += !atomic_load(&v.over);
    if (begun) kvrt_session_close(s);
    pthread_join(thread, NULL);
    if (!begun) kvrt_session_close(s);
    EXPECT(v.status == KVRT_OK, "beside close: %s", kvrt_status_name(v.status));
    EXPECT(expect_saved(v.name, tokens, kPrompt, "beside close") == kPrompt, "round %d", round);
  }
  EXPECT(met > 0, "no close met a save");
}

int main(void) {
  char tiny[kPathMax], dir[kPathMax];
  tiny_path(tiny, 0);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(2, 0);
  model = open_model(rt, tiny, 0, 16, 4096);
  reference = open_model(rt, tiny, 0, 32, 4096);
  vocab = model_props(model).vocab_size;
  store = open_store(rt, dir);
  static struct run solo;
  int32_t prompt[kPrompt];
  prompt_tokens(prompt, kPrompt, 1, vocab);
  kvrt_session* s = open_session(reference, NULL, 1);
  MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  generate_into(s, kLength, &solo);
  kvrt_session_close(s);
  from_a_thread(&solo);
  between_events(&solo);
  beside_edits();
  beside_close(dir);
  expect_no_leaks(model);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(reference);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
