// Conversations drawn from a number, each with the options of its generations: played without speculation and with it, they are the same to
// the bit.
#pragma once

#include <math.h>

#include "../api/chat.h"
#include "../api/transcript.h"

enum { kPartsMax = 3, kStopsMax = 3, kBiasMax = 4 };

struct rig {
  const char* name;
  kvrt_runtime* rt;
  kvrt_model *model, *draft;
  kvrt_store* store;
  char dir[kPathMax], saved[64];
  int everything;          // all layers see all tokens: the KV held follows from the tokens
  int chat, tools;         // it has a template; one that shows calls
  size_t long_prompt;      // tokens of a prompt at least: past a window
  uint32_t vocab, tokens;  // the most of an answer
};

// How a generation speculates. `told`: it is told what it will say, or nearly.
struct way {
  const char* name;
  int draft, lookup, told;
  uint32_t fixed;  // draft_tokens_min and _max; 0: as it pays
};

// One conversation, as it went.
struct play {
  struct transcript log;
  char answers[kPartsMax][kAnswerMax];  // what its generations said
  size_t parts;
};

struct drawn {  // options, and what they point to
  kvrt_generate_options o;
  int32_t stops[kStopsMax];
  kvrt_token_value bias[kBiasMax];
  char prediction[kAnswerMax];
};

static inline uint32_t roll(uint64_t* dice, uint32_t sides) { return (uint32_t)(next_random(dice) >> 33) % sides; }

// ---- options -----------------------------------------------------------------------------------------------------------------------

static const char* const kGrammars[] = {
    "root ::= \"yes, \" [a-z ]{4,40} \".\" | \"no, \" [a-z ]{4,40} \".\"",
    "root ::= item{2,6}\nitem ::= \"- \" [a-z]{1,9} \" costs \" [1-9] [0-9]? \" coins\\n\"",
    "root ::= \"the first answer is \" num \", the second answer is \" num\nnum ::= [0-9]{1,6}",
};
static const char* const kSchemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},\"kind\":{\"enum\":[\"animal\",\"vegetable\","
    "\"mineral\"]},\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":999}},\"required\":[\"name\",\"kind\",\"count\"]}",
    "{\"type\":\"array\",\"minItems\":2,\"maxItems\":4,\"items\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\","
    "\"minimum\":0,"
    "\"maximum\":99},\"visible\":{\"type\":\"boolean\"}},\"required\":[\"x\",\"visible\"]}}",
};
static const char kTools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2,3]},"
    "\"b\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\",\"b\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]";
// In the style of Hermes: a template that shows calls and reasoning, for models whose own does not.
static const char kTemplate[] =
    "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> answer with <tool_call>{\"name\": ..., \"arguments\": "
    "...}</tool_call>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static inline void draw_sampling(uint64_t* dice, kvrt_generate_options* o) {
  static const float temperatures[] = {0.3f, 0.7f, 1.0f, 1.5f}, top_ps[] = {0, 0.8f, 0.95f}, min_ps[] = {0, 0, 0.05f};
  static const uint32_t top_ks[] = {0, 2, 5, 40}, windows[] = {0, 4, 16, 64};
  if (roll(dice, 5) > 1) {
    o->temperature = temperatures[roll(dice, 4)], o->top_k = top_ks[roll(dice, 4)];
    o->top_p = top_ps[roll(dice, 3)], o->min_p = min_ps[roll(dice, 3)];
    o->seed = 1 + roll(dice, 1000000);
  }
  if (roll(dice, 4) == 0) {
    o->repetition_penalty = roll(dice, 2) ? 1.2f : 0, o->frequency_penalty = roll(dice, 2) ? 0.4f : 0;
    o->presence_penalty = roll(dice, 2) ? 0.5f : -0.3f, o->penalty_window = windows[roll(dice, 4)];
  }
}

static inline void draw_bounds(struct rig* r, uint64_t* dice, struct drawn* d) {
  static const char stops[][16] = {"e\0. ", "the\0\n\n", " a\0ing\0x", "\n\0}", "1\0zz"};
  static const size_t sizes[] = {5, 7, 9, 4, 5};
  kvrt_generate_options* o = &d->o;
  o->max_tokens = roll(dice, 12) == 0 ? 1 + roll(dice, 3) : r->tokens / 4 + roll(dice, r->tokens - r->tokens / 4 + 1);
  if (roll(dice, 3) == 0) {
    static const uint32_t tops[] = {1, 5, 20};
    o->top_logprobs = tops[roll(dice, 3)];
  }
  if (roll(dice, 5) == 0) {
    const uint32_t i = roll(dice, 5);
    o->stop_strings = stops[i], o->stop_strings_size = sizes[i];
  }
  if (roll(dice, 8) == 0) {
    for (size_t i = 0; i < kStopsMax; ++i) d->stops[i] = (int32_t)roll(dice, r->vocab < 600 ? r->vocab : 600);
    o->stop_tokens = d->stops, o->stop_token_count = kStopsMax;
  }
  if (roll(dice, 7) == 0) {
    for (size_t i = 0; i < kBiasMax; ++i) {
      d->bias[i] = (kvrt_token_value){(int32_t)roll(dice, r->vocab < 2000 ? r->vocab : 2000), i == 0 ? -INFINITY : (float)i * 2 - 4};
    }
    o->logit_bias = d->bias, o->logit_bias_count = kBiasMax;
  }
}

static inline void draw(struct rig* r, uint64_t* dice, struct drawn* d) {
  memset(d, 0, sizeof *d);
  kvrt_generate_options* o = &d->o;
  KVRT_INIT(o);
  draw_sampling(dice, o);
  draw_bounds(r, dice, d);
  const uint32_t bound = roll(dice, 10);
  if (bound < 2) {
    o->grammar_kind = KVRT_GRAMMAR_GBNF, o->grammar = kGrammars[roll(dice, 3)];
  } else if (bound == 2) {
    o->grammar_kind = roll(dice, 2) ? KVRT_GRAMMAR_JSON_SCHEMA : KVRT_GRAMMAR_JSON_SCHEMA_OPEN, o->grammar = kSchemas[roll(dice, 2)];
  } else if (bound == 3 && r->tools) {
    o->tool_choice = KVRT_TOOL_CHOICE_AUTO + roll(dice, 2), o->parallel_calls_max = 1 + roll(dice, 2);
  } else {
    o->ignore_eos = roll(dice, 4) == 0;
  }
  o->grammar_size = o->grammar ? strlen(o->grammar) : 0;
  if (o->grammar) o->max_tokens += r->tokens / 2;
  if (r->chat && roll(dice, 5) < 2) o->reply = KVRT_REPLY_AUTO;
}

// What is told is said but for a part in the middle, and one answer in four is told a text that has nothing to do with it.
static inline void speculate(struct rig* r, struct drawn* d, const struct way* way, const char* answer, uint64_t seed) {
  kvrt_generate_options* o = &d->o;
  o->lookup = (uint32_t)way->lookup;
  o->draft = way->draft ? r->draft : NULL;
  o->draft_tokens_max = o->draft_tokens_min = way->fixed;
  if (!way->told) return;
  snprintf(d->prediction, sizeof d->prediction, "%s", seed % 4 == 3 ? "Nothing of this will be said." : answer);
  const size_t size = strlen(d->prediction);
  for (size_t i = 0; i < size; ++i) {
    if ((unsigned char)d->prediction[i] >= 0x80) d->prediction[i] = '?';
  }
  if (size > 8 && seed % 2) memcpy(d->prediction + size / 2, "****", 4);
  o->prediction = d->prediction, o->prediction_size = size;
}

// ---- prompts -----------------------------------------------------------------------------------------------------------------------

static const char* const kQuestions[] = {
    "Say this again: the cat sat on the mat, the cat sat on the hat, the cat sat on the bat.",
    "Give the whole list again with one more line:\\n- red apples, 3 coins\\n- green apples, 4 coins\\n- yellow pears, 5 coins\\n",
    "Why is the sky blue?",
    "Correct the mistake and give all of it:\\nint add(int a, int b) {\\n  return a - b;\\n}\\nint sub(int a, int b) {\\n  return a - "
    "b;\\n}\\n",
    "Write a short story about a ship.",
    "Count from 1 to 20, a number a line.",
    "Replace x by y: {\\\"x\\\": 1, \\\"items\\\": [{\\\"x\\\": 2}, {\\\"x\\\": 3}, {\\\"x\\\": 4}]}",
    "Thanks. And in other words?",
};

static inline void ask(kvrt_session* s, uint64_t* dice) { say(s, "user", kQuestions[roll(dice, 8)], NULL); }

// Tokens without a template: some that come again, as an answer may.
static inline void append_raw(struct rig* r, kvrt_session* s, uint64_t* dice, size_t count) {
  int32_t tokens[4096];
  REQUIRE(count <= 4096 && count >= 8, "%zu tokens", count);
  prompt_tokens(tokens, count, next_random(dice), r->vocab);
  const size_t again = count / 3;
  memcpy(tokens + count - again, tokens, again * sizeof *tokens);
  MUST(kvrt_session_append(s, tokens, count, NULL));
}

static inline kvrt_session* open_conversation(struct rig* r, uint64_t* dice, uint32_t no_prefix_cache) {
  kvrt_session* s = NULL;
  const char* tools = r->tools && roll(dice, 3) == 0 ? kTools : NULL;
  const kvrt_session_options o = {.struct_size = sizeof o,
                                  .store = r->store,
                                  .no_prefix_cache = no_prefix_cache,
                                  .tools = tools,
                                  .tools_size = tools ? strlen(tools) : 0};
  MUST(kvrt_session_open(r->model, &o, &s, NULL));
  if (r->chat && roll(dice, 4) != 0) {
    for (size_t n = 0; n < r->long_prompt; n = session_props(s).tokens) {
      say(s, "user", kQuestions[roll(dice, 8)], NULL);
      say(s, "assistant", kQuestions[roll(dice, 8)], NULL);
    }
    ask(s, dice);
  } else {
    append_raw(r, s, dice, r->long_prompt + 24 + roll(dice, 20));
  }
  return s;
}

// ---- a conversation ----------------------------------------------------------------------------------------------------------------

// Between two generations: go on, cut, fork, save and come back, or say more.
static inline kvrt_session* between(struct rig* r, kvrt_session* s, uint64_t* dice) {
  const uint32_t what = roll(dice, 6), back = roll(dice, 24);
  const uint64_t count = session_props(s).tokens;
  if (what == 1) {
    MUST(kvrt_session_truncate(s, count - (back < count ? back : 0), NULL));
  } else if (what == 2) {
    kvrt_session* fork = NULL;
    MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    kvrt_session_close(s);
    s = fork;
  } else if (what == 3) {
    const kvrt_save_options o = {.struct_size = sizeof o, .overwrite = 1};
    MUST(kvrt_session_suspend(s, r->saved, strlen(r->saved), &o, NULL, NULL));
    if (back % 2) return s;
    kvrt_session_close(s);
    s = resume_session(r->model, r->store, r->saved, NULL);
  } else if (what == 4 && session_props(s).messages) {
    ask(s, dice);
  } else if (what == 5 && session_props(s).messages == 0) {
    append_raw(r, s, dice, 8);
  }
  return s;
}

static inline void log_next_logits(struct transcript* t, kvrt_session* s) {
  uint64_t digest = 0;
  const kvrt_status status = kvrt_session_prefill(s, KVRT_LOGITS_LAST, last_logits_callback, &digest, NULL, NULL);
  note(t, "then %s %016" PRIx64 "\n", kvrt_status_name(status), digest);
}

// Plays the conversation `seed`. With `way` it speculates; `plain` is how it went without.
static inline void play(struct rig* r, uint64_t seed, const struct way* way, const struct play* plain, struct play* p) {
  uint64_t dice = seed, own = seed * 31 + (way ? (uint64_t)(uintptr_t)way->name[0] + way->fixed : 0);
  memset(p->answers, 0, sizeof p->answers);
  p->parts = 1 + roll(&dice, kPartsMax);
  kvrt_session* s = open_conversation(r, &dice, roll(&own, 2));
  for (size_t i = 0; i < p->parts; ++i) {
    static struct drawn d;
    draw(r, &dice, &d);
    if (i > 0 && roll(&dice, 4) == 0 && d.o.grammar_kind == 0 && d.o.ignore_eos == 0)
      d.o.grammar_kind = KVRT_GRAMMAR_CONTINUE, d.o.tool_choice = 0, d.o.parallel_calls_max = 0;
    if (way) speculate(r, &d, way, plain->answers[i], seed + i);
    note(&p->log, "part %zu\n", i);
    note_generation(&p->log, r->model, s, &d.o, roll(&own, 3));
    memcpy(p->answers[i], p->log.answer, p->log.answer_size);
    note_session(&p->log, s);
    if (r->everything) note(&p->log, "%" PRIu64 " units\n", session_props(s).kv_units);
    if (session_props(s).state == KVRT_STATE_FAILED) break;
    if (i + 1 < p->parts) s = between(r, s, &dice);
  }
  if (session_props(s).state != KVRT_STATE_FAILED) log_next_logits(&p->log, s);
  kvrt_session_close(s);
}

static inline void play_free(struct play* p) { transcript_free(&p->log); }
