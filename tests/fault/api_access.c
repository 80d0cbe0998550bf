// Stores that cannot be written, are in use, or belong to others: each has its status, and nothing in them changes.
#include <fcntl.h>

#include "other_user.h"

static char tiny[kPathMax];

static uint64_t tree_hash;
static int hash_file(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)f;
  if (type != FTW_F) return 0;
  uint64_t h = hash_bytes(7, path, strlen(path));
  FILE* file = fopen(path, "rb");
  for (int c; file && (c = fgetc(file)) != EOF;) h = (h ^ (uint64_t)c) * 0x100000001B3u;
  if (file) fclose(file);
  tree_hash += h + (uint64_t)s->st_size;
  return 0;
}

static uint64_t hash_tree(const char* dir) {
  tree_hash = 0;
  nftw(dir, hash_file, 16, FTW_PHYS);
  return tree_hash;
}

static void make_store(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = open_session(model, store, 0);
  int32_t tokens[100];
  prompt_tokens(tokens, 100, 4, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 100, NULL));
  struct run r = {0};
  generate_into(s, 4, &r);
  MUST(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

// Everything that reads works; everything that writes is refused with READ_ONLY.
static int use_read_only(const char* dir, uint32_t ask) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = NULL;
  kvrt_store_options o = {.struct_size = sizeof o, .read_only = ask};
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  kvrt_store_props p = {.struct_size = sizeof p};
  MUST(kvrt_store_info(store, &p, NULL));
  EXPECT(p.read_only == 1 && p.sessions == 1, "read_only %u, %" PRIu64 " sessions", p.read_only, p.sessions);
  kvrt_report report = {0};
  kvrt_session* s = resume_session(model, store, "a", &report);
  EXPECT(report.reused_disk >= 96, "%" PRIu64 " from disk", report.reused_disk);
  struct run r = {0};
  generate_into(s, 4, &r);
  EXPECT(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL) == KVRT_IO ||
             kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL) == KVRT_INVALID ||
             kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL) == KVRT_UNSUPPORTED,
         "suspend: %s", kvrt_status_name(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL)));
  EXPECT(last_detail() == KVRT_DETAIL_READ_ONLY, "detail %d: %s", (int)last_detail(), last_message());
  generate_into(s, 4, &r);
  EXPECT(kvrt_store_remove(store, NULL, 0, "a", 1, NULL) != KVRT_OK && last_detail() == KVRT_DETAIL_READ_ONLY, "remove: %s",
         last_message());
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  return finish();
}

// Another process's calls on the store that this one has open.
static int beside(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = resume_session(model, store, "b", NULL);
  MUST(kvrt_session_checkpoint(s, "c", 1, NULL, NULL, NULL));
  EXPECT_STATUS(kvrt_store_remove(store, NULL, 0, "b", 1, NULL), KVRT_OK);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  return finish();
}

// Handles of one runtime share a directory's store; another runtime is as another process.
static void two_handles(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store *first = open_store(rt, dir), *second = open_store(rt, dir);
  kvrt_session* s = resume_session(model, first, "a", NULL);
  MUST(kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  s = resume_session(model, second, "b", NULL);
  kvrt_store_release(first);
  MUST(kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  EXPECT(again("beside", dir, 0) == 0, "a second process");
  EXPECT_STATUS(kvrt_store_remove(second, NULL, 0, "b", 1, NULL), KVRT_NOT_FOUND);
  kvrt_runtime* other = open_runtime(1, 0);
  kvrt_store* third = open_store(other, dir);
  MUST(kvrt_store_remove(third, NULL, 0, "c", 1, NULL));
  kvrt_store_release(third);
  kvrt_runtime_release(other);
  EXPECT_STATUS(kvrt_store_remove(second, NULL, 0, "c", 1, NULL), KVRT_NOT_FOUND);
  kvrt_store_release(second);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void saves_conflict(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  const int32_t token = 9;
  kvrt_save_options over = {.struct_size = sizeof over, .overwrite = 1};
  kvrt_session *a = resume_session(model, store, "a", NULL), *b = resume_session(model, store, "a", NULL);
  MUST(kvrt_session_append(a, &token, 1, NULL));
  kvrt_save_report report = {.struct_size = sizeof report};
  const uint64_t seen = session_props(a).revision;
  MUST(kvrt_session_checkpoint(a, "a", 1, NULL, &report, NULL));
  EXPECT(report.revision == seen + 1 && session_props(a).revision == seen + 1, "revision %" PRIu64, report.revision);
  report.revision = 77;
  EXPECT_STATUS(kvrt_session_checkpoint(b, "a", 1, NULL, &report, NULL), KVRT_CONFLICT);
  EXPECT(last_detail() == KVRT_DETAIL_REVISION && report.revision == 77, "detail %d", (int)last_detail());
  kvrt_session* other = open_session(model, store, 0);
  MUST(kvrt_session_append(other, &token, 1, NULL));
  EXPECT_STATUS(kvrt_session_suspend(other, "a", 1, NULL, NULL, NULL), KVRT_CONFLICT);
  EXPECT(last_detail() == KVRT_DETAIL_NAME_TAKEN && session_props(other).state == KVRT_STATE_IDLE, "detail %d", (int)last_detail());
  EXPECT_STATUS(kvrt_session_checkpoint(b, "a", 1, &over, &report, NULL), KVRT_OK);
  EXPECT(report.revision == seen + 2, "revision %" PRIu64, report.revision);
  MUST(kvrt_store_remove(store, NULL, 0, "a", 1, NULL));
  EXPECT_STATUS(kvrt_session_checkpoint(other, "a", 1, NULL, &report, NULL), KVRT_OK);
  EXPECT(report.revision > seen + 2, "the revision began again: %" PRIu64, report.revision);
  kvrt_session_close(a);
  kvrt_session_close(b);
  kvrt_session_close(other);
  // Domains: the same name is another session, and nothing is shared.
  kvrt_session_options o = {.struct_size = sizeof o, .store = store, .domain = "work", .domain_size = 4};
  MUST(kvrt_session_open(model, &o, &a, NULL));
  MUST(kvrt_session_append(a, (const int32_t[]){1, 2, 3}, 3, NULL));
  EXPECT_STATUS(kvrt_session_checkpoint(a, "a", 1, NULL, NULL, NULL), KVRT_OK);
  kvrt_session_close(a);
  MUST(kvrt_store_remove(store, "work", 4, "a", 1, NULL));
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  EXPECT_STATUS(kvrt_store_stat(store, "", 0, "a", 1, &entry, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void other_model(const char* dir) {
  static char paths[kModelsMax][kPathMax];
  const size_t count = list_tiny(paths);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_store* store = open_store(rt, dir);
  size_t tried = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(paths[i], tiny) == 0) continue;
    kvrt_model* model = open_model(rt, paths[i], 0, 0, 0);
    kvrt_session* s = NULL;
    if (model_props(model).has_weights) {
      EXPECT_STATUS(kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL), KVRT_INCOMPATIBLE);
      EXPECT(s == NULL && last_detail() == KVRT_DETAIL_MODEL_MISMATCH, "detail %d", (int)last_detail());
      ++tried;
    } else {
      EXPECT_STATUS(kvrt_session_open(model, NULL, &s, NULL), KVRT_UNSUPPORTED);
    }
    kvrt_model_release(model);
  }
  EXPECT(tried > 0, "no other model");
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  if (argc == 4) {
    snprintf(tiny, sizeof tiny, "%s", argv[3]);
    if (strcmp(argv[1], "beside") == 0) return beside(argv[2]);
    return use_read_only(argv[2], strcmp(argv[1], "asked") == 0);
  }
  char dir[kPathMax], path[kPathMax + 32];
  tiny_path(tiny, 0);
  make_dir(dir);
  snprintf(path, sizeof path, "%s/store", dir);
  make_store(path);
  carry(dir, tiny);
  struct stat mode;
  EXPECT(stat(path, &mode) == 0 && (mode.st_mode & 0777) == 0700, "mode %o", mode.st_mode & 0777);
  uint64_t before = hash_tree(path);
  EXPECT(again("asked", path, 0) == 0, "read_only = 1");
  EXPECT(hash_tree(path) == before, "read_only = 1 changed the store");
  if (geteuid() == 0) {  // a directory of theirs that another user cannot write
    char command[5 * kPathMax];
    snprintf(command, sizeof command, "chown -R 65534:65534 '%s' && chmod -R a-w '%s'", path, path);
    REQUIRE(system(command) == 0, "%s", command);
    before = hash_tree(path);
    const int result = again("found", path, 65534);
    EXPECT(result == 0 || result == kSkip, "a directory without write permission: %d", result);
    EXPECT(hash_tree(path) == before, "a read-only store changed");
    snprintf(command, sizeof command, "chmod -R u+w '%s' && chown -R 0:0 '%s'", path, path);
    REQUIRE(system(command) == 0, "%s", command);
  }
  two_handles(path);
  other_model(path);
  saves_conflict(path);
  // Damage to the catalog is named, and nothing is written over it.
  char catalog[2 * kPathMax];
  snprintf(catalog, sizeof catalog, "%s/catalog.db", path);
  EXPECT(access(catalog, F_OK) == 0, "no catalog.db");
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_store* store = NULL;
  FILE* f = fopen(catalog, "r+b");
  REQUIRE(f != NULL, "%s", catalog);
  fwrite("not a database, not at all", 1, 26, f);
  fclose(f);
  before = hash_tree(path);
  EXPECT_STATUS(kvrt_store_open(rt, path, strlen(path), NULL, &store, NULL), KVRT_CORRUPT);
  EXPECT(last_detail() == KVRT_DETAIL_CATALOG_CORRUPT, "detail %d: %s", (int)last_detail(), last_message());
  EXPECT(hash_tree(path) == before, "a corrupt store changed");
  unlink(catalog);
  EXPECT_STATUS(kvrt_store_open(rt, path, strlen(path), NULL, &store, NULL), KVRT_CORRUPT);
  EXPECT(last_detail() == KVRT_DETAIL_CATALOG_MISSING && store == NULL, "detail %d: %s", (int)last_detail(), last_message());
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
