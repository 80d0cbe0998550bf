// Arguments with wrong values, where a session says something: a host's tokens, messages, spans, tools.
#include "misuse.h"

// A host's token that is none leaves the question open.
static void host_tokens(struct stage* t) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .sampler = KVRT_SAMPLER_HOST};
  kvrt_session* s = open_session(t->model, NULL, 0);
  MUST(kvrt_session_append(s, &(const int32_t){5}, 1, NULL));
  BAD("session_accept", "of an idle session", kvrt_session_accept(s, 5, ERR));
  MUST(kvrt_session_begin(s, &o, NULL));
  BAD("session_accept", "before it is asked for", kvrt_session_accept(s, 5, ERR));
  while (next_event(s, -1).type != KVRT_EVENT_LOGITS) {
  }
  BAD("session_accept", "token -1", kvrt_session_accept(s, -1, ERR));
  BAD("session_accept", "token == vocab_size", kvrt_session_accept(s, (int32_t)t->vocab, ERR));
  EXPECT(session_props(s).awaits_accept && session_props(s).tokens == 1, "the question is gone");
  ROW("session_accept", "a token (no misuse)", kvrt_session_accept(s, 6, ERR), ANY(KVRT_OK));
  BAD("session_accept", "a second one", kvrt_session_accept(s, 7, ERR));
  kvrt_session_close(s);
}

static void conversations(struct stage* t) {
  char json[64];
  size_t needed = 77;
  kvrt_message_props p = {.struct_size = sizeof p};
  const char* good = "[{\"role\":\"user\",\"content\":\"a\"}]";
  const char* wrong[] = {"[", "{}", "[1]", "[{\"content\":\"a\"}]", "[{\"role\":1}]", "[{\"role\":\"user\",\"content\":\"\xFF\"}]", ""};
  kvrt_session* s = open_session(t->model, NULL, 0);
  MUST(kvrt_session_set_messages(s, good, strlen(good), NULL, NULL));
  const uint64_t before = session_props(s).tokens;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    BAD("session_set_messages", wrong[i], kvrt_session_set_messages(s, wrong[i], strlen(wrong[i]), NULL, ERR));
  }
  EXPECT(session_props(s).tokens == before && session_props(s).messages == 1, "the conversation changed");
  ROW("session_message", "past the last", kvrt_session_message(s, 1, &p, json, sizeof json, &needed, ERR), ANY(KVRT_NOT_FOUND));
  ROW("session_message", "UINT64_MAX", kvrt_session_message(s, UINT64_MAX, &p, json, sizeof json, &needed, ERR), ANY(KVRT_NOT_FOUND));
  canary(json, sizeof json);
  EXPECT(needed == 77, "needed changed");
  ROW("session_message", "capacity 2", kvrt_session_message(s, 0, &p, json, 2, &needed, ERR), ANY(KVRT_TOO_SMALL));
  EXPECT(needed > 20 && has_canary(json, sizeof json) && p.end == 0, "TOO_SMALL wrote, needed %zu", needed);
  const size_t want = needed;
  ROW("session_message", "NULL and 0 ask for the size", kvrt_session_message(s, 0, &p, NULL, 0, &needed, NULL),
      ANY(KVRT_TOO_SMALL) | ANY(KVRT_OK));
  EXPECT(needed == want, "needed %zu, before %zu", needed, want);
  MUST(kvrt_session_message(s, 0, &p, NULL, 0, NULL, NULL));
  EXPECT(p.end == before, "without room for JSON the message ends at %" PRIu64, p.end);
  p.end = 0;
  MUST(kvrt_session_message(s, 0, &p, json, sizeof json, &needed, NULL));
  EXPECT(p.end == before && !p.generated, "the message ends at %" PRIu64, p.end);
  BAD("session_erase", "from past to", kvrt_session_erase(s, 3, 2, ERR));
  BAD("session_erase", "past the end", kvrt_session_erase(s, 0, before + 1, ERR));
  BAD("session_erase", "UINT64_MAX", kvrt_session_erase(s, UINT64_MAX, UINT64_MAX, ERR));
  BAD("session_erase", "half a message", kvrt_session_erase(s, p.begin, p.end - 1, ERR));
  BAD("session_erase", "the other half", kvrt_session_erase(s, p.begin + 1, p.end, ERR));
  needed = 77;
  BAD("session_text", "from past to", kvrt_session_text(s, 3, 2, 0, json, sizeof json, &needed, ERR));
  BAD("session_text", "past the end", kvrt_session_text(s, 0, before + 1, 0, json, sizeof json, &needed, ERR));
  BAD("session_text", "from past the end", kvrt_session_text(s, before + 1, UINT64_MAX, 0, json, sizeof json, &needed, ERR));
  BAD("session_text", "flags 0x80", kvrt_session_text(s, 0, 1, 0x80, json, sizeof json, &needed, ERR));
  BAD("session_text", "flags BOS", kvrt_session_text(s, 0, 1, KVRT_TEXT_BOS, json, sizeof json, &needed, ERR));
  BAD("model_metrics_text", "label of bad UTF-8", kvrt_model_metrics_text(t->model, kBadUtf8, 4, json, sizeof json, &needed, ERR));
  EXPECT(needed == 77 && session_props(s).tokens == before && session_props(s).messages == 1, "outputs or the session changed");
  ROW("session_text", "an empty span (no misuse)", kvrt_session_text(s, before, UINT64_MAX, 0, json, sizeof json, &needed, ERR),
      ANY(KVRT_OK));
  EXPECT(needed == 0, "needed %zu", needed);
  kvrt_session_close(s);
}

static kvrt_status with_tools(struct stage* t, const char* tools, int resume) {
  const kvrt_session_options o = {.struct_size = sizeof o, .tools = tools, .tools_size = strlen(tools)};
  kvrt_session* s = NULL;
  const kvrt_status status = resume ? kvrt_session_resume(t->model, t->store, "tools", 5, &o, NULL, NULL, NULL, &s, NULL)
                                    : kvrt_session_open(t->model, &o, &s, NULL);
  EXPECT((status == KVRT_OK) == (s != NULL), "out does not fit the status");
  kvrt_session_close(s);
  return status;
}

static void tools(struct stage* t) {
  MUST(kvrt_session_checkpoint(t->session, "tools", 5, NULL, NULL, NULL));
  for (int resume = 0; resume < 2; ++resume) {
    const char* call = resume ? "session_resume" : "session_open";
    BAD(call, "tools are no JSON", with_tools(t, "[1,", resume));
    BAD(call, "tools are an object", with_tools(t, "{}", resume));
    BAD(call, "tools are bad UTF-8", with_tools(t, "[\"\xFF\"]", resume));
    ROW(call, "tools (no misuse)", with_tools(t, "[{\"type\":\"function\"}]", resume), ANY(KVRT_OK));
  }
  // A fork reads `wake` only, and struct_size.
  kvrt_session* s = NULL;
  kvrt_session_options o = {.struct_size = 2};
  BAD("session_fork", "struct_size 2", kvrt_session_fork(t->session, &o, &s, ERR));
  o = (kvrt_session_options){
      .struct_size = sizeof o, .no_prefix_cache = 9, .domain = kBadUtf8, .domain_size = 4, .tools = "{", .tools_size = 1};
  ROW("session_fork", "options that it does not read (no misuse)", kvrt_session_fork(t->session, &o, &s, ERR), ANY(KVRT_OK));
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  host_tokens(&t);
  conversations(&t);
  tools(&t);
  stage_close(&t);
  return finish();
}
