// The cost of saving for sessions that generate, and of loading for those that wait: a 2,048-token session of SmolLM2.
//   saving [MODEL] [--tokens 1000] [--runs 5]
// Prints JSON lines. decode: N tokens of one session, one event at a time, alone and while two sessions of 2,048 tokens, which the store has
// nothing of, are saved: by checkpoint on another thread, and by autosave. ratio: of the total times, alone over all runs; gap: the longest
// time between two tokens over the median one. load: resume into a pool that has its pages, by codec, warm and with the store's files out of
// the page cache (nothing on tmpfs); copy: reading the same bytes from a file in the page cache and copying them once, in one thread. turn:
// 32 tokens more and a checkpoint, tokens durable, 100 times; write: the same bytes into a file, without waiting for the disk.
#include <fcntl.h>

#include "tests/api/support.h"

enum { kState = 2048, kTokensMax = 4096 };

static uint32_t decode_tokens = 1000;
static int runs = 5;
static char model_path[kPathMax], dir[kPathMax];
static uint32_t vocab;

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static double median(double* values, size_t count) {
  qsort(values, count, sizeof *values, compare_doubles);
  return values[count / 2];
}

static kvrt_model* open_populated(kvrt_runtime* rt) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.kv_populate = 1;
  o.kv_bytes_max = 400u << 20;
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, model_path, strlen(model_path), &o, NULL, NULL, &model, NULL));
  return model;
}

static kvrt_session* computed(kvrt_model* model, kvrt_store* store, uint64_t seed, const char* autosave_name) {
  int32_t tokens[kState];
  prompt_tokens(tokens, kState, seed, vocab);
  kvrt_session_options o;
  KVRT_INIT(&o);
  o.store = store;
  o.autosave_name = autosave_name;
  o.autosave_name_size = autosave_name ? strlen(autosave_name) : 0;
  o.autosave_turn = autosave_name != NULL;
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  MUST(kvrt_session_append(s, tokens, kState, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  return s;
}

// ---- decode -------------------------------------------------------------------------------------------------------------------------

enum how { kAlone, kCheckpoint, kAutosave, kHows };
static const char* const kHowNames[] = {"alone", "checkpoint", "autosave"};

static const char* const kNames[] = {"one", "two"};

struct saver {
  kvrt_store* store;
  kvrt_session* session[2];
  enum how how;
  double save_ms[2];
  atomic_int tokens;  // decoded so far
};

static void* save_twice(void* user) {
  struct saver* v = user;
  for (int i = 0; i < 2; ++i) {
    while ((uint32_t)atomic_load(&v->tokens) < decode_tokens * (1 + 2 * (uint32_t)i) / 5) usleep(1000);
    kvrt_store_entry entry = {.struct_size = sizeof entry};
    const double start = now_ms();
    if (v->how == kCheckpoint) {
      MUST(kvrt_session_checkpoint(v->session[i], kNames[i], 3, NULL, NULL, NULL));
    } else {  // after a turn of one token
      const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .ignore_eos = 1};
      MUST(kvrt_session_generate(v->session[i], &o, NULL, NULL, NULL, NULL));
      while (kvrt_store_stat(v->store, NULL, 0, kNames[i], 3, &entry, NULL) == KVRT_NOT_FOUND) usleep(2000);
    }
    v->save_ms[i] = now_ms() - start;
    MUST(kvrt_store_stat(v->store, NULL, 0, kNames[i], 3, &entry, NULL));
    EXPECT(entry.chunks == kState / 32, "%" PRIu64 " chunks", entry.chunks);
  }
  return NULL;
}

struct decoded {
  double total_ms, median_ms, longest_ms, save_ms;
};

static struct decoded decode(kvrt_runtime* rt, kvrt_model* model, enum how how) {
  static double gap[kTokensMax];
  static int round;
  struct decoded d = {0};
  struct saver v = {.how = how};
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/d%d", dir, round++);
  kvrt_store* store = v.store = open_store(rt, path);
  for (int i = 0; i < 2; ++i) v.session[i] = computed(model, store, 10 + (uint64_t)i, how == kAutosave ? kNames[i] : NULL);
  kvrt_session* s = open_session(model, NULL, 0);
  int32_t prompt[64];
  prompt_tokens(prompt, 64, 3, vocab);
  MUST(kvrt_session_append(s, prompt, 64, NULL));
  kvrt_generate_options o;
  KVRT_INIT(&o);
  o.max_tokens = decode_tokens + 1;
  o.ignore_eos = 1;
  MUST(kvrt_session_begin(s, &o, NULL));
  pthread_t thread;
  uint32_t count = 0;
  double start = 0, last = 0;
  if (how != kAlone) pthread_create(&thread, NULL, save_twice, &v);
  for (;;) {
    const kvrt_event e = next_event(s, -1);
    if (e.type == KVRT_EVENT_DONE) break;
    if (e.type != KVRT_EVENT_TOKEN) continue;
    const double now = now_ms();
    if (count++ == 0) {
      start = last = now;
      continue;
    }
    gap[count - 2] = now - last;
    last = now;
    atomic_store(&v.tokens, (int)count - 1);
  }
  d.total_ms = last - start;
  if (how != kAlone) pthread_join(thread, NULL);
  for (uint32_t i = 0; i < count - 1; ++i) d.longest_ms = gap[i] > d.longest_ms ? gap[i] : d.longest_ms;
  d.median_ms = median(gap, count - 1);
  d.save_ms = v.save_ms[0] > v.save_ms[1] ? v.save_ms[0] : v.save_ms[1];
  kvrt_session_close(s);
  for (int i = 0; i < 2; ++i) kvrt_session_close(v.session[i]);
  kvrt_store_release(store);
  remove_tree(path);
  return d;
}

static void decode_beside_saves(void) {
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_populated(rt);
  static double total[kHows][64], gaps[kHows][64], saves[kHows][64];
  for (int run = 0; run < runs; ++run) {
    for (int how = 0; how < kHows; ++how) {  // alternating: a shared machine changes
      const struct decoded d = decode(rt, model, (enum how)how);
      total[how][run] = d.total_ms;
      gaps[how][run] = d.longest_ms / d.median_ms;
      saves[how][run] = d.save_ms;
    }
  }
  double alone[64];
  memcpy(alone, total[kAlone], sizeof alone);
  const double base = median(alone, (size_t)runs);
  for (int how = 0; how < kHows; ++how) {
    const double worst_gap = (qsort(gaps[how], (size_t)runs, sizeof(double), compare_doubles), gaps[how][runs - 1]);
    const double t = median(total[how], (size_t)runs), g = gaps[how][runs / 2];
    printf(
        "{\"decode\": %u, \"saved\": \"%s\", \"total_ms\": %.0f, \"ratio\": %.3f, \"gap\": %.2f, \"gap_worst\": %.2f, \"save_ms\": %.0f}\n",
        decode_tokens, kHowNames[how], t, t / base, g, worst_gap, median(saves[how], (size_t)runs));
    fflush(stdout);
  }
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

// ---- load ---------------------------------------------------------------------------------------------------------------------------

static double copy_ms(size_t bytes) {
  char path[kPathMax + 8];
  snprintf(path, sizeof path, "%s/copy", dir);
  unsigned char *from = malloc(bytes), *to = malloc(bytes);
  REQUIRE(from && to, "no memory");
  memset(from, 7, bytes);
  memset(to, 1, bytes);
  const int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  REQUIRE(fd >= 0 && write(fd, from, bytes) == (ssize_t)bytes, "write %s", path);
  double best[9];
  for (int i = 0; i < 9; ++i) {
    const double start = now_ms();
    REQUIRE(pread(fd, from, bytes, 0) == (ssize_t)bytes, "read");
    memcpy(to, from, bytes);
    best[i] = now_ms() - start;
  }
  close(fd);
  unlink(path);
  const double ms = median(best, 9) + (to[bytes / 2] == 9);
  free(from);
  free(to);
  return ms;
}

static int evict_pages(const char* path, const struct stat* status, int type, struct FTW* at) {
  (void)status, (void)at;
  if (type != FTW_F) return 0;
  const int fd = open(path, O_RDONLY);
  REQUIRE(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "%s", path);
  return close(fd);
}

static double resumed_ms(kvrt_runtime* rt, kvrt_store* store, const char* cold_path) {
  kvrt_model* model = open_populated(rt);
  kvrt_report r;
  KVRT_INIT(&r);
  if (cold_path) nftw(cold_path, evict_pages, 16, FTW_PHYS);
  const double start = now_ms();
  kvrt_session* s = resume_session(model, store, "ann", &r);
  const double ms = now_ms() - start;
  EXPECT(r.reused_disk >= kState - 1, "%" PRIu64 " tokens came from the store", r.reused_disk);
  kvrt_session_close(s);
  kvrt_model_release(model);
  return ms;
}

static void load(uint32_t codec, const char* name) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/load", dir);
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_populated(rt);
  kvrt_store* store = open_store(rt, path);
  kvrt_session* s = computed(model, store, 5, NULL);
  kvrt_save_options o = {.struct_size = sizeof o, .codec = codec};
  kvrt_save_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_suspend(s, "ann", 3, &o, &report, NULL));
  kvrt_session_close(s);
  const size_t raw = (size_t)(model_props(model).kv_bytes_per_token * kState);
  kvrt_model_release(model);
  double ms[64], cold_ms[64];
  for (int run = 0; run < runs; ++run) ms[run] = resumed_ms(rt, store, NULL);       // from the pages that the save left
  for (int run = 0; run < runs; ++run) cold_ms[run] = resumed_ms(rt, store, path);  // a cold read caches nothing
  const double copy = copy_ms(raw), m = median(ms, (size_t)runs), cold = median(cold_ms, (size_t)runs);
  printf("{\"load\": %d, \"codec\": \"%s\", \"bytes\": %" PRIu64
         ", \"raw_bytes\": %zu, \"resume_ms\": %.1f, \"cold_ms\": %.1f, \"copy_ms\": %.1f}\n",
         kState, name, report.bytes_written, raw, m, cold, copy);
  fflush(stdout);
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
  remove_tree(path);
}

// ---- turns --------------------------------------------------------------------------------------------------------------------------

static double write_ms(const char* path, size_t bytes) {
  char* data = calloc(bytes, 1);
  REQUIRE(data, "no memory");
  const double start = now_ms();
  const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0, "write %s", path);
  const double ms = now_ms() - start;
  free(data);
  return ms;
}

static void turns(void) {
  enum { kTurns = 100, kMore = 32 };
  char path[kPathMax + 32], file[kPathMax + 32];
  snprintf(path, sizeof path, "%s/turns", dir);
  snprintf(file, sizeof file, "%s/written", dir);
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_populated(rt);
  kvrt_store* store = open_store(rt, path);
  kvrt_session* s = open_session(model, store, 0);
  double ms[kTurns], written[kTurns];
  for (int turn = 0; turn < kTurns; ++turn) {
    int32_t tokens[kMore];
    prompt_tokens(tokens, kMore, (uint64_t)turn, vocab);
    MUST(kvrt_session_append(s, tokens, kMore, NULL));
    MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
    kvrt_save_report report = {.struct_size = sizeof report};
    const double start = now_ms();
    MUST(kvrt_session_checkpoint(s, "ann", 3, NULL, &report, NULL));
    ms[turn] = now_ms() - start;
    written[turn] = write_ms(file, (size_t)report.bytes_written);
  }
  const double p50 = median(ms, kTurns), write = median(written, kTurns);
  printf("{\"turn\": %d, \"save_ms\": %.2f, \"save_p95_ms\": %.2f, \"write_ms\": %.2f}\n", kMore, p50, ms[kTurns * 95 / 100], write);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  if (!find_real(model_path)) return kSkip;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--tokens") == 0 && i + 1 < argc) {
      decode_tokens = (uint32_t)atoi(argv[++i]);
    } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = atoi(argv[++i]);
    } else {
      snprintf(model_path, sizeof model_path, "%s", argv[i]);
    }
  }
  REQUIRE(runs >= 1 && runs <= 64 && decode_tokens >= 10 && decode_tokens < kTokensMax, "--runs 1 to 64, --tokens 10 to %d",
          kTokensMax - 1);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 0);
  vocab = model_props(model).vocab_size;
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  load(KVRT_CODEC_ZSTD, "zstd");
  load(KVRT_CODEC_NONE, "none");
  turns();
  decode_beside_saves();
  remove_tree(dir);
  return finish();
}
