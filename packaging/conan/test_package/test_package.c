/* The package's header and library are of one ABI, and a runtime opens. */
#include <kvrt.h>
#include <stdio.h>

int main(void) {
  kvrt_runtime* runtime = NULL;
  kvrt_error error = {.struct_size = sizeof error};
  if (kvrt_abi_version() != KVRT_ABI_VERSION) return 1;
  if (kvrt_runtime_open(NULL, &runtime, &error) != KVRT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  printf("ABI %u\n", (unsigned)kvrt_abi_version());
  kvrt_runtime_release(runtime);
  return 0;
}
