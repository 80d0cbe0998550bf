// Helpers of the tests of the weight cache: opening with one, a digest of the logits, and this program again as a child.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>

#include "misuse.h"

enum { kLength = 12 };

static size_t log_lines;
static inline void count_lines(void* user, int32_t level, const char* text, size_t size) {
  (void)user, (void)level, (void)text, (void)size;
  ++log_lines;
}

static inline kvrt_runtime* open_logging(void) {
  const kvrt_runtime_options o = {.struct_size = sizeof o, .threads = 2, .log_level = KVRT_LOG_WARN, .log = count_lines};
  kvrt_runtime* rt = NULL;
  MUST(kvrt_runtime_open(&o, &rt, NULL));
  return rt;
}

static inline kvrt_model* open_with(kvrt_runtime* rt, const char* path, kvrt_model_options o) {
  o.struct_size = sizeof o;
  o.kv_bytes_max = 64u << 20;
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

// cache NULL: none.
static inline kvrt_model* open_cached(kvrt_runtime* rt, const char* path, const char* cache) {
  if (!cache) return open_with(rt, path, (kvrt_model_options){.cache = KVRT_CACHE_NONE});
  return open_with(rt, path, (kvrt_model_options){.cache_dir = cache, .cache_dir_size = strlen(cache)});
}

static inline uint64_t digest_with(kvrt_model* model) {
  kvrt_session* s = open_session(model, NULL, 1);
  int32_t tokens[40];
  prompt_tokens(tokens, sizeof tokens / sizeof *tokens, 6, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, sizeof tokens / sizeof *tokens, NULL));
  static struct run run;
  memset(&run, 0, sizeof run);
  generate_into(s, kLength, &run);
  kvrt_session_close(s);
  return hash_bytes(1, run.digest, sizeof *run.digest * run.count);
}

static inline uint64_t digest_at(kvrt_runtime* rt, const char* path, const char* cache) {
  kvrt_model* model = open_cached(rt, path, cache);
  const uint64_t digest = digest_with(model);
  kvrt_model_release(model);
  return digest;
}

// This process has a file of a cache in its memory.
static inline int maps_cache(void) {
  char line[kPathMax + 256];
  int found = 0;
  FILE* f = fopen("/proc/self/maps", "r");
  REQUIRE(f != NULL, "%s", strerror(errno));
  while (fgets(line, sizeof line, f)) found |= strstr(line, ".kvrtw") != NULL;
  fclose(f);
  return found;
}

static inline size_t count_files(const char* dir) {
  DIR* d = opendir(dir);
  REQUIRE(d != NULL, "%s: %s", dir, strerror(errno));
  size_t count = 0;
  for (struct dirent* e; (e = readdir(d)) != NULL;) count += e->d_name[0] != '.';
  closedir(d);
  return count;
}

static inline void copy_file(const char* from, const char* to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  REQUIRE(in && out, "%s, %s: %s", from, to, strerror(errno));
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) REQUIRE(fwrite(buffer, 1, n, out) == n, "%s", to);
  fclose(in);
  REQUIRE(fclose(out) == 0, "%s", to);
}

// This program again, as `child MODEL CACHE`: its standard output is the pipe.
static inline pid_t start_child(const char* what, const char* model, const char* cache, int* output) {
  int ends[2];
  REQUIRE(pipe(ends) == 0, "%s", strerror(errno));
  const pid_t pid = fork();
  REQUIRE(pid >= 0, "%s", strerror(errno));
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "again", what, model, cache, (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  *output = ends[0];
  return pid;
}

static inline void finish_child(pid_t pid, int output, char* text, size_t capacity) {
  size_t size = 0;
  for (ssize_t n; size + 1 < capacity && (n = read(output, text + size, capacity - 1 - size)) > 0;) size += (size_t)n;
  text[size] = 0;
  close(output);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ends with %d: %s", status, text);
}
