// A fork knows what its original knows: whichever of the two generates first has the same report, also why KV was not reused.
#include <glob.h>

#include "support.h"

enum { kBlock = 16, kPrompt = 6 * kBlock + 5 };

static kvrt_runtime* rt;
static const char* tiny;
static kvrt_model* model;  // of the scene that is played
static kvrt_store* store;
static char place[kPathMax + 16];  // of the store

static kvrt_model* open_with(uint32_t format, uint32_t pool_blocks) {
  kvrt_model_options o = {.struct_size = sizeof o, .kv_format = format, .block_tokens = kBlock};
  o.kv_bytes_max = pool_blocks ? pool_blocks * model_props(model).unit_bytes : 0;
  kvrt_model* made = NULL;
  MUST(kvrt_model_open(rt, tiny, strlen(tiny), &o, NULL, NULL, &made, NULL));
  return made;
}

static void switch_model(uint32_t format, uint32_t pool_blocks) {
  kvrt_model* made = open_with(format, pool_blocks);
  kvrt_model_release(model);
  model = made;
}

static kvrt_session* prompted(uint64_t seed) {
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, seed, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
  return s;
}

// Saved as "s", and gone from memory.
static void save(kvrt_session* s, int computed) {
  if (computed) MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "s", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
}

static kvrt_session* resumed(void) { return resume_session(model, store, "s", NULL); }

static kvrt_session* from_disk(void) {
  save(prompted(1), 1);
  switch_model(KVRT_KV_F16, 0);
  return resumed();
}

static kvrt_session* other_numerics(void) {
  switch_model(KVRT_KV_INT8, 0);
  save(prompted(1), 1);
  switch_model(KVRT_KV_F16, 0);
  return resumed();
}

static void damage_first_chunk(void) {
  char pattern[kPathMax + 32];
  snprintf(pattern, sizeof pattern, "%s/segs/*/*.seg", place);
  glob_t found;
  REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1, "one segment");
  FILE* f = fopen(found.gl_pathv[0], "r+b");
  fseek(f, 400, SEEK_SET);  // within the first frame's payload
  const int byte = fgetc(f);
  fseek(f, 400, SEEK_SET);
  fputc(byte ^ 0x55, f);
  fclose(f);
  globfree(&found);
}

static kvrt_session* damaged(void) {
  save(prompted(1), 1);
  damage_first_chunk();
  switch_model(KVRT_KV_F16, 0);
  return resumed();
}

static kvrt_session* not_stored(void) {
  save(prompted(1), 0);
  return resumed();
}

static kvrt_session* evicted(void) {
  switch_model(KVRT_KV_F16, 8);
  kvrt_store* const had = store;
  store = NULL;  // its KV would be found there again
  kvrt_session* s = prompted(1);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  kvrt_session* other = prompted(2);
  MUST(kvrt_session_prefill(other, 0, NULL, NULL, NULL, NULL));
  store = had;
  kvrt_session_close(other);
  EXPECT(session_props(s).kv_units == 0, "it has %" PRIu64 " blocks", session_props(s).kv_units);
  return s;
}

static kvrt_session* computed(void) {
  kvrt_session* s = prompted(1);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  return s;
}

static kvrt_session* cut(void) {
  kvrt_session* s = from_disk();
  MUST(kvrt_session_truncate(s, kPrompt - kBlock, NULL));
  return s;
}

static const struct scene {
  const char* name;
  kvrt_session* (*play)(void);
  uint32_t stopped;
} kScenes[] = {
    {"computed", computed, KVRT_REUSE_ALL},     {"from disk", from_disk, KVRT_REUSE_ALL},
    {"from disk and cut", cut, KVRT_REUSE_ALL}, {"other numerics", other_numerics, KVRT_REUSE_OTHER_NUMERICS},
    {"damaged", damaged, KVRT_REUSE_DAMAGED},   {"not stored", not_stored, KVRT_REUSE_NOT_STORED},
    {"evicted", evicted, KVRT_REUSE_EVICTED},
};

// The properties without a handle's own fields; and a report without its times.
static kvrt_session_props bare_props(const kvrt_session* s) {
  kvrt_session_props p = session_props(s);
  memset(p.id, 0, sizeof p.id);
  memset(p.name, 0, sizeof p.name);
  p.revision = 0;
  return p;
}

static kvrt_report bare_report(kvrt_report r) {
  r.queue_ms = r.ttft_ms = r.prefill_ms = r.decode_ms = r.tpot_ms = r.prefill_tokens_per_s = r.decode_tokens_per_s = 0;
  return r;
}

// The report of the first generation: the original's, or the fork's.
static kvrt_report first_report(const struct scene* scene, int of_fork, const char* dir) {
  snprintf(place, sizeof place, "%s/%d", dir, of_fork);
  model = open_with(KVRT_KV_F16, 0);
  store = open_store(rt, place);
  kvrt_session *original = scene->play(), *fork = NULL;
  MUST(kvrt_session_fork(original, NULL, &fork, NULL));
  const kvrt_session_props a = bare_props(original), b = bare_props(fork);
  EXPECT(memcmp(&a, &b, sizeof a) == 0, "%s: a fork's props are not its original's", scene->name);
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 3, .ignore_eos = 1};
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(of_fork ? fork : original, &o, NULL, NULL, &report, NULL));
  check_report(&report, scene->name);
  kvrt_session_close(original);
  kvrt_session_close(fork);
  kvrt_store_release(store);
  kvrt_model_release(model);
  remove_tree(place);
  return bare_report(report);
}

int main(void) {
  static char path[kPathMax], dir[kPathMax];
  tiny_path(path, 0);
  tiny = path;
  make_dir(dir);
  rt = open_runtime(2, KVRT_ISA_DEFAULT);
  for (size_t i = 0; i < sizeof kScenes / sizeof *kScenes; ++i) {
    const struct scene* scene = &kScenes[i];
    const kvrt_report original = first_report(scene, 0, dir), fork = first_report(scene, 1, dir);
    EXPECT(original.reuse_stopped == scene->stopped, "%s: stopped by %u, expected %u", scene->name, original.reuse_stopped, scene->stopped);
    EXPECT(fork.reuse_stopped == original.reuse_stopped && fork.reuse_stopped_at == original.reuse_stopped_at,
           "%s: its fork by %u at %" PRIu64 ", itself by %u at %" PRIu64, scene->name, fork.reuse_stopped, fork.reuse_stopped_at,
           original.reuse_stopped, original.reuse_stopped_at);
    EXPECT(memcmp(&fork, &original, sizeof fork) == 0,
           "%s: %" PRIu64 " from memory, %" PRIu64 " from disk, %" PRIu64 " computed; its fork %" PRIu64 ", %" PRIu64 ", %" PRIu64,
           scene->name, original.reused_memory, original.reused_disk, original.prefilled, fork.reused_memory, fork.reused_disk,
           fork.prefilled);
  }
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
