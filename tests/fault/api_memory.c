// Every allocation of a call on sessions and stores fails once, or it and all that follow: the call says NO_MEMORY or succeeds all the
// same, the live session goes on to the right logits, and the same call then succeeds on the same store.
//
//   api_memory [EVERY [ACT...]]     1: each allocation (the whole proof); N: every Nth
#include <dirent.h>

#include "want_of_memory.h"

struct world {
  char dir[kPathMax], path[kPathMax + 32];
  kvrt_runtime* rt;
  kvrt_model* model;
  kvrt_store* store;
  kvrt_session* live;  // never saved, 200 tokens
  uint64_t digest;     // of its last logits
  kvrt_session* session;
  kvrt_store* other;
  kvrt_runtime* cold_rt;  // of the acts with a model of their own, one with experts
  char cold_path[kPathMax];
  kvrt_model* cold;
  uint64_t cold_digest;  // of its logits behind the prompt
  int round, renamed, tokens_seen;
};

enum { kShared = 96, kGrown = 130, kCachedFiles = 4, kAllocationsMax = 20000, kDisk = 64 << 20, kUncounted = 32 << 10 };

static const char* name_of(const struct world* w, const char* kind) {
  static char name[64];
  snprintf(name, sizeof name, "%s%d", kind, w->round);
  return name;
}
static kvrt_status checkpoint(kvrt_session* s, const char* name) {
  return kvrt_session_checkpoint(s, name, strlen(name), NULL, NULL, NULL);
}
static kvrt_status remove_session(struct world* w, const char* name) {
  return kvrt_store_remove(w->store, NULL, 0, name, strlen(name), NULL);
}

// ---- the calls: prepare and after run with memory enough ----------------------------------------------------------------------------

struct act {
  const char* name;
  void (*prepare)(struct world*);
  kvrt_status (*call)(struct world*);
  void (*after)(struct world*);  // of the call that succeeded
};

static void fresh_path(struct world* w) { snprintf(w->path, sizeof w->path, "%s/new%d", w->dir, w->round); }
static kvrt_status open_other(struct world* w) { return kvrt_store_open(w->rt, w->path, strlen(w->path), NULL, &w->other, NULL); }
static void release_other(struct world* w) { kvrt_store_release(w->other); }
static void release_and_remove(struct world* w) {
  kvrt_store_release(w->other);
  remove_tree(w->path);
}
static void known_path(struct world* w) { snprintf(w->path, sizeof w->path, "%s/known", w->dir); }

static void resume_base(struct world* w) { w->session = resume_session(w->model, w->store, "base", NULL); }
static kvrt_status call_checkpoint(struct world* w) { return checkpoint(w->session, name_of(w, "c")); }
static kvrt_status call_suspend(struct world* w) {
  const char* name = name_of(w, "s");
  return kvrt_session_suspend(w->session, name, strlen(name), NULL, NULL, NULL);
}
static void close_session(struct world* w) { kvrt_session_close(w->session); }
static void close_and_remove_c(struct world* w) {
  kvrt_session_close(w->session);
  MUST(remove_session(w, name_of(w, "c")));
}
static void close_and_remove_s(struct world* w) {
  kvrt_session_close(w->session);
  MUST(remove_session(w, name_of(w, "s")));
}
static void grown_session(struct world* w) {
  int32_t tokens[40];
  resume_base(w);
  prompt_tokens(tokens, 40, 7000 + (uint64_t)w->round, model_props(w->model).vocab_size);
  MUST(checkpoint(w->session, name_of(w, "c")));
  MUST(kvrt_session_append(w->session, tokens, 40, NULL));
  MUST(kvrt_session_prefill(w->session, 0, NULL, NULL, NULL, NULL));
}
static kvrt_status call_resume(struct world* w) {
  return kvrt_session_resume(w->model, w->store, "base", 4, NULL, NULL, NULL, NULL, &w->session, NULL);
}
static void saved_one(struct world* w) {
  grown_session(w);
  MUST(checkpoint(w->session, name_of(w, "x")));
  kvrt_session_close(w->session);
  MUST(remove_session(w, name_of(w, "c")));
}
// A generation of a prompt that is partly in the store: each ends at its last token, and goes on from there.
static void new_prompt(struct world* w) {
  int32_t tokens[kGrown];
  prompt_tokens(tokens, kShared, 5, model_props(w->model).vocab_size);  // as "base" begins
  prompt_tokens(tokens + kShared, kGrown - kShared, 9000 + (uint64_t)w->round, model_props(w->model).vocab_size);
  w->session = open_session(w->model, w->store, 0);
  MUST(kvrt_session_append(w->session, tokens, kGrown, NULL));
}
static kvrt_status call_generate(struct world* w) {
  const kvrt_generate_options o = {.struct_size = sizeof o,
                                   .max_tokens = 6,
                                   .ignore_eos = 1,
                                   .top_logprobs = 2,
                                   .stop_strings = "zzz",
                                   .stop_strings_size = 4,
                                   .lookup = 1,
                                   .draft_tokens_min = 4,
                                   .draft_tokens_max = 4};
  return kvrt_session_generate(w->session, &o, NULL, NULL, NULL, NULL);
}
// The same by next. A session that still generates goes on at the next try, or says then that there was no memory.
static kvrt_status call_next(struct world* w) {
  for (;;) {
    kvrt_event e = {.struct_size = sizeof e};
    const kvrt_status status = kvrt_session_next(w->session, &e, -1, NULL);
    const int again = status == KVRT_NO_MEMORY && atomic_load(&fail_at) == 0;
    if ((status != KVRT_OK && !again) || e.type == KVRT_EVENT_DONE) return status;
    if (e.type == KVRT_EVENT_TOKEN) ++w->tokens_seen;
    if (e.type != KVRT_EVENT_IDLE) continue;
    const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 3, .ignore_eos = 1, .emit_logits = 1};
    const kvrt_status begun = kvrt_session_begin(w->session, &o, NULL);
    if (begun != KVRT_OK) return begun;
  }
}
static void close_sound(struct world* w) {
  const uint64_t tokens = session_props(w->session).tokens;
  EXPECT(session_props(w->session).state == KVRT_STATE_IDLE, "state %u", session_props(w->session).state);
  EXPECT(tokens >= kGrown + 3 && tokens <= kGrown + 12, "%" PRIu64 " tokens", tokens);
  EXPECT((uint64_t)w->tokens_seen <= tokens - kGrown, "%d tokens seen of %" PRIu64, w->tokens_seen, tokens - kGrown);
  w->tokens_seen = 0;
  if (w->round % 16 == 0) expect_sound(w->session, w->model, "after a want of memory");
  kvrt_session_close(w->session);
}
static void new_message(struct world* w) {
  w->session = open_session(w->model, w->store, 0);
  MUST(kvrt_session_append_message(w->session, KVRT_STR("{\"role\":\"user\",\"content\":\"Hello\"}"), NULL, NULL));
}
static kvrt_status call_all_or_nothing(struct world* w) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 3, .ignore_eos = 1, .all_or_nothing = 1};
  return kvrt_session_generate(w->session, &o, NULL, NULL, NULL, NULL);
}
// Of calls that failed no message is left.
static void close_all_or_nothing(struct world* w) {
  EXPECT(session_props(w->session).messages == 2, "%" PRIu64 " messages", session_props(w->session).messages);
  kvrt_session_close(w->session);
}
static kvrt_status call_remove(struct world* w) { return remove_session(w, name_of(w, "x")); }
static kvrt_status call_rename(struct world* w) {
  return kvrt_store_rename(w->store, NULL, 0, w->renamed ? "eve" : "ann", 3, w->renamed ? "ann" : "eve", 3, NULL);
}
static void renamed(struct world* w) { w->renamed = !w->renamed; }
static kvrt_status call_gc(struct world* w) { return kvrt_store_gc(w->store, NULL, NULL, NULL, NULL); }
static kvrt_status call_verify(struct world* w) { return kvrt_store_verify(w->store, NULL, NULL, NULL); }
static int32_t count_entry(void* user, const kvrt_event* e) {
  *(int*)user += e->type == KVRT_EVENT_ENTRY;
  return 0;
}
static kvrt_status call_list(struct world* w) {
  int count = 0;
  return kvrt_store_list(w->store, NULL, 0, count_entry, &count, NULL);
}
static void nothing(struct world* w) { (void)w; }

static void find_cold(struct world* w) {
  static char paths[kModelsMax][kPathMax];
  const size_t count = list_tiny(paths);
  for (size_t i = 0; i < count; ++i) {
    if (strstr(paths[i], "row_qwen3moe") != NULL) memcpy(w->cold_path, paths[i], kPathMax);
  }
  EXPECT(w->cold_path[0] != 0, "no tiny model row_qwen3moe among %zu", count);
}
static void cold_runtime(struct world* w) { w->cold_rt = open_runtime(3, 0); }
static kvrt_status open_cold(struct world* w) {
  return kvrt_model_open(w->cold_rt, w->cold_path, strlen(w->cold_path), NULL, NULL, NULL, &w->cold, NULL);
}
static void release_cold(struct world* w) {
  kvrt_model_release(w->cold);
  kvrt_runtime_release(w->cold_rt);
}
// Its compute threads have no buffer yet.
static void cold_prompt(struct world* w) {
  int32_t tokens[kGrown];
  cold_runtime(w);
  MUST(open_cold(w));
  prompt_tokens(tokens, kGrown, 5, model_props(w->cold).vocab_size);
  w->session = open_session(w->cold, NULL, 0);
  MUST(kvrt_session_append(w->session, tokens, kGrown, NULL));
}
static kvrt_status prefill_cold(struct world* w) { return kvrt_session_prefill(w->session, 0, NULL, NULL, NULL, NULL); }
static void close_cold(struct world* w) {
  EXPECT(session_props(w->session).kv_tokens == kGrown, "%" PRIu64 " tokens have KV", session_props(w->session).kv_tokens);
  const uint64_t digest = next_digest(w->session, NULL);
  if (w->cold_digest == 0) w->cold_digest = digest;  // of the prompt that had memory enough
  EXPECT(digest == w->cold_digest, "the cold model has other logits");
  kvrt_session_close(w->session);
  release_cold(w);
}

static const struct act kActs[] = {
    {"create a store", fresh_path, open_other, release_and_remove},
    {"open a store", known_path, open_other, release_other},
    {"checkpoint", resume_base, call_checkpoint, close_and_remove_c},
    {"checkpoint of what is new", grown_session, call_checkpoint, close_and_remove_c},
    {"suspend", resume_base, call_suspend, close_and_remove_s},
    {"resume", nothing, call_resume, close_session},
    {"generate", new_prompt, call_generate, close_sound},
    {"begin and next", new_prompt, call_next, close_sound},
    {"generate all or nothing", new_message, call_all_or_nothing, close_all_or_nothing},
    {"remove", saved_one, call_remove, nothing},
    {"rename", nothing, call_rename, renamed},
    {"gc", nothing, call_gc, nothing},
    {"list", nothing, call_list, nothing},
    {"verify", nothing, call_verify, nothing},
    {"open a model", cold_runtime, open_cold, release_cold},
    {"a model's first prompt", cold_prompt, prefill_cold, close_cold},
};

// Files that the process has open.
static int open_files(void) {
  int count = 0;
  DIR* fds = opendir("/proc/self/fd");
  while (readdir(fds) != NULL) ++count;
  closedir(fds);
  return count;
}

static uint64_t live_digest(struct world* w) { return next_digest(w->live, NULL); }

// Calls with allocation `at` failing. True: the call made fewer allocations than that.
static int try_at(struct world* w, const struct act* act, long at, int all, long* refused) {
  ++w->round;
  act->prepare(w);
  want_memory_at(at, all);
  kvrt_status status = act->call(w);
  const int past = memory_again(at);
  if (status != KVRT_OK) {
    ++*refused;
    EXPECT(status == KVRT_NO_MEMORY && !past, "%s, allocation %ld%s: %s (%s)", act->name, at, all ? " and all after it" : "",
           kvrt_status_name(status), last_message());
    const uint64_t digest = live_digest(w);
    EXPECT(digest == w->digest, "%s, allocation %ld: the live session has other logits", act->name, at);
    status = act->call(w);
    EXPECT(status == KVRT_OK, "%s, once more after allocation %ld%s failed: %s (%s)", act->name, at, all ? " and all after it" : "",
           kvrt_status_name(status), last_message());
  }
  if (status == KVRT_OK) act->after(w);
  return past || status != KVRT_OK;
}

static int is_named(const char* act, int count, char** names) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(act, names[i]) == 0) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  const long every = argc > 1 ? atol(argv[1]) : 1;
  struct world w = {0};
  char model[kPathMax];
  tiny_path(model, 0);
  find_cold(&w);
  make_dir(w.dir);
  w.rt = open_runtime(2, 0);
  w.model = open_model(w.rt, model, 0, 0, 4096);
  snprintf(w.path, sizeof w.path, "%s/store", w.dir);
  const kvrt_store_options capped = {.struct_size = sizeof capped, .disk_bytes_max = kDisk};
  MUST(kvrt_store_open(w.rt, w.path, strlen(w.path), &capped, &w.store, NULL));
  int32_t tokens[200];
  prompt_tokens(tokens, 200, 5, model_props(w.model).vocab_size);
  w.live = open_session(w.model, NULL, 0);
  MUST(kvrt_session_append(w.live, tokens, 200, NULL));
  w.digest = live_digest(&w);
  kvrt_session* s = open_session(w.model, w.store, 0);
  MUST(kvrt_session_append(s, tokens, 150, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(checkpoint(s, "base"));
  MUST(checkpoint(s, "ann"));
  kvrt_session_close(s);
  known_path(&w);
  w.other = open_store(w.rt, w.path);
  s = open_session(w.model, w.other, 0);
  MUST(kvrt_session_append(s, tokens, 60, NULL));
  MUST(checkpoint(s, "there"));
  kvrt_session_close(s);
  kvrt_store_release(w.other);
  cold_prompt(&w);
  MUST(prefill_cold(&w));
  close_cold(&w);
  int acts = 0;
  for (size_t i = 0; i < sizeof kActs / sizeof *kActs; ++i) {
    if (argc > 2 && !is_named(kActs[i].name, argc - 2, argv + 2)) continue;
    ++acts;
    long refused = 0, last = 0;
    const int files = open_files();
    for (int all = 0; all < 2; ++all) {
      long at = 1 + all % every;
      while (at < kAllocationsMax && open_files() <= files + kCachedFiles && !try_at(&w, &kActs[i], at, all, &refused)) at += every;
      EXPECT(at < kAllocationsMax, "%s: it has no end", kActs[i].name);
      last = at;
    }
    printf("%s: %ld allocations, %ld refused\n", kActs[i].name, last - 1, refused);
    fflush(stdout);
    EXPECT(open_files() <= files + kCachedFiles, "%s: %d files were open, now %d", kActs[i].name, files, open_files());
    kvrt_store_props p = {.struct_size = sizeof p};
    MUST(kvrt_store_info(w.store, &p, NULL));
    EXPECT(p.disk_bytes + p.bytes_free + kUncounted >= kDisk, "%s: %" PRIu64 " bytes on disk, %" PRIu64 " free of %d", kActs[i].name,
           p.disk_bytes, p.bytes_free, kDisk);
    EXPECT_STATUS(kvrt_store_verify(w.store, NULL, NULL, NULL), KVRT_OK);
  }
  EXPECT(argc <= 2 || acts == argc - 2, "%d of %d acts are none", argc - 2 - acts, argc - 2);
  kvrt_session_close(w.live);
  expect_no_leaks(w.model);
  kvrt_store_release(w.store);
  kvrt_model_release(w.model);
  kvrt_runtime_release(w.rt);
  remove_tree(w.dir);
  return finish();
}
