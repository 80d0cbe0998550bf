// Sessions without the prefix cache: their own KV comes back from the store, nobody else's does, and they offer none in memory.
#include "support.h"

enum { kBlock = 16, kShort = 5 * kBlock + 3, kLong = 9 * kBlock };

static kvrt_runtime* rt;
static const char* tiny;
static kvrt_model *model, *reference;  // the reference never sees a store
static kvrt_store* store;
static int32_t tokens[kLong + 1];

// The same, with nothing in its pool.
static void empty_pool(void) {
  kvrt_model_release(model);
  model = open_model(rt, tiny, 0, kBlock, 1024);
}

static kvrt_session* resumed(const char* name, uint32_t no_cache, kvrt_report* report) {
  kvrt_session_options o = {.struct_size = sizeof o, .no_prefix_cache = no_cache};
  kvrt_session* s = NULL;
  report->struct_size = sizeof *report;
  MUST(kvrt_session_resume(model, store, name, strlen(name), &o, NULL, NULL, report, &s, NULL));
  return s;
}

static void expect_reuse(const kvrt_report* r, uint64_t memory, uint64_t disk, uint64_t computed, const char* what) {
  check_report(r, what);
  EXPECT(r->reused_memory == memory && r->reused_disk == disk && r->prefilled == computed,
         "%s: %" PRIu64 " from memory, %" PRIu64 " from disk, %" PRIu64 " computed; expected %" PRIu64 ", %" PRIu64 ", %" PRIu64, what,
         r->reused_memory, r->reused_disk, r->prefilled, memory, disk, computed);
}

static kvrt_report compute(kvrt_session* s) {
  kvrt_report r = {.struct_size = sizeof r};
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, &r, NULL));
  return r;
}

// Saved with and without, resumed with and without: all of it is its own.
static void each_way(void) {
  for (uint32_t how = 0; how < 4; ++how) {
    char name[16];
    snprintf(name, sizeof name, "way %u", how);
    tokens[0] = 10 + (int32_t)how;  // nothing is shared
    kvrt_session* s = open_session(model, store, how & 1);
    MUST(kvrt_session_append(s, tokens, kShort, NULL));
    (void)compute(s);
    MUST(kvrt_session_suspend(s, name, strlen(name), NULL, NULL, NULL));
    (void)compute(s);
    kvrt_session_close(s);
    empty_pool();
    kvrt_report r;
    s = resumed(name, how >> 1, &r);
    expect_reuse(&r, 0, kShort, 0, name);
    r = compute(s);
    expect_reuse(&r, 0, kShort, 0, name);
    expect_sound(s, reference, name);
    kvrt_save_report saved = {.struct_size = sizeof saved};
    MUST(kvrt_session_checkpoint(s, name, strlen(name), NULL, &saved, NULL));
    EXPECT(saved.chunks_written == 0, "%s: %" PRIu64 " chunks written again", name, saved.chunks_written);
    kvrt_session_close(s);
  }
}

// Suspended and warmed in one handle, cut, and gone on with.
static void in_one_life(void) {
  tokens[0] = 20;
  kvrt_session* s = open_session(model, store, 1);
  MUST(kvrt_session_append(s, tokens, kShort, NULL));
  (void)compute(s);
  MUST(kvrt_session_suspend(s, "life", 4, NULL, NULL, NULL));
  kvrt_report r = compute(s);
  expect_reuse(&r, 0, kShort, 0, "warmed");
  MUST(kvrt_session_suspend(s, "life", 4, NULL, NULL, NULL));
  MUST(kvrt_session_truncate(s, 2 * kBlock + 1, NULL));
  MUST(kvrt_session_append(s, tokens + 2 * kBlock + 1, kBlock, NULL));
  r = compute(s);
  expect_reuse(&r, 0, 2 * kBlock, kBlock + 1, "cut while it was suspended");  // those tokens are the saved ones again, and were appended
  expect_sound(s, reference, "cut while it was suspended");
  kvrt_session_close(s);
}

// KV that another session of the domain has of the same tokens, in the pool and in the store, is not taken.
static void of_others(void) {
  tokens[0] = 30;
  kvrt_session* mine = open_session(model, store, 1);
  MUST(kvrt_session_append(mine, tokens, kShort, NULL));
  (void)compute(mine);
  MUST(kvrt_session_suspend(mine, "mine", 4, NULL, NULL, NULL));
  kvrt_session_close(mine);
  empty_pool();
  kvrt_session* other = open_session(model, store, 0);
  MUST(kvrt_session_append(other, tokens, kLong, NULL));
  (void)compute(other);
  MUST(kvrt_session_checkpoint(other, "other", 5, NULL, NULL, NULL));
  kvrt_report r;
  mine = resumed("mine", 1, &r);
  expect_reuse(&r, 0, kShort, 0, "resumed beside another");
  MUST(kvrt_session_append(mine, tokens + kShort, kLong - kShort, NULL));
  r = compute(mine);
  expect_reuse(&r, 0, kShort, kLong - kShort, "went on beside another");
  expect_sound(mine, reference, "went on beside another");
  kvrt_session_close(mine);
  mine = open_session(model, store, 1);
  MUST(kvrt_session_append(mine, tokens, kLong, NULL));
  r = compute(mine);
  expect_reuse(&r, 0, 0, kLong, "a new one beside another");
  kvrt_session_close(mine);
  kvrt_session_close(other);
  // A session without the prefix cache offers nothing in memory.
  tokens[0] = 31;
  mine = open_session(model, NULL, 1);
  MUST(kvrt_session_append(mine, tokens, kLong, NULL));
  (void)compute(mine);
  other = open_session(model, NULL, 0);
  MUST(kvrt_session_append(other, tokens, kLong, NULL));
  r = compute(other);
  expect_reuse(&r, 0, 0, kLong, "beside one without the cache");
  kvrt_session_close(mine);
  kvrt_session_close(other);
}

int main(void) {
  static char path[kPathMax], dir[kPathMax];
  tiny_path(path, 0);
  tiny = path;
  make_dir(dir);
  rt = open_runtime(2, KVRT_ISA_DEFAULT);
  model = open_model(rt, tiny, 0, kBlock, 1024);
  reference = open_model(rt, tiny, 0, 32, 1024);
  store = open_store(rt, dir);
  prompt_tokens(tokens, kLong + 1, 8, model_props(model).vocab_size);
  each_way();
  in_one_life();
  of_others();
  kvrt_store_release(store);
  kvrt_model_release(reference);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
