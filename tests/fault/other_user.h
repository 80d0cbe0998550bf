// This program again, in a process of its own: a forked child may not use kvrt. As another user where asked, who may reach nothing of the checkout.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>

#include "../api/support.h"

static char carried[kPathMax + 16], carried_model[kPathMax + 32];  // the folder that has the program, libkvrt and the model

static inline void carry_file(const char* from, const char* name) {
  char command[4 * kPathMax];
  snprintf(command, sizeof command, "cp '%s' '%s/%s' && chmod 755 '%s/%s'", from, carried, name, carried, name);
  REQUIRE(system(command) == 0, "%s", command);
}

// Copies what another user needs into a folder in `dir`, which becomes open to all.
static inline void carry(const char* dir, const char* model) {
  snprintf(carried, sizeof carried, "%s/carried", dir);
  REQUIRE(chmod(dir, 0755) == 0 && mkdir(carried, 0755) == 0 && chmod(carried, 0755) == 0, "%s: %s", carried, strerror(errno));
  Dl_info library;
  REQUIRE(dladdr((void*)(uintptr_t)kvrt_runtime_open, &library) != 0, "no library of kvrt_runtime_open");
  char program[kPathMax];
  const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  REQUIRE(size > 0, "/proc/self/exe: %s", strerror(errno));
  program[size] = 0;
  carry_file(program, "program");
  carry_file(library.dli_fname, strrchr(library.dli_fname, '/') + 1);
  carry_file(model, "model.gguf");
  snprintf(carried_model, sizeof carried_model, "%s/model.gguf", carried);
}

// Returns its exit status; kSkip: this user cannot become that one.
static inline int again(const char* mode, const char* dir, unsigned uid) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    char program[kPathMax + 32];
    snprintf(program, sizeof program, "%s/program", carried);
    if (uid != 0 && (setgid(uid) != 0 || setuid(uid) != 0)) _exit(kSkip);
    setenv("LD_LIBRARY_PATH", carried, 1);
    execl(program, program, mode, dir, carried_model, (char*)NULL);
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
