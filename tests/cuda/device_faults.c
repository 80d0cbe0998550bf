// A device without memory, and one that is lost, at every call of CUDA: a status each time, the session can be saved and goes on elsewhere
// with all its tokens, nothing leaks, and the caller's device stays. Argument: how many calls to step on (1: every one).
#include <dlfcn.h>

#include "tests/api/support.h"
#include "tests/cuda/controls.h"

enum { kPrompt = 40, kFirst = 6, kRest = 6, kOutOfMemory = 2, kLaunchFailure = 719 };

static struct {
  void (*reset)(void);
  void (*fail_call)(uint64_t, int32_t);
  void (*fail_late)(uint64_t, int32_t);
  void (*set_devices)(uint32_t);
  void (*set_current)(int32_t);
  int32_t (*current)(void);
  uint64_t (*calls)(void);
  uint64_t (*queued)(void);
  uint64_t (*live)(void);
} device;

static void find_controls(void) {
  void* library = dlopen(KVRT_CUDA_EMULATED, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != NULL, "%s", dlerror());
  *(void**)&device.reset = dlsym(library, "kvrt_emulation_reset");
  *(void**)&device.fail_call = dlsym(library, "kvrt_emulation_fail_call");
  *(void**)&device.fail_late = dlsym(library, "kvrt_emulation_fail_late");
  *(void**)&device.set_devices = dlsym(library, "kvrt_emulation_set_devices");
  *(void**)&device.set_current = dlsym(library, "kvrt_emulation_set_current");
  *(void**)&device.current = dlsym(library, "kvrt_emulation_current");
  *(void**)&device.calls = dlsym(library, "kvrt_emulation_calls");
  *(void**)&device.queued = dlsym(library, "kvrt_emulation_queued");
  *(void**)&device.live = dlsym(library, "kvrt_emulation_live");
  REQUIRE(device.reset && device.fail_call && device.fail_late && device.calls && device.queued && device.live, "%s", dlerror());
  REQUIRE(device.set_devices && device.set_current && device.current, "%s", dlerror());
}

// The ways in which a story may end.
static int allowed(kvrt_status s) { return s == KVRT_OK || s == KVRT_NO_MEMORY || s == KVRT_DEVICE; }

struct story {
  char path[kPathMax], dir[kPathMax];
  int32_t said[kPrompt + kFirst + kRest];  // the tokens that the session had when it was saved
  size_t count;
  int opened, saved;
  int64_t failures;
};

// The runtime is on device 1 of 3; this thread is the host's, which works on device 2.
static void expect_own_device(const char* after) { EXPECT(device.current() == 2, "after %s the device is %d", after, device.current()); }

static void begin_story(void) {
  device.reset();
  device.set_devices(3);
  device.set_current(2);
}

static void note(struct story* story, kvrt_status s, const char* what) {
  expect_own_device(what);
  EXPECT(allowed(s), "%s: %s (%s)", what, kvrt_status_name(s), last_message());
  story->failures += s != KVRT_OK;
}

// Greedy, in the session's own words.
static kvrt_status go_on(kvrt_session* s, uint32_t tokens) {
  const kvrt_generate_options o = {.struct_size = sizeof o, .max_tokens = tokens, .ignore_eos = 1};
  return kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL);
}

static kvrt_status open_device(kvrt_runtime** rt) {
  kvrt_runtime_options o;
  KVRT_INIT(&o);
  o.threads = 1;
  o.device = KVRT_DEVICE_CUDA;
  o.device_index = 1;
  o.cuda_library = KVRT_CUDA_EMULATED;
  o.cuda_library_size = strlen(KVRT_CUDA_EMULATED);
  return kvrt_runtime_open(&o, rt, NULL);
}

// A conversation: some tokens, suspended, resumed, some more, saved. A failed step is gone past, as an application would.
static void converse(struct story* story, kvrt_model* model, kvrt_store* store) {
  int32_t prompt[kPrompt];
  prompt_tokens(prompt, kPrompt, 5, model_props(model).vocab_size);
  const kvrt_session_options o = {.struct_size = sizeof o, .store = store};
  kvrt_session* s = NULL;
  note(story, kvrt_session_open(model, &o, &s, NULL), "open session");
  if (!s) return;
  story->opened = 1;
  MUST(kvrt_session_append(s, prompt, kPrompt, NULL));
  note(story, go_on(s, kFirst), "generate");
  kvrt_status suspended = kvrt_session_suspend(s, "s", 1, NULL, NULL, NULL);
  expect_own_device("a suspend");
  EXPECT(suspended == KVRT_OK, "a session is not saved: %s (%s)", kvrt_status_name(suspended), last_message());
  note(story, go_on(s, kRest), "generate after a suspend");
  story->count = session_tokens(s, story->said, kPrompt + kFirst + kRest);
  EXPECT(story->count >= kPrompt && memcmp(story->said, prompt, sizeof prompt) == 0, "the session lost tokens: %zu", story->count);
  suspended = kvrt_session_suspend(s, "s", 1, NULL, NULL, NULL);
  story->saved = suspended == KVRT_OK;
  EXPECT(suspended == KVRT_OK, "a session is not saved: %s (%s)", kvrt_status_name(suspended), last_message());
  kvrt_session_close(s);
  expect_own_device("close");
}

static void tell(struct story* story) {
  kvrt_runtime* rt = NULL;
  kvrt_model* model = NULL;
  story->opened = story->saved = 0;
  story->count = 0;
  story->failures = 0;
  remove_tree(story->dir);
  note(story, open_device(&rt), "open runtime");
  if (rt) note(story, kvrt_model_open(rt, story->path, strlen(story->path), NULL, NULL, NULL, &model, NULL), "open model");
  if (model) {
    kvrt_store* store = open_store(rt, story->dir);
    converse(story, model, store);
    kvrt_store_release(store);
    expect_no_leaks(model);
  }
  kvrt_model_release(model);
  expect_own_device("the model's release");
  kvrt_runtime_release(rt);
  expect_own_device("the runtime's release");
}

// On the CPU, the saved session goes on from all its tokens to the same end.
static void go_on_elsewhere(const struct story* story, kvrt_model* cpu, kvrt_runtime* rt, const int32_t* whole) {
  if (!story->saved) return;
  kvrt_store* store = open_store(rt, story->dir);
  kvrt_session* s = resume_session(cpu, store, "s", NULL);
  int32_t tokens[kPrompt + kFirst + kRest];
  size_t count = session_tokens(s, tokens, kPrompt + kFirst + kRest);
  EXPECT(count == story->count && memcmp(tokens, story->said, count * sizeof *tokens) == 0, "%zu tokens were saved, %zu came back",
         story->count, count);
  if (count < kPrompt + kFirst + kRest) MUST(go_on(s, (uint32_t)(kPrompt + kFirst + kRest - count)));
  count = session_tokens(s, tokens, kPrompt + kFirst + kRest);
  EXPECT(count == kPrompt + kFirst + kRest && memcmp(tokens, whole, count * sizeof *tokens) == 0, "it goes on differently");
  kvrt_session_close(s);
  kvrt_store_release(store);
}

static uint64_t planned_scratch(kvrt_runtime* rt, const char* path) {
  kvrt_plan p;
  KVRT_INIT(&p);
  MUST(kvrt_model_plan(rt, path, strlen(path), NULL, &p, NULL));
  return p.scratch_bytes;
}

// A plan counts the memory that the device works in, and the model has that much.
static void plan_as_taken(const char* path, kvrt_runtime* cpu) {
  kvrt_runtime* rt = NULL;
  MUST(open_device(&rt));
  const uint64_t planned = planned_scratch(rt, path);
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  EXPECT(planned == model_props(model).scratch_bytes, "scratch planned %" PRIu64 ", taken %" PRIu64, planned,
         model_props(model).scratch_bytes);
  EXPECT(planned > planned_scratch(cpu, path), "the device works in nothing: %" PRIu64, planned);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

int main(int argc, char** argv) {
  const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  static struct story story;
  find_controls();
  tiny_path(story.path, 0);
  char base[kPathMax];
  make_dir(base);
  snprintf(story.dir, sizeof story.dir, "%.480s/store", base);
  kvrt_runtime* rt = open_runtime(1, 0);
  kvrt_model* cpu = open_model(rt, story.path, 0, 0, 0);

  begin_story();
  const uint64_t live = device.live();
  tell(&story);
  EXPECT(story.failures == 0 && story.count == kPrompt + kFirst + kRest, "without a fault: %" PRId64 " failures, %zu tokens",
         story.failures, story.count);
  static int32_t whole[kPrompt + kFirst + kRest];
  memcpy(whole, story.said, sizeof whole);
  go_on_elsewhere(&story, cpu, rt, whole);
  const uint64_t calls = device.calls(), queued = device.queued();
  EXPECT(device.live() == live, "%" PRIu64 " things of the device are left", device.live() - live);

  plan_as_taken(story.path, rt);

  uint64_t told = 0, failed = 0;
  for (int kind = 0; kind < 3; ++kind) {  // no memory; a call that fails for good; work that fails late
    const uint64_t last = kind < 2 ? calls : queued;
    for (uint64_t n = 1; n <= last; n += step) {
      begin_story();
      if (kind < 2) device.fail_call(n, kind == 0 ? kOutOfMemory : kLaunchFailure);
      if (kind == 2) device.fail_late(n, kLaunchFailure);
      tell(&story);
      ++told;
      failed += story.failures > 0;
      device.reset();
      EXPECT(device.live() == live, "kind %d, call %" PRIu64 ": %" PRIu64 " things of the device are left", kind, n, device.live() - live);
      go_on_elsewhere(&story, cpu, rt, whole);
    }
  }
  printf("%" PRIu64 " calls, %" PRIu64 " queued; %" PRIu64 " stories, %" PRIu64 " with a failure\n", calls, queued, told, failed);
  EXPECT(failed > told / 2, "faults do not show");
  kvrt_model_release(cpu);
  kvrt_runtime_release(rt);
  remove_tree(base);
  return finish();
}
