// The variants of the bit-exact matrix: each makes the base run's tokens in another way and compares every bit.
#pragma once

#include "../api/support.h"

enum { kPrompts = 8, kPromptMax = 128, kNewMax = 64, kCuts = 20 };

// The base run of each prompt: threads 1, scalar, chunk 512, block 32, alone.
struct base {
  size_t prompt_count, new_count;
  int32_t prompt[kPrompts][kPromptMax];
  struct run run[kPrompts];
  uint64_t all[kPromptMax];  // digest of every prompt position of prompt 0
};

struct setting {
  uint32_t threads, isa, chunk, block;
};

struct bench {  // the objects of a variant
  const char* path;
  struct setting setting;
  const struct base* base;
  kvrt_runtime* runtime;
  kvrt_model* model;
  uint64_t pool_tokens;
  char label[128];
};

static inline void bench_open(struct bench* b) {
  b->runtime = open_runtime(b->setting.threads, b->setting.isa);
  b->model = open_model(b->runtime, b->path, b->setting.chunk, b->setting.block, b->pool_tokens);
}

static inline void bench_close(struct bench* b) {
  kvrt_model_release(b->model);
  kvrt_runtime_release(b->runtime);
}

static inline void bench_reopen(struct bench* b) {
  bench_close(b);
  bench_open(b);
}

// got holds the base's tokens from..from + got->count.
static inline void expect_same(const struct bench* b, const struct run* got, size_t which, const char* what) {
  const struct run* want = &b->base->run[which];
  EXPECT(got->count == b->base->new_count, "%s, %s: %zu tokens of %zu", b->label, what, got->count, b->base->new_count);
  for (size_t i = 0; i < got->count && i < want->count; ++i) {
    const int same = got->token[i] == want->token[i] && got->digest[i] == want->digest[i] && got->digest[i] != 0;
    EXPECT(same, "%s, %s, prompt %zu: token %zu: %d digest %016" PRIx64 ", base %d %016" PRIx64, b->label, what, which, i,
           (int)got->token[i], got->digest[i], (int)want->token[i], want->digest[i]);
    if (!same) break;
  }
}

static inline size_t sealed(const struct bench* b, size_t tokens) { return tokens / b->setting.block * b->setting.block; }

static inline void append_prompt(const struct bench* b, kvrt_session* s, size_t which, size_t from, size_t to) {
  if (to > from) MUST(kvrt_session_append(s, b->base->prompt[which] + from, to - from, NULL));
}

// ---- the variants ------------------------------------------------------------------------------------------------------------------

struct all_logits {
  size_t count;
  uint64_t digest[kPromptMax];
};

static inline int32_t all_callback(void* user, const kvrt_event* e) {
  struct all_logits* all = (struct all_logits*)user;
  if (e->type == KVRT_EVENT_LOGITS && e->position < kPromptMax) all->digest[e->position] = hash_logits(e), ++all->count;
  return 0;
}

static inline void variant_cold(struct bench* b) {
  kvrt_session* s = open_session(b->model, NULL, 1);
  append_prompt(b, s, 0, 0, b->base->prompt_count);
  struct run r = {0};
  const kvrt_report report = generate_into(s, (uint32_t)b->base->new_count, &r);
  EXPECT(report.prefilled == b->base->prompt_count, "%s: a cold run computed %" PRIu64, b->label, report.prefilled);
  expect_same(b, &r, 0, "cold");
  kvrt_session_close(s);
}

static inline void variant_all_logits(struct bench* b) {
  kvrt_session* s = open_session(b->model, NULL, 0);
  append_prompt(b, s, 0, 0, b->base->prompt_count);
  struct all_logits all = {0};
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_ALL, all_callback, &all, NULL, NULL));
  EXPECT(all.count == b->base->prompt_count, "%s: prefill(ALL) gave %zu rows of %zu", b->label, all.count, b->base->prompt_count);
  for (size_t i = 0; i < b->base->prompt_count; ++i) {
    EXPECT(all.digest[i] == b->base->all[i], "%s, prefill(ALL), position %zu", b->label, i);
  }
  struct run r = {0};
  generate_into(s, (uint32_t)b->base->new_count, &r);
  expect_same(b, &r, 0, "after prefill(ALL)");
  kvrt_session_close(s);
}

// Where layers have windows, another prompt goes on from there alone.
static inline void mark_prompt(struct bench* b, kvrt_session* s) {
  MUST(kvrt_session_mark(s, b->base->prompt_count - 1, NULL));
  MUST(kvrt_session_mark(s, b->base->prompt_count, NULL));
}

static inline void variant_prefix_in_memory(struct bench* b) {
  const size_t n = b->base->prompt_count;
  for (int pass = 0; pass < 2; ++pass) {
    kvrt_session* s = open_session(b->model, NULL, 0);
    append_prompt(b, s, 0, 0, n);
    mark_prompt(b, s);
    struct run r = {0};
    const kvrt_report report = generate_into(s, (uint32_t)b->base->new_count, &r);
    if (pass == 1) {
      EXPECT(report.reused_memory >= sealed(b, n - 1), "%s: prefix hit reused %" PRIu64 " of %zu", b->label, report.reused_memory,
             sealed(b, n - 1));
    }
    expect_same(b, &r, 0, pass ? "prefix hit in memory" : "first of two");
    kvrt_session_close(s);
  }
  const size_t whole = sealed(b, n);  // a prompt that ends with its block: all of it is reused, and the last position runs again
  if (whole == 0) return;
  kvrt_session* s = open_session(b->model, NULL, 0);
  append_prompt(b, s, 0, 0, whole);
  kvrt_report report;
  KVRT_INIT(&report);
  const uint64_t digest = next_digest(s, &report);
  // A state is that of the last position: it runs again from a boundary before.
  const int again = is_recurrent(b->model) ? report.reused_memory + report.prefilled == whole : report.reused_memory == whole - 1;
  EXPECT(again && report.prefilled >= 1, "%s: whole blocks: reused %" PRIu64 ", prefilled %" PRIu64, b->label, report.reused_memory,
         report.prefilled);
  EXPECT(digest == b->base->all[whole - 1], "%s: a prompt of %zu whole blocks", b->label, whole);
  kvrt_session_close(s);
}

static inline void variant_among(struct bench* b, size_t count) {
  kvrt_session* s[kPrompts];
  static struct run runs[kPrompts];
  memset(runs, 0, sizeof runs);
  for (size_t i = 0; i < count; ++i) {
    s[i] = open_session(b->model, NULL, 1);
    append_prompt(b, s[i], i, 0, b->base->prompt_count - i);
  }
  for (size_t i = 0; i < count; ++i) {
    const kvrt_generate_options o = run_options((uint32_t)b->base->new_count);
    MUST(kvrt_session_begin(s[i], &o, NULL));
  }
  for (size_t left = count; left != 0;) {
    for (size_t i = 0; i < count; ++i) {
      if (runs[i].done) continue;
      kvrt_event e;
      KVRT_INIT(&e);
      MUST(kvrt_session_next(s[i], &e, -1, NULL));
      run_event(&runs[i], &e);
      left -= runs[i].done != 0;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    check_report(&runs[i].report, "among");
    expect_same(b, &runs[i], i, count == 3 ? "among 3" : "among 8");
    kvrt_session_close(s[i]);
  }
}

static inline void variant_from_disk(struct bench* b) {
  char dir[kPathMax];
  make_dir(dir);
  kvrt_store* store = open_store(b->runtime, dir);
  kvrt_session* s = open_session(b->model, store, 0);
  append_prompt(b, s, 0, 0, b->base->prompt_count);
  mark_prompt(b, s);
  struct run first = {0};
  generate_into(s, (uint32_t)b->base->new_count, &first);
  expect_same(b, &first, 0, "with a store");
  MUST(kvrt_session_suspend(s, "a", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  bench_reopen(b);
  store = open_store(b->runtime, dir);
  s = open_session(b->model, store, 0);  // a fresh prompt: the store knows its prefix
  append_prompt(b, s, 0, 0, b->base->prompt_count);
  struct run again = {0};
  const kvrt_report report = generate_into(s, (uint32_t)b->base->new_count, &again);
  EXPECT(report.reused_disk >= sealed(b, b->base->prompt_count - 1), "%s: prefix from disk reused %" PRIu64 " of %zu", b->label,
         report.reused_disk, sealed(b, b->base->prompt_count - 1));
  expect_same(b, &again, 0, "prefix from disk");
  kvrt_session_close(s);
  kvrt_store_release(store);
  bench_reopen(b);  // the pool forgets the store's blocks
  remove_tree(dir);
}

static inline void variant_fork(struct bench* b) {
  const uint32_t half = (uint32_t)b->base->new_count / 2, rest = (uint32_t)b->base->new_count - half;
  kvrt_session* s = open_session(b->model, NULL, 0);
  append_prompt(b, s, 0, 0, b->base->prompt_count);
  struct run r = {0};
  generate_into(s, half, &r);
  struct run copy = r;
  kvrt_session *same = NULL, *other = NULL;
  MUST(kvrt_session_fork(s, NULL, &same, NULL));
  MUST(kvrt_session_fork(s, NULL, &other, NULL));
  append_prompt(b, other, 1, 0, 9);  // a fork that goes elsewhere must not disturb the two
  struct run elsewhere = {0};
  generate_into(other, 5, &elsewhere);
  generate_into(s, rest, &r);
  generate_into(same, rest, &copy);
  expect_same(b, &r, 0, "forked");
  expect_same(b, &copy, 0, "fork");
  kvrt_session_close(s);
  kvrt_session_close(other);
  kvrt_session_close(same);
}

static inline void variant_truncate(struct bench* b) {
  const size_t n = b->base->prompt_count;
  const size_t keeps[] = {n, n - 1, n - 37, b->setting.block < n ? b->setting.block : n / 2, 3};
  kvrt_session* s = open_session(b->model, NULL, 0);
  append_prompt(b, s, 0, 0, n);
  for (size_t i = 0; i < sizeof keeps / sizeof *keeps; ++i) {
    append_prompt(b, s, 2, 0, 11);
    struct run waste = {0};
    generate_into(s, 6, &waste);
    MUST(kvrt_session_truncate(s, keeps[i], NULL));
    append_prompt(b, s, 0, keeps[i], n);
    struct run r = {0};
    generate_into(s, (uint32_t)b->base->new_count, &r);
    expect_same(b, &r, 0, "truncated and appended again");
    MUST(kvrt_session_truncate(s, n, NULL));
  }
  kvrt_session_close(s);
}

// Cuts the run at 20 places; at each the session is suspended twice and comes back: in the same handle, by resume from the same
// runtime, or from a new one (the first `restarts` cuts of that kind).
static inline void variant_suspend(struct bench* b, int restarts) {
  char dir[kPathMax];
  make_dir(dir);
  const size_t n = b->base->prompt_count, total = n + b->base->new_count;
  const kvrt_save_options save = {.struct_size = sizeof save, .durability = KVRT_DURABILITY_NONE};
  kvrt_store* store = open_store(b->runtime, dir);
  kvrt_session* s = open_session(b->model, store, 0);
  struct run r = {0};
  uint64_t disk = 0;
  for (size_t cut = 0, at = 0; cut <= kCuts; ++cut) {
    const size_t to = cut == kCuts ? total : 1 + cut * (total - 1) / kCuts + (cut % 2);
    const size_t prompt_to = to < n ? to : n;
    if (at < prompt_to) {
      append_prompt(b, s, 0, at, prompt_to);
      const uint64_t digest = next_digest(s, NULL);
      EXPECT(digest == b->base->all[prompt_to - 1], "%s: prompt cut at %zu", b->label, prompt_to);
    }
    if (to > n) disk += generate_into(s, (uint32_t)(to - (at > n ? at : n)), &r).reused_disk;
    at = to;
    for (int twice = 0; twice < 2 && cut < kCuts; ++twice) {
      MUST(kvrt_session_suspend(s, "cut", 3, &save, NULL, NULL));
      EXPECT(session_props(s).state == KVRT_STATE_SUSPENDED, "%s: state %u after suspend", b->label, session_props(s).state);
      const size_t way = (cut + (size_t)twice) % 3;
      if (way == 0) continue;
      kvrt_session_close(s);
      if (way == 2 && restarts > 0) {
        --restarts;
        kvrt_store_release(store);
        bench_reopen(b);
        store = open_store(b->runtime, dir);
      }
      kvrt_report report;
      KVRT_INIT(&report);
      s = resume_session(b->model, store, "cut", &report);
      check_report(&report, "resume");
      disk += report.reused_disk;
      EXPECT(report.prompt_tokens == to && report.prefilled <= 1, "%s: resumed %" PRIu64 " of %zu, %" PRIu64 " to compute", b->label,
             report.prompt_tokens, to, report.prefilled);
    }
  }
  expect_same(b, &r, 0, "suspended and resumed at 20 cuts");
  EXPECT(disk > 0, "%s: nothing came back from disk", b->label);
  kvrt_session_close(s);
  kvrt_store_release(store);
  bench_reopen(b);
  remove_tree(dir);
}
