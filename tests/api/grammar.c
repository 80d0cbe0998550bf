// Answers that have to fit a grammar: they do, they end, they go on after a restart where they were cut; an impossible request is refused.
#include <math.h>

#include "chat.h"
#include "misuse.h"

static kvrt_generate_options constrained(uint32_t kind, const char* grammar, uint32_t max_tokens, uint64_t seed) {
  return (kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options),
                                 .max_tokens = max_tokens,
                                 .temperature = seed ? 1.5f : 0,
                                 .seed = seed,
                                 .grammar_kind = kind,
                                 .grammar = grammar,
                                 .grammar_size = grammar ? strlen(grammar) : 0};
}

static int32_t collect(void* user, const kvrt_event* e) {
  char* text = user;
  if (e->type == KVRT_EVENT_TOKEN || e->type == KVRT_EVENT_DONE) strncat(text, e->text ? e->text : "", e->text_size);
  return 0;
}

static kvrt_session* asked(kvrt_model* model, kvrt_store* store) {
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append_text(s, "Say it: ", 8, 0, NULL));
  return s;
}

static kvrt_report answer(kvrt_session* s, kvrt_generate_options o, char text[512]) {
  kvrt_report report = {.struct_size = sizeof report};
  text[0] = 0;
  MUST(kvrt_session_generate(s, &o, collect, text, &report, NULL));
  return report;
}

// Whatever the draws, the answer is one of the two, and both come.
static void choices(kvrt_model* model) {
  int yes = 0, no = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    kvrt_session* s = asked(model, NULL);
    char text[512];
    const kvrt_report r = answer(s, constrained(KVRT_GRAMMAR_GBNF, "root ::= \"yes\" | \"no\"", 0, seed), text);
    yes += strcmp(text, "yes") == 0, no += strcmp(text, "no") == 0;
    EXPECT(r.reason == KVRT_REASON_EOS, "reason %u after \"%s\"", r.reason, text);
    kvrt_session_close(s);
  }
  EXPECT(yes + no == 40 && yes && no, "%d yes, %d no of 40", yes, no);
}

static const char kNumber[] =
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":0}},\"required\":[\"n\"],\"additionalProperties\":false}";

static void schema(kvrt_model* model) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    kvrt_session* s = asked(model, NULL);
    char text[512], shape[512], end = 0;
    unsigned long long n = 0;
    // The random model may write digits for ever: then its answer is a prefix.
    const kvrt_report r = answer(s, constrained(KVRT_GRAMMAR_JSON_SCHEMA, kNumber, 30, seed), text);
    size_t used = 0;
    for (const char* p = text; *p; ++p) {
      if (*p != ' ' && *p != '\n') shape[used++] = *p;
    }
    shape[used] = 0;
    if (r.reason == KVRT_REASON_EOS) {
      EXPECT(sscanf(shape, "{\"n\":%llu%c", &n, &end) == 2 && end == '}', "the answer is %s", text);
    } else {
      EXPECT(strncmp(shape, "{\"n\":", used < 5 ? used : 5) == 0, "the answer begins %s", text);
    }
    kvrt_session_close(s);
  }
}

static int32_t keep_tokens(void* user, const kvrt_event* e) {
  int32_t** next = user;
  if (e->type == KVRT_EVENT_TOKEN) *(*next)++ = e->token;
  return 0;
}

// Control tokens come where a rule names them (0 is <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>), and leave no text.
static void tokens(kvrt_model* model) {
  kvrt_session* s = asked(model, NULL);
  int32_t got[16] = {0}, *next = got;
  kvrt_generate_options o = constrained(KVRT_GRAMMAR_GBNF, "root ::= <|im_start|> [a-c]{2} !<|im_end|> <[1]> \"z\"", 2, 1);
  MUST(kvrt_session_generate(s, &o, keep_tokens, &next, NULL, NULL));
  o = constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 2);
  MUST(kvrt_session_generate(s, &o, keep_tokens, &next, NULL, NULL));
  const ptrdiff_t n = next - got;
  EXPECT(n >= 5 && n <= 7 && got[0] == 1 && got[1] > 2 && got[n - 1] != 1, "%td tokens: %d %d %d %d %d", n, got[0], got[1], got[2], got[3],
         got[4]);
  int starts = 0;
  for (ptrdiff_t i = 1; i < n; ++i) starts += got[i] == 1;
  EXPECT(starts == 1 || starts == 2, "<|im_start|> came %d times after the first", starts);
  kvrt_session_close(s);
}

// Names no member, and wants one: only where others may come there is an answer, which goes on after a cut.
static void open_schema(kvrt_model* model) {
  const char* one = "{\"properties\":{},\"propertyNames\":{\"enum\":[\"q\"]},\"minProperties\":1}";
  kvrt_session* s = asked(model, NULL);
  char text[512], more[512];
  kvrt_generate_options o = constrained(KVRT_GRAMMAR_JSON_SCHEMA, one, 1, 3);
  EXPECT(kvrt_session_begin(s, &o, NULL) == KVRT_UNSUPPORTED, "closed: %s", last_message());
  (void)answer(s, constrained(KVRT_GRAMMAR_JSON_SCHEMA_OPEN, one, 1, 3), text);
  (void)answer(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 60, 3), more);
  strcat(text, more);
  const char* name = strchr(text, '"');
  EXPECT(text[0] == '{' && name && strncmp(name, "\"q\":", 4) == 0, "open: %s", text);
  kvrt_session_close(s);
}

static const char kDigits[] = "root ::= [0-9]{30}";

// Cut into pieces by max_tokens, by a restart and in a fork, the answer is that of one go.
static void goes_on(const char* path, kvrt_model* model) {
  char dir[kPathMax], whole[512], text[512], more[512];
  make_dir(dir);
  kvrt_session* s = asked(model, NULL);
  (void)answer(s, constrained(KVRT_GRAMMAR_GBNF, kDigits, 0, 5), whole);
  EXPECT(strspn(whole, "0123456789") == 30 && whole[30] == 0, "not 30 digits: %s", whole);
  kvrt_session_close(s);

  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_store* store = open_store(rt, dir);
  kvrt_model* first = open_model(rt, path, 0, 0, 0);
  s = asked(first, store);
  kvrt_report r = answer(s, constrained(KVRT_GRAMMAR_GBNF, kDigits, 4, 5), text);
  EXPECT(r.reason == KVRT_REASON_MAX_TOKENS, "reason %u", r.reason);
  MUST(kvrt_session_suspend(s, "digits", 6, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_model_release(first);
  kvrt_store_release(store);
  kvrt_runtime_release(rt);

  rt = open_runtime(1, 0);
  store = open_store(rt, dir);
  first = open_model(rt, path, 0, 0, 0);
  MUST(kvrt_session_resume(first, store, "digits", 6, NULL, NULL, NULL, NULL, &s, NULL));
  kvrt_session* fork = NULL;
  MUST(kvrt_session_fork(s, NULL, &fork, NULL));
  (void)answer(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 3, 5), more);
  strcat(text, more);
  (void)answer(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 5), more);
  strcat(text, more);
  EXPECT(strcmp(text, whole) == 0, "in pieces %s, in one go %s", text, whole);
  EXPECT(
      kvrt_session_begin(s, &(kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .grammar_kind = KVRT_GRAMMAR_CONTINUE},
                         NULL) == KVRT_INVALID &&
          strstr(last_message(), "end"),
      "after the end: %s", last_message());
  (void)answer(fork, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 5), more);
  EXPECT(strlen(more) > 0 && strcmp(whole + strlen(whole) - strlen(more), more) == 0, "the fork says %s, the whole is %s", more, whole);
  kvrt_session_close(fork);
  kvrt_session_close(s);
  kvrt_model_release(first);
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
  remove_tree(dir);
}

static kvrt_status begin(kvrt_session* s, kvrt_generate_options o) { return kvrt_session_begin(s, &o, NULL); }

static void refused(struct stage* t) {
  kvrt_session* s = asked(t->model, NULL);
  const uint64_t before = session_props(s).tokens;
  kvrt_generate_options o = constrained(KVRT_GRAMMAR_GBNF, "root ::= \"a\" b", 0, 0);
  ROW("begin", "GBNF with an undefined rule", begin(s, o), ANY(KVRT_INVALID));
  EXPECT(last_detail() == KVRT_DETAIL_GRAMMAR_ERROR, "detail %d: %s", (int)last_detail(), last_message());
  o = constrained(KVRT_GRAMMAR_GBNF, "root ::= <no-such-token>", 0, 0);
  ROW("begin", "GBNF with a token that is not there", begin(s, o), ANY(KVRT_INVALID));
  EXPECT(strstr(last_message(), "line 1, column 10: there is no token <no-such-token>") != NULL, "%s", last_message());
  o = constrained(KVRT_GRAMMAR_JSON_SCHEMA, "{\"type\":", 0, 0);
  ROW("begin", "a schema that is not JSON", begin(s, o), ANY(KVRT_INVALID));
  o = constrained(KVRT_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true}", 0, 0);
  ROW("begin", "uniqueItems", begin(s, o), ANY(KVRT_UNSUPPORTED));
  EXPECT(strstr(last_message(), "uniqueItems") != NULL, "does not name it: %s", last_message());
  o = constrained(KVRT_GRAMMAR_GBNF, "root ::= \"a\"", 0, 0);
  o.ignore_eos = 1;
  ROW("begin", "grammar and ignore_eos", begin(s, o), ANY(KVRT_INVALID));
  o.ignore_eos = 0, o.prefill = 1;
  ROW("begin", "grammar and prefill", begin(s, o), ANY(KVRT_INVALID));
  ROW("begin", "CONTINUE without a grammar before", begin(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 0)), ANY(KVRT_INVALID));
  ROW("begin", "CONTINUE with a grammar", begin(s, constrained(KVRT_GRAMMAR_CONTINUE, "root ::= \"a\"", 0, 0)), ANY(KVRT_INVALID));
  ROW("begin", "GBNF without a grammar", begin(s, constrained(KVRT_GRAMMAR_GBNF, NULL, 0, 0)), ANY(KVRT_INVALID));
  ROW("begin", "a grammar without its kind", begin(s, constrained(0, "root ::= \"a\"", 0, 0)), ANY(KVRT_INVALID));
  ROW("begin", "JSON_SCHEMA_OPEN without a schema", begin(s, constrained(KVRT_GRAMMAR_JSON_SCHEMA_OPEN, NULL, 0, 0)), ANY(KVRT_INVALID));
  ROW("begin", "grammar_kind 5", begin(s, constrained(5, NULL, 0, 0)), ANY(KVRT_INVALID));
  EXPECT(session_props(s).tokens == before && session_props(s).state == KVRT_STATE_IDLE, "a refused begin left a trace");

  char text[512];
  (void)answer(s, constrained(KVRT_GRAMMAR_GBNF, kDigits, 4, 0), text);
  MUST(kvrt_session_append_text(s, "x", 1, 0, NULL));
  ROW("begin", "CONTINUE after what does not fit", begin(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 0)), ANY(KVRT_INVALID));
  MUST(kvrt_session_truncate(s, before + 2, NULL));
  (void)answer(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 0), text);
  EXPECT(strspn(text, "0123456789") == strlen(text), "after truncate: %s", text);
  MUST(kvrt_session_truncate(s, before - 1, NULL));
  ROW("begin", "CONTINUE of what was truncated away", begin(s, constrained(KVRT_GRAMMAR_CONTINUE, NULL, 0, 0)), ANY(KVRT_INVALID));
  kvrt_session_close(s);
}

// sampler HOST: the row has the tokens that fit, and accept refuses the rest.
static void host(struct stage* t) {
  kvrt_session* s = asked(t->model, NULL);
  kvrt_generate_options o = constrained(KVRT_GRAMMAR_GBNF, "root ::= \"ab\"", 0, 0);
  o.sampler = KVRT_SAMPLER_HOST;
  MUST(kvrt_session_begin(s, &o, NULL));
  char text[512] = "";
  int refusals = 0;
  kvrt_event e = {.struct_size = sizeof e};
  while (1) {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    collect(text, &e);
    if (e.type == KVRT_EVENT_DONE) break;
    if (e.type != KVRT_EVENT_LOGITS) continue;
    int32_t fits = -1, other = -1;
    for (size_t i = 0; i < e.logits_count; ++i) *(isinf(e.logits[i]) ? &other : &fits) = (int32_t)i;
    REQUIRE(fits >= 0 && other >= 0, "all or none of the tokens fit");
    refusals += kvrt_session_accept(s, other, NULL) == KVRT_INVALID;
    MUST(kvrt_session_accept(s, fits, NULL));
  }
  EXPECT(strcmp(text, "ab") == 0 && refusals >= 2 && e.reason == KVRT_REASON_EOS, "\"%s\", %d refusals, reason %u", text, refusals,
         e.reason);
  kvrt_session_close(s);
}

static int32_t give_none(void* user, const kvrt_event* event) {
  (void)user, (void)event;
  return 0;
}

// A callback that gives no token: the call fails, and leaves its report alone.
static void host_without_token(struct stage* t) {
  kvrt_session* s = asked(t->model, NULL);
  const kvrt_generate_options o = {.struct_size = sizeof o, .sampler = KVRT_SAMPLER_HOST, .max_tokens = 4};
  kvrt_report report, before;
  memset(&report, 0x5a, sizeof report);
  report.struct_size = sizeof report;
  memcpy(&before, &report, sizeof report);
  const kvrt_status status = kvrt_session_generate(s, &o, give_none, NULL, &report, NULL);
  EXPECT(status == KVRT_INVALID, "%s", kvrt_status_name(status));
  EXPECT(memcmp(&report, &before, sizeof report) == 0, "the report of a call that failed was written");
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  choices(t.model);
  schema(t.model);
  tokens(t.model);
  open_schema(t.model);
  goes_on(t.tiny, t.model);
  refused(&t);
  host(&t);
  host_without_token(&t);
  stage_close(&t);
  return finish();
}
