// A text that begins with a BOS where the session has one already: the log says so. The tiny model asks for its BOS here, in a copy.
#include "support.h"

static size_t warnings;

static void count_lines(void* user, int32_t level, const char* text, size_t size) {
  (void)user, (void)level;
  const char* at = memmem(text, size, "two, expected one", 17);
  warnings += at != NULL;
}

// The model with add_bos_token set.
static void copy_with_bos(const char* from, const char* to) {
  static const char kKey[] = "tokenizer.ggml.add_bos_token";
  FILE* f = fopen(from, "rb");
  REQUIRE(f != NULL, "%s: %s", from, strerror(errno));
  static char bytes[4 << 20];
  const size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  char* key = memmem(bytes, size, kKey, sizeof kKey - 1);
  REQUIRE(size < sizeof bytes && key != NULL, "%s has no %s", from, kKey);
  key[sizeof kKey - 1 + 4] = 1;  // behind the type
  f = fopen(to, "wb");
  REQUIRE(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s: %s", to, strerror(errno));
}

static void append(kvrt_session* s, const char* text, uint32_t flags, size_t said, const char* what) {
  warnings = 0;
  MUST(kvrt_session_append_text(s, text, strlen(text), flags, NULL));
  EXPECT(warnings == said, "%s: %zu warnings, expected %zu", what, warnings, said);
}

int main(void) {
  char dir[kPathMax], tiny[kPathMax], path[kPathMax + 16];
  make_dir(dir);
  tiny_path(tiny, 1);
  snprintf(path, sizeof path, "%s/bos.gguf", dir);
  copy_with_bos(tiny, path);
  const kvrt_runtime_options o = {.struct_size = sizeof o, .threads = 1, .log_level = KVRT_LOG_WARN, .log = count_lines};
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  char bos[64], end[64], text[160];
  size_t bos_size = 0, end_size = 0;
  const int32_t ids[] = {1, 2};
  MUST(kvrt_model_detokenize(model, ids, 1, KVRT_TEXT_SPECIAL, bos, sizeof bos - 1, &bos_size, NULL));
  MUST(kvrt_model_detokenize(model, ids + 1, 1, KVRT_TEXT_SPECIAL, end, sizeof end - 1, &end_size, NULL));
  bos[bos_size] = end[end_size] = 0;
  snprintf(text, sizeof text, "%sHello", bos);
  kvrt_session* s = open_session(model, NULL, 1);
  append(s, text, KVRT_TEXT_SPECIAL, 1, "the first text");
  append(s, "Hello", KVRT_TEXT_SPECIAL, 0, "a text without a BOS");
  append(s, text, KVRT_TEXT_SPECIAL, 1, "a later text");
  append(s, text, 0, 0, "the spelling as text");
  MUST(kvrt_session_append(s, ids + 1, 1, NULL));
  append(s, text, KVRT_TEXT_SPECIAL, 0, "a turn after an end");
  kvrt_session_close(s);
  kvrt_model_release(model);
  // A model that does not ask for one gets the text's alone.
  model = open_model(rt, tiny, 0, 0, 0);
  s = open_session(model, NULL, 1);
  append(s, text, KVRT_TEXT_SPECIAL, 0, "the only BOS");
  append(s, text, KVRT_TEXT_SPECIAL, 1, "another one");
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
