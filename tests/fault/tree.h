// Directories as a whole: their content, and whether anything of it changed.
#pragma once

#include "../api/support.h"

static uint64_t tree_sum;
static inline int add_entry(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)type, (void)f;
  uint64_t h = hash_bytes(7, path, strlen(path));
  const uint64_t of[] = {s->st_mode, s->st_uid, S_ISREG(s->st_mode) ? (uint64_t)s->st_size : 0, (uint64_t)s->st_mtim.tv_sec,
                         (uint64_t)s->st_mtim.tv_nsec};
  h = hash_bytes(h, of, sizeof of);
  FILE* file = S_ISREG(s->st_mode) ? fopen(path, "rb") : NULL;
  for (int c; file && (c = fgetc(file)) != EOF;) h = (h ^ (uint64_t)c) * 0x100000001B3u;
  if (file) fclose(file);
  tree_sum += h;
  return 0;
}

// Names, modes, owners, times and contents of everything in it; 0: it is not there.
static inline uint64_t hash_tree(const char* dir) {
  tree_sum = 0;
  nftw(dir, add_entry, 16, FTW_PHYS);
  return tree_sum;
}

static inline int check_mode(const char* path, const struct stat* s, int type, struct FTW* f) {
  (void)type, (void)f;
  const mode_t want = S_ISDIR(s->st_mode) ? 0700 : 0600;
  EXPECT((s->st_mode & 07777) == want, "%s has mode %o, expected %o", path, s->st_mode & 07777, want);
  return 0;
}

// Directories 0700, files 0600.
static inline void expect_private(const char* dir) { nftw(dir, check_mode, 16, FTW_PHYS); }

static inline void shell(const char* format, const char* a, const char* b) {
  char command[4 * kPathMax];
  snprintf(command, sizeof command, format, a, b);
  REQUIRE(system(command) == 0, "%s", command);
}
