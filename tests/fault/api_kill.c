// kill -9 at random moments of a conversation with a checkpoint after each turn: every acknowledged session resumes, at the acknowledged
// revision or newer, with the right logits. api_kill [kills] [seed] [model]; without a model SmolLM2.
#include <signal.h>
#include <sys/wait.h>

#include "../api/support.h"

// The child's word on its pipe: before a save the revision that it will be, after its OK that it is.
struct note {
  uint64_t revision, tokens, digest;
  uint32_t acknowledged, session;
};

enum { kSessions = 3 };

static void say(int fd, const struct note* note) { REQUIRE(write(fd, note, sizeof *note) == sizeof *note, "pipe: %s", strerror(errno)); }

static void session_name(char name[8], uint32_t which) { snprintf(name, 8, "s%u", which); }

static void turn(kvrt_session* s, uint32_t which, int fd, uint64_t* random, uint32_t vocab, uint64_t context) {
  int32_t tokens[48];
  char name[8];
  session_name(name, which);
  const size_t count = 1 + next_random(random) % 47;
  if (session_props(s).tokens + count + 16 > context) MUST(kvrt_session_truncate(s, 20, NULL));
  prompt_tokens(tokens, count, *random, vocab);
  MUST(kvrt_session_append(s, tokens, count, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1 + (uint32_t)(*random % 4), .ignore_eos = 1};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  struct note note = {.session = which};
  note.digest = next_digest(s, NULL);
  note.revision = session_props(s).revision + 1;
  note.tokens = session_props(s).tokens;
  say(fd, &note);
  kvrt_save_report report = {.struct_size = sizeof report};
  if (*random % 3 == 0) {
    MUST(kvrt_session_suspend(s, name, strlen(name), NULL, &report, NULL));
  } else {
    MUST(kvrt_session_checkpoint(s, name, strlen(name), NULL, &report, NULL));
  }
  EXPECT(report.revision == note.revision, "revision %" PRIu64 ", expected %" PRIu64, report.revision, note.revision);
  note.acknowledged = 1;
  say(fd, &note);
}

_Noreturn static void child(const char* model_path, const char* dir, int fd, uint64_t random) {
  kvrt_runtime* rt = open_runtime(2, 0);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 0);
  const kvrt_model_props props = model_props(model);
  const uint64_t context = props.context_length < 600 ? props.context_length : 600;
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s[kSessions] = {0};
  for (;;) {
    const uint32_t which = (uint32_t)(next_random(&random) % kSessions);
    char name[8];
    session_name(name, which);
    if (s[which] == NULL && kvrt_session_resume(model, store, name, strlen(name), NULL, NULL, NULL, NULL, &s[which], NULL) != KVRT_OK) {
      s[which] = open_session(model, store, 0);
    }
    turn(s[which], which, fd, &random, props.vocab_size, context);
  }
}

static pid_t start(const char* self, const char* model_path, const char* dir, int fd, uint64_t random) {
  char number[24], seed[24];
  snprintf(number, sizeof number, "%d", fd);
  snprintf(seed, sizeof seed, "%" PRIu64, random);
  const pid_t pid = fork();
  if (pid == 0) {
    execl(self, self, "child", model_path, dir, number, seed, (char*)NULL);
    _exit(127);
  }
  return pid;
}

// The sessions as acknowledged, and the save that may or may not have been in time.
struct known {
  struct note done, tried;
};

static void check(kvrt_model* model, kvrt_store* store, uint32_t which, struct known* k, int round) {
  char name[8];
  session_name(name, which);
  kvrt_session* s = NULL;
  kvrt_report report = {.struct_size = sizeof report};
  const kvrt_status status = kvrt_session_resume(model, store, name, strlen(name), NULL, NULL, NULL, &report, &s, NULL);
  if (status == KVRT_NOT_FOUND && k->done.revision == 0) return;
  EXPECT(status == KVRT_OK, "kill %d: %s acknowledged at revision %" PRIu64 ": %s %s", round, name, k->done.revision,
         kvrt_status_name(status), last_message());
  if (status != KVRT_OK) return;
  const uint64_t revision = session_props(s).revision, tokens = session_props(s).tokens;
  const struct note* want = revision == k->done.revision ? &k->done : &k->tried;
  EXPECT(revision == want->revision && tokens == want->tokens,
         "kill %d: %s has revision %" PRIu64 " and %" PRIu64 " tokens; acknowledged %" PRIu64 ", tried %" PRIu64, round, name, revision,
         tokens, k->done.revision, k->tried.revision);
  EXPECT(next_digest(s, NULL) == want->digest, "kill %d: %s goes on with other logits", round, name);
  EXPECT(report.reused_memory + report.reused_disk >= tokens / 32 * 32, "kill %d: %s: only %" PRIu64 " of %" PRIu64 " tokens came back",
         round, name, report.reused_memory + report.reused_disk, tokens);
  k->done = *want;
  kvrt_session_close(s);
}

int main(int argc, char** argv) {
  if (argc == 6 && strcmp(argv[1], "child") == 0) child(argv[2], argv[3], atoi(argv[4]), strtoull(argv[5], NULL, 10));
  const int kills = argc > 1 ? atoi(argv[1]) : 50;
  uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  char model_path[kPathMax], dir[kPathMax];
  if (argc > 3) {
    snprintf(model_path, sizeof model_path, "%s", argv[3]);
  } else if (!find_real(model_path)) {
    return printf("no model: skipped\n"), kSkip;
  }
  printf("seed %" PRIu64 "\n", random);
  make_dir(dir);
  kvrt_runtime* rt = open_runtime(2, 0);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 0);
  struct known known[kSessions];
  memset(known, 0, sizeof known);
  size_t notes = 0, acknowledged = 0, in_save = 0;
  for (int round = 0; round < kills; ++round) {
    int fds[2];
    REQUIRE(pipe(fds) == 0, "pipe: %s", strerror(errno));
    const pid_t pid = start("/proc/self/exe", model_path, dir, fds[1], next_random(&random));
    close(fds[1]);
    struct note note = {0};
    // Kill after some turns, and then at a random moment: half of them between a save's begin and its end.
    const uint64_t turns = 1 + next_random(&random) % 3;
    uint64_t seen = 0, last_acknowledged = 1;
    while (seen < turns && read(fds[0], &note, sizeof note) == sizeof note) {
      ++notes, acknowledged += note.acknowledged, seen += note.acknowledged;
      *(note.acknowledged ? &known[note.session].done : &known[note.session].tried) = note;
    }
    if (next_random(&random) % 2) {
      if (read(fds[0], &note, sizeof note) == sizeof note) ++notes, known[note.session].tried = note, last_acknowledged = note.acknowledged;
      usleep((useconds_t)(next_random(&random) % 8000));
    } else {
      usleep((useconds_t)(next_random(&random) % 100000));
    }
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ended by itself: %x", status);
    while (read(fds[0], &note, sizeof note) == sizeof note) {
      ++notes, acknowledged += note.acknowledged, last_acknowledged = note.acknowledged;
      *(note.acknowledged ? &known[note.session].done : &known[note.session].tried) = note;
    }
    in_save += last_acknowledged == 0;
    close(fds[0]);
    kvrt_store* store = open_store(rt, dir);
    for (uint32_t i = 0; i < kSessions; ++i) check(model, store, i, &known[i], round);
    if (round % 10 == 9) EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
    kvrt_store_release(store);
  }
  printf("%d kills, %zu of them inside a save; %zu acknowledged saves\n", kills, in_save, acknowledged);
  EXPECT(acknowledged >= (size_t)kills && in_save > 0, "the kills hit nothing: %zu notes", notes);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
