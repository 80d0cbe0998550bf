// A store for posterity, and the sessions that a later kvrt must find in it. On kvrt.h alone, so that it builds with any release.
//
//   store_golden make MODEL DIR   writes a store to DIR and prints its sessions as JSON, from the sessions themselves: none of them
//                                 was ever suspended or resumed
//   store_golden read MODEL DIR   opens the store, resumes every session, goes on with it, and prints the same of the result
#include "../api/chat.h"

enum { kTokensMax = 512, kStepsMax = 8, kLiveMax = 8 };

struct live {
  const char *domain, *name;  // as it is in the end
  kvrt_session* s;
  uint64_t kv_tokens;  // when it was saved
};

// One session's record: its state when it was saved, then the tokens that it goes on with.
static void print_session(const kvrt_store_entry* entry, kvrt_session* s, uint64_t reused_disk, uint64_t saved_as) {
  printf("  {\"domain\": \"%s\", \"name\": \"%s\", \"id\": \"%s\", \"generation\": %" PRIu64 ", \"saved_as\": %" PRIu64 ",\n",
         entry->domain, entry->name, entry->id, entry->revision, saved_as);
  printf("   \"pinned\": %u, \"created_unix_ms\": %" PRId64 ", \"saved_unix_ms\": %" PRId64 ", \"expires_unix_ms\": %" PRId64
         ", \"reused_disk\": %" PRIu64 ",\n",
         entry->pinned, entry->created_unix_ms, entry->saved_unix_ms, entry->expires_unix_ms, reused_disk);
  int32_t tokens[kTokensMax];
  const size_t count = session_tokens(s, tokens, kTokensMax);
  printf("   \"tokens\": [");
  for (size_t i = 0; i < count; ++i) printf("%s%d", i ? ", " : "", (int)tokens[i]);
  static char messages[1 << 16];
  all_messages(s, messages, sizeof messages);
  printf("],\n   \"messages\": %s,\n", messages);
  const uint64_t said = session_props(s).messages;
  if (said) say(s, "user", "And then?", NULL);
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = kStepsMax, .ignore_eos = 1, .emit_logits = 1};
  static struct run run;
  memset(&run, 0, sizeof run);
  MUST(kvrt_session_generate(s, &o, run_callback, &run, NULL, NULL));
  printf("   \"next\": [");
  for (size_t i = 0; i < run.count; ++i) printf("%s[%d, \"%016" PRIx64 "\"]", i ? ", " : "", (int)run.token[i], run.digest[i]);
  printf("]}");
}

struct entries {
  kvrt_store_entry entry[kLiveMax];
  size_t count;
};

static int32_t take_entry(void* user, const kvrt_event* e) {
  struct entries* all = (struct entries*)user;
  if (e->type != KVRT_EVENT_ENTRY) return 0;
  REQUIRE(all->count < kLiveMax, "too many sessions");
  all->entry[all->count].struct_size = sizeof *all->entry;
  memcpy(&all->entry[all->count++], e->entry, e->entry->struct_size < sizeof *all->entry ? e->entry->struct_size : sizeof *all->entry);
  return 0;
}

static struct entries list(kvrt_store* store) {
  struct entries all;
  memset(&all, 0, sizeof all);
  MUST(kvrt_store_list(store, NULL, 0, take_entry, &all, NULL));
  return all;
}

static const char* numerics(kvrt_runtime* rt) {
  static kvrt_runtime_props props;
  KVRT_INIT(&props);
  MUST(kvrt_runtime_info(rt, &props, NULL));
  return props.numerics;
}

static kvrt_model* model_of(kvrt_runtime* rt, const char* path, const char* domain) {
  kvrt_model_options o = {.struct_size = sizeof o, .kv_format = *domain ? KVRT_KV_INT8 : KVRT_KV_F16};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

static kvrt_session* new_session(kvrt_model* model, kvrt_store* store, const char* domain) {
  kvrt_session_options o = {.struct_size = sizeof o, .store = store, .domain = domain, .domain_size = strlen(domain)};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  return s;
}

static void add(kvrt_session* s, size_t prompt, uint64_t seed, uint32_t generated) {
  int32_t tokens[128];
  prompt_tokens(tokens, prompt, seed, 304);
  MUST(kvrt_session_append(s, tokens, prompt, NULL));
  if (generated == 0) return;  // the prompt stays without KV
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = generated, .temperature = 0.9f, .seed = seed, .ignore_eos = 1};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
}

static void turn(kvrt_session* s, const char* text) {
  say(s, "user", text, NULL);
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 12};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
}

static void save(struct live* live, const char* name, uint32_t pin, uint64_t ttl_seconds) {
  const kvrt_save_options o = {.struct_size = sizeof o, .pin = pin, .ttl_seconds = ttl_seconds, .durability = KVRT_DURABILITY_KV};
  live->kv_tokens = session_props(live->s).kv_tokens;
  MUST(kvrt_session_suspend(live->s, name, strlen(name), &o, NULL, NULL));  // a checkpoint would leave the last block's KV out
}

static void make(kvrt_runtime* rt, const char* path, kvrt_store* store) {
  kvrt_model *f16 = model_of(rt, path, ""), *int8 = model_of(rt, path, "work");
  struct live plain = {"", "plain", new_session(f16, store, ""), 0}, fork = {"", "fork", NULL, 0};
  add(plain.s, 40, 1, 10);
  save(&plain, "plain", 0, 0);
  MUST(kvrt_session_fork(plain.s, NULL, &fork.s, NULL));
  add(fork.s, 10, 2, 5);
  add(fork.s, 7, 3, 0);
  save(&fork, "fork", 1, 0);
  add(plain.s, 20, 4, 6);
  save(&plain, "plain", 0, 0);
  struct live chat = {"", "chat", new_session(f16, store, ""), 0};
  turn(chat.s, "Who lives in the sea?");
  turn(chat.s, "And who on the shore?");
  save(&chat, "chat", 0, UINT64_C(3000000000));  // 95 years
  struct live after = {"", "after", new_session(f16, store, ""), 0};
  add(after.s, 20, 5, 4);
  save(&after, "before", 0, 0);
  MUST(kvrt_store_rename(store, "", 0, "before", 6, "after", 5, NULL));
  struct live longer = {"", "long", new_session(f16, store, ""), 0};  // than any window of the tiny models, several times
  for (uint64_t i = 0; i < 3; ++i) add(longer.s, 60, 20 + i, 10);
  save(&longer, "long", 0, 0);
  struct live work = {"work", "plain", new_session(int8, store, "work"), 0}, gone = {"", "gone", new_session(f16, store, ""), 0};
  add(work.s, 40, 1, 10);
  save(&work, "plain", 0, 0);
  add(gone.s, 10, 6, 3);
  save(&gone, "gone", 0, 0);
  add(gone.s, 5, 7, 3);
  save(&gone, "gone", 0, 0);
  MUST(kvrt_store_remove(store, "", 0, "gone", 4, NULL));
  struct live* all[] = {&plain, &fork, &chat, &after, &longer, &work};
  const struct entries entries = list(store);
  REQUIRE(entries.count == 6, "%zu sessions in the list", entries.count);
  printf("{\"numerics\": \"%s\", \"gone_saved_as\": 3, \"sessions\": [\n", numerics(rt));
  for (size_t i = 0; i < entries.count; ++i) {
    const kvrt_store_entry* e = &entries.entry[i];
    for (size_t k = 0; k < 6; ++k) {
      if (strcmp(all[k]->name, e->name) != 0 || strcmp(all[k]->domain, e->domain) != 0) continue;
      print_session(e, all[k]->s, all[k]->kv_tokens, e->revision + 1);
    }
    printf(i + 1 < entries.count ? ",\n" : "]}\n");
  }
  for (size_t k = 0; k < 6; ++k) kvrt_session_close(all[k]->s);
  kvrt_session_close(gone.s);
  kvrt_model_release(int8);
  kvrt_model_release(f16);
}

// Reads each session by a model of its own: nothing comes from memory.
static void read_session(kvrt_runtime* rt, const char* path, kvrt_store* store, const kvrt_store_entry* e) {
  kvrt_model* model = model_of(rt, path, e->domain);
  kvrt_session_options o = {.struct_size = sizeof o, .domain = e->domain, .domain_size = strlen(e->domain)};
  kvrt_session* s = NULL;
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_resume(model, store, e->name, strlen(e->name), &o, NULL, NULL, &report, &s, NULL));
  kvrt_save_report saved = {.struct_size = sizeof saved};
  MUST(kvrt_session_checkpoint(s, e->name, strlen(e->name), NULL, &saved, NULL));
  EXPECT(saved.chunks_written == 0, "%s: %" PRIu64 " chunks written that were there", e->name, saved.chunks_written);
  print_session(e, s, report.reused_disk, saved.revision);
  MUST(kvrt_session_suspend(s, e->name, strlen(e->name), NULL, NULL, NULL));  // with the tokens that came after
  kvrt_session_close(s);
  kvrt_model_release(model);
}

static void read_all(kvrt_runtime* rt, const char* path, kvrt_store* store) {
  MUST(kvrt_store_verify(store, NULL, NULL, NULL));
  const struct entries entries = list(store);
  kvrt_model* f16 = model_of(rt, path, "");
  EXPECT_STATUS(kvrt_session_resume(f16, store, "gone", 4, NULL, NULL, NULL, NULL, &(kvrt_session*){NULL}, NULL), KVRT_NOT_FOUND);
  kvrt_session* again = new_session(f16, store, "");
  add(again, 5, 8, 0);
  kvrt_save_report saved = {.struct_size = sizeof saved};
  MUST(kvrt_session_suspend(again, "gone", 4, NULL, &saved, NULL));
  kvrt_session_close(again);
  printf("{\"numerics\": \"%s\", \"gone_saved_as\": %" PRIu64 ", \"sessions\": [\n", numerics(rt), saved.revision);
  kvrt_model_release(f16);
  for (size_t i = 0; i < entries.count; ++i) {
    read_session(rt, path, store, &entries.entry[i]);
    printf(i + 1 < entries.count ? ",\n" : "]}\n");
  }
  MUST(kvrt_store_gc(store, NULL, NULL, NULL, NULL));
  MUST(kvrt_store_verify(store, NULL, NULL, NULL));
}

int main(int argc, char** argv) {
  if (argc != 4 || (strcmp(argv[1], "make") != 0 && strcmp(argv[1], "read") != 0)) {
    return fprintf(stderr, "usage: store_golden make|read MODEL DIR\n"), 2;
  }
  kvrt_runtime* rt = open_runtime(2, 0);
  kvrt_store* store = open_store(rt, argv[3]);
  (strcmp(argv[1], "make") == 0 ? make : read_all)(rt, argv[2], store);
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
  return atomic_load(&support_failures) != 0;
}
