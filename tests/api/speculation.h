// Two models of one vocabulary, and what an answer is without speculation.
#pragma once

#include "misuse.h"
#include "transcript.h"

enum { kPrompt = 40, kAnswer = 64, kSmall = 16 };

struct pair {
  struct stage stage;
  kvrt_model *model, *draft;
  int32_t prompt[kPrompt];
  struct transcript plain;  // of kAnswer tokens
  int32_t tokens[kPrompt + kAnswer];
};

static inline kvrt_model* open_small(const struct pair* p, uint32_t block, uint32_t kv_format, uint64_t blocks) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.block_tokens = block, o.kv_format = kv_format;
  o.kv_bytes_max = blocks * block * model_props(p->stage.model).kv_bytes_per_token;
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(p->stage.runtime, p->stage.tiny, strlen(p->stage.tiny), &o, NULL, NULL, &model, NULL));
  return model;
}

static inline kvrt_generate_options answer_options(uint32_t max_tokens) {
  kvrt_generate_options o;
  KVRT_INIT(&o);
  o.max_tokens = max_tokens, o.ignore_eos = 1, o.temperature = 0.7f, o.seed = 11, o.top_logprobs = 3;
  return o;
}

// The same, with a draft; what it proposes is always checked.
static inline kvrt_generate_options drafted_options(kvrt_model* draft, uint32_t max_tokens) {
  kvrt_generate_options o = answer_options(max_tokens);
  o.draft = draft, o.lookup = 1, o.draft_tokens_min = o.draft_tokens_max = 4;
  return o;
}

static inline kvrt_session* prompted(const struct pair* p, kvrt_model* model, kvrt_store* store) {
  kvrt_session* s = open_session(model, store, 1);
  MUST(kvrt_session_append(s, p->prompt, kPrompt, NULL));
  return s;
}

static inline void pair_open(struct pair* p) {
  stage_open(&p->stage);
  p->model = open_small(p, kSmall, 0, 64);
  p->draft = open_small(p, 32, KVRT_KV_FP8, 64);
  prompt_tokens(p->prompt, kPrompt, 77, p->stage.vocab);
  memcpy(p->prompt + kPrompt - 12, p->prompt, 12 * sizeof *p->prompt);
  kvrt_session* s = prompted(p, p->model, NULL);
  const kvrt_generate_options o = answer_options(kAnswer);
  note_generation(&p->plain, p->model, s, &o, 0);
  const size_t count = session_tokens(s, p->tokens, kPrompt + kAnswer);
  REQUIRE(count == kPrompt + kAnswer, "%zu tokens", count);
  kvrt_session_close(s);
}

static inline void pair_close(struct pair* p) {
  expect_no_leaks(p->model);
  expect_no_leaks(p->draft);
  transcript_free(&p->plain);
  kvrt_model_release(p->draft);
  kvrt_model_release(p->model);
  stage_close(&p->stage);
}

// The session has the prompt and the first tokens of the answer, `least` or more, and goes on with the others to the end.
static inline size_t expect_beginning(const struct pair* p, kvrt_model* model, kvrt_session* s, size_t least, const char* what) {
  int32_t tokens[kPrompt + kAnswer + 8];
  size_t count = session_tokens(s, tokens, kPrompt + kAnswer);
  EXPECT(count >= kPrompt + least && memcmp(tokens, p->tokens, count * sizeof *tokens) == 0, "%s: %zu tokens, not those of the answer",
         what, count);
  const size_t had = count - kPrompt;
  if (had < kAnswer) {
    const kvrt_generate_options o = answer_options((uint32_t)(kAnswer - had));
    struct transcript t = {0};
    note_generation(&t, model, s, &o, 0);
    transcript_free(&t);
  }
  count = session_tokens(s, tokens, kPrompt + kAnswer);
  EXPECT(count == kPrompt + kAnswer && memcmp(tokens, p->tokens, sizeof p->tokens) == 0,
         "%s: after %zu of the answer it goes on differently", what, had);
  return had;
}

// An answer by these options is the one without speculation.
static inline void expect_plain(const struct pair* p, kvrt_model* model, const kvrt_generate_options* o, const char* what) {
  kvrt_session* s = prompted(p, model, NULL);
  struct transcript t = {0};
  note_generation(&t, model, s, o, 0);
  same_transcript(&t, &p->plain, what);
  (void)expect_beginning(p, model, s, kAnswer, what);
  EXPECT(session_props(s).kv_tokens == kPrompt + kAnswer - 1, "%s: KV of %" PRIu64 " tokens", what, session_props(s).kv_tokens);
  transcript_free(&t);
  kvrt_session_close(s);
}
