// A process that swaps the entries of a directory for links, as fast as it can.
#pragma once

#include "../api/support.h"

static inline int pick_entry(const char* root, uint64_t* random, char name[kPathMax]) {  // at any depth
  name[0] = 0;
  for (int depth = 0; depth < 3; ++depth) {
    char path[2 * kPathMax + 64], found[256] = "";
    snprintf(path, sizeof path, "%s/%s", root, name);
    DIR* dir = opendir(path);
    if (dir == NULL) break;
    uint64_t seen = 0;
    for (struct dirent* e; (e = readdir(dir)) != NULL;) {
      if (e->d_name[0] != '.' && next_random(random) % ++seen == 0) snprintf(found, sizeof found, "%.250s", e->d_name);
    }
    closedir(dir);
    if (*found == 0) break;
    const size_t size = strlen(name);
    snprintf(name + size, kPathMax - size, "%s%.250s", size ? "/" : "", found);
    if (next_random(random) % 2 == 0) break;
  }
  return name[0] != 0;
}

// Swaps entries of `root` for links to their like in `outside`, and back from `hold`. Where the outside has a copy of everything, whoever
// follows a link finds a file.
_Noreturn static inline void race(const char* root, const char* outside, const char* hold, uint64_t random) {
  char name[kPathMax], at[2 * kPathMax + 64], target[2 * kPathMax + 64];
  for (;;) {
    if (!pick_entry(root, &random, name)) continue;
    snprintf(at, sizeof at, "%s/%s", root, name);
    snprintf(target, sizeof target, "%s/%s", outside, name);
    if (rename(at, hold) != 0) continue;
    if (symlink(target, at) == 0) {
      usleep((useconds_t)(next_random(&random) % 2000));
      unlink(at);
    }
    if (rename(hold, at) != 0) remove_tree(hold);  // the store has made another
    usleep((useconds_t)(next_random(&random) % 2000));
  }
}
