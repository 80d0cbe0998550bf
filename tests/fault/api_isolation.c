// Domains never share a block: KV that one domain computed or saved is never reused by another, in memory, through a store and after a
// restart, and the same domain finds it each time. api_isolation [probes] [seed].
#include "../api/support.h"

enum { kDomains = 8, kTokensMax = 96, kBlock = 16, kSavedMax = 512 };

// Names that a careless join would confuse with each other, or with the text behind them.
static const char* const domains[kDomains] = {"",    "a",      "aa",         "a/a",
                                              "f16", "a\nf16", "aa\xC3\xA4", "tenant-0000000000000000000000000000000"};

struct prompt {
  int32_t tokens[kTokensMax];
  size_t count;
};

static struct prompt saved[kSavedMax];
static size_t owner_of[kSavedMax], saved_count;
static uint64_t probes, hits, controls, control_hits, resumes;

static kvrt_session* open_in(kvrt_model* model, kvrt_store* store, size_t domain) {
  const kvrt_session_options o = {
      .struct_size = sizeof o, .store = store, .domain = domains[domain], .domain_size = strlen(domains[domain])};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  return s;
}

// Computes a prompt in a domain. The tokens that it reused.
static uint64_t compute(kvrt_model* model, kvrt_store* store, size_t domain, const struct prompt* p, const char* save_as) {
  kvrt_session* s = open_in(model, store, domain);
  MUST(kvrt_session_append(s, p->tokens, p->count, NULL));
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, &report, NULL));
  check_report(&report, "prefill");
  if (save_as) {
    const kvrt_save_options o = {.struct_size = sizeof o, .durability = KVRT_DURABILITY_NONE};
    MUST(kvrt_session_suspend(s, save_as, strlen(save_as), &o, NULL, NULL));
  }
  kvrt_session_close(s);
  return report.reused_memory + report.reused_disk;
}

static void probe(kvrt_model* model, kvrt_store* store, size_t domain, const struct prompt* p, size_t owner) {
  const uint64_t reused = compute(model, store, domain, p, NULL);
  ++probes, hits += reused != 0;
  EXPECT(reused == 0, "domain \"%s\" reused %" PRIu64 " tokens of \"%s\"", domains[domain], reused, domains[owner]);
}

static void control(kvrt_model* model, kvrt_store* store, size_t domain, const struct prompt* p) {
  const uint64_t reused = compute(model, store, domain, p, NULL);
  ++controls, control_hits += reused != 0;
  EXPECT(reused >= p->count / kBlock * kBlock, "domain \"%s\" reused %" PRIu64 " of its own %zu tokens", domains[domain], reused, p->count);
}

// A name belongs to its domain too.
static void resume_from_others(kvrt_model* model, kvrt_store* store, const char* name, size_t owner) {
  for (size_t d = 0; d < kDomains; ++d) {
    const kvrt_session_options o = {.struct_size = sizeof o, .domain = domains[d], .domain_size = strlen(domains[d])};
    kvrt_session* s = NULL;
    const kvrt_status status = kvrt_session_resume(model, store, name, strlen(name), &o, NULL, NULL, NULL, &s, NULL);
    EXPECT(status == (d == owner ? KVRT_OK : KVRT_NOT_FOUND), "\"%s\" resumes a session of \"%s\": %s", domains[d], domains[owner],
           kvrt_status_name(status));
    ++resumes;
    kvrt_session_close(s);
  }
}

// One prompt: its owner computes it, and saves it if there is a store; every other domain asks for it, then the owner again.
static void round_of(kvrt_model* model, kvrt_store* store, uint64_t* random, uint32_t vocab) {
  struct prompt p = {.count = 2 * kBlock + 1 + next_random(random) % (kTokensMax - 2 * kBlock)};
  prompt_tokens(p.tokens, p.count, next_random(random), vocab);
  const size_t owner = next_random(random) % kDomains;
  char name[32];
  snprintf(name, sizeof name, "s%zu", saved_count);
  const int save = store != NULL && saved_count < kSavedMax;
  EXPECT(compute(model, store, owner, &p, save ? name : NULL) == 0, "a new prompt was reused");
  for (size_t i = 1; i < kDomains; ++i) probe(model, store, (owner + i) % kDomains, &p, owner);
  control(model, store, owner, &p);
  if (!save) return;
  if (saved_count % 16 == 0) resume_from_others(model, store, name, owner);
  owner_of[saved_count] = owner;
  saved[saved_count++] = p;
}

// The same after a restart, when all KV lies on the disk.
static void from_disk(kvrt_model* model, kvrt_store* store, uint64_t* random) {
  for (size_t i = 0; i < saved_count; ++i) {
    probe(model, store, (owner_of[i] + 1 + next_random(random) % (kDomains - 1)) % kDomains, &saved[i], owner_of[i]);
    kvrt_report report = {.struct_size = sizeof report};
    char name[32];
    snprintf(name, sizeof name, "s%zu", i);
    const kvrt_session_options o = {.struct_size = sizeof o, .domain = domains[owner_of[i]], .domain_size = strlen(domains[owner_of[i]])};
    kvrt_session* s = NULL;
    MUST(kvrt_session_resume(model, store, name, strlen(name), &o, NULL, NULL, &report, &s, NULL));
    EXPECT(report.reused_disk == saved[i].count, "its owner resumes %" PRIu64 " of %zu tokens from disk", report.reused_disk,
           saved[i].count);
    kvrt_session_close(s);
    control(model, store, owner_of[i], &saved[i]);
  }
}

// ---- keys on the disk (storage/FORMAT.md: a segment's index) -----------------------------------------------------------------------

enum { kKey = 32, kEntry = 48, kTrailer = 40, kKeysMax = 64 };
static unsigned char keys[kKeysMax][kKey];
static size_t keys_count;

static int read_keys(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)f;
  const size_t size = strlen(path);
  if (type != FTW_F || size < 4 || strcmp(path + size - 4, ".seg") != 0) return 0;
  FILE* file = fopen(path, "rb");
  REQUIRE(file != NULL, "%s", path);
  uint32_t count = 0;
  uint64_t offset = 0;
  REQUIRE(fseek(file, (long)s->st_size - kTrailer + 4, SEEK_SET) == 0 && fread(&count, 4, 1, file) == 1 && fread(&offset, 8, 1, file) == 1,
          "%s: no trailer", path);
  for (uint32_t i = 0; i < count; ++i) {
    REQUIRE(keys_count < kKeysMax && fseek(file, (long)(offset + i * kEntry), SEEK_SET) == 0 && fread(keys[keys_count], kKey, 1, file) == 1,
            "%s: index of %u", path, count);
    ++keys_count;
  }
  fclose(file);
  return 0;
}

static void keys_on_disk(kvrt_runtime* rt, kvrt_model* model, const char* dir, uint32_t vocab) {
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/keys", dir);
  kvrt_store* store = open_store(rt, path);
  struct prompt p = {.count = 5 * kBlock + 3};
  prompt_tokens(p.tokens, p.count, 77, vocab);
  for (size_t d = 0; d < kDomains; ++d) compute(model, store, d, &p, "same");
  kvrt_store_release(store);
  nftw(path, read_keys, 16, FTW_PHYS);
  EXPECT(keys_count == kDomains * 6, "%zu chunks of %d equal sessions in domains of their own", keys_count, kDomains);
  for (size_t i = 0; i < keys_count; ++i) {
    for (size_t j = i + 1; j < keys_count; ++j) EXPECT(memcmp(keys[i], keys[j], kKey) != 0, "a key is there twice");
  }
}

int main(int argc, char** argv) {
  const uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
  printf("seed %" PRIu64 "\n", seed);
  uint64_t random = seed;
  char dir[kPathMax], path[kPathMax + 32], tiny[kPathMax];
  make_dir(dir);
  tiny_path(tiny, 0);
  for (int life = 0; probes < wanted; ++life) {  // of a store
    snprintf(path, sizeof path, "%s/store%d", dir, life);
    saved_count = 0;
    kvrt_runtime* rt = open_runtime(1, 0);
    kvrt_model* model = open_model(rt, tiny, 0, kBlock, 0);
    const uint32_t vocab = model_props(model).vocab_size;
    kvrt_store* store = open_store(rt, path);
    if (life == 0) keys_on_disk(rt, model, dir, vocab);
    for (int i = 0; i < kSavedMax && probes < wanted; ++i) {
      round_of(model, i % 2 ? store : NULL, &random, vocab);
    }
    kvrt_store_release(store);
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    rt = open_runtime(1, 0);
    model = open_model(rt, tiny, 0, kBlock, 0);
    store = open_store(rt, path);
    from_disk(model, store, &random);
    kvrt_store_release(store);
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    remove_tree(path);
  }
  printf("%" PRIu64 " probes of other domains: %" PRIu64 " hits; %" PRIu64 " controls: %" PRIu64 " hits; %" PRIu64 " resumes by name\n",
         probes, hits, controls, control_hits, resumes);
  EXPECT(probes >= wanted && hits == 0 && control_hits == controls && controls > probes / 20, "the controls prove nothing");
  remove_tree(dir);
  return finish();
}
