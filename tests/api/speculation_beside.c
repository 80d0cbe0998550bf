// Beside a generation that speculates: saves, cancels, closes, and models that draft for each other on two threads.
#include "speculation.h"

enum { kSaves = 400, kRounds = 24 };

static atomic_int stop;

struct saver {
  kvrt_session* session;
  int saves;
};

static void* save_again_and_again(void* user) {
  struct saver* saver = user;
  const kvrt_save_options o = {.struct_size = sizeof o, .durability = KVRT_DURABILITY_PROCESS};
  while (!atomic_load(&stop) && saver->saves < kSaves) {
    char name[32];
    const int size = snprintf(name, sizeof name, "save %d", saver->saves);
    MUST(kvrt_session_checkpoint(saver->session, name, (size_t)size, &o, NULL, NULL));
    ++saver->saves;
  }
  return NULL;
}

// A save at any moment is the answer so far: none of it was only proposed, and it goes on as the answer does.
static void saved_meanwhile(const struct pair* p) {
  size_t within = 0;
  for (int round = 0; round < 8; ++round) {
    kvrt_session* s = prompted(p, p->model, p->stage.store);
    struct saver saver = {.session = s};
    pthread_t thread;
    atomic_store(&stop, 0);
    pthread_create(&thread, NULL, save_again_and_again, &saver);
    struct transcript t = {0};
    kvrt_generate_options o = drafted_options(p->draft, kAnswer);
    o.draft_tokens_min = o.draft_tokens_max = 1 + (uint32_t)round * 2;
    note_generation(&t, p->model, s, &o, (unsigned)round % 3);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    same_transcript(&t, &p->plain, "saved meanwhile");
    transcript_free(&t);
    kvrt_session_close(s);
    for (int i = 0; i < saver.saves; ++i) {
      char name[32];
      snprintf(name, sizeof name, "save %d", i);
      kvrt_session* saved = resume_session(p->model, p->stage.store, name, NULL);
      const size_t had = expect_beginning(p, p->model, saved, 0, "a save of it");
      within += had > 0 && had < kAnswer;
      kvrt_session_close(saved);
      MUST(kvrt_store_remove(p->stage.store, NULL, 0, name, strlen(name), NULL));
    }
  }
  printf("%zu saves within an answer\n", within);
}

struct canceller {
  kvrt_session* session;
  unsigned wait_us;
};
static void* cancel_it(void* user) {
  struct canceller* c = user;
  usleep(c->wait_us);
  MUST(kvrt_session_cancel(c->session, NULL));
  return NULL;
}

// A cancel in the middle leaves the answer so far, or with all_or_nothing none of it.
static void cancelled(const struct pair* p) {
  size_t cut = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    kvrt_session* s = prompted(p, p->model, NULL);
    struct canceller c = {s, round * 150};
    kvrt_generate_options o = drafted_options(p->draft, kAnswer);
    o.all_or_nothing = round % 4 == 3;
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_it, &c);
    struct transcript t = {0};
    note_generation(&t, p->model, s, &o, round % 3);
    pthread_join(thread, NULL);
    const size_t had = session_props(s).tokens - kPrompt;
    if (o.all_or_nothing && t.report.reason == KVRT_REASON_CANCELLED) EXPECT(had == 0, "%zu tokens of nothing", had);
    cut += had > 0 && had < kAnswer;
    (void)expect_beginning(p, p->model, s, 0, "after a cancel");
    transcript_free(&t);
    kvrt_session_close(s);
  }
  printf("%zu of %d answers cut\n", cut, kRounds);
}

struct side {
  const struct pair* pair;
  kvrt_model *model, *draft;
  struct transcript want;
};
static void* answer_again(void* user) {
  const struct side* side = user;
  for (int i = 0; i < kRounds; ++i) {
    kvrt_session* s = prompted(side->pair, side->model, NULL);
    struct transcript t = {0};
    const kvrt_generate_options o = drafted_options(side->draft, kAnswer);
    note_generation(&t, side->model, s, &o, (unsigned)i % 3);
    same_transcript(&t, &side->want, "each drafts for the other");
    transcript_free(&t);
    kvrt_session_close(s);
  }
  return NULL;
}

// Each model is the other's draft, with sessions on two threads each.
static void each_for_the_other(const struct pair* p) {
  struct side sides[2] = {{.pair = p, .model = p->model, .draft = p->draft}, {.pair = p, .model = p->draft, .draft = p->model}};
  pthread_t threads[4];
  for (int i = 0; i < 2; ++i) {
    kvrt_session* s = prompted(p, sides[i].model, NULL);
    const kvrt_generate_options o = answer_options(kAnswer);
    note_generation(&sides[i].want, sides[i].model, s, &o, 1);
    kvrt_session_close(s);
  }
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, answer_again, &sides[i % 2]);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; ++i) transcript_free(&sides[i].want);
}

// Closed while it speculates; the draft goes with it.
static void closed(const struct pair* p) {
  for (int round = 0; round < kRounds; ++round) {
    kvrt_generate_options o = drafted_options(open_small(p, kSmall, 0, 16), kAnswer);
    kvrt_session* s = prompted(p, p->model, NULL);
    MUST(kvrt_session_begin(s, &o, NULL));
    kvrt_model_release(o.draft);
    for (int i = 0; i < round; ++i) MUST(kvrt_model_step(p->model, 0, NULL, NULL));
    kvrt_session_close(s);
  }
}

int main(void) {
  static struct pair p;
  pair_open(&p);
  saved_meanwhile(&p);
  cancelled(&p);
  each_for_the_other(&p);
  closed(&p);
  pair_close(&p);
  return finish();
}
