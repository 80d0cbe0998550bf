/* Tool calls. The first answer has to be a call, with arguments that fit the tool's schema, whatever the model; it comes as one event, the host
 * runs it and appends the result as a message of role "tool", and the model goes on with it. The template decides how tools and results look to the model; the
 * earlier turns are never computed again.
 *   tools MODEL.gguf QUESTION
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

enum { kTextMax = 4096 };

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
  for (; *text && p < json + sizeof json - 16; ++text) {
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
  must(kvrt_session_append_message(session, json, (size_t)(p - json), &info, NULL), "message");
  fprintf(stderr, "[%s: %llu tokens", role, (unsigned long long)info.appended);
  if (info.rewritten)
    fprintf(stderr, "; %llu rewritten from %llu on", (unsigned long long)info.rewritten, (unsigned long long)info.rewritten_at);
  fprintf(stderr, "]\n");
}

/* The parts of an answer. */
struct answer {
  char call[kTextMax]; /* JSON; "": none */
};

static int32_t on_event(void* user, const kvrt_event* event) {
  struct answer* answer = user;
  if (event->type == KVRT_EVENT_CONTENT) fwrite(event->text, 1, event->text_size, stdout);
  if (event->type == KVRT_EVENT_TOOL_CALL && event->text_size < kTextMax) {
    memcpy(answer->call, event->text, event->text_size);
    answer->call[event->text_size] = '\0';
  }
  return 0;
}

static void generate(kvrt_session* session, uint32_t tool_choice, struct answer* answer) {
  kvrt_generate_options options;
  kvrt_report report;
  KVRT_INIT(&options);
  KVRT_INIT(&report);
  options.max_tokens = 96;
  options.reply = KVRT_REPLY_HERMES;
  options.tool_choice = tool_choice;
  options.parallel_calls_max = 1;
  answer->call[0] = '\0';
  must(kvrt_session_generate(session, &options, on_event, answer, &report, NULL), "answer");
  fprintf(stderr, "[assistant: %llu prompt tokens, %llu computed]\n", (unsigned long long)report.prompt_tokens,
          (unsigned long long)report.prefilled);
}

/* The result of a call; 0 when it is none of add. A real host parses the JSON with its library. */
static int run_tool(const char* call, char* result, size_t size) {
  const char *a = strstr(call, "\"a\":"), *b = strstr(call, "\"b\":");
  if (!strstr(call, "\"add\"") || !a || !b) return 0;
  snprintf(result, size, "%g", strtod(a + 4, NULL) + strtod(b + 4, NULL));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: tools MODEL.gguf QUESTION\n");
    return 1;
  }
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  kvrt_session* session = NULL;
  must(kvrt_runtime_open(NULL, &runtime, NULL), "runtime");
  must(kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL), "model");
  kvrt_session_options options;
  KVRT_INIT(&options);
  options.tools = kTools;
  options.tools_size = sizeof kTools - 1;
  must(kvrt_session_open(model, &options, &session, NULL), "session");
  say(session, "system", kSystem);
  say(session, "user", argv[2]);

  static struct answer answer;
  char result[64];
  generate(session, KVRT_TOOL_CHOICE_REQUIRED, &answer);
  printf("call: %s\n", answer.call);
  if (run_tool(answer.call, result, sizeof result)) {
    printf("tool: %s\n", result);
    say(session, "tool", result);
    printf("assistant: ");
    generate(session, KVRT_TOOL_CHOICE_NONE, &answer);
    printf("\n");
  }
  kvrt_session_close(session);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
