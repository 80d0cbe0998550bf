// cache_dir: the same digests without it, on a miss, on a hit, after the model has changed under an unchanged name, size and mtime, and in
// processes that open at once. `real`: the memory that an open of the real model makes resident, and the most on the way.
#include "weight_cache.h"

enum { kChildren = 4 };

// Other weights in the same inode, of the same size and mtime: a bit of each byte differs, which makes no number infinite.
static void change_in_place(const char* path) {
  struct stat before;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0 && fstat(fd, &before) == 0, "%s: %s", path, strerror(errno));
  unsigned char bytes[2000];
  const off_t at = before.st_size - before.st_size / 10;
  REQUIRE(pread(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes, "%s", path);
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] ^= 1;
  REQUIRE(pwrite(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes, "%s", path);
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(futimens(fd, times) == 0, "%s", path);
  close(fd);
}

static void same_digests(const char* tiny, const char* dir) {
  char model[kPathMax + 16], cache[kPathMax + 16];
  snprintf(model, sizeof model, "%s/model.gguf", dir);
  snprintf(cache, sizeof cache, "%s/cache", dir);
  copy_file(tiny, model);
  kvrt_runtime* rt = open_logging();
  const uint64_t want = digest_at(rt, model, NULL);
  for (int round = 0; round < 3; ++round) {
    EXPECT(digest_at(rt, model, cache) == want, "open %d with a cache: other logits", round);
    EXPECT(count_files(cache) == 1, "open %d: %zu files", round, count_files(cache));
  }
  EXPECT(log_lines == 0, "%zu log lines", log_lines);
  change_in_place(model);
  const uint64_t changed = digest_at(rt, model, NULL);
  EXPECT(changed != want, "the change changes nothing");
  EXPECT(digest_at(rt, model, cache) == changed, "the cache serves the file as it was");
  EXPECT(count_files(cache) == 2, "%zu files", count_files(cache));
  EXPECT(log_lines == 0, "%zu log lines", log_lines);
  snprintf(cache, sizeof cache, "%s/model.gguf", dir);  // no directory
  EXPECT(digest_at(rt, model, cache) == changed, "with a cache that is none: other logits");
  EXPECT(log_lines != 0, "a cache that is none is not logged");
  kvrt_runtime_release(rt);
}

// A store's sessions are of the weights that made them: those of another file under the same name, size and mtime resume nothing.
static void changed_model_resumes_nothing(const char* tiny, const char* dir) {
  char model[kPathMax + 16], sessions[kPathMax + 16];
  snprintf(model, sizeof model, "%s/stored.gguf", dir);
  snprintf(sessions, sizeof sessions, "%s/sessions", dir);
  copy_file(tiny, model);
  int32_t tokens[40];
  for (int round = 0; round < 3; ++round) {
    kvrt_runtime* rt = open_runtime(1, 0);
    kvrt_store* store = open_store(rt, sessions);
    kvrt_model* opened = open_model(rt, model, 0, 0, 0);
    prompt_tokens(tokens, sizeof tokens / sizeof *tokens, 6, model_props(opened).vocab_size);
    if (round == 0) {
      kvrt_session* s = open_session(opened, store, 0);
      MUST(kvrt_session_append(s, tokens, sizeof tokens / sizeof *tokens, NULL));
      (void)next_digest(s, NULL);
      MUST(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL));
      kvrt_session_close(s);
    } else {
      kvrt_session* s = NULL;
      const kvrt_status status = kvrt_session_resume(opened, store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL);
      EXPECT(status == (round == 1 ? KVRT_OK : KVRT_INCOMPATIBLE), "round %d: resume: %s %s", round, kvrt_status_name(status),
             last_message());
      if (status == KVRT_OK) kvrt_session_close(s);
    }
    kvrt_model_release(opened);
    kvrt_store_release(store);
    kvrt_runtime_release(rt);
    if (round == 1) change_in_place(model);
  }
}

static void processes_at_once(const char* tiny, const char* dir) {
  char cache[kPathMax + 16], want[64];
  snprintf(cache, sizeof cache, "%s/shared", dir);
  kvrt_runtime* rt = open_logging();
  snprintf(want, sizeof want, "%" PRIx64, digest_at(rt, tiny, NULL));
  kvrt_runtime_release(rt);
  for (int round = 0; round < 3; ++round) {
    remove_tree(cache);
    pid_t pids[kChildren];
    int outputs[kChildren];
    for (int i = 0; i < kChildren; ++i) pids[i] = start_child("child", tiny, cache, &outputs[i]);
    for (int i = 0; i < kChildren; ++i) {
      char text[64];
      finish_child(pids[i], outputs[i], text, sizeof text);
      EXPECT(strcmp(text, want) == 0, "round %d, process %d: %s, expected %s", round, i, text, want);
    }
    EXPECT(count_files(cache) == 1, "round %d: %zu files", round, count_files(cache));
  }
}

static uint64_t memory_field(const char* name) {
  char line[256];
  unsigned long long kb = 0;
  FILE* f = fopen("/proc/self/status", "r");
  REQUIRE(f != NULL, "%s", strerror(errno));
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, name, strlen(name)) == 0) kb = strtoull(line + strlen(name) + 1, NULL, 10);
  }
  fclose(f);
  REQUIRE(kb != 0, "no %s", name);
  return kb * 1024;
}

// `measure MODEL CACHE`: bytes that the open made resident; at most on the way; its weights; its scratch memory.
static void measure(const char* path, const char* cache) {
  kvrt_runtime* rt = open_logging();
  const uint64_t before = memory_field("VmRSS:");
  kvrt_model* model = open_cached(rt, path, *cache ? cache : NULL);
  const kvrt_model_props p = model_props(model);
  printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, memory_field("VmRSS:") - before, memory_field("VmHWM:") - before, p.weight_bytes,
         p.scratch_bytes);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void resident(const char* model, const char* dir) {
  char cache[kPathMax + 16];
  snprintf(cache, sizeof cache, "%s/cache", dir);
  const char* const caches[] = {"", cache, cache};
  const char* const names[] = {"without a cache", "on a miss", "on a hit"};
  for (int i = 0; i < 3; ++i) {
    int output = -1;
    char text[128];
    const pid_t pid = start_child("measure", model, caches[i], &output);
    finish_child(pid, output, text, sizeof text);
    unsigned long long rss = 0, peak = 0, weights = 0, scratch = 0;
    REQUIRE(sscanf(text, "%llu %llu %llu %llu", &rss, &peak, &weights, &scratch) == 4, "%s", text);
    printf("%s: resident %.1f MB, at most %.1f, of weights %.1f, of scratch %.1f\n", names[i], (double)rss * 1e-6, (double)peak * 1e-6,
           (double)weights * 1e-6, (double)scratch * 1e-6);
    const double bound = 1.15 * (double)weights + (double)scratch;
    EXPECT(rss >= weights, "%s: %llu bytes are resident, the weights alone have %llu", names[i], rss, weights);
    EXPECT((double)rss <= bound, "%s: %llu bytes are resident, expected at most %.0f", names[i], rss, bound);
    EXPECT((double)peak <= bound + (32 << 20), "%s: %llu bytes were resident, expected at most %.0f", names[i], peak, bound + (32 << 20));
  }
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "child") == 0) {
    kvrt_runtime* rt = open_logging();
    kvrt_model* model = open_cached(rt, argv[2], argv[3]);
    EXPECT(maps_cache(), "the cache's pages are not shared");
    printf("%" PRIx64, digest_with(model));
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    EXPECT(log_lines == 0, "%zu log lines", log_lines);
    return atomic_load(&support_failures) != 0;
  }
  if (argc == 4) return measure(argv[2], argv[3]), 0;
  char path[kPathMax], dir[kPathMax];
  if (argc == 2 && !find_real(path)) return 77;
  make_dir(dir);
  if (argc == 2) {
    resident(path, dir);
  } else {
    tiny_path(path, 0);
    same_digests(path, dir);
    processes_at_once(path, dir);
    changed_model_resumes_nothing(path, dir);
  }
  remove_tree(dir);
  return finish();
}
