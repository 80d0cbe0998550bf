// Two processes on one name: each is told of the other, whose kill ends that. One process, a child of fork(2) and a reader tell nobody.
// open_names is the first process. It starts others of the same program:
//   look STORE NAME   exits with kNobody, or with kStarter where session_info names the process that started it
//   hold STORE NAME   resumes it, writes a byte to its standard output, and stays
//   leave STORE NAME  as hold, but a child of fork(2), which never calls kvrt, stays with it, until its standard input ends
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "support.h"

static char tiny[kPathMax], dir[kPathMax], place[kPathMax + 8];
static kvrt_runtime* rt;
static kvrt_model* model;
static int leash[2];  // the standard input of the others

enum { kNobody = 10, kStarter = 11 };

static int32_t other_process(const kvrt_session* s) { return session_props(s).other_process; }

static kvrt_store* open_to_read(void) {
  kvrt_store_options o = {.struct_size = sizeof o, .read_only = 1};
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, place, strlen(place), &o, &store, NULL));
  return store;
}

static void save(kvrt_session* s, const char* name) { MUST(kvrt_session_checkpoint(s, name, strlen(name), NULL, NULL, NULL)); }

static kvrt_session* start_session(kvrt_store* store, const char* name) {
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, (const int32_t[]){5, 6, 7}, 3, NULL));
  save(s, name);
  return s;
}

// ---- the other processes -----------------------------------------------------------------------------------------------------------

static pid_t start(const char* role, const char* name, int* output) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(leash[0], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "open_names", role, place, name, (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  *output = ends[0];
  return pid;
}

static pid_t hold(const char* role, const char* name) {
  int output;
  char c = 0;
  const pid_t pid = start(role, name, &output);
  REQUIRE(read(output, &c, 1) == 1, "%s %s ended", role, name);
  close(output);
  return pid;
}

static void kill_it(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

// What another process is told of the name: 1, that this one has it open; 0, that none has.
static int told(const char* name) {
  int output, status = 0;
  const pid_t pid = start("look", name, &output);
  waitpid(pid, &status, 0);
  close(output);
  REQUIRE(WIFEXITED(status) && (WEXITSTATUS(status) == kNobody || WEXITSTATUS(status) == kStarter), "a look at %s: %x", name, status);
  return WEXITSTATUS(status) == kStarter;
}

static int look(const char* name) {
  kvrt_store* reader = open_to_read();
  kvrt_session* s = resume_session(model, reader, name, NULL);
  const int32_t found = other_process(s);
  kvrt_session_close(s);
  kvrt_store_release(reader);
  kvrt_store* store = open_store(rt, place);
  s = resume_session(model, store, name, NULL);
  REQUIRE(other_process(s) == found, "%d for a writer, %d for a reader", other_process(s), found);
  kvrt_session_close(s);
  kvrt_store_release(store);
  REQUIRE(found == 0 || found == getppid(), "process %d, expected none or %d", found, getppid());
  return found != 0 ? kStarter : kNobody;
}

static int stay(const char* role, const char* name) {
  kvrt_store* store = open_store(rt, place);
  resume_session(model, store, name, NULL);
  char c;
  if (strcmp(role, "leave") == 0 && fork() == 0) _exit(read(STDIN_FILENO, &c, 1) == 0 ? 0 : 1);
  REQUIRE(write(STDOUT_FILENO, "x", 1) == 1, "%s", strerror(errno));
  for (;;) pause();
}

// ---- the tests ---------------------------------------------------------------------------------------------------------------------

// Every session of the name counts until it is closed, and none is told of this process's own.
static void one_process(kvrt_store* store) {
  EXPECT(told("ann") == 0, "a name that nobody has open");
  kvrt_session* first = resume_session(model, store, "ann", NULL);
  kvrt_session* second = resume_session(model, store, "ann", NULL);
  EXPECT(other_process(first) == 0 && other_process(second) == 0, "told of itself: %d, %d", other_process(first), other_process(second));
  EXPECT(told("ann") == 1 && told("bob") == 0, "two sessions of one name");
  kvrt_session_close(first);
  EXPECT(told("ann") == 1, "one of two sessions of one name is closed");
  MUST(kvrt_session_suspend(second, "ann", 3, NULL, NULL, NULL));
  EXPECT(told("ann") == 1, "a suspended session is open");
  kvrt_session* copy = NULL;
  MUST(kvrt_session_fork(second, NULL, &copy, NULL));
  kvrt_session_close(second);
  EXPECT(told("ann") == 0, "a fork has no name");
  save(copy, "fork");
  EXPECT(told("fork") == 1, "a fork that is saved");
  save(copy, "other");
  EXPECT(told("fork") == 0 && told("other") == 1, "a save under another name");
  EXPECT_STATUS(kvrt_session_checkpoint(copy, "bob", 3, NULL, NULL, NULL), KVRT_CONFLICT);
  EXPECT(told("bob") == 0 && told("other") == 1, "a save that was refused");
  kvrt_session_close(copy);
  EXPECT(told("other") == 0, "all is closed");
}

// A session is seen under the name that autosave will give it.
static void not_saved_yet(kvrt_store* store) {
  kvrt_session_options o = {.struct_size = sizeof o, .store = store, .autosave_name = "bob", .autosave_name_size = 3, .autosave_turn = 1};
  kvrt_session* s = NULL;
  MUST(kvrt_session_open(model, &o, &s, NULL));
  EXPECT(told("bob") == 1, "the name that autosave will give");
  const pid_t pid = hold("hold", "bob");
  EXPECT(other_process(s) == pid, "%d, expected %d", other_process(s), pid);
  kill_it(pid);
  kvrt_session_close(s);
}

static void another_process(kvrt_store* store) {
  kvrt_session* before = resume_session(model, store, "ann", NULL);
  const pid_t pid = hold("hold", "ann");
  kvrt_session* s = resume_session(model, store, "ann", NULL);
  EXPECT(other_process(s) == pid && other_process(before) == pid, "%d and %d, expected %d", other_process(s), other_process(before), pid);
  kill_it(pid);
  EXPECT(other_process(s) == 0 && other_process(before) == 0, "it was killed: %d, %d", other_process(s), other_process(before));
  kvrt_session_close(before);
  kvrt_session_close(s);
}

// Another handle of the lock file that is closed in this process takes its names away: the next call about any of them tells of all again.
static void another_runtime(kvrt_store* store) {
  kvrt_session *ann = resume_session(model, store, "ann", NULL), *bob = resume_session(model, store, "bob", NULL);
  kvrt_runtime* second = open_runtime(1, 0);
  kvrt_store_release(open_store(second, place));
  save(ann, "ann");
  EXPECT(told("ann") == 1 && told("bob") == 1, "names beside one that was saved again");
  EXPECT_STATUS(kvrt_store_repair(second, place, strlen(place), NULL, NULL, NULL, NULL), KVRT_BUSY);
  EXPECT(other_process(bob) == 0 && told("ann") == 1 && told("bob") == 1, "names of which one was asked about");
  kvrt_runtime_release(second);
  kvrt_session_close(ann);
  EXPECT(told("ann") == 0 && told("bob") == 1, "one is closed");
  kvrt_session_close(bob);
}

// A child has its parent's descriptors: it keeps no name when the parent is killed, and takes none from a parent that lives.
static void children(kvrt_store* store) {
  const pid_t pid = hold("leave", "ann");
  kvrt_session* s = resume_session(model, store, "ann", NULL);
  EXPECT(other_process(s) == pid, "%d, expected %d", other_process(s), pid);
  kill_it(pid);
  EXPECT(other_process(s) == 0, "%d: a child of a killed process keeps its name", other_process(s));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    kvrt_session_props p = {.struct_size = sizeof p};
    const kvrt_status status = kvrt_session_info(s, &p, NULL);  // closes the child's copies of the descriptors
    kvrt_session_close(s);
    _exit(status == KVRT_UNSUPPORTED ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
  EXPECT(told("ann") == 1, "a child took its parent's name away");
  close(leash[1]);
  kvrt_session_close(s);
}

// A store that is open to be read tells nobody, makes no file, and does without the lock file.
static void readers(void) {
  kvrt_store* reader = open_to_read();
  kvrt_session* s = resume_session(model, reader, "ann", NULL);
  EXPECT(told("ann") == 0, "a reader has the name open");
  const pid_t pid = hold("hold", "ann");
  EXPECT(other_process(s) == pid, "a reader was told %d, expected %d", other_process(s), pid);
  kill_it(pid);
  kvrt_session_close(s);
  kvrt_store_release(reader);
  char lock[kPathMax + 16];
  snprintf(lock, sizeof lock, "%s/lock", place);
  REQUIRE(unlink(lock) == 0, "%s: %s", lock, strerror(errno));
  reader = open_to_read();
  s = resume_session(model, reader, "ann", NULL);
  EXPECT(other_process(s) == 0 && access(lock, F_OK) != 0, "%d without a lock file", other_process(s));
  kvrt_session_close(s);
  kvrt_store_release(reader);
}

int main(int argc, char** argv) {
  tiny_path(tiny, 0);
  rt = open_runtime(1, 0);
  model = open_model(rt, tiny, 0, 0, 0);
  if (argc == 4) {
    snprintf(place, sizeof place, "%s", argv[2]);
    return strcmp(argv[1], "look") == 0 ? look(argv[3]) : stay(argv[1], argv[3]);
  }
  REQUIRE(pipe2(leash, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
  make_dir(dir);
  snprintf(place, sizeof place, "%s/store", dir);
  kvrt_store* store = open_store(rt, place);
  kvrt_session_close(start_session(store, "ann"));
  kvrt_session_close(start_session(store, "bob"));
  one_process(store);
  not_saved_yet(store);
  another_process(store);
  another_runtime(store);
  children(store);
  kvrt_store_release(store);
  readers();
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
