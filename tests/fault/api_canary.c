// Users' words to a model stay in the conversation: a canary in prompts, messages, tools and documents is in no error, no log line, no
// file name, and in no file but the catalog; for each call and each way it fails. api_canary [mutations] [seed].
#include "../api/support.h"

#define BIRD "QZXJ7W"  // found in any quotation of three letters more than the half
#define CANARY BIRD " " BIRD " " BIRD " " BIRD

static uint64_t messages_seen, lines_seen, events_seen, texts_with_canary;
static atomic_ulong log_lines;
static char template_text[64 << 10];

static int has_bird(const char* text, size_t size) {
  for (size_t i = 0; i + 4 <= size; ++i) {
    if (memcmp(text + i, "QZXJ", 4) == 0 || memcmp(text + i, "XJ7W", 4) == 0) return 1;
  }
  return 0;
}

static void on_log(void* user, int32_t level, const char* text, size_t size) {
  (void)user, (void)level;
  atomic_fetch_add(&log_lines, 1);
  EXPECT(!has_bird(text, size), "in the log: %.*s", (int)size, text);
}

// Passes a call's status on; the message must say nothing that it should not.
static kvrt_status quiet(kvrt_status status) {
  if (status == KVRT_OK) return status;
  ++messages_seen;
  EXPECT(!has_bird(last_message(), strlen(last_message())), "in an error: %s", last_message());
  return status;
}

static int32_t on_event(void* user, const kvrt_event* e) {
  (void)user;
  ++events_seen;
  if (e->type == KVRT_EVENT_FAULT) EXPECT(!has_bird(e->text, e->text_size), "in a fault: %.*s", (int)e->text_size, e->text);
  return 0;
}

// ---- the texts ---------------------------------------------------------------------------------------------------------------------

static const char kMessage[] = "{\"role\": \"user\", \"content\": \"" CANARY "\", \"name\": \"" CANARY "\"}";
static const char kMessages[] =
    "[{\"role\": \"system\", \"content\": \"" CANARY "\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"" CANARY
    "\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"" BIRD
    "\", \"function\": {\"name\": \"f\", \"arguments\": {\"" BIRD "\": \"" CANARY "\"}}}]}, {\"role\": \"tool\", \"content\": \"" CANARY
    "\"}]";
static const char kTools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"" CANARY
    "\", \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"description\": \"" CANARY "\"}}}}}]";
static const char kDocuments[] = "[{\"title\": \"" CANARY "\", \"text\": \"" CANARY "\"}]";
static const char kVariables[] = "{\"custom\": \"" CANARY "\"}";

struct text {
  char bytes[4096];
  size_t size;
};

static struct text text_of(const char* s) {
  struct text t = {.size = strlen(s)};
  memcpy(t.bytes, s, t.size);
  return t;
}

// A byte changed, taken out or doubled, or the end cut off. Roles and names of members stay: they are no secret.
static void mutate(struct text* t, uint64_t* random) {
  static const char kPieces[] = "{}[]\",:0-9eE\\ntfu\xC3\xFF\x01 ";
  const size_t at = next_random(random) % t->size;
  switch (next_random(random) % 4) {
    case 0:
      t->bytes[at] = kPieces[next_random(random) % (sizeof kPieces - 1)];
      break;
    case 1:
      memmove(t->bytes + at, t->bytes + at + 1, --t->size - at);
      break;
    case 2:
      memmove(t->bytes + at + 1, t->bytes + at, t->size++ - at);
      break;
    default:
      t->size = at;
      break;
  }
  if (t->size == 0) t->bytes[t->size++] = '{';
}

static struct text mutated(const char* s, uint64_t* random) {
  struct text t = text_of(s);
  for (uint64_t n = next_random(random) % 3; n > 0; --n) mutate(&t, random);
  return t;
}

// ---- calls ---------------------------------------------------------------------------------------------------------------------------

static void apply(kvrt_model* model, const char* source, size_t source_size, uint64_t* random) {
  const struct text messages = mutated(kMessages, random), tools = mutated(kTools, random), documents = mutated(kDocuments, random),
                    variables = mutated(kVariables, random);
  const kvrt_template_options o = {.struct_size = sizeof o,
                                   .source = source,
                                   .source_size = source_size,
                                   .tools = tools.bytes,
                                   .tools_size = tools.size,
                                   .documents = documents.bytes,
                                   .documents_size = documents.size,
                                   .variables = variables.bytes,
                                   .variables_size = variables.size};
  static char text[64 << 10];
  size_t needed = 0;
  if (quiet(kvrt_model_apply_template(model, messages.bytes, messages.size, next_random(random) % 2 ? &o : NULL, text, sizeof text, &needed,
                                      NULL)) == KVRT_OK) {
    texts_with_canary += (uint64_t)has_bird(text, needed);
  }
}

// Every template that real models came with.
static void templates(kvrt_model* model, uint64_t rounds, uint64_t* random) {
  DIR* dir = opendir(KVRT_TINY_DIR "/../templates");
  REQUIRE(dir != NULL, "no templates");
  size_t count = 0;
  for (struct dirent* e; (e = readdir(dir)) != NULL;) {
    char path[kPathMax + 256];
    snprintf(path, sizeof path, KVRT_TINY_DIR "/../templates/%s", e->d_name);
    FILE* f = strstr(e->d_name, ".jinja") ? fopen(path, "rb") : NULL;
    if (f == NULL) continue;
    const size_t size = fread(template_text, 1, sizeof template_text, f);
    fclose(f);
    ++count;
    for (uint64_t i = 0; i < rounds; ++i) apply(model, template_text, size, random);
  }
  closedir(dir);
  EXPECT(count > 5, "%zu templates", count);
}

static void text_calls(kvrt_model* model) {
  int32_t tokens[512];
  char text[2048];
  size_t needed = 0;
  quiet(kvrt_model_tokenize(model, CANARY "\xC3(", strlen(CANARY "\xC3("), 0, tokens, 512, &needed, NULL));
  quiet(kvrt_model_tokenize(model, CANARY, strlen(CANARY), 0, tokens, 1, &needed, NULL));
  quiet(kvrt_model_tokenize(model, CANARY, strlen(CANARY), ~0u, tokens, 512, &needed, NULL));
  MUST(kvrt_model_tokenize(model, CANARY, strlen(CANARY), 0, tokens, 512, &needed, NULL));
  const size_t count = needed;
  quiet(kvrt_model_detokenize(model, tokens, count, 0, text, 1, &needed, NULL));
  tokens[count] = INT32_MAX;
  quiet(kvrt_model_detokenize(model, tokens, count + 1, 0, text, sizeof text, &needed, NULL));
}

static void generation_calls(kvrt_session* s) {
  static const char kBnf[] = "root ::= \"" CANARY "\" | undefined";
  static const char kSchema[] = "{\"type\": \"object\", \"description\": \"" CANARY "\", \"properties\": {\"a\": {\"const\": \"" CANARY
                                "\"}, \"b\": {\"enum\": [\"" CANARY "\"], \"pattern\": \"(" CANARY "\"}}}";
  char stop[600];
  memset(stop, 'x', sizeof stop);
  memcpy(stop, CANARY, strlen(CANARY));
  stop[sizeof stop - 1] = 0;
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 2, .stop_strings = stop, .stop_strings_size = sizeof stop};
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  o.stop_strings = CANARY "\xFF";
  o.stop_strings_size = sizeof CANARY "\xFF";
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  o.stop_strings = CANARY;
  o.stop_strings_size = sizeof CANARY;
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  o.grammar_kind = KVRT_GRAMMAR_GBNF;
  o.grammar = kBnf;
  o.grammar_size = strlen(kBnf);
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  o.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA;
  o.grammar = kSchema;
  o.grammar_size = strlen(kSchema);
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  o = (kvrt_generate_options){.struct_size = sizeof o, .max_tokens = 1, .temperature = -1};
  quiet(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
}

// A long conversation with every kind of mistake in it.
static void session_calls(kvrt_model* model, kvrt_store* store, uint64_t rounds, uint64_t* random) {
  const kvrt_session_options good = {.struct_size = sizeof good,
                                     .store = store,
                                     .tools = kTools,
                                     .tools_size = strlen(kTools),
                                     .documents = kDocuments,
                                     .documents_size = strlen(kDocuments),
                                     .variables = kVariables,
                                     .variables_size = strlen(kVariables)};
  kvrt_session *s = NULL, *other = NULL;
  MUST(kvrt_session_open(model, &good, &s, NULL));
  for (uint64_t i = 0; i < rounds; ++i) {
    const struct text tools = mutated(kTools, random), message = mutated(kMessage, random), all = mutated(kMessages, random);
    kvrt_session_options o = good;
    o.tools = tools.bytes;
    o.tools_size = tools.size;
    if (quiet(kvrt_session_open(model, &o, &other, NULL)) == KVRT_OK) kvrt_session_close(other);
    quiet(kvrt_session_append_message(s, message.bytes, message.size, NULL, NULL));
    quiet(kvrt_session_set_messages(s, all.bytes, all.size, NULL, NULL));
    quiet(kvrt_session_append_text(s, message.bytes, message.size, i % 2 ? KVRT_TEXT_SPECIAL : 0, NULL));
    if (i % 16 == 0) generation_calls(s);
    if (session_props(s).tokens > 400 || session_props(s).state == KVRT_STATE_FAILED) {
      kvrt_session_close(s);
      MUST(kvrt_session_open(model, &good, &s, NULL));
    }
  }
  MUST(kvrt_session_truncate(s, 0, NULL));
  static char flood[256 << 10];
  for (size_t i = 0; i + sizeof CANARY < sizeof flood; i += sizeof CANARY) memcpy(flood + i, CANARY " ", sizeof CANARY);
  EXPECT(quiet(kvrt_session_append_text(s, flood, sizeof flood - sizeof CANARY, 0, NULL)) == KVRT_LIMIT, "a text longer than the context");
  quiet(kvrt_session_erase(s, 5, 3, NULL));
  quiet(kvrt_session_truncate(s, 1u << 30, NULL));
  kvrt_session_close(s);
}

// ---- the store -------------------------------------------------------------------------------------------------------------------------

static int check_file(const char* path, const struct stat* st, int type, struct FTW* f) {
  (void)type;
  EXPECT(!has_bird(path + f->base, strlen(path + f->base)), "a file's name: %s", path);
  FILE* file = S_ISREG(st->st_mode) ? fopen(path, "rb") : NULL;
  if (file == NULL) return 0;
  char* bytes = malloc((size_t)st->st_size + 1);
  REQUIRE(bytes != NULL, "no memory");
  const size_t size = fread(bytes, 1, (size_t)st->st_size, file);
  const int found = has_bird(bytes, size), catalog = strncmp(path + f->base, "catalog.db", 10) == 0;
  EXPECT(catalog || !found, "in the file %s", path);
  lines_seen += (uint64_t)(catalog && found);
  free(bytes);
  fclose(file);
  return 0;
}

static void damage(const char* path, const char* name, long at) {
  char command[3 * kPathMax];
  snprintf(command, sizeof command,
           "f=$(find '%s' -name '%s' | head -1) && printf damage | dd of=\"$f\" bs=1 seek=%ld conv=notrunc status=none", path, name, at);
  REQUIRE(system(command) == 0, "%s", command);
}

static void store_calls(kvrt_runtime* rt, kvrt_model* model, const char* path) {
  kvrt_store* store = open_store(rt, path);
  const kvrt_session_options o = {.struct_size = sizeof o, .store = store, .tools = kTools, .tools_size = strlen(kTools)};
  kvrt_session *s = NULL, *other = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  MUST(kvrt_session_append_message(s, kMessage, strlen(kMessage), NULL, NULL));
  const kvrt_generate_options generate = {.struct_size = sizeof generate, .max_tokens = 3};
  MUST(kvrt_session_generate(s, &generate, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_checkpoint(s, "a", 1, NULL, NULL, NULL));
  char text[4096];
  size_t needed = 0;
  MUST(kvrt_session_text(s, 0, session_props(s).tokens, 0, text, sizeof text, &needed, NULL));
  texts_with_canary += (uint64_t)has_bird(text, needed);
  MUST(kvrt_session_open(model, &o, &other, NULL));
  MUST(kvrt_session_append_text(other, CANARY, strlen(CANARY), 0, NULL));
  EXPECT(quiet(kvrt_session_checkpoint(other, "a", 1, NULL, NULL, NULL)) == KVRT_CONFLICT, "a name that is taken");
  MUST(kvrt_session_checkpoint(other, "b", 1, NULL, NULL, NULL));
  kvrt_session_close(other);
  quiet(kvrt_store_rename(store, NULL, 0, "a", 1, "b", 1, NULL));
  quiet(kvrt_store_remove(store, NULL, 0, "none", 4, NULL));
  quiet(kvrt_session_resume(model, store, "none", 4, NULL, NULL, NULL, NULL, &other, NULL));
  nftw(path, check_file, 16, FTW_PHYS);
  kvrt_session_close(s);
  kvrt_store_release(store);
  nftw(path, check_file, 16, FTW_PHYS);
  EXPECT(lines_seen > 0, "not even the catalog has the canary: the search finds nothing");
  // Damage to a chunk, to the catalog's rows, to its header.
  kvrt_model* cold = open_model(rt, getenv("KVRT_CANARY_MODEL"), 0, 0, 0);
  damage(path, "*.seg", 200);
  store = open_store(rt, path);
  quiet(kvrt_store_verify(store, on_event, NULL, NULL));
  if (quiet(kvrt_session_resume(cold, store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL)) == KVRT_OK) {
    next_digest(s, NULL);
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  for (long at = 8192; at < 120000; at += 1500) {
    damage(path, "catalog.db", at);
    store = NULL;
    if (quiet(kvrt_store_open(rt, path, strlen(path), NULL, &store, NULL)) != KVRT_OK) break;
    quiet(kvrt_store_verify(store, on_event, NULL, NULL));
    for (int i = 0; i < 2; ++i) {
      if (quiet(kvrt_session_resume(cold, store, i ? "a" : "b", 1, NULL, NULL, NULL, NULL, &s, NULL)) == KVRT_OK) kvrt_session_close(s);
    }
    quiet(kvrt_store_list(store, NULL, 0, on_event, NULL, NULL));
    quiet(kvrt_store_gc(store, NULL, NULL, NULL, NULL));
    kvrt_store_release(store);
  }
  damage(path, "catalog.db", 0);
  EXPECT(quiet(kvrt_store_open(rt, path, strlen(path), NULL, &store, NULL)) != KVRT_OK, "a catalog without a header");
  kvrt_model_release(cold);
}

int main(int argc, char** argv) {
  const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 300;
  uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
  printf("seed %" PRIu64 "\n", random);
  char dir[kPathMax], path[kPathMax + 32], tiny[kPathMax];
  make_dir(dir);
  tiny_path(tiny, 1);
  setenv("KVRT_CANARY_MODEL", tiny, 1);
  const kvrt_runtime_options o = {.struct_size = sizeof o, .threads = 1, .log_level = KVRT_LOG_DEBUG, .log = on_log};
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  snprintf(path, sizeof path, "%s/first", dir);
  kvrt_store* store = open_store(rt, path);
  text_calls(model);
  for (uint64_t i = 0; i < rounds; ++i) apply(model, NULL, 0, &random);
  templates(model, rounds / 4, &random);
  session_calls(model, store, rounds, &random);
  kvrt_store_release(store);
  snprintf(path, sizeof path, "%s/second", dir);
  store_calls(rt, model, path);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  printf("%" PRIu64 " errors, %lu log lines, %" PRIu64 " texts and %" PRIu64 " catalog files with the canary\n", messages_seen,
         atomic_load(&log_lines), texts_with_canary, lines_seen);
  EXPECT(messages_seen > 2 * rounds && atomic_load(&log_lines) > 0 && texts_with_canary > 0, "too little was looked at");
  return finish();
}
