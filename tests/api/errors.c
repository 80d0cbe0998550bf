// Errors without a thread: `err` of one call is that call's alone, whoever reads it, and whatever fails elsewhere.
#include "misuse.h"

enum { kCalls = 2000, kThreads = 4 };

struct caller {
  struct stage* stage;
  int number;
  kvrt_error errors[kCalls];
};

// Each call names a file of its own; the errors are read by another thread, when all is over.
static void* fail_often(void* data) {
  struct caller* c = (struct caller*)data;
  for (int i = 0; i < kCalls; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/nowhere/%d-%d.gguf", c->number, i);
    kvrt_model* model = NULL;
    KVRT_INIT(&c->errors[i]);
    const kvrt_status got = kvrt_model_open(c->stage->runtime, path, strlen(path), NULL, NULL, NULL, &model, &c->errors[i]);
    EXPECT(got == KVRT_NOT_FOUND, "%s: %s", path, kvrt_status_name(got));
    if (i % 3 == 0) kvrt_session_truncate(NULL, 1, NULL);  // another failure of this thread, into nobody's error
  }
  return NULL;
}

static void read_by_others(struct stage* t) {
  static struct caller callers[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    callers[i] = (struct caller){.stage = t, .number = i};
    REQUIRE(pthread_create(&threads[i], NULL, fail_often, &callers[i]) == 0, "a thread");
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    for (int call = 0; call < kCalls; ++call) {
      char path[64];
      snprintf(path, sizeof path, "/nowhere/%d-%d.gguf", i, call);
      const kvrt_error* e = &callers[i].errors[call];
      EXPECT(e->status == KVRT_NOT_FOUND && strstr(e->message, path), "expected %s, got %d: %s", path, (int)e->status, e->message);
    }
  }
  kvrt_error mine;
  KVRT_INIT(&mine);
  EXPECT(kvrt_last_error(&mine) == KVRT_OK && !strstr(mine.message, "/nowhere/"), "another thread's error: %s", mine.message);
}

// A callback's failing call leaves the outer call's error alone, and the other way round.
static int32_t fail_inside(void* user, const kvrt_event* e) {
  kvrt_error inner;
  KVRT_INIT(&inner);
  EXPECT(kvrt_session_truncate(NULL, 1, &inner) == KVRT_INVALID && strstr(inner.message, "session"), "%s", inner.message);
  (void)user;
  return e->type == KVRT_EVENT_TOKEN;
}

static void nested(struct stage* t) {
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(t->model, NULL, &s, NULL));
  const int32_t prompt[3] = {5, 6, 7};
  MUST(kvrt_session_append(s, prompt, 3, NULL));
  kvrt_error err;
  KVRT_INIT(&err);
  EXPECT_STATUS(kvrt_session_generate(s, NULL, fail_inside, NULL, NULL, &err), KVRT_CANCELLED);
  EXPECT(err.status == KVRT_CANCELLED && strstr(err.message, "callback"), "%d: %s", (int)err.status, err.message);
  EXPECT_STATUS(kvrt_session_truncate(s, 1, &err), KVRT_OK);
  EXPECT(err.status == KVRT_CANCELLED, "a call that succeeds leaves err alone, found %d", (int)err.status);
  kvrt_session_close(s);
}

static void sizes(struct stage* t) {
  struct {
    kvrt_error error;
    unsigned char after[64];
  } room;
  canary(&room, sizeof room);
  room.error.struct_size = 24;  // an older and shorter one: 8 bytes of message
  EXPECT_STATUS(kvrt_session_open(NULL, NULL, NULL, &room.error), KVRT_INVALID);
  EXPECT(room.error.struct_size == 24 && room.error.status == KVRT_INVALID, "status %d", (int)room.error.status);
  EXPECT(has_canary((unsigned char*)&room + 24, sizeof room - 24), "written past its size");
  EXPECT(memchr(room.error.message, 0, 8), "no NUL in 8 bytes of message");
  // Cut at a whole code point: the path's é begins with the last byte that there is room for.
  static const char kPath[] = "/nowhere/\xc3\xa9\xc3\xa9\xc3\xa9";
  for (uint32_t bytes = 9; bytes <= 16; ++bytes) {
    kvrt_model* none = NULL;
    canary(&room, sizeof room);
    room.error.struct_size = 16 + bytes;
    EXPECT_STATUS(kvrt_model_open(t->runtime, kPath, sizeof kPath - 1, NULL, NULL, NULL, &none, &room.error), KVRT_NOT_FOUND);
    const size_t whole = (bytes - 1 - 9) / 2 * 2 + 9, want = bytes < 10 ? 8 : whole;
    EXPECT(strnlen(room.error.message, bytes) == want && !strncmp(room.error.message, kPath, want), "%u bytes: %zu, expected %zu",
           (unsigned)bytes, strnlen(room.error.message, bytes), want);
    EXPECT(has_canary((unsigned char*)&room + 16 + bytes, sizeof room - 16 - bytes), "written past its size");
  }
  kvrt_session* s = NULL;
  const uint32_t wrong[3] = {0, 3, 70000};
  for (int i = 0; i < 3; ++i) {  // a call whose error could not be told does nothing
    room.error.struct_size = wrong[i];
    EXPECT_STATUS(kvrt_session_open(t->model, NULL, &s, &room.error), KVRT_INVALID);
    EXPECT(s == NULL && strstr(last_message(), "err.struct_size"), "%s", last_message());
  }
}

int main(void) {
  static struct stage t;
  stage_open(&t);
  read_by_others(&t);
  nested(&t);
  sizes(&t);
  stage_close(&t);
  return finish();
}
