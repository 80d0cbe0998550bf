// A saved session that is longer than its pool: it resumes as SUSPENDED beside one whose KV stays, can be read and changed, and keeps what the
// store has. Once it fits it goes on from that, as a session that was never interrupted.
#include "chat.h"

enum { kBlock = 16, kLong = 700, kRoom = 256, kMark = 96, kFits = 150, kNear = 40, kAnswer = 8 };

struct stage {
  kvrt_runtime* rt;
  kvrt_store* store;
  kvrt_model *large, *small;
  char path[kPathMax], dir[kPathMax];
  int exact;  // any token can be gone on from: no windows, no states
  int32_t tokens[kLong];
};

static kvrt_model* open_small(struct stage* t) {
  const kvrt_plan_options po = {.struct_size = sizeof po, .session_tokens = kRoom, .block_tokens = kBlock};
  kvrt_plan p = {.struct_size = sizeof p};
  MUST(kvrt_model_plan(t->rt, t->path, strlen(t->path), &po, &p, NULL));
  const kvrt_model_options o = {.struct_size = sizeof o, .block_tokens = kBlock, .kv_bytes_max = p.kv_bytes};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(t->rt, t->path, strlen(t->path), &o, NULL, NULL, &model, NULL));
  return model;
}

// Pools that have nothing in them.
static void empty_pools(struct stage* t) {
  kvrt_model_release(t->small);
  kvrt_model_release(t->large);
  t->small = open_small(t);
  t->large = open_model(t->rt, t->path, 0, kBlock, 0);
}

static void stage_open(struct stage* t, const char* name) {
  make_dir(t->dir);
  snprintf(t->path, sizeof t->path, "%s/%s.gguf", tiny_dir(), name);
  t->rt = open_runtime(2, 0);
  t->store = open_store(t->rt, t->dir);
  t->large = open_model(t->rt, t->path, 0, kBlock, 0);
  t->small = open_small(t);
  const kvrt_model_props m = model_props(t->large);
  t->exact = m.kv_groups == 1 && m.kv_group_kind[0] == KVRT_GROUP_EVERYTHING;
  prompt_tokens(t->tokens, kLong, 3, m.vocab_size);
}

static void stage_close(struct stage* t) {
  expect_no_leaks(t->small);
  expect_no_leaks(t->large);
  kvrt_model_release(t->small);
  kvrt_model_release(t->large);
  kvrt_store_release(t->store);
  kvrt_runtime_release(t->rt);
  remove_tree(t->dir);
}

static void save_long(struct stage* t) {
  kvrt_session* s = open_session(t->large, t->store, 0);
  MUST(kvrt_session_append(s, t->tokens, kLong, NULL));
  MUST(kvrt_session_mark(s, kMark, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "long", 4, NULL, NULL, NULL));
  kvrt_session_close(s);
}

static uint64_t chunks_stored(struct stage* t, const char* name) {
  kvrt_store_entry e = {.struct_size = sizeof e};
  MUST(kvrt_store_stat(t->store, NULL, 0, name, strlen(name), &e, NULL));
  return e.chunks;
}

static void expect_suspended(kvrt_session* s, uint64_t tokens, const char* what) {
  const kvrt_session_props p = session_props(s);
  EXPECT(p.state == KVRT_STATE_SUSPENDED && p.kv_units == 0 && p.tokens == tokens, "%s: state %u, %" PRIu64 " blocks, %" PRIu64 " tokens",
         what, p.state, p.kv_units, p.tokens);
}

static void expect_limit(kvrt_status status, uint64_t tokens, const char* what) {
  char needed[32];
  snprintf(needed, sizeof needed, "%" PRIu64 " tokens need", tokens);
  EXPECT(status == KVRT_LIMIT, "%s: %s: %s", what, kvrt_status_name(status), last_message());
  EXPECT(strstr(last_message(), needed) && strstr(last_message(), "truncate or erase") && strstr(last_message(), "kv_bytes_max"), "%s: %s",
         what, last_message());
  const char* hold = strstr(last_message(), "which hold ");
  const uint64_t room = hold ? strtoull(hold + 11, NULL, 10) : 0;
  EXPECT(room >= kRoom && room < kLong, "%s: room for %" PRIu64, what, room);
}

// What would make it longer, or compute it.
static void refused(struct stage* t, kvrt_session* s) {
  const uint64_t n = session_props(s).tokens;
  const kvrt_generate_options o = run_options(2);
  expect_limit(kvrt_session_append(s, t->tokens, 1, NULL), n + 1, "append");
  EXPECT(kvrt_session_append_text(s, "abc", 3, 0, NULL) == KVRT_LIMIT, "append_text: %s", last_message());
  expect_limit(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL), n, "prefill");
  expect_limit(kvrt_session_prefill(s, KVRT_LOGITS_ALL, NULL, NULL, NULL, NULL), n, "prefill for logits");
  expect_limit(kvrt_session_begin(s, &o, NULL), n, "begin");
  expect_limit(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL), n, "generate");
  MUST(kvrt_session_append(s, NULL, 0, NULL));
  expect_suspended(s, n, "after refusals");
}

static void read_all(struct stage* t, kvrt_session* s) {
  int32_t tokens[kLong];
  char text[16 * kLong];
  size_t size = 0;
  EXPECT(session_tokens(s, tokens, kLong) == kLong && memcmp(tokens, t->tokens, sizeof tokens) == 0, "its tokens are others");
  MUST(kvrt_session_text(s, 0, UINT64_MAX, KVRT_TEXT_SPECIAL, text, sizeof text, &size, NULL));
  EXPECT(size > 0, "no text");
  EXPECT(next_event(s, -1).type == KVRT_EVENT_IDLE, "it has an event");
}

static void saved_again(struct stage* t, kvrt_session* s) {
  const uint64_t had = chunks_stored(t, "long");
  kvrt_save_report r = {.struct_size = sizeof r};
  MUST(kvrt_session_checkpoint(s, "long", 4, NULL, &r, NULL));
  EXPECT(r.chunks_missing == 0 && r.chunks_written == 0 && r.tokens == kLong, "checkpoint: %" PRIu64 " missing", r.chunks_missing);
  MUST(kvrt_session_suspend(s, "long", 4, NULL, &r, NULL));
  EXPECT(r.chunks_missing == 0 && r.chunks_written == 0 && r.tokens == kLong, "suspend: %" PRIu64 " missing", r.chunks_missing);
  EXPECT(chunks_stored(t, "long") == had, "%" PRIu64 " chunks are left of %" PRIu64, chunks_stored(t, "long"), had);
}

// Beside a session that has its KV: it keeps it.
static void beside(struct stage* t) {
  int32_t own[kNear];
  prompt_tokens(own, kNear, 8, model_props(t->small).vocab_size);
  kvrt_session* near = open_session(t->small, t->store, 0);
  MUST(kvrt_session_append(near, own, kNear, NULL));
  MUST(kvrt_session_prefill(near, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  const kvrt_session_props was = session_props(near);
  const kvrt_metrics before = metrics_of(t->small);
  kvrt_report r;
  kvrt_session *s = resume_session(t->small, t->store, "long", &r), *fork = NULL;
  expect_suspended(s, kLong, "resumed");
  EXPECT(r.prompt_tokens == kLong && r.prefilled == kLong && r.reuse_stopped == KVRT_REUSE_EVICTED && r.reuse_stopped_at == 0,
         "resumed: %" PRIu64 " of %" PRIu64 " to compute, stopped by %u", r.prefilled, r.prompt_tokens, r.reuse_stopped);
  read_all(t, s);
  refused(t, s);
  const kvrt_status marked = kvrt_session_mark(s, kMark, NULL);
  EXPECT(marked == KVRT_OK || (marked == KVRT_LIMIT && is_recurrent(t->small)), "mark: %s", last_message());
  saved_again(t, s);
  MUST(kvrt_session_fork(s, NULL, &fork, NULL));
  expect_suspended(fork, kLong, "its fork");
  MUST(kvrt_session_erase(fork, kMark, kMark + 20, NULL));
  refused(t, fork);
  kvrt_session_close(fork);
  MUST(kvrt_session_truncate(s, kLong - 20, NULL));
  refused(t, s);
  MUST(kvrt_session_checkpoint(s, "shorter", 7, NULL, NULL, NULL));
  EXPECT(chunks_stored(t, "shorter") >= (kLong - 20) / kBlock || !t->exact, "%" PRIu64 " chunks of the shorter one",
         chunks_stored(t, "shorter"));
  kvrt_session_close(s);
  const kvrt_session_props is = session_props(near);
  const kvrt_metrics after = metrics_of(t->small);
  EXPECT(is.kv_units == was.kv_units && is.kv_tokens == was.kv_tokens, "the neighbour has %" PRIu64 " blocks of %" PRIu64, is.kv_units,
         was.kv_units);
  EXPECT(after.evictions == before.evictions && after.preemptions == before.preemptions && after.steps == before.steps, "something ran");
  static struct run got, want;
  got = want = (struct run){0};
  r = generate_into(near, kAnswer, &got);
  EXPECT(r.prefilled == 1 && r.recomputed == 0, "the neighbour computes %" PRIu64 ", %" PRIu64 " again", r.prefilled, r.recomputed);
  kvrt_session_close(near);
  near = open_session(t->large, NULL, 1);
  MUST(kvrt_session_append(near, own, kNear, NULL));
  generate_into(near, kAnswer, &want);
  EXPECT(same_run(&got, &want), "the neighbour goes on differently");
  kvrt_session_close(near);
}

// Made short enough, or in a larger pool: its KV comes from the store, and it goes on as a session that was never saved.
enum cure { kTruncated, kErased, kForked, kResaved, kLarger, kCures };

static void cured(struct stage* t, enum cure how) {
  empty_pools(t);
  kvrt_report r;
  kvrt_session* s = resume_session(how == kLarger ? t->large : t->small, t->store, "long", &r);
  uint64_t known = kLong;
  if (how == kForked) {
    kvrt_session* origin = s;
    MUST(kvrt_session_fork(origin, NULL, &s, NULL));
    kvrt_session_close(origin);
  }
  if (how == kErased) {
    known = kMark;
    MUST(kvrt_session_erase(s, kMark, kLong - 30, NULL));
  } else if (how != kLarger) {
    known = kFits;
    MUST(kvrt_session_truncate(s, kFits, NULL));
  }
  if (how == kResaved) {
    MUST(kvrt_session_checkpoint(s, "cut", 3, NULL, NULL, NULL));
    kvrt_session_close(s);
    s = resume_session(t->small, t->store, "cut", &r);
  }
  if (how == kTruncated || how == kErased || how == kForked) expect_suspended(s, how == kErased ? kMark + 30 : kFits, "cut");
  int32_t tokens[kLong];
  const size_t n = session_tokens(s, tokens, kLong);
  kvrt_session* fresh = open_session(t->large, NULL, 1);
  MUST(kvrt_session_append(fresh, tokens, n, NULL));
  static struct run got, want;
  got = want = (struct run){0};
  generate_into(fresh, kAnswer, &want);
  kvrt_session_close(fresh);
  const uint64_t resumed = r.reused_disk;
  r = generate_into(s, kAnswer, &got);
  EXPECT(same_run(&got, &want), "way %d: it goes on differently", how);
  const uint64_t disk = how == kLarger || how == kResaved ? resumed : r.reused_disk;
  const uint64_t whole = how == kLarger ? kLong - 1 : t->exact ? known / kBlock * kBlock : kMark;
  EXPECT(disk >= whole && r.recomputed == 0, "way %d: %" PRIu64 " tokens of %" PRIu64 " from disk", how, disk, whole);
  kvrt_session_close(s);
}

// Of messages: they can be read, and be set to fewer.
static void messages(struct stage* t) {
  enum { kTexts = 4 };
  char text[400], json[2048], list[4096];
  kvrt_session* s = open_session(t->large, t->store, 0);
  for (int i = 0; i < kTexts; ++i) {
    memset(text, "abcd"[i], 120);
    text[120] = 0;
    say(s, i % 2 ? "assistant" : "user", text, NULL);
  }
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "talk", 4, NULL, NULL, NULL));
  const uint64_t n = session_props(s).tokens, first = message_props(s, 0).end;
  REQUIRE(n > kRoom && first + 50 < kRoom, "%" PRIu64 " tokens, %" PRIu64 " of the first message", n, first);
  kvrt_session_close(s);
  empty_pools(t);
  s = resume_session(t->small, t->store, "talk", NULL);
  expect_suspended(s, n, "a talk");
  newest_message(s, json, sizeof json);
  EXPECT(strstr(json, text) != NULL && message_props(s, 0).end == first, "its last message is %s", json);
  const char more[] = "{\"role\":\"user\",\"content\":\"more\"}";
  EXPECT(kvrt_session_append_message(s, more, sizeof more - 1, NULL, NULL) == KVRT_LIMIT, "append_message: %s", last_message());
  all_messages(s, list, sizeof list - sizeof more);
  snprintf(strrchr(list, ']'), sizeof more + 2, ",%s]", more);
  EXPECT(kvrt_session_set_messages(s, list, strlen(list), NULL, NULL) == KVRT_LIMIT, "set_messages: %s", last_message());
  expect_suspended(s, n, "refused messages");
  memset(text, 'a', 120);
  snprintf(list, sizeof list, "[{\"role\":\"user\",\"content\":\"%s\"}]", text);
  MUST(kvrt_session_set_messages(s, list, strlen(list), NULL, NULL));
  expect_suspended(s, first, "with one message");
  static struct run got, want;
  got = want = (struct run){0};
  const kvrt_report r = generate_into(s, kAnswer, &got);
  EXPECT(r.reused_disk >= first / kBlock * kBlock || !t->exact, "%" PRIu64 " tokens of %" PRIu64 " from disk", r.reused_disk, first);
  kvrt_session_close(s);
  s = open_session(t->large, NULL, 1);
  MUST(kvrt_session_set_messages(s, list, strlen(list), NULL, NULL));
  generate_into(s, kAnswer, &want);
  EXPECT(same_run(&got, &want), "with one message it goes on differently");
  kvrt_session_close(s);
}

int main(void) {
  // plain; windows; all layers with one; latents; states
  static const char* const models[] = {"llama_gqa_f32", "row_gemma3", "row_phi3_long", "row_deepseek3", "row_lfm2", "row_qwen3next"};
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
    static struct stage t;
    stage_open(&t, models[i]);
    printf("%s\n", models[i]);
    save_long(&t);
    beside(&t);
    for (int how = 0; how < kCures; ++how) cured(&t, (enum cure)how);
    messages(&t);
    stage_close(&t);
  }
  return finish();
}
