// kvrt_store_show: it says the same as the session's own handle, without a model, and damage is a status.
#include <stdarg.h>

#include "support.h"

static char json[1 << 16], part[1 << 15];

static kvrt_status show(const kvrt_store* store, const char* domain, const char* name) {
  size_t needed = 0;
  memset(json, 0, sizeof json);
  return kvrt_store_show(store, domain, strlen(domain), name, strlen(name), json, sizeof json - 1, &needed, NULL);
}

static void expect_part(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void expect_part(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(part, sizeof part, format, arguments);
  va_end(arguments);
  EXPECT(strstr(json, part) != NULL, "no %s in %s", part, json);
}

static void expect_tokens(const kvrt_session* s) {
  static int32_t tokens[1024];
  const size_t count = session_tokens(s, tokens, 1024);
  size_t at = (size_t)snprintf(part, sizeof part, "\"tokens\": [");
  for (size_t i = 0; i < count; ++i) at += (size_t)snprintf(part + at, sizeof part - at, i ? ", %d" : "%d", tokens[i]);
  snprintf(part + at, sizeof part - at, "]");
  EXPECT(strstr(json, part) != NULL, "no %s in %s", part, json);
}

static void expect_messages(const kvrt_session* s, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    kvrt_message_props p = {.struct_size = sizeof p};
    char message[512] = "";
    size_t needed = 0;
    MUST(kvrt_session_message(s, i, &p, message, sizeof message - 1, &needed, NULL));
    expect_part("%s", message);
    expect_part("{\"begin\": %" PRIu64 ", \"end\": %" PRIu64 ", \"generated\": %s}", p.begin, p.end, p.generated ? "true" : "false");
  }
}

// The buffer's rules: `needed` on success and on TOO_SMALL, and nothing else then.
static void buffer_rules(const kvrt_store* store) {
  size_t needed = 0, again = 0;
  EXPECT_STATUS(kvrt_store_show(store, "d", 1, "ann", 3, NULL, 0, &needed, NULL), KVRT_TOO_SMALL);
  EXPECT(needed == strlen(json), "%zu needed, %zu written", needed, strlen(json));
  memset(part, 0x5a, sizeof part);
  EXPECT_STATUS(kvrt_store_show(store, "d", 1, "ann", 3, part, needed - 1, &again, NULL), KVRT_TOO_SMALL);
  EXPECT(part[0] == 0x5a && part[needed - 1] == 0x5a && again == needed, "a buffer that is too small was written");
  EXPECT_STATUS(kvrt_store_show(store, "d", 1, "ann", 3, part, needed, &again, NULL), KVRT_OK);
  EXPECT(memcmp(part, json, needed) == 0 && part[needed] == 0x5a, "an exact buffer");
}

// Flips one bit of every 331st byte of the catalog: the session is then shown as it was saved, or the status says that it is damaged.
static void damaged(kvrt_runtime* rt, const char* dir) {
  static char path[kPathMax + 16], whole[sizeof json], catalog[1 << 20];
  snprintf(path, sizeof path, "%s/catalog.db", dir);
  kvrt_store* store = open_store(rt, dir);
  MUST(show(store, "d", "ann"));
  memcpy(whole, json, sizeof json);
  const size_t said = (size_t)(strstr(whole, "\"chunks\"") - whole);  // the part about the chunks on the disk may be other
  kvrt_store_release(store);
  FILE* file = fopen(path, "r+b");
  REQUIRE(file, "%s: %s", path, strerror(errno));
  const size_t size = fread(catalog, 1, sizeof catalog, file);
  REQUIRE(size > 4096 && size < sizeof catalog, "a catalog of %zu bytes", size);
  int refused = 0, shown = 0;
  for (size_t at = 100; at < size; at += 331) {
    fseek(file, (long)at, SEEK_SET), fputc(catalog[at] ^ 8, file), fflush(file);
    kvrt_store_options o = {.struct_size = sizeof o, .read_only = 1};
    store = NULL;
    kvrt_status s = kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL);
    if (!s) s = show(store, "d", "ann");
    EXPECT(s || strncmp(json, whole, said) == 0, "byte %zu: another session is shown: %s", at, json);
    EXPECT(!s || s == KVRT_CORRUPT || s == KVRT_NOT_FOUND || s == KVRT_INCOMPATIBLE, "byte %zu: %s", at, kvrt_status_name(s));
    s ? ++refused : ++shown;
    kvrt_store_release(store);
    fseek(file, (long)at, SEEK_SET), fputc(catalog[at], file), fflush(file);
  }
  fclose(file);
  EXPECT(refused > 0 && shown > 0, "%d refused, %d shown", refused, shown);
}

int main(void) {
  char dir[kPathMax], tiny[kPathMax];
  make_dir(dir);
  tiny_path(tiny, 1);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  const kvrt_session_options o = {.struct_size = sizeof o, .store = store, .domain = "d", .domain_size = 1};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  const char* question = "{\"role\":\"user\",\"content\":\"Who \\u001b[31m are you?\"}";
  MUST(kvrt_session_append_message(s, question, strlen(question), NULL, NULL));
  kvrt_generate_options g = {.struct_size = sizeof g, .max_tokens = 40, .ignore_eos = 1};
  MUST(kvrt_session_generate(s, &g, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_checkpoint(s, "ann", 3, NULL, NULL, NULL));
  kvrt_model_release(model);  // none is needed
  MUST(show(store, "d", "ann"));
  const kvrt_session_props p = session_props(s);
  REQUIRE(p.messages == 2 && p.revision == 1, "%" PRIu64 " messages", p.messages);
  expect_part("{\"name\": \"ann\", \"domain\": \"d\", \"id\": \"%s\", \"revision\": 1,", p.id);
  expect_tokens(s);
  expect_messages(s, 2);
  kvrt_store_entry e = {.struct_size = sizeof e};
  MUST(kvrt_store_stat(store, "d", 1, "ann", 3, &e, NULL));
  uint64_t bytes = 0, chunks = 0;
  for (const char* at = json; (at = strstr(at, "\"bytes\": ")) != NULL; ++chunks) bytes += strtoull(at += 9, NULL, 10);
  EXPECT(chunks == e.chunks && bytes == e.bytes, "%" PRIu64 " bytes in %" PRIu64 " chunks", bytes, chunks);
  buffer_rules(store);
  EXPECT_STATUS(show(store, "", "ann"), KVRT_NOT_FOUND);
  EXPECT_STATUS(show(store, "d", "bob"), KVRT_NOT_FOUND);
  kvrt_session_close(s);
  kvrt_store_release(store);
  damaged(rt, dir);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
