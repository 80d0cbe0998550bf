// Conversations of messages, and models with a template of the test's own.
#pragma once

#include "support.h"

enum { kChatMax = 8192 };

static inline void say(kvrt_session* s, const char* role, const char* content, kvrt_append_info* info) {
  char json[2048];
  const int n = snprintf(json, sizeof json, "{\"role\":\"%s\",\"content\":\"%s\"}", role, content);
  if (info) info->struct_size = sizeof *info;
  MUST(kvrt_session_append_message(s, json, (size_t)n, info, NULL));
}

// The tokens of the template over all messages (a JSON array), as a session should have them.
static inline size_t templated(kvrt_model* model, const char* messages, const char* tools, uint32_t no_prompt, int32_t* tokens,
                               size_t capacity) {
  static char text[4 * kChatMax];
  kvrt_template_options o;
  KVRT_INIT(&o);
  o.no_generation_prompt = no_prompt;
  o.tools = tools;
  o.tools_size = tools ? strlen(tools) : 0;
  size_t size = 0, count = 0;
  MUST(kvrt_model_apply_template(model, messages, strlen(messages), &o, text, sizeof text, &size, NULL));
  MUST(kvrt_model_tokenize(model, text, size, KVRT_TEXT_SPECIAL, tokens, capacity, &count, NULL));
  return count;
}

static inline void expect_tokens(kvrt_session* s, const int32_t* want, size_t count, const char* what) {
  int32_t got[kChatMax];
  const size_t n = session_tokens(s, got, kChatMax);
  EXPECT(n == count && memcmp(got, want, count * sizeof *got) == 0, "%s: %zu tokens, expected %zu", what, n, count);
}

static inline kvrt_message_props message_props(kvrt_session* s, uint64_t index) {
  kvrt_message_props p;
  KVRT_INIT(&p);
  char json[2048];
  size_t needed = 0;
  MUST(kvrt_session_message(s, index, &p, json, sizeof json, &needed, NULL));
  return p;
}

static inline void newest_message(kvrt_session* s, char* json, size_t capacity) {
  size_t size = 0;
  MUST(kvrt_session_message(s, session_props(s).messages - 1, NULL, json, capacity - 1, &size, NULL));
  json[size] = 0;
}

// The session's messages as a JSON array.
static inline void all_messages(kvrt_session* s, char* json, size_t capacity) {
  const uint64_t count = session_props(s).messages;
  size_t at = 0;
  json[at++] = '[';
  for (uint64_t i = 0; i < count; ++i) {
    if (i) json[at++] = ',';
    size_t needed = 0;
    MUST(kvrt_session_message(s, i, NULL, json + at, capacity - at - 2, &needed, NULL));
    at += needed;
  }
  memcpy(json + at, "]", 2);
}

// The model of `from` with another chat template. A comment that renders to nothing makes it longer by a multiple of the alignment of the
// tensors, which then lie as they did.
static inline void with_template(const char* from, const char* to, const char* source) {
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  REQUIRE(in && out, "%s to %s: %s", from, to, strerror(errno));
  static char bytes[1 << 20];
  const size_t size = fread(bytes, 1, sizeof bytes, in), shift = 4096;
  const char key[] = "tokenizer.chat_template";
  char* at = memmem(bytes, size, key, sizeof key - 1);
  REQUIRE(at != NULL && size < sizeof bytes, "%s has no template", from);
  at += sizeof key - 1 + 4;  // the key and the value's type
  uint64_t length = 0;
  memcpy(&length, at, 8);
  const uint64_t longer = length + shift;
  REQUIRE(strlen(source) + 4 <= longer, "the template is too long");
  fwrite(bytes, 1, (size_t)(at - bytes), out);
  fwrite(&longer, 1, 8, out);
  fputs(source, out);
  fputs("{#", out);
  for (uint64_t i = strlen(source) + 4; i < longer; ++i) fputc('.', out);
  fputs("#}", out);
  fwrite(at + 8 + length, 1, size - (size_t)(at + 8 + length - bytes), out);
  fclose(in);
  fclose(out);
}

// The same as DIR/NAME.gguf, opened; `path` gets where it is.
static inline kvrt_model* open_with_template(kvrt_runtime* runtime, const char* from, const char* dir, const char* name, const char* source,
                                             char path[kPathMax + 32]) {
  snprintf(path, kPathMax + 32, "%s/%s.gguf", dir, name);
  with_template(from, path, source);
  return open_model(runtime, path, 0, 0, 0);
}
