// A library in the place of libkvrt_cuda: of its devices 0 is the CPU, 1 fails, 2 gives nothing, and there are no others.
#include "runtime/compute/backend.h"

#ifndef KVRT_STUB_VERSION
#define KVRT_STUB_VERSION KVRT_CUDA_PLUGIN_VERSION
#endif
#ifndef KVRT_STUB_SYMBOL
#define KVRT_STUB_SYMBOL kvrt_cuda_plugin
#endif

namespace {

using namespace kvrt;

Backend* open(const CudaOptions& options, Log* log, Status* status) {
  logf(log, LogLevel::kInfo, "stub: device %u, determinism %d%s", options.device, static_cast<int>(options.determinism),
       options.fp8_prompts ? ", FP8 prompts" : "");
  if (options.device == 1) *status = error(Code::kDevice, Detail::kNone, "stub: the device fell off the bus");
  if (options.device > 2) *status = error(Code::kUnsupported, Detail::kNone, "stub: no device %u, there are 3", options.device);
  if (options.device != 0) return nullptr;
  auto backend = open_cpu({1, ""}, log);
  if (backend.is_ok()) return std::move(backend).value().release();
  *status = backend.take_status();
  return nullptr;
}

Status describe(std::string* text) {
  *text = "driver 1.2, runtime 1.3\n0: stub";
  return {};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const CudaPlugin KVRT_STUB_SYMBOL;
const CudaPlugin KVRT_STUB_SYMBOL = {KVRT_STUB_VERSION, open, describe};
