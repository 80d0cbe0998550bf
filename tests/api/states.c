// Every cell of the table of states and calls.
#include "misuse.h"

static kvrt_session* with_tokens(struct stage* t) {
  kvrt_session* s = open_session(t->model, t->store, 0);
  int32_t tokens[40];
  prompt_tokens(tokens, 40, 8, t->vocab);
  MUST(kvrt_session_append(s, tokens, 40));
  return s;
}

static uint32_t state_of(kvrt_session* s) { return session_props(s).state; }

static kvrt_status generate_some(kvrt_session* s) {
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 3, .ignore_eos = 1};
  return kvrt_session_generate(s, &o, NULL, NULL, NULL);
}

// Calls that must give `want` and leave the session as it is. Those that return OK are in the other functions.
static void all_refused(struct stage* t, kvrt_session* s, const char* state, kvrt_status want) {
  const int32_t token = 3;
  kvrt_session* out = NULL;
  const char* message = "{\"role\":\"user\",\"content\":\"hi\"}";
  const uint64_t tokens = session_props(s).tokens;
  const uint32_t before = state_of(s);
  ROW("session_append", state, kvrt_session_append(s, &token, 1), ANY(want));
  ROW("session_append_text", state, kvrt_session_append_text(s, "a", 1, 0), ANY(want));
  ROW("session_append_message", state, kvrt_session_append_message(s, message, strlen(message), NULL), ANY(want));
  ROW("session_truncate", state, kvrt_session_truncate(s, 1), ANY(want));
  ROW("session_prefill", state, kvrt_session_prefill(s, 0, NULL, NULL, NULL), ANY(want));
  ROW("session_begin", state, kvrt_session_begin(s, NULL), ANY(want));
  ROW("session_generate", state, generate_some(s), ANY(want));
  ROW("session_fork", state, kvrt_session_fork(s, NULL, &out), ANY(want));
  ROW("session_checkpoint", state, kvrt_session_checkpoint(s, "busy", 4, NULL, NULL), ANY(want));
  ROW("session_suspend", state, kvrt_session_suspend(s, "busy", 4, NULL, NULL), ANY(want));
  EXPECT(out == NULL && session_props(s).tokens == tokens && state_of(s) == before, "%s: the session changed", state);
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  EXPECT(kvrt_store_stat(t->store, NULL, 0, "busy", 4, &entry) == KVRT_NOT_FOUND, "%s: a refused save left a session", state);
}

static kvrt_event next_event(kvrt_session* s, int32_t timeout) {
  kvrt_event e = {.struct_size = sizeof e};
  MUST(kvrt_session_next(s, &e, timeout));
  return e;
}

static void idle(struct stage* t) {
  kvrt_session* s = with_tokens(t);
  EXPECT(state_of(s) == KVRT_STATE_IDLE, "state %u", state_of(s));
  EXPECT(next_event(s, 0).type == KVRT_EVENT_IDLE && next_event(s, 20).type == KVRT_EVENT_IDLE, "next of an idle session");
  EXPECT(next_event(s, -1).type == KVRT_EVENT_IDLE, "next of an idle session must not wait");
  MUST(kvrt_session_cancel(s));
  EXPECT_STATUS(generate_some(s), KVRT_OK);  // the cancel before it was a no-op
  EXPECT(session_props(s).tokens == 43, "%" PRIu64 " tokens", session_props(s).tokens);
  kvrt_session_close(s);
}

static void generating(struct stage* t) {
  kvrt_session* s = with_tokens(t);
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 500, .ignore_eos = 1};
  MUST(kvrt_session_begin(s, &o));
  EXPECT(state_of(s) == KVRT_STATE_GENERATING, "state %u", state_of(s));
  all_refused(t, s, "GENERATING, before the first step", KVRT_BUSY);
  while (next_event(s, -1).type != KVRT_EVENT_TOKEN) {
  }
  all_refused(t, s, "GENERATING", KVRT_BUSY);
  int32_t tokens[64];
  EXPECT(session_tokens(s, tokens, 64) >= 41, "tokens while generating");
  MUST(kvrt_session_cancel(s));
  kvrt_event e = next_event(s, -1);
  int events = 1;
  for (; e.type != KVRT_EVENT_DONE && events < 200; ++events) e = next_event(s, -1);
  EXPECT(e.type == KVRT_EVENT_DONE && e.reason == KVRT_REASON_CANCELLED, "type %u, reason %u", e.type, e.reason);
  EXPECT(e.report && e.report->reason == KVRT_REASON_CANCELLED, "the report of a cancelled generation");
  EXPECT(state_of(s) == KVRT_STATE_IDLE, "state %u after DONE", state_of(s));
  EXPECT(next_event(s, -1).type == KVRT_EVENT_IDLE, "an event after DONE");
  EXPECT_STATUS(generate_some(s), KVRT_OK);
  MUST(kvrt_session_begin(s, &o));
  (void)next_event(s, -1);
  kvrt_session_close(s);  // cancels
}

static void suspended(struct stage* t) {
  const int32_t token = 3;
  for (int call = 0; call < 8; ++call) {
    kvrt_session* s = with_tokens(t);
    kvrt_save_options save = {.struct_size = sizeof save, .overwrite = 1};
    EXPECT_STATUS(generate_some(s), KVRT_OK);
    MUST(kvrt_session_suspend(s, "s", 1, &save, NULL));
    const kvrt_session_props p = session_props(s);
    EXPECT(p.state == KVRT_STATE_SUSPENDED && p.kv_blocks == 0 && p.tokens == 43, "state %u, %" PRIu64 " blocks", p.state, p.kv_blocks);
    kvrt_session* out = NULL;
    if (call == 0) EXPECT_STATUS(kvrt_session_append(s, &token, 1), KVRT_OK);
    if (call == 1) EXPECT_STATUS(kvrt_session_truncate(s, 10), KVRT_OK);
    if (call == 2) EXPECT_STATUS(kvrt_session_prefill(s, 0, NULL, NULL, NULL), KVRT_OK);
    if (call == 3) EXPECT_STATUS(generate_some(s), KVRT_OK);
    if (call == 4) EXPECT_STATUS(kvrt_session_fork(s, NULL, &out), KVRT_OK);
    if (call == 5) EXPECT_STATUS(kvrt_session_checkpoint(s, "s", 1, NULL, NULL), KVRT_OK);
    if (call == 6) EXPECT_STATUS(kvrt_session_suspend(s, "s", 1, NULL, NULL), KVRT_OK);
    if (call == 7) {
      EXPECT(next_event(s, -1).type == KVRT_EVENT_IDLE, "next of a suspended session");
      EXPECT_STATUS(kvrt_session_cancel(s), KVRT_OK);
    }
    EXPECT_STATUS(generate_some(s), KVRT_OK);  // warms in every case
    if (out) {
      EXPECT_STATUS(generate_some(out), KVRT_OK);
      EXPECT(session_props(out).generation == 0 && strcmp(session_props(out).id, session_props(s).id) != 0,
             "a fork is unsaved with a new id");
    }
    kvrt_session_close(out);
    kvrt_session_close(s);
  }
}

// The weights of the last eighth of the file become NaN (all bits set is NaN in F32 and F16, and in the scales of the quantized types).
static void poison(const char* from, const char* to) {
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  REQUIRE(in && out, "%s", strerror(errno));
  fseek(in, 0, SEEK_END);
  const long size = ftell(in);
  rewind(in);
  for (long i = 0; i < size; ++i) {
    const int c = fgetc(in);
    fputc(i >= size - size / 8 ? 0xFF : c, out);
  }
  fclose(in);
  fclose(out);
}

static void failed(struct stage* t) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/nan.gguf", t->dir);
  poison(t->tiny, path);
  kvrt_model* model = NULL;
  const kvrt_status status = kvrt_model_open(t->runtime, path, strlen(path), NULL, NULL, NULL, &model);
  if (status == KVRT_CORRUPT) {
    printf("the loader finds the NaN weights: FAILED is out of reach\n");
    return;
  }
  REQUIRE(status == KVRT_OK, "%s", last_message());
  kvrt_session* s = open_session(model, t->store, 0);
  int32_t tokens[10];
  prompt_tokens(tokens, 10, 3, t->vocab);
  MUST(kvrt_session_append(s, tokens, 10));
  const kvrt_status failure = generate_some(s);
  EXPECT(failure != KVRT_OK && last_detail() == KVRT_DETAIL_NUMERIC, "%s, detail %d", kvrt_status_name(failure), (int)last_detail());
  const kvrt_session_props p = session_props(s);
  EXPECT(p.state == KVRT_STATE_FAILED && p.last_status == failure && p.last_detail == KVRT_DETAIL_NUMERIC && p.last_message[0], "state %u",
         p.state);
  all_refused(t, s, "FAILED", KVRT_INVALID);
  EXPECT(next_event(s, -1).type == KVRT_EVENT_IDLE, "next of a failed session");
  EXPECT_STATUS(kvrt_session_cancel(s), KVRT_OK);
  EXPECT(session_tokens(s, tokens, 10) == 10, "the tokens of a failed session");
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  idle(&t);
  generating(&t);
  suspended(&t);
  failed(&t);
  stage_close(&t);
  return finish();
}
