// A seed drives random calls on several sessions, saves, restarts and a pool too small for all; a cache-free oracle computes every result.
// api_random [seconds] [seed] [model]
#include "../api/support.h"

enum { kSessions = 6, kNames = 4, kTokensMax = 300, kNew = 6 };

struct sim_session {
  kvrt_session* handle;
  int32_t tokens[kTokensMax];
  size_t count;
  int name;           // that it was last saved or resumed as; -1: never
  uint64_t revision;  // of that name, as this handle saw it
  char id[40];
};

struct saved {
  int exists;
  int32_t tokens[kTokensMax];
  size_t count;
  uint64_t revision, newest;  // newest: of all that this name ever had
  char id[40];
};

struct sim {
  uint64_t random;
  char tiny[kPathMax], dir[kPathMax];
  kvrt_runtime *runtime, *oracle_runtime;
  kvrt_model *model, *oracle_model, *draft;  // draft: the same file, in a pool of its own
  kvrt_store* store;
  struct sim_session session[kSessions];
  struct saved saved[kNames];
  uint32_t vocab;
  const char* op;
  long ops, generations, reused_memory, reused_disk, evicted, conflicts, restarts, drafted, accepted;
};

static size_t pick(struct sim* m, size_t n) { return (size_t)(next_random(&m->random) % n); }

// ---- the oracle: everything from the tokens, nothing kept -------------------------------------------------------------------------

static void oracle(struct sim* m, const int32_t* tokens, size_t count, uint32_t length, const kvrt_generate_options* o, struct run* want) {
  kvrt_session* s = open_session(m->oracle_model, NULL, 1);
  MUST(kvrt_session_append(s, tokens, count, NULL));
  memset(want, 0, sizeof *want);
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, o, run_callback, want, &report, NULL));
  REQUIRE(report.prefilled == count && want->count == length, "the oracle used a cache");
  kvrt_session_close(s);
}

static void check_tokens(struct sim* m, const struct sim_session* s) {
  int32_t got[kTokensMax + 1];
  const size_t count = session_tokens(s->handle, got, kTokensMax + 1);
  EXPECT(count == s->count && memcmp(got, s->tokens, count * sizeof *got) == 0, "op %ld %s: the session has %zu tokens of %zu, or others",
         m->ops, m->op, count, s->count);
}

// ---- the calls ---------------------------------------------------------------------------------------------------------------------

static void open_all(struct sim* m) {
  m->runtime = open_runtime(1 + (uint32_t)pick(m, 2), 0);
  const uint32_t blocks[] = {16, 32}, chunks[] = {5, 64, 512};
  // One session at its longest fits; all together do not.
  m->model = open_model(m->runtime, m->tiny, chunks[pick(m, 3)], blocks[pick(m, 2)], 352 + 64 * pick(m, 8));
  m->draft = open_model(m->runtime, m->tiny, 64, blocks[pick(m, 2)], 64 + 64 * pick(m, 6));
  m->store = open_store(m->runtime, m->dir);
}

// The options for the oracle, and those with proposals in half of the calls, which change nothing. They need a generation without logits.
static kvrt_generate_options with_proposals(struct sim* m, kvrt_generate_options* o) {
  const int speculates = pick(m, 2) != 0;
  if (speculates) o->emit_logits = 0;
  kvrt_generate_options more = *o;
  if (!speculates) return more;
  const size_t kind = pick(m, 4);
  if (kind < 2) more.lookup = 1;
  if (kind == 1) more.prediction = "one two three one two three four", more.prediction_size = strlen(more.prediction);
  if (kind > 0) more.draft = m->draft;
  more.draft_tokens_max = 1 + (uint32_t)pick(m, 32);
  if (pick(m, 4) != 0) more.draft_tokens_min = 1 + (uint32_t)pick(m, more.draft_tokens_max);
  return more;
}

static void op_append(struct sim* m, struct sim_session* s) {
  const size_t space = kTokensMax - 2 * kNew - s->count, count = pick(m, 60);
  if (s->count + 2 * kNew >= kTokensMax || count > space) return;
  // Few kinds of text, so that prefixes meet.
  int32_t text[60];
  prompt_tokens(text, 60, 1 + pick(m, 3), m->vocab);
  MUST(kvrt_session_append(s->handle, text, count, NULL));
  memcpy(s->tokens + s->count, text, count * sizeof *text);
  s->count += count;
}

static void op_generate(struct sim* m, struct sim_session* s) {
  if (s->count == 0 || s->count + kNew > kTokensMax) return;
  static struct run want, got;
  kvrt_generate_options o = run_options(1 + (uint32_t)pick(m, kNew));
  if (pick(m, 2)) o.temperature = 0;
  const kvrt_generate_options more = with_proposals(m, &o);
  oracle(m, s->tokens, s->count, o.max_tokens, &o, &want);
  memset(&got, 0, sizeof got);
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s->handle, &more, run_callback, &got, &report, NULL));
  check_report(&report, m->op);
  EXPECT(report.prompt_tokens == s->count, "prompt of %" PRIu64, report.prompt_tokens);
  EXPECT(got.count == want.count && memcmp(got.token, want.token, got.count * sizeof *got.token) == 0 &&
             memcmp(got.digest, want.digest, got.count * sizeof *got.digest) == 0,
         "op %ld: generate after %zu tokens differs from the oracle (memory %" PRIu64 ", disk %" PRIu64 ", prefilled %" PRIu64 ")", m->ops,
         s->count, report.reused_memory, report.reused_disk, report.prefilled);
  memcpy(s->tokens + s->count, want.token, want.count * sizeof *want.token);
  s->count += want.count;
  EXPECT(report.accepted <= report.drafted && report.accepted < report.generated,
         "%" PRIu64 " of %" PRIu64 " proposals for %" PRIu64 " tokens", report.accepted, report.drafted, report.generated);
  ++m->generations;
  m->drafted += (long)report.drafted;
  m->accepted += (long)report.accepted;
  m->reused_memory += report.reused_memory > 0;
  m->reused_disk += report.reused_disk > 0;
  m->evicted += report.reuse_stopped == KVRT_REUSE_EVICTED;
}

static void op_cancelled(struct sim* m, struct sim_session* s) {
  if (s->count == 0 || s->count + 2 * kNew > kTokensMax) return;
  static struct run want, got;
  kvrt_generate_options o = run_options(kNew);
  const kvrt_generate_options more = with_proposals(m, &o);
  oracle(m, s->tokens, s->count, kNew, &o, &want);
  memset(&got, 0, sizeof got);
  MUST(kvrt_session_begin(s->handle, &more, NULL));
  for (size_t reads = pick(m, 6); reads != 0 && !got.done; --reads) {
    kvrt_event e = {.struct_size = sizeof e};
    MUST(kvrt_session_next(s->handle, &e, -1, NULL));
    run_event(&got, &e);
  }
  MUST(kvrt_session_cancel(s->handle, NULL));
  while (!got.done) {
    kvrt_event e = {.struct_size = sizeof e};
    MUST(kvrt_session_next(s->handle, &e, -1, NULL));
    run_event(&got, &e);
  }
  const uint64_t accepted = session_props(s->handle).tokens - s->count;
  EXPECT(accepted <= kNew && accepted >= got.count, "%" PRIu64 " accepted, %zu seen", accepted, got.count);
  EXPECT(memcmp(got.token, want.token, got.count * sizeof *got.token) == 0, "op %ld: a cancelled generation differs", m->ops);
  memcpy(s->tokens + s->count, want.token, accepted * sizeof *want.token);
  s->count += accepted;
}

static void op_prefill(struct sim* m, struct sim_session* s) {
  if (s->count == 0 || s->count + 1 > kTokensMax) return;
  static struct run want;
  const kvrt_generate_options o = run_options(1);
  oracle(m, s->tokens, s->count, 1, &o, &want);
  EXPECT(next_digest(s->handle, NULL) == want.digest[0], "op %ld: prefill after %zu tokens differs from the oracle", m->ops, s->count);
}

static void op_truncate(struct sim* m, struct sim_session* s) {
  const size_t to = pick(m, s->count + 1);
  MUST(kvrt_session_truncate(s->handle, to, NULL));
  s->count = to;
}

static void op_fork(struct sim* m, struct sim_session* s) {
  struct sim_session* to = &m->session[pick(m, kSessions)];
  if (to == s) return;
  kvrt_session_close(to->handle);
  *to = *s;
  to->name = -1, to->revision = 0;
  MUST(kvrt_session_fork(s->handle, NULL, &to->handle, NULL));
  memcpy(to->id, session_props(to->handle).id, sizeof to->id);
  EXPECT(strcmp(to->id, s->id) != 0 && to->id[0], "the fork has the same id");
  check_tokens(m, to);
}

static void op_reopen(struct sim* m, struct sim_session* s) {
  kvrt_session_close(s->handle);
  memset(s, 0, sizeof *s);
  s->handle = open_session(m->model, m->store, pick(m, 8) == 0);
  s->name = -1;
  memcpy(s->id, session_props(s->handle).id, sizeof s->id);
}

static void op_save(struct sim* m, struct sim_session* s, int suspend) {
  const int which = (int)pick(m, kNames);
  struct saved* saved = &m->saved[which];
  const char name[2] = {(char)('a' + which), 0};
  kvrt_save_options o = {.struct_size = sizeof o, .durability = (uint32_t)pick(m, 5), .overwrite = pick(m, 3) == 0};
  kvrt_save_report report = {.struct_size = sizeof report};
  const kvrt_status status = (suspend ? kvrt_session_suspend : kvrt_session_checkpoint)(s->handle, name, 1, &o, &report, NULL);
  const int mine = saved->exists && strcmp(saved->id, s->id) == 0;
  if (!saved->exists || o.overwrite || (mine && s->name == which && s->revision == saved->revision)) {
    EXPECT(status == KVRT_OK, "op %ld: save: %s %s", m->ops, kvrt_status_name(status), last_message());
  } else if (!mine || s->name == which) {
    EXPECT(status == KVRT_CONFLICT, "op %ld: save over %s: %s", m->ops, mine ? "a newer revision" : "another session",
           kvrt_status_name(status));
  } else {  // saved under another name in between: the handle may or may not remember
    EXPECT(status == KVRT_OK || status == KVRT_CONFLICT, "op %ld: save: %s", m->ops, kvrt_status_name(status));
  }
  m->conflicts += status == KVRT_CONFLICT;
  if (status != KVRT_OK) return;
  EXPECT(report.revision > saved->newest && report.tokens == s->count, "op %ld: revision %" PRIu64 " after %" PRIu64, m->ops,
         report.revision, saved->newest);
  // Under its first name a session keeps its id; under another name it is another session.
  const kvrt_session_props p = session_props(s->handle);
  EXPECT((strcmp(p.id, s->id) == 0) == (s->name == -1 || s->name == which), "op %ld: id %s became %s", m->ops, s->id, p.id);
  memcpy(s->id, p.id, sizeof s->id);
  saved->exists = 1;
  saved->count = s->count;
  memcpy(saved->tokens, s->tokens, sizeof saved->tokens);
  memcpy(saved->id, s->id, sizeof saved->id);
  saved->revision = saved->newest = s->revision = report.revision;
  s->name = which;
  EXPECT(session_props(s->handle).state == (suspend ? KVRT_STATE_SUSPENDED : KVRT_STATE_IDLE) || !suspend, "state after save");
}

static void op_resume(struct sim* m, struct sim_session* s) {
  const int which = (int)pick(m, kNames);
  const struct saved* saved = &m->saved[which];
  const char name[2] = {(char)('a' + which), 0};
  kvrt_session* handle = NULL;
  kvrt_report report = {.struct_size = sizeof report};
  const kvrt_status status = kvrt_session_resume(m->model, m->store, name, 1, NULL, NULL, NULL, &report, &handle, NULL);
  EXPECT(status == (saved->exists ? KVRT_OK : KVRT_NOT_FOUND), "op %ld: resume: %s %s", m->ops, kvrt_status_name(status), last_message());
  if (status != KVRT_OK) return;
  check_report(&report, "resume");
  kvrt_session_close(s->handle);
  s->handle = handle;
  s->count = saved->count, s->name = which, s->revision = saved->revision;
  memcpy(s->tokens, saved->tokens, sizeof s->tokens);
  memcpy(s->id, saved->id, sizeof s->id);
  const kvrt_session_props p = session_props(handle);
  EXPECT(strcmp(p.id, saved->id) == 0 && p.revision == saved->revision && strcmp(p.name, name) == 0,
         "op %ld: resumed \"%s\" id %s revision %" PRIu64 "; saved was id %s revision %" PRIu64, m->ops, p.name, p.id, p.revision,
         saved->id, saved->revision);
  check_tokens(m, s);
}

static void op_remove(struct sim* m) {
  const int which = (int)pick(m, kNames);
  const char name[2] = {(char)('a' + which), 0};
  const kvrt_status status = kvrt_store_remove(m->store, NULL, 0, name, 1, NULL);
  EXPECT(status == (m->saved[which].exists ? KVRT_OK : KVRT_NOT_FOUND), "op %ld: remove: %s", m->ops, kvrt_status_name(status));
  m->saved[which].exists = 0;
}

// Some sessions at once, each compared with the oracle.
static void op_together(struct sim* m) {
  static struct run want[kSessions], got[kSessions];
  int taking[kSessions] = {0}, left = 0;
  memset(got, 0, sizeof got);
  for (int i = 0; i < 3; ++i) {
    struct sim_session* s = &m->session[i];
    if (s->count == 0 || s->count > 80) continue;
    kvrt_generate_options o = run_options(kNew);
    const kvrt_generate_options more = with_proposals(m, &o);
    oracle(m, s->tokens, s->count, kNew, &o, &want[i]);
    MUST(kvrt_session_begin(s->handle, &more, NULL));
    taking[i] = 1, ++left;
  }
  while (left != 0) {
    for (int i = 0; i < kSessions; ++i) {
      if (!taking[i] || got[i].done) continue;
      kvrt_event e = {.struct_size = sizeof e};
      MUST(kvrt_session_next(m->session[i].handle, &e, -1, NULL));
      run_event(&got[i], &e);
      left -= got[i].done;
    }
  }
  for (int i = 0; i < kSessions; ++i) {
    if (!taking[i]) continue;
    struct sim_session* s = &m->session[i];
    EXPECT(got[i].count == kNew && memcmp(got[i].token, want[i].token, kNew * sizeof *got[i].token) == 0 &&
               memcmp(got[i].digest, want[i].digest, kNew * sizeof *got[i].digest) == 0,
           "op %ld: session %d of several differs from the oracle", m->ops, i);
    memcpy(s->tokens + s->count, want[i].token, kNew * sizeof *s->tokens);
    s->count += kNew;
  }
}

static void op_restart(struct sim* m) {
  for (int i = 0; i < kSessions; ++i) {
    kvrt_session_close(m->session[i].handle);
    m->session[i].handle = NULL;
  }
  EXPECT_STATUS(kvrt_store_verify(m->store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(m->store);
  kvrt_model_release(m->model);
  kvrt_model_release(m->draft);
  kvrt_runtime_release(m->runtime);
  open_all(m);
  for (int i = 0; i < kSessions; ++i) op_reopen(m, &m->session[i]);
  ++m->restarts;
}

static void step(struct sim* m) {
  struct sim_session* s = &m->session[pick(m, kSessions)];
  const size_t what = pick(m, 100);
#define OP(below, call) else if (what < below) m->op = #call, call
  if (0) {
  }
  OP(22, op_append(m, s));
  OP(50, op_generate(m, s));
  OP(54, op_cancelled(m, s));
  OP(58, op_prefill(m, s));
  OP(65, op_truncate(m, s));
  OP(72, op_fork(m, s));
  OP(76, op_save(m, s, 0));
  OP(83, op_save(m, s, 1));
  OP(91, op_resume(m, s));
  OP(93, op_remove(m));
  OP(96, op_together(m));
  OP(99, op_reopen(m, s));
  else m->op = "op_restart(m)", op_restart(m);
#undef OP
  if (s->handle) check_tokens(m, s);
  ++m->ops;
}

int main(int argc, char** argv) {
  static struct sim m;
  const double seconds = argc > 1 ? atof(argv[1]) : 10;
  m.random = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  printf("seed %" PRIu64 "\n", m.random);
  fflush(stdout);
  if (argc > 3) {
    snprintf(m.tiny, sizeof m.tiny, "%s", argv[3]);
  } else {
    tiny_path(m.tiny, 0);
  }
  make_dir(m.dir);
  m.oracle_runtime = open_runtime(1, 0);
  m.oracle_model = open_model(m.oracle_runtime, m.tiny, 512, 32, 2048);
  m.vocab = model_props(m.oracle_model).vocab_size;
  open_all(&m);
  for (int i = 0; i < kSessions; ++i) op_reopen(&m, &m.session[i]);
  const double start = now_ms();
  while (now_ms() - start < seconds * 1e3 && atomic_load(&support_failures) == 0) step(&m);
  printf(
      "%ld calls, %ld generations (%ld reused memory, %ld disk, %ld after eviction), %ld conflicts, %ld restarts, %ld of %ld proposals\n",
      m.ops, m.generations, m.reused_memory, m.reused_disk, m.evicted, m.conflicts, m.restarts, m.accepted, m.drafted);
  EXPECT(m.generations < 500 ||
             (m.reused_memory > 0 && m.reused_disk > 0 && m.evicted > 0 && m.conflicts > 0 && m.restarts > 0 && m.accepted > 0),
         "the run missed a part of its purpose");
  for (int i = 0; i < kSessions; ++i) kvrt_session_close(m.session[i].handle);
  EXPECT(model_props(m.model).units_free + model_props(m.model).units_cached == model_props(m.model).units, "units leak");
  kvrt_store_release(m.store);
  EXPECT(model_props(m.draft).units_free + model_props(m.draft).units_cached == model_props(m.draft).units, "units of the draft leak");
  kvrt_model_release(m.model);
  kvrt_model_release(m.draft);
  kvrt_runtime_release(m.runtime);
  kvrt_model_release(m.oracle_model);
  kvrt_runtime_release(m.oracle_runtime);
  remove_tree(m.dir);
  return finish();
}
