// The real model on the device, a few tokens: greedy, the CPU's own, or the two that are nearest to each other where they part.
#include <math.h>

#include "tests/api/support.h"

enum { kTokens = 8, kTop = 2 };
static const char kPrompt[] = "The lighthouse keeper climbed the stairs, and at the top";

struct answer {
  size_t count;
  int32_t token[kTokens];
  float gap[kTokens];  // between the logprobs of the first and the second
};

static int32_t take(void* user, const kvrt_event* e) {
  struct answer* a = user;
  if (e->type != KVRT_EVENT_TOKEN || a->count == kTokens) return 0;
  a->token[a->count] = e->token;
  a->gap[a->count++] = e->top_count == kTop ? e->top[0].value - e->top[1].value : 0;
  return 0;
}

static void answer_of(kvrt_runtime* rt, const char* path, struct answer* a) {
  kvrt_model* model = open_model(rt, path, 0, 0, 512);
  kvrt_session* s = open_session(model, NULL, 0);
  MUST(kvrt_session_append_text(s, kPrompt, strlen(kPrompt), 0, NULL));
  kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = kTokens, .top_logprobs = kTop, .ignore_eos = 1};
  MUST(kvrt_session_generate(s, &o, take, a, NULL, NULL));
  kvrt_session_close(s);
  kvrt_model_release(model);
}

int main(void) {
  char path[kPathMax];
  if (!find_real(path)) return kSkip;
  static struct answer cpu, device;
  const char* library = getenv("KVRT_TEST_CUDA_LIBRARY");
  REQUIRE(library != NULL, "KVRT_TEST_CUDA_LIBRARY names no library");
  kvrt_runtime* rt = open_runtime(1, 0);
  answer_of(rt, path, &device);
  kvrt_runtime_release(rt);
  unsetenv("KVRT_TEST_CUDA_LIBRARY");
  rt = open_runtime(2, 0);
  answer_of(rt, path, &cpu);
  kvrt_runtime_release(rt);
  EXPECT(cpu.count == kTokens && device.count == kTokens, "%zu and %zu tokens", cpu.count, device.count);
  for (size_t i = 0; i < kTokens; ++i) {
    printf("%zu: %d (%.3f ahead) on the CPU, %d (%.3f) on the device\n", i, cpu.token[i], (double)cpu.gap[i], device.token[i],
           (double)device.gap[i]);
    if (cpu.token[i] == device.token[i]) continue;
    EXPECT(fabsf(cpu.gap[i]) < 0.1f, "token %zu: %d and %d, %.3f apart", i, cpu.token[i], device.token[i], (double)cpu.gap[i]);
    break;  // from here on they say different things
  }
  return finish();
}
