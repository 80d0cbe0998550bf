// Every cell of kvrt.h's table of states and calls: the status and the state after it. A refused call changes nothing, and the session then
// goes on as if nothing had been.
#include "chat.h"
#include "misuse.h"

enum state { kIdle, kBegun, kDecoding, kAsked, kUnread, kSuspended, kFailed, kStates };
static const char* const kStateNames[] = {
    "IDLE", "GENERATING, before a step", "GENERATING", "GENERATING, accept is due", "GENERATING, DONE is unread", "SUSPENDED", "FAILED"};

struct cell {
  struct stage* t;
  kvrt_session *s, *made;  // made: by fork
  kvrt_event event;
};

static const char kMessage[] = "{\"role\":\"user\",\"content\":\"hi\"}";
static const char kMessages[] = "[{\"role\":\"user\",\"content\":\"other\"}]";

static kvrt_status call_append(struct cell* c) { return kvrt_session_append(c->s, &(const int32_t){3}, 1, NULL); }
static kvrt_status call_append_text(struct cell* c) { return kvrt_session_append_text(c->s, "abc", 3, 0, NULL); }
static kvrt_status call_append_message(struct cell* c) { return kvrt_session_append_message(c->s, kMessage, strlen(kMessage), NULL, NULL); }
static kvrt_status call_set_messages(struct cell* c) { return kvrt_session_set_messages(c->s, kMessages, strlen(kMessages), NULL, NULL); }
static kvrt_status call_truncate(struct cell* c) { return kvrt_session_truncate(c->s, 1, NULL); }
static kvrt_status call_mark(struct cell* c) { return kvrt_session_mark(c->s, 1, NULL); }
static kvrt_status call_erase(struct cell* c) {
  return kvrt_session_erase(c->s, message_props(c->s, 0).end, message_props(c->s, 1).end, NULL);
}
static kvrt_status call_prefill(struct cell* c) { return kvrt_session_prefill(c->s, 0, NULL, NULL, NULL, NULL); }
static kvrt_status call_begin(struct cell* c) {
  return kvrt_session_begin(c->s, &(kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .max_tokens = 3}, NULL);
}
static kvrt_status call_generate(struct cell* c) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 3};
  return kvrt_session_generate(c->s, &o, NULL, NULL, NULL, NULL);
}
static kvrt_status call_accept(struct cell* c) { return kvrt_session_accept(c->s, 65, NULL); }
static kvrt_status call_next(struct cell* c) { return kvrt_session_next(c->s, &c->event, -1, NULL); }
static kvrt_status call_fork(struct cell* c) { return kvrt_session_fork(c->s, NULL, &c->made, NULL); }
static kvrt_status call_checkpoint(struct cell* c) { return kvrt_session_checkpoint(c->s, "cell", 4, NULL, NULL, NULL); }
static kvrt_status call_suspend(struct cell* c) { return kvrt_session_suspend(c->s, "cell", 4, NULL, NULL, NULL); }
static kvrt_status call_tokens(struct cell* c) {
  int32_t tokens[512];
  size_t n = 0;
  const kvrt_status status = kvrt_session_tokens(c->s, tokens, 512, &n, NULL);
  EXPECT(n == session_props(c->s).tokens, "%zu tokens", n);
  return status;
}
static kvrt_status call_text(struct cell* c) {
  char text[4096];
  size_t n = 0;
  const kvrt_status status = kvrt_session_text(c->s, 0, UINT64_MAX, KVRT_TEXT_SPECIAL, text, sizeof text, &n, NULL);
  EXPECT(n > 20 && memcmp(text, "<|im_start|>system", 18) == 0, "%zu bytes", n);
  return status;
}
static kvrt_status call_message(struct cell* c) {
  char json[128];
  size_t n = 0;
  kvrt_message_props p = {.struct_size = sizeof p};
  const kvrt_status status = kvrt_session_message(c->s, 1, &p, json, sizeof json, &n, NULL);
  EXPECT(n > 5 && strstr(json, "Hello") && p.begin < p.end, "%zu bytes", n);
  return status;
}
static kvrt_status call_info(struct cell* c) {
  return kvrt_session_info(c->s, &(kvrt_session_props){.struct_size = sizeof(kvrt_session_props)}, NULL);
}
static kvrt_status call_cancel(struct cell* c) { return kvrt_session_cancel(c->s, NULL); }
static kvrt_status call_close(struct cell* c) {
  kvrt_session_close(c->s);
  c->s = NULL;
  return KVRT_OK;
}

#define N KVRT_INVALID
#define B KVRT_BUSY
#define K KVRT_OK
enum { Is = 1, Gs = KVRT_STATE_GENERATING, Ss = KVRT_STATE_SUSPENDED, Same = 0 };

// The header's table. The four kinds of GENERATING differ in accept, next and cancel only. `after`: of IDLE and SUSPENDED.
static const struct row {
  const char* name;
  kvrt_status (*call)(struct cell* c);
  kvrt_status want[kStates];
  uint32_t after_idle, after_suspended;
} kRows[] = {
    // name, call, {IDLE, begun, decoding, asked, unread, SUSPENDED, FAILED}
    {"append", call_append, {K, B, B, B, B, K, N}, Same, Same},
    {"append_text", call_append_text, {K, B, B, B, B, K, N}, Same, Same},
    {"append_message", call_append_message, {K, B, B, B, B, K, N}, Same, Same},
    {"set_messages", call_set_messages, {K, B, B, B, B, K, N}, Same, Same},
    {"truncate", call_truncate, {K, B, B, B, B, K, N}, Same, Same},
    {"mark", call_mark, {K, B, B, B, B, K, N}, Same, Same},
    {"erase", call_erase, {K, B, B, B, B, K, N}, Same, Same},
    {"prefill", call_prefill, {K, B, B, B, B, K, N}, Is, Is},
    {"begin", call_begin, {K, B, B, B, B, K, N}, Gs, Gs},
    {"generate", call_generate, {K, B, B, B, B, K, N}, Is, Is},
    {"accept", call_accept, {N, N, N, K, N, N, N}, Same, Same},
    {"next", call_next, {K, K, K, N, K, K, K}, Same, Same},
    {"fork", call_fork, {K, B, B, B, B, K, N}, Same, Same},
    {"checkpoint", call_checkpoint, {K, K, K, K, K, K, N}, Same, Same},
    {"suspend", call_suspend, {K, B, B, B, B, K, N}, Ss, Ss},
    {"tokens", call_tokens, {K, K, K, K, K, K, K}, Same, Same},
    {"text", call_text, {K, K, K, K, K, K, K}, Same, Same},
    {"message", call_message, {K, K, K, K, K, K, K}, Same, Same},
    {"info", call_info, {K, K, K, K, K, K, K}, Same, Same},
    {"cancel", call_cancel, {K, K, K, K, K, K, K}, Same, Same},
    {"close", call_close, {K, K, K, K, K, K, K}, Same, Same},
};
#undef N
#undef B
#undef K

// A session in that state, with two messages.
static kvrt_session* in_state(struct stage* t, kvrt_model* poisoned, enum state state) {
  kvrt_session* s = open_session(state == kFailed ? poisoned : t->model, t->store, 0);
  say(s, "system", "Be brief.", NULL);
  say(s, "user", "Hello", NULL);
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 300, .ignore_eos = 1, .temperature = 0.8f, .seed = 9};
  switch (state) {
    case kIdle:
    case kStates:
      break;
    case kSuspended:
      MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
      MUST(kvrt_session_suspend(s, "cell", 4, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
      break;
    case kFailed: {
      const kvrt_status failure = kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL);
      EXPECT(failure == KVRT_DEVICE && last_detail() == KVRT_DETAIL_NUMERIC, "%s, detail %d", kvrt_status_name(failure),
             (int)last_detail());
      break;
    }
    case kBegun:
    case kDecoding:
    case kAsked:
    case kUnread:
      if (state == kAsked) o.sampler = KVRT_SAMPLER_HOST, o.max_tokens = 10;
      if (state == kUnread) o.max_tokens = 3;
      MUST(kvrt_session_begin(s, &o, NULL));
      if (state == kDecoding || state == kAsked) {
        const uint32_t until = state == kAsked ? KVRT_EVENT_LOGITS : KVRT_EVENT_TOKEN;
        while (next_event(s, -1).type != until) {
        }
      }
      if (state == kUnread) {
        for (uint32_t left = 1; left != 0;) MUST(kvrt_model_step(t->model, 20, &left, NULL));
      }
      break;
  }
  const uint32_t want = state == kIdle        ? KVRT_STATE_IDLE
                        : state == kSuspended ? KVRT_STATE_SUSPENDED
                        : state == kFailed    ? KVRT_STATE_FAILED
                                              : KVRT_STATE_GENERATING;
  const kvrt_session_props p = session_props(s);
  REQUIRE(p.state == want && p.messages >= 2 && p.awaits_accept == (state == kAsked), "%s: state %u", kStateNames[state], p.state);
  if (state == kFailed) {
    EXPECT(p.last_error_status == KVRT_DEVICE && p.last_error_detail == KVRT_DETAIL_NUMERIC && p.last_error_message[0], "the failure: %d",
           p.last_error_status);
  } else if (state == kSuspended) {
    EXPECT(p.kv_units == 0 && p.kv_bytes == 0 && p.revision > 0, "%" PRIu64 " blocks", p.kv_units);
  }
  return s;
}

// The end of the generation, whatever is due on the way to it.
static kvrt_event end_of(kvrt_session* s) {
  kvrt_event e = {.struct_size = sizeof e};
  for (int i = 0; i < 400; ++i) {
    if (session_props(s).awaits_accept && session_props(s).events_unread == 0) MUST(kvrt_session_accept(s, 65, NULL));
    e = next_event(s, -1);
    if (e.type == KVRT_EVENT_DONE || e.type == KVRT_EVENT_IDLE) break;
  }
  return e;
}

// The rules of the header for a cell beyond its status.
static void check_cell(struct cell* c, const struct row* row, enum state state, const char* what) {
  const uint32_t now = session_props(c->s).state;
  if (row->call == call_next) {
    const uint32_t type = c->event.type;
    if (state == kIdle || state == kSuspended || state == kFailed) EXPECT(type == KVRT_EVENT_IDLE, "%s: type %u", what, type);
    if (state == kBegun || state == kDecoding || state == kUnread)
      EXPECT(type != KVRT_EVENT_NONE && type != KVRT_EVENT_IDLE, "%s: NONE", what);
  }
  if (row->call == call_fork && c->made) {
    const kvrt_session_props p = session_props(c->made), q = session_props(c->s);
    EXPECT(p.revision == 0 && p.name[0] == 0 && strcmp(p.id, q.id) != 0 && p.tokens == q.tokens, "%s: the copy", what);
    expect_sound(c->made, c->t->model, what);
  }
  if (state == kIdle && row->after_idle) EXPECT(now == row->after_idle, "%s: state %u after it", what, now);
  if (state == kSuspended && row->after_suspended) EXPECT(now == row->after_suspended, "%s: state %u after it", what, now);
  if (state == kFailed) {
    EXPECT(now == KVRT_STATE_FAILED, "%s: state %u after it", what, now);
    return;
  }
  if (now == KVRT_STATE_GENERATING) {
    const kvrt_event e = end_of(c->s);
    const uint32_t reason = row->call == call_cancel ? KVRT_REASON_CANCELLED : KVRT_REASON_MAX_TOKENS;
    if (row->call == call_begin) {
      EXPECT(e.type == KVRT_EVENT_DONE, "%s: no end", what);
    } else {
      EXPECT(e.type == KVRT_EVENT_DONE && e.reason == reason && e.report->reason == reason, "%s: reason %u", what, e.reason);
    }
    EXPECT(session_props(c->s).state == KVRT_STATE_IDLE && next_event(c->s, -1).type == KVRT_EVENT_IDLE, "%s: after DONE", what);
  }
  expect_sound(c->s, c->t->model, what);
  EXPECT_STATUS(call_generate(c), KVRT_OK);
}

static void run_cell(struct stage* t, kvrt_model* poisoned, const struct row* row, enum state state) {
  char what[128];
  snprintf(what, sizeof what, "%s in %s", row->name, kStateNames[state]);
  struct cell c = {.t = t, .s = in_state(t, poisoned, state), .event = {.struct_size = sizeof c.event}};
  const kvrt_session_props before = session_props(c.s);
  char name[64];
  snprintf(name, sizeof name, "session_%s", row->name);
  const uint64_t open_before = model_props(state == kFailed ? poisoned : t->model).sessions;
  ROW(name, kStateNames[state], row->call(&c), ANY(row->want[state]));
  if (c.s == NULL) {
    EXPECT(model_props(state == kFailed ? poisoned : t->model).sessions == open_before - 1, "%s: it is still open", what);
    return;
  }
  const kvrt_session_props after = session_props(c.s);
  const int asks = row->after_idle == Same && row->call != call_accept && row->call != call_next && row->call != call_cancel &&
                   row->call != call_fork && row->call != call_checkpoint;  // no compute, nothing taken
  if (row->want[state] != KVRT_OK) {
    EXPECT(after.tokens == before.tokens && after.messages == before.messages && after.state == before.state &&
               after.events_unread == before.events_unread && after.revision == before.revision,
           "%s: the session changed", what);
    EXPECT(c.made == NULL, "%s: out changed", what);
    kvrt_store_entry entry = {.struct_size = sizeof entry};
    if (before.revision == 0) EXPECT(kvrt_store_stat(t->store, NULL, 0, "cell", 4, &entry, NULL) == KVRT_NOT_FOUND, "%s: saved", what);
  } else if (asks && (state == kIdle || state == kSuspended)) {
    EXPECT(after.state == before.state, "%s: state %u after it", what, after.state);
  }
  check_cell(&c, row, state, what);
  kvrt_session_close(c.made);
  kvrt_session_close(c.s);
  const kvrt_status removed = kvrt_store_remove(t->store, NULL, 0, "cell", 4, NULL);
  EXPECT(removed == KVRT_OK || removed == KVRT_NOT_FOUND, "%s: %s", what, last_message());
}

int main(void) {
  struct stage t;
  stage_open(&t);
  kvrt_model* poisoned = nan_model(&t);
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    for (int state = 0; state < kStates; ++state) run_cell(&t, poisoned, &kRows[i], (enum state)state);
  }
  EXPECT(model_props(poisoned).sessions == 0 && model_props(t.model).sessions == 1, "sessions leak");
  kvrt_model_release(poisoned);
  stage_close(&t);
  return finish();
}
