// The calls whose walks through the code walk.py traces, with a tiny model. walk_begin and walk_end are its breakpoints: what is entered between
// them is one walk. On kvrt.h alone; it links the static library, whose functions have symbols.
#include "../api/chat.h"

__attribute__((noinline)) void walk_begin(const char* name) { __asm__ volatile("" : : "r"(name) : "memory"); }
__attribute__((noinline)) void walk_end(void) { __asm__ volatile("" : : : "memory"); }

enum { kPrompt = 3 * 32 + 8, kNames = 4 };  // three whole blocks, and some

static const char kTemplate[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt "
    "%}<|im_start|>assistant\n<think>\n"
    "{% endif %}";
static const char kSchema[] =
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"],\"additionalProperties\":false}";

static kvrt_generate_options greedy(uint32_t max_tokens) {
  return (kvrt_generate_options){.struct_size = sizeof(kvrt_generate_options), .max_tokens = max_tokens, .ignore_eos = 1};
}

static void append(kvrt_session* s, size_t count, uint64_t seed) {
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, count, seed, 250);
  MUST(kvrt_session_append(s, tokens, count, NULL));
}

static void until_done(kvrt_session* s) {
  while (next_event(s, -1).type != KVRT_EVENT_DONE) {
  }
}

// A prompt's only step, then single decodes: kvrt_session_next computes when it has no event.
static void steps(kvrt_model* model) {
  kvrt_session* s = open_session(model, NULL, 0);
  kvrt_generate_options o = greedy(4);
  append(s, kPrompt, 1);
  MUST(kvrt_session_begin(s, &o, NULL));
  walk_begin("prompt");
  kvrt_event e = next_event(s, -1);
  walk_end();
  while (e.type != KVRT_EVENT_TOKEN) e = next_event(s, -1);
  walk_begin("decode");
  e = next_event(s, -1);
  walk_end();
  until_done(s);

  kvrt_session* other = open_session(model, NULL, 0);
  append(other, 8, 2);
  o = greedy(2);
  MUST(kvrt_session_begin(s, &o, NULL));
  MUST(kvrt_session_begin(other, &o, NULL));
  walk_begin("two sessions");
  e = next_event(s, -1);
  walk_end();
  kvrt_session_close(other);
  kvrt_session_close(s);
}

static void append_to_token(kvrt_model* model, kvrt_store* store) {
  kvrt_session* s = open_session(model, store, 0);
  const kvrt_generate_options o = greedy(1);
  walk_begin("append to token");
  append(s, kPrompt, 3);
  MUST(kvrt_session_begin(s, &o, NULL));
  until_done(s);
  walk_end();
  kvrt_session_close(s);
}

static void save_and_resume(kvrt_runtime* rt, const char* path, const char* dir) {
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  append_to_token(model, store);
  kvrt_session* s = open_session(model, store, 0);
  const kvrt_generate_options o = greedy(1);
  append(s, 3 * 32, 4);
  MUST(kvrt_session_begin(s, &o, NULL));
  until_done(s);
  walk_begin("block to disk");
  MUST(kvrt_session_checkpoint(s, "walk", kNames, NULL, NULL, NULL));
  walk_end();
  kvrt_session_close(s);
  kvrt_model_release(model);

  model = open_model(rt, path, 0, 0, 0);  // with a pool of its own: memory has none of the blocks
  kvrt_report report;
  KVRT_INIT(&report);
  s = NULL;
  walk_begin("disk to block");
  MUST(kvrt_session_resume(model, store, "walk", kNames, NULL, NULL, NULL, &report, &s, NULL));
  walk_end();
  EXPECT(report.reused_disk >= 96, "%" PRIu64 " tokens from the disk", report.reused_disk);
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_store_release(store);
}

static void message_to_text(kvrt_runtime* rt, const char* path, const char* dir) {
  char chat[kPathMax];
  snprintf(chat, sizeof chat, "%s/chat.gguf", dir);
  with_template(path, chat, kTemplate);
  kvrt_model* model = open_model(rt, chat, 0, 0, 0);
  kvrt_session* s = open_session(model, NULL, 0);
  kvrt_generate_options o = greedy(64);
  o.ignore_eos = 0, o.reply = KVRT_REPLY_AUTO, o.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA, o.grammar = kSchema,
  o.grammar_size = sizeof kSchema - 1;
  walk_begin("messages to tokens");
  say(s, "user", "Is it so?", NULL);
  MUST(kvrt_session_begin(s, &o, NULL));
  until_done(s);
  walk_end();
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  setenv("KVRT_TEST_STEP_MS", "60000", 1);  // no step is cut short by a slow machine
  char tiny[kPathMax], chat[kPathMax], dir[kPathMax], store[kPathMax + 8];
  make_dir(dir);
  snprintf(store, sizeof store, "%s/store", dir);
  tiny_path(tiny, 0);
  tiny_path(chat, 1);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  steps(model);
  kvrt_model_release(model);
  save_and_resume(rt, tiny, store);
  message_to_text(rt, chat, dir);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
