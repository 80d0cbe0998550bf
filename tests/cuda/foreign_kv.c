// A session that moves between the CPU, a device, and the device where prompts are FP8: its tokens go on there, its KV is computed again,
// or taken as it is where that is asked for. A session that took it is marked, and no exact session ever sees a block of it.
#include <dlfcn.h>

#include "tests/api/support.h"

enum { kPrompt = 150, kRun = 8, kBlock = 16 };

static void use_cublaslt(int32_t use) {
  void* library = dlopen(KVRT_CUDA_EMULATED, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != NULL, "%s", dlerror());
  void (*control)(int32_t);
  *(void**)&control = dlsym(library, "kvrt_emulation_use_cublaslt");
  REQUIRE(control != NULL, "%s", dlerror());
  control(use);
}

static kvrt_status try_device(uint32_t prompt_gemm, kvrt_runtime** rt) {
  const kvrt_runtime_options o = {.struct_size = sizeof o,
                                  .device = KVRT_DEVICE_CUDA,
                                  .cuda_library = KVRT_CUDA_EMULATED,
                                  .cuda_library_size = strlen(KVRT_CUDA_EMULATED),
                                  .prompt_gemm = prompt_gemm};
  return kvrt_runtime_open(&o, rt, NULL);
}

static kvrt_runtime* open_device(uint32_t prompt_gemm, const char* numerics) {
  kvrt_runtime* rt = NULL;
  MUST(try_device(prompt_gemm, &rt));
  kvrt_runtime_props p = {.struct_size = sizeof p};
  MUST(kvrt_runtime_info(rt, &p, NULL));
  EXPECT(strcmp(p.numerics, numerics) == 0, "numerics are %s, expected %s", p.numerics, numerics);
  return rt;
}

static kvrt_session* resume_as(kvrt_model* model, kvrt_store* store, const char* name, uint32_t foreign_kv, kvrt_report* report) {
  const kvrt_session_options o = {.struct_size = sizeof o, .foreign_kv = foreign_kv};
  kvrt_session* s = NULL;
  report->struct_size = sizeof *report;
  MUST(kvrt_session_resume(model, store, name, strlen(name), &o, NULL, NULL, report, &s, NULL));
  return s;
}

static void go_on(kvrt_session* s, struct run* r) {
  memset(r, 0, sizeof *r);
  kvrt_generate_options o = run_options(kRun);
  o.temperature = 0;
  o.top_k = 0, o.top_p = 0;
  MUST(kvrt_session_generate(s, &o, run_callback, r, NULL, NULL));
}

static void prompt_session(kvrt_model* model, kvrt_store* store, const char* name) {
  int32_t tokens[kPrompt];
  prompt_tokens(tokens, kPrompt, 3, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, tokens, kPrompt, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, name, strlen(name), NULL, NULL, NULL));
  kvrt_session_close(s);
}

// Prompted by `from`, which is there no more, and continued by `to`.
static void move(kvrt_runtime* from, kvrt_runtime* to, const char* name, const char* base, const char* what) {
  char path[kPathMax], dir[kPathMax + 64];
  snprintf(path, sizeof path, "%s/%s", tiny_dir(), name);
  snprintf(dir, sizeof dir, "%s/%s", base, what);
  kvrt_store* store = open_store(from, dir);
  kvrt_model* model = open_model(from, path, 0, kBlock, 0);
  prompt_session(model, store, "s");
  kvrt_report report = {0};
  static struct run home, again, accepted, later;
  kvrt_session* s = resume_as(model, store, "s", KVRT_FOREIGN_KV_ACCEPT, &report);
  EXPECT(report.reused_memory + report.reused_disk == kPrompt && !session_props(s).inexact, "%s: at home it is as it was", what);
  go_on(s, &home);
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_store_release(store);

  store = open_store(to, dir);
  model = open_model(to, path, 0, kBlock, 0);
  s = resume_as(model, store, "s", KVRT_FOREIGN_KV_DEFAULT, &report);
  EXPECT(report.reused_disk == 0 && report.reuse_stopped == KVRT_REUSE_OTHER_NUMERICS && !session_props(s).inexact,
         "%s: %" PRIu64 " tokens from disk, stopped by %u", what, report.reused_disk, report.reuse_stopped);
  go_on(s, &again);
  kvrt_session_close(s);
  s = resume_as(model, store, "s", KVRT_FOREIGN_KV_ACCEPT, &report);
  EXPECT(report.reused_disk == kPrompt && report.reused_memory == 0 && session_props(s).inexact,
         "%s: accepted, %" PRIu64 " tokens from disk, %" PRIu64 " from memory", what, report.reused_disk, report.reused_memory);
  go_on(s, &accepted);
  for (int i = 0; i < kRun; ++i) {  // the tiny model's tokens are far apart: the device's rounding does not show in them
    EXPECT(home.token[i] == again.token[i] && home.token[i] == accepted.token[i],
           "%s: token %d: %d at home, %d computed again, %d accepted", what, i, home.token[i], again.token[i], accepted.token[i]);
  }
  EXPECT(again.digest[0] != home.digest[0] && accepted.digest[0] != again.digest[0], "%s: whose KV was it?", what);

  // Saved there, it comes back as it is, of its own kind; an exact session over the same tokens computes its own.
  MUST(kvrt_session_suspend(s, "mixed", 5, NULL, NULL, NULL));
  kvrt_session_close(s);
  s = resume_as(model, store, "mixed", KVRT_FOREIGN_KV_ACCEPT, &report);
  EXPECT(report.reused_memory + report.reused_disk >= kPrompt + kRun - 1 && session_props(s).inexact, "%s: mixed, %" PRIu64 " reused", what,
         report.reused_memory + report.reused_disk);
  kvrt_session_close(s);
  s = resume_as(model, store, "mixed", KVRT_FOREIGN_KV_RECOMPUTE, &report);
  EXPECT(report.reuse_stopped == KVRT_REUSE_OTHER_NUMERICS && !session_props(s).inexact, "%s: mixed is taken for exact", what);
  kvrt_session_close(s);
  s = resume_as(model, store, "s", KVRT_FOREIGN_KV_RECOMPUTE, &report);
  go_on(s, &later);
  EXPECT(memcmp(later.token, again.token, kRun * sizeof *later.token) == 0 && later.digest[0] != accepted.digest[0],
         "%s: an exact session found foreign KV", what);
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_store_release(store);
}

int main(void) {
  char dir[kPathMax];
  setenv("KVRT_TEST_STEP_MS", "60000", 1);  // the cuts of a prompt show in a device's bits
  make_dir(dir);
  kvrt_runtime *cpu = open_runtime(1, 0), *fp8 = NULL;
  EXPECT_STATUS(try_device(KVRT_GEMM_FP8, &fp8), KVRT_UNSUPPORTED);
  EXPECT(strstr(last_message(), "FP8 prompts need cuBLASLt: ") != NULL, "%s", last_message());
  kvrt_runtime* device = open_device(KVRT_GEMM_F16, "cuda-2-sm90");
  move(cpu, device, "llama_gqa_f32.gguf", dir, "CPU to device");
  move(device, cpu, "llama_gqa_f32.gguf", dir, "device to CPU");
  kvrt_runtime_release(device);
  use_cublaslt(1);
  device = open_device(KVRT_GEMM_DEFAULT, "cuda-2-sm90");
  fp8 = open_device(KVRT_GEMM_FP8, "cuda-2-sm90-f8");
  move(device, fp8, "llama_mqa_q8_0.gguf", dir, "F16 to FP8");
  move(fp8, device, "llama_mqa_q8_0.gguf", dir, "FP8 to F16");
  kvrt_runtime_release(fp8);
  kvrt_runtime_release(device);
  kvrt_runtime_release(cpu);
  remove_tree(dir);
  return finish();
}
