// append_message: a conversation without generated turns has the tokens of its template; generated turns keep their sampled tokens;
// messages outlive truncate, fork, suspend and resume.
#include "chat.h"
#include "misuse.h"

static kvrt_report answer(kvrt_session* s, uint32_t length) {
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = length, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  return report;
}

static void without_answers(struct stage* t) {
  int32_t want[1024];
  kvrt_session* s = open_session(t->model, NULL, 0);
  kvrt_append_info info;
  say(s, "system", "Be brief.", &info);
  EXPECT(info.rewritten == 0 && info.appended == session_props(s).tokens, "appended %" PRIu64, info.appended);
  say(s, "user", "What is 2 + 2? \\u00e9\\u4e2d", &info);
  say(s, "assistant", "Four.", &info);
  say(s, "user", "And 3 + 3?", &info);
  EXPECT(info.rewritten == 0, "rewritten %" PRIu64, info.rewritten);
  const char* all =
      "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"What is 2 + 2? \\u00e9\\u4e2d\"},"
      "{\"role\":\"assistant\",\"content\":\"Four.\"},{\"role\":\"user\",\"content\":\"And 3 + 3?\"}]";
  expect_tokens(s, want, templated(t->model, all, NULL, 1, want, 1024), "before begin");
  const size_t prompt = templated(t->model, all, NULL, 0, want, 1024);
  const kvrt_report report = answer(s, 1);  // begin opens the assistant's turn
  EXPECT(report.prompt_tokens == prompt, "prompt of %" PRIu64 ", templated %zu", report.prompt_tokens, prompt);
  MUST(kvrt_session_truncate(s, prompt, NULL));
  expect_tokens(s, want, prompt, "with the generation prompt");
  kvrt_session_close(s);
}

// Tokens that no message made are not of the conversation: the next message drops them, and says so.
static void after_tokens(struct stage* t) {
  int32_t raw[8], want[256];
  prompt_tokens(raw, 8, 1, model_props(t->model).vocab_size);
  kvrt_session* s = open_session(t->model, NULL, 0);
  MUST(kvrt_session_append(s, raw, 8, NULL));
  kvrt_append_info info;
  say(s, "user", "Hello", &info);
  const size_t count = templated(t->model, "[{\"role\":\"user\",\"content\":\"Hello\"}]", NULL, 1, want, 256);
  EXPECT(info.rewritten_at + info.rewritten == 8, "%" PRIu64 " rewritten at %" PRIu64 ", expected up to 8", info.rewritten,
         info.rewritten_at);
  expect_tokens(s, want, count, "after tokens of no message");
  kvrt_session_close(s);
}

// The number of tokens after `from` that spell whole code points.
static size_t whole_tokens(struct stage* t, const int32_t* tokens, size_t from, size_t count) {
  size_t whole = from;
  for (size_t end = from + 1; end <= count; ++end) {
    unsigned char text[512];
    size_t size = 0, i = 0;
    MUST(kvrt_model_detokenize(t->model, tokens + from, end - from, KVRT_TEXT_SPECIAL, (char*)text, sizeof text, &size, NULL));
    while (i < size) {
      const size_t length = text[i] < 0x80 ? 1 : text[i] >= 0xC2 && text[i] < 0xE0 ? 2 : text[i] >= 0xE1 && text[i] < 0xED ? 3 : 9;
      if (i + length > size) break;
      for (size_t k = 1; k < length; ++k) {
        if ((text[i + k] & 0xC0) != 0x80) return whole;
      }
      i += length;
    }
    if (i == size) whole = end;
  }
  return whole;
}

// An answer of 9 tokens to "Hello": one of whole code points, or one that the end cuts inside a code point.
static kvrt_report answer_of_kind(struct stage* t, kvrt_session* s, int whole, uint64_t* seed) {
  const uint64_t before = session_props(s).tokens;
  for (uint64_t tried = *seed ? *seed : 1; tried < 5000; ++tried) {
    kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 9, .ignore_eos = 1, .temperature = 0.7f, .seed = tried};
    kvrt_report report = {.struct_size = sizeof report};
    MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
    int32_t tokens[1024];
    const size_t count = session_tokens(s, tokens, 1024);
    int special = 0;
    for (size_t i = report.prompt_tokens; i < count; ++i) special += tokens[i] < 3;
    *seed = tried;
    if (special == 0 && (whole_tokens(t, tokens, report.prompt_tokens, count) == count) == whole) return report;
    MUST(kvrt_session_truncate(s, before, NULL));
  }
  REQUIRE(0, "no answer of the kind");
}

static void with_answers(struct stage* t) {
  kvrt_save_options save = {.struct_size = sizeof save, .overwrite = 1};
  kvrt_session* s = open_session(t->model, t->store, 0);
  say(s, "user", "Hello", NULL);
  const uint64_t after_user = session_props(s).tokens;
  uint64_t seed = 0;
  const kvrt_report first = answer_of_kind(t, s, 1, &seed);
  int32_t before[1024], after[1024];
  const size_t count = session_tokens(s, before, 1024);
  EXPECT(count == first.prompt_tokens + 9 && first.prompt_tokens > after_user, "%zu tokens", count);
  kvrt_session* fork = NULL;
  MUST(kvrt_session_fork(s, NULL, &fork, NULL));
  MUST(kvrt_session_suspend(s, "chat", 4, &save, NULL, NULL));
  kvrt_session* back = resume_session(t->model, t->store, "chat", NULL);
  kvrt_session* three[] = {s, fork, back};
  struct run runs[3];
  memset(runs, 0, sizeof runs);
  for (int i = 0; i < 3; ++i) {  // the three are the same conversation
    kvrt_append_info info;
    say(three[i], "user", "And more?", &info);
    EXPECT(info.rewritten == 0, "%d: rewritten %" PRIu64, i, info.rewritten);
    const kvrt_report report = generate_into(three[i], 7, &runs[i]);
    EXPECT(report.reused_memory + report.reused_disk >= count / 32 * 32, "%d: reused %" PRIu64, i, report.reused_memory);
    const size_t n = session_tokens(three[i], after, 1024);
    EXPECT(n > count && memcmp(before, after, count * sizeof *before) == 0, "%d: the sampled tokens changed", i);
    EXPECT(memcmp(runs[i].digest, runs[0].digest, sizeof runs[0].digest) == 0, "%d goes on differently", i);
  }
  // Truncating to the first message and answering again gives the same prompt and answer.
  MUST(kvrt_session_truncate(back, after_user, NULL));
  const kvrt_report again = answer_of_kind(t, back, 1, &seed);
  const size_t n = session_tokens(back, after, 1024);
  EXPECT(again.prompt_tokens == first.prompt_tokens && n == count && memcmp(before, after, count * sizeof *before) == 0,
         "after truncate: prompt %" PRIu64 ", first %" PRIu64, again.prompt_tokens, first.prompt_tokens);
  kvrt_session_close(s);
  kvrt_session_close(fork);
  kvrt_session_close(back);
}

// An answer that ends inside a code point keeps its sampled tokens all the same.
static void cut_answer(struct stage* t) {
  kvrt_session* s = open_session(t->model, NULL, 0);
  say(s, "user", "Hello", NULL);
  uint64_t seed = 0;
  (void)answer_of_kind(t, s, 0, &seed);
  int32_t before[1024], after[1024];
  const size_t count = session_tokens(s, before, 1024);
  for (int turn = 0; turn < 2; ++turn) {
    kvrt_append_info info;
    say(s, "user", "And more?", &info);
    EXPECT(info.rewritten == 0, "%" PRIu64 " tokens rewritten", info.rewritten);
    const size_t n = session_tokens(s, after, 1024);
    EXPECT(n > count && memcmp(before, after, count * sizeof *before) == 0, "the sampled tokens changed");
    (void)answer(s, 3);
  }
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  without_answers(&t);
  after_tokens(&t);
  with_answers(&t);
  cut_answer(&t);
  stage_close(&t);
  return finish();
}
