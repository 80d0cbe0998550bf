// Descriptors: after fork(2) a child's first call gives its copies back, so that a parent's locks go with the parent; none is ever 0 to 2; a
// process that has no more of them, or whose filter of system calls is older than kvrt, is told so.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "misuse.h"

static char tiny[kPathMax], dir[kPathMax], store_path[kPathMax + 32], other_path[kPathMax + 32];

enum { kPrompt = 80 };

static void append_prompt(kvrt_session* s, kvrt_model* model) {
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, 3, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
}

// A process of its own, so that each starts without threads, descriptors and a past. It ends with finish().
static void in_child(const char* what, int (*run)(void)) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    const int failed = run();
    fflush(stdout);
    _exit(failed);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkip) {
    printf("%s: not possible on this machine\n", what);
    return;
  }
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", what, status);
}

// The number of this process's descriptors that lead to a path with `name` in it.
static int count_open(const char* name) {
  int found = 0;
  DIR* fds = opendir("/proc/self/fd");
  REQUIRE(fds != NULL, "/proc/self/fd: %s", strerror(errno));
  for (struct dirent* e; (e = readdir(fds)) != NULL;) {
    char target[kPathMax] = "";
    found += readlinkat(dirfd(fds), e->d_name, target, sizeof target - 1) > 0 && strstr(target, name) != NULL;
  }
  closedir(fds);
  return found;
}

// ---- fork ---------------------------------------------------------------------------------------------------------------------------

// Tells the other process that this one has come so far, and whether all was right until then.
static void tell(int fd) {
  const char c = atomic_load(&support_failures) == 0 ? 'x' : '!';
  REQUIRE(write(fd, &c, 1) == 1, "%s", strerror(errno));
}
static void hear(int fd) {
  char c;
  REQUIRE(read(fd, &c, 1) == 1, "the other process ended");
  EXPECT(c == 'x', "the other process failed");
}

static int save_one(void) {
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 16, 0);
  kvrt_store* store = open_store(rt, store_path);
  kvrt_session* s = open_session(model, store, 0);
  append_prompt(s, model);
  MUST(kvrt_session_prefill(s, 0, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_checkpoint(s, "kept", 4, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
  kvrt_session_close(s);
  EXPECT(count_open(store_path) != 0, "a store without descriptors");
  kvrt_store_release(store);
  EXPECT(count_open(store_path) == 0, "%d descriptors of a closed store", count_open(store_path));
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  return finish();
}

static void first_call(kvrt_store* store) {
  const int before = count_open("lock");
  kvrt_store_props p = {.struct_size = sizeof p};
  EXPECT_STATUS(kvrt_store_info(store, &p, NULL), KVRT_UNSUPPORTED);
  EXPECT(before == 2 && count_open("lock") == 0 && count_open(".seg") == 0, "%d locks before its first call, then %d", before,
         count_open("lock"));
  kvrt_runtime* rt = open_runtime(1, 0);
  for (int read_only = 0; read_only < 2; ++read_only) {
    const kvrt_store_options o = {.struct_size = sizeof o, .read_only = (uint32_t)read_only};
    kvrt_store* same = NULL;
    EXPECT_STATUS(kvrt_store_open(rt, store_path, strlen(store_path), &o, &same, NULL), KVRT_UNSUPPORTED);
    EXPECT(last_detail() == KVRT_DETAIL_FORKED && same == NULL, "detail %d: %s", last_detail(), last_message());
  }
  kvrt_store* own = open_store(rt, other_path);
  EXPECT_STATUS(kvrt_store_verify(own, NULL, NULL, NULL), KVRT_OK);
  kvrt_store_release(own);
  kvrt_runtime_release(rt);
}

// The parent is killed with its locks, or closes in order; its child lives on. Then a third process has the store to itself.
static void child_lives_on(int killed) {
  int ready[2], leave[2], close_it[2];
  REQUIRE(pipe(ready) == 0 && pipe(leave) == 0 && pipe(close_it) == 0, "%s", strerror(errno));
  fflush(stdout);
  const pid_t parent = fork();
  if (parent == 0) {
    kvrt_runtime* rt = open_runtime(2, 0);
    kvrt_model* model = open_model(rt, tiny, 0, 16, 0);
    kvrt_store* store = open_store(rt, store_path);
    kvrt_session* s = resume_session(model, store, "kept", NULL);  // a segment is open, too
    fflush(stdout);
    if (fork() == 0) {
      close(leave[1]);  // the end of the test is its end
      if (killed) first_call(store);
      fflush(stdout);
      tell(ready[1]);
      char c;
      (void)!read(leave[0], &c, 1);
      _exit(0);
    }
    close(leave[1]);
    hear(close_it[0]);
    if (killed) kill(getpid(), SIGKILL);
    kvrt_session_close(s);
    kvrt_store_release(store);
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    _exit(finish());
  }
  hear(ready[0]);
  kvrt_runtime* rt = open_runtime(1, 0);
  EXPECT_STATUS(kvrt_store_repair(rt, store_path, strlen(store_path), NULL, NULL, NULL, NULL), KVRT_BUSY);
  tell(close_it[1]);
  int status = 0;
  waitpid(parent, &status, 0);
  EXPECT(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0, "the parent: status %x", status);
  EXPECT_STATUS(kvrt_store_repair(rt, store_path, strlen(store_path), NULL, NULL, NULL, NULL), KVRT_OK);
  kvrt_runtime_release(rt);
  const int fds[] = {ready[0], ready[1], leave[0], leave[1], close_it[0], close_it[1]};
  for (int i = 0; i < 6; ++i) close(fds[i]);
}

// ---- 0 to 2 -------------------------------------------------------------------------------------------------------------------------

static int low;

// Counts the descriptors 0 to 2 that lead elsewhere than to /dev/null, which SQLite puts there.
static int32_t look_low(void* user, const kvrt_event* e) {
  (void)user, (void)e;
  for (int fd = 0; fd < 3; ++fd) {
    char name[32], target[kPathMax] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    low += readlink(name, target, sizeof target - 1) > 0 && strcmp(target, "/dev/null") != 0;
  }
  return 0;
}

static int without_the_first_three(void) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  kvrt_runtime_options ro = {.struct_size = sizeof ro};
  kvrt_runtime* rt = NULL;
  kvrt_model* model = NULL;
  kvrt_store* store = NULL;
  kvrt_session* s = NULL;
  int wrong = kvrt_runtime_open(&ro, &rt, NULL) != KVRT_OK;
  wrong += kvrt_model_open(rt, tiny, strlen(tiny), NULL, look_low, NULL, &model, NULL) != KVRT_OK;
  char made[kPathMax + 32];
  snprintf(made, sizeof made, "%s/made", dir);
  wrong += kvrt_store_open(rt, made, strlen(made), NULL, &store, NULL) != KVRT_OK;
  look_low(NULL, NULL);
  kvrt_store_release(store);
  wrong += kvrt_store_open(rt, store_path, strlen(store_path), NULL, &store, NULL) != KVRT_OK;
  look_low(NULL, NULL);
  wrong += kvrt_session_resume(model, store, "kept", 4, NULL, look_low, NULL, NULL, &s, NULL) != KVRT_OK;
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = 20, .ignore_eos = 1};
  wrong += kvrt_session_generate(s, &o, look_low, NULL, NULL, NULL) != KVRT_OK;
  wrong += kvrt_session_checkpoint(s, "low", 3, NULL, NULL, NULL) != KVRT_OK;
  wrong += kvrt_store_verify(store, look_low, NULL, NULL) != KVRT_OK;
  wrong += kvrt_store_gc(store, look_low, NULL, NULL, NULL) != KVRT_OK;
  kvrt_session_close(s);
  wrong += kvrt_store_remove(store, NULL, 0, "low", 3, NULL) != KVRT_OK;
  kvrt_store_release(store);
  kvrt_model_release(model);
  wrong += kvrt_store_repair(rt, store_path, strlen(store_path), look_low, NULL, NULL, NULL) != KVRT_OK;
  kvrt_runtime_release(rt);
  look_low(NULL, NULL);
  return wrong != 0 || low != 0;  // there is no stdout to say more on
}

// ---- no more of them ----------------------------------------------------------------------------------------------------------------

static int more;  // descriptors that may still be opened

static void limit_descriptors(int so_many) {
  const int first_free = open("/dev/null", O_RDONLY);
  close(first_free);
  struct rlimit limit;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
  limit.rlim_cur = so_many < 0 ? limit.rlim_max : (rlim_t)(first_free + so_many);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
}

// The call came to its end, or its error names the want of descriptors.
static int expect_named(kvrt_status status, const char* call) {
  kvrt_error e = {.struct_size = sizeof e};
  kvrt_last_error(&e);
  EXPECT(status == KVRT_OK || (status == KVRT_IO && e.os_code == EMFILE && strstr(e.message, strerror(EMFILE))), "%s with %d: %s, %d: %s",
         call, more, kvrt_status_name(status), e.os_code, e.message);
  EXPECT(status != KVRT_OK || more != 0, "%s needs no descriptor", call);
  return status == KVRT_OK;
}

static int32_t no_fault(void* user, const kvrt_event* e) {
  (void)user;
  EXPECT(e->type != KVRT_EVENT_FAULT, "with %d: %.*s", more, (int)e->text_size, e->text);
  return 0;
}

static int few_descriptors(void) {
  int done = 0;
  kvrt_runtime* rt = open_runtime(1, 0);
  char made[kPathMax + 64];
  snprintf(made, sizeof made, "%s/few-%d", dir, more);
  kvrt_model* model = NULL;
  kvrt_store* store = NULL;
  kvrt_session* s = NULL;
  limit_descriptors(more);
  done += expect_named(kvrt_model_open(rt, tiny, strlen(tiny), NULL, NULL, NULL, &model, NULL), "model_open");
  done += expect_named(kvrt_store_open(rt, made, strlen(made), NULL, &store, NULL), "store_open of a new one");
  kvrt_store_release(store);
  store = NULL;
  const kvrt_store_options read_only = {.struct_size = sizeof read_only, .read_only = 1};
  done += expect_named(kvrt_store_open(rt, store_path, strlen(store_path), &read_only, &store, NULL), "store_open, read-only");
  kvrt_store_release(store);
  store = NULL;
  done += expect_named(kvrt_store_repair(rt, store_path, strlen(store_path), no_fault, NULL, NULL, NULL), "repair");
  limit_descriptors(-1);
  if (!model) model = open_model(rt, tiny, 0, 0, 0);
  store = open_store(rt, store_path);
  limit_descriptors(more);
  done +=
      kvrt_session_resume(model, store, "kept", 4, NULL, NULL, NULL, NULL, &s, NULL) == KVRT_OK;  // KV that is unreadable is computed again
  EXPECT(s != NULL, "resume with %d: %s", more, last_message());
  struct run r = {0};
  generate_into(s, 20, &r);
  char name[16];
  snprintf(name, sizeof name, "few-%d", more);
  done += expect_named(kvrt_session_checkpoint(s, name, strlen(name), NULL, NULL, NULL), "checkpoint");
  kvrt_session_close(s);
  done += expect_named(kvrt_store_verify(store, no_fault, NULL, NULL), "verify");
  done += expect_named(kvrt_store_gc(store, NULL, NULL, NULL, NULL), "gc");
  kvrt_store_release(store);
  limit_descriptors(-1);
  store = open_store(rt, store_path);
  EXPECT_STATUS(kvrt_store_verify(store, no_fault, NULL, NULL), KVRT_OK);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  EXPECT(more != 20 || done == 8, "%d of 8 calls with 20", done);
  return finish();
}

// ---- an old filter of system calls ---------------------------------------------------------------------------------------------------

static uint32_t refusal;

// faccessat2 is refused, as by a filter that does not know it.
static int refuse_faccessat2(void) {
  const struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 439, 0, 1),  // everywhere but on alpha
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, (struct sock_filter*)filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return kSkip;
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_store* store = open_store(rt, store_path);
  kvrt_store_props p = {.struct_size = sizeof p};
  MUST(kvrt_store_info(store, &p, NULL));
  EXPECT(p.read_only == 0, "with errno %u it opens read-only", refusal);
  EXPECT_STATUS(kvrt_store_pin(store, NULL, 0, "kept", 4, 1, NULL), KVRT_OK);
  kvrt_store_release(store);
  if (geteuid() != 0) {
    REQUIRE(chmod(store_path, 0500) == 0, "%s", strerror(errno));
    store = open_store(rt, store_path);
    MUST(kvrt_store_info(store, &p, NULL));
    EXPECT(p.read_only == 1, "a directory that cannot be written opens for writing");
    kvrt_store_release(store);
    REQUIRE(chmod(store_path, 0700) == 0, "%s", strerror(errno));
  }
  kvrt_runtime_release(rt);
  return finish();
}

int main(void) {
  make_dir(dir);
  tiny_path(tiny, 0);
  snprintf(store_path, sizeof store_path, "%s/store", dir);
  snprintf(other_path, sizeof other_path, "%s/other", dir);
  in_child("save", save_one);
  child_lives_on(1);
  child_lives_on(0);
  in_child("without 0 to 2", without_the_first_three);
#ifndef __SANITIZE_ADDRESS__  // UBSan looks through a pipe whether an object is one, and takes it for none where there is no descriptor
  for (more = 0; more <= 20; ++more) in_child("few descriptors", few_descriptors);
#else
  (void)few_descriptors;
#endif
  const uint32_t refusals[] = {EPERM, ENOSYS};
  for (int i = 0; i < 2; ++i) refusal = refusals[i], in_child("an old filter", refuse_faccessat2);
  remove_tree(dir);
  return finish();
}
