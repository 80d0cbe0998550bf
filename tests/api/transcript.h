// All that a generation says and leaves, as lines of text: two runs that should be equal to the bit are compared by these, and the first line
// that differs is shown.
#pragma once

#include <stdarg.h>

#include "support.h"

enum { kAnswerMax = 8192 };

struct transcript {
  char* text;
  size_t size, capacity;
  char answer[kAnswerMax];  // the text of the last generation alone
  size_t answer_size;
  kvrt_report report;  // of the last generation
  int done;            // it is over
  uint64_t generated, drafted, accepted;
};

static inline void note(struct transcript* t, const char* format, ...) {
  if (t->capacity - t->size < 4096) {
    t->capacity = t->capacity * 2 + 8192;
    t->text = (char*)realloc(t->text, t->capacity);
    REQUIRE(t->text != NULL, "memory");
  }
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(t->text + t->size, t->capacity - t->size, format, arguments);
  va_end(arguments);
  REQUIRE(n >= 0 && (size_t)n < t->capacity - t->size, "a line of %d bytes", n);
  t->size += (size_t)n;
}

static inline void transcript_free(struct transcript* t) {
  free(t->text);
  memset(t, 0, sizeof *t);
}

static inline void note_text(struct transcript* t, const char* text, size_t size) {
  note(t, " \"");
  for (size_t i = 0; i < size; ++i) {
    const unsigned char c = (unsigned char)text[i];
    note(t, c < 32 || c == '\\' ? "\\%02x" : "%c", c);
  }
  note(t, "\"");
}

// The report without what times decide: how much of the prompt was found is no part of the answer, its sum is.
static inline void note_report(struct transcript* t, const kvrt_report* r) {
  check_report(r, "a generation");
  EXPECT(r->accepted <= r->drafted && r->accepted <= r->generated, "accepted %" PRIu64 " of %" PRIu64 ", generated %" PRIu64, r->accepted,
         r->drafted, r->generated);
  note(t, "report reason %u prompt %" PRIu64 " generated %" PRIu64 " stop %u seed %" PRIu64 "\n", r->reason, r->prompt_tokens, r->generated,
       r->stop_string_tokens, r->seed);
  t->report = *r;
  t->generated += r->generated, t->drafted += r->drafted, t->accepted += r->accepted;
}

static inline void note_event(struct transcript* t, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_PROGRESS || e->type == KVRT_EVENT_NONE || e->type == KVRT_EVENT_IDLE) return;
  note(t, "%u", e->type);
  if (e->type == KVRT_EVENT_TOKEN) {
    note(t, " %d at %" PRIu64 " %a", (int)e->token, e->position, e->logprob);
    for (size_t i = 0; i < e->top_count; ++i) note(t, " %d:%a", (int)e->top[i].token, (double)e->top[i].value);
  }
  note_text(t, e->text ? e->text : "", e->text_size);
  note(t, "\n");
  if ((e->type == KVRT_EVENT_TOKEN || e->type == KVRT_EVENT_DONE) && t->answer_size + e->text_size < kAnswerMax) {
    memcpy(t->answer + t->answer_size, e->text, e->text_size);
    t->answer_size += e->text_size;
  }
  if (e->type != KVRT_EVENT_DONE) return;
  t->done = 1;
  note_report(t, e->report);
}

static inline int32_t note_callback(void* user, const kvrt_event* e) {
  note_event((struct transcript*)user, e);
  return 0;
}

// What a session is after a generation: its tokens, its last message, how much KV it has.
static inline void note_session(struct transcript* t, const kvrt_session* s) {
  static _Thread_local int32_t tokens[16384];
  const kvrt_session_props p = session_props(s);
  const size_t count = session_tokens(s, tokens, 16384);
  note(t, "session state %u tokens %zu %016" PRIx64 " kv %" PRIu64 " messages %" PRIu64 "\n", p.state, count,
       hash_bytes(1, tokens, count * sizeof *tokens), p.kv_tokens, p.messages);
  if (p.messages == 0) return;
  static _Thread_local char json[1 << 16];
  size_t size = 0;
  kvrt_message_props m;
  KVRT_INIT(&m);
  MUST(kvrt_session_message(s, p.messages - 1, &m, json, sizeof json, &size, NULL));
  note(t, "message %" PRIu64 " to %" PRIu64 " ended %u", m.begin, m.end, m.ended);
  note_text(t, json, size);
  note(t, "\n");
}

static inline size_t line_end(const struct transcript* t, size_t at) {
  while (at < t->size && t->text[at] != '\n') ++at;
  return at;
}

// Equal; else the first line that differs is shown, and the number of those before it.
static inline int same_transcript(const struct transcript* got, const struct transcript* want, const char* what) {
  const int same = got->size == want->size && memcmp(got->text, want->text, got->size) == 0;
  size_t at = 0, line = 0, begin = 0;
  for (; !same && at < got->size && at < want->size && got->text[at] == want->text[at]; ++at) {
    if (got->text[at] == '\n') ++line, begin = at + 1;
  }
  EXPECT(same, "%s: line %zu differs:\n  got  %.*s\n  want %.*s", what, line, (int)(line_end(got, begin) - begin), got->text + begin,
         (int)(line_end(want, begin) - begin), want->text + begin);
  return same;
}

// ---- runs --------------------------------------------------------------------------------------------------------------------------

// Takes what is there. A failure of the generation is a line, too.
static inline void note_ready(struct transcript* t, kvrt_session* s) {
  while (!t->done) {
    kvrt_event e;
    KVRT_INIT(&e);
    const kvrt_status status = kvrt_session_next(s, &e, 0, NULL);
    if (status != KVRT_OK) {
      note(t, "failed %s\n", kvrt_status_name(status));
      t->done = 1;
    } else if (e.type == KVRT_EVENT_NONE) {
      return;
    } else if (e.type == KVRT_EVENT_IDLE) {
      t->done = 1;
    } else {
      note_event(t, &e);
    }
  }
}

// Begins; 0: begin refused, which is a line.
static inline int note_begin(struct transcript* t, kvrt_session* s, const kvrt_generate_options* o) {
  t->answer_size = 0, t->done = 0;
  const kvrt_status status = kvrt_session_begin(s, o, NULL);
  if (status != KVRT_OK) note(t, "failed %s\n", kvrt_status_name(status)), t->done = 1;
  return status == KVRT_OK;
}

// The three ways to run a generation: 0 the callback's, 1 next that waits, 2 a loop of the host's own.
static inline void note_generation(struct transcript* t, kvrt_model* model, kvrt_session* s, const kvrt_generate_options* o, unsigned way) {
  if (way == 0) {
    t->answer_size = 0, t->done = 0;
    const kvrt_status status = kvrt_session_generate(s, o, note_callback, t, NULL, NULL);
    if (status != KVRT_OK) note(t, "failed %s\n", kvrt_status_name(status)), t->done = 1;
    return;
  }
  if (!note_begin(t, s, o)) return;
  while (!t->done) {
    if (way == 2) MUST(kvrt_model_step(model, 0, NULL, NULL));
    kvrt_event e;
    KVRT_INIT(&e);
    if (way == 1) {
      const kvrt_status status = kvrt_session_next(s, &e, -1, NULL);
      if (status != KVRT_OK) note(t, "failed %s\n", kvrt_status_name(status)), t->done = 1;
      if (status == KVRT_OK) note_event(t, &e);
    }
    note_ready(t, s);
  }
}
