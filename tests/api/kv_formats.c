// Each KV format, and pairs of two: a session resumed from disk goes on like one that never was suspended, and KV of another format is not
// used.
#include "support.h"

enum { kFormats = 15, kBlock = 16, kPrompt = 83, kRun = 24 };

// kv_format and kv_format_v. The first six are alike: 0 is as K's, and the default is F16.
static const uint32_t kPairs[kFormats][2] = {{KVRT_KV_DEFAULT, 0},        {KVRT_KV_F16, 0},
                                             {KVRT_KV_BF16, 0},           {KVRT_KV_F32, 0},
                                             {KVRT_KV_INT8, 0},           {KVRT_KV_FP8, KVRT_KV_FP8},
                                             {KVRT_KV_INT8, KVRT_KV_F16}, {KVRT_KV_F16, KVRT_KV_INT8},
                                             {KVRT_KV_F16, KVRT_KV_FP8},  {KVRT_KV_DEFAULT, KVRT_KV_BF16},
                                             {KVRT_KV_FP8, KVRT_KV_INT8}, {KVRT_KV_INT8, KVRT_KV_F32},
                                             {KVRT_KV_INT4, 0},           {KVRT_KV_INT8, KVRT_KV_INT4},
                                             {KVRT_KV_INT4, KVRT_KV_F16}};

static uint32_t k_of(uint32_t format) { return kPairs[format][0] ? kPairs[format][0] : KVRT_KV_F16; }
static uint32_t v_of(uint32_t format) { return kPairs[format][1] ? kPairs[format][1] : k_of(format); }
static int same_formats(uint32_t a, uint32_t b) { return k_of(a) == k_of(b) && v_of(a) == v_of(b); }

static kvrt_model* open_with(kvrt_runtime* rt, const char* path, uint32_t format) {
  const kvrt_model_options o = {
      .struct_size = sizeof o, .kv_format = kPairs[format][0], .kv_format_v = kPairs[format][1], .block_tokens = kBlock};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  const kvrt_model_props p = model_props(model);
  EXPECT(p.kv_format == k_of(format) && p.kv_format_v == v_of(format), "pair %u: the props say %u and %u", format, p.kv_format,
         p.kv_format_v);
  return model;
}

static kvrt_session* prompted(kvrt_model* model, kvrt_store* store) {
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, 11, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
  return s;
}

// A store of its own for each: chunks of the right format that another session wrote would be found.
static kvrt_store* store_of(kvrt_runtime* rt, const char* dir, uint32_t format) {
  char place[kPathMax + 16];
  snprintf(place, sizeof place, "%s/kv%u", dir, format);
  return open_store(rt, place);
}

// The first half of the run, saved; and the whole, in a session without a store.
static void begin(kvrt_runtime* rt, const char* path, const char* dir, uint32_t format, struct run* whole) {
  kvrt_model* model = open_with(rt, path, format);
  kvrt_store* store = store_of(rt, dir, format);
  kvrt_session* s = prompted(model, NULL);
  generate_into(s, kRun, whole);
  kvrt_session_close(s);
  s = prompted(model, store);
  struct run half = {0};
  generate_into(s, kRun / 2, &half);
  MUST(kvrt_session_suspend(s, "s", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
}

// Resumes the session saved as `format` where KV is `now`; it says the rest of `whole`.
static void resumed(kvrt_runtime* rt, const char* path, const char* dir, uint32_t format, uint32_t now, const struct run* whole) {
  kvrt_model* model = open_with(rt, path, now);
  kvrt_store* store = store_of(rt, dir, format);
  kvrt_report report = {.struct_size = sizeof report};
  kvrt_session* s = resume_session(model, store, "s", &report);
  const int same = same_formats(format, now);
  if (same) {
    EXPECT(report.reused_disk == kPrompt + kRun / 2 - 1, "%u as %u: %" PRIu64 " tokens from disk", format, now, report.reused_disk);
  } else {
    EXPECT(report.reused_disk == 0 && report.reuse_stopped == KVRT_REUSE_OTHER_NUMERICS, "%u as %u: %" PRIu64 " from disk, stopped by %u",
           format, now, report.reused_disk, report.reuse_stopped);
  }
  static struct run rest;
  memset(&rest, 0, sizeof rest);
  kvrt_generate_options o = run_options(kRun / 2);
  MUST(kvrt_session_generate(s, &o, run_callback, &rest, NULL, NULL));
  if (same) {
    EXPECT(rest.count == kRun / 2 && memcmp(rest.digest, whole->digest + kRun / 2, sizeof rest.digest[0] * kRun / 2) == 0,
           "format %u: other logits after a resume", format);
    EXPECT(memcmp(rest.token, whole->token + kRun / 2, sizeof rest.token[0] * kRun / 2) == 0, "format %u: other tokens", format);
  } else {
    EXPECT(rest.digest[0] != whole->digest[kRun / 2], "%u as %u: the logits of the other format", format, now);
  }
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
}

// Opens the model with a pool of two blocks: no session of this test fits.
static kvrt_model* open_small(kvrt_runtime* rt, const char* path, const kvrt_model* like) {
  const kvrt_model_props p = model_props(like);
  const kvrt_model_options o = {
      .struct_size = sizeof o, .kv_format = p.kv_format, .block_tokens = kBlock, .kv_bytes_max = 2 * p.unit_bytes};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
  return model;
}

static int32_t stop_midway(void* user, const kvrt_event* e) {
  const uint64_t* done = user;
  return e->type == KVRT_EVENT_PROGRESS && e->done >= *done;
}

// A prompt that is computed in the new format and stopped is saved as far as it came, though the other format's KV is of more tokens.
static void stopped_midway(kvrt_runtime* rt, const char* path, const char* dir) {
  char place[kPathMax + 16];
  snprintf(place, sizeof place, "%s/midway", dir);
  kvrt_store* store = open_store(rt, place);
  kvrt_model* f16 = open_with(rt, path, KVRT_KV_F16);
  kvrt_session* first = prompted(f16, store);
  MUST(kvrt_session_prefill(first, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(first, "s", 1, NULL, NULL, NULL));
  kvrt_session_close(first);
  kvrt_model_release(f16);
  const kvrt_model_options o = {.struct_size = sizeof o, .kv_format = KVRT_KV_INT8, .block_tokens = kBlock, .prefill_chunk = kBlock};
  uint64_t part = 2 * kBlock;
  for (int again = 0; again < 2; ++again) {  // from the disk alone
    kvrt_model* model = NULL;
    MUST(kvrt_model_open(rt, path, strlen(path), &o, NULL, NULL, &model, NULL));
    kvrt_report report = {.struct_size = sizeof report};
    kvrt_session* s = resume_session(model, store, again ? "part" : "s", &report);
    if (again) EXPECT(report.reused_disk >= part, "%" PRIu64 " tokens of the part", report.reused_disk);
    if (!again) {
      EXPECT_STATUS(kvrt_session_prefill(s, 0, stop_midway, &part, NULL, NULL), KVRT_CANCELLED);
      MUST(kvrt_session_suspend(s, "part", 4, NULL, NULL, NULL));
    }
    kvrt_session_close(s);
    kvrt_model_release(model);
  }
  kvrt_store_release(store);
}

// A save keeps the KV of another format until a block of the session's own is computed.
static void kept(kvrt_runtime* rt, const char* path, const char* dir) {
  char place[kPathMax + 16];
  snprintf(place, sizeof place, "%s/kept", dir);
  kvrt_store* store = open_store(rt, place);
  kvrt_model *f16 = open_with(rt, path, KVRT_KV_F16), *int8 = open_with(rt, path, KVRT_KV_INT8), *small = open_small(rt, path, int8);
  kvrt_session* s = prompted(f16, store);
  struct run run = {0};
  generate_into(s, kRun, &run);
  MUST(kvrt_session_suspend(s, "s", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  const uint64_t saved = kPrompt + kRun - 1;  // the last token has no KV yet
  kvrt_report report = {.struct_size = sizeof report};
  static const int32_t more[20] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (int round = 0; round < 3; ++round) {  // it does not fit; it fits, and is not computed; both, under another name
    s = resume_session(round == 1 ? int8 : small, store, "s", NULL);
    EXPECT((session_props(s).state == KVRT_STATE_SUSPENDED) == (round != 1), "round %d: state %u", round, session_props(s).state);
    if (round == 1) MUST(kvrt_session_append(s, more, 20, NULL));
    kvrt_save_report r = {.struct_size = sizeof r};
    MUST(kvrt_session_checkpoint(s, round == 2 ? "t" : "s", 1, NULL, &r, NULL));
    EXPECT(r.chunks_missing == 0 && r.chunks == (saved + kBlock - 1) / kBlock, "round %d: %" PRIu64 " chunks, %" PRIu64 " missing", round,
           r.chunks, r.chunks_missing);
    kvrt_session_close(s);
    s = resume_session(f16, store, round == 2 ? "t" : "s", &report);
    EXPECT(report.reused_disk + report.reused_memory == saved, "round %d: %" PRIu64 " and %" PRIu64 " tokens", round, report.reused_disk,
           report.reused_memory);
    EXPECT(session_props(s).tokens == kPrompt + kRun + (round > 0 ? 20u : 0u), "round %d: %" PRIu64 " tokens", round,
           session_props(s).tokens);
    kvrt_session_close(s);
  }
  s = resume_session(int8, store, "t", &report);
  EXPECT(report.reused_disk == 0, "%" PRIu64 " tokens of int8", report.reused_disk);
  MUST(kvrt_session_truncate(s, kPrompt, NULL));  // within a block of the other format's
  MUST(kvrt_session_checkpoint(s, "cut", 3, NULL, NULL, NULL));
  generate_into(s, kRun, &run);
  MUST(kvrt_session_checkpoint(s, "whole", 5, NULL, NULL, NULL));
  kvrt_session_close(s);
  s = resume_session(f16, store, "cut", &report);
  EXPECT(report.reused_disk + report.reused_memory >= kPrompt / kBlock * kBlock, "cut: %" PRIu64 " tokens", report.reused_disk);
  kvrt_session_close(s);
  kvrt_model_release(int8);
  int8 = open_with(rt, path, KVRT_KV_INT8);
  s = resume_session(int8, store, "whole", &report);
  EXPECT(report.reused_disk == saved, "int8: %" PRIu64 " tokens", report.reused_disk);
  kvrt_session_close(s);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(f16);
  kvrt_model_release(small);
  kvrt_model_release(int8);
}

// A session within one block, resumed in another format: a save that has KV of all its tokens writes it, so that the format's own is found next time.
static void within_a_block(kvrt_runtime* rt, const char* path, const char* dir) {
  char place[kPathMax + 16];
  snprintf(place, sizeof place, "%s/within", dir);
  kvrt_store* store = open_store(rt, place);
  static const int32_t few[] = {3, 4, 5, 6, 7};
  const uint32_t formats[] = {KVRT_KV_F16, KVRT_KV_INT4, KVRT_KV_INT4};
  for (uint32_t i = 0; i < 3; ++i) {
    kvrt_model* model = open_with(rt, path, formats[i]);
    kvrt_report report = {.struct_size = sizeof report};
    kvrt_session* s = NULL;
    if (i == 0) {
      s = open_session(model, store, 0);
    } else {
      s = resume_session(model, store, "s", &report);
    }
    EXPECT(report.reused_disk == (i == 2 ? 5u : 0u), "round %u: %" PRIu64 " tokens from disk", i, report.reused_disk);
    if (i < 2) {
      if (i == 0) MUST(kvrt_session_append(s, few, 5, NULL));
      MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
      kvrt_save_report r = {.struct_size = sizeof r};
      MUST(kvrt_session_suspend(s, "s", 1, NULL, &r, NULL));
      EXPECT(r.chunks == 1 && r.chunks_written == 1, "round %u: %" PRIu64 " chunks, %" PRIu64 " written", i, r.chunks, r.chunks_written);
    }
    kvrt_session_close(s);
    kvrt_model_release(model);
  }
  kvrt_store_release(store);
}

// A latent is K and V in one row: one format for both, or INVALID.
static void latents(kvrt_runtime* rt) {
  char path[kPathMax];
  snprintf(path, sizeof path, "%s/row_deepseek3.gguf", tiny_dir());
  const kvrt_model_options unlike = {.struct_size = sizeof unlike, .kv_format = KVRT_KV_INT8, .kv_format_v = KVRT_KV_F16};
  const kvrt_plan_options planned = {.struct_size = sizeof planned, .kv_format = KVRT_KV_INT8, .kv_format_v = KVRT_KV_F16};
  kvrt_model* model = NULL;
  EXPECT_STATUS(kvrt_model_open(rt, path, strlen(path), &unlike, NULL, NULL, &model, NULL), KVRT_INVALID);
  EXPECT(model == NULL && strstr(last_message(), "expected one format") != NULL, "%s", last_message());
  kvrt_plan plan = {.struct_size = sizeof plan};
  EXPECT_STATUS(kvrt_model_plan(rt, path, strlen(path), &planned, &plan, NULL), KVRT_INVALID);
  EXPECT(strstr(last_message(), "expected one format") != NULL, "%s", last_message());
}

int main(void) {
  static struct run whole[kFormats];
  char path[kPathMax], dir[kPathMax];
  tiny_path(path, 0);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(2, KVRT_ISA_DEFAULT);
  for (uint32_t f = 0; f < kFormats; ++f) begin(rt, path, dir, f, &whole[f]);
  EXPECT(same_run(&whole[KVRT_KV_DEFAULT], &whole[KVRT_KV_F16]), "the default is not F16");
  for (uint32_t f = 1; f < kFormats; ++f) {
    for (uint32_t g = 1; g < f; ++g) EXPECT(!same_run(&whole[f], &whole[g]), "formats %u and %u have the same logits", f, g);
    for (uint32_t now = 0; now < kFormats; ++now) {  // of pairs itself, and those that have K or V in common with it
      const int related = k_of(f) == k_of(now) || v_of(f) == v_of(now);
      if (related || (f <= KVRT_KV_FP8 && now <= KVRT_KV_FP8)) resumed(rt, path, dir, f, now, &whole[f]);
    }
  }
  latents(rt);
  kept(rt, path, dir);
  stopped_midway(rt, path, dir);
  within_a_block(rt, path, dir);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
