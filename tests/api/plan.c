// kvrt_model_plan: its figures are, to the byte, the memory that model_open and sessions then take; and its refusals.
#include "misuse.h"

static const uint32_t kBlocks[] = {0, 16, 32, 64, 128, 256};
// kv_format and kv_format_v.
static const struct formats {
  uint32_t k, v;
} kFormats[] = {{KVRT_KV_DEFAULT, 0},        {KVRT_KV_F16, 0},  {KVRT_KV_BF16, 0},           {KVRT_KV_F32, 0},
                {KVRT_KV_INT8, 0},           {KVRT_KV_FP8, 0},  {KVRT_KV_INT8, KVRT_KV_F16}, {KVRT_KV_DEFAULT, KVRT_KV_FP8},
                {KVRT_KV_F32, KVRT_KV_INT8}, {KVRT_KV_INT4, 0}, {KVRT_KV_INT8, KVRT_KV_INT4}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static kvrt_plan plan_of(kvrt_runtime* rt, const char* path, kvrt_plan_options o) {
  kvrt_plan p;
  KVRT_INIT(&p);
  o.struct_size = sizeof o;
  MUST(kvrt_model_plan(rt, path, path ? strlen(path) : 0, &o, &p, NULL));
  return p;
}

static kvrt_model* open_planned(kvrt_runtime* rt, const char* path, struct formats formats, uint32_t block, uint64_t kv_bytes_max) {
  kvrt_model_options o = {
      .struct_size = sizeof o, .kv_format = formats.k, .kv_format_v = formats.v, .block_tokens = block, .kv_bytes_max = kv_bytes_max};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

// 1 where a layer has a window: then a pool has a block of zeros beside the others.
static uint64_t has_windows(const kvrt_model_props* m) { return m->kv_group_kind[m->kv_groups - 1] != KVRT_GROUP_EVERYTHING; }

// Sessions of n tokens each, the first `shared` of them the same: they fill the planned pool to the last block, and nothing is given up.
// Between steps a session has given back what it planned for a step's tokens behind its windows.
static void sessions_as_planned(kvrt_model* model, const kvrt_plan* p, uint32_t sessions, size_t n, size_t shared) {
  enum { kSessions = 4, kTokens = 400 };
  REQUIRE(sessions <= kSessions && n <= kTokens, "%u sessions of %zu", sessions, n);
  kvrt_session* s[kSessions];
  for (uint32_t i = 0; i < sessions; ++i) {
    int32_t tokens[kTokens];
    const uint32_t vocab = model_props(model).vocab_size;
    prompt_tokens(tokens, n, 9 + i, vocab);
    prompt_tokens(tokens, shared, 1, vocab);
    s[i] = open_session(model, NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, n, NULL));
    MUST(kvrt_session_prefill(s[i], KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  }
  const kvrt_model_props m = model_props(model);
  const int fewer = has_windows(&m) != 0;
  const uint64_t computed = n - (is_recurrent(model) ? 1 : 0);  // a prefill leaves the last token then
  for (uint32_t i = 0; i < sessions; ++i) {
    const kvrt_session_props q = session_props(s[i]);
    EXPECT(q.kv_tokens == computed, "session %u of %zu tokens keeps %" PRIu64, i, n, q.kv_tokens);
    EXPECT(q.kv_bytes == q.kv_units * m.unit_bytes && (fewer ? q.kv_units <= p->session_units : q.kv_units == p->session_units),
           "%zu tokens: planned %" PRIu64 " units, took %" PRIu64, n, p->session_units, q.kv_units);
  }
  const uint64_t used = m.units - m.units_free - m.units_cached;
  const int one = sessions == 1 && n <= m.block_tokens;  // a pool has room for two blocks at least
  EXPECT(used == p->units || (one && 2 * used == p->units) || (fewer && used < p->units),
         "%u sessions of %zu: planned %" PRIu64 " units, in use %" PRIu64, sessions, n, p->units, used);
  for (uint32_t i = 0; i < sessions; ++i) kvrt_session_close(s[i]);
}

static void as_allocated(kvrt_runtime* rt, const char* path, struct formats formats, uint32_t block) {
  static const struct {
    uint32_t sessions;
    size_t n, shared;
  } cases[] = {{1, 1, 0},   {1, 15, 0},  {1, 16, 0},    {1, 17, 0},  {1, 100, 0}, {1, 256, 0},
               {1, 257, 0}, {3, 40, 33}, {4, 300, 256}, {2, 320, 0}, {3, 64, 16}, {2, 100, 99}};
  for (size_t i = 0; i < COUNT(cases); ++i) {
    const kvrt_plan p = plan_of(rt, path,
                                (kvrt_plan_options){.kv_format = formats.k,
                                                    .kv_format_v = formats.v,
                                                    .block_tokens = block,
                                                    .sessions = cases[i].sessions,
                                                    .session_tokens = cases[i].n,
                                                    .shared_tokens = cases[i].shared});
    kvrt_model* model = open_planned(rt, path, formats, block, p.kv_bytes);
    const kvrt_model_props m = model_props(model);
    EXPECT(p.kv_bytes_per_token == m.kv_bytes_per_token && p.unit_bytes == m.unit_bytes && p.block_tokens == m.block_tokens,
           "%s: a unit is planned with %" PRIu64 " bytes and has %" PRIu64, path, p.unit_bytes, m.unit_bytes);
    EXPECT(p.kv_groups == m.kv_groups, "%s: %u groups planned, %u there", path, p.kv_groups, m.kv_groups);
    for (uint32_t g = 0; g < m.kv_groups; ++g) {
      EXPECT(p.kv_group_kind[g] == m.kv_group_kind[g] && p.kv_group_window[g] == m.kv_group_window[g], "%s: group %u is of another kind",
             path, g);
    }
    EXPECT(p.weight_bytes == m.weight_bytes, "%s: weights planned %" PRIu64 ", allocated %" PRIu64, path, p.weight_bytes, m.weight_bytes);
    EXPECT(p.scratch_bytes == m.scratch_bytes, "%s: scratch planned %" PRIu64 ", allocated %" PRIu64, path, p.scratch_bytes,
           m.scratch_bytes);
    const uint64_t pool_bytes = (m.units + has_windows(&m)) * m.unit_bytes;
    EXPECT(p.units == m.units && p.kv_bytes == pool_bytes, "%s: %" PRIu64 " units planned, %" PRIu64 " allocated", path, p.units, m.units);
    EXPECT(p.total_bytes == m.weight_bytes + m.scratch_bytes + pool_bytes, "%s: total %" PRIu64, path, p.total_bytes);
    EXPECT(p.layers == m.layers && p.heads == m.heads && p.kv_heads == m.kv_heads && p.head_dim == m.head_dim &&
               p.context_length == m.context_length,
           "%s: the shape differs", path);
    sessions_as_planned(model, &p, cases[i].sessions, cases[i].n, cases[i].shared);
    kvrt_model_release(model);
  }
}

// context_max and sessions_max fit the budget when they are planned in turn, and one more does not.
static void budget(kvrt_runtime* rt, const char* path) {
  const kvrt_plan one = plan_of(rt, path, (kvrt_plan_options){.session_tokens = 100});
  const uint64_t zeros = one.kv_group_kind[one.kv_groups - 1] != KVRT_GROUP_EVERYTHING, blocks = 3 * one.session_units - 1 + zeros;
  const uint64_t each = one.session_units / 4;  // blocks of 32 tokens, without windows
  kvrt_plan_options o = {.session_tokens = 100, .memory_bytes = one.weight_bytes + one.scratch_bytes + blocks * one.unit_bytes + 1};
  kvrt_plan p = plan_of(rt, path, o);
  EXPECT(p.fits == 1 && p.sessions_max == 2 && (zeros || p.context_max == blocks / each * 32),
         "max %" PRIu64 " sessions, %" PRIu64 " tokens", p.sessions_max, p.context_max);
  o.sessions = 2;
  EXPECT(plan_of(rt, path, o).fits == 1, "sessions_max does not fit");
  o.sessions = 3;
  EXPECT(plan_of(rt, path, o).fits == 0, "more than sessions_max fits");
  o = (kvrt_plan_options){.session_tokens = p.context_max, .memory_bytes = o.memory_bytes};
  EXPECT(plan_of(rt, path, o).fits == 1, "context_max does not fit");
  ++o.session_tokens;
  EXPECT(p.context_max == p.context_length || plan_of(rt, path, o).fits == 0, "more than context_max fits");
  o = (kvrt_plan_options){.session_tokens = 100, .memory_bytes = one.weight_bytes};
  p = plan_of(rt, path, o);
  EXPECT(p.fits == 0 && p.sessions_max == 0 && p.context_max == 0, "no room for a block, yet sessions fit");
  p = plan_of(rt, path, (kvrt_plan_options){0});
  EXPECT(p.memory_bytes != 0 && p.unshared_tokens == p.context_length && p.block_tokens == 32, "defaults");
}

static void published(kvrt_runtime* rt) {
  kvrt_plan p =
      plan_of(rt, NULL, (kvrt_plan_options){.layers = 32, .kv_heads = 32, .head_dim = 128, .block_tokens = 16, .session_tokens = 500});
  EXPECT(p.session_units == 32 && p.used > 0.9765 && p.used < 0.9775, "%" PRIu64 " units, %f", p.session_units, p.used);
  p = plan_of(rt, NULL, (kvrt_plan_options){.layers = 80, .kv_heads = 8, .head_dim = 128, .session_tokens = 131072});
  EXPECT(p.kv_bytes_per_token == 327680 && p.kv_bytes == (uint64_t)40 << 30, "%" PRIu64 " a token", p.kv_bytes_per_token);
  EXPECT(p.weight_bytes == 0 && p.scratch_bytes == 0 && p.context_length == 0 && p.total_bytes == p.kv_bytes, "a geometry has weights");
  const uint64_t per_token[] = {327680,
                                327680,
                                327680,
                                655360,
                                2 * 80 * 8 * (128 + 2),
                                2 * 80 * 8 * (128 + 2),
                                80 * 8 * (128 + 2 + 256),
                                80 * 8 * (256 + 128 + 2),
                                80 * 8 * (512 + 128 + 2),
                                2 * 80 * 8 * (64 + 4 * 2),
                                80 * 8 * (128 + 2 + 64 + 4 * 2)};
  for (uint32_t f = 0; f < COUNT(kFormats); ++f) {
    p = plan_of(
        rt, NULL,
        (kvrt_plan_options){
            .kv_format = kFormats[f].k, .kv_format_v = kFormats[f].v, .layers = 80, .kv_heads = 8, .head_dim = 128, .session_tokens = 64});
    EXPECT(p.kv_bytes_per_token == per_token[f] && p.kv_bytes == 64 * per_token[f], "format %u: %" PRIu64 " a token", f,
           p.kv_bytes_per_token);
  }
  p = plan_of(
      rt, NULL,
      (kvrt_plan_options){.layers = 32, .kv_heads = 32, .head_dim = 128, .session_tokens = 3072, .sessions = 1000, .shared_tokens = 2048});
  EXPECT(p.stored_tokens == 1026048 && p.unshared_tokens == 3072000, "%" PRIu64 " tokens stored", p.stored_tokens);
}

static kvrt_status try_plan(kvrt_runtime* rt, const char* path, kvrt_plan_options o) {
  kvrt_plan p;
  canary(&p, sizeof p);
  p.struct_size = sizeof p;
  o.struct_size = sizeof o;
  const kvrt_status status = kvrt_model_plan(rt, path, path ? strlen(path) : 0, &o, &p, NULL);
  EXPECT(status == KVRT_OK || has_canary((char*)&p + 4, sizeof p - 4), "out changed on failure");
  return status;
}

#define REFUSED(what, path, want, word, ...)                                                                      \
  do {                                                                                                            \
    ROW("model_plan", what, try_plan(t->runtime, path, (kvrt_plan_options){__VA_ARGS__}), ANY(want));             \
    EXPECT(strstr(last_message(), word) != NULL, "%s: the message lacks \"%s\": %s", what, word, last_message()); \
  } while (0)

static void absurd(struct stage* t) {
  REFUSED("kv_format 99", t->tiny, KVRT_INVALID, "kv_format", .kv_format = 99);
  REFUSED("kv_format 7", t->tiny, KVRT_INVALID, "kv_format", .kv_format = KVRT_KV_INT4 + 1);
  REFUSED("block_tokens 17", t->tiny, KVRT_INVALID, "block_tokens", .block_tokens = 17);
  REFUSED("kv_format_v 99", t->tiny, KVRT_INVALID, "kv_format_v", .kv_format_v = 99);
  REFUSED("a path and layers", t->tiny, KVRT_INVALID, "layers", .layers = 2);
  REFUSED("sessions 4294967295", t->tiny, KVRT_LIMIT, "sessions", .sessions = UINT32_MAX);
  REFUSED("session_tokens past the context", t->tiny, KVRT_LIMIT, "session_tokens", .session_tokens = UINT64_MAX);
  REFUSED("shared_tokens past session_tokens", t->tiny, KVRT_INVALID, "shared_tokens", .session_tokens = 8, .shared_tokens = 9);
  REFUSED("no path and no geometry", NULL, KVRT_INVALID, "layers", .session_tokens = 8);
  REFUSED("a geometry without kv_heads", NULL, KVRT_INVALID, "kv_heads", .layers = 2, .head_dim = 8, .session_tokens = 8);
  REFUSED("a geometry without head_dim", NULL, KVRT_INVALID, "head_dim", .layers = 2, .kv_heads = 8, .session_tokens = 8);
  REFUSED("a geometry without a length", NULL, KVRT_INVALID, "session_tokens", .layers = 2, .kv_heads = 8, .head_dim = 8);
  REFUSED("layers 4294967295", NULL, KVRT_LIMIT, "layers", .layers = UINT32_MAX, .kv_heads = 8, .head_dim = 8, .session_tokens = 8);
  REFUSED("kv_heads 4294967295", NULL, KVRT_LIMIT, "kv_heads", .layers = 2, .kv_heads = UINT32_MAX, .head_dim = 8, .session_tokens = 8);
  REFUSED("head_dim 4294967295", NULL, KVRT_LIMIT, "head_dim", .layers = 2, .kv_heads = 8, .head_dim = UINT32_MAX, .session_tokens = 8);
  REFUSED("more than 2^64 bytes", NULL, KVRT_LIMIT, "session_tokens", .layers = 1024, .kv_heads = 1024, .head_dim = 512,
          .block_tokens = 256, .sessions = 30000, .session_tokens = 16u << 20);
}

static size_t put(unsigned char* to, size_t at, const void* bytes, size_t size) {
  memcpy(to + at, bytes, size);
  return at + size;
}

// A part as gguf-split --no-tensor-first-split writes it: metadata, no tensors.
static size_t split_file(unsigned char* to) {
  const uint32_t head[] = {0x46554747, 3}, u16_type = 2;
  const uint64_t counts[] = {0, 2}, no_size = 8, count_size = 11;
  const uint16_t no = 0, count = 3;
  size_t at = put(to, 0, head, sizeof head);
  at = put(to, at, counts, sizeof counts);
  at = put(to, at, &no_size, 8);
  at = put(to, at, "split.no", 8);
  at = put(to, at, &u16_type, 4);
  at = put(to, at, &no, 2);
  at = put(to, at, &count_size, 8);
  at = put(to, at, "split.count", 11);
  at = put(to, at, &u16_type, 4);
  return put(to, at, &count, 2);
}

static void write_file(const char* path, const void* bytes, size_t size) {
  FILE* f = fopen(path, "wb");
  REQUIRE(f != NULL && fwrite(bytes, 1, size, f) == size, "%s: %s", path, strerror(errno));
  fclose(f);
}

static void files(struct stage* t) {
  char path[kPathMax + 32], vocabulary[kPathMax + 32];
  unsigned char bytes[128];
  snprintf(path, sizeof path, "%s/file.gguf", t->dir);
  REFUSED("no such file", path, KVRT_NOT_FOUND, "file.gguf", 0);
  REFUSED("a directory", t->dir, KVRT_INVALID, "directory", 0);
  write_file(path, "", 0);
  REFUSED("an empty file", path, KVRT_CORRUPT, "file.gguf", 0);
  write_file(path, "this is not a model, it is a line of text\n", 42);
  REFUSED("a text", path, KVRT_CORRUPT, "GGUF", 0);
  snprintf(vocabulary, sizeof vocabulary, "%s/vocab_only.gguf", tiny_dir());
  REFUSED("a vocabulary", vocabulary, KVRT_UNSUPPORTED, "vocabulary", 0);
  write_file(path, bytes, split_file(bytes));
  const char* split = "one of 3 files of a split model";
  REFUSED("part of a split model", path, KVRT_INVALID, split, 0);
  kvrt_model* model = NULL;
  ROW("model_open", "part of a split model", kvrt_model_open(t->runtime, path, strlen(path), NULL, NULL, NULL, &model, NULL),
      ANY(KVRT_INVALID));
  EXPECT(strstr(last_message(), split) != NULL, "%s", last_message());
}

static uint64_t resident_bytes(void) {
  unsigned long long all = 0, resident = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  REQUIRE(f != NULL && fscanf(f, "%llu %llu", &all, &resident) == 2, "/proc/self/statm: %s", strerror(errno));
  fclose(f);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t memory_bytes(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); }

// The pool has its memory at once, or none until it is used.
static void populated(kvrt_runtime* rt, const char* path) {
  const uint64_t pool = UINT64_C(96) << 20, slack = UINT64_C(24) << 20;
  for (uint32_t populate = 0; populate <= 1; ++populate) {
    const kvrt_model_options o = {.struct_size = sizeof o, .kv_bytes_max = pool, .kv_populate = populate};
    const uint64_t before = resident_bytes();
    kvrt_model* model = NULL;
    MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
    const uint64_t after = resident_bytes(), grew = after > before ? after - before : 0;
    EXPECT(populate ? grew + slack >= pool : grew <= slack, "kv_populate %u: %" PRIu64 " bytes more", populate, grew);
    kvrt_model_release(model);
  }
  // Nearly all of the machine: it can be promised, but some of it is in use.
  const kvrt_model_options o = {.struct_size = sizeof o, .kv_bytes_max = memory_bytes(), .kv_populate = 1};
  kvrt_model* model = NULL;
  const kvrt_status status = kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL);
  EXPECT(status == KVRT_NO_MEMORY && !model && strstr(last_message(), "kv_populate"), "all memory: %s", kvrt_status_name(status));
}

int main(void) {
  struct stage t;
  stage_open(&t);
  static char paths[kModelsMax][kPathMax];
  const size_t count = list_tiny(paths);
  size_t models = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strstr(paths[i], "vocab_only") != NULL) continue;
    for (size_t f = 0; f < (models == 0 ? COUNT(kFormats) : 2); ++f) {  // for time: every format with one model
      for (size_t b = 0; b < COUNT(kBlocks); ++b) as_allocated(t.runtime, paths[i], kFormats[f], kBlocks[b]);
    }
    budget(t.runtime, paths[i]);
    ++models;
  }
  populated(t.runtime, paths[0]);
  EXPECT(models >= 5, "%zu models", models);
  published(t.runtime);
  absurd(&t);
  files(&t);
  stage_close(&t);
  return finish();
}
