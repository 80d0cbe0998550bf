// What a model's template writes for a turn with calls, a host's sampler may give, token by token, up to the end of the turn; the events are the calls.
// A template that writes calls in another way than the family that it shows leaves them free by default.
#include <math.h>

#include "chat.h"
#include "misuse.h"

#define HEAD                                                                                                                       \
  "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n" \
  "{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function %}"
#define TAIL "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define NAME "{{ f.name }}"
#define ARGUMENTS "{{ f.arguments | tojson }}"

static const struct {
  const char *name, *source;
  int fits;
} kTemplates[] = {
    {"hermes", HEAD "<tool_call>\n{\"name\": \"" NAME "\", \"arguments\": " ARGUMENTS "}\n</tool_call>" TAIL, 1},
    {"one_line", HEAD "<tool_call>{\"name\": \"" NAME "\", \"arguments\": " ARGUMENTS "}</tool_call>" TAIL, 1},
    {"mistral", HEAD "[TOOL_CALLS] [{\"name\": \"" NAME "\", \"arguments\": " ARGUMENTS ", \"id\": \"{{ c.id }}\"}]" TAIL, 1},
    {"tags",
     HEAD "<tool_call>\n<function=" NAME ">\n{% for k, v in f.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n"
          "{% endfor %}</function>\n</tool_call>" TAIL,
     1},
    {"other_keys", HEAD "<tool_call>\n{\"tool\": \"" NAME "\", \"input\": " ARGUMENTS "}\n</tool_call>" TAIL, 0},
};
static const char kTools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}}}]";
static const char kAsked[] = "{\"role\":\"user\",\"content\":\"2 + 2?\"}";
static const char* const kArguments[] = {"{\"a\":1}", "{\"a\":-2,\"b\":\"x \\\"y\\\"\"}", "{\"a\":3,\"c\":true}"};

// The text of the messages by the model's template.
static void render(kvrt_model* model, const char* messages, int prompt, char* text, size_t capacity) {
  kvrt_template_options o;
  KVRT_INIT(&o);
  o.no_generation_prompt = !prompt, o.tools = kTools, o.tools_size = strlen(kTools);
  size_t size = 0;
  MUST(kvrt_model_apply_template(model, messages, strlen(messages), &o, text, capacity - 1, &size, NULL));
  text[size] = 0;
}

// What the model has to write for a turn with one call.
static const char* turn(kvrt_model* model, const char* arguments) {
  static char prompt[4096], whole[8192], messages[2048];
  snprintf(messages, sizeof messages, "[%s]", kAsked);
  render(model, messages, 1, prompt, sizeof prompt);
  snprintf(
      messages, sizeof messages,
      "[%s,{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefgh1\",\"type\":\"function\",\"function\":{\"name\":"
      "\"add\",\"arguments\":%s}}]}]",
      kAsked, arguments);
  render(model, messages, 0, whole, sizeof whole);
  REQUIRE(strncmp(whole, prompt, strlen(prompt)) == 0, "%s does not begin with %s", whole, prompt);
  char* end = strstr(whole + strlen(prompt), "<|im_end|>");
  REQUIRE(end, "no end in %s", whole);
  *end = 0;
  return whole + strlen(prompt);
}

struct taken {
  size_t bytes;
  int may_end;
  char calls[1024];
};

// The host gives the text byte by byte, and then the end.
static struct taken give(kvrt_model* model, const char* text, uint32_t choice, uint32_t reply) {
  struct taken out = {0};
  kvrt_session* s = NULL;
  const kvrt_session_options so = {.struct_size = sizeof so, .tools = kTools, .tools_size = strlen(kTools)};
  MUST(kvrt_session_open(model, &so, &s, NULL));
  MUST(kvrt_session_append_message(s, kAsked, strlen(kAsked), NULL, NULL));
  kvrt_model_props props;
  KVRT_INIT(&props);
  MUST(kvrt_model_info(model, &props, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .sampler = KVRT_SAMPLER_HOST, .reply = reply, .tool_choice = choice};
  if (choice == KVRT_TOOL_CHOICE_NAMED) o.tool_name = "add", o.tool_name_size = 3;
  MUST(kvrt_session_begin(s, &o, NULL));
  kvrt_event e = {.struct_size = sizeof e};
  for (;;) {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    if (e.type == KVRT_EVENT_TOOL_CALL) strncat(out.calls, e.text, e.text_size);
    if (e.type == KVRT_EVENT_DONE) break;
    if (e.type != KVRT_EVENT_LOGITS) continue;
    int32_t token[8] = {props.eos_token};
    size_t count = 1;
    if (text[out.bytes]) MUST(kvrt_model_tokenize(model, text + out.bytes, 1, 0, token, 8, &count, NULL));
    if (isinf(e.logits[token[count - 1]])) break;
    MUST(kvrt_session_accept(s, token[count - 1], NULL));
    out.may_end = !text[out.bytes];
    out.bytes += !out.may_end;
  }
  kvrt_session_close(s);
  return out;
}

int main(void) {
  static const uint32_t kChoices[] = {KVRT_TOOL_CHOICE_DEFAULT, KVRT_TOOL_CHOICE_REQUIRED, KVRT_TOOL_CHOICE_NAMED};
  struct stage t;
  stage_open(&t);
  for (size_t i = 0; i < sizeof kTemplates / sizeof *kTemplates; ++i) {
    char path[kPathMax + 32], expected[512];
    kvrt_model* model = open_with_template(t.runtime, t.tiny, t.dir, kTemplates[i].name, kTemplates[i].source, path);
    for (size_t a = 0; a < sizeof kArguments / sizeof *kArguments; ++a) {
      const char* text = turn(model, kArguments[a]);
      for (size_t c = 0; c < (kTemplates[i].fits ? 3 : 1); ++c) {
        const struct taken got = give(model, text, kChoices[c], KVRT_REPLY_AUTO);
        snprintf(expected, sizeof expected, "{\"name\":\"add\",\"arguments\":%s", kArguments[a]);
        EXPECT(!text[got.bytes] && got.may_end, "%s, choice %u: of \"%s\" not \"%s\", end %d", kTemplates[i].name, kChoices[c], text,
               text + got.bytes, got.may_end);
        EXPECT(kTemplates[i].fits ? strncmp(got.calls, expected, strlen(expected)) == 0 : !got.calls[0], "%s, choice %u: calls %s",
               kTemplates[i].name, kChoices[c], got.calls);
      }
    }
    if (!kTemplates[i].fits) {  // asked for, the family's way binds
      const struct taken got = give(model, turn(model, kArguments[0]), KVRT_TOOL_CHOICE_AUTO, KVRT_REPLY_AUTO);
      EXPECT(!got.may_end, "%s: AUTO takes it", kTemplates[i].name);
    }
    kvrt_model_release(model);
  }
  stage_close(&t);
  return finish();
}
