// Layers with windows: a session keeps the KV of its last two windows and one at each boundary, and goes on from those with the bits of a
// run that was never interrupted; so does one that is cut anywhere with a model whose tokens leave latents behind, or that is recurrent. With the argument "all" every position is tried, not each 37th.
#include "windows.h"

// What a session of n tokens holds at most, by the figures of the groups.
static uint64_t most_bytes(const kvrt_model_props* m, uint64_t n) {
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < m->kv_groups; ++g) {
    uint64_t in_blocks = (n + kBlock - 1) / kBlock * kBlock;
    if (m->kv_group_tokens_max[g] != 0 && m->kv_group_tokens_max[g] < in_blocks) in_blocks = m->kv_group_tokens_max[g];
    bytes += in_blocks * m->kv_group_bytes_per_token[g];
  }
  return bytes;
}

// These figures tell what a session takes, and so does the plan.
static void figures(struct stage* t) {
  const kvrt_model_props m = model_props(t->model);
  t->window = 0;
  for (uint32_t g = 0; g < m.kv_groups; ++g) {
    const uint32_t window = m.kv_group_kind[g] == KVRT_GROUP_RECURRENT ? 1 : m.kv_group_window[g];
    EXPECT((m.kv_group_kind[g] == KVRT_GROUP_WINDOW) == (m.kv_group_window[g] != 0), "group %u has kind %u", g, m.kv_group_kind[g]);
    EXPECT((m.kv_group_kind[g] == KVRT_GROUP_EVERYTHING) == (m.kv_group_tokens_max[g] == 0), "group %u of kind %u keeps %" PRIu64 " tokens", g,
           m.kv_group_kind[g], (uint64_t)m.kv_group_tokens_max[g]);
    t->window = window > t->window ? window : t->window;
  }
  EXPECT(t->window != 0, "%s has no window", t->path);
  t->recurrent = is_recurrent(t->model);
  uint32_t layers = 0;
  for (uint32_t g = 0; g < m.kv_groups; ++g) layers += m.kv_group_layers[g];
  EXPECT(layers + t->shared == m.layers, "%u layers in groups, %u in all", layers, m.layers);
  kvrt_session* s = open_session(t->model, NULL, 1);
  for (size_t n = 0; n < kTokens;) {
    const size_t more = n < 40 ? 1 : n % 100 + 7, to = n + more < kTokens ? n + more : kTokens;
    MUST(kvrt_session_append(s, t->tokens + n, to - n, NULL));
    (void)compute(s);
    n = to;
    const uint64_t most = most_bytes(&m, n);
    const kvrt_plan_options o = {.struct_size = sizeof o, .session_tokens = n, .block_tokens = kBlock};
    kvrt_plan p = {.struct_size = sizeof p};
    MUST(kvrt_model_plan(t->rt, t->path, strlen(t->path), &o, &p, NULL));
    EXPECT(p.session_bytes == most, "%zu tokens: planned %" PRIu64 ", by groups %" PRIu64, n, p.session_bytes, most);
    const kvrt_session_props q = session_props(s);
    EXPECT(q.kv_tokens == n - last(t) && q.kv_bytes <= most && q.kv_bytes == q.kv_units * m.unit_bytes,
           "%zu tokens: %" PRIu64 " bytes of %" PRIu64, n, q.kv_bytes, most);
  }
  kvrt_session_close(s);
}

// The session, cut to n tokens, goes on as if nothing had been. It computes a block at most where a window is left before the cut.
static void cut_and_go_on(struct stage* t, kvrt_session* s, size_t n, const char* what) {
  MUST(kvrt_session_truncate(s, n, NULL));
  kvrt_report r = {.struct_size = sizeof r};
  const uint64_t digest = next_digest(s, &r);
  EXPECT(digest == t->want[n - 1], "%s: cut to %zu it goes on differently", what, n);
  const int near = !t->recurrent && n + t->window > kTokens;
  EXPECT(r.prefilled <= kReplay + kBlock, "%s: cut to %zu, %" PRIu64 " computed", what, n, r.prefilled);
  EXPECT(!near || r.prefilled <= kBlock, "%s: cut to %zu, %" PRIu64 " computed", what, n, r.prefilled);
  if (n > kMark) EXPECT(r.reuse_stopped_at >= kMark / kBlock * kBlock, "%s: cut to %zu, reused to %" PRIu64, what, n, r.reuse_stopped_at);
  const int never_ran = t->recurrent && n == kTokens && r.reuse_stopped_at == n - 1;
  if (r.reuse_stopped == KVRT_REUSE_ALL || (never_ran && r.reuse_stopped == KVRT_REUSE_NEW_TOKENS)) return;
  EXPECT(r.reuse_stopped == KVRT_REUSE_WINDOW && r.reuse_stopped_at % kBlock == 0 && r.reuse_stopped_at < n,
         "%s: cut to %zu, stopped by %u at %" PRIu64, what, n, r.reuse_stopped, r.reuse_stopped_at);
}

static void every_position(struct stage* t) {
  kvrt_store* store = open_store(t->rt, t->dir);
  kvrt_session* s = prompt(t, store, kTokens);
  MUST(kvrt_session_mark(s, kMark, NULL));
  (void)compute(s);
  MUST(kvrt_session_checkpoint(s, "long", 4, NULL, NULL, NULL));  // before the forks' own boundaries take the place of that one
  for (size_t n = kTokens; n > 0; n -= n < t->step || n + 2 * kBlock > kTokens ? 1 : t->step) {
    kvrt_session* fork = NULL;
    MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    cut_and_go_on(t, fork, n, "in memory");
    kvrt_session_close(fork);
  }
  kvrt_session_close(s);
  for (size_t n = kTokens, tried = 0; n > 0; n -= n < t->step ? 1 : 3 * t->step < n ? 3 * t->step : t->step, ++tried) {
    empty_pool(t);
    kvrt_report r;
    s = resume_session(t->model, store, "long", &r);
    EXPECT(r.prefilled == last(t) && r.reuse_stopped == (t->recurrent ? KVRT_REUSE_NEW_TOKENS : KVRT_REUSE_ALL),
           "resumed: %" PRIu64 " to compute, stopped by %u", r.prefilled, r.reuse_stopped);
    EXPECT(r.reuse_stopped_at == kTokens - last(t) && session_props(s).kv_tokens == kTokens - last(t), "resumed: %" PRIu64 " of %u",
           r.reuse_stopped_at, kTokens);
    cut_and_go_on(t, s, n, "after a resume");
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
}

// A marked prefix that others have in common is computed once, here and after a restart. Without a mark it is computed from its nearest
// boundary on.
static void common_prefix(struct stage* t) {
  enum { kCommon = 800, kOwn = 30 };
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = open_store(t->rt, dir);
  for (int life = 0; life < 2; ++life) {
    empty_pool(t);
    for (int32_t i = 0; i < 3; ++i) {
      int32_t own[kOwn];
      prompt_tokens(own, kOwn, 100 + (uint64_t)i, model_props(t->model).vocab_size);
      kvrt_session* s = prompt(t, store, kCommon);
      MUST(kvrt_session_mark(s, 0, NULL));
      MUST(kvrt_session_append(s, own, kOwn, NULL));
      const kvrt_report r = compute(s);
      if (life > 0 || i > 0) {
        EXPECT(r.prefilled <= kBlock + kOwn, "session %d of life %d computes %" PRIu64, i, life, r.prefilled);
        EXPECT(r.reuse_stopped_at == kCommon || life > 0, "it reuses %" PRIu64, r.reuse_stopped_at);
      }
      expect_sound(s, t->model, "with a common prefix");
      MUST(kvrt_session_suspend(s, "one", 3, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
      kvrt_session_close(s);
    }
  }
  kvrt_store_release(store);
  remove_tree(dir);
}

// A resumed session holds no more than that, also where the window of a boundary before its end is in memory already. Steps of a block, so
// that what a step needs is no room for that window.
static void held_after_resume(struct stage* t) {
  enum { kCommon = 800, kLong = 1500 };
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = open_store(t->rt, dir);
  kvrt_session* s = prompt(t, store, kCommon);
  MUST(kvrt_session_mark(s, 0, NULL));
  MUST(kvrt_session_append(s, t->tokens + kCommon, kLong - kCommon, NULL));
  (void)compute(s);
  MUST(kvrt_session_suspend(s, "long", 4, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_model_release(t->model);
  const kvrt_model_options o = {.struct_size = sizeof o, .block_tokens = kBlock, .prefill_chunk = kBlock};
  MUST(kvrt_model_open(t->rt, t->path, strlen(t->path), &o, NULL, NULL, &t->model, NULL));
  kvrt_session* other = prompt(t, store, kCommon);
  MUST(kvrt_session_mark(other, 0, NULL));
  (void)compute(other);
  kvrt_report r;
  s = resume_session(t->model, store, "long", &r);
  const kvrt_model_props m = model_props(t->model);
  const uint64_t held = session_props(s).kv_bytes, most = most_bytes(&m, kLong);
  EXPECT(r.prefilled <= last(t) && held <= most, "%" PRIu64 " bytes after a resume, at most %" PRIu64, held, most);
  EXPECT(next_digest(s, NULL) == t->want[kLong - 1], "it goes on differently");
  kvrt_session_close(other);
  kvrt_session_close(s);
  empty_pool(t);
  kvrt_store_release(store);
  remove_tree(dir);
}

// Conversations that have a long system message in common: also where the template puts it into the user's first turn, so that no message
// ends there. What two prompts without any mark have in common is a boundary from the second one on.
static void system_message(struct stage* t, const char* source) {
  char dir[kPathMax], path[kPathMax];
  make_dir(dir);
  snprintf(path, sizeof path, "%.400s/template.gguf", dir);
  with_template(t->path, path, source);
  char instructions[1000];
  for (size_t i = 0; i < sizeof instructions; ++i) instructions[i] = "some words of the instructions. "[i % 32];
  instructions[sizeof instructions - 1] = 0;
  strcat(dir, "/store");
  for (int life = 0; life < 2; ++life) {
    kvrt_model* model = open_model(t->rt, path, 0, kBlock, 0);
    kvrt_store* store = open_store(t->rt, dir);
    for (int i = 0; i < 2; ++i) {
      char question[256];  // more than two windows
      memset(question, "abcd"[2 * life + i], sizeof question - 1);
      question[sizeof question - 1] = 0;
      kvrt_session* s = open_session(model, store, 0);
      say(s, "system", instructions, NULL);
      say(s, "user", question, NULL);
      const kvrt_report r = compute(s);
      const uint64_t own = sizeof question + 40;  // what the template has around it is little
      EXPECT(r.prompt_tokens > 2 * own, "%" PRIu64 " tokens are few", r.prompt_tokens);
      if (life > 0 || i > 0)
        EXPECT(r.prefilled <= own + kBlock, "%.20s: conversation %d of life %d computes %" PRIu64 " of %" PRIu64, source, i, life,
               r.prefilled, r.prompt_tokens);
      expect_sound(s, model, "with a common system message");
      MUST(
          kvrt_session_suspend(s, question, 1, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
      kvrt_session_close(s);
    }
    kvrt_store_release(store);
    kvrt_model_release(model);
  }
  *strrchr(dir, '/') = 0;
  remove_tree(dir);
}

// `lives`: each prompt meets an empty pool, and what the ones before saved.
static void unmarked_prefix(struct stage* t, int lives) {
  enum { kCommon = 800, kOwn = 150 };  // more than the two windows that a save has
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = lives ? open_store(t->rt, dir) : NULL;
  empty_pool(t);
  for (int32_t i = 0; i < 3; ++i) {
    if (lives) empty_pool(t);
    int32_t own[kOwn];
    prompt_tokens(own, kOwn, 200 + (uint64_t)i, model_props(t->model).vocab_size);
    kvrt_session* s = prompt(t, store, kCommon);
    MUST(kvrt_session_append(s, own, kOwn, NULL));
    const kvrt_report r = compute(s);
    const char name[] = {(char)('a' + i), 0};
    if (lives) MUST(kvrt_session_checkpoint(s, name, 1, NULL, NULL, NULL));
    const int known = model_props(t->model).kv_group_kind[0] == KVRT_GROUP_EVERYTHING;  // else nothing is left that tells of it
    if (i == 1 && known)
      EXPECT(r.reuse_stopped == KVRT_REUSE_WINDOW, "lives %d: stopped by %u at %" PRIu64 ", computes %" PRIu64, lives, r.reuse_stopped,
             r.reuse_stopped_at, r.prefilled);
    if (i == 2 && known) EXPECT(r.prefilled <= kBlock + kOwn, "the third computes %" PRIu64, r.prefilled);
    expect_sound(s, t->model, "with a common prefix without a mark");
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  remove_tree(dir);
}

// A session comes back to where it was saved, forked, or a message ended, however far it went since: it computes a block at most.
static void kept_places(struct stage* t) {
  enum { kPlace = 500 };
  char dir[kPathMax], text[kPlace];
  make_dir(dir);
  memset(text, 'm', sizeof text - 1);
  text[sizeof text - 1] = 0;
  kvrt_store* store = open_store(t->rt, dir);
  for (int how = 0; how < 3; ++how) {
    empty_pool(t);
    kvrt_session *s = how == 2 ? open_session(t->model, NULL, 0) : prompt(t, store, kPlace), *fork = NULL;
    if (how == 2) say(s, "user", text, NULL);
    (void)compute(s);
    uint64_t place = kPlace;
    if (how == 0) MUST(kvrt_session_checkpoint(s, "place", 5, NULL, NULL, NULL));
    if (how == 1) MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    if (how == 2) {
      for (int i = 0; i < 2; ++i) say(s, i ? "user" : "assistant", text, NULL);
      place = message_props(s, 1).end;  // nothing else marks it
    } else {
      MUST(kvrt_session_append(s, t->tokens + kPlace, 2 * kPlace, NULL));
    }
    (void)compute(s);
    if (fork) {  // it goes elsewhere, and holds the place no more
      MUST(kvrt_session_append(fork, t->tokens, 2 * kPlace, NULL));
      (void)compute(fork);
    }
    MUST(kvrt_session_truncate(s, place, NULL));
    const kvrt_report r = compute(s);
    EXPECT(t->recurrent ? r.prefilled <= kReplay : r.prefilled <= kBlock && r.reused_disk == 0,
           "way %d: back at %" PRIu64 " it computes %" PRIu64 ", %" PRIu64 " are from disk", how, place, r.prefilled, r.reused_disk);
    expect_sound(s, t->model, "back at a place");
    if (fork) kvrt_session_close(fork);
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  remove_tree(dir);
}

// An edit in the middle: what follows moves, and is computed again from the boundary before.
static void erased(struct stage* t) {
  empty_pool(t);
  kvrt_session* s = prompt(t, NULL, 1000);
  MUST(kvrt_session_mark(s, kMark, NULL));
  (void)compute(s);
  MUST(kvrt_session_erase(s, kMark + 5, kMark + 100, NULL));
  const kvrt_report r = compute(s);
  EXPECT(r.reuse_stopped == KVRT_REUSE_WINDOW && r.reuse_stopped_at == kMark / kBlock * kBlock, "stopped by %u at %" PRIu64,
         r.reuse_stopped, r.reuse_stopped_at);
  expect_sound(s, t->model, "erased");
  kvrt_session_close(s);
}

static void with_windows(struct stage* t) {
  common_prefix(t);
  held_after_resume(t);
  unmarked_prefix(t, 0);
  unmarked_prefix(t, 1);
  kept_places(t);
  system_message(t, "{% for m in messages %}<|im_start|>{{ m['role'] + '\n' + m['content'] }}<|im_end|>\n{% endfor %}");
  system_message(t,
                 "<|im_end|>{% if messages[0]['role'] == 'system' %}{% set p = messages[0]['content'] + '\n\n' %}{% set list = "
                 "messages[1:] %}{% else %}"
                 "{% set p = '' %}{% set list = messages %}{% endif %}{% for m in list %}<|im_start|>"
                 "{{ m['role'] + '\n' + (p if loop.first else '') + m['content'] }}<|im_end|>\n{% endfor %}");
  erased(t);
}

int main(int argc, char** argv) {
  static const struct {
    const char *name, *architecture;
    int windows;
    uint32_t shared;
  } models[] = {{"row_gemma2", "gemma2", 1, 0},
                {"row_gemma3", "gemma3", 1, 0},
                {"row_phi3_long", "phi3", 1, 0},
                {"row_gemma4_e", "gemma4", 1, 3},
                {"row_deepseek3", "deepseek2", 0, 0},
                {"row_lfm2", "lfm2", 1, 0},
                {"row_granitehybrid", "granitehybrid", 1, 0},
                {"row_qwen3next", "qwen3next", 1, 0}};
  static struct stage t;
  t.step = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 37;
  t.rt = open_runtime(2, 0);
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    stage_open(&t, models[i].name, models[i].architecture);
    t.shared = models[i].shared;
    if (models[i].windows) figures(&t);
    every_position(&t);
    if (models[i].windows) with_windows(&t);
    stage_close(&t);
  }
  kvrt_runtime_release(t.rt);
  return finish();
}
