// Recurrent layers: a state in the store that is damaged or gone costs time, never a bit; what forks from a session goes on apart from it.
#include <glob.h>

#include "chat.h"

enum { kBlock = 16, kTokens = 300, kReplay = 1024, kBack = 150, kPlaces = 24 };

struct stage {
  kvrt_runtime* rt;
  char path[kPathMax], dir[kPathMax];
  int32_t tokens[kTokens];
  uint64_t want[kTokens];  // digests of one uninterrupted run
  uint32_t damaged, computed;
  uint32_t marked;  // pools that keep a state of more than a quarter of theirs
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

// What the application marked is in the store after a save: a resumed session, and another with the same tokens, go on from each mark.
// Where a mark is the end of a block and no token follows it, from the end of the block before.
static void marks(struct stage* t) {
  static const size_t at[] = {32, 48, 103, 250};  // the pool of each model has room for these
  enum { kMarks = sizeof at / sizeof *at };
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
  kvrt_store* store = open_store(t->rt, t->dir);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  for (size_t i = 0; i < kMarks; ++i) MUST(kvrt_session_mark(s, at[i], NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "one", 3, NULL, NULL, NULL));
  kvrt_session_close(s);
  for (size_t i = 0; i < 3 * kMarks; ++i) {
    const size_t mark = at[i / 3], end = mark / kBlock * kBlock, n = i % 3 == 0 ? end : mark + 1;
    kvrt_model_release(model);
    model = open_model(t->rt, t->path, 0, kBlock, 0);  // with nothing in memory
    kvrt_report r = {.struct_size = sizeof r};
    if (i % 3 < 2) {
      s = resume_session(model, store, "one", &r);
      MUST(kvrt_session_truncate(s, n, NULL));
    } else {
      s = open_session(model, store, 0);
      MUST(kvrt_session_append(s, t->tokens, n, NULL));
    }
    EXPECT(next_digest(s, &r) == t->want[n - 1], "mark %zu, cut to %zu: it goes on differently", mark, n);
    const uint64_t computed = i % 3 == 0 && mark == end ? kBlock : n > end ? n - end : kReplay;
    EXPECT(r.prefilled <= computed, "mark %zu, cut to %zu: %" PRIu64 " computed, %" PRIu64 " from disk", mark, n, r.prefilled,
           r.reused_disk);
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  expect_no_leaks(model);
  kvrt_model_release(model);
  remove_tree(t->dir);
}

// An edit of a long prompt's last words computes its last blocks alone: in memory, and after a restart.
static void edited(struct stage* t) {
  enum { kCut = kTokens - kBlock / 2 };
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 0);
  kvrt_store* store = open_store(t->rt, t->dir);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_checkpoint(s, "one", 3, NULL, NULL, NULL));
  for (int restarted = 0; restarted < 2; ++restarted) {
    if (restarted) {
      kvrt_session_close(s);
      kvrt_model_release(model);
      model = open_model(t->rt, t->path, 0, kBlock, 0);
      s = resume_session(model, store, "one", NULL);
    }
    MUST(kvrt_session_truncate(s, kCut, NULL));
    kvrt_report r = {.struct_size = sizeof r};
    EXPECT(next_digest(s, &r) == t->want[kCut - 1], "%s, edited: it goes on differently", t->path);
    EXPECT(r.prefilled <= 3 * kBlock, "%s, edited, restarted %d: %" PRIu64 " computed", t->path, restarted, r.prefilled);
  }
  kvrt_session_close(s);
  kvrt_store_release(store);
  expect_no_leaks(model);
  kvrt_model_release(model);
  remove_tree(t->dir);
}

static kvrt_plan plan_of(struct stage* t, uint64_t tokens) {
  const kvrt_plan_options o = {.struct_size = sizeof o, .session_tokens = tokens, .block_tokens = kBlock};
  kvrt_plan p = {.struct_size = sizeof p};
  MUST(kvrt_model_plan(t->rt, t->path, strlen(t->path), &o, &p, NULL));
  return p;
}

// A pool that is planned for one session keeps a boundary, however large a state is, as long as the session is shorter by that much. Where
// it is not, a mark says so.
static void small_pool(struct stage* t) {
  enum { kAt = 64 };
  const kvrt_plan p = plan_of(t, kTokens);
  const uint64_t state = (uint64_t)p.kv_group_bytes_per_token[p.kv_groups - 1] * kBlock;
  const kvrt_model_options o = {.struct_size = sizeof o, .block_tokens = kBlock, .kv_bytes_max = p.kv_bytes};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(t->rt, t->path, strlen(t->path), &o, NULL, NULL, &model, NULL));
  kvrt_session* s = open_session(model, NULL, 0);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  EXPECT(kvrt_session_mark(s, kAt, NULL) == KVRT_LIMIT, "%s: marked in a pool without room", t->path);
  MUST(kvrt_session_truncate(s, kAt, NULL));
  const int room = plan_of(t, kAt).session_bytes + state <= p.session_bytes;
  EXPECT(kvrt_session_mark(s, 0, NULL) == (room ? KVRT_OK : KVRT_LIMIT), "%s: a state has %" PRIu64 " bytes, the pool %" PRIu64, t->path,
         state, p.kv_bytes);
  t->marked += room && state > p.session_bytes / 4;
  MUST(kvrt_session_append(s, t->tokens + kAt, 20, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_truncate(s, kAt, NULL));
  MUST(kvrt_session_append(s, t->tokens + kAt, 1, NULL));
  kvrt_report r = {.struct_size = sizeof r};
  EXPECT(next_digest(s, &r) == t->want[kAt], "%s: it goes on differently", t->path);
  EXPECT(!room || r.prefilled == 1, "%s: %" PRIu64 " computed after the mark", t->path, r.prefilled);
  kvrt_session_close(s);
  expect_no_leaks(model);
  kvrt_model_release(model);
}

// Each fork goes on with its own state, whoever goes first.
static void forks(struct stage* t) {
  enum { kForks = 3, kAt = 100 };
  kvrt_model* model = open_model(t->rt, t->path, 0, kBlock, 20000);  // with room for boundaries
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
  // Each comes back to the place where they parted: the state there is as it was, whoever wrote on, and whoever is gone.
  for (int i = 0; i < kForks; ++i) {
    for (int again = 0; again < 2; ++again) {
      MUST(kvrt_session_truncate(s[i], kAt, NULL));
      MUST(kvrt_session_append(s[i], t->tokens + kAt, 5, NULL));
      kvrt_report r = {.struct_size = sizeof r};
      EXPECT(next_digest(s[i], &r) == t->want[kAt + 4], "fork %d, cut to %d, differs", i, kAt);
      EXPECT(r.prefilled == 6, "fork %d, cut to %d, computes %" PRIu64, i, kAt, r.prefilled);
    }
    kvrt_session_close(s[i]);
  }
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
    marks(&t);
    edited(&t);
    small_pool(&t);
    *strrchr(t.dir, '/') = 0;
    remove_tree(t.dir);
  }
  EXPECT(t.marked > 0, "no state was large");
  kvrt_runtime_release(t.rt);
  return finish();
}
