// The words of a generation and where it stops: seeds, log-probabilities, stop tokens, stop strings, events.
#include <math.h>

#include "misuse.h"

enum { kPrompt = 20, kLength = 40 };

struct heard {
  char text[2048];
  size_t text_size, count, done, logits;
  int32_t token[kLength];
  double logprob[kLength];
  uint64_t position[kLength];
};

static int32_t hear(void* user, const kvrt_event* e) {
  struct heard* h = user;
  EXPECT(e->struct_size >= sizeof *e, "event of %u bytes", e->struct_size);
  EXPECT(h->done == 0, "an event after DONE");
  if (e->type == KVRT_EVENT_TOKEN && h->count < kLength) {
    h->token[h->count] = e->token, h->logprob[h->count] = e->logprob, h->position[h->count++] = e->position;
    if (h->text_size + e->text_size < sizeof h->text) memcpy(h->text + h->text_size, e->text, e->text_size), h->text_size += e->text_size;
  }
  h->logits += e->type == KVRT_EVENT_LOGITS;
  h->done += e->type == KVRT_EVENT_DONE;
  return 0;
}

static kvrt_report generate(struct stage* t, kvrt_generate_options o, struct heard* h) {
  memset(h, 0, sizeof *h);
  o.struct_size = sizeof o;
  if (o.max_tokens == 0) o.max_tokens = kLength;
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_truncate(t->session, kPrompt, NULL));
  MUST(kvrt_session_generate(t->session, &o, hear, h, &report, NULL));
  check_report(&report, "generate");
  EXPECT(h->done == 1 && report.generated >= h->count, "%zu DONE events, %" PRIu64 " generated, %zu TOKEN events", h->done,
         report.generated, h->count);
  return report;
}

static void seeds(struct stage* t) {
  struct heard a, b;
  kvrt_generate_options o = {.temperature = 1.0f, .ignore_eos = 1};
  const kvrt_report drawn = generate(t, o, &a);
  EXPECT(drawn.seed != 0 && a.count == kLength, "seed %" PRIu64, drawn.seed);
  o.seed = drawn.seed;
  const kvrt_report given = generate(t, o, &b);
  EXPECT(given.seed == drawn.seed && memcmp(a.token, b.token, sizeof a.token) == 0, "the reported seed gives other tokens");
  o.seed = drawn.seed + 1;
  generate(t, o, &b);
  EXPECT(memcmp(a.token, b.token, sizeof a.token) != 0, "another seed gives the same tokens");
  for (size_t i = 0; i < kLength; ++i) {
    EXPECT(a.logprob[i] <= 0 && a.logprob[i] > -60 && a.position[i] == kPrompt + i, "logprob %g at %" PRIu64, a.logprob[i], a.position[i]);
  }
  struct heard greedy, top;
  generate(t, (kvrt_generate_options){.ignore_eos = 1}, &greedy);
  generate(t, (kvrt_generate_options){.ignore_eos = 1, .temperature = 2.0f, .top_k = 1, .seed = 5}, &top);
  EXPECT(memcmp(greedy.token, top.token, sizeof top.token) == 0, "top_k 1 is not greedy");
}

struct softmax {
  double logprob[kLength];
  size_t count;
  const float* last;
};

// The log-probability of a greedy token, from the logits themselves.
static int32_t from_logits(void* user, const kvrt_event* e) {
  struct softmax* s = user;
  if (e->type != KVRT_EVENT_LOGITS || s->count >= kLength) return 0;
  double max = -INFINITY, sum = 0;
  for (size_t i = 0; i < e->logits_count; ++i) max = e->logits[i] > max ? e->logits[i] : max;
  for (size_t i = 0; i < e->logits_count; ++i) sum += exp(e->logits[i] - max);
  s->logprob[s->count++] = -log(sum);
  return 0;
}

static void logprobs(struct stage* t) {
  struct heard h;
  struct softmax s = {.count = 0};
  generate(t, (kvrt_generate_options){.ignore_eos = 1}, &h);
  MUST(kvrt_session_truncate(t->session, kPrompt, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .ignore_eos = 1, .emit_logits = 1, .max_tokens = kLength};
  MUST(kvrt_session_generate(t->session, &o, from_logits, &s, NULL, NULL));
  for (size_t i = 0; i < kLength; ++i)
    EXPECT(fabs(h.logprob[i] - s.logprob[i]) < 1e-4, "logprob %g, from the logits %g", h.logprob[i], s.logprob[i]);
}

static void stops(struct stage* t) {
  struct heard all, h;
  kvrt_generate_options o = {.temperature = 1.0f, .seed = 11, .ignore_eos = 1};
  generate(t, o, &all);
  size_t at = 7;  // a token that does not come earlier
  for (size_t i = 0; i < at; ++i) {
    if (all.token[i] == all.token[at]) ++at, i = 0;
  }
  o.stop_tokens = &all.token[at];
  o.stop_token_count = 1;
  kvrt_report report = generate(t, o, &h);
  EXPECT(report.reason == KVRT_REASON_STOP && report.generated == at + 1, "reason %u after %" PRIu64 ", expected %zu", report.reason,
         report.generated, at + 1);
  o.stop_tokens = NULL, o.stop_token_count = 0;
  // A stop string out of the middle of the text: the text ends before it, the tokens stay, and stop_string_tokens says how many to drop.
  size_t from = 0;
  for (size_t i = 10; from == 0 && i + 3 < all.text_size; ++i) {
    const unsigned char* p = (const unsigned char*)all.text + i;
    if (p[0] > 32 && p[0] < 127 && p[1] > 31 && p[1] < 127 && p[2] > 31 && p[2] < 127 && memmem(all.text, i + 2, p, 3) == NULL) from = i;
  }
  REQUIRE(from != 0, "no place for a stop string in the text");
  char stop[8] = {0};
  memcpy(stop, all.text + from, 3);
  o.stop_strings = stop;
  o.stop_strings_size = 4;
  report = generate(t, o, &h);
  EXPECT(report.reason == KVRT_REASON_STOP && report.stop_string_tokens >= 1 && report.stop_string_tokens <= 4,
         "reason %u, stop_string_tokens %u", report.reason, report.stop_string_tokens);
  EXPECT(h.text_size == from && memcmp(h.text, all.text, from) == 0, "%zu bytes of text, expected %zu", h.text_size, from);
  const uint64_t tokens = session_props(t->session).tokens;
  EXPECT(tokens == kPrompt + report.generated && memcmp(h.token, all.token, h.count * sizeof *h.token) == 0, "%" PRIu64 " tokens", tokens);
  MUST(kvrt_session_truncate(t->session, tokens - report.stop_string_tokens, NULL));
  int32_t left[kPrompt + kLength];
  const size_t count = session_tokens(t->session, left, kPrompt + kLength);
  char text[2048];
  size_t size = 0;
  MUST(kvrt_model_detokenize(t->model, left + kPrompt, count - kPrompt, KVRT_TEXT_SPECIAL, text, sizeof text, &size, NULL));
  EXPECT(size <= from && from - size < 8, "what is left has %zu bytes, the text %zu", size, from);
  // One that never comes: all text arrives, also the part that was held back.
  o.stop_strings = "\x01never\0neither";
  o.stop_strings_size = 15;
  report = generate(t, o, &h);
  EXPECT(report.reason == KVRT_REASON_MAX_TOKENS && h.text_size == all.text_size && memcmp(h.text, all.text, h.text_size) == 0,
         "%zu bytes of %zu", h.text_size, all.text_size);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  seeds(&t);
  logprobs(&t);
  stops(&t);
  stage_close(&t);
  return finish();
}
