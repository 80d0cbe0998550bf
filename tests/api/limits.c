// Limits come before compute and name the option; a full pool and a full context are handled, and nothing is lost.
#include "misuse.h"

static int32_t* many_tokens(size_t count, uint32_t vocab) {
  int32_t* tokens = malloc(count * sizeof *tokens);
  REQUIRE(tokens != NULL, "memory");
  prompt_tokens(tokens, count, 12, vocab);
  return tokens;
}

static void context(struct stage* t) {
  int32_t* tokens = many_tokens(t->context + 1, t->vocab);
  kvrt_session* s = open_session(t->model, NULL, 1);
  ROW("session_append", "longer than the context", kvrt_session_append(s, tokens, t->context + 1, NULL), ANY(KVRT_LIMIT));
  EXPECT(session_props(s).tokens == 0, "%" PRIu64 " tokens stayed", session_props(s).tokens);
  MUST(kvrt_session_append(s, tokens, t->context - 4, NULL));
  for (int i = 1; i <= 3; ++i) {  // none of them is read
    ROW("session_append", "a count that went wrong", kvrt_session_append(s, tokens, SIZE_MAX >> (i - 1), NULL), ANY(KVRT_LIMIT));
  }
  ROW("session_append", "past the context by one", kvrt_session_append(s, tokens, 5, NULL), ANY(KVRT_LIMIT));
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  EXPECT(report.reason == KVRT_REASON_CONTEXT_FULL && report.generated == 4, "reason %u after %" PRIu64, report.reason, report.generated);
  EXPECT(session_props(s).tokens == t->context, "%" PRIu64 " tokens", session_props(s).tokens);
  kvrt_report again = {.struct_size = sizeof again};
  const kvrt_status full = kvrt_session_generate(s, &o, NULL, NULL, &again, NULL);
  ROW("session_generate", "the context is full", full, ANY(KVRT_OK) | ANY(KVRT_LIMIT));
  if (full == KVRT_OK) EXPECT(again.reason == KVRT_REASON_CONTEXT_FULL && again.generated == 0, "reason %u", again.reason);
  MUST(kvrt_session_truncate(s, t->context - 2, NULL));
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  EXPECT(report.generated == 2, "%" PRIu64 " after truncate", report.generated);
  kvrt_session_close(s);
  free(tokens);
}

// A pool of 3 blocks of 16 tokens.
static void pool(struct stage* t) {
  const uint64_t per_token = model_props(t->model).kv_bytes_per_token;
  kvrt_model_options mo = {.struct_size = sizeof mo, .block_tokens = 16, .kv_bytes_max = 3 * 16 * per_token};
  kvrt_model* small = NULL;
  MUST(kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), &mo, NULL, NULL, &small, NULL));
  EXPECT(model_props(small).units == 3, "%" PRIu64 " blocks", model_props(small).units);
  int32_t* tokens = many_tokens(64, t->vocab);
  kvrt_session* a = open_session(small, NULL, 0);
  ROW("session_append", "more than the pool could ever hold", kvrt_session_append(a, tokens, 64, NULL), ANY(KVRT_LIMIT));
  EXPECT(strstr(last_message(), "kv_bytes_max") != NULL, "the message does not name the option: %s", last_message());
  EXPECT(session_props(a).tokens == 0 && session_props(a).kv_units == 0, "the refused tokens stayed");
  // Two sessions that do not fit together: the idle one gives its blocks, its tokens stay, and its next call warms it again.
  kvrt_session* b = open_session(small, NULL, 0);
  MUST(kvrt_session_append(a, tokens, 30, NULL));
  MUST(kvrt_session_append(b, tokens + 31, 30, NULL));
  kvrt_session* alone = open_session(t->model, NULL, 1);
  MUST(kvrt_session_append(alone, tokens, 30, NULL));
  struct run want = {0}, got = {0};
  generate_into(alone, 12, &want);
  generate_into(a, 6, &got);
  struct run other = {0};
  generate_into(b, 6, &other);
  const kvrt_report report = generate_into(a, 6, &got);
  EXPECT(report.prefilled > 1 && report.reuse_stopped == KVRT_REUSE_EVICTED, "prefilled %" PRIu64 ", reuse stopped by %u", report.prefilled,
         report.reuse_stopped);
  EXPECT(memcmp(got.token, want.token, 12 * sizeof *got.token) == 0 && memcmp(got.digest, want.digest, 12 * sizeof *got.digest) == 0,
         "an evicted session went on differently");
  // Generating to the end of the pool ends with LIMIT or CONTEXT_FULL, and the session can be truncated and used.
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1};
  kvrt_report end = {.struct_size = sizeof end};
  const kvrt_status status = kvrt_session_generate(a, &o, NULL, NULL, &end, NULL);
  ROW("session_generate", "to the end of the pool", status, ANY(KVRT_OK) | ANY(KVRT_LIMIT));
  if (status == KVRT_OK) EXPECT(end.reason == KVRT_REASON_CONTEXT_FULL, "reason %u", end.reason);
  EXPECT(session_props(a).tokens >= 47 && session_props(a).tokens <= 49, "%" PRIu64 " tokens", session_props(a).tokens);
  EXPECT(session_props(a).state == KVRT_STATE_IDLE, "state %u", session_props(a).state);
  MUST(kvrt_session_truncate(a, 36, NULL));
  struct run after = {0};
  generate_into(a, 6, &after);
  EXPECT(after.token[0] == want.token[6] && after.digest[0] == want.digest[6], "after the pool was full");
  kvrt_session_close(alone);
  kvrt_session_close(a);
  kvrt_session_close(b);
  EXPECT(model_props(small).units_free + model_props(small).units_cached == 3, "units leak");
  kvrt_model_release(small);
  free(tokens);
}

// More generating sessions than the pool holds: each ends, with the right tokens, or with LIMIT.
static void crowd(struct stage* t) {
  enum { kCrowd = 6 };
  const uint64_t per_token = model_props(t->model).kv_bytes_per_token;
  kvrt_model_options mo = {.struct_size = sizeof mo, .block_tokens = 16, .kv_bytes_max = 8 * 16 * per_token};
  kvrt_model* small = NULL;
  MUST(kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), &mo, NULL, NULL, &small, NULL));
  int32_t* tokens = many_tokens(30 * kCrowd, t->vocab);
  static struct run want[kCrowd], got[kCrowd];
  kvrt_session* s[kCrowd];
  kvrt_status status[kCrowd] = {0};
  for (int i = 0; i < kCrowd; ++i) {
    kvrt_session* alone = open_session(t->model, NULL, 1);
    MUST(kvrt_session_append(alone, tokens + 30 * i, 30, NULL));
    generate_into(alone, 15, &want[i]);
    kvrt_session_close(alone);
    s[i] = open_session(small, NULL, 0);
    MUST(kvrt_session_append(s[i], tokens + 30 * i, 30, NULL));
    const kvrt_generate_options o = run_options(15);
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  int left = kCrowd, finished = 0;
  for (int round = 0; left != 0 && round < 10000; ++round) {
    for (int i = 0; i < kCrowd; ++i) {
      if (got[i].done || status[i]) continue;
      kvrt_event e = {.struct_size = sizeof e};
      status[i] = kvrt_session_next(s[i], &e, -1, NULL);
      if (status[i] == KVRT_OK) run_event(&got[i], &e);
      left -= status[i] != KVRT_OK || got[i].done;
    }
  }
  EXPECT(left == 0, "%d sessions never end", left);
  for (int i = 0; i < kCrowd; ++i) {
    EXPECT(status[i] == KVRT_OK || status[i] == KVRT_LIMIT, "session %d: %s", i, kvrt_status_name(status[i]));
    finished += status[i] == KVRT_OK && got[i].count == 15;
    EXPECT(memcmp(got[i].token, want[i].token, got[i].count * sizeof *got[i].token) == 0 &&
               memcmp(got[i].digest, want[i].digest, got[i].count * sizeof *got[i].digest) == 0,
           "session %d of a crowd went on differently", i);
    kvrt_session_close(s[i]);
  }
  printf("crowd: %d of %d finished\n", finished, kCrowd);
  EXPECT(finished >= 2, "only %d finished", finished);
  kvrt_model_release(small);
  free(tokens);
}

static void unread(struct stage* t) {
  // A session that nobody reads pauses at 64 events; it goes on when it is read.
  kvrt_session* s = open_session(t->model, NULL, 1);
  kvrt_session* other = open_session(t->model, NULL, 1);
  int32_t* tokens = many_tokens(40, t->vocab);
  MUST(kvrt_session_append(s, tokens, 20, NULL));
  MUST(kvrt_session_append(other, tokens, 40, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1, .max_tokens = 150};
  MUST(kvrt_session_begin(s, &o, NULL));
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(other, &o, NULL, NULL, &report, NULL));
  const kvrt_session_props p = session_props(s);
  EXPECT(p.events_unread >= 32 && p.events_unread <= 64, "%" PRIu64 " unread events", p.events_unread);
  size_t got = 0;
  for (kvrt_event e = {.struct_size = sizeof e}; e.type != KVRT_EVENT_DONE;) {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    got += e.type == KVRT_EVENT_TOKEN;
  }
  EXPECT(got == 150, "%zu tokens", got);
  kvrt_session_close(s);
  kvrt_session_close(other);
  free(tokens);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  context(&t);
  pool(&t);
  crowd(&t);
  unread(&t);
  stage_close(&t);
  return finish();
}
