// Arguments of a template beside messages: documents, variables and the time, in apply_template and in sessions. They are saved with the
// session, so that a resumed one goes on with the prompt that it had; the tokens are those of apply_template over the whole list.
#include "chat.h"
#include "misuse.h"

static const char* const kSource =
    "{% if documents %}<|im_start|>documents\n{% for d in documents %}{{ d.title }}: {{ d.text }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% if mood is defined %}{{ mood.name }} {% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think></think>{% "
    "endif %}"
    "{% endif %}";
static const char* const kSea = "[{\"title\":\"Tides\",\"text\":\"The sea rises.\"}]";
static const char* const kSky = "[{\"title\":\"Stars\",\"text\":\"They are far.\"},{\"title\":\"Moon\",\"text\":\"near\"}]";
static const char* const kCalm = "{\"mood\":{\"name\":\"calm\"},\"enable_thinking\":false}";

static kvrt_status render(kvrt_model* model, const char* source, const char* messages, const char* documents, const char* variables,
                          char* text, size_t capacity) {
  kvrt_template_options o = {.struct_size = sizeof o, .source = source, .source_size = source ? strlen(source) : 0};
  o.documents = documents, o.documents_size = documents ? strlen(documents) : 0;
  o.variables = variables, o.variables_size = variables ? strlen(variables) : 0;
  size_t needed = 0;
  const kvrt_status status = kvrt_model_apply_template(model, messages, strlen(messages), &o, text, capacity - 1, &needed, NULL);
  text[status == KVRT_OK ? needed : 0] = 0;
  return status;
}

static void expect_render(const char* source, const char* documents, const char* variables, const char* wanted) {
  char text[512];
  MUST(render(NULL, source, "[]", documents, variables, text, sizeof text));
  EXPECT(strcmp(text, wanted) == 0, "%s: %s, expected %s", source, text, wanted);
}

static void without_a_model(void) {
  expect_render("{{ documents[0].title }}{{ documents|length }}", kSky, NULL, "Stars2");
  expect_render("{{ documents is none }}{{ enable_thinking is defined }}", NULL, NULL, "TrueFalse");
  expect_render("{{ mood.name }}{{ enable_thinking }}", NULL, kCalm, "calmFalse");
  expect_render("{{ bos_token }}", NULL, "{\"bos_token\":\"<b>\"}", "<b>");
  static const struct {
    const char *documents, *variables;
  } bad[] = {
      {"{}", NULL}, {"[1,", NULL}, {NULL, "[]"}, {NULL, "1"}, {NULL, "{"}, {NULL, "{\"messages\":[]}"}, {NULL, "{\"documents\":[]}"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    char text[64];
    const kvrt_status status = render(NULL, "x", "[]", bad[i].documents, bad[i].variables, text, sizeof text);
    EXPECT(status == KVRT_INVALID, "arguments %zu: %s", i, kvrt_status_name(status));
  }
}

// The session's tokens are those of the template over its messages with these arguments.
static void expect_session(kvrt_session* s, kvrt_model* model, const char* documents, const char* variables, const char* what) {
  static char text[4 * kChatMax], json[kChatMax];
  int32_t wanted[1024];
  size_t count = 0;
  all_messages(s, json, sizeof json);
  kvrt_template_options o = {.struct_size = sizeof o, .no_generation_prompt = 1};
  o.documents = documents, o.documents_size = documents ? strlen(documents) : 0;
  o.variables = variables, o.variables_size = variables ? strlen(variables) : 0;
  size_t size = 0;
  MUST(kvrt_model_apply_template(model, json, strlen(json), &o, text, sizeof text, &size, NULL));
  MUST(kvrt_model_tokenize(model, text, size, KVRT_TEXT_SPECIAL, wanted, 1024, &count, NULL));
  expect_tokens(s, wanted, count, what);
}

static kvrt_session_options session_options(kvrt_store* store, const char* documents, const char* variables) {
  kvrt_session_options o = {.struct_size = sizeof o, .store = store};
  o.documents = documents, o.documents_size = documents ? strlen(documents) : 0;
  o.variables = variables, o.variables_size = variables ? strlen(variables) : 0;
  return o;
}

static void sessions(struct stage* t) {
  char path[kPathMax + 32];
  kvrt_model* model = open_with_template(t->runtime, t->tiny, t->dir, "arguments", kSource, path);
  kvrt_session_options o = session_options(t->store, kSea, kCalm);
  kvrt_session *s = NULL, *fork = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  say(s, "user", "High tide?", NULL);
  expect_session(s, model, kSea, kCalm, "opened");
  MUST(kvrt_session_fork(s, NULL, &fork, NULL));
  say(fork, "user", "And low?", NULL);
  expect_session(fork, model, kSea, kCalm, "forked");
  kvrt_session_close(fork);
  MUST(kvrt_session_suspend(s, "args", 4, NULL, NULL, NULL));
  kvrt_session_close(s);
  static const struct {
    const char *documents, *variables;
  } resumed[] = {{NULL, NULL}, {NULL, "{\"mood\":{\"name\":\"wild\"}}"}, {"[{\"title\":\"Stars\",\"text\":\"They are far.\"}]", NULL}};
  for (size_t i = 0; i < sizeof resumed / sizeof *resumed; ++i) {
    o = session_options(NULL, resumed[i].documents, resumed[i].variables);
    MUST(kvrt_session_resume(model, t->store, "args", 4, &o, NULL, NULL, NULL, &s, NULL));
    say(s, "user", "Thanks", NULL);
    expect_session(s, model, resumed[i].documents ? resumed[i].documents : kSea, resumed[i].variables ? resumed[i].variables : kCalm,
                   "resumed");
    kvrt_session_close(s);
  }
  for (int resume = 0; resume < 2; ++resume) {
    o = session_options(NULL, "{}", NULL);
    s = NULL;
    kvrt_status status =
        resume ? kvrt_session_resume(model, t->store, "args", 4, &o, NULL, NULL, NULL, &s, NULL) : kvrt_session_open(model, &o, &s, NULL);
    EXPECT(status == KVRT_INVALID && s == NULL, "documents as an object: %s", kvrt_status_name(status));
    o = session_options(NULL, NULL, NULL);
    o.tools = "[{}, \"type\"]", o.tools_size = strlen(o.tools);
    EXPECT(kvrt_session_open(model, &o, &s, NULL) == KVRT_INVALID && strstr(last_message(), "tools: item 1 is not an object"), "%s",
           last_message());
    o = session_options(NULL, NULL, "{\"tools\":[]}");
    status =
        resume ? kvrt_session_resume(model, t->store, "args", 4, &o, NULL, NULL, NULL, &s, NULL) : kvrt_session_open(model, &o, &s, NULL);
    EXPECT(status == KVRT_INVALID && s == NULL, "a variable by the name of an argument: %s", kvrt_status_name(status));
  }
  kvrt_model_release(model);
}

static void text_of(kvrt_session* s, char* text, size_t capacity) {
  size_t needed = 0;
  MUST(kvrt_session_text(s, 0, UINT64_MAX, KVRT_TEXT_SPECIAL, text, capacity - 1, &needed, NULL));
  text[needed] = 0;
}

// The time in a prompt is that of the session's opening: a second later nothing is rewritten, and not after a resume either.
static void time_stays(struct stage* t) {
  char path[kPathMax + 32], first[2048], later[2048];
  snprintf(path, sizeof path, "%s/clock.gguf", t->dir);
  with_template(t->tiny, path,
                "{{ strftime_now('%H:%M:%S') }} {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}");
  kvrt_model* model = open_model(t->runtime, path, 0, 0, 0);
  kvrt_session_options o = session_options(t->store, NULL, NULL);
  kvrt_session* s = NULL;
  kvrt_append_info info;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  say(s, "user", "One", NULL);
  text_of(s, first, sizeof first);
  usleep(1100 * 1000);
  say(s, "user", "Two", &info);
  EXPECT(info.rewritten == 0, "%" PRIu64 " tokens rewritten", info.rewritten);
  MUST(kvrt_session_suspend(s, "clock", 5, NULL, NULL, NULL));
  kvrt_session_close(s);
  MUST(kvrt_session_resume(model, t->store, "clock", 5, NULL, NULL, NULL, NULL, &s, NULL));
  say(s, "user", "Three", &info);
  EXPECT(info.rewritten == 0, "%" PRIu64 " tokens rewritten after a resume", info.rewritten);
  text_of(s, later, sizeof later);
  EXPECT(strncmp(first, later, strlen(first)) == 0, "%s became %s", first, later);
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  without_a_model();
  sessions(&t);
  time_stays(&t);
  stage_close(&t);
  return finish();
}
