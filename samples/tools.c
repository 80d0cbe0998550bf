/* Tool calls. The first answer has to be a call, with arguments that fit the tool's schema, whatever the model; it comes as one event, the host
 * runs it and appends the result as a message of role "tool", and the model goes on with it. The template decides how tools and results look to the model; the
 * earlier turns are never computed again.
 *   tools MODEL.gguf QUESTION
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvrt.h"

/* A model that reasons before its call leaves room for the call. */
enum { kReasoningMax = 256, kAnswerMax = 96 };

static const char kTools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"Adds two numbers\", \"parameters\": {\"type\": "
    "\"object\", "
    "\"properties\": {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}}, \"required\": [\"a\", \"b\"]}}}]";
/* For templates that do not show tools. */
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

static void* allocate(size_t size) {
  void* p = malloc(size);
  if (!p) must(KVRT_NO_MEMORY, "memory");
  return p;
}

/* Appends {"role": ROLE, "content": TEXT}, with the call's id, as JSON has it, where the message answers a call that has one. */
static void say(kvrt_session* session, const char* role, const char* text, const char* call_id) {
  char* json = allocate(6 * strlen(text) + strlen(role) + strlen(call_id) + 64);
  char* p = json + sprintf(json, "{\"role\": \"%s\", ", role);
  if (*call_id) p += sprintf(p, "\"tool_call_id\": \"%s\", ", call_id);
  p += sprintf(p, "\"content\": \"");
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
  must(kvrt_session_append_message(session, json, (size_t)(p - json), &info, NULL), "message");
  free(json);
  fprintf(stderr, "[%s: %llu tokens", role, (unsigned long long)info.appended);
  if (info.rewritten)
    fprintf(stderr, "; %llu rewritten from %llu on", (unsigned long long)info.rewritten, (unsigned long long)info.rewritten_at);
  fprintf(stderr, "]\n");
}

/* Prints the answer. `user` gets its call as JSON, which the caller frees. */
static int32_t on_event(void* user, const kvrt_event* event) {
  char** call = user;
  if (event->type == KVRT_EVENT_CONTENT) fwrite(event->text, 1, event->text_size, stdout);
  if (event->type == KVRT_EVENT_TOOL_CALL && !*call) {
    *call = allocate(event->text_size + 1);
    memcpy(*call, event->text, event->text_size);
    (*call)[event->text_size] = '\0';
  }
  return 0;
}

static kvrt_status generate(kvrt_session* session, uint32_t reply, uint32_t tool_choice, char** call, kvrt_report* report) {
  kvrt_generate_options options;
  KVRT_INIT(&options);
  KVRT_INIT(report);
  options.max_tokens = kReasoningMax + kAnswerMax;
  options.reasoning_tokens_max = kReasoningMax;
  options.reply = reply;
  options.tool_choice = tool_choice;
  options.parallel_calls_max = 1;
  const kvrt_status status = kvrt_session_generate(session, &options, on_event, call, report, NULL);
  if (status == KVRT_OK)
    fprintf(stderr, "[assistant: %llu prompt tokens, %llu computed]\n", (unsigned long long)report->prompt_tokens,
            (unsigned long long)report->prefilled);
  return status;
}

/* Gives the call that answers the question, and the way in which the model writes calls; ends the program where there is no call. */
static uint32_t ask(kvrt_session* session, const char* question, char** call) {
  kvrt_report report;
  uint32_t reply = KVRT_REPLY_AUTO;
  say(session, "user", question, "");
  kvrt_status status = generate(session, reply, KVRT_TOOL_CHOICE_REQUIRED, call, &report);
  if (status == KVRT_UNSUPPORTED) { /* the template does not show tools: the system message does, and names the way */
    reply = KVRT_REPLY_HERMES;
    must(kvrt_session_truncate(session, 0, NULL), "truncate");
    say(session, "system", kSystem, "");
    say(session, "user", question, "");
    status = generate(session, reply, KVRT_TOOL_CHOICE_REQUIRED, call, &report);
  }
  must(status, "answer");
  if (*call) return reply;
  static const char* const reasons[] = {"none", "eos", "stop", "max_tokens", "context_full", "cancelled"};
  fprintf(stderr, "no call: the answer ended after %llu tokens: %s\n", (unsigned long long)report.generated,
          report.reason < sizeof reasons / sizeof *reasons ? reasons[report.reason] : "an unknown reason");
  exit(1);
}

/* The result of a call, and its id, "" where it has none; 0 when it is none of add. A real host parses the JSON with its library. */
static int run_tool(const char* call, char* result, size_t result_size, char* id, size_t id_size) {
  const char *a = strstr(call, "\"a\":"), *b = strstr(call, "\"b\":"), *i = strstr(call, "\"id\":\"");
  if (!strstr(call, "\"add\"") || !a || !b) return 0;
  snprintf(result, result_size, "%g", strtod(a + 4, NULL) + strtod(b + 4, NULL));
  snprintf(id, id_size, "%.*s", i ? (int)strcspn(i + 6, "\"") : 0, i ? i + 6 : "");
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

  char *call = NULL, *none = NULL;
  const uint32_t reply = ask(session, argv[2], &call);
  char result[64], id[64];
  printf("call: %s\n", call);
  if (run_tool(call, result, sizeof result, id, sizeof id)) {
    printf("tool: %s\n", result);
    say(session, "tool", result, id);
    printf("assistant: ");
    kvrt_report report;
    must(generate(session, reply, KVRT_TOOL_CHOICE_NONE, &none, &report), "answer");
    printf("\n");
  }
  free(call);
  free(none);
  kvrt_session_close(session);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
