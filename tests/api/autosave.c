// Sessions that save themselves: at which moment, under which name, which part, and after a failure; and close loses nothing.
#include "chat.h"

enum { kPrompt = 100, kWaitMs = 20000 };

static kvrt_model *model, *reference;
static kvrt_store* store;
static uint32_t vocab;

static kvrt_session* open_with(const char* name, uint32_t turn, uint32_t tokens, uint32_t idle_ms) {
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.store = store;
  o.autosave_name = name;
  o.autosave_name_size = name ? strlen(name) : 0;
  o.autosave_turn = turn;
  o.autosave_tokens = tokens;
  o.autosave_idle_ms = idle_ms;
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  return s;
}

static void append(kvrt_session* s, size_t count, uint64_t seed) {
  int32_t tokens[512];
  prompt_tokens(tokens, count, seed, vocab);
  MUST(kvrt_session_append(s, tokens, count, NULL));
}

static void generate(kvrt_session* s, uint32_t count, kvrt_event_fn callback, void* user) {
  kvrt_generate_options o = run_options(count);
  o.emit_logits = 0;
  MUST(kvrt_session_generate(s, &o, callback, user, NULL, NULL));
}

// The entry of the name, or one of zeros.
static kvrt_store_entry entry_of(const char* name) {
  kvrt_store_entry e;
  KVRT_INIT(&e);
  const kvrt_status status = kvrt_store_stat(store, NULL, 0, name, strlen(name), &e, NULL);
  EXPECT(status == KVRT_OK || status == KVRT_NOT_FOUND, "%s: %s", name, last_message());
  return e;
}

// Waits until the store has so many tokens of the session.
static int comes_to(const char* name, uint64_t tokens) {
  for (const double start = now_ms(); now_ms() - start < kWaitMs; usleep(1000)) {
    if (entry_of(name).tokens >= tokens) return 1;
  }
  return 0;
}

// The store has the session's tokens with the right KV. Of the last block's KV it has the part that close saved; a sampled token has none.
static void expect_stored(const char* name, const int32_t* tokens, size_t count) {
  static int32_t got[1024];
  const kvrt_store_entry e = entry_of(name);
  EXPECT(e.tokens == count && e.chunks >= (count - 1) / 16 && e.chunks <= (count + 15) / 16 && e.chunks_missing == 0,
         "%s: %" PRIu64 " tokens in %" PRIu64 " chunks, %" PRIu64 " missing", name, e.tokens, e.chunks, e.chunks_missing);
  kvrt_session* s = resume_session(model, store, name, NULL);
  const size_t n = session_tokens(s, got, 1024);
  EXPECT(n == count && memcmp(got, tokens, n * sizeof *got) == 0, "%s: %zu tokens, or others", name, n);
  EXPECT(next_digest(s, NULL) == digest_of(reference, tokens, count), "%s: other logits", name);
  kvrt_session_close(s);
}

static void expect_saved(kvrt_session* s, const char* name) {
  int32_t tokens[1024];
  const size_t count = session_tokens(s, tokens, 1024);
  EXPECT(comes_to(name, count), "%s was not saved: %s", name, session_props(s).last_error_message);
  for (const double start = now_ms(); entry_of(name).chunks < (count - 1) / 16 && now_ms() - start < kWaitMs;) usleep(1000);
  expect_stored(name, tokens, count);
}

static void every_turn(void) {
  kvrt_session* s = open_with("turns", 1, 0, 0);
  append(s, kPrompt, 1);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  expect_saved(s, "turns");
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    generate(s, 20, NULL, NULL);
    expect_saved(s, "turns");
    EXPECT(entry_of("turns").revision == turn + 1, "revision %" PRIu64 " after turn %" PRIu64, entry_of("turns").revision, turn);
    append(s, 10, turn);
  }
  int32_t tokens[1024];
  const size_t count = session_tokens(s, tokens, 1024);
  kvrt_session_close(s);  // with 10 tokens that no turn followed
  expect_stored("turns", tokens, count);
  EXPECT(entry_of("turns").revision == 5, "revision %" PRIu64 " after close", entry_of("turns").revision);
}

struct watch {
  kvrt_session* s;
  uint64_t tokens, stored_while;
};
static int32_t watch_store(void* user, const kvrt_event* e) {
  struct watch* w = user;
  if (e->type != KVRT_EVENT_TOKEN) return 0;
  ++w->tokens;
  if (w->tokens == 60) w->stored_while = comes_to("grows", kPrompt + 60 - 49) ? entry_of("grows").tokens : 0;
  return 0;
}

// Where the saves fall depends on when the prompt's KV is saved; that the store is never 50 tokens behind does not.
static void every_tokens(void) {
  kvrt_session* s = open_with("grows", 0, 50, 0);
  append(s, 30, 2);
  EXPECT(entry_of("grows").tokens == 0, "saved after 30 tokens");
  append(s, kPrompt - 30, 3);
  EXPECT(comes_to("grows", kPrompt), "not saved after %d tokens", kPrompt);
  struct watch w = {.s = s};
  generate(s, 120, watch_store, &w);  // it saves within the turn
  EXPECT(w.stored_while > kPrompt + 60 - 50 && w.stored_while <= kPrompt + 61, "%" PRIu64 " tokens stored at token 60", w.stored_while);
  EXPECT(comes_to("grows", kPrompt + 120 - 49), "not saved after 120 tokens");
  int32_t tokens[1024];
  const size_t count = session_tokens(s, tokens, 1024);
  kvrt_session_close(s);
  expect_stored("grows", tokens, count);
}

// The tokens of a long prompt are saved when they come, and their KV when it has been computed: all but the last that are fewer than 50, where
// a save came before them.
static void kv_after_tokens(void) {
  kvrt_session* s = open_with("prompt", 0, 50, 0);
  append(s, kPrompt, 8);
  EXPECT(comes_to("prompt", kPrompt) && entry_of("prompt").chunks == 0, "the tokens alone were to be saved");
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  for (const double start = now_ms(); entry_of("prompt").chunks < (kPrompt - 50) / 16 && now_ms() - start < kWaitMs;) usleep(1000);
  EXPECT(entry_of("prompt").chunks >= (kPrompt - 50) / 16, "%" PRIu64 " chunks saved", entry_of("prompt").chunks);
  kvrt_session_close(s);
}

// A message is enough: no other call of the session follows it.
static void message_alone(void) {
  kvrt_session* s = open_with("message", 0, 5, 0);
  say(s, "user", "What is the boiling point of water at sea level?", NULL);
  const uint64_t count = session_props(s).tokens;
  EXPECT(count > 5 && comes_to("message", count), "%" PRIu64 " tokens of a message: not saved", count);
  kvrt_session_close(s);
}

static void when_idle(void) {
  kvrt_session* s = open_with("idle", 0, 0, 80);
  double longest = 0, last = now_ms();
  for (int i = 0; i < 20; ++i) {  // never idle for so long, unless the machine is
    append(s, 5, (uint64_t)i);
    usleep(4000);
    longest = now_ms() - last > longest ? now_ms() - last : longest;
    last = now_ms();
  }
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  longest = now_ms() - last > longest ? now_ms() - last : longest;
  expect_saved(s, "idle");
  const uint64_t revision = entry_of("idle").revision;
  EXPECT(revision == 1 || longest > 70, "%" PRIu64 " saves of a session that was idle once", revision);
  double cpu_ms = 1e9;
  for (int i = 0; i < 25 && cpu_ms >= 20; ++i) {  // threads that are not done yet may end first
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    cpu_ms = (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6;
  }
  EXPECT(cpu_ms < 20, "%.1f ms of CPU while nothing is due", cpu_ms);
  MUST(kvrt_session_truncate(s, 50, NULL));
  kvrt_session_close(s);
  EXPECT(entry_of("idle").tokens == 50 && entry_of("idle").revision == revision + 1, "close: %" PRIu64 " tokens", entry_of("idle").tokens);
  s = resume_session(model, store, "idle", NULL);  // without the option: none
  kvrt_session_close(s);
  EXPECT(entry_of("idle").revision == revision + 1, "saved without being asked");
}

// A session that waits for its host is idle, whatever others of its model compute meanwhile.
static void idle_beside_others(void) {
  kvrt_session *s = open_with("waits", 0, 0, 60), *other = open_session(model, NULL, 1);
  append(s, kPrompt, 9);
  append(other, 10, 10);
  const kvrt_generate_options o = {.struct_size = sizeof o, .sampler = KVRT_SAMPLER_HOST};
  MUST(kvrt_session_begin(s, &o, NULL));
  while (!session_props(s).awaits_accept) (void)next_event(s, -1);
  for (const double start = now_ms(); entry_of("waits").tokens == 0 && now_ms() - start < 5000;) {
    generate(other, 4, NULL, NULL);
    MUST(kvrt_session_truncate(other, 10, NULL));
  }
  EXPECT(entry_of("waits").tokens == kPrompt, "%" PRIu64 " tokens saved", entry_of("waits").tokens);
  kvrt_session_close(other);
  kvrt_session_close(s);
}

static kvrt_session* resume_with(const char* name, const char* tools) {
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.autosave_turn = 1;
  o.tools = tools;
  o.tools_size = tools ? strlen(tools) : 0;
  kvrt_session* s = NULL;
  MUST(kvrt_session_resume(model, store, name, strlen(name), &o, NULL, NULL, NULL, &s, NULL));
  return s;
}

// What changes beside the tokens is saved too: a member that the template does not render, and tools.
static void beside_tokens(void) {
  static const char kSaid[] = "[{\"role\":\"user\",\"content\":\"hi\"}]",
                    kNumbered[] = "[{\"role\":\"user\",\"content\":\"hi\",\"id\":\"7\"}]";
  static const char kTools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
  kvrt_session* s = open_with("members", 1, 0, 0);
  MUST(kvrt_session_set_messages(s, kSaid, sizeof kSaid - 1, NULL, NULL));
  kvrt_session_close(s);
  EXPECT(entry_of("members").revision == 1, "revision %" PRIu64 " at first", entry_of("members").revision);
  s = resume_with("members", NULL);
  const uint64_t tokens = session_props(s).tokens;
  MUST(kvrt_session_set_messages(s, kNumbered, sizeof kNumbered - 1, NULL, NULL));
  EXPECT(session_props(s).tokens == tokens, "the template renders it");
  kvrt_session_close(s);
  s = resume_with("members", kTools);
  char json[256];
  newest_message(s, json, sizeof json);
  EXPECT(strstr(json, "\"id\":\"7\"") != NULL, "saved: %s", json);
  kvrt_session_close(s);
  EXPECT(entry_of("members").revision == 3, "revision %" PRIu64 " with tools", entry_of("members").revision);
  kvrt_session_close(resume_with("members", kTools));
  kvrt_session_close(resume_with("members", NULL));
  EXPECT(entry_of("members").revision == 3, "revision %" PRIu64 ", and nothing had changed", entry_of("members").revision);
}

// KV that was computed after its tokens had been saved is saved too.
static void kv_later(void) {
  kvrt_session* s = open_with("later", 0, 10, 30);
  append(s, kPrompt, 7);
  EXPECT(comes_to("later", kPrompt) && entry_of("later").chunks == 0, "%" PRIu64 " chunks before any was computed",
         entry_of("later").chunks);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  expect_saved(s, "later");
  kvrt_session_close(s);
}

static void names(void) {
  kvrt_session* s = open_with(NULL, 1, 0, 0);
  append(s, kPrompt, 4);
  generate(s, 4, NULL, NULL);
  usleep(20000);
  EXPECT(session_props(s).revision == 0, "saved without a name");
  MUST(kvrt_session_checkpoint(s, "given", 5, NULL, NULL, NULL));
  generate(s, 20, NULL, NULL);
  expect_saved(s, "given");
  kvrt_session* copy = NULL;
  MUST(kvrt_session_fork(s, NULL, &copy, NULL));
  generate(copy, 9, NULL, NULL);
  kvrt_session_close(copy);  // it was never given a name
  const uint64_t revision = entry_of("given").revision;
  kvrt_session_close(s);
  EXPECT(entry_of("given").revision == revision + 1, "revision %" PRIu64 " after close, and the last block's KV was not saved",
         entry_of("given").revision);
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.autosave_turn = 1;
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_resume(model, store, "given", 5, &o, NULL, NULL, &report, &s, NULL));
  EXPECT(report.prefilled == 1, "%" PRIu64 " tokens have no KV after close", report.prefilled);
  kvrt_session_close(s);
  EXPECT(entry_of("given").revision == revision + 1, "saved by close, and nothing had changed");
  MUST(kvrt_session_resume(model, store, "given", 5, &o, NULL, NULL, NULL, &s, NULL));
  generate(s, 20, NULL, NULL);
  expect_saved(s, "given");
  kvrt_session_close(s);
}

static void failures(void) {
  kvrt_session* first = open_with(NULL, 0, 0, 0);
  append(first, kPrompt, 5);
  MUST(kvrt_session_checkpoint(first, "taken", 5, NULL, NULL, NULL));
  kvrt_session_close(first);
  kvrt_session* s = open_with("taken", 1, 0, 0);
  append(s, kPrompt, 6);
  generate(s, 20, NULL, NULL);
  kvrt_session_props p = session_props(s);
  for (const double start = now_ms(); p.last_error_status == KVRT_OK && now_ms() - start < kWaitMs; usleep(1000)) p = session_props(s);
  EXPECT(p.last_error_status == KVRT_CONFLICT && p.last_error_detail == KVRT_DETAIL_NAME_TAKEN && p.state == KVRT_STATE_IDLE,
         "%s, detail %d, state %u", kvrt_status_name(p.last_error_status), p.last_error_detail, p.state);
  EXPECT(entry_of("taken").tokens == kPrompt, "another session's place was taken");
  MUST(kvrt_store_remove(store, NULL, 0, "taken", 5, NULL));
  generate(s, 5, NULL, NULL);  // the next occasion
  expect_saved(s, "taken");
  kvrt_session_close(s);
}

// Sessions that are closed at any moment after their turn, from several threads: each turn is there.
static void* come_and_go(void* user) {
  const int thread = (int)(intptr_t)user;
  for (int i = 0; i < 12; ++i) {
    char name[16];
    snprintf(name, sizeof name, "r%d-%d", thread, i);
    kvrt_session* s = open_with(name, i % 2 == 0, i % 3 == 0 ? 7 : 0, i % 2 ? 1 : 0);
    append(s, 40 + (size_t)i, 1000 + (uint64_t)thread);
    generate(s, 10 + (uint32_t)i, NULL, NULL);
    if (i % 4 == 1) usleep(2000);
    if (i % 4 == 2) MUST(kvrt_session_checkpoint(s, name, strlen(name), NULL, NULL, NULL));
    int32_t tokens[1024];
    const size_t count = session_tokens(s, tokens, 1024);
    kvrt_session_close(s);
    s = resume_session(model, store, name, NULL);
    int32_t got[1024];
    EXPECT(session_tokens(s, got, 1024) == count && memcmp(got, tokens, count * sizeof *got) == 0, "%s: other tokens than at close", name);
    kvrt_session_close(s);
  }
  return NULL;
}

int main(void) {
  char tiny[kPathMax], dir[kPathMax];
  tiny_path(tiny, 1);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(2, 0);
  model = open_model(rt, tiny, 0, 16, 4096);
  reference = open_model(rt, tiny, 0, 32, 4096);
  vocab = model_props(model).vocab_size;
  store = open_store(rt, dir);
  every_turn();
  every_tokens();
  kv_after_tokens();
  message_alone();
  when_idle();
  idle_beside_others();
  beside_tokens();
  kv_later();
  names();
  failures();
  pthread_t threads[3];
  for (intptr_t i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, come_and_go, (void*)i);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  expect_no_leaks(model);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(reference);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
