// Checkpoints in short turn: they write in proportion to the KV that is new, and a resume computes a bounded number of tokens again.
#include "support.h"

enum { kPrompt = 5, kRun = 512 };

static kvrt_runtime* rt;
static const char* tiny;

struct life {
  kvrt_session* s;
  kvrt_model* other;  // without anything in its pool
  kvrt_store* store;
  kvrt_save_options save;
  uint64_t written, saves, chunks_written;
  uint64_t most_again;  // tokens that a resume of a checkpoint computed again
  int look;             // resume now and then
};

static uint64_t bytes_below;
static int add_bytes(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)path, (void)f;
  if (type == FTW_F) bytes_below += (uint64_t)s->st_size;
  return 0;
}

static uint64_t bytes_in(const char* dir) {
  bytes_below = 0;
  nftw(dir, add_bytes, 16, FTW_PHYS);
  return bytes_below;
}

// The tokens that a resume has to compute of those saved last; it goes on as a session that never was saved.
static uint64_t again(struct life* l) {
  kvrt_report report = {.struct_size = sizeof report};
  kvrt_session* s = resume_session(l->other, l->store, "life", &report);
  check_report(&report, "resume");
  EXPECT(report.prompt_tokens == session_props(s).tokens && report.prompt_tokens - session_props(s).kv_tokens == report.prefilled,
         "resume: %" PRIu64 " of %" PRIu64 " to compute, %" PRIu64 " have KV", report.prefilled, report.prompt_tokens,
         session_props(s).kv_tokens);
  kvrt_report next = {.struct_size = sizeof next};
  static _Thread_local int32_t tokens[2048];
  const size_t count = session_tokens(s, tokens, 2048);
  EXPECT(next_digest(s, &next) == digest_of(l->other, tokens, count), "after %zu tokens it goes on differently", count);
  EXPECT(next.prefilled == report.prefilled && next.recomputed == 0, "%" PRIu64 " computed, %" PRIu64 " again; resume said %" PRIu64,
         next.prefilled, next.recomputed, report.prefilled);
  kvrt_session_close(s);
  return report.prefilled;
}

static int32_t checkpoint_each(void* user, const kvrt_event* e) {
  struct life* l = user;
  if (e->type != KVRT_EVENT_TOKEN) return 0;
  kvrt_save_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_checkpoint(l->s, "life", 4, &l->save, &report, NULL));
  ++l->saves;
  l->written += report.bytes_written;
  l->chunks_written += report.chunks_written;
  if (!l->look || e->position % 7) return 0;
  const uint64_t n = again(l);
  if (n > l->most_again) l->most_again = n;
  return 0;
}

static void one_life(const char* dir, uint32_t block, uint32_t codec, int look) {
  char place[kPathMax + 32];
  snprintf(place, sizeof place, "%s/%u-%u-%d", dir, block, codec, look);
  kvrt_model* model = open_model(rt, tiny, 0, block, 4096);
  struct life l = {.store = open_store(rt, place),
                   .look = look,
                   .save = {.struct_size = sizeof l.save, .durability = KVRT_DURABILITY_NONE, .codec = codec}};
  l.other = open_model(rt, tiny, 0, block, 4096);
  l.s = open_session(model, l.store, 0);
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, 3, model_props(model).vocab_size);
  MUST(kvrt_session_append(l.s, tokens, kPrompt, NULL));
  kvrt_generate_options o = run_options(kRun);
  o.emit_logits = 0;
  MUST(kvrt_session_generate(l.s, &o, checkpoint_each, &l, NULL, NULL));
  const uint64_t n = kPrompt + kRun, kv = (n - 1) * model_props(model).kv_bytes_per_token;
  char segments[kPathMax + 40];
  snprintf(segments, sizeof segments, "%s/segs", place);
  const uint64_t on_disk = bytes_in(segments);
  printf("blocks of %u, codec %u: %" PRIu64 " saves wrote %.2f x the KV in %" PRIu64 " chunks, %.2f x are on the disk; %" PRIu64
         " tokens computed again at most\n",
         block, codec, l.saves, (double)l.written / (double)kv, l.chunks_written, (double)on_disk / (double)kv, l.most_again);
  EXPECT(l.saves == kRun && l.written > kv / 2, "%" PRIu64 " saves of %" PRIu64 " bytes", l.saves, l.written);
  EXPECT(on_disk <= 4 * kv, "%" PRIu64 " bytes on the disk for %" PRIu64 " of KV", on_disk, kv);
  EXPECT(l.written <= 4 * kv, "blocks of %u, codec %u: %" PRIu64 " bytes written for %" PRIu64 " of KV", block, codec, l.written, kv);
  const uint64_t step = block / 4 > 8 ? block / 4 : 8;
  EXPECT(l.most_again <= step, "blocks of %u: a resume computes %" PRIu64 " tokens again", block, l.most_again);
  // Chunks that were superseded are garbage, and suspend leaves only the token that has no KV yet.
  MUST(kvrt_session_suspend(l.s, "life", 4, &l.save, NULL, NULL));
  EXPECT(again(&l) == 1, "a resume of a suspended session");
  MUST(kvrt_store_gc(l.store, NULL, NULL, NULL, NULL));
  kvrt_store_props p = {.struct_size = sizeof p};
  MUST(kvrt_store_info(l.store, &p, NULL));
  EXPECT(p.chunks == (n - 1 + block - 1) / block, "%" PRIu64 " chunks of %" PRIu64 " tokens", p.chunks, n);
  EXPECT(bytes_in(segments) <= 2 * kv, "%" PRIu64 " bytes of segments for %" PRIu64 " of KV", bytes_in(segments), kv);
  EXPECT_STATUS(kvrt_store_verify(l.store, NULL, NULL, NULL), KVRT_OK);
  kvrt_session_close(l.s);
  kvrt_store_release(l.store);
  kvrt_model_release(l.other);
  kvrt_model_release(model);
  remove_tree(place);
}

int main(int argc, char** argv) {
  static char path[kPathMax], dir[kPathMax];
  const int real = argc > 1 && strcmp(argv[1], "real") == 0, look = !real;
  if (real && !find_real(path)) return kSkip;
  if (!real) tiny_path(path, 0);
  tiny = path;
  make_dir(dir);
  rt = open_runtime(2, KVRT_ISA_DEFAULT);
  for (uint32_t block = 16; block <= (real ? 32 : 128); block *= 2) {
    one_life(dir, block, KVRT_CODEC_NONE, 0);
    one_life(dir, block, KVRT_CODEC_ZSTD, look);
  }
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
