// Going back and going on: forgetting the oldest turns, a full context, another answer to the same question, the best of n, and prompts
// that cannot fit.
#include "chat.h"
#include "misuse.h"

static kvrt_report answer(kvrt_session* s, uint32_t length, uint64_t seed, struct run* r) {
  kvrt_generate_options o = run_options(length);
  o.seed = seed;
  kvrt_report report = {.struct_size = sizeof report};
  memset(r, 0, sizeof *r);
  MUST(kvrt_session_generate(s, &o, run_callback, r, &report, NULL));
  check_report(&report, "answer");
  return report;
}

// An answer without special tokens, which the template would make something else of.
static uint64_t plain_answer(kvrt_session* s, uint32_t length) {
  static struct run r;
  const uint64_t before = session_props(s).tokens;
  for (uint64_t seed = 1; seed < 1000; ++seed) {
    (void)answer(s, length, seed, &r);
    int special = 0;
    for (size_t i = 0; i < r.count; ++i) special += r.token[i] < 3;
    if (special == 0) return seed;
    MUST(kvrt_session_truncate(s, before, NULL));
  }
  REQUIRE(0, "no such answer");
}

// Messages of the host alone: the tokens are the template over the messages that stay.
static void forget_host(struct stage* t) {
  static const char* const text[] = {"One?", "Yes.", "Two of them?", "No, three.", "Four?", "No."};
  for (size_t first = 1; first <= 5; ++first) {  // of the messages that stay
    kvrt_session* s = open_session(t->model, NULL, 0);
    char json[kChatMax];
    int32_t wanted[1024];
    say(s, "system", "Count.", NULL);
    for (int i = 0; i < 6; ++i) say(s, i % 2 ? "assistant" : "user", text[i], NULL);
    MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
    const uint64_t from = message_props(s, 0).end, to = message_props(s, first).begin, before = session_props(s).tokens;
    int32_t was[1024];
    (void)session_tokens(s, was, 1024);
    MUST(kvrt_session_erase(s, from, to, NULL));
    EXPECT(session_props(s).messages == 8 - first && session_props(s).tokens == before - (to - from), "%" PRIu64 " messages",
           session_props(s).messages);
    all_messages(s, json, sizeof json);
    expect_tokens(s, wanted, templated(t->model, json, NULL, 1, wanted, 1024), "after erase");
    uint64_t same = 0;
    while (same < session_props(s).tokens && was[same] == wanted[same]) ++same;
    EXPECT(same >= from && session_props(s).kv_tokens == same, "%" PRIu64 " have KV, %" PRIu64 " are the same", session_props(s).kv_tokens,
           same);
    uint64_t end = 0;
    for (uint64_t i = 0; i < session_props(s).messages; ++i) {
      const kvrt_message_props p = message_props(s, i);
      EXPECT(p.begin >= end && p.end > p.begin, "message %" PRIu64 " lies at %" PRIu64 " to %" PRIu64, i, p.begin, p.end);
      end = p.end;
    }
    EXPECT(end == session_props(s).tokens, "the last message ends at %" PRIu64, end);
    expect_sound(s, t->model, "after erase");
    kvrt_append_info info;
    say(s, "user", "Five?", &info);
    EXPECT(info.rewritten == 0, "%" PRIu64 " rewritten", info.rewritten);
    all_messages(s, json, sizeof json);
    expect_tokens(s, wanted, templated(t->model, json, NULL, 1, wanted, 1024), "append after erase");
    expect_sound(s, t->model, "append after erase");
    kvrt_session_close(s);
  }
}

// Answers that stay keep their tokens; also over a save and a resume.
static void forget_generated(struct stage* t) {
  static struct run r;
  kvrt_session* s = open_session(t->model, t->store, 0);
  say(s, "system", "Count.", NULL);
  for (int i = 0; i < 3; ++i) {
    say(s, "user", i == 0 ? "One?" : i == 1 ? "Two?" : "Three?", NULL);
    (void)plain_answer(s, 9);
  }
  int32_t before[1024], after[1024], wanted[1024];
  const size_t n_before = session_tokens(s, before, 1024);
  const kvrt_message_props kept = message_props(s, 4);
  const uint64_t system_end = message_props(s, 0).end;
  MUST(kvrt_session_erase(s, system_end, message_props(s, 3).begin, NULL));
  const kvrt_message_props moved = message_props(s, 2);
  const size_t n = session_tokens(s, after, 1024);
  EXPECT(moved.generated && moved.end - moved.begin == kept.end - kept.begin &&
             memcmp(after + moved.begin, before + kept.begin, (kept.end - kept.begin) * sizeof *after) == 0,
         "the answer that stays");
  EXPECT(n_before - kept.begin == n - moved.begin, "%zu tokens of %zu", n, n_before);
  EXPECT(memcmp(before, after, system_end * sizeof *after) == 0, "the system message");
  expect_sound(s, t->model, "after erase");
  MUST(kvrt_session_suspend(s, "forget", 6, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
  kvrt_session* back = resume_session(t->model, t->store, "forget", NULL);
  kvrt_session* const both[] = {s, back};
  size_t counts[2];
  for (int i = 0; i < 2; ++i) {
    kvrt_append_info info;
    say(both[i], "user", "Four?", &info);
    EXPECT(info.rewritten == 0, "%" PRIu64 " rewritten after erase", info.rewritten);
    counts[i] = session_tokens(both[i], i ? wanted : after, 1024);
    (void)answer(both[i], 5, 3, &r);
    expect_sound(both[i], t->model, "append after erase");
    kvrt_session_close(both[i]);
  }
  EXPECT(counts[0] == counts[1] && memcmp(after, wanted, counts[0] * sizeof *after) == 0, "resumed after erase: %zu tokens, %zu", counts[1],
         counts[0]);
}

static void full_context(struct stage* t) {
  static struct run r;
  kvrt_session* s = open_session(t->model, NULL, 0);
  say(s, "system", "Talk.", NULL);
  for (int i = 0; i < 12; ++i) {
    say(s, "user", "Tell me more, and more, and more of it.", NULL);
    (void)plain_answer(s, 20);
  }
  say(s, "user", "All of it.", NULL);
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  EXPECT(report.reason == KVRT_REASON_CONTEXT_FULL && session_props(s).tokens == t->context, "reason %u, %" PRIu64 " tokens", report.reason,
         session_props(s).tokens);
  const char* message = "{\"role\":\"user\",\"content\":\"Go on.\"}";
  ROW("session_append_message", "the context is full", kvrt_session_append_message(s, message, strlen(message), NULL, NULL),
      ANY(KVRT_LIMIT));
  EXPECT(session_props(s).tokens == t->context, "it changed");
  MUST(kvrt_session_erase(s, message_props(s, 0).end, message_props(s, 21).begin, NULL));
  EXPECT(session_props(s).tokens < t->context, "%" PRIu64 " tokens", session_props(s).tokens);
  expect_sound(s, t->model, "a full context after erase");
  MUST(kvrt_session_append_message(s, message, strlen(message), NULL, NULL));
  (void)answer(s, 8, 2, &r);
  EXPECT(r.count == 8, "%zu tokens", r.count);
  expect_sound(s, t->model, "a full context, on again");
  kvrt_session_close(s);
}

static kvrt_session* asked(struct stage* t, uint32_t no_cache) {
  kvrt_session* s = open_session(t->model, NULL, no_cache);
  say(s, "system", "You know little, and you say less than that to whoever asks.", NULL);
  say(s, "user", "What do you know?", NULL);
  return s;
}

// Another answer by truncate, and n answers at once by forks: each is the one of a session of its own with that seed.
static void other_answers(struct stage* t) {
  enum { kAnswers = 6, kLength = 16 };
  static struct run want[kAnswers], got, forks[kAnswers];
  for (uint64_t i = 0; i < kAnswers; ++i) {
    kvrt_session* s = asked(t, 1);
    (void)answer(s, kLength, 100 + i, &want[i]);
    kvrt_session_close(s);
  }
  EXPECT(memcmp(want[0].token, want[1].token, kLength * sizeof(int32_t)) != 0, "seeds make no difference");
  kvrt_session* s = asked(t, 0);
  const uint64_t question = session_props(s).tokens;
  for (uint64_t i = 0; i < 2 * kAnswers; ++i) {
    (void)answer(s, kLength, 100 + i % kAnswers, &got);
    EXPECT(same_run(&got, &want[i % kAnswers]), "answer %" PRIu64 " after truncate", i);
    MUST(kvrt_session_truncate(s, question, NULL));
    EXPECT(session_props(s).messages == 2, "%" PRIu64 " messages", session_props(s).messages);
  }
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  kvrt_session* fork[kAnswers];
  for (int i = 0; i < kAnswers; ++i) {
    kvrt_generate_options o = run_options(kLength);
    o.seed = 100 + (uint64_t)i;
    MUST(kvrt_session_fork(s, NULL, &fork[i], NULL));
    MUST(kvrt_session_begin(fork[i], &o, NULL));
    memset(&forks[i], 0, sizeof forks[i]);
  }
  for (int i = 0; i < kAnswers; ++i) {
    drain(fork[i], &forks[i]);
    EXPECT(same_run(&forks[i], &want[i]), "fork %d", i);
    EXPECT(forks[i].report.reused_memory >= question - 1 && forks[i].report.prefilled <= forks[i].report.prompt_tokens - question + 1,
           "fork %d computed %" PRIu64, i, forks[i].report.prefilled);
    kvrt_session_close(fork[i]);
  }
  kvrt_session_close(s);
}

// A pool of 64 tokens: a prompt that cannot fit is LIMIT before any step, and the session stays as it was.
static void cannot_fit(struct stage* t) {
  kvrt_model* small = open_model(t->runtime, t->tiny, 0, 16, 64);
  kvrt_session* s = open_session(small, NULL, 0);
  int32_t tokens[70];
  char text[128], message[512];
  prompt_tokens(tokens, 70, 4, t->vocab);
  memset(text, 'x', 70);
  text[70] = 0;
  snprintf(message, sizeof message, "{\"role\":\"system\",\"content\":\"%s\"}", text);
  ROW("session_append", "65 tokens, a pool of 64", kvrt_session_append(s, tokens, 65, NULL), ANY(KVRT_LIMIT));
  EXPECT(strstr(last_message(), "kv_bytes_max"), "the message does not name the option: %s", last_message());
  ROW("session_append_text", "a long text", kvrt_session_append_text(s, text, 70, 0, NULL), ANY(KVRT_LIMIT));
  ROW("session_append_message", "a long message", kvrt_session_append_message(s, message, strlen(message), NULL, NULL), ANY(KVRT_LIMIT));
  snprintf(message, sizeof message, "[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"%s\"}]", text);
  ROW("session_set_messages", "a long message", kvrt_session_set_messages(s, message, strlen(message), NULL, NULL), ANY(KVRT_LIMIT));
  EXPECT(session_props(s).tokens == 0 && session_props(s).messages == 0, "%" PRIu64 " tokens stayed", session_props(s).tokens);
  // The question fits and the turn that begin opens does not.
  say(s, "system", "a", NULL);
  const uint64_t overhead = session_props(s).tokens;
  MUST(kvrt_session_truncate(s, 0, NULL));
  EXPECT(session_props(s).messages == 0, "messages after truncate to 0");
  for (uint64_t i = 0; i < 62 - overhead; ++i) text[i] = (char)('a' + i % 3 * 7), text[i + 1] = 0;
  say(s, "system", text, NULL);
  const kvrt_session_props before = session_props(s);
  EXPECT(before.tokens <= 64 && before.tokens > 53, "%" PRIu64 " tokens", before.tokens);
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 2};
  ROW("session_begin", "no room for the generation prompt", kvrt_session_begin(s, &o, NULL), ANY(KVRT_LIMIT));
  ROW("session_generate", "no room for the generation prompt", kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), ANY(KVRT_LIMIT));
  EXPECT(session_props(s).tokens == before.tokens && session_props(s).state == KVRT_STATE_IDLE, "the session changed");
  EXPECT(metrics_of(small).steps == 0 && metrics_of(small).generations == 0 && metrics_of(small).units_used == 0, "it computed");
  expect_sound(s, t->model, "after LIMIT");
  kvrt_session_close(s);
  kvrt_model_release(small);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  forget_host(&t);
  forget_generated(&t);
  full_context(&t);
  other_answers(&t);
  cannot_fit(&t);
  stage_close(&t);
  return finish();
}
