/* host_loader LIBRARY local|deep: opens libkvrt as an interpreter opens a module, and a runtime of it. Exits as host.c does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <kvrt.h>
#include <stdio.h>
#include <string.h>

int host_calls = 0;

int main(int argc, char** argv) {
  kvrt_runtime* runtime = NULL;
  kvrt_error error;
  KVRT_INIT(&error);
  if (argc < 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | (strcmp(argv[2], "deep") == 0 ? RTLD_DEEPBIND : 0));
  if (!library) return 4;
  kvrt_status (*open)(const kvrt_runtime_options*, kvrt_runtime**, kvrt_error*) = NULL;
  *(void**)&open = dlsym(library, "kvrt_runtime_open");
  if (!open) return 4;
  if (!open(NULL, &runtime, &error)) {
    puts("worked");
    return 0;
  }
  puts(error.message);
  return error.status == KVRT_UNSUPPORTED ? 3 : 4;
}
