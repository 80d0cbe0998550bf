// Links, FIFOs, sockets, other people's files and wrong modes in a store's directory: refused or counted as missing, nothing outside is
// touched, nothing hangs. And a racer that swaps entries for links while the store is used: api_hostile [seconds] [seed].
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "other_user.h"
#include "racer.h"
#include "tree.h"

enum { kOther = 65534, kPlacesMax = 32, kUnsafe = 3 };
enum { kMade = 1 << 0, kDir = 1 << 1 };  // of a place: it is there in a store that was closed; it is a directory

static char base[kPathMax], made[kPathMax + 32], store_dir[kPathMax + 32], outside[kPathMax + 32];
static char tiny[kPathMax];
static uint64_t made_digest;  // after the tokens of session "a"

// ---- the store -------------------------------------------------------------------------------------------------------------------

static void generate_and_save(kvrt_model* model, kvrt_store* store, const char* name, uint64_t seed) {
  kvrt_session* s = open_session(model, store, 0);
  int32_t tokens[100];
  prompt_tokens(tokens, 100, seed, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 100, NULL));
  next_digest(s, NULL);
  MUST(kvrt_session_suspend(s, name, strlen(name), NULL, NULL, NULL));
  kvrt_session_close(s);
}

// Nothing of session "a" stays in the pool: a resume then finds its KV on the disk alone.
static void fill_pool(kvrt_model* model) {
  kvrt_session* s = open_session(model, NULL, 0);
  int32_t tokens[120];
  prompt_tokens(tokens, 120, 6, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 120, NULL));
  next_digest(s, NULL);
  kvrt_session_close(s);
}

// Opens the store and does a bit of everything. Returns the status of the open; EXPECTs the rest. `hole`: the KV cannot be had.
static kvrt_status use(kvrt_model* model, kvrt_runtime* rt, uint32_t read_only, int hole, const char* what) {
  kvrt_store_options o = {.struct_size = sizeof o, .read_only = read_only};
  kvrt_store* store = NULL;
  const kvrt_status status = kvrt_store_open(rt, store_dir, strlen(store_dir), &o, &store, NULL);
  if (status != KVRT_OK) return status;
  fill_pool(model);
  kvrt_report report = {.struct_size = sizeof report};
  kvrt_session* s = NULL;
  EXPECT_STATUS(kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, &report, &s, NULL), KVRT_OK);
  if (s != NULL) {
    EXPECT(report.reused_disk == (hole ? 0 : 100), "%s: %" PRIu64 " tokens from disk", what, report.reused_disk);
    EXPECT(next_digest(s, NULL) == made_digest, "%s: goes on differently", what);
    const int32_t token = 3;
    MUST(kvrt_session_append(s, &token, 1, NULL));
    const kvrt_status saved = kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL);
    // One folder of segs/ in 256 is the one that the save's new file belongs into.
    const int refused = saved == KVRT_INVALID && hole && last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY;
    EXPECT(read_only ? saved != KVRT_OK : saved == KVRT_OK || refused, "%s: save: %s: %s", what, kvrt_status_name(saved), last_message());
    kvrt_session_close(s);
  }
  kvrt_gc_report gc = {.struct_size = sizeof gc};
  (void)kvrt_store_gc(store, NULL, NULL, &gc, NULL);
  (void)kvrt_store_verify(store, NULL, NULL, NULL);
  if (!read_only) EXPECT_STATUS(kvrt_store_remove(store, NULL, 0, "a", 1, NULL), KVRT_OK);
  kvrt_store_release(store);
  return KVRT_OK;
}

// ---- planting ---------------------------------------------------------------------------------------------------------------------

struct place {
  char name[128];
  unsigned is;
};
static struct place places[kPlacesMax];
static size_t places_count;

static int add_place(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)type, (void)f;
  if (strcmp(path, made) == 0) return 0;
  REQUIRE(places_count < kPlacesMax, "more than %d entries", kPlacesMax);
  struct place* p = &places[places_count++];
  snprintf(p->name, sizeof p->name, "%s", path + strlen(made) + 1);
  p->is = kMade | (S_ISDIR(s->st_mode) ? (unsigned)kDir : 0);
  return 0;
}

enum kind { LINK, DANGLING, HARD_LINK, FIFO, SOCKET, OTHER_TYPE, OTHER_OWNER, OTHERS_WRITE, KINDS };
static const char* const kind_names[KINDS] = {"a link",   "a dangling link", "a hard link",    "a FIFO",
                                              "a socket", "the other type",  "another user's", "writable by others"};

// False: this kind makes no sense there.
static int plant(const struct place* place, enum kind kind) {
  char at[2 * kPathMax], target[2 * kPathMax];
  snprintf(at, sizeof at, "%s/%s", store_dir, place->name);
  snprintf(target, sizeof target, "%s/%s", outside, place->name);
  const int dir = (place->is & kDir) != 0, keep = kind == OTHER_OWNER || kind == OTHERS_WRITE;
  if ((keep && !(place->is & kMade)) || (kind == HARD_LINK && dir) || (kind == OTHER_OWNER && geteuid() != 0)) return 0;
  if (!keep) remove_tree(at);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = -1, bad = 0;
  switch (kind) {
    case LINK:
      bad = symlink(target, at);
      break;
    case DANGLING:
      snprintf(target, sizeof target, "%s/none", outside);
      bad = symlink(target, at);
      break;
    case HARD_LINK:
      bad = link(target, at);
      break;
    case FIFO:
      bad = mkfifo(at, 0600);
      break;
    case SOCKET:
      if (chdir(base) != 0 || strlen(place->name) + sizeof "store/" > sizeof address.sun_path) return 0;
      snprintf(address.sun_path, sizeof address.sun_path, "store/%.90s", place->name);
      fd = socket(AF_UNIX, SOCK_STREAM, 0);
      bad = bind(fd, (const struct sockaddr*)&address, sizeof address) || chmod(at, 0600);
      break;
    case OTHER_TYPE:
      bad = dir ? (fd = open(at, O_CREAT | O_WRONLY, 0600)) < 0 : mkdir(at, 0700);
      break;
    case OTHER_OWNER:
      bad = chown(at, kOther, kOther);
      break;
    default:
      bad = chmod(at, dir ? 0777 : 0666);
      break;
  }
  if (fd >= 0) close(fd);
  REQUIRE(!bad, "%s: %s: %s", at, kind_names[kind], strerror(errno));
  return 1;
}

// KV that cannot be had is computed again, and a save does without its reserve; nothing else is dispensable.
static int dispensable(const struct place* place, uint32_t read_only) {
  const char* n = place->name;
  if (strncmp(n, "segs/", 5) == 0 || strncmp(n, "reserve", 7) == 0) return 1;
  return read_only && strstr(n, "lock") != NULL;
}

static void every_place(kvrt_runtime* rt, kvrt_model* model) {
  REQUIRE(nftw(made, add_place, 16, FTW_PHYS) == 0, "%s", made);
  for (size_t i = 0; i < 3; ++i) {
    static const char* const suffixes[] = {"-wal", "-shm", "-journal"};
    snprintf(places[places_count].name, sizeof places[0].name, "catalog.db%s", suffixes[i]);
    char path[2 * kPathMax];
    snprintf(path, sizeof path, "%s/%s", outside, places[places_count++].name);
    FILE* f = fopen(path, "wb");
    REQUIRE(f != NULL, "%s", path);
    for (int n = 0; n < 100; ++n) fputc(n, f);
    fclose(f);
  }
  const uint64_t before = hash_tree(outside);
  size_t tried = 0, refused = 0;
  for (size_t p = 0; p < places_count; ++p) {
    for (enum kind kind = 0; kind < KINDS; ++kind) {
      for (uint32_t read_only = 0; read_only <= 1; ++read_only) {
        shell("cp -a '%s' '%s'", made, store_dir);
        if (plant(&places[p], kind)) {
          char what[256];
          snprintf(what, sizeof what, "%s%s in place of %.127s", read_only ? "read-only, " : "", kind_names[kind], places[p].name);
          const int hole = strncmp(places[p].name, "segs/", 5) == 0;
          const kvrt_status status = use(model, rt, read_only, hole, what);
          ++tried, refused += status != KVRT_OK;
          if (!dispensable(&places[p], read_only) || status != KVRT_OK) {
            EXPECT(status == KVRT_INVALID && last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY, "%s: %s, detail %d: %s", what,
                   kvrt_status_name(status), (int)last_detail(), status ? last_message() : "");
            EXPECT(status == KVRT_OK || strstr(last_message(), places[p].name) != NULL, "%s: %s", what, last_message());
          }
          EXPECT(hash_tree(outside) == before, "%s: something outside changed", what);
        }
        remove_tree(store_dir);
      }
    }
  }
  printf("%zu places, %zu hostile stores, %zu refused\n", places_count, tried, refused);
  EXPECT(places_count >= 10 && tried > 100 && refused > 50, "%zu places", places_count);
}

// The same in a directory that shall become a store.
static void new_store(kvrt_runtime* rt) {
  static const char* const names[] = {"FORMAT", "catalog.db", "catalog.db-wal", "tmp", "segs", "lock"};
  const uint64_t before = hash_tree(outside);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    struct place place = {.is = strcmp(names[i], "tmp") == 0 || strcmp(names[i], "segs") == 0 ? kDir : 0};
    snprintf(place.name, sizeof place.name, "%s", names[i]);
    for (enum kind kind = LINK; kind <= OTHER_TYPE; ++kind) {
      REQUIRE(mkdir(store_dir, 0700) == 0, "%s", store_dir);
      if (plant(&place, kind)) {
        kvrt_store* store = NULL;
        const kvrt_status status = kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL);
        EXPECT(status == KVRT_INVALID && last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY, "new store with %s as %s: %s, detail %d", names[i],
               kind_names[kind], kvrt_status_name(status), (int)last_detail());
        if (status == KVRT_OK) kvrt_store_release(store);
        EXPECT(hash_tree(outside) == before, "new store with %s as %s: something outside changed", names[i], kind_names[kind]);
      }
      remove_tree(store_dir);
    }
  }
  // The owner reaches the directory by a link to it; the directory behind the link has to be safe.
  shell("cp -a '%s' '%s/real'", made, base);
  char real[kPathMax + 32];
  snprintf(real, sizeof real, "%s/real", base);
  REQUIRE(symlink(real, store_dir) == 0, "%s", store_dir);
  kvrt_store* store = NULL;
  EXPECT_STATUS(kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL), KVRT_OK);
  kvrt_store_release(store);
  chmod(real, 0777);
  EXPECT_STATUS(kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL), KVRT_INVALID);
  EXPECT(last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY, "detail %d", (int)last_detail());
  remove_tree(real);
  unlink(store_dir);
}

// ---- other users and umasks -----------------------------------------------------------------------------------------------------

static void umasks(kvrt_runtime* rt, kvrt_model* model, const char* dir) {
  static const mode_t masks[] = {0000, 0777};
  for (int i = 0; i < 2; ++i) {
    const mode_t old = umask(masks[i]);
    kvrt_store* store = open_store(rt, dir);
    generate_and_save(model, store, "a", 5);
    expect_private(dir);  // with the log
    kvrt_store_release(store);
    umask(old);
    expect_private(dir);
    remove_tree(dir);
  }
}

static int as_other(const char* mode) {
  kvrt_runtime* rt = open_runtime(1, 0);
  if (strcmp(mode, "umask") == 0) {
    kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
    char dir[kPathMax + 64];
    snprintf(dir, sizeof dir, "%s/theirs/umask", base);
    umasks(rt, model, dir);
    kvrt_model_release(model);
    kvrt_runtime_release(rt);
    return finish();
  }
  kvrt_store* store = NULL;
  const kvrt_status status = kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL);
  const int unsafe = status != KVRT_OK && last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY;
  kvrt_store_release(store);
  kvrt_runtime_release(rt);
  return status == KVRT_OK ? 0 : unsafe ? kUnsafe : 1;
}

static void other_users(kvrt_runtime* rt) {
  if (geteuid() != 0) return;
  carry(base, tiny);
  char theirs[kPathMax + 64];
  snprintf(theirs, sizeof theirs, "%s/theirs", base);
  REQUIRE(mkdir(theirs, 0700) == 0 && chown(theirs, kOther, kOther) == 0, "%s", theirs);
  if (again("umask", base, kOther) == kSkip) return;  // no setuid here
  EXPECT(again("umask", base, kOther) == 0, "modes of another user's store");
  shell("cp -a '%s' '%s'", made, store_dir);
  EXPECT(again("open", base, kOther) != 0, "another user opens a store of root's");
  chmod(store_dir, 0755);
  EXPECT(again("open", base, kOther) == kUnsafe, "another user opens a readable store of root's");
  shell("chmod 700 '%s' && chown -R 65534:65534 '%s'", store_dir, store_dir);
  kvrt_store* store = NULL;
  EXPECT_STATUS(kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL), KVRT_INVALID);
  EXPECT(last_detail() == KVRT_DETAIL_UNSAFE_DIRECTORY, "detail %d", (int)last_detail());
  EXPECT(again("open", base, kOther) == 0, "another user opens a store of its own");
  for (size_t i = 0; i < places_count; ++i) {  // one entry of it is root's
    if (!(places[i].is & kMade) || dispensable(&places[i], 0)) continue;
    char at[2 * kPathMax];
    snprintf(at, sizeof at, "%s/%.127s", store_dir, places[i].name);
    if (access(at, F_OK) != 0) continue;
    REQUIRE(chown(at, 0, 0) == 0, "%s", at);
    EXPECT(again("open", base, kOther) == kUnsafe, "another user opens a store whose %s is root's", places[i].name);
    REQUIRE(chown(at, kOther, kOther) == 0, "%s", at);
  }
  remove_tree(store_dir);
}

// ---- the racer ---------------------------------------------------------------------------------------------------------------------

struct raced {
  uint64_t opened, refused, resumed, saved, failed;
};

// One opening of a store that changes under our hands: any call may fail, none may go wrong.
static void use_raced(kvrt_runtime* rt, kvrt_model* model, uint64_t* random, struct raced* n) {
  kvrt_store* store = NULL;
  if (kvrt_store_open(rt, store_dir, strlen(store_dir), NULL, &store, NULL) != KVRT_OK) {
    ++n->refused;
    return;
  }
  ++n->opened;
  for (int i = 0; i < 6; ++i) {
    kvrt_session* s = NULL;
    if (kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL) == KVRT_OK) {
      ++n->resumed;
      EXPECT(next_digest(s, NULL) == made_digest, "a resumed session goes on differently");
      const int32_t token = (int32_t)(next_random(random) % 100);
      MUST(kvrt_session_append(s, &token, 1, NULL));
      next_digest(s, NULL);
      const kvrt_save_options kv = {.struct_size = sizeof kv, .durability = KVRT_DURABILITY_KV, .overwrite = 1};
      const int ok = kvrt_session_checkpoint(s, "b", 1, i % 2 ? &kv : NULL, NULL, NULL) == KVRT_OK;
      ++*(ok ? &n->saved : &n->failed);
      kvrt_session_close(s);
    }
    if (i % 3 == 2) (void)kvrt_store_gc(store, NULL, NULL, NULL, NULL);
    if (i % 3 == 1) (void)kvrt_store_remove(store, NULL, 0, "b", 1, NULL);
  }
  kvrt_store_release(store);
}

static void raced(kvrt_runtime* rt, kvrt_model* model, double seconds, uint64_t seed) {
  remove_tree(outside);
  shell("cp -a '%s' '%s'", made, outside);
  const uint64_t before = hash_tree(outside);
  uint64_t random = seed;
  struct raced n = {0};
  char hold[kPathMax + 32];
  snprintf(hold, sizeof hold, "%s/hold", base);
  for (const double end = now_ms() + seconds * 1e3; now_ms() < end;) {
    shell("cp -a '%s' '%s'", made, store_dir);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) race(store_dir, outside, hold, random);
    for (int i = 0; i < 4; ++i) use_raced(rt, model, &random, &n);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    EXPECT(hash_tree(outside) == before, "seed %" PRIu64 ": something outside changed", seed);
    remove_tree(store_dir);
    remove_tree(hold);
  }
  printf("raced for %.0f s, seed %" PRIu64 ": %" PRIu64 " opened, %" PRIu64 " refused, %" PRIu64 " resumed, %" PRIu64 " saved, %" PRIu64
         " saves failed\n",
         seconds, seed, n.opened, n.refused, n.resumed, n.saved, n.failed);
  EXPECT(n.opened > 0 && n.refused + n.failed > 0 && n.saved > 0, "the race came to nothing");
}

static void too_long(int signal_number) {
  (void)signal_number;
  static const char text[] = "FAILED: hangs\n";
  (void)!write(1, text, sizeof text - 1);
  _exit(1);
}

int main(int argc, char** argv) {
  const int other = argc == 4;
  const double seconds = !other && argc > 1 ? atof(argv[1]) : 1;
  const uint64_t seed = !other && argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
  if (other) {
    snprintf(base, sizeof base, "%s", argv[2]);
    snprintf(tiny, sizeof tiny, "%s", argv[3]);
  } else {
    make_dir(base);
    tiny_path(tiny, 0);
  }
  snprintf(made, sizeof made, "%s/made", base);
  snprintf(store_dir, sizeof store_dir, "%s/store", base);
  snprintf(outside, sizeof outside, "%s/outside", base);
  if (other) return as_other(argv[1]);
  signal(SIGALRM, too_long);
  alarm(120 + (unsigned)seconds);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 128);  // so few blocks that nothing stays resident for long
  int32_t tokens[100];
  prompt_tokens(tokens, 100, 5, model_props(model).vocab_size);
  made_digest = digest_of(model, tokens, 100);
  kvrt_store* store = open_store(rt, made);
  generate_and_save(model, store, "a", 5);
  kvrt_store_release(store);
  shell("cp -a '%s' '%s'", made, outside);
  every_place(rt, model);
  new_store(rt);
  other_users(rt);
  umasks(rt, model, store_dir);
  raced(rt, model, seconds, seed);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(base);
  return finish();
}
