// The table of misuse: each row is a call, its mistake, the status that the header promises and the one that came.
#pragma once

#include "support.h"

// The objects that the calls work on, all sound, and outputs full of a canary that a failed call must leave alone.
struct stage {
  char dir[kPathMax], tiny[kPathMax];
  kvrt_runtime* runtime;
  kvrt_model* model;
  kvrt_store* store;
  kvrt_session* session;  // 20 tokens, with the store
  uint32_t vocab, context;
};

static inline void stage_open(struct stage* s) {
  make_dir(s->dir);
  tiny_path(s->tiny, 1);
  s->runtime = open_runtime(1, 0);
  s->model = open_model(s->runtime, s->tiny, 0, 0, 0);
  s->vocab = model_props(s->model).vocab_size;
  s->context = model_props(s->model).context_length;
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/store", s->dir);
  s->store = open_store(s->runtime, path);
  s->session = open_session(s->model, s->store, 0);
  int32_t tokens[20];
  prompt_tokens(tokens, 20, 5, s->vocab);
  MUST(kvrt_session_append(s->session, tokens, 20, NULL));
}

static inline void stage_close(struct stage* s) {
  kvrt_session_close(s->session);
  kvrt_store_release(s->store);
  kvrt_model_release(s->model);
  kvrt_runtime_release(s->runtime);
  remove_tree(s->dir);
}

// The weights of the last eighth of the file become NaN (all bits set is NaN in F32 and F16, and in the scales of the quantized types).
static inline kvrt_model* nan_model(struct stage* t) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/nan.gguf", t->dir);
  FILE* in = fopen(t->tiny, "rb");
  FILE* out = fopen(path, "wb");
  REQUIRE(in && out, "%s", strerror(errno));
  fseek(in, 0, SEEK_END);
  const long size = ftell(in);
  rewind(in);
  for (long i = 0; i < size; ++i) {
    const int c = fgetc(in);
    fputc(i >= size - size / 8 ? 0xFF : c, out);
  }
  fclose(in);
  fclose(out);
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(t->runtime, path, strlen(path), NULL, NULL, NULL, &model, NULL));
  return model;
}

static const char kBadUtf8[] __attribute__((unused)) = "ab\xC3(";

#define ANY(status) (1u << (status))

// The `err` that a row's call may pass: the row then compares it with the thread's last error.
static kvrt_error row_error;
static inline kvrt_error* fresh_row_error(void) {
  KVRT_INIT(&row_error);
  return &row_error;
}
#define ERR fresh_row_error()

// `want` is a set: ANY(KVRT_INVALID) | ANY(KVRT_LIMIT) where the header leaves a choice.
static inline void table_row(int line, const char* call, const char* misuse, kvrt_status got, uint32_t want) {
  char expected[128] = "";
  for (kvrt_status s = 0; s <= KVRT_INTERNAL; ++s) {
    if (want & ANY(s)) strcat(strcat(expected, *expected ? " or " : ""), kvrt_status_name(s));
  }
  const int ok = got >= 0 && got <= KVRT_INTERNAL && (want & ANY(got)) != 0;
  printf("%-8s %-28s %-60s expected %-22s got %s\n", ok ? "ok" : "WRONG", call, misuse, expected, kvrt_status_name(got));
  EXPECT(ok, "line %d: %s: %s (%s)", line, call, misuse, got ? last_message() : "");
  if (got != KVRT_OK) {
    kvrt_error e;
    KVRT_INIT(&e);
    EXPECT(kvrt_last_error(&e) == KVRT_OK && e.status == got && e.message[0] != 0, "line %d: %s: last_error has status %d, message \"%s\"",
           line, call, (int)e.status, e.message);
    EXPECT(!row_error.struct_size || memcmp(&row_error, &e, sizeof e) == 0, "line %d: %s: err has status %d, message \"%s\"", line, call,
           (int)row_error.status, row_error.message);
  } else {
    EXPECT(!row_error.struct_size || row_error.status == KVRT_OK, "line %d: %s succeeded and wrote err", line, call);
  }
  row_error.struct_size = 0;
}

#define ROW(name, misuse, call, want) table_row(__LINE__, name, misuse, (call), (want))
#define BAD(name, misuse, call) ROW(name, misuse, call, ANY(KVRT_INVALID))

static inline void canary(void* p, size_t size) { memset(p, 0xA5, size); }

static inline int has_canary(const void* p, size_t size) {
  const unsigned char* bytes = (const unsigned char*)p;
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != 0xA5) return 0;
  }
  return 1;
}
