// Several processes go on with the same conversations of one store, and are killed at random: a resume finds the acknowledged revision or
// a newer one, goes on with the logits of its tokens, and a save meets a CONFLICT only where somebody else has saved.
// api_processes [kills] [seed] [model]
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../api/support.h"

enum { kShared = 3, kProcesses = 3 };

// The board that every process sees at once.
struct board {
  _Atomic uint64_t acknowledged[kShared], resumes, saves, conflicts;
};

static void session_name(char name[8], uint32_t which) { snprintf(name, 8, "s%u", which); }

static void raise_to(_Atomic uint64_t* to, uint64_t value) {
  uint64_t old = atomic_load(to);
  while (old < value && !atomic_compare_exchange_weak(to, &old, value)) continue;
}

// A save under the shared name. 0: somebody else has saved since, and the name has another session by now.
static int save(kvrt_session* s, kvrt_store* store, uint32_t which, int suspend, struct board* board) {
  char name[8];
  session_name(name, which);
  const uint64_t seen = session_props(s).revision;
  kvrt_save_report report = {.struct_size = sizeof report};
  const kvrt_status status =
      suspend ? kvrt_session_suspend(s, name, 2, NULL, &report, NULL) : kvrt_session_checkpoint(s, name, 2, NULL, &report, NULL);
  if (status == KVRT_OK) {
    EXPECT(report.revision > seen, "revision %" PRIu64 " after %" PRIu64, report.revision, seen);
    raise_to(&board->acknowledged[which], report.revision);
    atomic_fetch_add(&board->saves, 1);
    return 1;
  }
  EXPECT_STATUS(status, KVRT_CONFLICT);
  atomic_fetch_add(&board->conflicts, 1);
  kvrt_store_entry stat = {.struct_size = sizeof stat};
  EXPECT_STATUS(kvrt_store_stat(store, NULL, 0, name, 2, &stat, NULL), KVRT_OK);
  EXPECT(stat.revision > seen, "CONFLICT, though %s is at %" PRIu64 " and was seen at %" PRIu64, name, stat.revision, seen);
  return 0;
}

static void talk(kvrt_session* s, uint64_t* random, uint32_t vocab, uint64_t context) {
  int32_t tokens[64];
  const size_t count = 1 + next_random(random) % 60;
  const uint64_t have = session_props(s).tokens;
  if (have + count + 8 > context || next_random(random) % 4 == 0)
    MUST(kvrt_session_truncate(s, have * (next_random(random) % 4) / 4, NULL));
  prompt_tokens(tokens, count, next_random(random) % 4, vocab);  // few beginnings: equal blocks are stored once
  MUST(kvrt_session_append(s, tokens, count, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 1 + (uint32_t)(*random % 4), .ignore_eos = 1};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
}

static void work(kvrt_model* model, kvrt_store* store, struct board* board, uint64_t* random) {
  const kvrt_model_props props = model_props(model);
  const uint64_t context = props.context_length < 300 ? props.context_length : 300;
  const uint32_t which = (uint32_t)(next_random(random) % kShared);
  char name[8];
  session_name(name, which);
  const uint64_t floor = atomic_load(&board->acknowledged[which]);
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_resume(model, store, name, 2, NULL, NULL, NULL, NULL, &s, NULL);
  if (status == KVRT_NOT_FOUND && floor == 0) {
    s = open_session(model, store, 0);
  } else {
    REQUIRE(status == KVRT_OK, "%s, acknowledged at %" PRIu64 ": %s %s", name, floor, kvrt_status_name(status), last_message());
    atomic_fetch_add(&board->resumes, 1);
    EXPECT(session_props(s).revision >= floor, "%s at %" PRIu64 ", acknowledged at %" PRIu64, name, session_props(s).revision, floor);
    expect_sound(s, model, name);
  }
  int ours = 1;
  for (uint64_t turns = next_random(random) % 3 + 1; turns > 0 && ours; --turns) {
    talk(s, random, props.vocab_size, context);
    ours = save(s, store, which, next_random(random) % 2 == 0, board);
  }
  expect_sound(s, model, name);
  if (next_random(random) % 6 == 0) {  // a branch of its own, which nobody disputes
    kvrt_session* branch = NULL;
    MUST(kvrt_session_fork(s, NULL, &branch, NULL));
    char own[24];
    const int size = snprintf(own, sizeof own, "own-%d", (int)getpid());
    const kvrt_save_options o = {.struct_size = sizeof o, .overwrite = 1};
    EXPECT_STATUS(kvrt_session_suspend(branch, own, (size_t)size, &o, NULL, NULL), KVRT_OK);
    kvrt_session_close(branch);
    if (next_random(random) % 2) EXPECT_STATUS(kvrt_store_remove(store, NULL, 0, own, (size_t)size, NULL), KVRT_OK);
  }
  kvrt_session_close(s);
  if (next_random(random) % 8 == 0) EXPECT_STATUS(kvrt_store_gc(store, NULL, NULL, NULL, NULL), KVRT_OK);
  if (next_random(random) % 16 == 0) EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
}

static struct board* map_board(const char* dir) {
  char path[kPathMax + 8];
  snprintf(path, sizeof path, "%s.board", dir);
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  REQUIRE(fd >= 0 && ftruncate(fd, sizeof(struct board)) == 0, "%s: %s", path, strerror(errno));
  void* memory = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(memory != MAP_FAILED, "mmap: %s", strerror(errno));
  close(fd);
  return (struct board*)memory;
}

static int child(const char* model_path, const char* dir, uint64_t random) {
  struct board* board = map_board(dir);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  while (atomic_load(&support_failures) == 0) work(model, store, board, &random);
  return finish();
}

static pid_t start(const char* model_path, const char* dir, uint64_t random) {
  char seed[24];
  snprintf(seed, sizeof seed, "%" PRIu64, random);
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "api_processes", "child", model_path, dir, seed, (char*)NULL);
    _exit(127);
  }
  return pid;
}

// Waits until `saves` more are made, or a process ended by itself: so a slow machine does as much between two kills as a fast one.
static void wait_for_saves(const struct board* board, uint64_t saves) {
  const uint64_t until = atomic_load(&board->saves) + saves;
  siginfo_t ended = {.si_pid = 0};
  while (atomic_load(&board->saves) < until && ended.si_pid == 0) {
    usleep(500);
    waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT);
  }
}

static void check_end(const char* model_path, const char* dir, const struct board* board) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, model_path, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  for (uint32_t i = 0; i < kShared; ++i) {
    char name[8];
    session_name(name, i);
    if (atomic_load(&board->acknowledged[i]) == 0) continue;
    kvrt_report report;
    kvrt_session* s = resume_session(model, store, name, &report);
    const kvrt_session_props p = session_props(s);
    EXPECT(p.revision >= atomic_load(&board->acknowledged[i]), "%s at %" PRIu64, name, p.revision);
    // The last token of an answer was sampled and not computed.
    kvrt_store_entry stat = {.struct_size = sizeof stat};
    EXPECT_STATUS(kvrt_store_stat(store, NULL, 0, name, 2, &stat, NULL), KVRT_OK);
    EXPECT(report.reused_memory + report.reused_disk >= (p.tokens - 1) / 32 * 32,
           "%s: only %" PRIu64 " of %" PRIu64 " tokens came back: stopped at %" PRIu64 " by %u, %" PRIu64 " of %" PRIu64 " chunks missing",
           name, report.reused_memory + report.reused_disk, p.tokens, report.reuse_stopped_at, report.reuse_stopped, stat.chunks_missing,
           stat.chunks);
    expect_sound(s, model, name);
    kvrt_session_close(s);
  }
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "child") == 0) return child(argv[2], argv[3], strtoull(argv[4], NULL, 10));
  const int kills = argc > 1 ? atoi(argv[1]) : 20;
  uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  char model_path[kPathMax], dir[kPathMax], path[kPathMax + 8];
  if (argc > 3) {
    snprintf(model_path, sizeof model_path, "%s", argv[3]);
  } else {
    tiny_path(model_path, 0);
  }
  printf("seed %" PRIu64 "\n", random);
  make_dir(dir);
  struct board* board = map_board(dir);
  pid_t pids[kProcesses] = {0};
  for (int i = 0; i < kProcesses; ++i) pids[i] = start(model_path, dir, next_random(&random));
  for (int round = 0; round < kills + kProcesses; ++round) {
    if (round < kills) {
      wait_for_saves(board, next_random(&random) % 48);
      usleep((useconds_t)(next_random(&random) % 4000));
    }
    const uint32_t which = (uint32_t)(round < kills ? next_random(&random) % kProcesses : (uint64_t)(round - kills));
    kill(pids[which], SIGKILL);
    int status = 0;
    waitpid(pids[which], &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a process ended by itself: %x", status);
    if (round < kills) pids[which] = start(model_path, dir, next_random(&random));
  }
  check_end(model_path, dir, board);
  printf("%d kills, %" PRIu64 " resumes, %" PRIu64 " saves, %" PRIu64 " conflicts\n", kills, atomic_load(&board->resumes),
         atomic_load(&board->saves), atomic_load(&board->conflicts));
  EXPECT(atomic_load(&board->resumes) > 0 && atomic_load(&board->conflicts) > 0, "they never met");
  snprintf(path, sizeof path, "%s.board", dir);
  unlink(path);
  remove_tree(dir);
  return finish();
}
