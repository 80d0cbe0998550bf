// Recurrent layers: a state in the store that is damaged or gone costs time, never a bit; what forks from a session goes on apart from it.
#include <glob.h>

#include "chat.h"

enum { kBlock = 16, kTokens = 300, kBack = 150, kPlaces = 24 };

struct stage {
  kvrt_runtime* rt;
  char path[kPathMax], dir[kPathMax];
  int32_t tokens[kTokens];
  uint64_t want[kTokens];  // digests of one uninterrupted run
  uint32_t damaged, computed;
};

static int32_t each_digest(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_LOGITS && e->position < kTokens) ((uint64_t*)user)[e->position] = hash_logits(e);
  return 0;
}

static void without_interruption(struct stage* t) {
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
  EXPECT(is_recurrent(model), "%s has no recurrent layer", t->path);
  prompt_tokens(t->tokens, kTokens, 11, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_ALL, each_digest, t->want, NULL, NULL));
  kvrt_session_close(s);
  kvrt_model_release(model);
}

// A store with a session of all tokens, with states at two boundaries and at its end.
static void save(struct stage* t) {
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
  kvrt_store* store = open_store(t->rt, t->dir);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  MUST(kvrt_session_mark(s, 64, NULL));
  MUST(kvrt_session_mark(s, 128, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "one", 3, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
}

// Flips a byte of the segment, at `place` of kPlaces, or cuts it there.
static void damage(const struct stage* t, int place, int cut) {
  char pattern[kPathMax + 32];
  snprintf(pattern, sizeof pattern, "%s/segs/*/*.seg", t->dir);
  glob_t found;
  REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1, "one segment");
  FILE* f = fopen(found.gl_pathv[0], "r+b");
  REQUIRE(f != NULL && fseek(f, 0, SEEK_END) == 0, "%s", found.gl_pathv[0]);
  const long at = 200 + (ftell(f) - 200) * place / kPlaces;
  if (cut) {
    REQUIRE(ftruncate(fileno(f), at) == 0, "%s cannot be cut", found.gl_pathv[0]);
  } else {
    fseek(f, at, SEEK_SET);
    const int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 0x55, f);
  }
  fclose(f);
  globfree(&found);
}

static void damaged(struct stage* t) {
  for (int trial = 0; trial < 2 * kPlaces; ++trial) {
    save(t);
    damage(t, trial / 2, trial % 2);
    kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
    kvrt_store* store = open_store(t->rt, t->dir);
    kvrt_report r = {.struct_size = sizeof r};
    kvrt_session* s = resume_session(model, store, "one", &r);
    t->damaged += r.reuse_stopped == KVRT_REUSE_DAMAGED;
    t->computed += r.prefilled > kBlock;
    EXPECT(next_digest(s, NULL) == t->want[kTokens - 1], "trial %d: it goes on differently", trial);
    MUST(kvrt_session_truncate(s, kBack, NULL));
    EXPECT(next_digest(s, NULL) == t->want[kBack - 1], "trial %d: cut, it goes on differently", trial);
    kvrt_session_close(s);
    kvrt_store_release(store);
    expect_no_leaks(model);
    kvrt_model_release(model);
    remove_tree(t->dir);
  }
}

// Each fork goes on with its own state, whoever goes first.
static void forks(struct stage* t) {
  enum { kForks = 3, kAt = 100 };
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
  kvrt_session* s[kForks];
  s[0] = open_session(model, NULL, 0);
  MUST(kvrt_session_append(s[0], t->tokens, kAt, NULL));
  MUST(kvrt_session_prefill(s[0], KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  for (int i = 1; i < kForks; ++i) MUST(kvrt_session_fork(s[0], NULL, &s[i], NULL));
  for (size_t n = kAt; n < kTokens; n += 25) {
    for (int i = 0; i < kForks; ++i) {
      MUST(kvrt_session_append(s[i], t->tokens + n, 25, NULL));
      kvrt_report r = {.struct_size = sizeof r};
      const uint64_t digest = next_digest(s[i], &r);
      EXPECT(digest == t->want[n + 24], "fork %d at %zu differs", i, n + 25);
      EXPECT(r.recomputed == 0, "fork %d at %zu computes %" PRIu64 " again", i, n + 25, r.recomputed);
    }
  }
  for (int i = 0; i < kForks; ++i) kvrt_session_close(s[i]);
  expect_no_leaks(model);
  kvrt_model_release(model);
}

int main(void) {
  static const char* const models[] = {"row_lfm2", "row_granitehybrid_moe", "row_qwen3next", "row_qwen35", "row_nemotron_h"};
  static struct stage t;
  t.rt = open_runtime(2, 0);
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    make_dir(t.dir);
    snprintf(t.path, sizeof t.path, "%s/%s.gguf", tiny_dir(), models[i]);
    strcat(t.dir, "/store");
    t.damaged = t.computed = 0;
    without_interruption(&t);
    damaged(&t);
    EXPECT(t.damaged > kPlaces / 4 && t.computed > kPlaces / 4, "%s: %u of %d damaged, %u computed again", models[i], t.damaged,
           2 * kPlaces, t.computed);
    forks(&t);
    *strrchr(t.dir, '/') = 0;
    remove_tree(t.dir);
  }
  kvrt_runtime_release(t.rt);
  return finish();
}
