// Real numbers are read and written with a point, and letters keep their cases, whatever the host's locale is: in templates, messages,
// tools, variables, schemas, tool calls, metrics and messages of errors. The other tests run under such locales, too: KVRT_TEST_LOCALE.
#include "chat.h"
#include "misuse.h"

static void expect_rendered(const char* source, const char* want) {
  const char* messages = "[{\"role\":\"user\",\"content\":\"a\",\"x\":0.5,\"y\":-1.25e-7,\"z\":[1e300,3.0]}]";
  const char *tools = "[{\"p\":2.5}]", *variables = "{\"v\":0.125,\"title\":\"ISTANBUL i\"}";
  const kvrt_template_options o = {.struct_size = sizeof o,
                                   .source = source,
                                   .source_size = strlen(source),
                                   .tools = tools,
                                   .tools_size = strlen(tools),
                                   .variables = variables,
                                   .variables_size = strlen(variables)};
  char text[1024];
  size_t size = 0;
  MUST(kvrt_model_apply_template(NULL, messages, strlen(messages), &o, text, sizeof text - 1, &size, NULL));
  text[size] = 0;
  EXPECT(strcmp(text, want) == 0, "%s gives %s, expected %s", source, text, want);
}

// Templates give the text that Jinja in Python gives.
static void templates(void) {
  expect_rendered("{{ messages[0].x }} {{ messages[0].y }} {{ messages[0].z }}", "0.5 -1.25e-07 [1e+300, 3.0]");
  expect_rendered("{{ messages[0].x + 0.25 }} {{ 1.5 }} {{ 1e-7 }} {{ 2.5 * 2 }}", "0.75 1.5 1e-07 5.0");
  expect_rendered("{{ tools[0].p }} {{ v }} {{ tools | tojson }}", "2.5 0.125 [{\"p\": 2.5}]");
  expect_rendered("{{ '%.2f' | format(1234.5) }} {{ '%e' % 1.5 }} {{ '%g' % 0.25 }} {{ '%#.3g' % 2.0 }}", "1234.50 1.500000e+00 0.25 2.00");
  expect_rendered("{{ '{:,.1f} {:.1%} {:08.3f}'.format(1234.56, 0.125, 3.14159) }}", "1,234.6 12.5% 0003.142");
  expect_rendered("{{ 1500000 | filesizeformat }} {{ 1536 | filesizeformat(true) }}", "1.5 MB 1.5 KiB");
  expect_rendered("{{ '0.5' | float }} {{ '1,5' | float }} {{ '1e400' | float }} {{ '2.5' | int }}", "0.5 0.0 inf 2");
  expect_rendered("{{ 2.675 | round(2) }} {{ 0.5 | round }} {{ 7.25 | round(1) }}", "2.67 0.0 7.2");
  expect_rendered("{{ title | lower }} {{ title | upper }} {{ 'i' | capitalize }} {{ 'I' == 'i' | upper }}",
                  "istanbul i ISTANBUL I I True");
}

static void texts(struct stage* t) {
  const char *tools = "[{\"p\":2.5}]", *variables = "{\"v\":0.125}", *message = "{\"role\":\"user\",\"content\":\"a\",\"x\":0.5}";
  const kvrt_session_options o = {.struct_size = sizeof o,
                                  .tools = tools,
                                  .tools_size = strlen(tools),
                                  .store = t->store,
                                  .variables = variables,
                                  .variables_size = strlen(variables)};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, &o, &s, NULL));
  MUST(kvrt_session_append_message(s, message, strlen(message), NULL, NULL));
  char json[256];
  size_t size = 0;
  MUST(kvrt_session_message(s, 0, NULL, json, sizeof json - 1, &size, NULL));
  json[size] = 0;
  EXPECT(strcmp(json, message) == 0, "the message is %s", json);
  MUST(kvrt_session_checkpoint(s, "real", 4, NULL, NULL, NULL));
  kvrt_session_close(s);
  s = resume_session(t->model, t->store, "real", NULL);
  MUST(kvrt_session_append_message(s, message, strlen(message), NULL, NULL));
  kvrt_session_close(s);
}

static int32_t collect(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_TOKEN || e->type == KVRT_EVENT_DONE) strncat(user, e->text ? e->text : "", e->text_size);
  return 0;
}

static void schema(struct stage* t) {
  int half = 0, more = 0;
  const char grammar[] = "{\"enum\":[0.5,1.5]}";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    kvrt_session* s = open_session(t->model, NULL, 0);
    MUST(kvrt_session_append_text(s, "Say it: ", 8, 0, NULL));
    const kvrt_generate_options o = {.struct_size = sizeof o,
                                     .temperature = 1.5f,
                                     .seed = seed,
                                     .grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA,
                                     .grammar = grammar,
                                     .grammar_size = sizeof grammar - 1};
    char text[512] = "";
    MUST(kvrt_session_generate(s, &o, collect, text, NULL, NULL));
    half += strcmp(text, "0.5") == 0, more += strcmp(text, "1.5") == 0;
    EXPECT(half + more == (int)seed, "the answer is %s", text);
    kvrt_session_close(s);
  }
  EXPECT(half && more, "%d of one, %d of the other", half, more);
}

// The host is the sampler, so that the model writes this call.
static void tool_call(struct stage* t) {
  const char call[] = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 0.5, \"b\": 1E2}}\n</tool_call>";
  const char* tools = "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}}]";
  const kvrt_session_options with = {.struct_size = sizeof with, .tools = tools, .tools_size = strlen(tools)};
  const kvrt_generate_options o = {.struct_size = sizeof o, .sampler = KVRT_SAMPLER_HOST, .reply = KVRT_REPLY_HERMES};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, &with, &s, NULL));
  say(s, "user", "add", NULL);
  int32_t tokens[256];
  size_t count = 0, next = 0;
  MUST(kvrt_model_tokenize(t->model, call, sizeof call - 1, 0, tokens, 256, &count, NULL));
  MUST(kvrt_session_begin(s, &o, NULL));
  kvrt_event e = {.struct_size = sizeof e};
  char seen[256] = "";
  do {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    if (e.type == KVRT_EVENT_LOGITS) {
      MUST(kvrt_session_accept(s, next < count ? tokens[next] : 2, NULL));
      ++next;
    }
    if (e.type == KVRT_EVENT_TOOL_CALL) strncat(seen, e.text, e.text_size);
  } while (e.type != KVRT_EVENT_DONE);
  EXPECT(strcmp(seen, "{\"name\":\"add\",\"arguments\":{\"a\":0.5,\"b\":100.0}}") == 0, "the call is %s", seen);
  kvrt_session_close(s);
}

static void said(struct stage* t) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .temperature = -0.5f};
  EXPECT_STATUS(kvrt_session_begin(t->session, &o, NULL), KVRT_INVALID);
  EXPECT(strstr(last_message(), "-0.5,") != NULL, "%s", last_message());
  char text[32768];
  size_t size = 0;
  MUST(kvrt_session_prefill(t->session, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_model_metrics_text(t->model, NULL, 0, text, sizeof text - 1, &size, NULL));
  text[size] = 0;
  const char* seconds = strstr(text, "\nkvrt_step_seconds_total{");
  const char* number = seconds ? strstr(seconds, "} ") : NULL;
  REQUIRE(number != NULL, "no seconds in %s", text);
  number += 2;
  EXPECT(strspn(number, "0123456789.e-") == strcspn(number, "\n") && memchr(number, '.', strcspn(number, "\n")) != NULL,
         "seconds are %.30s", number);
  MUST(kvrt_model_inspect(t->runtime, t->tiny, strlen(t->tiny), 0, text, sizeof text - 1, &size, NULL));
  text[size] = 0;
  EXPECT(strstr(text, "\"llama.rope.freq_base\":10000.0") != NULL, "inspect gives %s", text);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  templates();
  texts(&t);
  schema(&t);
  tool_call(&t);
  said(&t);
  stage_close(&t);
  return finish();
}
