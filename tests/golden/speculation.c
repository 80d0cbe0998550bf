// Speculation keeps the bits: conversations with and without it, of all options, compared event by event.
//   speculation tiny|all [NAME]             every generated model, a few conversations each, or more; or those whose name has NAME
//   speculation real [NUMBER]               SmolLM2 and, where it is, Gemma 3; the draft is the same file with KV of another format
//   speculation pair TARGET DRAFT [NUMBER]  two real models
//   speculation wrong                       one token of one answer is taken for another: it must say so
#include "speculation.h"

enum { kTogether = 6 };

static const struct way kWays[] = {
    {"lookup", 0, 1, 0, 4},  {"draft", 1, 0, 0, 4},      {"both", 1, 1, 0, 15}, {"prediction", 0, 0, 1, 15},
    {"lookup", 0, 1, 0, 15}, {"draft", 1, 0, 0, 1},      {"both", 1, 1, 0, 0},  {"prediction and draft", 1, 0, 1, 4},
    {"lookup", 0, 1, 0, 0},  {"draft", 1, 0, 0, 15},     {"both", 1, 1, 0, 1},  {"prediction", 0, 1, 1, 0},
    {"lookup", 0, 1, 0, 1},  {"draft", 1, 0, 0, 0},      {"both", 1, 1, 0, 4},  {"prediction", 0, 0, 1, 1},
    {"lookup", 0, 1, 0, 32}, {"prediction", 1, 0, 1, 0}, {"both", 1, 1, 0, 32}, {"prediction", 0, 0, 1, 4},
};
enum { kWayCount = sizeof kWays / sizeof *kWays };

static struct totals { uint64_t generations, tokens, drafted, accepted, different; } totals;
static int wrong;  // one token is taken for another

static void count(const struct play* p) {
  totals.generations += p->parts, totals.tokens += p->log.generated;
  totals.drafted += p->log.drafted, totals.accepted += p->log.accepted;
}

static void compare(const struct rig* r, uint64_t seed, const struct way* way, struct play* got, const struct play* want,
                    const char* what) {
  char label[256];
  snprintf(label, sizeof label, "%s, conversation %" PRIu64 ", %s of %u%s", r->name, seed, way->name, way->fixed, what);
  if (wrong) {
    char* at = strstr(got->log.text, "\n1 ");
    if (at) at[3] = at[3] == '9' ? '8' : (char)(at[3] + 1);
  }
  const int same = same_transcript(&got->log, &want->log, label);
  if (!same && getenv("KVRT_TEST_SHOW"))
    printf("got\n%.*s\nwant\n%.*s\n", (int)got->log.size, got->log.text, (int)want->log.size, want->log.text);
  totals.different += !same;
  EXPECT(want->log.drafted == 0 && want->log.accepted == 0, "%s: drafted %" PRIu64 " without speculation", label, want->log.drafted);
  count(got);
}

// One conversation without speculation, and `ways` times with it.
static void conversation(struct rig* r, uint64_t seed, size_t ways) {
  static struct play plain, other;
  play(r, seed, NULL, NULL, &plain);
  for (size_t i = 0; i < ways; ++i) {
    const struct way* way = &kWays[(seed * ways + i) % kWayCount];
    play(r, seed, way, &plain, &other);
    compare(r, seed, way, &other, &plain, "");
    play_free(&other);
  }
  play_free(&plain);
}

// One part of each of these conversations, all at once; what each says alone and without speculation is what it says here.
static void together(struct rig* r, uint64_t seed) {
  static struct play alone[kTogether], beside[kTogether];
  static struct drawn d[kTogether];
  const struct way* ways[kTogether] = {0};
  kvrt_session* s[kTogether];
  for (int pass = 0; pass < 2; ++pass) {
    struct play* p = pass ? beside : alone;
    for (size_t i = 0; i < kTogether; ++i) {
      uint64_t dice = seed * 100 + i;
      s[i] = open_conversation(r, &dice, 1);
      draw(r, &dice, &d[i]);
      p[i].parts = 1;
      ways[i] = &kWays[(seed + i) % kWayCount];
      if (pass && i != 2) speculate(r, &d[i], ways[i], alone[i].answers[0], seed + i);
      if (pass) {
        (void)note_begin(&p[i].log, s[i], &d[i].o);
      } else {
        note_generation(&p[i].log, r->model, s[i], &d[i].o, 1);
        memcpy(p[i].answers[0], p[i].log.answer, p[i].log.answer_size);
        note_session(&p[i].log, s[i]);
        kvrt_session_close(s[i]);
      }
    }
  }
  for (size_t left = kTogether; left != 0;) {
    MUST(kvrt_model_step(r->model, 0, NULL, NULL));
    left = 0;
    for (size_t i = 0; i < kTogether; ++i) note_ready(&beside[i].log, s[i]), left += !beside[i].log.done;
  }
  for (size_t i = 0; i < kTogether; ++i) {
    note_session(&beside[i].log, s[i]);
    kvrt_session_close(s[i]);
    compare(r, seed * 100 + i, ways[i], &beside[i], &alone[i], ", beside others");
    play_free(&beside[i]), play_free(&alone[i]);
  }
}

static void rig_open(struct rig* r, const char* path, const char* draft, uint64_t pool_tokens) {
  r->rt = open_runtime(0, 0);
  r->model = open_model(r->rt, path, 0, 0, pool_tokens);
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.block_tokens = 16;
  o.kv_format = strcmp(path, draft) == 0 ? KVRT_KV_FP8 : KVRT_KV_F16;  // not quite the same, so that not all it says is right
  MUST(kvrt_model_open(r->rt, draft, strlen(draft), &o, NULL, NULL, &r->draft, NULL));
  make_dir(r->dir);
  r->store = open_store(r->rt, r->dir);
  const kvrt_model_props p = model_props(r->model);
  r->everything = p.kv_groups == 1 && p.kv_group_kind[0] == KVRT_GROUP_EVERYTHING;
  r->chat = p.has_template != 0, r->vocab = p.vocab_size;
  snprintf(r->saved, sizeof r->saved, "saved");
}

static void rig_close(struct rig* r) {
  expect_no_leaks(r->model);
  expect_no_leaks(r->draft);
  kvrt_store_release(r->store);
  kvrt_model_release(r->draft);
  kvrt_model_release(r->model);
  kvrt_runtime_release(r->rt);
  remove_tree(r->dir);
}

// Conversations until so many generations were compared.
static void compare_many(struct rig* r, uint64_t first, uint64_t generations, size_t ways) {
  const struct totals before = totals;
  const double start = now_ms();
  for (uint64_t i = 0; totals.generations - before.generations < generations; ++i) {
    conversation(r, first + i, ways);
    if (i % 5 == 1) together(r, first + i);
  }
  const uint64_t drafted = totals.drafted - before.drafted, accepted = totals.accepted - before.accepted;
  printf("%s: %" PRIu64 " generations, %" PRIu64 " tokens; %" PRIu64 " drafted, %" PRIu64 " accepted; %" PRIu64 " differ; %.1f s\n",
         r->name, totals.generations - before.generations, totals.tokens - before.tokens, drafted, accepted,
         totals.different - before.different, (now_ms() - start) / 1e3);
  if (is_recurrent(r->model)) {
    EXPECT(drafted == 0, "%s has recurrent layers, and drafted %" PRIu64, r->name, drafted);
  } else {  // with nothing right, or nothing wrong, it would prove little
    EXPECT(accepted > 0 && accepted < drafted, "%s: %" PRIu64 " of %" PRIu64 " accepted", r->name, accepted, drafted);
  }
}

static void tiny_models(uint64_t generations, size_t ways, const char* only) {
  static char paths[kModelsMax][kPathMax];
  const size_t models = list_tiny(paths);
  char dir[kPathMax], with[kPathMax + 32];
  make_dir(dir);
  for (size_t i = 0; i < models; ++i) {
    const char* name = strrchr(paths[i], '/') + 1;
    if (strstr(name, "vocab_only") != NULL || strstr(name, only) == NULL) continue;
    const int chat = strncmp(name, "llama", 5) == 0;
    snprintf(with, sizeof with, "%s/%s", dir, name);
    if (chat) with_template(paths[i], with, kTemplate);
    struct rig r = {.name = name, .tokens = 32, .tools = chat};
    rig_open(&r, chat ? with : paths[i], chat ? with : paths[i], 4096);
    compare_many(&r, 1000 * i, generations, ways);
    rig_close(&r);
  }
  remove_tree(dir);
}

static int real_models(uint64_t generations) {
  char path[kPathMax];
  if (!find_real(path)) return printf("no model: skipped\n"), kSkip;
  struct rig r = {.name = "SmolLM2", .tokens = 24};
  rig_open(&r, path, path, 16384);
  compare_many(&r, 1, generations, 2);
  rig_close(&r);
  char* at = strrchr(path, '/');
  snprintf(at ? at + 1 : path, sizeof path - (size_t)(at ? at + 1 - path : 0), "gemma-3-270m-Q4_K_M.gguf");
  if (access(path, R_OK) != 0) return printf("no Gemma 3: its windows are left out\n"), finish();
  r = (struct rig){.name = "Gemma 3", .tokens = 24, .long_prompt = 560};
  rig_open(&r, path, path, 16384);
  compare_many(&r, 1, generations / 8, 4);
  rig_close(&r);
  return finish();
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char* what = argc > 1 ? argv[1] : "tiny";
  if (strcmp(what, "pair") == 0) {
    REQUIRE(argc > 3, "speculation pair TARGET DRAFT [NUMBER]");
    struct rig r = {.name = "pair", .tokens = 32, .tools = 1};
    rig_open(&r, argv[2], argv[3], 16384);
    compare_many(&r, 1, argc > 4 ? (uint64_t)atoll(argv[4]) : 500, 2);
    rig_close(&r);
    return finish();
  }
  if (strcmp(what, "real") == 0) return real_models(argc > 2 ? (uint64_t)atoll(argv[2]) : 500);
  wrong = strcmp(what, "wrong") == 0;
  const int all = strcmp(what, "all") == 0;
  tiny_models(all ? 240 : wrong ? 1 : 24, all ? 5 : 3, argc > 2 ? argv[2] : "");
  return finish();
}
