// Conversations that change: an edited message, a template that renders earlier turns otherwise, tools, and forgetting. Expectations
// comes from the template and the tokenizer over whole lists, and from the spans of messages.
#include "chat.h"
#include "misuse.h"

static const char* const kTurns[] = {"Who are you?", "A tiny model.", "What do you know?", "Not much.",
                                     "Is it warm?",  "It is.",        "And now?"};

// The first `count` turns after a system message; turn `edited` says something else.
static void list(char* json, size_t capacity, size_t count, int edited, const char* system) {
  size_t at = (size_t)snprintf(json, capacity, "[{\"role\":\"system\",\"content\":\"%s\"}", system);
  for (size_t i = 0; i < count; ++i) {
    const char* text = (int)i == edited ? "What do they knead?" : kTurns[i % 7];
    at += (size_t)snprintf(json + at, capacity - at, ",{\"role\":\"%s\",\"content\":\"%s\"}", i % 2 ? "assistant" : "user", text);
  }
  snprintf(json + at, capacity - at, "]");
}

static size_t common(const int32_t* a, size_t na, const int32_t* b, size_t nb) {
  size_t n = 0;
  while (n < na && n < nb && a[n] == b[n]) ++n;
  return n;
}

static kvrt_append_info set(kvrt_session* s, const char* json) {
  kvrt_append_info info = {.struct_size = sizeof info};
  MUST(kvrt_session_set_messages(s, json, strlen(json), &info, NULL));
  return info;
}

static kvrt_report answer(kvrt_session* s, uint32_t length, uint64_t seed) {
  const kvrt_generate_options o = {
      .struct_size = sizeof o, .max_tokens = length, .ignore_eos = 1, .temperature = 0.7f, .top_k = 40, .seed = seed};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
  return report;
}

// A session goes from every list to every other: it has the tokens of the template over the list, and info says where they part.
static void host_lists(struct stage* t) {
  const struct {
    size_t count;
    int edited;
  } lists[] = {{7, -1}, {7, 2}, {7, 3}, {3, -1}, {5, 0}, {1, -1}, {7, 6}};
  enum { kLists = sizeof lists / sizeof *lists };
  for (int a = 0; a < kLists; ++a) {
    for (int b = 0; b < kLists; ++b) {
      char from[2048], to[2048], what[64];
      snprintf(what, sizeof what, "list %d to list %d", a, b);
      list(from, sizeof from, lists[a].count, lists[a].edited, "Be brief.");
      list(to, sizeof to, lists[b].count, lists[b].edited, "Be brief.");
      int32_t old[1024], wanted[1024];
      const size_t n_old = templated(t->model, from, NULL, 1, old, 1024), n = templated(t->model, to, NULL, 1, wanted, 1024);
      kvrt_session* s = open_session(t->model, NULL, 0);
      const kvrt_append_info first = set(s, from);
      EXPECT(first.appended == n_old && first.rewritten == 0 && first.rewritten_at == 0, "%s: the first list", what);
      MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
      const kvrt_append_info info = set(s, to);
      const size_t at = common(old, n_old, wanted, n);
      EXPECT(info.rewritten_at == at && info.rewritten == n_old - at && info.appended == n - at,
             "%s: %" PRIu64 " rewritten at %" PRIu64 ", %" PRIu64 " appended; expected %zu at %zu, %zu", what, info.rewritten,
             info.rewritten_at, info.appended, n_old - at, at, n - at);
      expect_tokens(s, wanted, n, what);
      EXPECT(session_props(s).messages == lists[b].count + 1, "%s: %" PRIu64 " messages", what, session_props(s).messages);
      kvrt_report report = {.struct_size = sizeof report};
      (void)next_digest(s, &report);
      EXPECT(report.reused_memory >= at / 32 * 32 || at == n, "%s: only %" PRIu64 " reused", what, report.reused_memory);
      expect_sound(s, t->model, what);
      kvrt_session_close(s);
    }
  }
}

// system, user, answer, user, answer: and then another text in one of them. The tokens before it stay one by one.
static void generated_turns(struct stage* t) {
  for (uint64_t edited = 1; edited <= 4; ++edited) {
    kvrt_session* s = open_session(t->model, t->store, 0);
    say(s, "system", "Be brief.", NULL);
    say(s, "user", "Hello there", NULL);
    (void)answer(s, 9, 5);
    say(s, "user", "Hello again", NULL);
    (void)answer(s, 9, 6);
    int32_t old[1024], now[1024], piece[512];
    const size_t n_old = session_tokens(s, old, 1024);
    const kvrt_message_props p = message_props(s, edited);
    EXPECT(p.generated == (edited % 2 == 0), "message %" PRIu64, edited);
    char json[kChatMax], wanted[kChatMax], text[1024], changed[1024];
    all_messages(s, json, sizeof json);
    EXPECT(set(s, json).rewritten == 0 && session_tokens(s, now, 1024) == n_old, "the same list changed the session");
    // The list with "Hallo" for "Hello", or with a new answer.
    size_t needed = 0, n = 0;
    MUST(kvrt_session_message(s, edited, NULL, text, sizeof text - 1, &needed, NULL));
    text[needed] = 0;
    const char* place = strstr(json, text);
    const char* fresh = edited == 1   ? "{\"role\":\"user\",\"content\":\"Hallo there\"}"
                        : edited == 3 ? "{\"role\":\"user\",\"content\":\"Hallo again\"}"
                                      : "{\"role\":\"assistant\",\"content\":\"Hallo\"}";
    REQUIRE(place, "message %" PRIu64 " is not in the list", edited);
    snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(place - json), json, fresh, place + needed);
    const kvrt_append_info info = set(s, wanted);
    const size_t n_now = session_tokens(s, now, 1024);
    EXPECT(info.rewritten_at == common(old, n_old, now, n_now) && info.rewritten == n_old - info.rewritten_at &&
               info.appended == n_now - info.rewritten_at,
           "edit of %" PRIu64 ": %" PRIu64 " at %" PRIu64, edited, info.rewritten, info.rewritten_at);
    EXPECT(memcmp(old, now, p.begin * sizeof *old) == 0, "edit of %" PRIu64 ": tokens before it changed", edited);
    if (edited % 2) {  // the tokens of its own text
      MUST(kvrt_model_detokenize(t->model, old + p.begin, p.end - p.begin, KVRT_TEXT_SPECIAL, changed, sizeof changed - 1, &needed, NULL));
      changed[needed] = 0;
      char* letter = strstr(changed, "Hello");
      REQUIRE(letter, "%s", changed);
      letter[1] = 'a';
      MUST(kvrt_model_tokenize(t->model, changed, needed, KVRT_TEXT_SPECIAL, piece, 512, &n, NULL));
      const size_t at = p.begin + common(old + p.begin, n_old - p.begin, piece, n);
      EXPECT(info.rewritten_at == at, "edit of %" PRIu64 ": rewritten at %" PRIu64 ", expected %zu", edited, info.rewritten_at, at);
    } else {
      EXPECT(info.rewritten_at >= p.begin && info.rewritten_at < p.end, "edit of %" PRIu64 ": at %" PRIu64, edited, info.rewritten_at);
    }
    expect_sound(s, t->model, "edited");
    kvrt_session_close(s);
  }
}

// A template of reasoning models' kind: it shows a message otherwise once others follow.
static void changing_template(struct stage* t) {
  const char* source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if messages|length > 5 and loop.index0 == 3 %}(old) {% endif %}{{ m.content }}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  char path[kPathMax + 32], json[2048];
  kvrt_model* model = open_with_template(t->runtime, t->tiny, t->dir, "changing", source, path);
  kvrt_session* s = open_session(model, NULL, 0);
  say(s, "system", "Be brief.", NULL);
  int32_t old[1024], wanted[1024];
  size_t n_old = 0;
  for (size_t turn = 0; turn < 7; ++turn) {
    kvrt_append_info info;
    say(s, turn % 2 ? "assistant" : "user", kTurns[turn], &info);
    list(json, sizeof json, turn + 1, -1, "Be brief.");
    const size_t n = templated(model, json, NULL, 1, wanted, 1024), at = common(old, n_old, wanted, n);
    if (turn == 4) EXPECT(at < n_old, "the template did not change its mind");
    if (turn > 0) EXPECT(info.rewritten == n_old - at, "turn %zu: %" PRIu64 " rewritten, expected %zu", turn, info.rewritten, n_old - at);
    if (turn > 0) EXPECT(info.rewritten_at == at, "turn %zu: rewritten at %" PRIu64 ", expected %zu", turn, info.rewritten_at, at);
    expect_tokens(s, wanted, n, "a template that changes its mind");
    expect_sound(s, model, "a template that changes its mind");
    memcpy(old, wanted, n * sizeof *wanted);
    n_old = n;
  }
  kvrt_session_close(s);
  kvrt_model_release(model);
}

static void append_json(kvrt_session* s, const char* message, char* list_json, size_t capacity, kvrt_append_info* info) {
  *info = (kvrt_append_info){.struct_size = sizeof *info};
  MUST(kvrt_session_append_message(s, message, strlen(message), info, NULL));
  size_t n = strlen(list_json);
  if (n) --n;  // the bracket
  snprintf(list_json + n, capacity - n, "%s%s]", n ? "," : "[", message);
}

// Tools in the template's variable, in calls and in answers; saved with the session.
// A template that puts the tools into the user's first message, as Llama 3.1's does, takes no system message alone.
static void user_first(struct stage* t) {
  const char* source =
      "{% set ns = namespace(user=false) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.user = true %}{% endif %}"
      "{% if m.role == 'bad' %}{{ raise_exception('bad role') }}{% endif %}{% endfor %}"
      "{% if tools and not ns.user %}{{ raise_exception('no first user message') }}{% endif %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if tools and m.role == 'user' %}{{ tools | tojson }}{% endif %}{{ m.content }}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const char* sea = "[{\"type\":\"function\",\"function\":{\"name\":\"tide\",\"parameters\":{\"type\":\"object\"}}}]";
  const char* both = "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"High tide?\"}]";
  char path[kPathMax + 32];
  kvrt_model* model = open_with_template(t->runtime, t->tiny, t->dir, "user_first", source, path);
  const kvrt_session_options o = {.struct_size = sizeof o, .store = t->store, .tools = sea, .tools_size = strlen(sea)};
  int32_t wanted[1024];
  const size_t n = templated(model, both, sea, 1, wanted, 1024);
  for (int way = 0; way < 3; ++way) {  // by one message after the other, with a resume between them, as a list
    kvrt_session* s = NULL;
    kvrt_append_info info = {.struct_size = sizeof info};
    MUST(kvrt_session_open(model, &o, &s, NULL));
    if (way < 2) {
      say(s, "system", "Be brief.", &info);
      EXPECT(info.appended == 0 && session_props(s).tokens == 0 && session_props(s).messages == 1, "a system message alone");
      EXPECT_STATUS(kvrt_session_append_message(s, KVRT_STR("{\"role\":\"bad\",\"content\":\"\"}"), NULL, NULL), KVRT_INVALID);
      EXPECT_STATUS(kvrt_session_begin(s, NULL, NULL), KVRT_INVALID);
      EXPECT(strstr(last_message(), "no first user message") != NULL, "%s", last_message());
    }
    if (way == 1) {
      MUST(kvrt_session_suspend(s, "user first", 10, NULL, NULL, NULL));
      kvrt_session_close(s);
      s = resume_session(model, t->store, "user first", NULL);
    }
    if (way == 2) {
      MUST(kvrt_session_set_messages(s, both, strlen(both), NULL, NULL));
    } else {
      say(s, "user", "High tide?", &info);
      EXPECT(info.appended == n, "%" PRIu64 " appended", info.appended);
    }
    expect_tokens(s, wanted, n, "a system message and the user's");
    EXPECT(message_props(s, 0).end == 0 && message_props(s, 1).begin == 0 && message_props(s, 1).end == n, "spans of the two");
    (void)answer(s, 3, 4);
    EXPECT(session_props(s).messages == 3, "%" PRIu64 " messages", session_props(s).messages);
    MUST(kvrt_session_truncate(s, n, NULL));
    EXPECT(session_props(s).messages == 2, "%" PRIu64 " messages at the user's end", session_props(s).messages);
    MUST(kvrt_session_truncate(s, 0, NULL));
    EXPECT(session_props(s).messages == 0, "%" PRIu64 " messages in no tokens", session_props(s).messages);
    kvrt_session_close(s);
  }
  kvrt_model_release(model);
}

static void tools(struct stage* t) {
  const char* source =
      "{% if tools %}<|im_start|>tools\n{% for tool in tools %}{{ tool.function.name }}: {{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% "
      "endif %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}{% for c in m.tool_calls %}<call>{{ c.function.name }}"
      "{{ c.function.arguments | tojson }}</call>{% endfor %}{% elif m.tool_call_id %}{{ m.tool_call_id }}={{ m.content }}{% else %}"
      "{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const char* sea = "[{\"type\":\"function\",\"function\":{\"name\":\"tide\",\"parameters\":{\"type\":\"object\"}}}]";
  const char* sky = "[{\"type\":\"function\",\"function\":{\"name\":\"stars\"}},{\"type\":\"function\",\"function\":{\"name\":\"moon\"}}]";
  const char* const messages[] = {
      "{\"role\":\"user\",\"content\":\"High tide?\"}",
      "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"tide\","
      "\"arguments\":{\"place\":\"Brest\",\"hour\":7}}}]}",
      "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"6.9 m\"}", "{\"role\":\"user\",\"content\":\"Thanks\"}"};
  char path[kPathMax + 32], json[2048] = "";
  kvrt_model* model = open_with_template(t->runtime, t->tiny, t->dir, "tools", source, path);
  const kvrt_session_options o = {.struct_size = sizeof o, .store = t->store, .tools = sea, .tools_size = strlen(sea)};
  kvrt_session* s = NULL;
  kvrt_append_info info;
  int32_t wanted[1024], old[1024];
  MUST(kvrt_session_open(model, &o, &s, NULL));
  for (int i = 0; i < 3; ++i) {
    append_json(s, messages[i], json, sizeof json, &info);
    EXPECT(info.rewritten == 0, "message %d: %" PRIu64 " rewritten", i, info.rewritten);
    expect_tokens(s, wanted, templated(model, json, sea, 1, wanted, 1024), "with tools");
  }
  char text[2048];
  size_t needed = 0;
  MUST(kvrt_session_text(s, 0, UINT64_MAX, KVRT_TEXT_SPECIAL, text, sizeof text - 1, &needed, NULL));
  text[needed] = 0;
  EXPECT(strstr(text, "tide: ") && strstr(text, "<call>tide") && strstr(text, "c1=6.9 m"), "the text: %s", text);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "tools", 5, NULL, NULL, NULL));
  kvrt_session_close(s);
  const size_t n_old = templated(model, json, sea, 1, old, 1024);
  for (int other = 0; other < 2; ++other) {  // resume with the tools that it has, then with others
    const kvrt_session_options ro = {.struct_size = sizeof ro, .tools = other ? sky : NULL, .tools_size = other ? strlen(sky) : 0};
    char longer[2048];
    memcpy(longer, json, sizeof longer);
    MUST(kvrt_session_resume(model, t->store, "tools", 5, &ro, NULL, NULL, NULL, &s, NULL));
    append_json(s, messages[3], longer, sizeof longer, &info);
    const size_t n = templated(model, longer, other ? sky : sea, 1, wanted, 1024), at = common(old, n_old, wanted, n);
    expect_tokens(s, wanted, n, other ? "resumed with other tools" : "resumed with its tools");
    EXPECT(info.rewritten == n_old - at && info.rewritten_at == at, "resumed: %" PRIu64 " rewritten at %" PRIu64 ", expected %zu at %zu",
           info.rewritten, info.rewritten_at, n_old - at, at);
    const size_t prompt = templated(model, longer, other ? sky : sea, 0, wanted, 1024);
    EXPECT(answer(s, 3, 4).prompt_tokens == prompt, "begin with tools");
    kvrt_session* fork = NULL;
    MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    MUST(kvrt_session_truncate(fork, message_props(fork, 3).end, NULL));
    EXPECT(answer(fork, 3, 4).prompt_tokens == prompt, "a fork keeps the tools");
    kvrt_session_close(fork);
    kvrt_session_close(s);
  }
  kvrt_model_release(model);
}

// A range's bytes are its tokens' own: a code point of several tokens is cut where they are.
static void text_within_a_code_point(struct stage* t) {
  static const char kText[] = "a \xf0\x9f\x8c\x8a b";
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, NULL, &s, NULL));
  MUST(kvrt_session_append_text(s, kText, sizeof kText - 1, 0, NULL));
  const uint64_t count = session_props(s).tokens;
  REQUIRE(count > 4, "%" PRIu64 " tokens: the wave is one", count);
  char whole[64] = "", joined[64] = "";
  size_t all = 0, at = 0, needed = 0;
  MUST(kvrt_session_text(s, 0, UINT64_MAX, 0, whole, sizeof whole, &all, NULL));
  int partial = 0;
  for (uint64_t i = 0; i < count; ++i) {
    MUST(kvrt_session_text(s, i, i + 1, 0, joined + at, sizeof joined - at, &needed, NULL));
    partial += needed == 1 && (joined[at] & 0xc0) == 0x80;
    at += needed;
  }
  EXPECT(partial >= 3, "%d tokens are a piece of the wave", partial);
  EXPECT(at == all && !memcmp(whole, joined, all) && strstr(joined, kText), "%zu bytes for %zu", at, all);
  EXPECT_STATUS(kvrt_session_text(s, 0, count + 1, 0, whole, sizeof whole, &needed, NULL), KVRT_INVALID);
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  text_within_a_code_point(&t);
  host_lists(&t);
  generated_turns(&t);
  changing_template(&t);
  tools(&t);
  user_first(&t);
  stage_close(&t);
  return finish();
}
