// No error and no line of the log quotes the model's input: messages, tools, documents, variables. A template's own words may be said.
#include "chat.h"
#include "misuse.h"

#define CANARY "zqCANARYqz"
#define NUMBER "987654321"

static char log_text[1 << 16];
static size_t log_size;
static void keep_log(void* user, int32_t level, const char* text, size_t size) {
  (void)user, (void)level;
  if (log_size + size < sizeof log_text) memcpy(log_text + log_size, text, size), log_size += size;
}

static void expect_secret(const char* said, const char* what) {
  EXPECT(strstr(said, CANARY) == NULL && strstr(said, NUMBER) == NULL && strstr(said, "CANARY") == NULL, "%s: \"%s\"", what, said);
}

// Everything that a template is given speaks of the canary, as text, name, number, format and path.
#define SECRETS                                                                                                        \
  "\"content\":\"" CANARY "\",\"" CANARY "\":1,\"number\":" NUMBER ",\"braces\":\"{" CANARY "}\",\"place\":\"{" NUMBER \
  "}\",\"path\":\"{0." CANARY ".x.y}\",\"how\":\"{0!" CANARY "}\",\"spec\":\"{0:" CANARY "}\",\"percent\":\"%(" CANARY \
  ")s\",\""                                                                                                            \
  "unit\":\"%" CANARY "\",\"time\":\"%Q" CANARY "\",\"args\":{\"" CANARY "\":1},\"dunder\":\"__" CANARY "\""
static const char kMessages[] = "[{\"role\":\"" CANARY "\"," SECRETS "}]";
static const char kArray[] = "[{\"type\":\"" CANARY "\"," SECRETS "}]";
static const char kObject[] = "{\"secret\":{" SECRETS "}}";

// m: a message, a tool, a document, a variable in turn. Each fails.
static const char* const kTemplates[] = {
    "{{ {}[m.content].x }}",
    "{{ m[m.braces] + 1 }}",
    "{{ m[m.content ~ 'x']() }}",
    "{{ m[m.dunder] }}",
    "{{ m[m.content|upper].x }}",
    "{{ [][m.content] + 1 }}",
    "{{ 'a'[m.content].x }}",
    "{{ raise_exception(m.content) }}",
    "{{ raise_exception('the role ' + m.content + ' is unknown') }}",
    "{{ raise_exception('the role ' ~ m.number) }}",
    "{{ raise_exception('the role %s' % m.content) }}",
    "{{ raise_exception('the role {}'.format(m.content)) }}",
    "{{ raise_exception(message=m.content) }}",
    "{{ raise_exception(*[m.content]) }}",
    "{{ raise_exception(m) }}",
    "{% set x %}{{ m.content }}{% endset %}{{ raise_exception(x) }}",
    "{% set f = raise_exception %}{{ f(m.content|lower|upper|replace('ZQ', 'zq')) }}",
    "{{ [1]|map(m.content)|list }}",
    "{{ [1]|select(m.content)|list }}",
    "{{ [1]|selectattr('x', m.content)|list }}",
    "{{ [1]|reject(m.content)|list }}",
    "{{ ([{}]|map(attribute=m.content)|list)[0].x }}",
    "{{ [{}]|map(**m.args)|list }}",
    "{{ [{}]|sum(attribute=m.content) }}",
    "{{ [{}, {}]|sort(attribute=m.content ~ '.x.y') }}",
    "{{ [{}]|groupby(m.content ~ '.x.y') }}",
    "{{ 1|round(method=m.content) }}",
    "{{ {}|dictsort(by=m.content) }}",
    "{{ m.content|int + m.content }}",
    "{{ 1|trim(**m.args) }}",
    "{{ range(**m.args) }}",
    "{{ dict(1, **m.args) }}",
    "{% macro f(a) %}{% endmacro %}{{ f(**m.args) }}",
    "{% macro f(a) %}{% endmacro %}{{ f(**dict(m.args, **m.args)) }}{{ f(zq=1, **m.args) }}",
    "{{ m.braces.format() }}",
    "{{ m.place.format() }}",
    "{{ m.path.format({}) }}",
    "{{ m.how.format(1) }}",
    "{{ m.spec.format(1) }}",
    "{{ m.braces|format(1) }}{{ m.unit % 1 }}",
    "{{ m.percent % {} }}",
    "{{ m.unit % 1 }}",
    "{{ strftime_now(m.time) }}",
    "{{ m.content / 2 }}",
    "{{ m.content < 2 }}",
    "{{ m.content() }}",
    "{{ m() }}",
    "{{ m.content.index(m.content ~ '!') }}",
    "{{ [].index(m.content) }}",
    "{{ m.content.split('') }}",
    "{{ m.content.center(50, m.content) }}",
    "{% for a, b in [m.content] %}{% endfor %}",
    "{% for a in m.number %}{% endfor %}",
    "{{ m.content|tojson(separators=m.content) }}",
    "{{ namespace()[m.content].x }}",
    "{% macro f() %}{% endmacro %}{{ f[m.content] }}",
    "{% for a in [1] %}{{ loop[m.content].x }}{% endfor %}",
    "{% for a in [1] %}{{ loop[m.dunder] }}{% endfor %}",
    "{{ m.content|length|first }}",
    "{{ m.content.encode() }}",
    "{{ ('{0.' ~ m.content ~ '.x.y}').format({}) }}",
    "{{ m.number|items }}",
};

static void templates(void) {
  static const char* const places[] = {"messages[0]", "tools[0]", "documents[0]", "secret"};
  for (size_t i = 0; i < sizeof kTemplates / sizeof *kTemplates; ++i) {
    for (size_t p = 0; p < 4; ++p) {
      char source[512], text[4096];
      const int n = snprintf(source, sizeof source, "{%% set m = %s %%}%s", places[p], kTemplates[i]);
      kvrt_template_options o = {.struct_size = sizeof o, .source = source, .source_size = (size_t)n};
      o.tools = o.documents = kArray, o.tools_size = o.documents_size = sizeof kArray - 1;
      o.variables = kObject, o.variables_size = sizeof kObject - 1;
      size_t needed = 0;
      const kvrt_status status = kvrt_model_apply_template(NULL, kMessages, sizeof kMessages - 1, &o, text, sizeof text, &needed, NULL);
      EXPECT(status == KVRT_INVALID || status == KVRT_UNSUPPORTED, "%s: %s", source, kvrt_status_name(status));
      EXPECT(status == KVRT_OK || strncmp(last_message(), "template line 1", 15) == 0, "%s: %s", source, last_message());
      if (status != KVRT_OK) expect_secret(last_message(), source);
      if (p == 0 && getenv("KVRT_TEST_SHOW")) printf("%-70s %s\n", kTemplates[i], last_message());
    }
  }
}

// The words of the template itself stay.
static void own_words(void) {
  static const char* const cases[][2] = {
      {"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
      {"{{ raise_exception('the role ' + messages[0].role + ' is ' ~ 'unknown') }}", "the role ... is unknown"},
      {"{{ raise_exception('the role %s' % messages[0].role) }}", "the role %s"},
      {"{% set why = 'no system role' %}{{ raise_exception(why) }}", "no system role"},
      {"{% macro no(why) %}{{ raise_exception(why) }}{% endmacro %}{{ no('no tools') }}", "no tools"},
      {"{{ messages[0].nothing.x }}", "'nothing' is undefined"},
      {"{{ messages[0]['nothing'] + 'x' }}", "'nothing' is undefined"},
      {"{{ (messages|map(attribute='nothing')|list)[0].x }}", "'nothing' is undefined"},
      {"{{ 1|nothing }}", "no filter \"nothing\""},
      {"{{ '{nothing}'.format() }}", "no argument 'nothing'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    kvrt_template_options o = {.struct_size = sizeof o, .source = cases[i][0], .source_size = strlen(cases[i][0])};
    char text[256];
    size_t needed = 0;
    EXPECT_STATUS(kvrt_model_apply_template(NULL, kMessages, sizeof kMessages - 1, &o, text, sizeof text, &needed, NULL), KVRT_INVALID);
    EXPECT(strstr(last_message(), cases[i][1]), "%s: %s", cases[i][0], last_message());
  }
}

static const char* const kBadJson[] = {
    "[{\"role\":\"user\",\"content\":\"" CANARY,
    "[{\"role\":\"user\",\"content\":" CANARY "}]",
    "[{\"role\":\"user\",\"content\":\"" CANARY "\\x\"}]",
    "[{\"role\":\"user\",\"content\":\"" CANARY "\xff\"}]",
    "[{\"role\":\"user\",\"content\":\"" CANARY "\\ud800\"}]",
    "[{\"role\":\"user\",\"content\":\"" CANARY "\n\"}]",
    "[{\"role\":\"user\" \"" CANARY "\":1}]",
    "[{\"role\":\"user\",\"" CANARY "\" 1}]",
    "[{\"role\":\"user\",\"n\":" NUMBER NUMBER NUMBER ".}]",
    "[{\"role\":\"user\",\"n\":" NUMBER "e" NUMBER "}]",
    "[{\"role\":\"user\",\"n\":0" NUMBER "}]",
    "[{\"role\":\"user\",\"content\":\"" CANARY "\"}] " CANARY,
    "{\"role\":\"user\",\"" CANARY "\":" NUMBER,
    "\"" CANARY "\"",
    "[\"" CANARY "\"]",
    NUMBER,
    CANARY,
};

static void json(struct stage* t) {
  for (size_t i = 0; i < sizeof kBadJson / sizeof *kBadJson; ++i) {
    const char* bad = kBadJson[i];
    const size_t size = strlen(bad);
    char text[256];
    size_t needed = 0;
    kvrt_session* s = NULL;
    kvrt_template_options o = {.struct_size = sizeof o, .source = "x", .source_size = 1};
    kvrt_status got[8];
    memset(got, 0xff, sizeof got);
#define SECRET(n, call) got[n] = (call), expect_secret(got[n] == KVRT_OK ? "" : last_message(), bad)
    SECRET(0, kvrt_model_apply_template(NULL, bad, size, &o, text, sizeof text, &needed, NULL));
    SECRET(1, kvrt_session_append_message(t->session, bad, size, NULL, NULL));
    SECRET(2, kvrt_session_set_messages(t->session, bad, size, NULL, NULL));
    o.tools = bad, o.tools_size = size;
    SECRET(3, kvrt_model_apply_template(NULL, "[]", 2, &o, text, sizeof text, &needed, NULL));
    o.tools = NULL, o.tools_size = 0, o.variables = bad, o.variables_size = size;
    SECRET(4, kvrt_model_apply_template(NULL, "[]", 2, &o, text, sizeof text, &needed, NULL));
    kvrt_session_options so = {.struct_size = sizeof so, .documents = bad, .documents_size = size};
    SECRET(5, kvrt_session_open(t->model, &so, &s, NULL));
    kvrt_session_close(s), s = NULL;
    so = (kvrt_session_options){.struct_size = sizeof so, .variables = bad, .variables_size = size};
    SECRET(6, kvrt_session_open(t->model, &so, &s, NULL));
    kvrt_session_close(s);
    for (int n = 0; n < 7; ++n) EXPECT(got[n] != KVRT_OK || n == 3 || n == 5, "call %d took %s", n, bad);
  }
}

// A model whose own template fails: in every call that renders, and in the failures that the session keeps.
static void sessions(struct stage* t) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/hostile.gguf", t->dir);
  with_template(
      t->tiny, path,
      "{% for m in messages %}{{ m.content }}{% if messages|length > 1 or add_generation_prompt %}{{ {}[m.content].x }}{% endif %}"
      "{% endfor %}");
  kvrt_model* model = open_model(t->runtime, path, 0, 0, 0);
  kvrt_session* s = open_session(model, t->store, 0);
  const char message[] = "{\"role\":\"user\",\"content\":\"" CANARY "\"}";
  MUST(kvrt_session_append_message(s, message, sizeof message - 1, NULL, NULL));
  EXPECT_STATUS(kvrt_session_append_message(s, message, sizeof message - 1, NULL, NULL), KVRT_INVALID);
  expect_secret(last_message(), "append_message");
  EXPECT_STATUS(kvrt_session_begin(s, NULL, NULL), KVRT_INVALID);
  expect_secret(last_message(), "begin");
  MUST(kvrt_session_checkpoint(s, "s", 1, NULL, NULL, NULL));
  // Answers that must go on by a grammar that the text so far does not fit.
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .no_generation_prompt = 1};
  o.grammar_kind = KVRT_GRAMMAR_GBNF, o.grammar = "root ::= [a-z]+", o.grammar_size = strlen(o.grammar);
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_append_text(s, CANARY "!", strlen(CANARY) + 1, 0, NULL));
  o.grammar_kind = KVRT_GRAMMAR_CONTINUE, o.grammar = NULL, o.grammar_size = 0;
  EXPECT_STATUS(kvrt_session_begin(s, &o, NULL), KVRT_INVALID);
  expect_secret(last_message(), "begin with CONTINUE");
  expect_secret(session_props(s).last_error_message, "session_info");
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  static struct stage t;
  stage_open(&t);
  kvrt_session_close(t.session);
  kvrt_store_release(t.store);
  kvrt_model_release(t.model);
  kvrt_runtime_release(t.runtime);
  const kvrt_runtime_options o = {.struct_size = sizeof o, .threads = 1, .log_level = KVRT_LOG_DEBUG, .log = keep_log};
  MUST(kvrt_runtime_open(&o, &t.runtime, NULL));
  t.model = open_model(t.runtime, t.tiny, 0, 0, 0);
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/store", t.dir);
  t.store = open_store(t.runtime, path);
  t.session = open_session(t.model, t.store, 0);
  templates();
  own_words();
  json(&t);
  sessions(&t);
  stage_close(&t);
  EXPECT(log_size > 0, "the log has no line");
  log_text[log_size] = 0;
  expect_secret(log_text, "the log");
  return finish();
}
