// Why no more of a prompt was reused: each reason is provoked, with the position where reuse stopped.
#include <glob.h>

#include "misuse.h"

static void expect_stop(const kvrt_report* r, uint32_t reason, uint64_t at, uint64_t reused, const char* what) {
  check_report(r, what);
  EXPECT(r->reuse_stopped == reason && r->reuse_stopped_at == at, "%s: reason %u at %" PRIu64 ", expected %u at %" PRIu64, what,
         r->reuse_stopped, r->reuse_stopped_at, reason, at);
  EXPECT(r->reused_memory + r->reused_disk == reused, "%s: %" PRIu64 " reused, expected %" PRIu64, what, r->reused_memory + r->reused_disk,
         reused);
}

static kvrt_report answer(kvrt_session* s) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  return report;
}

// A damaged chunk costs its own tokens alone, also where steps are so short that a prompt's chunks are read over many of them.
static void damaged_in_short_steps(kvrt_runtime* rt, const char* path, const char* dir) {
  enum { kBlock = 16, kBlocks = 24, kTokens = kBlock * kBlocks };
  char place[kPathMax + 16], pattern[kPathMax + 32];
  snprintf(place, sizeof place, "%s/damaged", dir);
  snprintf(pattern, sizeof pattern, "%s/segs/*/*.seg", place);
  kvrt_model_options o = {.struct_size = sizeof o, .block_tokens = kBlock, .step_ms_max = 1};
  for (int again = 0; again < 2; ++again) {
    kvrt_model* model = NULL;
    MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
    kvrt_store* store = open_store(rt, place);
    int32_t tokens[kTokens + 1];
    prompt_tokens(tokens, kTokens + 1, 9, model_props(model).vocab_size);
    kvrt_session* s = open_session(model, store, 0);
    MUST(kvrt_session_append(s, tokens, kTokens + (size_t)again, NULL));
    const kvrt_report r = answer(s);
    if (again) expect_stop(&r, KVRT_REUSE_DAMAGED, 0, kTokens - kBlock, "the first chunk is damaged");
    if (!again) MUST(kvrt_session_suspend(s, "long", 4, NULL, NULL, NULL));
    kvrt_session_close(s);
    kvrt_store_release(store);
    kvrt_model_release(model);
    glob_t found;
    REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1, "one segment");
    FILE* f = fopen(found.gl_pathv[0], "r+b");
    fseek(f, 400, SEEK_SET);  // within the first frame's payload
    const int byte = fgetc(f);
    fseek(f, 400, SEEK_SET);
    fputc(byte ^ 0x55, f);
    fclose(f);
    globfree(&found);
  }
}

int main(void) {
  enum { kBlock = 32, kPrompt = 2 * kBlock };
  char path[kPathMax], dir[kPathMax];
  tiny_path(path, 0);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(2, KVRT_ISA_DEFAULT);
  kvrt_model* model = open_model(rt, path, 0, kBlock, 0);
  kvrt_store* store = open_store(rt, dir);
  int32_t tokens[kPrompt + 1];
  prompt_tokens(tokens, kPrompt + 1, 5, model_props(model).vocab_size);

  kvrt_session* first = open_session(model, store, 0);
  MUST(kvrt_session_append(first, tokens, kPrompt, NULL));
  kvrt_report r = answer(first);
  expect_stop(&r, KVRT_REUSE_NEW_TOKENS, 0, 0, "a first prompt");

  kvrt_session* same = open_session(model, store, 0);
  MUST(kvrt_session_append(same, tokens, kPrompt, NULL));
  r = answer(same);
  expect_stop(&r, KVRT_REUSE_ALL, kPrompt, kPrompt - 1, "the same prompt");

  kvrt_session* alone = open_session(model, NULL, 0);
  MUST(kvrt_session_append(alone, tokens, kPrompt, NULL));
  r = answer(alone);
  expect_stop(&r, KVRT_REUSE_NEW_TOKENS, 0, 0, "the same prompt without a store");
  kvrt_session_close(alone);

  kvrt_session* other = open_session(model, store, 0);
  int32_t changed[kPrompt];
  memcpy(changed, tokens, sizeof changed);
  changed[kBlock + 8] = tokens[kBlock + 8] == 7 ? 8 : 7;
  MUST(kvrt_session_append(other, changed, kPrompt, NULL));
  r = answer(other);
  expect_stop(&r, KVRT_REUSE_DIFFERENT_TOKEN, kBlock + 8, kBlock, "another token in the second block");

  kvrt_session* queued = open_session(model, store, 1);  // saved before anything was computed
  changed[0] = tokens[0] == 7 ? 8 : 7;
  MUST(kvrt_session_append(queued, changed, kPrompt, NULL));
  MUST(kvrt_session_suspend(queued, "queued", 6, NULL, NULL, NULL));
  kvrt_report resumed = {.struct_size = sizeof resumed};
  kvrt_session* back = resume_session(model, store, "queued", &resumed);
  expect_stop(&resumed, KVRT_REUSE_NOT_STORED, 0, 0, "resumed without KV");

  MUST(kvrt_session_suspend(first, "first", 5, NULL, NULL, NULL));
  kvrt_model* half = open_model(rt, path, 0, kBlock / 2, 0);
  kvrt_session* foreign = resume_session(half, store, "first", &resumed);
  expect_stop(&resumed, KVRT_REUSE_OTHER_NUMERICS, 0, 0, "resumed with another block size");

  kvrt_session* const sessions[] = {first, same, other, queued, back, foreign};
  for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++) kvrt_session_close(sessions[i]);
  kvrt_store_release(store);
  kvrt_model_release(half);
  kvrt_model_release(model);
  damaged_in_short_steps(rt, path, dir);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
