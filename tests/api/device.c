// The choice of a device, on machines with CUDA and without: libraries in libkvrt_cuda's place show every way that it ends.
#include <dlfcn.h>

#include "misuse.h"

struct lines {
  char text[16384];
};

static void take_line(void* user, int32_t level, const char* text, size_t size) {
  struct lines* l = user;
  const size_t used = strlen(l->text);
  snprintf(l->text + used, sizeof l->text - used, "%d: %.*s\n", (int)level, (int)size, text);
}

static kvrt_status open_on(kvrt_runtime_options o, const char* library, struct lines* log, kvrt_runtime** out) {
  memset(log, 0, sizeof *log);
  o.struct_size = sizeof o;
  o.threads = 1;
  o.cuda_library = library;
  o.cuda_library_size = library ? strlen(library) : 0;
  o.log = take_line;
  o.log_user = log;
  if (!o.log_level) o.log_level = KVRT_LOG_INFO;
  *out = NULL;
  const kvrt_status status = kvrt_runtime_open(&o, out, NULL);
  EXPECT((status == KVRT_OK) == (*out != NULL), "out does not fit the status");
  return status;
}

static kvrt_status open_and_close(kvrt_runtime_options o, const char* library) {
  struct lines log;
  kvrt_runtime* rt = NULL;
  const kvrt_status status = open_on(o, library, &log, &rt);
  kvrt_runtime_release(rt);
  return status;
}

static kvrt_runtime_props props_of(kvrt_runtime* rt) {
  kvrt_runtime_props p = {.struct_size = sizeof p};
  MUST(kvrt_runtime_info(rt, &p, NULL));
  return p;
}

// Whether a library of this name is in the process.
static int is_mapped(const char* name) {
  FILE* f = fopen("/proc/self/maps", "r");
  REQUIRE(f != NULL, "%s", strerror(errno));
  char line[4096 + 128];
  int found = 0;
  while (fgets(line, sizeof line, f)) found |= strstr(line, name) != NULL;
  fclose(f);
  return found;
}

static void on_the_cpu(void) {
  for (uint32_t device = KVRT_DEVICE_DEFAULT; device <= KVRT_DEVICE_CPU; ++device) {
    struct lines log;
    kvrt_runtime* rt = NULL;
    EXPECT_STATUS(open_on((kvrt_runtime_options){.device = device, .determinism = KVRT_DETERMINISM_NONE}, KVRT_CUDA_STUB, &log, &rt),
                  KVRT_OK);
    const kvrt_runtime_props p = props_of(rt);
    EXPECT(strcmp(p.device, "cpu") == 0 && !p.device_name[0] && !p.devices[0] && !p.device_memory && !p.device_memory_free,
           "device %s, name \"%s\", devices \"%s\"", p.device, p.device_name, p.devices);
    kvrt_runtime_release(rt);
  }
  EXPECT(!is_mapped("libcuda") && !is_mapped("cuda_stub"), "the CPU needed a library of CUDA's");
}

static void wrong_arguments(void) {
  const kvrt_runtime_options cuda = {.device = KVRT_DEVICE_CUDA}, isa = {.device = KVRT_DEVICE_CUDA, .isa = KVRT_ISA_SCALAR};
  kvrt_runtime* rt = NULL;
  BAD("runtime_open", "device 4", open_and_close((kvrt_runtime_options){.device = 4}, NULL));
  EXPECT(strstr(last_message(), "device is 4") != NULL, "%s", last_message());
  BAD("runtime_open", "device UINT32_MAX", open_and_close((kvrt_runtime_options){.device = UINT32_MAX}, NULL));
  BAD("runtime_open", "determinism 4", open_and_close((kvrt_runtime_options){.determinism = 4}, NULL));
  BAD("runtime_open", "prompt_gemm FP8, strict",
      open_and_close(
          (kvrt_runtime_options){.device = KVRT_DEVICE_CUDA, .prompt_gemm = KVRT_GEMM_FP8, .determinism = KVRT_DETERMINISM_STRICT},
          KVRT_CUDA_STUB));
  BAD("runtime_open", "prompt_gemm 3",
      open_and_close((kvrt_runtime_options){.device = KVRT_DEVICE_CUDA, .prompt_gemm = 3}, KVRT_CUDA_STUB));
  BAD("runtime_open", "prompt_gemm of the default", open_and_close((kvrt_runtime_options){.prompt_gemm = KVRT_GEMM_FP8}, NULL));
  EXPECT(strstr(last_message(), "prompt_gemm is 2: with the CPU") != NULL, "%s", last_message());
  BAD("runtime_open", "prompt_gemm of the CPU",
      open_and_close((kvrt_runtime_options){.device = KVRT_DEVICE_CPU, .prompt_gemm = KVRT_GEMM_F16}, NULL));
  BAD("runtime_open", "device_index 1 of the default", open_and_close((kvrt_runtime_options){.device_index = 1}, NULL));
  EXPECT(strstr(last_message(), "device_index is 1") != NULL, "%s", last_message());
  BAD("runtime_open", "device_index 1 of the CPU",
      open_and_close((kvrt_runtime_options){.device = KVRT_DEVICE_CPU, .device_index = 1}, NULL));
  BAD("runtime_open", "an instruction set of CUDA", open_and_close(isa, KVRT_CUDA_STUB));
  BAD("runtime_open", "cuda_library \"\"", open_and_close(cuda, ""));
  kvrt_runtime_options o = {.struct_size = sizeof o, .cuda_library_size = 3};
  BAD("runtime_open", "cuda_library NULL", kvrt_runtime_open(&o, &rt, NULL));
  o.cuda_library = "a\0b";
  BAD("runtime_open", "cuda_library NUL", kvrt_runtime_open(&o, &rt, NULL));
}

static void says(const char* what) { EXPECT(strstr(last_message(), what) != NULL, "no \"%s\" in: %s", what, last_message()); }

static void not_there(void) {
  kvrt_runtime_options o = {.device = KVRT_DEVICE_CUDA};
  ROW("runtime_open", "no libkvrt_cuda", open_and_close(o, "/nowhere/libkvrt_cuda.so"), ANY(KVRT_UNSUPPORTED));
  says("/nowhere/libkvrt_cuda.so");
  ROW("runtime_open", "a relative path", open_and_close(o, "libkvrt_cuda_of_nobody.so"), ANY(KVRT_UNSUPPORTED));
  says("/libkvrt_cuda_of_nobody.so");  // of this directory, not of the dynamic linker's
  ROW("runtime_open", "another library", open_and_close(o, KVRT_CUDA_STUB_OTHER), ANY(KVRT_INCOMPATIBLE));
  says("is not libkvrt_cuda");
  ROW("runtime_open", "libkvrt itself", open_and_close(o, KVRT_LIBRARY), ANY(KVRT_INCOMPATIBLE));
  ROW("runtime_open", "another build", open_and_close(o, KVRT_CUDA_STUB_OLD), ANY(KVRT_INCOMPATIBLE));
  says("0.0.9/7");
  o.device_index = 1;
  ROW("runtime_open", "a device that fails", open_and_close(o, KVRT_CUDA_STUB), ANY(KVRT_DEVICE));
  o.device_index = 3;
  ROW("runtime_open", "a device past the last", open_and_close(o, KVRT_CUDA_STUB), ANY(KVRT_UNSUPPORTED));
  says("there are 3");
}

// Whatever devices this machine has: the runtime opens, or the error says why not.
static void as_it_is_here(void) {
  const kvrt_status status = open_and_close((kvrt_runtime_options){.device = KVRT_DEVICE_CUDA}, NULL);
  printf("CUDA here: %s: %s\n", kvrt_status_name(status), status ? last_message() : "");
  EXPECT(status == KVRT_OK || status == KVRT_UNSUPPORTED, "%s", kvrt_status_name(status));
  EXPECT_STATUS(open_and_close((kvrt_runtime_options){.device = KVRT_DEVICE_AUTO}, NULL), KVRT_OK);
}

static void automatic(const char* library, uint32_t index, const char* device_line) {
  struct lines log;
  kvrt_runtime* rt = NULL;
  const kvrt_runtime_options o = {.device = KVRT_DEVICE_AUTO, .device_index = index, .isa = KVRT_ISA_SCALAR};
  EXPECT_STATUS(open_on(o, library, &log, &rt), KVRT_OK);
  const kvrt_runtime_props p = props_of(rt);
  const int cpu = !p.devices[0];
  EXPECT(cpu == (device_line[0] == '3'), "%s: devices \"%s\"", library, p.devices);
  EXPECT(!cpu || (strcmp(p.device, "cpu") == 0 && strcmp(p.isa, "scalar") == 0), "%s: %s, %s", library, p.device, p.isa);
  EXPECT(strstr(log.text, device_line) != NULL, "%s: no \"%s\" in the log: %s", library, device_line, log.text);
  kvrt_runtime_release(rt);
}

static void on_the_stub(void) {
  struct lines log;
  kvrt_runtime* rt = NULL;
  EXPECT_STATUS(open_on((kvrt_runtime_options){.device = KVRT_DEVICE_CUDA}, KVRT_CUDA_STUB, &log, &rt), KVRT_OK);
  EXPECT(strstr(log.text, "stub: device 0, determinism 0") != NULL, "log: %s", log.text);
  const kvrt_runtime_props p = props_of(rt);
  EXPECT(strcmp(p.devices, "driver 1.2, runtime 1.3\n0: stub\n" KVRT_CUDA_STUB) == 0, "devices: %s", p.devices);
  char path[kPathMax];
  tiny_path(path, 0);
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  kvrt_session* s = open_session(model, NULL, 0);
  const int32_t tokens[] = {5, 6, 7};
  static struct run r;
  MUST(kvrt_session_append(s, tokens, 3, NULL));
  generate_into(s, 4, &r);
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  EXPECT_STATUS(
      open_on((kvrt_runtime_options){.device = KVRT_DEVICE_CUDA, .determinism = KVRT_DETERMINISM_NONE}, KVRT_CUDA_STUB, &log, &rt),
      KVRT_OK);
  EXPECT(strstr(log.text, "determinism 2") != NULL, "log: %s", log.text);
  kvrt_runtime_release(rt);
  for (uint32_t gemm = KVRT_GEMM_DEFAULT; gemm <= KVRT_GEMM_FP8; ++gemm) {
    EXPECT_STATUS(open_on((kvrt_runtime_options){.device = KVRT_DEVICE_AUTO, .prompt_gemm = gemm}, KVRT_CUDA_STUB, &log, &rt), KVRT_OK);
    EXPECT((strstr(log.text, "FP8 prompts") != NULL) == (gemm == KVRT_GEMM_FP8), "gemm %u, log: %s", gemm, log.text);
    kvrt_runtime_release(rt);
  }
}

static void copy_file(const char* from, const char* to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  REQUIRE(in && out, "%s, %s: %s", from, to, strerror(errno));
  char bytes[65536];
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;) fwrite(bytes, 1, n, out);
  fclose(in), fclose(out);
}

// A libkvrt of its own in a directory of its own: it looks beside itself.
static void beside_libkvrt(void) {
  char dir[kPathMax], path[kPathMax + 32];
  make_dir(dir);
  snprintf(path, sizeof path, "%s/libkvrt.so.0", dir);
  copy_file(KVRT_LIBRARY, path);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != NULL, "%s", dlerror());
  kvrt_status (*open_there)(const kvrt_runtime_options*, kvrt_runtime**, kvrt_error*);
  kvrt_status (*info_there)(const kvrt_runtime*, kvrt_runtime_props*, kvrt_error*);
  void (*release_there)(kvrt_runtime*);
  *(void**)&open_there = dlsym(library, "kvrt_runtime_open");
  *(void**)&info_there = dlsym(library, "kvrt_runtime_info");
  *(void**)&release_there = dlsym(library, "kvrt_runtime_release");
  const kvrt_runtime_options o = {.struct_size = sizeof o, .device = KVRT_DEVICE_CUDA};
  kvrt_error e = {.struct_size = sizeof e};
  kvrt_runtime* rt = NULL;
  if (!dlopen("libkvrt_cuda.so", RTLD_LAZY | RTLD_LOCAL)) {  // else the dynamic linker finds one
    EXPECT_STATUS(open_there(&o, &rt, &e), KVRT_UNSUPPORTED);
    EXPECT(strstr(e.message, "libkvrt_cuda.so") && strstr(e.message, dir), "not where it was looked for: %s", e.message);
  }
  snprintf(path, sizeof path, "%s/libkvrt_cuda.so", dir);
  copy_file(KVRT_CUDA_STUB, path);
  EXPECT_STATUS(open_there(&o, &rt, &e), KVRT_OK);
  if (rt) {
    kvrt_runtime_props p = {.struct_size = sizeof p};
    EXPECT_STATUS(info_there(rt, &p, &e), KVRT_OK);
    EXPECT(strstr(p.devices, path) != NULL, "no %s in: %s", path, p.devices);
    release_there(rt);
  }
  remove_tree(dir);
}

int main(void) {
  on_the_cpu();
  wrong_arguments();
  not_there();
  as_it_is_here();
  automatic("/nowhere/libkvrt_cuda.so", 0, "3: the CPU computes, not CUDA: CUDA needs /nowhere/libkvrt_cuda.so");
  automatic(KVRT_CUDA_STUB_OLD, 0, "3: the CPU computes");
  automatic(KVRT_CUDA_STUB, 1, "3: the CPU computes, not CUDA: stub: the device fell off the bus");
  automatic(KVRT_CUDA_STUB, 3, "3: the CPU computes");
  automatic(KVRT_CUDA_STUB, 0, "stub: device 0");
  on_the_stub();
  beside_libkvrt();
  return finish();
}
