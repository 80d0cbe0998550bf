// Answers taken apart: content, reasoning and tool calls as events, and as the message that the conversation keeps. The host is the sampler,
// so that the model says the words of the test.
#include "chat.h"
#include "misuse.h"

// In the style of Hermes and Qwen: calls between tags, results as turns of the user.
static const char kTemplate[] =
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> answer with <tool_call>{\"name\": ..., \"arguments\": "
    "...}"
    "</tool_call>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}"
    "\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{{ '\n' }}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char kTools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}}]";

struct parts {
  char raw[1024], content[1024], reasoning[1024], calls[1024];
  int call_count;
};

static void add(char* to, const kvrt_event* e) { strncat(to, e->text, e->text_size); }

static kvrt_generate_options forcing(uint32_t reply) {
  return (kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .sampler = KVRT_SAMPLER_HOST, .reply = reply};
}

// Generates exactly `tokens`, then the end token unless max_tokens comes first.
static void force_with(kvrt_session* s, kvrt_generate_options o, const int32_t* tokens, size_t count, struct parts* p) {
  MUST(kvrt_session_begin(s, &o, NULL));
  memset(p, 0, sizeof *p);
  size_t next = 0;
  kvrt_event e = {.struct_size = sizeof e};
  do {
    MUST(kvrt_session_next(s, &e, -1, NULL));
    if (e.type == KVRT_EVENT_LOGITS) {
      MUST(kvrt_session_accept(s, next < count ? tokens[next] : 2, NULL));
      ++next;
    }
    if (e.type == KVRT_EVENT_TOKEN || e.type == KVRT_EVENT_DONE) add(p->raw, &e);
    if (e.type == KVRT_EVENT_CONTENT) add(p->content, &e);
    if (e.type == KVRT_EVENT_REASONING) add(p->reasoning, &e);
    if (e.type == KVRT_EVENT_TOOL_CALL) add(p->calls, &e), strcat(p->calls, ";"), ++p->call_count;
  } while (e.type != KVRT_EVENT_DONE);
  if (o.max_tokens == 0) EXPECT(next == count + 1 && e.reason == KVRT_REASON_EOS, "%zu of %zu tokens, reason %u", next, count, e.reason);
}

static void force(kvrt_session* s, uint32_t reply, const int32_t* tokens, size_t count, struct parts* p) {
  force_with(s, forcing(reply), tokens, count, p);
}

static const char kAnswer[] =
    "<think>\nTwo and two.\n</think>\n\nI will add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2, \"b\": [2, "
    "\"}\"]}}\n</tool_call>";

static kvrt_session* conversation(kvrt_model* model, const char* tools) {
  kvrt_session* s = NULL;
  const kvrt_session_options o = {.struct_size = sizeof o, .tools = tools, .tools_size = tools ? strlen(tools) : 0};
  MUST(kvrt_session_open(model, &o, &s, NULL));
  say(s, "user", "2 + 2?", NULL);
  return s;
}

static void forced_text(kvrt_model* model, kvrt_session* s, uint32_t reply, const char* answer, struct parts* p) {
  int32_t tokens[512];
  size_t count = 0;
  MUST(kvrt_model_tokenize(model, answer, strlen(answer), 0, tokens, 512, &count, NULL));
  force(s, reply, tokens, count, p);
  EXPECT(strcmp(p->raw, answer) == 0, "the text of the tokens is %s", p->raw);
}

static void forced(kvrt_model* model, kvrt_session* s, uint32_t reply, struct parts* p) { forced_text(model, s, reply, kAnswer, p); }

static void last_message_is(kvrt_session* s, const char* want) {
  char json[2048] = "";
  newest_message(s, json, sizeof json);
  EXPECT(strcmp(json, want) == 0, "the message is %s", json);
}

static const char kMessage[] =
    "{\"role\":\"assistant\",\"content\":\"I will add.\",\"reasoning_content\":\"Two and two.\",\"tool_calls\":[{\"type\":"
    "\"function\",\"function\":{\"name\":\"add\",\"arguments\":{\"a\":2,\"b\":[2,\"}\"]}}}]}";

static void taken_apart(kvrt_model* model) {
  struct parts p;
  kvrt_session* s = conversation(model, kTools);
  forced(model, s, KVRT_REPLY_AUTO, &p);
  EXPECT(strcmp(p.content, "I will add.") == 0, "content: \"%s\"", p.content);
  EXPECT(strcmp(p.reasoning, "Two and two.") == 0, "reasoning: \"%s\"", p.reasoning);
  EXPECT(p.call_count == 1 && strcmp(p.calls, "{\"name\":\"add\",\"arguments\":{\"a\":2,\"b\":[2,\"}\"]}};") == 0, "calls: %s", p.calls);
  last_message_is(s, kMessage);
  // The template writes it as the model did: the result follows, and nothing is written anew.
  kvrt_append_info info;
  say(s, "tool", "4", &info);
  EXPECT(info.rewritten == 0 && info.appended > 0, "%" PRIu64 " tokens rewritten", info.rewritten);
  kvrt_session_close(s);
}

// Without tools there are no calls, unless the host says so; without the option there are no parts.
static void by_option(kvrt_model* model) {
  static const struct {
    const char* tools;
    uint32_t reply;
    int calls, reasons;
  } rows[] = {{NULL, KVRT_REPLY_AUTO, 0, 1},
              {NULL, KVRT_REPLY_HERMES, 1, 1},
              {kTools, KVRT_REPLY_PLAIN, 0, 1},
              {kTools, KVRT_REPLY_MISTRAL, 0, 1},
              {kTools, KVRT_REPLY_DEFAULT, 0, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    struct parts p;
    kvrt_session* s = conversation(model, rows[i].tools);
    forced(model, s, rows[i].reply, &p);
    EXPECT(p.call_count == rows[i].calls && (p.reasoning[0] != 0) == rows[i].reasons, "row %zu: %d calls, reasoning %s", i, p.call_count,
           p.reasoning);
    EXPECT((strstr(p.content, "<tool_call>") != NULL) == (rows[i].reply && !rows[i].calls), "row %zu: content %s", i, p.content);
    kvrt_session_close(s);
  }
}

// The message is the same whether parts were asked for, and the turn keeps its tokens although the template would write the call in another
// way; also where another message follows. Reasoning stands apart where the template would not find it in the content.
static void keeps_its_tokens(kvrt_model* model) {
  struct parts p;
  kvrt_session* s = conversation(model, kTools);
  forced_text(model, s, KVRT_REPLY_DEFAULT,
              "<think>\nTwo and two.\n</think>\n\nI will add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":2,\"b\":[ 2, "
              "\"}\" ]}}\n</tool_call>",
              &p);
  EXPECT(p.call_count == 0, "%d calls", p.call_count);
  last_message_is(s, kMessage);
  int32_t before[kChatMax], after[kChatMax];
  const uint64_t answer = session_props(s).messages - 1;
  const size_t count = session_tokens(s, before, kChatMax);
  const kvrt_message_props turn = message_props(s, answer);
  EXPECT(turn.ended && !message_props(s, answer - 1).ended, "the answer: ended is %u", turn.ended);
  kvrt_append_info info;
  say(s, "tool", "4", &info);
  EXPECT(info.rewritten == 0, "%" PRIu64 " tokens rewritten", info.rewritten);
  forced_text(model, s, KVRT_REPLY_AUTO, "<think>\nSo\n</think>\n\nFour.", &p);
  last_message_is(s, "{\"role\":\"assistant\",\"content\":\"Four.\",\"reasoning_content\":\"So\"}");
  say(s, "user", "Thanks", &info);
  EXPECT(info.rewritten == 0 && message_props(s, answer).generated, "%" PRIu64 " tokens rewritten", info.rewritten);
  EXPECT(message_props(s, answer).begin == turn.begin && message_props(s, answer).end == turn.end, "the turn's tokens moved");
  session_tokens(s, after, kChatMax);
  EXPECT(memcmp(before, after, count * sizeof *before) == 0, "the first %zu tokens changed", count);
  // A call that says another thing is written anew.
  char json[kChatMax];
  all_messages(s, json, sizeof json);
  char* two = strstr(json, "\"a\":2");
  two[4] = '3';
  MUST(kvrt_session_set_messages(s, json, strlen(json), &info, NULL));
  EXPECT(!message_props(s, answer).generated, "another call keeps the tokens");
  kvrt_session_close(s);
}

// An answer whose end is truncated away keeps its first part, and goes on with it.
static void truncated(kvrt_model* model) {
  struct parts p;
  kvrt_session* s = conversation(model, kTools);
  forced(model, s, KVRT_REPLY_AUTO, &p);
  const uint64_t messages = session_props(s).messages;
  const kvrt_message_props turn = message_props(s, messages - 1);
  int32_t rest[kChatMax];
  session_tokens(s, rest, kChatMax);
  const uint64_t at = turn.begin + 30;  // within the content
  MUST(kvrt_session_truncate(s, at, NULL));
  EXPECT(session_props(s).messages == messages && message_props(s, messages - 1).end == at, "%" PRIu64 " messages",
         session_props(s).messages);
  EXPECT(!message_props(s, messages - 1).ended, "half an answer has ended");
  force(s, KVRT_REPLY_AUTO, rest + at, turn.end - 1 - at, &p);
  last_message_is(s, kMessage);
  EXPECT(message_props(s, messages - 1).ended, "it has not ended");
  EXPECT(message_props(s, messages - 1).begin == turn.begin && session_props(s).messages == messages, "it is another message");
  MUST(kvrt_session_truncate(s, turn.begin, NULL));
  EXPECT(session_props(s).messages == messages - 1, "nothing of the answer is left, but its message");
  kvrt_session_close(s);
}

// A call without its mark is a call in the message, too, whose tokens stay; cut at any token it goes on as one. Where no call may come it is text.
static void unmarked(kvrt_model* model) {
  static const char* const kAnswers[] = {"\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}",
                                         "```json\n{\n  \"name\": \"add\",\n  \"arguments\": {\n    \"a\": 2\n  }\n}\n```"};
  const char* const call = "{\"name\":\"add\",\"arguments\":{\"a\":2}};";
  const char* const message =
      "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":"
      "{\"a\":2}}}]}";
  for (size_t i = 0; i < 2; ++i) {
    struct parts p;
    int32_t tokens[512];
    size_t count = 0;
    MUST(kvrt_model_tokenize(model, kAnswers[i], strlen(kAnswers[i]), 0, tokens, 512, &count, NULL));
    kvrt_session* s = conversation(model, kTools);
    const uint64_t begin = session_props(s).tokens;
    kvrt_generate_options o = forcing(KVRT_REPLY_AUTO);
    force_with(s, o, tokens, count, &p);
    EXPECT(p.content[0] == 0 && strcmp(p.calls, call) == 0, "content \"%s\", calls %s", p.content, p.calls);
    last_message_is(s, message);
    kvrt_append_info info;
    say(s, "tool", "4", &info);
    EXPECT(info.rewritten == 0 && info.appended > 0, "%" PRIu64 " tokens rewritten", info.rewritten);
    for (size_t cut = 1; cut < count; ++cut) {
      MUST(kvrt_session_truncate(s, begin, NULL));
      o = forcing(KVRT_REPLY_AUTO);
      o.max_tokens = (uint32_t)cut;
      force_with(s, o, tokens, cut, &p);
      const int before = p.call_count;
      o.max_tokens = 0;
      o.grammar_kind = KVRT_GRAMMAR_CONTINUE;
      force_with(s, o, tokens + cut, count - cut, &p);
      EXPECT(before + p.call_count == 1, "cut at %zu: %d and %d calls", cut, before, p.call_count);
      last_message_is(s, message);
    }
    kvrt_session_close(s);
    s = conversation(model, kTools);
    o = forcing(KVRT_REPLY_AUTO);
    o.tool_choice = KVRT_TOOL_CHOICE_NONE;
    force_with(s, o, tokens, count, &p);
    EXPECT(p.call_count == 0 && strcmp(p.content, kAnswers[i]) == 0, "%d calls, content %s", p.call_count, p.content);
    char json[2048] = "";
    newest_message(s, json, sizeof json);
    EXPECT(strstr(json, "tool_calls") == NULL, "the message is %s", json);
    MUST(kvrt_session_truncate(s, session_props(s).tokens - 1, NULL));
    newest_message(s, json, sizeof json);
    EXPECT(strstr(json, "tool_calls") == NULL, "the message is %s without its end", json);
    kvrt_session_close(s);
  }
}

// A turn that is cut and goes on is one message.
static void one_message(kvrt_model* model) {
  kvrt_session* s = conversation(model, NULL);
  kvrt_generate_options o = run_options(5);
  struct run r = {0};
  const uint64_t messages = session_props(s).messages;
  for (int i = 0; i < 3; ++i) MUST(kvrt_session_generate(s, &o, run_callback, &r, NULL, NULL));
  const kvrt_message_props last = message_props(s, messages);
  EXPECT(session_props(s).messages == messages + 1 && last.end == session_props(s).tokens && last.generated, "%" PRIu64 " messages",
         session_props(s).messages);
  EXPECT(!last.ended, "a limit cut it, and it ended");
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  char path[kPathMax + 32];
  kvrt_model* model = open_with_template(t.runtime, t.tiny, t.dir, "hermes", kTemplate, path);
  taken_apart(model);
  by_option(model);
  keeps_its_tokens(model);
  truncated(model);
  unmarked(model);
  one_message(model);
  BAD("begin", "reply 8",
      kvrt_session_begin(t.session, &(kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .reply = 8}, NULL));
  kvrt_model_release(model);
  stage_close(&t);
  return finish();
}
