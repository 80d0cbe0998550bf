// A damaged segment makes a resume slower, never wrong and never failed: it reports the tokens computed again, and verify names the fault.
#include "../api/support.h"

enum { kTokens = 210, kSegments = 64, kBlock = 32 };

static char tiny[kPathMax];
static uint64_t want_digest;
static char found[kSegments][kPathMax];
static size_t found_count;

static int note_segment(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)f;
  const size_t size = strlen(path);
  if (type == FTW_F && s->st_size > 0 && size > 4 && strcmp(path + size - 4, ".seg") == 0 && found_count < kSegments) {
    snprintf(found[found_count++], kPathMax, "%s", path);
  }
  return 0;
}

static void find_segments(const char* dir) {
  found_count = 0;
  nftw(dir, note_segment, 16, FTW_PHYS);
  qsort(found, found_count, kPathMax, compare_paths);
}

struct bytes {
  unsigned char* data;
  size_t size;
};

static struct bytes read_all(const char* path) {
  FILE* f = fopen(path, "rb");
  REQUIRE(f != NULL, "%s: %s", path, strerror(errno));
  fseek(f, 0, SEEK_END);
  struct bytes b = {malloc((size_t)ftell(f) + 1), (size_t)ftell(f)};
  rewind(f);
  REQUIRE(fread(b.data, 1, b.size, f) == b.size, "read %s", path);
  fclose(f);
  return b;
}

static void write_all(const char* path, const unsigned char* data, size_t size) {
  chmod(path, 0600);
  FILE* f = fopen(path, "wb");
  REQUIRE(f != NULL, "%s: %s", path, strerror(errno));
  REQUIRE(fwrite(data, 1, size, f) == size, "write %s", path);
  fclose(f);
}

// Two sessions with different tokens, one segment each; `a` is the one that is damaged.
static void make_store(const char* dir) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, kBlock, 2048);
  int32_t tokens[kTokens];
  for (int i = 0; i < 2; ++i) {
    kvrt_store* store = open_store(rt, dir);  // its close seals the segment
    kvrt_session* s = open_session(model, store, 0);
    prompt_tokens(tokens, kTokens, 50 + (uint64_t)i, model_props(model).vocab_size);
    MUST(kvrt_session_append(s, tokens, kTokens, NULL));
    const uint64_t digest = next_digest(s, NULL);
    if (i == 0) want_digest = digest;
    MUST(kvrt_session_suspend(s, i == 0 ? "a" : "b", 1, NULL, NULL, NULL));
    kvrt_session_close(s);
    if (i == 0) find_segments(dir);
    if (i == 0) REQUIRE(found_count == 1, "%zu segments after one suspend", found_count);
    kvrt_store_release(store);
  }
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

struct faults {
  size_t count, named;
};

static int32_t on_fault(void* user, const kvrt_event* e) {
  struct faults* f = user;
  if (e->type != KVRT_EVENT_FAULT) return 0;
  ++f->count;
  f->named += e->text_size > 10 && (memmem(e->text, e->text_size, "seg", 3) != NULL || memmem(e->text, e->text_size, "chunk", 5) != NULL);
  return 0;
}

// Opens the damaged store, resumes `a`, and compares. `harmless`: damage that need not reach any chunk.
static void examine(const char* dir, const char* what, int harmless, int verify) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, kBlock, 2048);
  kvrt_store* store = open_store(rt, dir);
  if (verify) {
    struct faults f = {0};
    const kvrt_status status = kvrt_store_verify(store, on_fault, &f, NULL);
    if (!harmless)
      EXPECT(status == KVRT_CORRUPT && f.count > 0 && f.named == f.count, "%s: verify: %s, %zu faults", what, kvrt_status_name(status),
             f.count);
    if (harmless)
      EXPECT(status == (f.count ? KVRT_CORRUPT : KVRT_OK), "%s: verify: %s, %zu faults", what, kvrt_status_name(status), f.count);
  }
  kvrt_report opened = {.struct_size = sizeof opened}, report = {.struct_size = sizeof report};
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, &opened, &s, NULL);
  EXPECT(status == KVRT_OK, "%s: resume: %s %s", what, kvrt_status_name(status), last_message());
  if (status == KVRT_OK) {
    check_report(&opened, what);
    if (!harmless) {
      EXPECT(opened.prefilled > 1 && opened.reuse_stopped == KVRT_REUSE_DAMAGED && opened.reuse_stopped_at % kBlock == 0,
             "%s: %" PRIu64 " to compute, stopped by %u at %" PRIu64, what, opened.prefilled, opened.reuse_stopped,
             opened.reuse_stopped_at);
    }
    const uint64_t digest = next_digest(s, &report);
    EXPECT(digest == want_digest, "%s: other logits", what);
    if (!harmless)
      EXPECT(report.prefilled > 1 && report.reuse_stopped == KVRT_REUSE_DAMAGED, "%s: computed %" PRIu64 ", reason %u", what,
             report.prefilled, report.reuse_stopped);
    // The KV that was computed is saved again, and the store is whole again.
    EXPECT_STATUS(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL), KVRT_OK);
    kvrt_session_close(s);
    kvrt_store_entry entry = {.struct_size = sizeof entry};
    EXPECT_STATUS(kvrt_store_stat(store, NULL, 0, "a", 1, &entry, NULL), KVRT_OK);
    EXPECT(entry.chunks_missing == 0, "%s: %" PRIu64 " chunks missing after the next save", what, entry.chunks_missing);
  }
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void copy_tree(const char* from, const char* to) {
  char command[5 * kPathMax];
  snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
  REQUIRE(system(command) == 0, "%s", command);
}

int main(void) {
  char dir[kPathMax], sound[kPathMax + 8], work[kPathMax + 8], path[2 * kPathMax];
  tiny_path(tiny, 0);
  make_dir(dir);
  snprintf(sound, sizeof sound, "%s/sound", dir);
  snprintf(work, sizeof work, "%s/work", dir);
  make_store(sound);
  char segment_a[kPathMax];
  snprintf(segment_a, sizeof segment_a, "%s", found[0]);
  find_segments(sound);
  REQUIRE(found_count == 2, "%zu segments", found_count);
  const struct bytes a = read_all(segment_a);
  const struct bytes b = read_all(strcmp(found[0], segment_a) == 0 ? found[1] : found[0]);
  unsigned char* changed = malloc(a.size);
#define RESET() \
  (copy_tree(sound, work), snprintf(path, sizeof path, "%s%s", work, segment_a + strlen(sound)), memcpy(changed, a.data, a.size))
  char what[128];
  for (size_t i = 0; i < 24; ++i) {  // one bit, all over the file: a header, a token, a payload, a footer
    const size_t at = i < 12 ? i * 7 : a.size * i / 24;
    RESET();
    changed[at] ^= (unsigned char)(1u << (i % 8));
    write_all(path, changed, a.size);
    snprintf(what, sizeof what, "bit %zu of byte %zu of %zu flipped", i % 8, at, a.size);
    examine(work, what, i < 12 || at > a.size - 600, i % 3 == 0);
  }
  const size_t cuts[] = {0, 1, a.size / 3, a.size * 2 / 3};
  for (size_t i = 0; i < 4; ++i) {
    RESET();
    write_all(path, changed, cuts[i]);
    snprintf(what, sizeof what, "cut at %zu of %zu", cuts[i], a.size);
    examine(work, what, 0, 1);
  }
  RESET();
  unlink(path);
  examine(work, "removed", 0, 1);
  RESET();
  write_all(path, b.data, b.size);
  examine(work, "replaced by the other session's segment", 0, 1);
  RESET();
  memcpy(changed + a.size / 4, a.data + a.size / 2, a.size / 4);
  memcpy(changed + a.size / 2, a.data + a.size / 4, a.size / 4);
  write_all(path, changed, a.size);
  examine(work, "two quarters swapped", 0, 1);
  RESET();
  memset(changed + a.size / 3, 0, a.size / 3);
  write_all(path, changed, a.size);
  examine(work, "a third of zeros (a write that never reached the disk)", 0, 1);
  RESET();
  examine(work, "untouched (control)", 1, 1);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_store* store = open_store(rt, work);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
  free(a.data), free(b.data), free(changed);
  remove_tree(dir);
  return finish();
}
