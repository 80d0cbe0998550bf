// A store whose catalog is gone in part: repaired, it resumes with the logits of one that never was damaged.
#include "support.h"

enum { kTokens = 90, kBlock = 32, kSessions = 12, kPage = 4096 };

static char tiny[kPathMax];
static uint64_t want[kSessions];

static void name_of(int i, char name[24]) { snprintf(name, 24, "session-%02d", i); }

static void make_store(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, kBlock, 2048);
  kvrt_store* store = open_store(rt, dir);
  int32_t tokens[kTokens];
  for (int i = 0; i < kSessions; ++i) {
    char name[24];
    name_of(i, name);
    kvrt_session* s = open_session(model, store, 0);
    prompt_tokens(tokens, kTokens, 50 + (uint64_t)i, model_props(model).vocab_size);
    MUST(kvrt_session_append(s, tokens, kTokens, NULL));
    want[i] = next_digest(s, NULL);
    MUST(kvrt_session_suspend(s, name, strlen(name), NULL, NULL, NULL));
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

struct found {
  kvrt_model* model;
  kvrt_store* store;
  int named, recovered;
};

static int32_t resume_entry(void* user, const kvrt_event* e) {
  struct found* f = user;
  if (e->type != KVRT_EVENT_ENTRY) return 0;
  const char* name = e->entry->name;
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_resume(f->model, f->store, name, strlen(name), NULL, NULL, NULL, NULL, &s, NULL);
  EXPECT(status == KVRT_OK, "%s: resume: %s %s", name, kvrt_status_name(status), last_message());
  if (status != KVRT_OK) return 0;
  int which = -1;
  if (strncmp(name, "session-", 8) == 0) which = atoi(name + 8);
  const uint64_t digest = next_digest(s, NULL);
  for (int i = 0; which < 0 && i < kSessions; ++i) {
    if (digest == want[i]) which = i;
  }
  EXPECT(which >= 0 && digest == want[which], "%s: other logits", name);
  *(strncmp(name, "session-", 8) == 0 ? &f->named : &f->recovered) += 1;
  kvrt_session_close(s);
  return 0;
}

static int32_t count_faults(void* user, const kvrt_event* e) {
  if (e->type == KVRT_EVENT_FAULT) ++*(int*)user;
  return 0;
}
static int32_t stop(void* user, const kvrt_event* e) { return (void)user, (void)e, 1; }

// Repairs, resumes every session there is, compares.
static void examine(const char* dir, const char* what, int named_min) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_repair_report r = {.struct_size = sizeof r};
  int faults = 0;
  EXPECT_STATUS(kvrt_store_repair(rt, dir, strlen(dir), stop, NULL, &r, NULL), KVRT_CANCELLED);
  EXPECT_STATUS(kvrt_store_repair(rt, dir, strlen(dir), count_faults, &faults, &r, NULL), KVRT_OK);
  EXPECT(faults > 0 && r.outcome == KVRT_REPAIR_REBUILT, "%s: %d faults, outcome %u", what, faults, r.outcome);
  struct found f = {.model = open_model(rt, tiny, 0, kBlock, 2048)};
  f.store = open_store(rt, dir);
  EXPECT_STATUS(kvrt_store_repair(rt, dir, strlen(dir), NULL, NULL, NULL, NULL), KVRT_BUSY);
  EXPECT_STATUS(kvrt_store_verify(f.store, NULL, NULL, NULL), KVRT_OK);
  MUST(kvrt_store_list(f.store, NULL, 0, resume_entry, &f, NULL));
  EXPECT(f.named >= named_min && f.named == (int)r.sessions_kept && f.recovered == (int)r.sessions_recovered,
         "%s: %d sessions by name, %d recovered; the report says %d and %d", what, f.named, f.recovered, (int)r.sessions_kept,
         (int)r.sessions_recovered);
  kvrt_store_release(f.store);
  faults = 0;
  EXPECT_STATUS(kvrt_store_repair(rt, dir, strlen(dir), count_faults, &faults, &r, NULL), KVRT_OK);
  EXPECT(faults == 0 && r.outcome == KVRT_REPAIR_SOUND, "%s: again: %d faults, outcome %u", what, faults, r.outcome);
  kvrt_model_release(f.model);
  kvrt_runtime_release(rt);
}

// A repair that has changed something goes on; the callback that wanted to stop it hears no more of it. Two things are to be mended here.
static int32_t stop_and_count(void* user, const kvrt_event* e) { return (void)e, ++*(int*)user, 1; }
static void goes_on_without(const char* dir, const char* catalog) {
  char format[kPathMax + 32];
  snprintf(format, sizeof format, "%s/FORMAT", dir);
  FILE* f = fopen(catalog, "r+b");
  REQUIRE(f != NULL && fseek(f, 71, SEEK_SET) == 0, "%s: open", catalog);
  const int byte = fgetc(f);  // the last one of the application's id
  REQUIRE(fseek(f, 71, SEEK_SET) == 0 && fputc(byte ^ 1, f) == (byte ^ 1), "%s: flip a bit", catalog);
  fclose(f);
  REQUIRE(remove(format) == 0, "%s: remove", format);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_repair_report r = {.struct_size = sizeof r};
  int calls = 0;
  EXPECT_STATUS(kvrt_store_repair(rt, dir, strlen(dir), stop_and_count, &calls, &r, NULL), KVRT_OK);
  EXPECT(calls == 1 && r.outcome == KVRT_REPAIR_MENDED, "%d calls, outcome %u", calls, r.outcome);
  kvrt_runtime_release(rt);
}

static void overwrite(const char* path, long at, size_t size) {
  unsigned char zeros[kPage] = {0};
  FILE* f = fopen(path, "r+b");
  REQUIRE(f != NULL && fseek(f, at, SEEK_SET) == 0 && fwrite(zeros, 1, size, f) == size, "%s: overwrite at %ld", path, at);
  fclose(f);
}

int main(void) {
  char dir[kPathMax], sound[kPathMax + 8], work[kPathMax + 8], catalog[kPathMax + 32], command[5 * kPathMax], what[64];
  tiny_path(tiny, 0);
  make_dir(dir);
  snprintf(sound, sizeof sound, "%s/sound", dir);
  snprintf(work, sizeof work, "%s/work", dir);
  snprintf(catalog, sizeof catalog, "%s/catalog.db", work);
  make_store(sound);
  snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", work, sound, work);
  struct stat size;
  REQUIRE(system(command) == 0, "%s", command);
  goes_on_without(work, catalog);
  REQUIRE(system(command) == 0 && stat(catalog, &size) == 0, "%s", command);
  for (long at = 0; at < size.st_size; at += kPage) {
    unsigned char page[kPage], zeros[kPage] = {0};
    REQUIRE(system(command) == 0, "%s", command);
    FILE* f = fopen(catalog, "rb");
    REQUIRE(f != NULL && fseek(f, at, SEEK_SET) == 0 && fread(page, 1, kPage, f) == kPage, "%s: read", catalog);
    fclose(f);
    if (memcmp(page, zeros, kPage) == 0) continue;
    overwrite(catalog, at, kPage);
    int hurt = 0;  // sessions on it
    for (int i = 0; i < kSessions; ++i) {
      char name[24];
      name_of(i, name);
      hurt += memmem(page, kPage, name, strlen(name)) != NULL;
    }
    snprintf(what, sizeof what, "page %ld is zero", at / kPage + 1);
    examine(work, what, kSessions - hurt);
  }
  remove_tree(dir);
  return finish();
}
