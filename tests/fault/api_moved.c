// A store whose directory is moved, deleted or replaced while it is open: saves say so, sessions go on, and the path's new content is not
// touched. And a process that runs out of descriptors.
#include <sys/resource.h>

#include "tree.h"

static char base[kPathMax], dir[kPathMax + 32], away[kPathMax + 32], twin[kPathMax + 32];
static uint64_t want;  // the digest after the tokens of session "a"

static kvrt_session* hundred_tokens(kvrt_model* model, kvrt_store* store) {
  int32_t tokens[100];
  prompt_tokens(tokens, 100, 5, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, tokens, 100, NULL));
  return s;
}

// Each call that writes is refused, and so is verify.
static void expect_refused(kvrt_store* store, kvrt_session* s, const char* what) {
  const kvrt_status got[] = {kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL), kvrt_store_gc(store, NULL, NULL, NULL, NULL),
                             kvrt_store_remove(store, NULL, 0, "a", 1, NULL), kvrt_store_rename(store, NULL, 0, "a", 1, "c", 1, NULL),
                             kvrt_store_verify(store, NULL, NULL, NULL)};
  for (size_t i = 0; i < sizeof got / sizeof *got; ++i) EXPECT(got[i] == KVRT_IO, "%s: call %zu: %s", what, i, kvrt_status_name(got[i]));
  EXPECT(strstr(last_message(), "moved") != NULL, "%s: %s", what, last_message());
  struct run r = {0};
  generate_into(s, 2, &r);
}

// The path opened again gives what is there now; the old handle stays refused, and its closing changes nothing there.
static void reopened(kvrt_runtime* rt, kvrt_model* model, const char* what, const char* command, int names) {
  shell("cp -a '%s' '%s'", twin, dir);
  for (uint32_t read_only = 0; read_only < 2; ++read_only) {
    kvrt_store_options o = {.struct_size = sizeof o, .read_only = read_only};
    kvrt_store *old = NULL, *now = NULL, *again = NULL;
    MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &old, NULL));
    kvrt_session* s = read_only ? resume_session(model, old, "a", NULL) : hundred_tokens(model, old);
    if (!read_only) MUST(kvrt_session_checkpoint(s, "kept", 4, NULL, NULL, NULL));
    shell(command, dir, away);
    MUST(kvrt_store_open(rt, dir, strlen(dir), NULL, &now, NULL));
    kvrt_store_props p = {.struct_size = sizeof p};
    MUST(kvrt_store_info(now, &p, NULL));
    EXPECT(p.sessions == (uint64_t)names, "%s: %d sessions, expected %d", what, (int)p.sessions, names);
    kvrt_session* fresh = hundred_tokens(model, now);
    MUST(kvrt_session_checkpoint(fresh, "new", 3, NULL, NULL, NULL));
    kvrt_session_close(fresh);
    if (read_only) {
      EXPECT_STATUS(kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL), KVRT_IO);
    } else {
      expect_refused(old, s, what);
    }
    kvrt_session_close(s);
    kvrt_store_release(old);  // beside the new one, whose log and index are in use
    MUST(kvrt_store_open(rt, dir, strlen(dir), NULL, &again, NULL));
    fresh = resume_session(model, again, "new", NULL);
    EXPECT(next_digest(fresh, NULL) == want, "%s: another digest", what);
    kvrt_session_close(fresh);
    EXPECT_STATUS(kvrt_store_verify(again, NULL, NULL, NULL), KVRT_OK);
    MUST(kvrt_store_info(now, &p, NULL));
    EXPECT(p.sessions == (uint64_t)names + 1, "%s: the path has two open stores", what);
    kvrt_store_release(again);
    kvrt_store_release(now);
    remove_tree(away);
    remove_tree(dir);
    shell("cp -a '%s' '%s'", twin, dir);
  }
  remove_tree(dir);
}

// The catalog alone is replaced, beside the log of the one that is open: nobody may open both.
static void replaced_beside_its_log(kvrt_runtime* rt, kvrt_model* model) {
  shell("cp -a '%s' '%s'", twin, dir);
  kvrt_store *store = open_store(rt, dir), *again = NULL;
  kvrt_session* s = hundred_tokens(model, store);
  MUST(kvrt_session_checkpoint(s, "kept", 4, NULL, NULL, NULL));
  shell("cp -a '%s/catalog.db' '%s/new'", twin, dir);
  char from[kPathMax + 64], to[kPathMax + 64];
  snprintf(from, sizeof from, "%s/new", dir);
  snprintf(to, sizeof to, "%s/catalog.db", dir);
  REQUIRE(rename(from, to) == 0, "%s", from);
  const uint64_t before = hash_tree(dir);
  EXPECT_STATUS(kvrt_store_open(rt, dir, strlen(dir), NULL, &again, NULL), KVRT_IO);
  EXPECT(strstr(last_message(), "replaced") != NULL, "%s", last_message());
  EXPECT_STATUS(kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL), KVRT_IO);
  kvrt_session_close(s);
  kvrt_store_release(store);
  EXPECT(hash_tree(dir) == before, "a catalog beside another's log: something changed");
  remove_tree(dir);
}

static void moved(kvrt_runtime* rt, kvrt_model* model, const char* what, const char* command, int returns) {
  shell("cp -a '%s' '%s'", twin, dir);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = hundred_tokens(model, store);
  struct run r = {0};
  generate_into(s, 2, &r);
  MUST(kvrt_session_checkpoint(s, "kept", 4, NULL, NULL, NULL));
  shell(command, dir, away);
  const uint64_t before = hash_tree(dir);
  expect_refused(store, s, what);
  EXPECT(hash_tree(dir) == before, "%s: something changed in what is there now", what);
  if (returns) {  // as if nothing had been
    remove_tree(dir);
    REQUIRE(rename(away, dir) == 0, "%s", away);
    EXPECT_STATUS(kvrt_session_checkpoint(s, "b", 1, NULL, NULL, NULL), KVRT_OK);
    EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
  }
  kvrt_session_close(s);
  kvrt_store_release(store);
  if (!returns) EXPECT(hash_tree(dir) == before, "%s: closing changed what is there now", what);
  remove_tree(dir);
  remove_tree(away);
}

// ---- descriptors -------------------------------------------------------------------------------------------------------------------------

static int count_descriptors(void) {
  int count = 0;
  DIR* fds = opendir("/proc/self/fd");
  REQUIRE(fds != NULL, "/proc/self/fd");
  while (readdir(fds) != NULL) ++count;
  closedir(fds);
  return count;
}

static int good(kvrt_status status) { return status == KVRT_OK; }

// Opens, resumes, saves and collects with so many descriptors more than there are. True if all of it went well.
static int with_descriptors(kvrt_runtime* rt, kvrt_model* model, rlim_t limit) {
  struct rlimit old, now;
  getrlimit(RLIMIT_NOFILE, &old);
  now = old;
  now.rlim_cur = limit;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &now) == 0, "setrlimit: %s", strerror(errno));
  kvrt_store* store = NULL;
  kvrt_session* s = NULL;
  int whole = good(kvrt_store_open(rt, dir, strlen(dir), NULL, &store, NULL));
  if (!whole) EXPECT(strstr(last_message(), "Too many open files") != NULL, "with %d descriptors: %s", (int)limit, last_message());
  if (whole) {
    whole = good(kvrt_session_resume(model, store, "a", 1, NULL, NULL, NULL, NULL, &s, NULL));
    if (s != NULL) {
      EXPECT(next_digest(s, NULL) == want, "with %d descriptors it goes on differently", (int)limit);
      const int32_t token = 3;
      MUST(kvrt_session_append(s, &token, 1, NULL));
      const kvrt_save_options kv = {.struct_size = sizeof kv, .durability = KVRT_DURABILITY_KV, .overwrite = 1};
      whole &= good(kvrt_session_checkpoint(s, "b", 1, &kv, NULL, NULL));
      kvrt_session_close(s);
    }
    whole &= good(kvrt_store_gc(store, NULL, NULL, NULL, NULL));
    whole &= good(kvrt_store_verify(store, NULL, NULL, NULL));
    kvrt_store_release(store);
  }
  setrlimit(RLIMIT_NOFILE, &old);
  return whole;
}

static void descriptors(kvrt_runtime* rt, const char* tiny) {
  shell("cp -a '%s' '%s'", twin, dir);
  int whole = 0, first = 0;
  const int before = count_descriptors();
  for (int limit = 3; limit <= 64 && whole < 3; ++limit) {
    kvrt_model* model = open_model(rt, tiny, 0, 0, 0);  // a pool in which nothing is resident
    const int ok = with_descriptors(rt, model, (rlim_t)limit);
    if (ok && !first) first = limit;
    whole += ok;
    kvrt_store* store = open_store(rt, dir);
    kvrt_session* s = resume_session(model, store, "a", NULL);
    EXPECT(next_digest(s, NULL) == want, "after %d descriptors it goes on differently", limit);
    kvrt_session_close(s);
    EXPECT_STATUS(kvrt_store_verify(store, NULL, NULL, NULL), KVRT_OK);
    kvrt_store_release(store);
    kvrt_model_release(model);
    EXPECT(count_descriptors() == before, "%d descriptors, there were %d", count_descriptors(), before);
  }
  printf("descriptors: enough from %d on\n", first);
  EXPECT(whole == 3 && first > before, "from %d on", first);
  remove_tree(dir);
}

int main(void) {
  char tiny[kPathMax];
  make_dir(base);
  tiny_path(tiny, 0);
  snprintf(dir, sizeof dir, "%s/store", base);
  snprintf(away, sizeof away, "%s/away", base);
  snprintf(twin, sizeof twin, "%s/twin", base);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* model = open_model(rt, tiny, 0, 0, 0);
  kvrt_store* store = open_store(rt, twin);
  kvrt_session* s = hundred_tokens(model, store);
  want = next_digest(s, NULL);
  MUST(kvrt_session_checkpoint(s, "a", 1, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  moved(rt, model, "moved", "mv '%s' '%s'", 0);
  moved(rt, model, "moved and back", "mv '%s' '%s'", 1);
  moved(rt, model, "deleted", "rm -rf '%s' '%s'", 0);
  char command[4 * kPathMax];
  snprintf(command, sizeof command, "mv '%%s' '%%s' && cp -a '%s' '%s'", twin, dir);
  moved(rt, model, "replaced by another store", command, 0);
  moved(rt, model, "replaced for a while", command, 1);
  snprintf(command, sizeof command, "cp -a '%%s' '%%s' && rm '%s'/catalog.db* && cp -a '%s'/catalog.db '%s'", dir, twin, dir);
  moved(rt, model, "a catalog that was put back from a copy", command, 0);
  replaced_beside_its_log(rt, model);
  reopened(rt, model, "deleted", "rm -rf '%s' '%s'", 0);
  snprintf(command, sizeof command, "mv '%%s' '%%s' && cp -a '%s' '%s'", twin, dir);
  reopened(rt, model, "replaced by another store", command, 1);
  snprintf(command, sizeof command, "cp -a '%%s' '%%s' && rm '%s'/catalog.db* && cp -a '%s'/catalog.db '%s'", dir, twin, dir);
  reopened(rt, model, "a catalog that was put back from a copy", command, 1);
  descriptors(rt, tiny);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(base);
  return finish();
}
