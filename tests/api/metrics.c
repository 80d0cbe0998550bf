// The counters are the sums of the reports and of the test's own acts, and their text is in the format that Prometheus reads.
#include "misuse.h"

static kvrt_metrics sums;

static void add(const kvrt_report* r) {
  check_report(r, "metrics");
  sums.prompt_tokens += r->prompt_tokens;
  sums.reused_memory += r->reused_memory;
  sums.reused_disk += r->reused_disk;
  sums.prefilled += r->prefilled;
  sums.recomputed += r->recomputed;
  sums.generated += r->generated;
  uint64_t* const done[] = {NULL,
                            &sums.done_eos,
                            &sums.done_stop,
                            &sums.done_max_tokens,
                            &sums.done_context_full,
                            &sums.done_cancelled,
                            &sums.done_prefilled,
                            &sums.failed};
  ++*done[r->reason];
  if (r->generated == 0) return;
  ++sums.first_tokens;
  sums.ttft_ms_total += r->ttft_ms;
  sums.queue_ms_total += r->queue_ms;
  sums.prefill_ms_total += r->prefill_ms;
  sums.decode_ms_total += r->decode_ms;
}

static kvrt_report end_of(kvrt_session* s) {
  struct run r = {0};
  drain(s, &r);
  add(&r.report);
  return r.report;
}

static int near(double a, double b) { return a - b < 1e-6 * (1 + b) && b - a < 1e-6 * (1 + b); }

// Generations that end in every way there is, prefills, a session from disk.
static void work(struct stage* t) {
  int32_t tokens[100];
  prompt_tokens(tokens, 100, 9, t->vocab);
  for (int i = 0; i < 6; ++i) {
    kvrt_session* s = open_session(t->model, t->store, 0);
    MUST(kvrt_session_append(s, tokens, 70 + (size_t)i, NULL));
    kvrt_generate_options o = run_options(5 + (uint32_t)i);
    int32_t stops[300];
    for (int k = 0; k < 300; ++k) stops[k] = k;
    if (i == 1) o.stop_tokens = stops, o.stop_token_count = 300;  // whatever the model says
    if (i == 2) o.ignore_eos = 0, o.max_tokens = 0;
    MUST(kvrt_session_begin(s, &o, NULL));
    ++sums.generations;
    if (i == 3) {
      for (int k = 0; k < 3; ++k) MUST(kvrt_model_step(t->model, 0, NULL, NULL));
      MUST(kvrt_session_cancel(s, NULL));
    }
    const kvrt_report r = end_of(s);
    if (i == 1) EXPECT(r.reason == KVRT_REASON_STOP || r.reason == KVRT_REASON_MAX_TOKENS, "reason %u", r.reason);
    if (i == 2) EXPECT(r.reason == KVRT_REASON_EOS || r.reason == KVRT_REASON_CONTEXT_FULL, "reason %u", r.reason);
    if (i == 4) {
      kvrt_report prefill = {.struct_size = sizeof prefill};
      (void)next_digest(s, &prefill);
      ++sums.prefills;
      add(&prefill);
      MUST(kvrt_session_suspend(s, "metrics", 7, NULL, NULL, NULL));
      MUST(kvrt_session_begin(s, &o, NULL));
      ++sums.generations;
      (void)end_of(s);
    }
    kvrt_session_close(s);
  }
}

static void counters(struct stage* t) {
  kvrt_model* model = open_model(t->runtime, t->tiny, 0, 16, 0);
  kvrt_model* const was = t->model;
  t->model = model;
  kvrt_metrics m = metrics_of(model);
  EXPECT(m.steps == 0 && m.generations == 0 && m.prompt_tokens == 0 && m.sessions == 0 && m.units == model_props(model).units, "at first");
  const double start = now_ms();
  work(t);
  m = metrics_of(model);
#define SAME(field) EXPECT(m.field == sums.field, #field ": %" PRIu64 ", the reports have %" PRIu64, m.field, sums.field)
  SAME(prompt_tokens);
  SAME(reused_memory);
  SAME(reused_disk);
  SAME(prefilled);
  SAME(recomputed);
  SAME(generated);
  SAME(generations);
  SAME(prefills);
  SAME(first_tokens);
  SAME(done_eos);
  SAME(done_stop);
  SAME(done_max_tokens);
  SAME(done_context_full);
  SAME(done_cancelled);
  SAME(done_prefilled);
  SAME(failed);
#undef SAME
  EXPECT(near(m.ttft_ms_total, sums.ttft_ms_total) && near(m.queue_ms_total, sums.queue_ms_total) &&
             near(m.prefill_ms_total, sums.prefill_ms_total) && near(m.decode_ms_total, sums.decode_ms_total),
         "times: %g %g %g %g", m.ttft_ms_total, m.queue_ms_total, m.prefill_ms_total, m.decode_ms_total);
  EXPECT(m.generations + m.prefills ==
             m.done_eos + m.done_stop + m.done_max_tokens + m.done_context_full + m.done_cancelled + m.done_prefilled + m.failed,
         "what began has ended");
  EXPECT(m.done_cancelled == 1 && m.done_prefilled == 1, "%" PRIu64 " cancelled", m.done_cancelled);
  // Rows: each computed or generated token but the last of each generation, again or not; and each generation's last prompt token.
  EXPECT(m.step_rows >= m.prefilled && m.step_rows <= m.prefilled + m.generated + m.recomputed + 10, "%" PRIu64 " rows", m.step_rows);
  EXPECT(m.steps > 0 && m.step_ms_longest > 0 && m.step_ms_longest <= m.step_ms_total && m.step_ms_total <= now_ms() - start,
         "%g ms in steps", m.step_ms_total);
  EXPECT(m.sessions == 0 && m.generating == 0 && m.paused == 0 && m.units_used == 0 && m.units_cached > 0, "gauges at rest");
  t->model = was;
  kvrt_model_release(model);
}

// ---- Prometheus' text format 0.0.4, as its documentation has it ---------------------------------------------------------------------

static int is_name(const char* from, const char* to) {
  if (from == to || (*from >= '0' && *from <= '9')) return 0;
  for (; from < to; ++from) {
    if (!((*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') || (*from >= '0' && *from <= '9') || *from == '_' ||
          *from == ':'))
      return 0;
  }
  return 1;
}

// A label's value between its quotes, unescaped; returns the text behind the closing quote, or NULL.
static const char* label_value(const char* at, char* out, size_t capacity) {
  if (*at++ != '"') return NULL;
  size_t n = 0;
  for (; *at != '"'; ++at) {
    if (*at == 0 || *at == '\n' || n + 1 >= capacity) return NULL;
    char c = *at;
    if (c == '\\') {
      c = *++at;
      if (c != '\\' && c != '"' && c != 'n') return NULL;
      if (c == 'n') c = '\n';
    }
    out[n++] = c;
  }
  out[n] = 0;
  return at + 1;
}

struct family {
  char name[96], type[16];
  int help, samples;
};

static struct family families[64];
static size_t family_count;

static struct family* family_of(const char* name, size_t size) {
  for (size_t i = 0; i < family_count; ++i) {
    const size_t own = strlen(families[i].name);
    if (strncmp(families[i].name, name, own) != 0) continue;
    const char* rest = name + own;
    const size_t left = size - own;
    const int summary = strcmp(families[i].type, "summary") == 0;
    if (size == own || (summary && ((left == 4 && memcmp(rest, "_sum", 4) == 0) || (left == 6 && memcmp(rest, "_count", 6) == 0))))
      return &families[i];
  }
  return NULL;
}

static void comment(const char* line) {
  char kind[8], name[96], rest[256];
  const int n = sscanf(line, "# %7s %95s %255[^\n]", kind, name, rest);
  REQUIRE(n == 3 && is_name(name, name + strlen(name)), "a comment: %s", line);
  struct family* f = family_count ? &families[family_count - 1] : NULL;
  if (strcmp(kind, "HELP") == 0) {
    EXPECT(family_of(name, strlen(name)) == NULL && family_count < 64, "%s has two HELP lines", name);
    f = &families[family_count++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->help = 1;
  } else {
    EXPECT(strcmp(kind, "TYPE") == 0 && f && strcmp(f->name, name) == 0 && f->samples == 0, "TYPE before HELP or after samples: %s", line);
    EXPECT(strcmp(rest, "counter") == 0 || strcmp(rest, "gauge") == 0 || strcmp(rest, "summary") == 0, "type %s", rest);
    snprintf(f->type, sizeof f->type, "%.15s", rest);
  }
}

// name{label="value",...} number
static void sample(const char* line, const char* model, const char* wanted, const char* wanted_label, double* found) {
  const char* at = strpbrk(line, "{ ");
  REQUIRE(at && *at == '{' && is_name(line, at), "a sample: %s", line);
  struct family* f = family_of(line, (size_t)(at - line));
  EXPECT(f && f->help && f->type[0] && f == &families[family_count - 1], "a sample outside its family: %s", line);
  if (f) ++f->samples;
  const size_t name_size = (size_t)(at - line);
  int has_model = 0, has_label = wanted_label == NULL;
  for (++at; *at != '}';) {
    const char* equals = strchr(at, '=');
    char value[256];
    REQUIRE(equals && is_name(at, equals), "a label: %s", line);
    const char* next = label_value(equals + 1, value, sizeof value);
    REQUIRE(next && (*next == ',' || *next == '}'), "a label's value: %s", line);
    if (equals - at == 5 && memcmp(at, "model", 5) == 0) has_model += strcmp(value, model) == 0;
    if (wanted_label && strcmp(value, wanted_label) == 0) has_label = 1;
    at = *next == ',' ? next + 1 : next;
  }
  EXPECT(has_model == 1, "the model's label: %s", line);
  char* end = NULL;
  const double number = strtod_l(at + 1, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
  EXPECT(at[1] == ' ' && end != at + 1 && *end == 0, "a number: %s", line);
  if (wanted && strlen(wanted) == name_size && memcmp(wanted, line, name_size) == 0 && has_label) *found = number;
}

static double parse(kvrt_model* model, const char* label, const char* expected, const char* wanted, const char* wanted_label) {
  static char text[32768];
  size_t size = 0, small = 0;
  double found = -1;
  MUST(kvrt_model_metrics_text(model, label, label ? strlen(label) : 0, text, sizeof text - 1, &size, NULL));
  text[size] = 0;
  EXPECT(kvrt_model_metrics_text(model, label, label ? strlen(label) : 0, text, 5, &small, NULL) == KVRT_TOO_SMALL && small == size,
         "needed %zu", small);
  EXPECT(size > 0 && text[size - 1] == '\n' && strlen(text) == size, "the text ends with a line feed");
  family_count = 0;
  memset(families, 0, sizeof families);
  for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    if (*line == '#') comment(line);
    if (*line != '#') sample(line, expected, wanted, wanted_label, &found);
  }
  for (size_t i = 0; i < family_count; ++i) EXPECT(families[i].samples > 0 && families[i].type[0], "%s has no sample", families[i].name);
  EXPECT(family_count > 10, "%zu families", family_count);
  return found;
}

static void prometheus(struct stage* t) {
  const char* const labels[] = {"a",           "", "a \"quoted\" name", "back\\slash", "two\nlines", "}{,=\"\\\n\\n", "\xE6\xB5\xB7 sea",
                                "ends with \\"};
  for (size_t i = 0; i < sizeof labels / sizeof *labels; ++i) (void)parse(t->model, labels[i], labels[i], NULL, NULL);
  (void)parse(t->model, NULL, model_props(t->model).name, NULL, NULL);
  kvrt_session* s = open_session(t->model, NULL, 0);
  MUST(kvrt_session_append(s, (const int32_t[]){4, 5, 6}, 3, NULL));
  struct run r = {0};
  generate_into(s, 7, &r);
  const kvrt_metrics m = metrics_of(t->model);
  EXPECT(parse(t->model, "x", "x", "kvrt_sessions", NULL) == (double)m.sessions, "sessions");
  EXPECT(parse(t->model, "x", "x", "kvrt_generated_tokens_total", NULL) == (double)m.generated && m.generated >= 7, "generated");
  EXPECT(parse(t->model, "x", "x", "kvrt_steps_total", NULL) == (double)m.steps, "steps");
  EXPECT(parse(t->model, "x", "x", "kvrt_kv_units", "used") == (double)m.units_used && m.units_used == 1, "units used");
  EXPECT(parse(t->model, "x", "x", "kvrt_done_total", "max_tokens") == (double)m.done_max_tokens, "done");
  EXPECT(near(parse(t->model, "x", "x", "kvrt_ttft_seconds_sum", NULL), m.ttft_ms_total * 1e-3), "time to first token");
  EXPECT(parse(t->model, "x", "x", "kvrt_ttft_seconds_count", NULL) == (double)m.first_tokens, "first tokens");
  kvrt_session_close(s);
}

int main(void) {
  struct stage t;
  stage_open(&t);
  counters(&t);
  prometheus(&t);
  stage_close(&t);
  return finish();
}
