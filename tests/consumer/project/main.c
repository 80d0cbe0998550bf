/* Opens a model (argv[1]) with an installed kvrt and tokenizes a word. */
#include <kvrt.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  kvrt_runtime* runtime = NULL;
  kvrt_model* model = NULL;
  int32_t tokens[32];
  size_t count = 0;
  if (argc < 2 || kvrt_abi_version() != KVRT_ABI_VERSION) return 1;
  if (kvrt_runtime_open(NULL, &runtime, NULL) != KVRT_OK) return 2;
  if (kvrt_model_open(runtime, argv[1], strlen(argv[1]), NULL, NULL, NULL, &model, NULL) != KVRT_OK) return 3;
  if (kvrt_model_tokenize(model, "lighthouse", 10, 0, tokens, 32, &count, NULL) != KVRT_OK || count == 0) return 4;
  printf("%zu tokens\n", count);
  kvrt_model_release(model);
  kvrt_runtime_release(runtime);
  return 0;
}
