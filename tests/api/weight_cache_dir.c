// The directory of the weight cache: which one it is, which files go when it is full; and no fault in it is more than a miss.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "weight_cache.h"

enum { kModels = 3 };

// Models, and the file of each in a cache: its name and size do not depend on the directory.
static struct known {
  char path[kPathMax], name[128];
  uint64_t bytes, digest;
} models[kModels];
static char dir[kPathMax];  // absolute, without links

static const char* in_dir(const char* name) {
  static char paths[8][kPathMax + 300];
  static unsigned next;
  char* path = paths[next++ % 8];
  snprintf(path, sizeof *paths, "%s/%s", dir, name);
  return path;
}

static int has(const char* cache, int model) {
  char path[2 * kPathMax];
  snprintf(path, sizeof path, "%s/%s", cache, models[model].name);
  return access(path, F_OK) == 0;
}

// Sets the file's times as if it had been used so long ago.
static void set_age(const char* cache, int model, time_t seconds) {
  char path[2 * kPathMax];
  snprintf(path, sizeof path, "%s/%s", cache, models[model].name);
  const struct timespec when = {.tv_sec = time(NULL) - seconds}, times[2] = {when, when};
  REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0, "%s: %s", path, strerror(errno));
}

static void learn(kvrt_runtime* rt) {
  static const char* const names[kModels] = {"llama_gqa_f32", "llama_mha_f16", "qwen2_gqa_f32"};
  for (int i = 0; i < kModels; ++i) {
    struct known* m = &models[i];
    char cache[kPathMax + 32], path[2 * kPathMax];
    snprintf(m->path, sizeof m->path, "%s/%s.gguf", tiny_dir(), names[i]);
    snprintf(cache, sizeof cache, "%s/learn-%d", dir, i);
    m->digest = digest_at(rt, m->path, NULL);
    EXPECT(digest_at(rt, m->path, cache) == m->digest, "%s: other logits", names[i]);
    DIR* d = opendir(cache);
    REQUIRE(d != NULL, "%s: %s", cache, strerror(errno));
    for (struct dirent* e; (e = readdir(d)) != NULL;) {
      if (e->d_name[0] != '.') snprintf(m->name, sizeof m->name, "%.100s", e->d_name);
    }
    closedir(d);
    snprintf(path, sizeof path, "%s/%s", cache, m->name);
    struct stat st;
    REQUIRE(stat(path, &st) == 0 && *m->name, "%s: %s", path, strerror(errno));
    m->bytes = (uint64_t)st.st_size;
  }
}

// ---- the choice ------------------------------------------------------------------------------------------------------------------------

static void expect_dir(kvrt_runtime* rt, const char* what, uint32_t cache, const char* given, const char* want) {
  const kvrt_model_options o = {
      .struct_size = sizeof o, .cache = cache, .cache_dir = given, .cache_dir_size = given ? strlen(given) : 0, .cache_bytes_max = 77};
  kvrt_cache_props p = {.struct_size = sizeof p};
  const kvrt_status status = kvrt_model_cache(rt, &o, &p, NULL);
  EXPECT(status == (want ? KVRT_OK : KVRT_NOT_FOUND), "%s, %u, %s: %s", what, cache, given ? given : "none", kvrt_status_name(status));
  if (want && !status)
    EXPECT(strcmp(p.directory, want) == 0 && p.bytes_max == 77, "%s, %u: %s, expected %s", what, cache, p.directory, want);
}

static void choices(kvrt_runtime* rt) {
  const char *xdg = in_dir("xdg"), *home = in_dir("home"), *named = in_dir("named"), *given = in_dir("given");
  const char *user = in_dir("xdg/kvrt/weights"), *at_home = in_dir("home/.cache/kvrt/weights");
  REQUIRE(mkdir(home, 0755) == 0, "%s", strerror(errno));
  setenv("XDG_CACHE_HOME", xdg, 1);
  setenv("HOME", home, 1);
  const char* const values[] = {NULL, "", named};
  for (int i = 0; i < 3; ++i) {
    const char *value = values[i], *what = value ? value : "KVRT_CACHE is unset";
    if (value) setenv("KVRT_CACHE", value, 1);
    const char* env = value && *value ? value : NULL;
    expect_dir(rt, what, KVRT_CACHE_DEFAULT, NULL, env);
    expect_dir(rt, what, KVRT_CACHE_USER, NULL, value ? env : user);
    expect_dir(rt, what, KVRT_CACHE_NONE, NULL, NULL);
    expect_dir(rt, what, KVRT_CACHE_DEFAULT, given, given);
    expect_dir(rt, what, KVRT_CACHE_USER, given, given);
  }
  unsetenv("KVRT_CACHE");
  setenv("XDG_CACHE_HOME", "relative", 1);
  expect_dir(rt, "a relative XDG_CACHE_HOME", KVRT_CACHE_USER, NULL, at_home);
  setenv("XDG_CACHE_HOME", "", 1);
  expect_dir(rt, "an empty XDG_CACHE_HOME", KVRT_CACHE_USER, NULL, at_home);
  unsetenv("XDG_CACHE_HOME");
  expect_dir(rt, "HOME alone", KVRT_CACHE_USER, NULL, at_home);
  unsetenv("HOME");
  expect_dir(rt, "no HOME", KVRT_CACHE_USER, NULL, NULL);
  const kvrt_model_options bad[] = {{.cache = 3}, {.cache = KVRT_CACHE_NONE, .cache_dir = given, .cache_dir_size = strlen(given)}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    kvrt_model_options o = bad[i];
    kvrt_cache_props p = {.struct_size = sizeof p};
    o.struct_size = sizeof o;
    EXPECT_STATUS(kvrt_model_cache(rt, &o, &p, NULL), KVRT_INVALID);
  }
}

// A guest writes nothing unasked; the user's directory is made for the user alone; where it cannot be, nobody is told so.
static void user_dirs(kvrt_runtime* rt) {
  static const char* const made[] = {"xdg", "xdg/kvrt", "xdg/kvrt/weights"};
  const kvrt_model_options user = {.cache = KVRT_CACHE_USER};
  setenv("XDG_CACHE_HOME", in_dir("xdg"), 1);
  setenv("HOME", in_dir("home"), 1);
  kvrt_model_release(open_with(rt, models[0].path, (kvrt_model_options){0}));
  EXPECT(access(in_dir("xdg"), F_OK) != 0 && access(in_dir("home/.cache"), F_OK) != 0, "written unasked");
  const mode_t mask = umask(0);
  kvrt_model_release(open_with(rt, models[0].path, user));
  umask(mask);
  EXPECT(has(in_dir("xdg/kvrt/weights"), 0), "no file in the user's directory");
  for (int i = 0; i < 3; ++i) {
    struct stat st;
    EXPECT(stat(in_dir(made[i]), &st) == 0 && (st.st_mode & 07777) == 0700, "%s: mode %o", made[i], (unsigned)st.st_mode);
  }
  log_lines = 0;
  unsetenv("XDG_CACHE_HOME");
  FILE* f = fopen(in_dir("file"), "w");
  REQUIRE(f && fclose(f) == 0, "%s", strerror(errno));
  REQUIRE(mkdir(in_dir("theirs"), 0700) == 0, "%s", strerror(errno));
  const int other = chown(in_dir("theirs"), 4321, 4321) == 0;  // root alone may
  const char* const homes[] = {NULL, in_dir("nowhere"), in_dir("file"), other ? in_dir("theirs") : NULL};
  for (int i = 0; i < 4; ++i) {
    if (homes[i]) setenv("HOME", homes[i], 1);
    if (!homes[i]) unsetenv("HOME");
    kvrt_model* model = open_with(rt, models[0].path, user);
    EXPECT(digest_with(model) == models[0].digest && !maps_cache(), "home %d", i);
    kvrt_model_release(model);
    const kvrt_model_options o = {.struct_size = sizeof o, .cache = KVRT_CACHE_USER};
    kvrt_cache_props p = {.struct_size = sizeof p};
    EXPECT(kvrt_model_cache(rt, &o, &p, NULL) != KVRT_OK, "home %d: %s", i, p.directory);
  }
  EXPECT(access(in_dir("nowhere"), F_OK) != 0 && access(in_dir("theirs/.cache"), F_OK) != 0, "a home is made, or written in");
  EXPECT(log_lines == 0, "%zu warnings of a directory that nobody asked for", log_lines);
}

// ---- eviction --------------------------------------------------------------------------------------------------------------------------

static kvrt_model* open_capped(kvrt_runtime* rt, int model, const char* cache, uint64_t cap) {
  return open_with(rt, models[model].path,
                   (kvrt_model_options){.cache_dir = cache, .cache_dir_size = strlen(cache), .cache_bytes_max = cap});
}

static void expect_files(const char* cache, int a, int b, int c, const char* what) {
  EXPECT(has(cache, 0) == a && has(cache, 1) == b && has(cache, 2) == c, "%s: files %d %d %d, expected %d %d %d", what, has(cache, 0),
         has(cache, 1), has(cache, 2), a, b, c);
}

static void least_recently_used(kvrt_runtime* rt) {
  const char* cache = in_dir("capped");
  const uint64_t cap = models[0].bytes + models[1].bytes + models[2].bytes - 1;  // any two
  kvrt_model_release(open_capped(rt, 0, cache, cap));
  kvrt_model_release(open_capped(rt, 1, cache, cap));
  expect_files(cache, 1, 1, 0, "two");
  set_age(cache, 0, 2000);
  set_age(cache, 1, 1000);
  kvrt_model_release(open_capped(rt, 0, cache, cap));  // a use
  kvrt_model_release(open_capped(rt, 2, cache, cap));
  expect_files(cache, 1, 0, 1, "the least recently used goes");
  const kvrt_model_options o = {.struct_size = sizeof o, .cache_dir = cache, .cache_dir_size = strlen(cache), .cache_bytes_max = cap};
  kvrt_cache_props p = {.struct_size = sizeof p};
  MUST(kvrt_model_cache(rt, &o, &p, NULL));
  EXPECT(p.files == 2 && p.bytes == models[0].bytes + models[2].bytes && p.bytes_max == cap, "%u files, %" PRIu64 " bytes of %" PRIu64,
         p.files, p.bytes, p.bytes_max);
  kvrt_model* held = open_capped(rt, 0, cache, cap);
  set_age(cache, 0, 2000);
  set_age(cache, 2, 1000);
  kvrt_model* second = open_capped(rt, 1, cache, cap);
  expect_files(cache, 1, 1, 0, "what is in use stays");
  EXPECT(log_lines == 0, "%zu log lines", log_lines);
  kvrt_model* third = open_capped(rt, 2, cache, cap);
  expect_files(cache, 1, 1, 0, "all are in use");
  EXPECT(log_lines == 1 && digest_with(third) == models[2].digest, "%zu log lines", log_lines);
  kvrt_model_release(third);
  remove_tree(cache);  // while models map its files
  EXPECT(digest_with(held) == models[0].digest && digest_with(second) == models[1].digest, "removed files: other logits");
  kvrt_model_release(held);
  kvrt_model_release(second);
  kvrt_model_release(open_capped(rt, 0, cache, cap));
  kvrt_model_release(open_capped(rt, 1, cache, models[1].bytes - 1));
  expect_files(cache, 1, 0, 0, "what can never fit drives nothing out");
  kvrt_model_release(open_capped(rt, 1, cache, models[1].bytes));
  expect_files(cache, 0, 1, 0, "what fits alone");
}

// ---- faults ----------------------------------------------------------------------------------------------------------------------------

static const char* killed_in;
static int32_t kill_while_writing(void* user, const kvrt_event* event) {
  (void)user, (void)event;
  DIR* d = opendir(killed_in);
  for (struct dirent* e; d && (e = readdir(d)) != NULL;) {
    if (strstr(e->d_name, ".tmp")) raise(SIGKILL);
  }
  if (d) closedir(d);
  return 0;
}

static void killed_writer(kvrt_runtime* rt) {
  const char* cache = in_dir("killed");
  int output = -1, status = 0;
  const pid_t pid = start_child("die", models[0].path, cache, &output);
  close(output);
  REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ends with %d", status);
  EXPECT(count_files(cache) == 1 && !has(cache, 0), "%zu files", count_files(cache));
  EXPECT(digest_at(rt, models[0].path, cache) == models[0].digest, "other logits");
  EXPECT(count_files(cache) == 1 && has(cache, 0), "%zu files", count_files(cache));
}

static int die(const char* path, const char* cache) {
  const kvrt_model_options o = {.struct_size = sizeof o, .kv_bytes_max = 64u << 20, .cache_dir = cache, .cache_dir_size = strlen(cache)};
  kvrt_model* model = NULL;
  killed_in = cache;
  kvrt_model_open(open_logging(), path, strlen(path), &o, kill_while_writing, NULL, &model, NULL);
  return 1;
}

static int mounts(kvrt_runtime* rt) {
  const char *disk = in_dir("disk"), *cache = in_dir("disk/cache"), *filler = in_dir("disk/filler");
  REQUIRE(mkdir(disk, 0700) == 0, "%s", strerror(errno));
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", disk, "tmpfs", 0, "size=4m,mode=0700") != 0) {
    printf("mounting a tmpfs is not permitted here: a full and a read-only disk were not tried\n");
    return 0;
  }
  log_lines = 0;
  const kvrt_model_options o = {.struct_size = sizeof o, .cache_dir = cache, .cache_dir_size = strlen(cache)};
  kvrt_cache_props p = {.struct_size = sizeof p};
  MUST(kvrt_model_cache(rt, &o, &p, NULL));
  EXPECT(p.bytes_max == (4u << 20) / 10 && p.bytes_free >= (3u << 20) && p.bytes_free <= (4u << 20) - (4u << 20) / 20,
         "%" PRIu64 " at most, %" PRIu64 " free", p.bytes_max, p.bytes_free);
  kvrt_model_release(open_cached(rt, models[0].path, cache));
  EXPECT(has(cache, 0) && log_lines == 0, "no file on a small disk");
  // Room for the second file, but not beside the space that stays free.
  FILE* f = fopen(filler, "w");
  REQUIRE(f != NULL, "%s", strerror(errno));
  const uint64_t keep = (4u << 20) / 20, leave = models[1].bytes + keep - 8192;
  MUST(kvrt_model_cache(rt, &o, &p, NULL));
  for (uint64_t left = p.bytes_free + keep - leave; left >= 4096; left -= 4096) {
    static const char page[4096];
    REQUIRE(fwrite(page, sizeof page, 1, f) == 1, "%s", strerror(errno));
  }
  REQUIRE(fclose(f) == 0, "%s", strerror(errno));
  kvrt_model* held = open_cached(rt, models[0].path, cache);  // else its file would make room
  EXPECT(log_lines == 0, "%zu log lines", log_lines);
  EXPECT(digest_at(rt, models[1].path, cache) == models[1].digest, "other logits");
  expect_files(cache, 1, 0, 0, "a disk that is nearly full");
  EXPECT(log_lines == 1 && count_files(cache) == 1, "%zu log lines, %zu files", log_lines, count_files(cache));
  kvrt_model_release(held);
  REQUIRE(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0, "%s", strerror(errno));
  log_lines = 0;
  held = open_cached(rt, models[0].path, cache);
  EXPECT(maps_cache() && log_lines == 0 && digest_with(held) == models[0].digest, "a read-only disk: no hit");
  kvrt_model_release(held);
  EXPECT(digest_at(rt, models[1].path, cache) == models[1].digest && log_lines == 1, "%zu log lines", log_lines);
  EXPECT_STATUS(kvrt_model_cache(rt, &o, &p, NULL), KVRT_IO);
  setenv("XDG_CACHE_HOME", disk, 1);
  kvrt_model* user = open_with(rt, models[1].path, (kvrt_model_options){.cache = KVRT_CACHE_USER});
  EXPECT(digest_with(user) == models[1].digest && log_lines == 1, "%zu log lines", log_lines);
  kvrt_model_release(user);
  umount(disk);
  return 1;
}

int main(int argc, char** argv) {
  if (argc == 4) return die(argv[2], argv[3]);
  char made[kPathMax];
  make_dir(made);
  REQUIRE(realpath(made, dir) != NULL, "%s", strerror(errno));
  unsetenv("KVRT_CACHE");
  kvrt_runtime* rt = open_logging();
  learn(rt);
  choices(rt);
  user_dirs(rt);
  least_recently_used(rt);
  log_lines = 0;
  killed_writer(rt);
  EXPECT(log_lines == 0, "%zu log lines", log_lines);
  const int mounted = mounts(rt);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  const int result = finish();
  return result != 0 || mounted ? result : 77;
}
