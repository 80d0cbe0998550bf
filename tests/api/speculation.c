// Speculation's options, and its ends: cuts, full contexts and pools, drafts that can do little, events that nobody reads.
#include "speculation.h"

static kvrt_status begin_status(const struct pair* p, const kvrt_generate_options* o) {
  kvrt_session* s = prompted(p, p->model, NULL);
  const kvrt_status status = kvrt_session_begin(s, o, NULL);
  EXPECT(session_props(s).state == (status == KVRT_OK ? KVRT_STATE_GENERATING : KVRT_STATE_IDLE), "state %u", session_props(s).state);
  kvrt_session_close(s);
  return status;
}

static void run_on(kvrt_model* model, struct transcript* t, kvrt_session* s) {
  for (; !t->done; note_ready(t, s)) MUST(kvrt_model_step(model, 0, NULL, NULL));
}

static void numbers(const struct pair* p) {
  static const struct {
    uint32_t min, max;
    kvrt_status want;
  } kNumbers[] = {{0, 0, KVRT_OK},       {16, 0, KVRT_OK}, {17, 0, KVRT_INVALID}, {0, 32, KVRT_OK},       {32, 32, KVRT_OK},
                  {0, 33, KVRT_INVALID}, {5, 5, KVRT_OK},  {6, 5, KVRT_INVALID},  {33, 33, KVRT_INVALID}, {UINT32_MAX, 0, KVRT_INVALID}};
  for (size_t i = 0; i < sizeof kNumbers / sizeof *kNumbers; ++i) {
    for (int with = 0; with < 2; ++with) {  // also where nothing would be proposed
      kvrt_generate_options o = answer_options(4);
      o.draft_tokens_min = kNumbers[i].min, o.draft_tokens_max = kNumbers[i].max, o.lookup = (uint32_t)with;
      const kvrt_status status = begin_status(p, &o);
      EXPECT(status == kNumbers[i].want, "from %u to %u: %s", kNumbers[i].min, kNumbers[i].max, kvrt_status_name(status));
    }
  }
  kvrt_generate_options o = answer_options(4);
  o.reserved = 1;
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);
  o.reserved = 0, o.lookup = 2;
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);
  o.lookup = 0, o.prediction_size = 3;  // of nothing
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);
  o.prediction = kBadUtf8, o.prediction_size = strlen(kBadUtf8);
  const kvrt_status status = begin_status(p, &o);
  EXPECT(status == KVRT_OK || status == KVRT_INVALID, "a prediction that is no UTF-8: %s", kvrt_status_name(status));
  o.prediction = "", o.prediction_size = 0;
  EXPECT_STATUS(begin_status(p, &o), KVRT_OK);
  enum { kMost = 1 << 20 };
  char* large = malloc(kMost + 1);
  REQUIRE(large != NULL, "malloc");
  memset(large, 'a', kMost + 1);
  o.prediction = large, o.prediction_size = kMost + 1;
  EXPECT_STATUS(begin_status(p, &o), KVRT_LIMIT);
  o.prediction_size = kMost;
  EXPECT_STATUS(begin_status(p, &o), KVRT_OK);
  free(large);
}

// The same vocabulary but for two tokens, which change places.
static void with_other_tokens(const char* from, const char* to) {
  static char bytes[1 << 20];
  FILE* f = fopen(from, "rb");
  REQUIRE(f != NULL, "%s", from);
  const size_t size = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  static const char two[] = "\1\0\0\0\0\0\0\0B\1\0\0\0\0\0\0\0C";
  char* at = memmem(bytes, size, two, sizeof two - 1);
  REQUIRE(at != NULL && size < sizeof bytes, "%s has no B and C", from);
  at[8] = 'C', at[17] = 'B';
  f = fopen(to, "wb");
  REQUIRE(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s", to);
}

static void drafts_that_do_not_fit(const struct pair* p) {
  kvrt_generate_options o = drafted_options(p->model, 4);
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);  // its own
  kvrt_runtime* rt = open_runtime(1, 0);
  o.draft = open_model(rt, p->stage.tiny, 0, 0, 0);
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);  // of another runtime
  kvrt_model_release(o.draft);
  kvrt_runtime_release(rt);
  o.draft = (kvrt_model*)p->stage.session;
  EXPECT_STATUS(begin_status(p, &o), KVRT_INVALID);  // no model
  char path[kPathMax + 64];
  snprintf(path, sizeof path, "%s/vocab_only.gguf", tiny_dir());
  o.draft = open_model(p->stage.runtime, path, 0, 0, 0);
  EXPECT_STATUS(begin_status(p, &o), KVRT_UNSUPPORTED);
  kvrt_model_release(o.draft);
  snprintf(path, sizeof path, "%s/other.gguf", p->stage.dir);
  with_other_tokens(p->stage.tiny, path);
  o.draft = open_model(p->stage.runtime, path, 0, 0, 0);
  EXPECT_STATUS(begin_status(p, &o), KVRT_INCOMPATIBLE);
  EXPECT_STATUS(begin_status(p, &o), KVRT_INCOMPATIBLE);
  kvrt_model_release(o.draft);
}

// Another model's weights: a vocabulary alone makes a draft fit.
static void another_model(const struct pair* p) {
  char path[kPathMax + 64];
  snprintf(path, sizeof path, "%s/qwen2_gqa_f32.gguf", tiny_dir());
  kvrt_generate_options o = drafted_options(open_model(p->stage.runtime, path, 0, 0, 0), kAnswer);
  expect_plain(p, p->model, &o, "another model drafts");
  kvrt_model_release(o.draft);
}

static void recurrent_draft(const struct pair* p) {
  char path[kPathMax + 64];
  snprintf(path, sizeof path, "%s/row_granitehybrid.gguf", tiny_dir());
  kvrt_generate_options o = drafted_options(open_model(p->stage.runtime, path, 0, 0, 0), kAnswer);
  o.lookup = 0;
  kvrt_session* s = prompted(p, p->model, NULL);
  struct transcript t = {0};
  note_generation(&t, p->model, s, &o, 0);
  same_transcript(&t, &p->plain, "a recurrent draft");
  EXPECT(t.drafted == 0, "a recurrent model drafted %" PRIu64 " tokens", t.drafted);
  transcript_free(&t);
  kvrt_session_close(s);
  kvrt_model_release(o.draft);
}

static void weak_drafts(const struct pair* p) {
  for (uint64_t blocks = 2; blocks <= 6; ++blocks) {  // the answer takes seven
    kvrt_generate_options o = drafted_options(open_small(p, kSmall, 0, blocks), kAnswer);
    expect_plain(p, p->model, &o, "a draft with a small pool");
    o.lookup = 0;
    kvrt_session* s = prompted(p, p->model, NULL);
    struct transcript t = {0};
    note_generation(&t, p->model, s, &o, 0);
    same_transcript(&t, &p->plain, "a draft alone, with a small pool");
    EXPECT(blocks < 3 || t.drafted > kAnswer / 2, "a pool of %" PRIu64 " blocks: %" PRIu64 " drafted; it can go on with the last tokens",
           blocks, t.drafted);
    transcript_free(&t);
    kvrt_session_close(s);
    expect_no_leaks(o.draft);
    kvrt_model_release(o.draft);
  }
  kvrt_generate_options o = drafted_options(open_small(p, kSmall, KVRT_KV_INT8, 64), kAnswer);
  kvrt_session* s = prompted(p, p->model, NULL);
  struct transcript t = {0};
  REQUIRE(note_begin(&t, s, &o), "begin");
  kvrt_model_release(o.draft);
  run_on(p->model, &t, s);
  same_transcript(&t, &p->plain, "a draft that was released at once");
  EXPECT(t.drafted > 0, "it drafted nothing");
  transcript_free(&t);
  kvrt_session_close(s);
}

// Its draft serves others at the same time, and is a model like any.
static void draft_in_use(const struct pair* p) {
  kvrt_session* own = prompted(p, p->draft, NULL);
  struct transcript alone = {0}, t = {0};
  kvrt_generate_options o = answer_options(kAnswer);
  note_generation(&alone, p->draft, own, &o, 1);
  kvrt_session_close(own);
  own = prompted(p, p->draft, NULL);
  o = drafted_options(p->model, kAnswer);  // each drafts for the other
  REQUIRE(note_begin(&t, own, &o), "begin");
  o = drafted_options(p->draft, kAnswer);
  expect_plain(p, p->model, &o, "its draft generates, too");
  run_on(p->draft, &t, own);
  same_transcript(&t, &alone, "a draft's own session");
  EXPECT(model_props(p->draft).sessions == 1, "%" PRIu64 " sessions of the draft, expected the host's", model_props(p->draft).sessions);
  transcript_free(&alone), transcript_free(&t);
  kvrt_session_close(own);
}

// Nobody reads: it stops at 64 events, and what comes later is the same.
static void unread(const struct pair* p) {
  for (uint32_t fixed = 1; fixed <= 32; fixed = fixed * 2 + 1) {
    kvrt_generate_options o = drafted_options(p->draft, kAnswer);
    o.draft_tokens_min = fixed, o.draft_tokens_max = fixed, o.reply = KVRT_REPLY_PLAIN;
    kvrt_session *s = prompted(p, p->model, NULL), *plain = prompted(p, p->model, NULL);
    struct transcript t = {0}, want = {0};
    REQUIRE(note_begin(&t, s, &o), "begin");
    for (uint32_t runnable = 1, steps = 0; runnable != 0 && steps < 1000; ++steps) {
      MUST(kvrt_model_step(p->model, 0, &runnable, NULL));
      EXPECT(session_props(s).events_unread <= 64 + 2, "%" PRIu64 " events unread", session_props(s).events_unread);  // and parts
    }
    run_on(p->model, &t, s);
    kvrt_generate_options q = answer_options(kAnswer);
    q.reply = KVRT_REPLY_PLAIN;
    note_generation(&want, p->model, plain, &q, 1);
    same_transcript(&t, &want, "nobody read");
    transcript_free(&t), transcript_free(&want);
    kvrt_session_close(s), kvrt_session_close(plain);
  }
}

// The context, or the whole pool, is full: at the same token, by the same reason.
static void full(const struct pair* p) {
  kvrt_model* small[] = {p->model, open_small(p, kSmall, 0, 5)};
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t room = i ? 5 * kSmall : p->stage.context;
    int32_t tokens[4096];
    for (uint32_t fixed = 1; fixed <= 31; fixed += 5) {
      struct transcript want = {0}, got = {0};
      for (int pass = 0; pass < 2; ++pass) {
        kvrt_session* s = open_session(small[i], NULL, 1);
        prompt_tokens(tokens, room - 21, 5, p->stage.vocab);
        MUST(kvrt_session_append(s, tokens, room - 21, NULL));
        kvrt_generate_options o = pass ? drafted_options(p->draft, 0) : answer_options(0);
        if (pass) o.draft_tokens_min = o.draft_tokens_max = fixed;
        note_generation(pass ? &got : &want, small[i], s, &o, 0);
        note_session(pass ? &got : &want, s);
        kvrt_session_close(s);
      }
      same_transcript(&got, &want, i ? "a full pool" : "a full context");
      EXPECT(want.report.reason == KVRT_REASON_CONTEXT_FULL && got.drafted > 0, "%u of %s: reason %u, drafted %" PRIu64, fixed,
             i ? "a pool" : "a context", want.report.reason, got.drafted);
      transcript_free(&want), transcript_free(&got);
    }
  }
  expect_no_leaks(small[1]);
  kvrt_model_release(small[1]);
}

// Blocks for less than two of four sessions: they lend each other theirs.
static void short_of_blocks(const struct pair* p) {
  kvrt_model* small = open_small(p, kSmall, 0, 11);
  kvrt_session* s[4];
  static struct transcript t[4];
  for (size_t i = 0; i < 4; ++i) {
    const kvrt_generate_options o = drafted_options(p->draft, kAnswer);
    s[i] = prompted(p, small, NULL);
    REQUIRE(note_begin(&t[i], s[i], &o), "begin");
  }
  for (size_t left = 4; left != 0;) {
    MUST(kvrt_model_step(small, 0, NULL, NULL));
    left = 0;
    for (size_t i = 0; i < 4; ++i) note_ready(&t[i], s[i]), left += !t[i].done;
  }
  for (size_t i = 0; i < 4; ++i) {
    same_transcript(&t[i], &p->plain, "short of blocks");
    transcript_free(&t[i]);
    kvrt_session_close(s[i]);
  }
  expect_no_leaks(small);
  kvrt_model_release(small);
}

struct cut {
  size_t tokens, at;
};
static int32_t stop_at(void* user, const kvrt_event* e) {
  struct cut* c = user;
  return e->type == KVRT_EVENT_TOKEN && ++c->tokens == c->at;
}

// A callback that stops the call within the tokens of one step, all of which the session has; then a fork, and both go on.
static void cut_and_forked(const struct pair* p) {
  for (size_t at = 1; at <= 24; ++at) {
    for (uint32_t whole = 0; whole < 2; ++whole) {
      kvrt_session *s = prompted(p, p->model, NULL), *fork = NULL;
      struct cut c = {0, at};
      kvrt_generate_options o = drafted_options(p->draft, kAnswer);
      o.draft_tokens_min = o.draft_tokens_max = 9, o.all_or_nothing = whole;
      EXPECT_STATUS(kvrt_session_generate(s, &o, stop_at, &c, NULL, NULL), KVRT_CANCELLED);
      const uint64_t count = session_props(s).tokens;
      const uint64_t least = kPrompt + (whole ? 0 : at), most = whole ? least : least + o.draft_tokens_max;
      EXPECT(count >= least && count <= most, "stopped at token %zu it has %" PRIu64, at, count - kPrompt);
      MUST(kvrt_session_fork(s, NULL, &fork, NULL));
      (void)expect_beginning(p, p->model, fork, whole ? 0 : at, "a fork after a cut");
      (void)expect_beginning(p, p->model, s, whole ? 0 : at, "after a cut");
      kvrt_session_close(s), kvrt_session_close(fork);
    }
  }
}

// What others may not have: nothing is proposed.
static void not_proposed(const struct pair* p) {
  for (int i = 0; i < 3; ++i) {
    kvrt_generate_options o = drafted_options(p->draft, i == 2 ? 0 : 24);
    o.emit_logits = i == 0, o.prefill = i == 1, o.draft_tokens_min = i == 2 ? 0 : 4;
    if (i == 1) o.ignore_eos = 0, o.top_logprobs = 0;
    if (i == 2) o.max_tokens = 1;
    kvrt_session* s = prompted(p, p->model, NULL);
    kvrt_report r = {.struct_size = sizeof r};
    MUST(kvrt_session_generate(s, &o, NULL, NULL, &r, NULL));
    EXPECT(r.drafted == 0, "case %d: drafted %" PRIu64, i, r.drafted);
    kvrt_session_close(s);
  }
}

// A draft of a session that shares nothing shares nothing either.
static void private_session(const struct pair* p) {
  kvrt_session_options private = {.struct_size = sizeof private, .no_prefix_cache = 1, .domain = "own", .domain_size = 3};
  kvrt_generate_options o = drafted_options(p->draft, kAnswer);
  for (int shares = 0; shares < 2; ++shares) {
    private.no_prefix_cache = !shares;
    kvrt_session *s = NULL, *host = NULL;
    MUST(kvrt_session_open(p->model, &private, &s, NULL));
    MUST(kvrt_session_append(s, p->prompt, kPrompt, NULL));
    MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
    kvrt_session_close(s);
    private.no_prefix_cache = 0;
    MUST(kvrt_session_open(p->draft, &private, &host, NULL));
    MUST(kvrt_session_append(host, p->prompt, kPrompt, NULL));
    kvrt_report r = {.struct_size = sizeof r};
    MUST(kvrt_session_prefill(host, KVRT_LOGITS_NONE, NULL, NULL, &r, NULL));
    EXPECT((r.reused_memory > 0) == shares, "a host's session of the draft's model reused %" PRIu64 " tokens", r.reused_memory);
    private.domain = "another", private.domain_size = 7;
    kvrt_session_close(host);
  }
}

static void counts(const struct pair* p) {
  const kvrt_metrics before = metrics_of(p->model), draft_before = metrics_of(p->draft);
  kvrt_generate_options o = drafted_options(p->draft, kAnswer);
  kvrt_session* s = prompted(p, p->model, NULL);
  kvrt_report r = {.struct_size = sizeof r};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, &r, NULL));
  const kvrt_metrics after = metrics_of(p->model);
  EXPECT(r.drafted > 0 && r.accepted > 0 && r.accepted <= r.drafted && r.accepted < r.generated, "%" PRIu64 " of %" PRIu64, r.accepted,
         r.drafted);
  EXPECT(after.drafted - before.drafted == r.drafted && after.accepted - before.accepted == r.accepted, "metrics say otherwise");
  EXPECT(after.steps - before.steps < r.generated, "%" PRIu64 " steps for %" PRIu64 " tokens", after.steps - before.steps, r.generated);
  const kvrt_metrics of_draft = metrics_of(p->draft);
  EXPECT(of_draft.sessions == 0 && of_draft.generating == 0, "the draft counts %" PRIu64 " sessions", of_draft.sessions);
  EXPECT(of_draft.done_max_tokens == draft_before.done_max_tokens && of_draft.done_cancelled == draft_before.done_cancelled &&
             of_draft.preemptions == draft_before.preemptions,
         "the draft counts generations: %" PRIu64 " ended by max_tokens", of_draft.done_max_tokens);
  uint32_t runnable = 0;
  MUST(kvrt_model_step(p->draft, 0, &runnable, NULL));
  EXPECT(runnable == 0, "the draft has left %u sessions to compute", runnable);
  kvrt_session_close(s);
}

int main(void) {
  static struct pair p;
  pair_open(&p);
  numbers(&p);
  drafts_that_do_not_fit(&p);
  another_model(&p);
  recurrent_draft(&p);
  weak_drafts(&p);
  draft_in_use(&p);
  unread(&p);
  full(&p);
  short_of_blocks(&p);
  cut_and_forked(&p);
  not_proposed(&p);
  private_session(&p);
  counts(&p);
  pair_close(&p);
  return finish();
}
