// A long prompt's effect on sessions that decode: `sessions` of them decode, a prompt of `prompt` tokens arrives, and the gaps between
// their tokens are measured until it has its first token. fairness [MODEL] [sessions 8] [prompt 4000]; prints one JSON object.
#include "tests/api/support.h"

enum { kSessionsMax = 64, kPromptMax = 7000, kOwn = 32, kAlone = 40, kGapsMax = 1 << 20 };

static double *gaps, last_token[kSessionsMax];
static size_t gap_count;

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double quantile(double q) {
  if (gap_count == 0) return 0;
  const size_t i = (size_t)(q * (double)(gap_count - 1) + 0.5);
  return gaps[i];
}

static void take_tokens(kvrt_session** s, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (kvrt_event e; take_event(s[i], &e);) {
      if (e.type != KVRT_EVENT_TOKEN) continue;
      const double now = now_ms();
      if (last_token[i] > 0 && gap_count < kGapsMax) gaps[gap_count++] = now - last_token[i];
      last_token[i] = now;
    }
  }
}

int main(int argc, char** argv) {
  char path[kPathMax];
  if (argc > 1) {
    snprintf(path, sizeof path, "%s", argv[1]);
  } else if (!find_real(path)) {
    printf("no model %s\n", path);
    return 1;
  }
  const size_t sessions = argc > 2 ? (size_t)atoi(argv[2]) : 8, prompt = argc > 3 ? (size_t)atoi(argv[3]) : 4000;
  REQUIRE(sessions >= 1 && sessions <= kSessionsMax && prompt >= 1 && prompt <= kPromptMax, "at most %d sessions, %d tokens", kSessionsMax,
          kPromptMax);
  gaps = malloc(kGapsMax * sizeof *gaps);
  REQUIRE(gaps != NULL, "memory");
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_model(rt, path, 0, 0, prompt + sessions * 4096);
  const uint32_t vocab = model_props(model).vocab_size;
  static int32_t tokens[kPromptMax];
  kvrt_session *s[kSessionsMax], *late = open_session(model, NULL, 1);
  kvrt_generate_options o = run_options(0);
  o.emit_logits = 0;
  for (size_t i = 0; i < sessions; ++i) {
    s[i] = open_session(model, NULL, 1);
    prompt_tokens(tokens, kOwn, i, vocab);
    MUST(kvrt_session_append(s[i], tokens, kOwn, NULL));
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  prompt_tokens(tokens, prompt, 99, vocab);
  MUST(kvrt_session_append(late, tokens, prompt, NULL));
  for (size_t i = 0; i < sessions; ++i) {
    while (session_props(s[i]).tokens == kOwn) MUST(kvrt_model_step(model, 0, NULL, NULL));
  }
  take_tokens(s, sessions);
  gap_count = 0;
  for (int i = 0; i < kAlone; ++i) {
    MUST(kvrt_model_step(model, 0, NULL, NULL));
    take_tokens(s, sessions);
  }
  qsort(gaps, gap_count, sizeof *gaps, compare);
  const double alone = quantile(0.5);
  gap_count = 0;
  o.max_tokens = 1;
  const double start = now_ms();
  MUST(kvrt_session_begin(late, &o, NULL));
  struct run r = {0};
  uint64_t steps = metrics_of(model).steps;
  while (!r.done) {
    MUST(kvrt_model_step(model, 0, NULL, NULL));
    take_tokens(s, sessions);
    for (kvrt_event e; take_event(late, &e);) run_event(&r, &e);
  }
  const double took = now_ms() - start;
  steps = metrics_of(model).steps - steps;
  qsort(gaps, gap_count, sizeof *gaps, compare);
  const double median = quantile(0.5), p99 = quantile(0.99);
  printf(
      "{\"sessions\": %zu, \"prompt\": %zu, \"alone_median_ms\": %.2f, \"median_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f, "
      "\"ratio\": %.3f, \"ratio_to_alone\": %.3f, \"gaps\": %zu, \"steps\": %" PRIu64
      ", \"prefill_tok_s\": %.1f, \"decode_tok_s\": %.1f, "
      "\"ttft_ms\": %.0f}\n",
      sessions, prompt, alone, median, p99, quantile(1), p99 / median, p99 / alone, gap_count, steps, (double)prompt / took * 1e3,
      (double)gap_count / took * 1e3, took);
  for (size_t i = 0; i < sessions; ++i) kvrt_session_close(s[i]);
  kvrt_session_close(late);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  free(gaps);
  return 0;
}
