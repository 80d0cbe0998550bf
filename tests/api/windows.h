// Tiny models with a longer context, and what an uninterrupted run of them gives at each position.
#pragma once

#include "chat.h"

enum { kReplay = 1024, kBlock = 16, kTokens = 2000, kContext = 2200, kMark = 600 };

struct stage {
  kvrt_runtime* rt;
  kvrt_model* model;
  char path[kPathMax], dir[kPathMax];
  uint64_t window;  // the widest
  uint32_t shared;  // layers without KV of their own
  int recurrent;    // the last token always runs, and going back may compute kReplay tokens again
  int32_t tokens[kTokens];
  uint64_t want[kTokens];  // digests of one uninterrupted run
  size_t step;
};

// A copy of a tiny model with a longer context.
static inline void widen(const char* name, const char* architecture, const char* to) {
  static char bytes[4 << 20];
  char from[kPathMax], key[64];
  snprintf(from, sizeof from, "%s/%s.gguf", tiny_dir(), name);
  FILE* f = fopen(from, "rb");
  REQUIRE(f != NULL, "no %s", from);
  const size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  REQUIRE(size != 0 && size < sizeof bytes, "%s has %zu bytes", from, size);
  const size_t length = (size_t)snprintf(key, sizeof key, "%s.context_length", architecture);
  char* at = (char*)memmem(bytes, size, key, length);
  REQUIRE(at != NULL, "%s has no %s", from, key);
  const uint32_t context = kContext;
  memcpy(at + length + 4, &context, sizeof context);  // after the type
  f = fopen(to, "wb");
  REQUIRE(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s cannot be written", to);
}

static inline uint64_t last(const struct stage* t) { return t->recurrent ? 1 : 0; }

static inline void open_pool(struct stage* t) { t->model = open_model(t->rt, t->path, 0, kBlock, 0); }

static inline void empty_pool(struct stage* t) {
  kvrt_model_release(t->model);
  open_pool(t);
}

static inline int32_t each_digest(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_LOGITS && e->position < kTokens) ((uint64_t*)user)[e->position] = hash_logits(e);
  return 0;
}

static inline kvrt_report compute(kvrt_session* s) {
  kvrt_report r = {.struct_size = sizeof r};
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, &r, NULL));
  return r;
}

static inline kvrt_session* prompt(struct stage* t, kvrt_store* store, size_t count) {
  kvrt_session* s = open_session(t->model, store, 0);
  MUST(kvrt_session_append(s, t->tokens, count, NULL));
  return s;
}

static inline void without_interruption(struct stage* t) {
  kvrt_session* s = open_session(t->model, NULL, 1);
  MUST(kvrt_session_append(s, t->tokens, kTokens, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_ALL, each_digest, t->want, NULL, NULL));
  kvrt_session_close(s);
}

// A model of that name; its store is at t->dir.
static inline void stage_open(struct stage* t, const char* name, const char* architecture) {
  make_dir(t->dir);
  snprintf(t->path, sizeof t->path, "%.400s/model.gguf", t->dir);
  widen(name, architecture, t->path);
  strcat(t->dir, "/store");
  open_pool(t);
  prompt_tokens(t->tokens, kTokens, 7, model_props(t->model).vocab_size);
  t->recurrent = is_recurrent(t->model);
  without_interruption(t);
}

static inline void stage_close(struct stage* t) {
  expect_no_leaks(t->model);
  kvrt_model_release(t->model);
  *strrchr(t->dir, '/') = 0;
  remove_tree(t->dir);
}
