// The ends of generations: for every reason the texts of the events are the text of the answer, also the part that a stop string held back;
// and the session after a failure.
#include <math.h>

#include "misuse.h"

enum { kPrompt = 20, kPool = 64, kBlock = 16 };

struct answer {
  kvrt_session* s;
  const int32_t* tokens;  // the tokens that the host samples
  size_t count, next;
  char text[256], content[256], done_text[64];  // of TOKEN and DONE; of CONTENT; of DONE
  uint32_t reason;
};

static int32_t on_event(void* user, const kvrt_event* e) {
  struct answer* a = user;
  char* to = e->type == KVRT_EVENT_CONTENT ? a->content : a->text;
  if (e->text_size) strncat(to, e->text, e->text_size);
  if (e->type == KVRT_EVENT_DONE) {
    a->reason = e->reason;
    if (e->text_size) strncat(a->done_text, e->text, e->text_size);
  }
  if (e->type != KVRT_EVENT_LOGITS) return 0;
  if (a->next == a->count) {
    MUST(kvrt_session_cancel(a->s, NULL));
  } else {
    MUST(kvrt_session_accept(a->s, a->tokens[a->next++], NULL));
  }
  return 0;
}

// The token that is this one byte.
static int32_t token_of(kvrt_model* model, char byte) {
  for (int32_t id = 3; id < (int32_t)model_props(model).vocab_size; ++id) {
    char text[64];
    size_t size = 0;
    if (kvrt_model_detokenize(model, &id, 1, 0, text, sizeof text, &size, NULL) == KVRT_OK && size == 1 && text[0] == byte) return id;
  }
  REQUIRE(0, "no token for '%c'", byte);
}

static const struct ending {
  const char *name, *said, *text, *held;  // the host's tokens, '$' for the end token; the text of the events; the part of it in DONE
  uint32_t max_tokens, reason;
  uint32_t stop_token;
  int full, reply;
} kEndings[] = {
    {"max_tokens", "zabc", "zabc", "abc", 4, KVRT_REASON_MAX_TOKENS, 0, 0, 0},
    {"cancel", "zabc", "zabc", "abc", 0, KVRT_REASON_CANCELLED, 0, 0, 0},
    {"eos", "zabc$", "zabc", "abc", 0, KVRT_REASON_EOS, 0, 0, 0},
    {"stop token", "zabcd", "zabcd", "d", 0, KVRT_REASON_STOP, 1, 0, 0},
    {"stop token, held back", "zabd", "zabd", "d", 0, KVRT_REASON_STOP, 1, 0, 0},
    {"stop string", "zabcX", "z", "", 0, KVRT_REASON_STOP, 0, 0, 0},
    {"context full", "zabc", "zabc", "abc", 0, KVRT_REASON_CONTEXT_FULL, 0, 1, 0},
    {"no stop string after all", "zabce", "zabce", "", 5, KVRT_REASON_MAX_TOKENS, 0, 0, 0},
    {"max_tokens, in parts", "zabc", "zabc", "abc", 4, KVRT_REASON_MAX_TOKENS, 0, 0, 1},
    {"cancel, in parts", "zabc", "zabc", "abc", 0, KVRT_REASON_CANCELLED, 0, 0, 1},
    {"eos, in parts", "zabc$", "zabc", NULL, 0, KVRT_REASON_EOS, 0, 0, 1},
    {"stop string, in parts", "zabcX", "z", "", 0, KVRT_REASON_STOP, 0, 0, 1},
};

static void endings(struct stage* t) {
  kvrt_model* small = open_model(t->runtime, t->tiny, 0, kBlock, kPool);
  for (size_t i = 0; i < sizeof kEndings / sizeof *kEndings; ++i) {
    const struct ending* e = &kEndings[i];
    kvrt_session* s = open_session(small, NULL, 0);
    int32_t tokens[kPool], said[16];
    const size_t count = strlen(e->said), prompt = e->full ? kPool - count : kPrompt;
    prompt_tokens(tokens, prompt, 6, t->vocab);
    MUST(kvrt_session_append(s, tokens, prompt, NULL));
    for (size_t k = 0; k < count; ++k) said[k] = e->said[k] == '$' ? model_props(small).eos_token : token_of(small, e->said[k]);
    const int32_t stop_token = token_of(small, 'd');
    kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = e->max_tokens, .sampler = KVRT_SAMPLER_HOST};
    o.stop_strings = "abcX\0dada", o.stop_strings_size = 10;
    o.stop_tokens = &stop_token, o.stop_token_count = e->stop_token;
    o.reply = e->reply ? KVRT_REPLY_PLAIN : KVRT_REPLY_DEFAULT;
    struct answer a = {.s = s, .tokens = said, .count = count};
    const kvrt_status status = kvrt_session_generate(s, &o, on_event, &a, NULL, NULL);
    EXPECT(status == (e->reason == KVRT_REASON_CANCELLED ? KVRT_CANCELLED : KVRT_OK) && a.reason == e->reason, "%s: %s, reason %u", e->name,
           kvrt_status_name(status), a.reason);
    EXPECT(strcmp(a.text, e->text) == 0, "%s: the events say \"%s\"", e->name, a.text);
    EXPECT(!e->held || strcmp(a.done_text, e->held) == 0, "%s: DONE says \"%s\"", e->name, a.done_text);
    EXPECT(!e->reply || strcmp(a.content, e->text) == 0, "%s: the parts say \"%s\"", e->name, a.content);
    char text[256] = {0};
    size_t size = 0;
    MUST(kvrt_session_text(s, prompt, UINT64_MAX, 0, text, sizeof text - 1, &size, NULL));
    const size_t shown = strlen(a.text);
    EXPECT(strncmp(text, a.text, shown) == 0 && (strchr(e->said, 'X') ? size > shown : size == shown), "%s: the session says \"%s\"",
           e->name, text);
    EXPECT(session_props(s).state == KVRT_STATE_IDLE, "%s: state %u", e->name, session_props(s).state);
    kvrt_session_close(s);
  }
  expect_no_leaks(small);
  kvrt_model_release(small);
}

// A failure that is not of the numbers leaves the session IDLE with its tokens, and it goes on as if the failure had not been.
static void failures(struct stage* t) {
  kvrt_token_value* ban = calloc(t->vocab, sizeof *ban);
  for (uint32_t i = 0; i < t->vocab; ++i) ban[i] = (kvrt_token_value){(int32_t)i, -INFINITY};
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 5, .logit_bias = ban, .logit_bias_count = t->vocab};
  kvrt_session* s = open_session(t->model, NULL, 0);
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, 7, t->vocab);
  MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
  EXPECT_STATUS(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), KVRT_INVALID);
  for (int i = 0; i < 2; ++i) {
    MUST(kvrt_session_begin(s, &o, NULL));
    kvrt_event e = {.struct_size = sizeof e};
    kvrt_status status = KVRT_OK;
    while (status == KVRT_OK) {
      status = kvrt_session_next(s, &e, -1, NULL);
      EXPECT(status != KVRT_OK || e.type == KVRT_EVENT_PROGRESS, "event %u before the failure", e.type);
    }
    EXPECT(status == KVRT_INVALID, "%s", kvrt_status_name(status));
    MUST(kvrt_session_next(s, &e, -1, NULL));  // it says so once
    EXPECT(e.type == KVRT_EVENT_IDLE, "event %u after the failure", e.type);
    const kvrt_session_props p = session_props(s);
    EXPECT(p.state == KVRT_STATE_IDLE && p.last_error_status == KVRT_INVALID && p.tokens == kPrompt, "state %u, %" PRIu64 " tokens",
           p.state, p.tokens);
  }
  static struct run after, alone;
  generate_into(s, 12, &after);
  kvrt_session* fresh = open_session(t->model, NULL, 1);
  MUST(kvrt_session_append(fresh, tokens, kPrompt, NULL));
  generate_into(fresh, 12, &alone);
  EXPECT(same_run(&after, &alone), "it goes on differently");
  kvrt_session_close(fresh);
  kvrt_session_close(s);
  free(ban);
  kvrt_model* poisoned = nan_model(t);
  for (uint32_t all = 0; all < 2; ++all) {
    s = open_session(poisoned, NULL, 0);
    MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
    o = (kvrt_generate_options){.struct_size = sizeof o, .max_tokens = 5, .all_or_nothing = all};
    EXPECT_STATUS(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), KVRT_DEVICE);
    EXPECT(last_detail() == KVRT_DETAIL_NUMERIC, "detail %d", (int)last_detail());
    const kvrt_session_props p = session_props(s);
    EXPECT(p.state == (all ? KVRT_STATE_IDLE : KVRT_STATE_FAILED) && p.tokens == kPrompt && p.last_error_detail == KVRT_DETAIL_NUMERIC,
           "NaN: state %u, %" PRIu64 " tokens", p.state, p.tokens);
    kvrt_session_close(s);
  }
  kvrt_model_release(poisoned);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  endings(&t);
  failures(&t);
  stage_close(&t);
  return finish();
}
