// The store's figures on SmolLM2, each printed; bytes are asserted, the time in a Release build.
#include <sys/resource.h>

#include "../api/support.h"

static int32_t text_tokens[8192];

// English-like text (like the text that the weights were trained for, so that the KV is typical): words drawn by a fixed seed.
static size_t make_text(const kvrt_model* model) {
  static const char* words[] = {"the",  "river", "was", "cold",   "and",  "she",    "walked", "along",   "its", "bank",   "until",
                                "a",    "light", "in",  "old",    "mill", "showed", "that",   "someone", "had", "come",   "home",
                                "with", "bread", "for", "winter", "but",  "nobody", "knew",   "why",     "it",  "rained", "so"};
  static char text[40000];
  size_t size = 0;
  uint64_t random = 9;
  while (size < 30000) {
    size += (size_t)snprintf(text + size, sizeof text - size, "%s%s", words[next_random(&random) % (sizeof words / sizeof *words)],
                             next_random(&random) % 11 == 0 ? ". " : " ");
  }
  size_t count = 0;
  MUST(kvrt_model_tokenize(model, text, size, 0, text_tokens, sizeof text_tokens / sizeof *text_tokens, &count, NULL));
  return count;
}

static double cpu_ms(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static kvrt_store_props store_props(const kvrt_store* store) {
  kvrt_store_props p = {.struct_size = sizeof p};
  MUST(kvrt_store_info(store, &p, NULL));
  return p;
}

// Suspend 2,048 tokens, 64 more and suspend again; then resume in a fresh pool: model open, store open to first token.
static void resume_figure(kvrt_runtime* rt, const char* model_path) {
  char dir[kPathMax];
  make_dir(dir);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 8192);
  const uint64_t raw_per_token = model_props(model).kv_bytes_per_token;
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = open_session(model, store, 0);
  kvrt_save_report first = {.struct_size = sizeof first}, second = {.struct_size = sizeof second};
  MUST(kvrt_session_append(s, text_tokens, 2048, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "r", 1, NULL, &first, NULL));
  const kvrt_store_props p = store_props(store);
  printf("suspend 2048: %.1f ms, %" PRIu64 " chunks, %" PRIu64 " bytes; %.3f x raw f16\n", first.ms, first.chunks_written,
         first.bytes_written, (double)p.chunk_bytes / (2048.0 * (double)raw_per_token));
  EXPECT(first.tokens == 2048 && first.chunks == 64 && first.chunks_written == 64, "%" PRIu64 " of %" PRIu64 " chunks",
         first.chunks_written, first.chunks);
  EXPECT((double)p.chunk_bytes <= 0.88 * (double)p.chunk_raw_bytes, "%" PRIu64 " of %" PRIu64 " raw bytes", p.chunk_bytes,
         p.chunk_raw_bytes);
  EXPECT(p.chunk_raw_bytes >= 2048 * raw_per_token && p.chunk_raw_bytes <= 2080 * raw_per_token, "%" PRIu64 " raw bytes",
         p.chunk_raw_bytes);
  MUST(kvrt_session_append(s, text_tokens + 2048, 64, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "r", 1, NULL, &second, NULL));
  printf("64 more tokens: %" PRIu64 " bytes, %.2f %% of the first\n", second.bytes_written,
         100.0 * (double)second.bytes_written / (double)first.bytes_written);
  EXPECT(second.bytes_written > 0 && (double)second.bytes_written < 0.06 * (double)first.bytes_written, "%" PRIu64 " bytes",
         second.bytes_written);
  MUST(kvrt_session_truncate(s, 2048, NULL));
  MUST(kvrt_session_suspend(s, "r", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    kvrt_model_release(model);
    model = open_model(rt, model_path, 0, 0, 8192);  // an empty pool
    kvrt_report opened, report;
    KVRT_INIT(&opened);
    KVRT_INIT(&report);
    const double start = now_ms(), cpu = cpu_ms();
    store = open_store(rt, dir);
    s = resume_session(model, store, "r", &opened);
    const double resumed = now_ms();
    kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .ignore_eos = 1};
    MUST(kvrt_session_generate(s, &o, NULL, NULL, &report, NULL));
    const double ms = now_ms() - start;
    printf("resume 2048: %.1f ms to the first token (%.1f ms to resume, %.1f ms the token; %.1f ms of CPU)\n", ms, resumed - start,
           now_ms() - resumed, cpu_ms() - cpu);
    EXPECT(opened.reused_disk >= 2047 && report.prefilled == 1, "%" PRIu64 " from disk, %" PRIu64 " computed", opened.reused_disk,
           report.prefilled);
    best = ms < best ? ms : best;
    kvrt_session_close(s);
    kvrt_store_release(store);
  }
#ifdef KVRT_RELEASE_BUILD
  EXPECT(best <= 150, "resume took %.1f ms", best);
#endif
  kvrt_model_release(model);
  remove_tree(dir);
}

// 20 forks of 1,536 tokens, each with 96 other tokens: the shared part is stored once.
static void fork_figure(kvrt_runtime* rt, const char* model_path, size_t count) {
  char dir[kPathMax];
  make_dir(dir);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 8192);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, text_tokens, 1536, NULL));
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  kvrt_save_report first = {.struct_size = sizeof first};
  MUST(kvrt_session_checkpoint(s, "first", 5, NULL, &first, NULL));
  for (size_t i = 0; i < 20; ++i) {
    kvrt_session* fork = NULL;
    MUST(kvrt_session_fork(s, NULL, &fork, NULL));
    REQUIRE(1536 + 160 * i + 96 <= count, "the text is too short");
    MUST(kvrt_session_append(fork, text_tokens + 1536 + 160 * i, 96, NULL));
    MUST(kvrt_session_prefill(fork, 0, NULL, NULL, NULL, NULL));
    char name[16];
    snprintf(name, sizeof name, "fork%zu", i);
    MUST(kvrt_session_suspend(fork, name, strlen(name), NULL, NULL, NULL));
    kvrt_session_close(fork);
  }
  const kvrt_store_props p = store_props(store);
  const double blocks = 1536 / 32 + 20 * 96 / 32, mean = (double)first.bytes_written / (1536 / 32);
  printf("20 forks: %" PRIu64 " chunks, %.3f x the first, %.4f x unique blocks x mean block\n", p.chunks,
         (double)p.chunk_bytes / (double)first.bytes_written, (double)p.chunk_bytes / (blocks * mean));
  EXPECT(p.sessions == 21 && p.chunks == (uint64_t)blocks, "%" PRIu64 " sessions, %" PRIu64 " chunks", p.sessions, p.chunks);
  EXPECT((double)p.chunk_bytes < 2.4 * (double)first.bytes_written, "%" PRIu64 " bytes, the first %" PRIu64, p.chunk_bytes,
         first.bytes_written);
  EXPECT((double)p.chunk_bytes <= 1.02 * blocks * mean, "%" PRIu64 " bytes for %.0f blocks of %.0f", p.chunk_bytes, blocks, mean);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  remove_tree(dir);
}

int main(void) {
  char path[kPathMax];
  if (!find_real(path)) return printf("no model: skipped\n"), kSkip;
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  const size_t count = make_text(model);
  kvrt_model_release(model);
  REQUIRE(count >= 5000, "%zu tokens of text", count);
  resume_figure(rt, path);
  fork_figure(rt, path, count);
  kvrt_runtime_release(rt);
  return finish();
}
