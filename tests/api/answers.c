// Answers whose reasoning is free, and whose content or calls are bound: also after a cut, a restart, and with no parts wanted.
#include "chat.h"
#include "misuse.h"

// In the style of Hermes and Qwen 3.5: the prompt opens reasoning, or closes it.
static const char kTemplate[] =
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> answer with <tool_call>{\"name\": ..., \"arguments\": "
    "...}</tool_call>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% if closed %}\n</think>\n\n{% endif %}{% endif %}";
static const char kTools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2,3]},"
    "\"b\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\",\"b\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]";
static const char kSchema[] = "{\"type\":\"object\",\"properties\":{\"n\":{\"enum\":[10,20,30]}},\"required\":[\"n\"]}";

struct parts {
  char raw[4096], content[4096], reasoning[4096], calls[4096];
  int call_count;
  uint32_t reason;
};

static int32_t collect(void* user, const kvrt_event* e) {
  struct parts* p = user;
  const size_t size = e->text_size;
  if (e->type == KVRT_EVENT_TOKEN || e->type == KVRT_EVENT_DONE) strncat(p->raw, e->text ? e->text : "", size);
  if (e->type == KVRT_EVENT_CONTENT) strncat(p->content, e->text, size);
  if (e->type == KVRT_EVENT_REASONING) strncat(p->reasoning, e->text, size);
  if (e->type == KVRT_EVENT_TOOL_CALL) strncat(p->calls, e->text, size), strcat(p->calls, ";"), ++p->call_count;
  return 0;
}

static kvrt_generate_options options(uint64_t seed) {
  return (kvrt_generate_options){
      .struct_size = sizeof(kvrt_generate_options), .max_tokens = 400, .temperature = 1.5f, .seed = seed, .reply = KVRT_REPLY_AUTO};
}

static kvrt_generate_options by_schema(uint64_t seed) {
  kvrt_generate_options o = options(seed);
  o.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA, o.grammar = kSchema, o.grammar_size = strlen(kSchema);
  o.reasoning_tokens_max = 6;
  return o;
}

static kvrt_generate_options by_choice(uint64_t seed, uint32_t choice, const char* name) {
  kvrt_generate_options o = options(seed);
  o.tool_choice = choice, o.reasoning_tokens_max = 6, o.tool_name = name, o.tool_name_size = name ? strlen(name) : 0;
  return o;
}

static void generate(kvrt_session* s, kvrt_generate_options o, struct parts* p) {
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, collect, p, &report, NULL));
  p->reason = report.reason;
}

static kvrt_session* asked(kvrt_model* model, kvrt_store* store, const char* tools, int closed) {
  kvrt_session* s = NULL;
  const char* variables = closed ? "{\"closed\":true}" : NULL;
  const kvrt_session_options o = {.struct_size = sizeof o,
                                  .store = store,
                                  .tools = tools,
                                  .tools_size = tools ? strlen(tools) : 0,
                                  .variables = variables,
                                  .variables_size = variables ? strlen(variables) : 0};
  MUST(kvrt_session_open(model, &o, &s, NULL));
  say(s, "user", "2 + 2?", NULL);
  return s;
}

// {"n": 10}, however it is spaced.
static int is_content(const char* text) {
  char packed[64] = "";
  size_t n = 0;
  for (; *text && n < sizeof packed - 1; ++text)
    if (!strchr(" \t\r\n", *text)) packed[n++] = *text;
  return strcmp(packed, "{\"n\":10}") == 0 || strcmp(packed, "{\"n\":20}") == 0 || strcmp(packed, "{\"n\":30}") == 0;
}

static void content_is_bound(kvrt_model* model) {
  int reasoned = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    struct parts p = {0}, raw = {0};
    kvrt_session* s = asked(model, NULL, NULL, 0);
    kvrt_session* fork = NULL;
    MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    generate(s, by_schema(seed), &p);
    EXPECT(is_content(p.content) && p.reason == KVRT_REASON_EOS && !p.call_count, "content \"%s\", reason %u", p.content, p.reason);
    EXPECT(strstr(p.raw, "</think>") != NULL, "no end of reasoning: %s", p.raw);
    reasoned += p.reasoning[0] != 0;
    kvrt_generate_options o = by_schema(seed);
    o.reply = KVRT_REPLY_DEFAULT;
    generate(fork, o, &raw);
    EXPECT(strcmp(raw.raw, p.raw) == 0 && !raw.content[0], "without parts \"%s\", with them \"%s\"", raw.raw, p.raw);
    kvrt_session_close(fork);
    kvrt_session_close(s);
    memset(&p, 0, sizeof p);
    s = asked(model, NULL, NULL, 1);
    generate(s, by_schema(seed), &p);
    EXPECT(is_content(p.content) && !p.reasoning[0] && is_content(p.raw), "the prompt closed reasoning: \"%s\"", p.raw);
    kvrt_session_close(s);
  }
  EXPECT(reasoned > 10, "%d of 20 reasoned", reasoned);
}

static void calls_are_bound(kvrt_model* model) {
  int both = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    struct parts p = {0};
    kvrt_session* s = asked(model, NULL, kTools, 0);
    kvrt_generate_options o = by_choice(seed, KVRT_TOOL_CHOICE_REQUIRED, NULL);
    o.parallel_calls_max = 2;
    generate(s, o, &p);
    EXPECT(p.call_count >= 1 && p.call_count <= 2 && !p.content[0], "%d calls, content \"%s\"", p.call_count, p.content);
    static const char* const kBegins[] = {
        "{\"name\":\"add\",\"arguments\":{\"a\":", "{\"name\":\"add\",\"arguments\":{\"b\":", "{\"name\":\"now\",\"arguments\":{}};"};
    int begins = 0;
    for (int i = 0; i < 3; ++i) begins += strncmp(p.calls, kBegins[i], strlen(kBegins[i])) == 0;
    EXPECT(begins == 1, "calls %s", p.calls);
    both += p.call_count == 2;
    kvrt_session_close(s);
    memset(&p, 0, sizeof p);
    s = asked(model, NULL, kTools, 1);
    o = by_choice(seed, KVRT_TOOL_CHOICE_NAMED, "now");
    o.parallel_calls_max = 1;
    generate(s, o, &p);
    EXPECT(strcmp(p.calls, "{\"name\":\"now\",\"arguments\":{}};") == 0 && !p.content[0], "calls %s, content %s", p.calls, p.content);
    kvrt_session_close(s);
  }
  EXPECT(both > 0, "never two calls");
}

// Beside tools that may be called an answer is calls, or content that fits.
static void calls_or_content(kvrt_model* model) {
  int called = 0, said = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    struct parts p = {0};
    kvrt_session* s = asked(model, NULL, kTools, seed % 2);
    kvrt_generate_options o = by_schema(seed);
    o.tool_choice = KVRT_TOOL_CHOICE_AUTO, o.parallel_calls_max = 2;
    generate(s, o, &p);
    EXPECT(p.call_count ? !p.content[0] : is_content(p.content), "%d calls, content \"%s\": %s", p.call_count, p.content, p.raw);
    called += p.call_count > 0, said += p.call_count == 0;
    kvrt_session_close(s);
  }
  EXPECT(called > 0 && said > 0, "%d answers with calls, %d with content", called, said);
}

// In pieces, each after a restart, an answer is that of one go.
static void goes_on(const char* path, kvrt_model* model, kvrt_generate_options first, const char* tools, uint32_t piece) {
  char dir[kPathMax];
  struct parts whole = {0}, p = {0};
  char message[4096] = "", pieces[4096] = "";
  kvrt_session* s = asked(model, NULL, tools, 0);
  generate(s, first, &whole);
  newest_message(s, message, sizeof message);
  static int32_t tokens[1024];
  const size_t count = session_tokens(s, tokens, 1024);
  kvrt_session_close(s);
  make_dir(dir);
  for (int i = 0; i < 400 && p.reason != KVRT_REASON_EOS; ++i) {
    kvrt_runtime* rt = open_runtime(1, 0);
    kvrt_store* store = open_store(rt, dir);
    kvrt_model* again = open_model(rt, path, 0, 0, 0);
    kvrt_generate_options o = i ? options(first.seed) : first;
    if (i) o.grammar_kind = KVRT_GRAMMAR_CONTINUE;
    if (i) MUST(kvrt_session_resume(again, store, "answer", 6, NULL, NULL, NULL, NULL, &s, NULL));
    if (!i) s = asked(again, store, tools, 0);
    o.max_tokens = piece;
    generate(s, o, &p);
    if (p.reason == KVRT_REASON_EOS) expect_tokens(s, tokens, count, "an answer in pieces");
    newest_message(s, pieces, sizeof pieces);
    MUST(kvrt_session_suspend(s, "answer", 6, NULL, NULL, NULL));
    kvrt_session_close(s);
    kvrt_model_release(again);
    kvrt_store_release(store);
    kvrt_runtime_release(rt);
  }
  EXPECT(p.reason == KVRT_REASON_EOS && (p.reasoning[0] != 0) == (whole.reasoning[0] != 0), "reasoning in pieces \"%s\", in one go \"%s\"",
         p.reasoning, whole.reasoning);
  EXPECT(strcmp(p.calls, whole.calls) == 0, "calls in pieces \"%s\", in one go \"%s\"", p.calls, whole.calls);
  EXPECT(strcmp(pieces, message) == 0, "the message in pieces %s, in one go %s", pieces, message);
  if (!whole.call_count)
    EXPECT(strcmp(p.content, whole.content) == 0, "content in pieces \"%s\", in one go \"%s\"", p.content, whole.content);
}

// The host gives the bytes of `text`, each as tokens of its own; how many the answer takes.
static size_t taken(kvrt_model* model, kvrt_generate_options o, const char* tools, const char* text) {
  kvrt_session* s = asked(model, NULL, tools, 0);
  o.sampler = KVRT_SAMPLER_HOST, o.temperature = 0, o.seed = 0;
  MUST(kvrt_session_begin(s, &o, NULL));
  kvrt_event e = {.struct_size = sizeof e};
  size_t at = 0;
  for (;;) {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    if (e.type != KVRT_EVENT_LOGITS) continue;
    int32_t token[8];
    size_t count = 0;
    if (!text[at]) break;
    MUST(kvrt_model_tokenize(model, text + at, 1, 0, token, 8, &count, NULL));
    if (kvrt_session_accept(s, token[count - 1], NULL) != KVRT_OK) break;
    ++at;
  }
  kvrt_session_close(s);
  return at;
}

static void expect_taken(kvrt_model* model, kvrt_generate_options o, const char* tools, const char* text, const char* rest) {
  const size_t n = taken(model, o, tools, text);
  EXPECT(strcmp(text + n, rest) == 0, "of \"%s\" it took all but \"%s\", expected \"%s\"", text, text + n, rest);
}

static void marks(kvrt_model* model) {
  const char* call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n</tool_call>";
  char text[512];
  kvrt_generate_options o = by_choice(0, KVRT_TOOL_CHOICE_DEFAULT, NULL);
  o.reasoning_tokens_max = 0;
  snprintf(text, sizeof text, "so </thin <tool_call> x</think>\n\nIt is %s", call);
  expect_taken(model, o, kTools, text, "");
  expect_taken(model, o, kTools, "</think>a <tool_call>\n{\"name\": \"sub\"", "sub\"");
  expect_taken(model, o, kTools, "</think>a <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 4", "4");
  o.tool_choice = KVRT_TOOL_CHOICE_NONE;
  expect_taken(model, o, kTools, "</think>a <tool_call> b", "> b");
  o.tool_choice = KVRT_TOOL_CHOICE_REQUIRED;
  expect_taken(model, o, kTools, "x</think>\na", "a");
  o.reasoning_tokens_max = 3;
  expect_taken(model, o, kTools, "abcdef", "def");
  expect_taken(model, o, kTools, "abc</think>\n\n<tool_call>", "");
  o = by_schema(0), o.reasoning_tokens_max = 0;
  expect_taken(model, o, NULL, "{\"n\"</think>\n\n{\"n\": 20}", "");
  expect_taken(model, o, NULL, "{\"n\"</think>\n\n{\"n\": 40}", "40}");
  o.grammar = "{\"type\":\"object\",\"properties\":{\"t\":{\"type\":\"string\"}}}", o.grammar_size = strlen(o.grammar);
  expect_taken(model, o, NULL, "</think>{\"t\": \"<think></think><tool_call>\"}", "");
}

// A schema that no mask can hold, or that nothing fits, binds by default to an object, and is refused where a call is asked for.
static void schemas_of_tools(kvrt_model* model) {
  const char* odd =
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"l\":{\"type\":"
      "\"array\",\"uniqueItems\":true}}}}}]";
  kvrt_generate_options o = by_choice(0, KVRT_TOOL_CHOICE_DEFAULT, NULL);
  o.reasoning_tokens_max = 0;
  expect_taken(model, o, odd, "</think><tool_call>\n{\"name\": \"f\", \"arguments\": {\"l\": [1, 1]}}\n</tool_call>", "");
  o.tool_choice = KVRT_TOOL_CHOICE_AUTO;
  kvrt_session* s = asked(model, NULL, odd, 0);
  EXPECT(kvrt_session_begin(s, &o, NULL) == KVRT_UNSUPPORTED && strstr(last_message(), "tool f: ") && strstr(last_message(), "uniqueItems"),
         "%s", last_message());
  kvrt_session_close(s);
  const char* never =
      "[{\"name\":\"f\",\"parameters\":{\"required\":[\"at\"],\"properties\":{\"at\":false,\"n\":{\"type\":\"integer\"}}}}]";
  o.tool_choice = KVRT_TOOL_CHOICE_DEFAULT;
  expect_taken(model, o, never, "</think><tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1, \"x\": [1]}}\n</tool_call>", "");
  expect_taken(model, o, never, "</think><tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": \"1\"", "\"1\"");
  o.tool_choice = KVRT_TOOL_CHOICE_AUTO;
  s = asked(model, NULL, never, 0);
  EXPECT(kvrt_session_begin(s, &o, NULL) == KVRT_INVALID && strstr(last_message(), "tool f: ") && strstr(last_message(), "nothing fits"),
         "%s", last_message());
  kvrt_session_close(s);
}

static void refused(kvrt_model* model, kvrt_model* plain) {
  kvrt_session* s = asked(model, NULL, kTools, 0);
  kvrt_generate_options o = by_schema(1);
  o.tool_choice = KVRT_TOOL_CHOICE_REQUIRED;
  BAD("begin", "a schema and calls alone", kvrt_session_begin(s, &o, NULL));
  o = by_choice(1, KVRT_TOOL_CHOICE_NAMED, NULL);
  BAD("begin", "no name", kvrt_session_begin(s, &o, NULL));
  o = by_choice(1, KVRT_TOOL_CHOICE_AUTO, "add");
  BAD("begin", "a name without NAMED", kvrt_session_begin(s, &o, NULL));
  o = by_choice(1, KVRT_TOOL_CHOICE_NAMED, "sub");
  BAD("begin", "no such tool", kvrt_session_begin(s, &o, NULL));
  o = by_schema(1), o.tool_choice = KVRT_TOOL_CHOICE_NONE;
  struct parts none = {0};
  generate(s, o, &none);
  EXPECT(is_content(none.content), "a schema without calls: %s", none.content);
  o = by_choice(1, 5, NULL);
  BAD("begin", "tool_choice 5", kvrt_session_begin(s, &o, NULL));
  o = by_choice(1, KVRT_TOOL_CHOICE_NONE, NULL), o.ignore_eos = 1;
  BAD("begin", "a choice without an end", kvrt_session_begin(s, &o, NULL));
  o = by_choice(1, KVRT_TOOL_CHOICE_DEFAULT, NULL), o.prefill = 1;
  BAD("begin", "a limit of a prefill", kvrt_session_begin(s, &o, NULL));
  o = options(1), o.grammar_kind = KVRT_GRAMMAR_CONTINUE;
  BAD("begin", "nothing to go on with", kvrt_session_begin(s, &o, NULL));
  o.reasoning_tokens_max = 3;
  BAD("begin", "a limit of CONTINUE", kvrt_session_begin(s, &o, NULL));
  kvrt_session_close(s);
  s = asked(model, NULL, NULL, 0);
  o = by_choice(1, KVRT_TOOL_CHOICE_REQUIRED, NULL);
  BAD("begin", "no tools", kvrt_session_begin(s, &o, NULL));
  kvrt_session_close(s);
  s = asked(plain, NULL, kTools, 0);
  o = by_choice(1, KVRT_TOOL_CHOICE_REQUIRED, NULL);
  EXPECT(kvrt_session_begin(s, &o, NULL) == KVRT_UNSUPPORTED && strstr(last_message(), "chat template") && strstr(last_message(), "Qwen") &&
             strstr(last_message(), "HERMES"),
         "a template without calls: %s", last_message());
  struct parts p = {0};
  o.reply = KVRT_REPLY_HERMES, o.parallel_calls_max = 2;  // else max_tokens may cut one
  generate(s, o, &p);
  EXPECT(p.call_count >= 1 && !p.content[0], "%d calls, content %s", p.call_count, p.content);
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  char path[kPathMax + 32];
  kvrt_model* model = open_with_template(t.runtime, t.tiny, t.dir, "thinks", kTemplate, path);
  content_is_bound(model);
  calls_are_bound(model);
  calls_or_content(model);
  for (uint32_t piece = 1; piece <= 5; ++piece) {
    goes_on(path, model, by_schema(piece), NULL, piece);
    goes_on(path, model, by_choice(piece, KVRT_TOOL_CHOICE_REQUIRED, NULL), kTools, piece);
    kvrt_generate_options either = by_schema(piece);
    either.tool_choice = KVRT_TOOL_CHOICE_AUTO;
    goes_on(path, model, either, kTools, piece);
  }
  marks(model);
  schemas_of_tools(model);
  refused(model, t.model);
  kvrt_model_release(model);
  stage_close(&t);
  return finish();
}
