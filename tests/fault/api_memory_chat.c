// Every allocation of inspect, of chat turns and of a cut within an answer fails once, or it and all that follow: the call says NO_MEMORY or
// succeeds all the same, and the session is idle, has its messages as before and a part of the answer, and then comes to the answer and the
// messages of a session that never wanted for memory.
//
//   api_memory_chat [EVERY]     1: each allocation (the whole proof); N: every Nth
#include "../api/chat.h"
#include "want_of_memory.h"

enum { kTokens = 1024, kAnswer = 12 };

// In the style of Hermes and Qwen, which shows calls and reasoning.
static const char kTemplate[] =
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> answer with <tool_call>{\"name\": ..., \"arguments\": "
    "...}</tool_call>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{{ '\n' }}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char kTools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}}]";
static const char kUser[] = "{\"role\":\"user\",\"content\":\"What is 0.5 and 2?\"}";
static const char kResult[] = "{\"role\":\"tool\",\"content\":\"2.5\"}";
// The call that the grammar holds the model to.
static const char kCall[] =
    "root ::= \"<think>\\nTwo.\\n</think>\\n\\nI add.\\n<tool_call>\\n{\\\"name\\\": \\\"add\\\", \\\"arguments\\\": {\\\"a\\\": [0.5, "
    "{}]}}\\n"
    "</tool_call>\"";

struct said {
  size_t count;
  int32_t tokens[kTokens];
  uint64_t messages;
  char json[8][1024];
};

struct world {
  char dir[kPathMax], path[kPathMax + 32];
  kvrt_runtime* rt;
  kvrt_model* model;
  kvrt_session* session;
  char inspected[32768], again[32768];
  size_t inspected_size;
  int round, begun;
  struct said answered, want, got;  // when the answer is there; at the end
};

static void say_all(const kvrt_session* s, struct said* out) {
  memset(out, 0, sizeof *out);
  out->count = session_tokens(s, out->tokens, kTokens);
  out->messages = session_props(s).messages;
  for (uint64_t i = 0; i < out->messages && i < 8; ++i) {
    size_t size = 0;
    MUST(kvrt_session_message(s, i, NULL, out->json[i], sizeof out->json[i] - 1, &size, NULL));
  }
}

// ---- the calls -----------------------------------------------------------------------------------------------------------------------

struct act {
  const char* name;
  uint32_t reply;
  int call;    // the answer is kCall
  int events;  // by begin and next
  int result;  // a second turn, that follows the answer
  int cut;     // a truncate within the answer, alone
};

static void open_chat(struct world* w, const struct act* act) {
  const kvrt_session_options o = {
      .struct_size = sizeof o, .tools = act->call ? kTools : NULL, .tools_size = act->call ? sizeof kTools - 1 : 0, .no_prefix_cache = 1};
  MUST(kvrt_session_open(w->model, &o, &w->session, NULL));
}

// A grammar of its own in each round: the model keeps those that it has compiled.
static kvrt_generate_options options_of(struct world* w, const struct act* act) {
  static char grammar[1024];
  kvrt_generate_options o = {.struct_size = sizeof o, .reply = act->reply, .top_logprobs = 2};
  if (act->call) {
    o.grammar_kind = KVRT_GRAMMAR_GBNF;
    o.grammar_size = (size_t)snprintf(grammar, sizeof grammar, "%s # %d\n", kCall, w->round);
    o.grammar = grammar;
  } else {
    o.max_tokens = kAnswer, o.ignore_eos = 1;
  }
  return o;
}

static kvrt_status take_all(struct world* w, const kvrt_generate_options* o) {
  kvrt_status status = w->begun ? KVRT_OK : kvrt_session_begin(w->session, o, NULL);
  kvrt_event e = {.struct_size = sizeof e};
  w->begun |= status == KVRT_OK;
  while (status == KVRT_OK && e.type != KVRT_EVENT_DONE && e.type != KVRT_EVENT_IDLE) status = kvrt_session_next(w->session, &e, -1, NULL);
  // "After NO_MEMORY a session that still generates does so at the next call"
  w->begun &= status != KVRT_OK && session_props(w->session).state == KVRT_STATE_GENERATING;
  return status;
}

static kvrt_status answer(struct world* w, const struct act* act) {
  const kvrt_generate_options o = options_of(w, act);
  return act->events ? take_all(w, &o) : kvrt_session_generate(w->session, &o, NULL, NULL, NULL, NULL);
}

static kvrt_status turn(struct world* w, const struct act* act, int result) {
  kvrt_status status = kvrt_session_append_message(w->session, kUser, sizeof kUser - 1, NULL, NULL);
  if (status == KVRT_OK) status = answer(w, act);
  if (status == KVRT_OK && result) status = kvrt_session_append_message(w->session, kResult, sizeof kResult - 1, NULL, NULL);
  return status;
}

// ---- the session afterwards ----------------------------------------------------------------------------------------------------------

// The messages and tokens are a beginning of those that are wanted; an answer that was cut is a message of its own.
static void expect_beginning(struct world* w, const char* where) {
  const struct said *got = &w->got, *want = &w->answered;
  EXPECT(got->count <= want->count && memcmp(got->tokens, want->tokens, got->count * sizeof *got->tokens) == 0, "%s: other tokens", where);
  EXPECT(got->messages <= want->messages, "%s: %" PRIu64 " messages", where, got->messages);
  EXPECT(got->messages == 0 || strcmp(got->json[0], want->json[0]) == 0, "%s: the user said %s", where, got->json[0]);
  EXPECT((got->messages == 0) == (got->count == 0), "%s: %zu tokens in %" PRIu64 " messages", where, got->count, got->messages);
}

// Goes on after a failure, as a host would: says the user's words again where they were lost, the answer anew where it was cut.
static kvrt_status once_more(struct world* w, const struct act* act) {
  if (w->got.messages == 0) return turn(w, act, act->result);
  if (w->begun) {
    const kvrt_generate_options o = options_of(w, act);
    const kvrt_status status = take_all(w, &o);
    if (status == KVRT_NO_MEMORY) {  // it ended there
      say_all(w->session, &w->got);
      return once_more(w, act);
    }
    if (status != KVRT_OK) return status;
  } else if (memcmp(&w->got, &w->answered, sizeof w->got) != 0) {
    kvrt_message_props p = {.struct_size = sizeof p};
    char json[1024];
    size_t size = 0;
    MUST(kvrt_session_message(w->session, 0, &p, json, sizeof json, &size, NULL));
    MUST(kvrt_session_truncate(w->session, p.end, NULL));
    const kvrt_status status = answer(w, act);
    if (status != KVRT_OK) return status;
  }
  return act->result && session_props(w->session).messages < 3
             ? kvrt_session_append_message(w->session, kResult, sizeof kResult - 1, NULL, NULL)
             : KVRT_OK;
}

static int try_turn(struct world* w, const struct act* act, long at, int all, long* refused) {
  char where[128];
  snprintf(where, sizeof where, "%s, allocation %ld%s", act->name, at, all ? " and all after it" : "");
  ++w->round;
  w->begun = 0;
  open_chat(w, act);
  want_memory_at(at, all);
  kvrt_status status = turn(w, act, act->result);
  const int past = memory_again(at);
  if (status != KVRT_OK) {
    ++*refused;
    EXPECT(status == KVRT_NO_MEMORY && !past, "%s: %s (%s)", where, kvrt_status_name(status), last_message());
    EXPECT(session_props(w->session).state == KVRT_STATE_IDLE || w->begun, "%s: state %u", where, session_props(w->session).state);
    say_all(w->session, &w->got);
    expect_beginning(w, where);
    status = once_more(w, act);
    EXPECT(status == KVRT_OK, "once more after %s: %s (%s)", where, kvrt_status_name(status), last_message());
  }
  say_all(w->session, &w->got);
  EXPECT(session_props(w->session).state == KVRT_STATE_IDLE, "after %s: state %u", where, session_props(w->session).state);
  EXPECT(memcmp(&w->got, &w->want, sizeof w->got) == 0, "after %s: %zu tokens, expected %zu, last message %s", where, w->got.count,
         w->want.count, w->got.messages ? w->got.json[w->got.messages - 1] : "");
  kvrt_session_close(w->session);
  return past;
}

static uint64_t within_answer(const struct world* w) {
  const kvrt_message_props p = message_props(w->session, 1);
  return (p.begin + p.end) / 2;
}

// The session is as it was, or cut; and the tokens that come then have their own KV.
static int try_cut(struct world* w, const struct act* act, long at, int all, long* refused) {
  char where[128];
  snprintf(where, sizeof where, "%s, allocation %ld%s", act->name, at, all ? " and all after it" : "");
  open_chat(w, act);
  MUST(turn(w, act, 0));
  const uint64_t place = within_answer(w);
  want_memory_at(at, all);
  const kvrt_status status = kvrt_session_truncate(w->session, place, NULL);
  const int past = memory_again(at);
  if (status != KVRT_OK) {
    ++*refused;
    EXPECT(status == KVRT_NO_MEMORY && !past, "%s: %s (%s)", where, kvrt_status_name(status), last_message());
    say_all(w->session, &w->got);
    EXPECT(memcmp(&w->got, &w->answered, sizeof w->got) == 0, "%s: %zu tokens, it had %zu", where, w->got.count, w->answered.count);
    MUST(kvrt_session_truncate(w->session, place, NULL));
  }
  say_all(w->session, &w->got);
  EXPECT(memcmp(&w->got, &w->want, sizeof w->got) == 0, "after %s: %zu tokens, expected %zu", where, w->got.count, w->want.count);
  MUST(kvrt_session_append(w->session, w->want.tokens, 4, NULL));
  expect_sound(w->session, w->model, where);
  kvrt_session_close(w->session);
  return past;
}

static kvrt_status call_inspect(struct world* w, char* out, size_t* size) {
  return kvrt_model_inspect(w->rt, w->path, strlen(w->path), 0, out, sizeof w->inspected, size, NULL);
}

static int try_inspect(struct world* w, const struct act* act, long at, int all, long* refused) {
  size_t size = 0;
  want_memory_at(at, all);
  const kvrt_status status = call_inspect(w, w->again, &size);
  const int past = memory_again(at);
  if (status != KVRT_OK) {
    ++*refused;
    EXPECT(status == KVRT_NO_MEMORY && !past, "%s, allocation %ld: %s (%s)", act->name, at, kvrt_status_name(status), last_message());
    EXPECT_STATUS(call_inspect(w, w->again, &size), KVRT_OK);
  }
  EXPECT(size == w->inspected_size && memcmp(w->again, w->inspected, size) == 0, "%s, allocation %ld: %.*s", act->name, at, (int)size,
         w->again);
  return past;
}

static const struct act kActs[] = {
    {.name = "inspect"},
    {.name = "turn"},
    {.name = "turn by next", .events = 1},
    {.name = "turn with reply", .reply = KVRT_REPLY_AUTO},
    {.name = "tool call", .reply = KVRT_REPLY_HERMES, .call = 1, .result = 1},
    {.name = "tool call by next", .reply = KVRT_REPLY_AUTO, .call = 1, .events = 1, .result = 1},
    {.name = "tool call without reply", .call = 1, .result = 1},
    {.name = "cut within a tool call", .call = 1, .cut = 1},
};

int main(int argc, char** argv) {
  const long every = argc > 1 ? atol(argv[1]) : 1;
  static struct world w;
  char tiny[kPathMax];
  tiny_path(tiny, 1);
  make_dir(w.dir);
  snprintf(w.path, sizeof w.path, "%s/hermes.gguf", w.dir);
  with_template(tiny, w.path, kTemplate);
  w.rt = open_runtime(2, 0);
  w.model = open_model(w.rt, w.path, 0, 0, 4096);
  MUST(call_inspect(&w, w.inspected, &w.inspected_size));
  for (size_t i = 0; i < sizeof kActs / sizeof *kActs; ++i) {
    const struct act* act = &kActs[i];
    if (i > 0) {
      open_chat(&w, act);
      MUST(turn(&w, act, 0));
      say_all(w.session, &w.answered);
      if (act->result) MUST(kvrt_session_append_message(w.session, kResult, sizeof kResult - 1, NULL, NULL));
      if (act->cut) MUST(kvrt_session_truncate(w.session, within_answer(&w), NULL));
      say_all(w.session, &w.want);
      kvrt_session_close(w.session);
      EXPECT(!act->call || !act->reply || strstr(w.want.json[1], "\"tool_calls\":[{") != NULL, "no call in %s", w.want.json[1]);
    }
    int (*const try_act)(struct world*, const struct act*, long, int, long*) = i == 0 ? try_inspect : act->cut ? try_cut : try_turn;
    long refused = 0, last = 0;
    for (int all = 0; all < 2; ++all) {
      long at = 1 + all % every;
      while (at < 1000000 && !try_act(&w, act, at, all, &refused)) at += every;
      last = at;
    }
    printf("%s: %ld allocations, %ld refused\n", act->name, last - 1, refused);
    fflush(stdout);
  }
  expect_no_leaks(w.model);
  kvrt_model_release(w.model);
  kvrt_runtime_release(w.rt);
  remove_tree(w.dir);
  return finish();
}
