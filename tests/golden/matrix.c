// The bit-exact matrix: the logits of a position depend on the model, the KV format and the tokens before it, and on nothing else.
// matrix tiny: every generated model, each with another third of the settings (a twelfth of one that stands for an architecture, row_*).
// matrix few: a quarter of these. matrix all: all settings. matrix threads: prompts on two threads, again and again. matrix real: SmolLM2, fewer.
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "matrix_variants.h"

// Denormals as zero and flush to zero, as some hosts have it.
static unsigned host_mode(int on) {
#ifdef __SSE__
  if (on) _mm_setcsr(_mm_getcsr() | 0x8040u);
  return _mm_getcsr() & 0x8040u;
#else
  (void)on;
  return 0x8040u;
#endif
}

static int has_isa(uint32_t isa) {
  kvrt_runtime_options o;
  KVRT_INIT(&o);
  o.isa = isa;
  kvrt_runtime* rt = NULL;
  const kvrt_status status = kvrt_runtime_open(&o, &rt, NULL);
  kvrt_runtime_release(rt);
  return status == KVRT_OK;
}

static void make_base(struct bench* b, struct base* base, size_t prompts) {
  b->setting = (struct setting){1, KVRT_ISA_SCALAR, 512, 32};
  b->base = base;
  bench_open(b);
  const kvrt_model_props props = model_props(b->model);
  EXPECT(props.block_tokens == 32, "block_tokens %u", props.block_tokens);
  for (size_t i = 0; i < kPrompts; ++i) prompt_tokens(base->prompt[i], kPromptMax, 1000 + i, props.vocab_size);
  for (size_t i = 0; i < prompts; ++i) {
    kvrt_session* s = open_session(b->model, NULL, 1);
    append_prompt(b, s, i, 0, base->prompt_count - i);
    generate_into(s, (uint32_t)base->new_count, &base->run[i]);
    kvrt_session_close(s);
  }
  kvrt_session* s = open_session(b->model, NULL, 1);
  append_prompt(b, s, 0, 0, base->prompt_count);
  struct all_logits all = {0};
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_ALL, all_callback, &all, NULL, NULL));
  EXPECT(all.count == base->prompt_count, "base: prefill(ALL) gave %zu rows", all.count);
  memcpy(base->all, all.digest, sizeof base->all);
  EXPECT(base->all[base->prompt_count - 1] == base->run[0].digest[0], "the last prompt position differs between prefill and generate");
  kvrt_session_close(s);
  bench_close(b);
  size_t distinct = 0;  // a run that repeats one token would prove little
  for (size_t i = 1; i < base->new_count; ++i) distinct += base->run[0].token[i] != base->run[0].token[i - 1];
  EXPECT(distinct > base->new_count / 4, "the base run repeats itself: %zu changes", distinct);
}

static void use_setting(struct bench* b, struct setting setting) {
  b->setting = setting;
  const char* name = strrchr(b->path, '/');
  snprintf(b->label, sizeof b->label, "%s threads %u isa %u chunk %u block %u", name ? name + 1 : b->path, setting.threads, setting.isa,
           setting.chunk, setting.block);
}

// What threads do to the same rows' memory: prompts long enough to be dealt to them, often enough that they meet. ThreadSanitizer needs no luck.
#ifdef __SANITIZE_THREAD__
enum { kMeetings = 2 };
#else
enum { kMeetings = 100 };
#endif
static void with_threads(struct bench* b, uint32_t best) {
  use_setting(b, (struct setting){2, best, 512, 32});
  bench_open(b);
  for (int i = 0; i < kMeetings; ++i) variant_all_logits(b);
  bench_close(b);
}

// One of `parts` parts of the settings; parts 0: two threads.
static void tiny_model(const char* path, uint32_t best, size_t part, size_t parts) {
  static struct base base;
  memset(&base, 0, sizeof base);
  struct bench b = {.path = path, .pool_tokens = 8192};
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  const kvrt_model_props props = model_props(model);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  if (!props.has_weights) return;
  REQUIRE(props.context_length >= 96, "%s: context of %u is too short for the matrix", path, props.context_length);
  base.prompt_count = props.context_length >= 256 ? 101 : props.context_length / 2 + 5;
  base.new_count = props.context_length >= 256 ? 40 : props.context_length / 3;
  if (parts == 0) base.new_count = 16;
  make_base(&b, &base, parts == 0 ? 1 : kPrompts);
  if (parts == 0) {
    with_threads(&b, best);
    return;
  }
  const uint32_t chunks[] = {1, 7, 64, 512}, blocks[] = {16, 32, 64};
  for (uint32_t isa = KVRT_ISA_SCALAR; isa <= best; ++isa) {
    for (uint32_t threads = 1; threads <= 2; ++threads) {
      for (size_t c = 0; c < 4; ++c) {
        for (size_t k = 0; k < 3; ++k) {
          if ((((threads - 1) * 4 + c) * 3 + k + 5 * isa) % parts != part) continue;
          use_setting(&b, (struct setting){threads, isa, chunks[c], blocks[k]});
          bench_open(&b);
          variant_cold(&b);
          variant_all_logits(&b);
          variant_prefix_in_memory(&b);
          if ((c + k + threads) % 2 == isa % 2) variant_among(&b, 3);
          if (c != 0 && k == c - 1) variant_among(&b, 8);
          if ((c + threads) % 2 == 0) variant_from_disk(&b), variant_fork(&b);
          if ((c + threads) % 2 == 1) variant_truncate(&b);
          if (c % 2 == 1 && (c + k) % 2 == threads % 2) variant_suspend(&b, 4);
          bench_close(&b);
        }
      }
    }
  }
}

static void real_model(const char* path, uint32_t best) {
  static struct base base;
  base.prompt_count = 64;
  base.new_count = 32;
  struct bench b = {.path = path, .pool_tokens = 8192};
  make_base(&b, &base, 1);
  use_setting(&b, (struct setting){2, best, 512, 32});
  bench_open(&b);
  variant_cold(&b);
  for (size_t i = 1; i < kPrompts; ++i) {  // the other prompts' base comes from here: the test compares company, not arithmetic
    kvrt_session* s = open_session(b.model, NULL, 1);
    append_prompt(&b, s, i, 0, base.prompt_count - i);
    generate_into(s, (uint32_t)base.new_count, &base.run[i]);
    kvrt_session_close(s);
  }
  variant_prefix_in_memory(&b);
  variant_among(&b, 3);
  variant_among(&b, 8);
  variant_from_disk(&b);
  variant_fork(&b);
  variant_suspend(&b, 2);
  bench_close(&b);
  const struct setting others[] = {
      {1, best, 1, 16}, {1, best > KVRT_ISA_AVX2 ? KVRT_ISA_AVX2 : best, 7, 32}, {2, best, 64, 16}, {2, best, 512, 64}};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    use_setting(&b, others[i]);
    bench_open(&b);
    variant_cold(&b);
    variant_all_logits(&b);
    if (i == 2) variant_truncate(&b);
    bench_close(&b);
  }
}

int main(int argc, char** argv) {
  const int real = argc > 1 && strcmp(argv[1], "real") == 0;
  const uint32_t best = has_isa(KVRT_ISA_AVX512) ? KVRT_ISA_AVX512 : has_isa(KVRT_ISA_AVX2) ? KVRT_ISA_AVX2 : KVRT_ISA_SCALAR;
  static char paths[kModelsMax][kPathMax];
  if (best == KVRT_ISA_SCALAR) printf("this machine has no AVX2: scalar only\n");
  setvbuf(stdout, NULL, _IOLBF, 0);  // each model's line as it is done, in a file too
  const double start = now_ms();
  const int all = argc > 1 && strcmp(argv[1], "all") == 0;
  const size_t few = argc > 1 && strcmp(argv[1], "few") == 0 ? 4 : 1;
  const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  if (real) {
    if (!find_real(paths[0])) return printf("no model: skipped\n"), kSkip;
    real_model(paths[0], best);
  } else {
    const size_t count = list_tiny(paths);
    for (size_t i = 0; i < count; ++i) {
      const double t = now_ms();
      if (argc > 2 && strstr(paths[i], argv[2]) == NULL) continue;
      const size_t parts = all ? 1 : few * (strstr(paths[i], "/row_") ? 12 : 3);
      tiny_model(paths[i], best, i % parts, threads ? 0 : parts);
      printf("%s: %.1f s\n", paths[i], (now_ms() - t) / 1e3);
    }
  }
  // A host that flushes denormals: the same bits, and its mode is as it was.
  if (host_mode(1) == 0x8040u && !real) {
    static struct base base;
    struct bench b = {.path = paths[0], .pool_tokens = 8192};
    char tiny[kPathMax];
    tiny_path(tiny, 0);
    b.path = tiny;
    base.prompt_count = 51, base.new_count = 24;
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
    make_base(&b, &base, kPrompts);
    host_mode(1);
    for (uint32_t isa = KVRT_ISA_SCALAR; isa <= best; ++isa) {
      use_setting(&b, (struct setting){isa, isa, 7, 16});
      strcat(b.label, " with FTZ and DAZ");
      bench_open(&b);
      variant_cold(&b);
      variant_all_logits(&b);
      variant_prefix_in_memory(&b);
      variant_among(&b, 8);
      variant_from_disk(&b);
      variant_truncate(&b);
      variant_suspend(&b, 6);
      bench_close(&b);
      EXPECT(host_mode(0) == 0x8040u, "the host's floating-point mode changed");
    }
  }
  printf("matrix: %.1f s\n", (now_ms() - start) / 1e3);
  return finish();
}
