// rename, pin, set_ttl and gc, and saves with pin and ttl: their promises to handles, to other sessions and to a reader of stat.
#include "support.h"

enum { kTrunk = 96, kBranch = 40, kAll = kTrunk + kBranch };

struct world {
  char dir[kPathMax], tiny[kPathMax];
  kvrt_runtime* rt;
  kvrt_model* model;
  kvrt_store* store;
  uint32_t vocab;
};

static void world_open(struct world* w) {
  make_dir(w->dir);
  tiny_path(w->tiny, 1);
  w->rt = open_runtime(1, 0);
  w->model = open_model(w->rt, w->tiny, 0, 0, 0);
  w->vocab = model_props(w->model).vocab_size;
  w->store = open_store(w->rt, w->dir);
}

static void world_close(struct world* w) {
  kvrt_store_release(w->store);
  kvrt_model_release(w->model);
  kvrt_runtime_release(w->rt);
  remove_tree(w->dir);
}

// A session of the common trunk and a branch of its own, computed; its next logits are `*digest`.
static kvrt_session* make(struct world* w, uint64_t branch, uint64_t* digest) {
  int32_t tokens[kAll];
  prompt_tokens(tokens, kTrunk, 1, w->vocab);
  prompt_tokens(tokens + kTrunk, kBranch, branch, w->vocab);
  kvrt_session* s = open_session(w->model, w->store, 0);
  MUST(kvrt_session_append(s, tokens, kAll, NULL));
  const uint64_t d = next_digest(s, NULL);
  if (digest) *digest = d;
  return s;
}

static kvrt_status save(kvrt_session* s, const char* name, uint32_t overwrite, uint32_t pin, uint64_t ttl) {
  const kvrt_save_options o = {.struct_size = sizeof o, .overwrite = overwrite, .pin = pin, .ttl_seconds = ttl};
  return kvrt_session_checkpoint(s, name, strlen(name), &o, NULL, NULL);
}

static uint64_t make_saved(struct world* w, const char* name, uint64_t branch, uint32_t pin, uint64_t ttl) {
  uint64_t digest;
  kvrt_session* s = make(w, branch, &digest);
  MUST(save(s, name, 0, pin, ttl));
  kvrt_session_close(s);
  return digest;
}

static kvrt_status stat_of(struct world* w, const char* name, kvrt_store_entry* out) {
  KVRT_INIT(out);
  return kvrt_store_stat(w->store, NULL, 0, name, strlen(name), out, NULL);
}

static kvrt_status rename_to(struct world* w, const char* from, const char* to) {
  return kvrt_store_rename(w->store, NULL, 0, from, strlen(from), to, strlen(to), NULL);
}
static kvrt_status pin(struct world* w, const char* name, uint32_t pinned) {
  return kvrt_store_pin(w->store, NULL, 0, name, strlen(name), pinned, NULL);
}
static kvrt_status set_ttl(struct world* w, const char* name, uint64_t seconds) {
  return kvrt_store_set_ttl(w->store, NULL, 0, name, strlen(name), seconds, NULL);
}

// A model that has nothing in memory resumes the session whole from the disk, to the same bits.
static void expect_resumes(struct world* w, const char* name, uint64_t digest) {
  kvrt_model* cold = open_model(w->rt, w->tiny, 0, 0, 0);
  kvrt_report r;
  KVRT_INIT(&r);
  kvrt_session* s = resume_session(cold, w->store, name, &r);
  EXPECT(r.prompt_tokens == kAll && r.reused_disk == kAll, "%s: %" PRIu64 " tokens, %" PRIu64 " from the disk", name, r.prompt_tokens,
         r.reused_disk);
  EXPECT(next_digest(s, NULL) == digest, "%s: other logits than before the save", name);
  kvrt_session_close(s);
  kvrt_model_release(cold);
}

static void expect_verified(struct world* w) { EXPECT_STATUS(kvrt_store_verify(w->store, NULL, NULL, NULL), KVRT_OK); }

static int32_t count_entry(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_ENTRY) ++*(int*)user;
  return 0;
}
static int listed(struct world* w) {
  int count = 0;
  MUST(kvrt_store_list(w->store, NULL, 0, count_entry, &count, NULL));
  return count;
}

static int64_t unix_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void wait_until(int64_t unix_ms) {
  while (unix_now_ms() <= unix_ms) usleep(10000);
}

static void arguments(struct world* w) {
  EXPECT_STATUS(kvrt_store_rename(NULL, NULL, 0, "a", 1, "b", 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 4, "a", 1, "b", 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 0, NULL, 1, "b", 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 0, "a", 1, NULL, 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 0, "a", 1, "", 0, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 0, "a", 1, "\xff", 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_rename(w->store, NULL, 0, "a", 1, "b", 1, NULL), KVRT_NOT_FOUND);
  EXPECT_STATUS(kvrt_store_pin(NULL, NULL, 0, "a", 1, 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_pin(w->store, NULL, 0, NULL, 1, 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(pin(w, "a", 256), KVRT_INVALID);
  EXPECT_STATUS(pin(w, "a", 1), KVRT_NOT_FOUND);
  EXPECT_STATUS(kvrt_store_set_ttl(NULL, NULL, 0, "a", 1, 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(kvrt_store_set_ttl(w->store, NULL, 0, NULL, 1, 1, NULL), KVRT_INVALID);
  EXPECT_STATUS(set_ttl(w, "a", UINT64_MAX), KVRT_INVALID);
  EXPECT_STATUS(set_ttl(w, "a", 1), KVRT_NOT_FOUND);
  EXPECT_STATUS(kvrt_store_gc(NULL, NULL, NULL, NULL, NULL), KVRT_INVALID);
  kvrt_gc_report r;
  memset(&r, 0, sizeof r);
  EXPECT_STATUS(kvrt_store_gc(w->store, NULL, NULL, &r, NULL), KVRT_INVALID);  // struct_size 0
  EXPECT_STATUS(kvrt_store_gc(w->store, NULL, NULL, NULL, NULL), KVRT_OK);
  // A report of an older header: nothing is written past its size.
  memset(&r, 0x5a, sizeof r);
  r.struct_size = (uint32_t)offsetof(kvrt_gc_report, chunks_removed);
  EXPECT_STATUS(kvrt_store_gc(w->store, NULL, NULL, &r, NULL), KVRT_OK);
  EXPECT(r.sessions_removed == 0 && r.chunks_removed == 0x5a5a5a5a5a5a5a5aull, "a short report");
}

static void renames(struct world* w) {
  kvrt_store_entry before, entry;
  uint64_t ann_digest;
  kvrt_session* handle = make(w, 2, &ann_digest);
  MUST(save(handle, "ann", 0, 0, 0));
  make_saved(w, "bob", 3, 0, 0);
  MUST(stat_of(w, "ann", &before));
  EXPECT_STATUS(rename_to(w, "ann", "bob"), KVRT_CONFLICT);
  EXPECT(last_detail() == KVRT_DETAIL_NAME_TAKEN, "detail %d", (int)last_detail());
  MUST(rename_to(w, "ann", "eve"));
  EXPECT_STATUS(stat_of(w, "ann", &entry), KVRT_NOT_FOUND);
  MUST(stat_of(w, "eve", &entry));
  EXPECT(strcmp(entry.id, before.id) == 0 && entry.tokens == before.tokens && entry.created_unix_ms == before.created_unix_ms,
         "eve is another session than ann was");
  EXPECT(entry.revision > before.revision, "revision %" PRIu64 " after %" PRIu64, entry.revision, before.revision);
  expect_resumes(w, "eve", ann_digest);
  // The handle saw "ann": "eve" is not its own, and "ann" is free.
  EXPECT_STATUS(save(handle, "eve", 0, 0, 0), KVRT_CONFLICT);
  EXPECT(last_detail() == KVRT_DETAIL_NAME_TAKEN, "detail %d", (int)last_detail());
  int32_t more[8];
  prompt_tokens(more, 8, 9, w->vocab);
  MUST(kvrt_session_append(handle, more, 8, NULL));
  MUST(save(handle, "ann", 0, 0, 0));
  kvrt_store_entry again;
  MUST(stat_of(w, "ann", &again));
  EXPECT(again.tokens == kAll + 8 && again.revision > before.revision && strcmp(again.id, entry.id) != 0,
         "ann: %" PRIu64 " tokens, revision %" PRIu64 ", id %s, eve's %s", again.tokens, again.revision, again.id, entry.id);
  EXPECT(strcmp(session_props(handle).id, again.id) == 0 && session_props(handle).revision == again.revision, "the handle's props");
  MUST(save(handle, "ann", 0, 0, 0));
  expect_resumes(w, "eve", ann_digest);
  // Taken away and given to another meanwhile: a conflict, and overwriting is explicit.
  MUST(kvrt_store_remove(w->store, NULL, 0, "ann", 3, NULL));
  MUST(rename_to(w, "bob", "ann"));
  EXPECT_STATUS(save(handle, "ann", 0, 0, 0), KVRT_CONFLICT);
  MUST(stat_of(w, "ann", &entry));
  EXPECT(entry.tokens == kAll, "a refused save wrote: %" PRIu64 " tokens", entry.tokens);
  MUST(save(handle, "eve", 1, 0, 0));
  MUST(stat_of(w, "eve", &entry));
  EXPECT(entry.tokens == kAll + 8, "an overwrite did not: %" PRIu64 " tokens", entry.tokens);
  kvrt_session_close(handle);
  // A handle that resumed under the new name saves there.
  kvrt_session* resumed = resume_session(w->model, w->store, "ann", NULL);
  MUST(save(resumed, "ann", 0, 0, 0));
  kvrt_session_close(resumed);
  expect_verified(w);
}

static void lifetimes(struct world* w) {
  kvrt_store_entry e;
  const uint64_t kept = make_saved(w, "kept", 4, 0, 0), pinned = make_saved(w, "pinned", 5, 1, 1);
  make_saved(w, "short", 6, 0, 4);  // longer than all that comes before the wait
  make_saved(w, "later", 7, 0, 0);
  MUST(stat_of(w, "kept", &e));
  EXPECT(!e.pinned && e.expires_unix_ms == 0, "kept: pinned %u, expires %" PRId64, e.pinned, e.expires_unix_ms);
  MUST(stat_of(w, "pinned", &e));
  EXPECT(e.pinned == 1 && e.expires_unix_ms == e.saved_unix_ms + 1000, "pinned: %u, expires %" PRId64 ", saved %" PRId64, e.pinned,
         e.expires_unix_ms, e.saved_unix_ms);
  const int64_t now = unix_now_ms();
  MUST(set_ttl(w, "later", 4));
  MUST(stat_of(w, "later", &e));
  EXPECT(e.expires_unix_ms >= now + 4000 && e.expires_unix_ms < now + 60000, "later expires %" PRId64 ", now %" PRId64, e.expires_unix_ms,
         now);
  MUST(set_ttl(w, "kept", 3600));
  MUST(set_ttl(w, "kept", 0));
  const int before = listed(w);
  kvrt_store_props props = {.struct_size = sizeof props};
  MUST(kvrt_store_info(w->store, &props, NULL));
  const uint64_t chunks = props.chunks, sessions = props.sessions;
  wait_until(e.expires_unix_ms);
  for (int i = 0; i < 2; ++i) {
    const char* name = i ? "short" : "later";
    kvrt_session* s = NULL;
    EXPECT_STATUS(stat_of(w, name, &e), KVRT_NOT_FOUND);
    EXPECT_STATUS(kvrt_session_resume(w->model, w->store, name, strlen(name), NULL, NULL, NULL, NULL, &s, NULL), KVRT_NOT_FOUND);
    EXPECT_STATUS(rename_to(w, name, "other"), KVRT_NOT_FOUND);
    EXPECT_STATUS(pin(w, name, 1), KVRT_NOT_FOUND);
    EXPECT_STATUS(set_ttl(w, name, 0), KVRT_NOT_FOUND);
  }
  EXPECT(listed(w) == before - 2, "%d sessions listed, %d before", listed(w), before);
  MUST(kvrt_store_info(w->store, &props, NULL));
  EXPECT(props.sessions == sessions - 2 && props.chunks == chunks, "%" PRIu64 " sessions, %" PRIu64 " chunks before gc", props.sessions,
         props.chunks);
  kvrt_gc_report r;
  KVRT_INIT(&r);
  MUST(kvrt_store_gc(w->store, NULL, NULL, &r, NULL));
  MUST(kvrt_store_info(w->store, &props, NULL));
  EXPECT(r.sessions_removed == 2 && r.chunks_removed == chunks - props.chunks && r.chunks_removed >= 2 &&
             r.bytes_freed + r.bytes_punched > 0 && r.ms >= 0,
         "gc: %" PRIu64 " sessions, %" PRIu64 " chunks (of %" PRIu64 ", left %" PRIu64 "), %" PRIu64 " segments, %" PRIu64 " bytes",
         r.sessions_removed, r.chunks_removed, chunks, props.chunks, r.segments_removed, r.bytes_freed + r.bytes_punched);
  expect_resumes(w, "kept", kept);  // it shares the trunk with those that went
  expect_resumes(w, "pinned", pinned);
  MUST(pin(w, "pinned", 0));
  EXPECT_STATUS(stat_of(w, "pinned", &e), KVRT_NOT_FOUND);
  MUST(kvrt_store_gc(w->store, NULL, NULL, &r, NULL));
  EXPECT(r.sessions_removed == 1, "%" PRIu64 " sessions", r.sessions_removed);
  expect_resumes(w, "kept", kept);
  expect_verified(w);
}

struct stop {
  int calls, at;
  uint64_t done, total;
};
static int32_t stop_at(void* user, const kvrt_event* e) {
  struct stop* s = (struct stop*)user;
  EXPECT(e->type == KVRT_EVENT_PROGRESS && e->done >= s->done && e->done <= e->total, "PROGRESS %" PRIu64 " of %" PRIu64, e->done,
         e->total);
  s->done = e->done;
  s->total = e->total;
  return ++s->calls == s->at;
}

static void stopping(struct world* w) {
  const uint64_t digest = make_saved(w, "stays", 8, 0, 0);
  kvrt_status status = KVRT_CANCELLED;
  for (int at = 1; status == KVRT_CANCELLED && at < 100; at += 1 + at / 8) {
    char name[16];
    snprintf(name, sizeof name, "goes%d", at);
    make_saved(w, name, (uint64_t)(100 + at), 0, 1);
    wait_until(unix_now_ms() + 1000);
    struct stop s = {.at = at};
    status = kvrt_store_gc(w->store, stop_at, &s, NULL, NULL);
    EXPECT(status == KVRT_CANCELLED ? s.calls == at : s.done == s.total, "gc stopped at %d: status %d, %d calls, %" PRIu64 " of %" PRIu64,
           at, (int)status, s.calls, s.done, s.total);
    expect_verified(w);
    expect_resumes(w, "stays", digest);
  }
  EXPECT(status == KVRT_OK, "status %d", (int)status);
}

// Two sessions share a trunk, and each is removed while the other is saved. A save that returns OK has all its chunks.
struct racer {
  struct world* w;
  const char* name;
  uint64_t branch;
};
static void* race(void* user) {
  const struct racer* r = (const struct racer*)user;
  kvrt_session* s = make(r->w, r->branch, NULL);
  const kvrt_save_options o = {.struct_size = sizeof o, .durability = KVRT_DURABILITY_NONE};
  for (const double end = now_ms() + 700; now_ms() < end;) {
    MUST(kvrt_session_checkpoint(s, r->name, strlen(r->name), &o, NULL, NULL));
    kvrt_store_entry e;
    MUST(stat_of(r->w, r->name, &e));
    EXPECT(e.chunks_missing == 0, "%s: %" PRIu64 " chunks missing of a session just saved", r->name, e.chunks_missing);
    MUST(kvrt_store_remove(r->w->store, NULL, 0, r->name, strlen(r->name), NULL));
  }
  kvrt_session_close(s);
  return NULL;
}

static void removed_while_saving(struct world* w) {
  pthread_t thread;
  struct racer a = {w, "left", 20}, b = {w, "right", 21};
  REQUIRE(pthread_create(&thread, NULL, race, &a) == 0, "pthread_create");
  race(&b);
  pthread_join(thread, NULL);
  expect_verified(w);
}

static void read_only(void) {
  struct world w;
  world_open(&w);
  make_saved(&w, "ann", 2, 0, 0);
  kvrt_store_release(w.store);
  const kvrt_store_options o = {.struct_size = sizeof o, .read_only = 1};
  MUST(kvrt_store_open(w.rt, w.dir, strlen(w.dir), &o, &w.store, NULL));
  const kvrt_status as_remove = kvrt_store_remove(w.store, NULL, 0, "ann", 3, NULL);
  EXPECT(as_remove != KVRT_OK && last_detail() == KVRT_DETAIL_READ_ONLY, "remove: %d", (int)as_remove);
  EXPECT_STATUS(rename_to(&w, "ann", "bob"), as_remove);
  EXPECT_STATUS(pin(&w, "ann", 1), as_remove);
  EXPECT_STATUS(set_ttl(&w, "ann", 1), as_remove);
  EXPECT_STATUS(kvrt_store_gc(w.store, NULL, NULL, NULL, NULL), as_remove);
  EXPECT(last_detail() == KVRT_DETAIL_READ_ONLY, "detail %d", (int)last_detail());
  kvrt_store_entry e;
  MUST(stat_of(&w, "ann", &e));
  world_close(&w);
}

// A store is made, its parents are not.
static void places(struct world* w) {
  char path[1024];
  snprintf(path, sizeof path, "%s/no/store", w->dir);
  kvrt_store* none = NULL;
  EXPECT_STATUS(kvrt_store_open(w->rt, path, strlen(path), NULL, &none, NULL), KVRT_NOT_FOUND);
  EXPECT(strstr(last_message(), "/no") != NULL, "%s", last_message());
  kvrt_store_options there = {.struct_size = sizeof there, .must_exist = 1};
  snprintf(path, sizeof path, "%s-none", w->dir);
  EXPECT_STATUS(kvrt_store_open(w->rt, path, strlen(path), &there, &none, NULL), KVRT_NOT_FOUND);
  EXPECT(access(path, F_OK) != 0, "must_exist made %s", path);
}

// KVRT_STR is all of a literal but the NUL at its end.
static void literals(struct world* w) {
  kvrt_store_entry e;
  KVRT_INIT(&e);
  make_saved(w, "ann", 2, 0, 0);
  EXPECT_STATUS(kvrt_store_stat(w->store, KVRT_STR(""), KVRT_STR("ann"), &e, NULL), KVRT_OK);
  EXPECT(strcmp(e.name, "ann") == 0, "found %s", e.name);
  EXPECT_STATUS(kvrt_store_stat(w->store, NULL, 0, KVRT_STR("an"), &e, NULL), KVRT_NOT_FOUND);
  EXPECT_STATUS(kvrt_store_stat(w->store, NULL, 0, KVRT_STR("ann\0"), &e, NULL), KVRT_INVALID);
}

int main(void) {
  void (*const parts[])(struct world*) = {arguments, literals, places, renames, lifetimes, stopping, removed_while_saving};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    struct world w;
    world_open(&w);
    parts[i](&w);
    world_close(&w);
  }
  read_only();
  return finish();
}
