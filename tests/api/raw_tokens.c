// Raw tokens, which nobody marks, of models with windows or states: there is a boundary each 1024 tokens, so that prompts share their beginning
// and a session goes back.
#include "windows.h"

// Two prompts have their first tokens in common; and one that is cut by far more than two windows goes on from there, also after a restart.
static void raw_tokens(struct stage* t) {
  enum { kCommon = 1900, kOwn = 60, kBack = 1500 };
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = open_store(t->rt, dir);
  empty_pool(t);
  for (int32_t i = 0; i < 2; ++i) {
    int32_t own[kOwn];
    prompt_tokens(own, kOwn, 300 + (uint64_t)i, model_props(t->model).vocab_size);
    kvrt_session* s = prompt(t, store, kCommon);
    MUST(kvrt_session_append(s, own, kOwn, NULL));
    kvrt_report r = compute(s);
    EXPECT(i == 0 || (r.reused_memory >= kReplay && r.prefilled <= kCommon - kReplay + kOwn),
           "prompt %d: %" PRIu64 " of %" PRIu64 " computed", i, r.prefilled, r.prompt_tokens);
    if (i == 0) MUST(kvrt_session_checkpoint(s, "raw", 3, NULL, NULL, NULL));
    expect_sound(s, t->model, "with a common beginning");
    if (i == 0) {
      kvrt_session_close(s);
      continue;
    }
    MUST(kvrt_session_truncate(s, kBack, NULL));
    EXPECT(next_digest(s, &r) == t->want[kBack - 1], "cut back to %d it goes on differently", kBack);
    EXPECT(r.reused_memory >= kReplay && r.prefilled <= kBack - kReplay, "cut back to %d, %" PRIu64 " computed", kBack, r.prefilled);
    kvrt_session_close(s);
  }
  empty_pool(t);
  kvrt_session* s = resume_session(t->model, store, "raw", NULL);
  MUST(kvrt_session_truncate(s, kBack, NULL));
  kvrt_report r = {.struct_size = sizeof r};
  EXPECT(next_digest(s, &r) == t->want[kBack - 1], "resumed and cut back to %d it goes on differently", kBack);
  EXPECT(r.prefilled <= kBack - kReplay, "resumed and cut back to %d, %" PRIu64 " computed", kBack, r.prefilled);
  kvrt_session_close(s);
  kvrt_store_release(store);
  remove_tree(dir);
}

// A pool for one session alone: its boundaries take none of its blocks.
static void raw_tokens_small_pool(struct stage* t) {
  const kvrt_plan_options po = {.struct_size = sizeof po, .session_tokens = kTokens, .block_tokens = kBlock};
  kvrt_plan p = {.struct_size = sizeof p};
  MUST(kvrt_model_plan(t->rt, t->path, strlen(t->path), &po, &p, NULL));
  const kvrt_model_options o = {.struct_size = sizeof o, .block_tokens = kBlock, .kv_bytes_max = p.kv_bytes};
  kvrt_model_release(t->model);
  MUST(kvrt_model_open(t->rt, t->path, strlen(t->path), &o, NULL, NULL, &t->model, NULL));
  kvrt_session* s = prompt(t, NULL, kTokens);
  const kvrt_report r = compute(s);
  EXPECT(r.recomputed == 0 && r.prefilled == kTokens - last(t), "in a small pool: %" PRIu64 " computed, %" PRIu64 " again", r.prefilled,
         r.recomputed);
  EXPECT(next_digest(s, NULL) == t->want[kTokens - 1], "in a small pool it goes on differently");
  kvrt_session_close(s);
  expect_no_leaks(t->model);
  empty_pool(t);
}

int main(void) {
  static const char* const models[][2] = {{"row_gemma2", "gemma2"},   {"row_gemma3", "gemma3"}, {"row_phi3_long", "phi3"},
                                          {"row_gemma4_e", "gemma4"}, {"row_lfm2", "lfm2"},     {"row_qwen3next", "qwen3next"}};
  static struct stage t;
  t.rt = open_runtime(2, 0);
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    stage_open(&t, models[i][0], models[i][1]);
    raw_tokens(&t);
    raw_tokens_small_pool(&t);
    stage_close(&t);
  }
  kvrt_runtime_release(t.rt);
  return finish();
}
