// A full disk during a save, by disk_bytes_max and a real one (a small tmpfs, where mounting is permitted). Where KV is to be durable:
// NO_SPACE, the session lives on and generates right, the store is as before. Else the tokens are saved, and the KV that has room.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "../api/support.h"

static char tiny[kPathMax];

static void snapshot(kvrt_store* store, kvrt_store_props* p) {
  p->struct_size = sizeof *p;
  MUST(kvrt_store_info(store, p, NULL));
}

static kvrt_session* with_tokens(kvrt_model* model, kvrt_store* store, uint64_t seed, size_t count) {
  static int32_t tokens[1024];
  kvrt_session* s = open_session(model, store, 0);
  prompt_tokens(tokens, count, seed, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, count, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  return s;
}

// Fills the file system to the last byte but `spare`.
static void fill_up(const char* dir, off_t spare) {
  char path[kPathMax + 8];
  static char zeros[1024];
  snprintf(path, sizeof path, "%s.full", dir);
  const int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
  REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
  while (write(fd, zeros, sizeof zeros) > 0) continue;
  EXPECT(errno == ENOSPC, "%s", strerror(errno));
  const off_t size = lseek(fd, 0, SEEK_END);
  REQUIRE(size >= spare && ftruncate(fd, size - spare) == 0, "%s: %s", path, strerror(errno));
  close(fd);
}

// Nobody gives way to it, and it to nobody.
static const kvrt_save_options kPinned = {.struct_size = sizeof kPinned, .durability = KVRT_DURABILITY_KV, .pin = 1};

// A full store that nobody has open can be opened, and a session of it removed.
static void reopen_full(kvrt_runtime* rt, kvrt_model* model, const char* dir, uint64_t disk_bytes_max, const char* what) {
  kvrt_store_options o = {.struct_size = sizeof o, .disk_bytes_max = disk_bytes_max};
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  kvrt_status status = KVRT_OK;
  char name[16];
  for (int i = 0; i < 1000 && status == KVRT_OK; ++i) {
    kvrt_session* s = with_tokens(model, store, 5000 + (uint64_t)i, 60);
    snprintf(name, sizeof name, "r%d", i);
    status = kvrt_session_suspend(s, name, strlen(name), &kPinned, NULL, NULL);
    kvrt_session_close(s);
  }
  EXPECT_STATUS(status, KVRT_NO_SPACE);
  kvrt_store_release(store);
  store = NULL;
  if (disk_bytes_max == 0) fill_up(dir, 0);
  EXPECT(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL) == KVRT_OK, "%s: it does not open again: %s", what, last_message());
  if (store == NULL) return;
  kvrt_store_release(store);
  const kvrt_store_options reads = {.struct_size = sizeof reads, .read_only = 1};
  store = NULL;
  EXPECT_STATUS(kvrt_store_open(rt, dir, strlen(dir), &reads, &store, NULL), KVRT_OK);
  if (store == NULL) return;
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  EXPECT_STATUS(kvrt_store_stat(store, NULL, 0, "r0", 2, &entry, NULL), KVRT_OK);
  kvrt_store_release(store);
  store = NULL;
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  EXPECT_STATUS(kvrt_store_remove(store, NULL, 0, "r0", 2, NULL), KVRT_OK);
  EXPECT_STATUS(kvrt_store_gc(store, NULL, NULL, NULL, NULL), KVRT_OK);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
}

// The store is full: a suspend that does not ask for durable KV saves the tokens, and a resume computes the missing KV.
static kvrt_session* tokens_alone(kvrt_model* model, kvrt_store* store, kvrt_session* s, kvrt_session* alone, const char* what) {
  kvrt_save_report saved = {.struct_size = sizeof saved};
  EXPECT_STATUS(kvrt_session_suspend(s, "tokens", 6, NULL, &saved, NULL), KVRT_OK);
  EXPECT(saved.chunks_missing > 0 && saved.chunks_written + saved.chunks_missing == saved.chunks,
         "%s: of %" PRIu64 " chunks %" PRIu64 " written, %" PRIu64 " left out", what, saved.chunks, saved.chunks_written,
         saved.chunks_missing);
  kvrt_session_close(s);
  kvrt_report resumed = {.struct_size = sizeof resumed};
  s = resume_session(model, store, "tokens", &resumed);
  EXPECT(session_props(s).tokens == session_props(alone).tokens, "%s: %" PRIu64 " tokens", what, session_props(s).tokens);
  struct run want = {0}, got = {0};
  generate_into(alone, 3, &want);
  generate_into(s, 3, &got);
  EXPECT(memcmp(got.digest, want.digest, sizeof got.digest) == 0, "%s: the resumed session went on differently", what);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  return s;
}

// Saves sessions until the store is full, and looks at it then.
static void fill(const char* dir, uint64_t disk_bytes_max, const char* what) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 4096);
  kvrt_store_options o = {.struct_size = sizeof o, .disk_bytes_max = disk_bytes_max};
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  kvrt_store_props before, after;
  kvrt_status status = KVRT_OK;
  int saved = 0;
  kvrt_session* s = NULL;
  for (; saved < 1000; ++saved) {
    s = with_tokens(model, store, 900 + (uint64_t)saved, 500);
    char name[16];
    snprintf(name, sizeof name, "s%d", saved);
    snapshot(store, &before);
    status = kvrt_session_suspend(s, name, strlen(name), &kPinned, NULL, NULL);
    if (status != KVRT_OK) break;
    kvrt_session_close(s);
  }
  EXPECT(status == KVRT_NO_SPACE && saved > 0, "%s: after %d saves: %s %s", what, saved, kvrt_status_name(status), last_message());
  printf("%s: full after %d sessions\n", what, saved);
  snapshot(store, &after);
  EXPECT(after.sessions == before.sessions && after.chunks == before.chunks && after.segments == before.segments &&
             after.chunk_bytes == before.chunk_bytes,
         "%s: the store changed: %" PRIu64 " sessions, %" PRIu64 " chunks; before %" PRIu64 ", %" PRIu64, what, after.sessions,
         after.chunks, before.sessions, before.chunks);
  EXPECT(session_props(s).state == KVRT_STATE_IDLE && session_props(s).kv_tokens == 500, "%s: state %u", what, session_props(s).state);
  kvrt_session* alone = with_tokens(model, NULL, 900 + (uint64_t)saved, 500);
  struct run want = {0}, got = {0};
  generate_into(alone, 10, &want);
  const kvrt_report report = generate_into(s, 10, &got);
  EXPECT(report.prefilled == 1, "%s: computed %" PRIu64 " again", what, report.prefilled);
  EXPECT(memcmp(got.digest, want.digest, sizeof got.digest) == 0, "%s: the session went on differently", what);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  s = tokens_alone(model, store, s, alone, what);
  snapshot(store, &after);
  EXPECT(disk_bytes_max == 0 || after.disk_bytes <= disk_bytes_max + (100 << 10), "%s: %" PRIu64 " bytes", what, after.disk_bytes);
  // Removing works when it is full, and then there is room.
  for (int i = 0; i < saved && i < 3; ++i) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    EXPECT_STATUS(kvrt_store_remove(store, NULL, 0, name, strlen(name), NULL), KVRT_OK);
  }
  EXPECT_STATUS(kvrt_session_suspend(s, "late", 4, NULL, NULL, NULL), KVRT_OK);
  kvrt_session_close(s);
  s = resume_session(model, store, "late", NULL);
  EXPECT(session_props(s).tokens == 513, "%" PRIu64 " tokens", session_props(s).tokens);
  kvrt_session_close(s);
  kvrt_session_close(alone);
  kvrt_store_release(store);
  reopen_full(rt, model, dir, disk_bytes_max, what);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

// The report has as many missing chunks as the catalog.
static void expect_missing(kvrt_store* store, const char* name, const kvrt_save_report* saved, const char* what) {
  kvrt_store_entry entry = {.struct_size = sizeof entry};
  MUST(kvrt_store_stat(store, NULL, 0, name, strlen(name), &entry, NULL));
  EXPECT(entry.chunks_missing == saved->chunks_missing && entry.chunks + entry.chunks_missing == saved->chunks,
         "%s: %" PRIu64 " chunks and %" PRIu64 " missing, the report says %" PRIu64 " missing of %" PRIu64, what, entry.chunks,
         entry.chunks_missing, saved->chunks_missing, saved->chunks);
}

// A file that may not grow beyond a limit, which no look at the file system foretells.
static void limited(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 4096);
  kvrt_store* store = open_store(rt, dir);
  struct rlimit none;
  getrlimit(RLIMIT_FSIZE, &none);
  uint64_t missing = 0, whole = 0;
  for (rlim_t limit = 100000; limit <= 300000; limit += 10000) {
    kvrt_session* s = with_tokens(model, store, 40 + limit, 500);
    kvrt_save_report saved = {.struct_size = sizeof saved};
    const struct rlimit low = {limit, none.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    const kvrt_status status = kvrt_session_checkpoint(
        s, "limited", 7, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, &saved, NULL);
    setrlimit(RLIMIT_FSIZE, &none);
    EXPECT_STATUS(status, KVRT_OK);
    expect_missing(store, "limited", &saved, "a limit on files");
    missing += saved.chunks_missing > 0;
    whole += saved.chunks_missing == 0;
    kvrt_session_close(s);
  }
  EXPECT(missing > 0 && whole > 0, "%" PRIu64 " saves lack KV, %" PRIu64 " lack none", missing, whole);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void count_left_out(void* user, int32_t level, const char* text, size_t size) {
  if (level == KVRT_LOG_WARN && size > 0 && strstr(text, "no room for KV")) atomic_fetch_add((atomic_int*)user, 1);
}

// A save of KV leaves the file system the space that it is told to, one of tokens does not. KV that nobody computed is missing, too. An
// autosave says once that it leaves KV out.
static void leaves_free(const char* dir) {
  atomic_int warnings = 0;
  const kvrt_runtime_options ro = {
      .struct_size = sizeof ro, .threads = 1, .log_level = KVRT_LOG_WARN, .log = count_left_out, .log_user = &warnings};
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&ro, &rt, NULL));
  kvrt_model* model = open_model(rt, tiny, 0, 0, 4096);
  const kvrt_store_options o = {.struct_size = sizeof o, .free_bytes_min = UINT64_MAX / 2};
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  kvrt_save_report saved = {.struct_size = sizeof saved};
  kvrt_session* s = with_tokens(model, store, 60, 300);
  EXPECT_STATUS(kvrt_session_checkpoint(s, "kv", 2, &kPinned, &saved, NULL), KVRT_NO_SPACE);
  EXPECT_STATUS(kvrt_session_checkpoint(s, "tokens", 6, NULL, &saved, NULL), KVRT_OK);
  EXPECT(saved.chunks > 0 && saved.chunks_missing == saved.chunks, "%" PRIu64 " of %" PRIu64 " missing", saved.chunks_missing,
         saved.chunks);
  expect_missing(store, "tokens", &saved, "free_bytes_min");
  kvrt_session_close(s);
  const kvrt_session_options so = {
      .struct_size = sizeof so, .store = store, .autosave_name = "auto", .autosave_name_size = 4, .autosave_turn = 1};
  MUST(kvrt_session_open(model, &so, &s, NULL));
  int32_t tokens[200];
  prompt_tokens(tokens, 200, 61, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 200, NULL));
  for (int turn = 0; turn < 3; ++turn) {
    const uint64_t before = session_props(s).revision;
    struct run run = {0};
    generate_into(s, 40, &run);
    for (int i = 0; i < 10000 && session_props(s).revision == before; ++i) usleep(1000);
    EXPECT(session_props(s).revision > before, "turn %d was not saved", turn);
  }
  kvrt_session_close(s);
  kvrt_store_release(store);
  EXPECT(atomic_load(&warnings) == 1, "%d warnings", atomic_load(&warnings));
  store = open_store(rt, dir);
  s = open_session(model, store, 1);
  prompt_tokens(tokens, 200, 62, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 200, NULL));
  MUST(kvrt_session_checkpoint(s, "never", 5, NULL, &saved, NULL));
  EXPECT(saved.chunks > 0 && saved.chunks_missing == saved.chunks, "%" PRIu64 " of %" PRIu64 " missing", saved.chunks_missing,
         saved.chunks);
  expect_missing(store, "never", &saved, "what nobody computed");
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

// The store has its reserve, which removing needs on a full disk.
static void expect_reserve(const char* dir) {
  char path[kPathMax + 16];
  struct stat file;
  snprintf(path, sizeof path, "%s/reserve", dir);
  EXPECT(stat(path, &file) == 0 && file.st_size == 256 << 10, "%s is gone", path);
}

// The disk fills up at every page of a save: after each failure the session goes on as one that never tried.
static void sweep(const char* dir, uint32_t durability) {
  const kvrt_save_options options = {.struct_size = sizeof options, .durability = durability};
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 4096);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session *s = with_tokens(model, store, 7, 300), *alone = with_tokens(model, NULL, 7, 300);
  kvrt_save_report saved = {.struct_size = sizeof saved};
  int whole = 0;
  int failed = 0, in_part = 0;
  for (off_t spare = 0; !whole && spare < 1 << 20; spare += 4096) {
    fill_up(dir, spare);
    const kvrt_status status = kvrt_session_checkpoint(s, "ann", 3, &options, &saved, NULL);
    whole = status == KVRT_OK && saved.chunks_missing == 0;
    if (whole) break;
    expect_reserve(dir);
    if (status == KVRT_OK) {
      ++in_part;
      expect_missing(store, "ann", &saved, "a disk that fills up");
    } else {
      ++failed;
      EXPECT_STATUS(status, KVRT_NO_SPACE);
      EXPECT(in_part == 0, "NO_SPACE with %ld bytes, and not with fewer", (long)spare);
    }
    EXPECT(session_props(s).state == KVRT_STATE_IDLE, "state %u", session_props(s).state);
    struct run want = {0}, got = {0};
    generate_into(alone, 1, &want);
    generate_into(s, 1, &got);
    EXPECT(memcmp(got.digest, want.digest, sizeof got.digest) == 0, "%d failures: the session went on differently", failed);
    EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  }
  EXPECT(whole && failed + in_part > 5, "after %d failures, %d saves in part", failed, in_part);
  EXPECT((in_part > 0) == (durability != KVRT_DURABILITY_KV), "%d saves in part", in_part);
  printf("a disk that fills up: %d saves failed, %d left KV out\n", failed, in_part);
  kvrt_session_close(s);
  kvrt_session* again = resume_session(model, store, "ann", NULL);
  EXPECT(session_props(again).tokens == session_props(alone).tokens, "%" PRIu64 " tokens", session_props(again).tokens);
  kvrt_session_close(again);
  kvrt_session_close(alone);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static int mount_small(const char* dir) { return mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700") == 0; }

int main(void) {
  char dir[kPathMax], path[kPathMax + 32];
  tiny_path(tiny, 0);
  make_dir(dir);
  snprintf(path, sizeof path, "%s/capped", dir);
  fill(path, 1u << 20, "disk_bytes_max");
  snprintf(path, sizeof path, "%s/limited", dir);
  limited(path);
  snprintf(path, sizeof path, "%s/free", dir);
  leaves_free(path);
  const int mounted = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount_small(dir);
  if (mounted) {
    snprintf(path, sizeof path, "%s/store", dir);
    fill(path, 0, "a full tmpfs");
    umount(dir);
    for (int kv = 0; kv < 2; ++kv) {
      REQUIRE(mount_small(dir), "mount: %s", strerror(errno));
      sweep(path, kv ? KVRT_DURABILITY_KV : KVRT_DURABILITY_DEFAULT);
      umount(dir);
    }
  } else {
    printf("mounting a tmpfs is not permitted here: a full disk was not tried\n");
  }
  remove_tree(dir);
  const int result = finish();
  return result != 0 || mounted ? result : kSkip;
}
