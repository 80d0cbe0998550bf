// A session of a thousand tokens, cut to every length: the next token's logits are those of the session that was never cut. In each format of
// KV whose rows might depend on their neighbours (int4's share bytes, scales or a table of cosines).
#include "support.h"

enum { kTokens = 1000 };

static uint64_t digests[kTokens];

static int32_t keep_all(void* user, const kvrt_event* e) {
  size_t* count = user;
  if (e->type != KVRT_EVENT_LOGITS || e->position >= kTokens) return 0;
  digests[e->position] = hash_logits(e);
  ++*count;
  return 0;
}

static int32_t keep_last(void* user, const kvrt_event* e) {
  uint64_t* digest = user;
  if (e->type == KVRT_EVENT_LOGITS) *digest = hash_logits(e);
  return 0;
}

static void every_cut(kvrt_runtime* rt, const char* name, uint32_t k, uint32_t v) {
  char path[kPathMax];
  snprintf(path, sizeof path, "%s/%s.gguf", tiny_dir(), name);
  const kvrt_model_options o = {.struct_size = sizeof o, .kv_format = k, .kv_format_v = v};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  static int32_t tokens[kTokens];
  prompt_tokens(tokens, kTokens, 5, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, tokens, kTokens, NULL));
  size_t count = 0;
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_ALL, keep_all, &count, NULL, NULL));
  EXPECT(count == kTokens, "%s: %zu rows", name, count);
  kvrt_session_close(s);
  s = open_session(model, NULL, 1);
  MUST(kvrt_session_append(s, tokens, kTokens, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  size_t wrong = 0;
  for (size_t length = kTokens - 1; length > 0; --length) {
    kvrt_report report = {.struct_size = sizeof report};
    uint64_t digest = 0;
    MUST(kvrt_session_truncate(s, length, NULL));
    MUST(kvrt_session_append(s, tokens + length, 1, NULL));
    MUST(kvrt_session_prefill(s, KVRT_LOGITS_LAST, keep_last, &digest, &report, NULL));
    wrong += digest != digests[length];
    EXPECT(report.prefilled <= 1, "%s: %" PRIu64 " tokens were computed after a cut to %zu", name, report.prefilled, length);
  }
  EXPECT(wrong == 0, "%s, K %u, V %u: %zu cuts have other logits", name, k, v, wrong);
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  kvrt_runtime* rt = open_runtime(2, 0);
  every_cut(rt, "llama_gqa_f32", KVRT_KV_INT4, 0);
  every_cut(rt, "llama_gqa_f32", KVRT_KV_INT8, KVRT_KV_INT4);
  const uint32_t formats[][2] = {{KVRT_KV_INT4, 0}, {KVRT_KV_INT8, 0}, {KVRT_KV_FP8, 0}, {KVRT_KV_INT8, KVRT_KV_INT4}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) every_cut(rt, "with_bias_qwen2", formats[i][0], formats[i][1]);
  kvrt_runtime_release(rt);
  return finish();
}
