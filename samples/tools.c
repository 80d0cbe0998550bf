/* Tool calls. The model asks for a tool in its answer, the host runs it and appends the result as a message of role "tool"; the model goes on
 * with it. The template decides how tools and results look to the model; the earlier turns are never computed again.
 *   tools MODEL.gguf QUESTION [CALL]
 * CALL stands for the first answer of a model that was trained for tools, where MODEL was not:
 *   tools model.gguf "What is 17 + 25?" '<tool_call>{"name": "add", "arguments": {"a": 17, "b": 25}}</tool_call>'
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

enum { kTextMax = 16384, kRoundsMax = 4 };

static const char kTools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"Adds two numbers\", \"parameters\": {\"type\": "
    "\"object\", "
    "\"properties\": {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}}, \"required\": [\"a\", \"b\"]}}}]";
/* For templates that do not show the tools by themselves. */
static const char kSystem[] =
    "You can call the tool add with the numbers a and b. To call it, answer with "
    "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}</tool_call> and nothing else.";

static void must(kvrt_status status, const char* what) {
  kvrt_error error;
  KVRT_INIT(&error);
  if (status == KVRT_OK) return;
  kvrt_last_error(&error);
  fprintf(stderr, "%s: %s (%s)\n", what, error.message, kvrt_status_name(status));
  exit(status);
}

/* Appends {"role": ROLE, "content": TEXT}. */
static void say(kvrt_session* session, const char* role, const char* text) {
  static char json[6 * kTextMax + 64];
  char* p = json + sprintf(json, "{\"role\": \"%s\", \"content\": \"", role);
  for (; *text; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      p += sprintf(p, "\\%c", c);
    } else if (c < 0x20) {
      p += sprintf(p, "\\u%04x", c);
    } else {
      *p++ = (char)c;
    }
  }
  p += sprintf(p, "\"}");
  kvrt_append_info info;
  KVRT_INIT(&info);
  must(kvrt_session_append_message(session, json, (size_t)(p - json), &info), "message");
  fprintf(stderr, "[%s: %llu tokens", role, (unsigned long long)info.appended);
  if (info.rewritten)
    fprintf(stderr, "; %llu rewritten from %llu on", (unsigned long long)info.rewritten, (unsigned long long)info.rewritten_at);
  fprintf(stderr, "]\n");
}

struct text {
  char bytes[kTextMax];
  size_t size;
};

static int32_t collect(void* user, const kvrt_event* event) {
  struct text* t = user;
  if (event->type != KVRT_EVENT_TOKEN && event->type != KVRT_EVENT_DONE) return 0;
  if (t->size + event->text_size < kTextMax) {
    memcpy(t->bytes + t->size, event->text, event->text_size);
    t->size += event->text_size;
    t->bytes[t->size] = '\0';
  }
  return 0;
}

/* The result of a call to add in `answer`; 0 when there is none. A real host parses the JSON with its library. */
static int run_tool(const char* answer, char* result, size_t size) {
  const char* call = strstr(answer, "<tool_call>");
  double a, b;
  if (!call || !strstr(call, "\"add\"")) return 0;
  const char *at_a = strstr(call, "\"a\":"), *at_b = strstr(call, "\"b\":");
  if (!at_a || !at_b || sscanf(at_a + 4, "%lf", &a) != 1 || sscanf(at_b + 4, "%lf", &b) != 1) {
    snprintf(result, size, "add needs the numbers a and b");
  } else {
    snprintf(result, size, "%g", a + b);
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: tools MODEL.gguf QUESTION [CALL]\n");
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session* session = NULL;
  must(kvrt_runtime_open(NULL, &runtime), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model), "model");
  kvrt_session_options options;
  KVRT_INIT(&options);
  options.tools = kTools;
  options.tools_size = sizeof kTools - 1;
  must(kvrt_session_open(model, &options, &session), "session");
  say(session, "system", kSystem);
  say(session, "user", argv[2]);

  static struct text answer;
  for (int round = 0; round < kRoundsMax; ++round) {
    if (round == 0 && argc > 3) {
      snprintf(answer.bytes, sizeof answer.bytes, "%s", argv[3]);
      say(session, "assistant", answer.bytes);
    } else {
      kvrt_generate_options generate;
      kvrt_report report;
      KVRT_INIT(&generate);
      KVRT_INIT(&report);
      generate.max_tokens = 96;
      answer.size = 0;
      answer.bytes[0] = '\0';
      must(kvrt_session_generate(session, &generate, collect, &answer, &report), "answer");
      fprintf(stderr, "[assistant: %llu prompt tokens, %llu computed]\n", (unsigned long long)report.prompt_tokens,
              (unsigned long long)report.prefilled);
    }
    char result[64];
    printf("assistant: %s\n", answer.bytes);
    if (!run_tool(answer.bytes, result, sizeof result)) break;
    printf("tool: %s\n", result);
    say(session, "tool", result);
  }
  kvrt_session_close(session);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
