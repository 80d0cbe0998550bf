// cache_dir: the same digests without it, on a miss, on a hit, after the model has changed under an unchanged name, size and mtime, and in
// processes that open at once. `real`: what an open of the real model makes resident, and at most on the way.
#include <fcntl.h>
#include <sys/wait.h>

#include "misuse.h"

enum { kLength = 12, kChildren = 4 };

static size_t log_lines;
static void count_lines(void* user, int32_t level, const char* text, size_t size) {
  (void)user, (void)level, (void)text, (void)size;
  ++log_lines;
}

static kvrt_runtime* open_logging(void) {
  const kvrt_runtime_options o = {.struct_size = sizeof o, .threads = 2, .log_level = KVRT_LOG_WARN, .log = count_lines};
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  return rt;
}

// cache NULL: none.
static kvrt_model* open_cached(kvrt_runtime* rt, const char* path, const char* cache) {
  const kvrt_model_options o = {
      .struct_size = sizeof o, .kv_bytes_max = 64u << 20, .cache_dir = cache, .cache_dir_size = cache ? strlen(cache) : 0};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

static uint64_t digest_at(kvrt_runtime* rt, const char* path, const char* cache) {
  kvrt_model* model = open_cached(rt, path, cache);
  kvrt_session* s = open_session(model, NULL, 1);
  int32_t tokens[40];
  prompt_tokens(tokens, sizeof tokens / sizeof *tokens, 6, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, sizeof tokens / sizeof *tokens, NULL));
  static struct run run;
  memset(&run, 0, sizeof run);
  generate_into(s, kLength, &run);
  kvrt_session_close(s);
  kvrt_model_release(model);
  return hash_bytes(1, run.digest, sizeof *run.digest * run.count);
}

static size_t count_files(const char* dir) {
  DIR* d = opendir(dir);
  REQUIRE(d != NULL, "%s: %s", dir, strerror(errno));
  size_t count = 0;
  for (struct dirent* e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
  closedir(d);
  return count;
}

static void copy_file(const char* from, const char* to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  REQUIRE(in && out, "%s, %s: %s", from, to, strerror(errno));
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) REQUIRE(fwrite(buffer, 1, n, out) == n, "%s", to);
  fclose(in);
  REQUIRE(fclose(out) == 0, "%s", to);
}

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

// This program again, as `child MODEL CACHE`: its standard output is the pipe.
static pid_t start_child(const char* what, const char* model, const char* cache, int* output) {
  int ends[2];
  REQUIRE(pipe(ends) == 0, "%s", strerror(errno));
  const pid_t pid = fork();
  REQUIRE(pid >= 0, "%s", strerror(errno));
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "api_weight_cache", what, model, cache, (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  *output = ends[0];
  return pid;
}

static void finish_child(pid_t pid, int output, char* text, size_t capacity) {
  size_t size = 0;
  for (ssize_t n; size + 1 < capacity && (n = read(output, text + size, capacity - 1 - size)) > 0;) size += (size_t)n;
  text[size] = 0;
  close(output);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ends with %d: %s", status, text);
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
    printf("%" PRIx64, digest_at(rt, argv[2], argv[3]));
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
  }
  remove_tree(dir);
  return finish();
}
