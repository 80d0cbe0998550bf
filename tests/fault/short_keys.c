// kvrt built with keys of 8 bits, so that chunks of different tokens have the same key all the time: then only the comparison of tokens is
// between a session and another's KV. A save may be refused; no resume may go wrong. short_keys [resumes] [seed].
#include "../api/support.h"

enum { kBlock = 16, kParagraphs = 40, kDepthMax = 4, kTokensMax = 160, kSlots = 12, kLifeResumes = 2000 };

// A session in the store, and its next logits.
struct slot {
  int used;
  int32_t tokens[kTokensMax];
  size_t count;
  uint64_t digest;
};

static struct slot slots[kSlots];
static int32_t paragraphs[kParagraphs][kBlock];
static uint64_t resumes, saves, refused, reused_disk, reused_memory, prefilled, generated;
static uint64_t random_state;

static uint64_t below(uint64_t n) { return next_random(&random_state) % n; }

static void name_of(char name[8], size_t slot) { snprintf(name, 8, "s%zu", slot); }

// Equal blocks at the same depth after different ones: their keys are equal whenever those of the blocks before are.
static size_t compose(int32_t tokens[kTokensMax]) {
  const size_t depth = 1 + below(kDepthMax), rest = below(kBlock);
  for (size_t i = 0; i < depth; ++i) {
    const size_t choice = i < 2 ? below(kParagraphs) : below(3);
    memcpy(tokens + i * kBlock, paragraphs[choice], sizeof paragraphs[0]);
  }
  memcpy(tokens + depth * kBlock, paragraphs[below(4)], rest * sizeof *tokens);
  return depth * kBlock + rest;
}

// The digest of the same tokens alone in the world: neither the prefix index nor a store is asked.
static uint64_t oracle(kvrt_model* model, const int32_t* tokens, size_t count) { return digest_of(model, tokens, count); }

static void count_reuse(const kvrt_report* r) {
  reused_memory += r->reused_memory;
  reused_disk += r->reused_disk;
  prefilled += r->prefilled;
}

static void expect_digest(kvrt_session* s, uint64_t want, const char* what) {
  kvrt_report report;
  const uint64_t digest = next_digest(s, &report);
  count_reuse(&report);
  EXPECT(digest == want, "%s: wrong logits (seed and resumes so far: %" PRIu64 ")", what, resumes);
}

// The session's tokens are those that it was saved with.
static void expect_tokens(const kvrt_session* s, const struct slot* slot) {
  int32_t tokens[kTokensMax];
  const size_t count = session_tokens(s, tokens, kTokensMax);
  EXPECT(count == slot->count && memcmp(tokens, slot->tokens, count * sizeof *tokens) == 0,
         "resumed with %zu tokens that it was not saved with", count);
}

// Saves under its own name only; a key that another session's tokens have is a reason to refuse.
static void save(kvrt_session* s, size_t to, const struct slot* as) {
  char name[8];
  name_of(name, to);
  const kvrt_save_options o = {.struct_size = sizeof o, .durability = KVRT_DURABILITY_NONE, .overwrite = 1};
  const kvrt_status status = kvrt_session_checkpoint(s, name, strlen(name), &o, NULL, NULL);
  EXPECT(status == KVRT_OK || status == KVRT_CORRUPT, "save: %s: %s", kvrt_status_name(status), last_message());
  ++*(status == KVRT_OK ? &saves : &refused);
  if (status != KVRT_OK) return;
  slots[to] = *as;
  slots[to].used = 1;
}

static void save_new(kvrt_model* model, kvrt_store* store) {
  struct slot slot = {0};
  slot.count = compose(slot.tokens);
  slot.digest = oracle(model, slot.tokens, slot.count);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, slot.tokens, slot.count, NULL));
  expect_digest(s, slot.digest, "a new session");
  save(s, below(kSlots), &slot);
  kvrt_session_close(s);
}

static void resume_one(kvrt_model* model, kvrt_store* store) {
  const size_t from = below(kSlots);
  if (!slots[from].used) return;
  char name[8];
  name_of(name, from);
  kvrt_report report = {.struct_size = sizeof report};
  kvrt_session* s = resume_session(model, store, name, &report);
  ++resumes;
  count_reuse(&report);
  expect_tokens(s, &slots[from]);
  expect_digest(s, slots[from].digest, "a resumed session");
  struct slot slot = slots[from];
  switch (below(8)) {
    case 0:  // it goes on
      if (slot.count + kBlock > kTokensMax) break;
      memcpy(slot.tokens + slot.count, paragraphs[below(3)], sizeof paragraphs[0]);
      MUST(kvrt_session_append(s, slot.tokens + slot.count, kBlock, NULL));
      slot.count += kBlock;
      slot.digest = oracle(model, slot.tokens, slot.count);
      expect_digest(s, slot.digest, "a session that went on");
      save(s, from, &slot);
      break;
    case 1: {  // a fork of its start, with another end
      kvrt_session* fork = NULL;
      MUST(kvrt_session_fork(s, NULL, &fork, NULL));
      slot.count = 1 + below(slot.count);
      MUST(kvrt_session_truncate(fork, slot.count, NULL));
      slot.digest = oracle(model, slot.tokens, slot.count);
      expect_digest(fork, slot.digest, "a truncated fork");
      save(fork, below(kSlots), &slot);
      kvrt_session_close(fork);
      break;
    }
    default:
      break;
  }
  kvrt_session_close(s);
}

// Sessions that compute at once share the blocks that they seal, and wait for those that another computes.
static void generate_together(kvrt_model* model, kvrt_store* store) {
  enum { kTogether = 3 };
  kvrt_session* s[kTogether];
  uint64_t want[kTogether];
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1, .ignore_eos = 1, .emit_logits = 1};
  for (int i = 0; i < kTogether; ++i) {
    int32_t tokens[kTokensMax];
    const size_t count = compose(tokens);
    want[i] = oracle(model, tokens, count);
    s[i] = open_session(model, i % 2 ? store : NULL, 0);
    MUST(kvrt_session_append(s[i], tokens, count, NULL));
  }
  for (int i = 0; i < kTogether; ++i) MUST(kvrt_session_begin(s[i], &o, NULL));
  for (int i = 0; i < kTogether; ++i) {
    struct run run = {0};
    drain(s[i], &run);
    EXPECT(run.count == 1 && run.digest[0] == want[i], "one of several at once: wrong logits (resumes so far: %" PRIu64 ")", resumes);
    ++generated;
    kvrt_session_close(s[i]);
  }
}

static void remove_one(kvrt_store* store) {
  const size_t which = below(kSlots);
  if (!slots[which].used) return;
  char name[8];
  name_of(name, which);
  MUST(kvrt_store_remove(store, NULL, 0, name, strlen(name), NULL));
  slots[which].used = 0;
}

static void life(const char* tiny, const char* dir, uint64_t until) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, kBlock, 24 * kBlock);
  kvrt_store* store = open_store(rt, dir);
  while (resumes < until) {
    const uint64_t step = below(16);
    if (step < 2) {
      save_new(model, store);
    } else if (step == 2) {
      remove_one(store);
    } else if (step == 3) {
      generate_together(model, store);
    } else {
      if (resumes == 0 && saves == 0) save_new(model, store);
      resume_one(model, store);
    }
  }
  kvrt_store_props props = {.struct_size = sizeof props};
  MUST(kvrt_store_info(store, &props, NULL));
  EXPECT(props.chunks <= 256, "%" PRIu64 " chunks have keys of 8 bits", props.chunks);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  const uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
  printf("seed %" PRIu64 "\n", seed);
  random_state = seed;
  char dir[kPathMax], path[kPathMax + 32], tiny[kPathMax];
  make_dir(dir);
  tiny_path(tiny, 0);
  snprintf(path, sizeof path, "%s/store", dir);
  for (size_t i = 0; i < kParagraphs; ++i) prompt_tokens(paragraphs[i], kBlock, next_random(&random_state), 200);
  while (resumes < wanted) life(tiny, path, resumes + kLifeResumes < wanted ? resumes + kLifeResumes : wanted);
  printf("%" PRIu64 " resumes, %" PRIu64 " at once, %" PRIu64 " saves, %" PRIu64 " refused; tokens: %" PRIu64 " from memory, %" PRIu64
         " from disk, %" PRIu64 " computed\n",
         resumes, generated, saves, refused, reused_memory, reused_disk, prefilled);
  EXPECT(saves > 0 && refused > 0 && reused_memory > 0 && reused_disk > 0, "nothing collided, or nothing was reused");
  remove_tree(dir);
  return finish();
}
