#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sodium.h>
#include <sqlite3.h>
#include <zstd.h>

#include "runtime/api/boundary.h"
#include "runtime/base/host_symbols.h"
#include "runtime/base/hash.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

// The host's log callback. Its user data is freed once, when nothing can log any more; if open fails, it is not freed.
class HostLog final : public kvrt::Log {
 public:
  explicit HostLog(const kvrt_runtime_options& o)
      : level_(o.log_level ? o.log_level : uint32_t{KVRT_LOG_WARN}), log_(o.log), user_(o.log_user), free_(o.log_user_free) {}
  ~HostLog() override {
    if (armed_ && free_) free_(user_);
  }
  void write(kvrt::LogLevel level, std::string_view message) override {
    if (log_ && static_cast<uint32_t>(level) <= level_) log_(user_, static_cast<int32_t>(level), message.data(), message.size());
  }
  void arm() { armed_ = true; }

 private:
  uint32_t level_;
  kvrt_log_fn log_;
  void* user_;
  kvrt_free_fn free_;
  bool armed_ = false;
};

std::string table_states() {
  std::string text;
  for (const auto& t : kvrt::cpu_kernel_tables()) {
    if (!text.empty()) text += ", ";
    text += std::string(t.isa) + (!t.supported ? ": not on this machine" : t.self_check_passed ? ": ok" : ": differs from scalar");
  }
  return text;
}

std::string libraries() {
  char pcre2[32] = "";
  pcre2_config_8(PCRE2_CONFIG_VERSION, pcre2);
  return std::string("sqlite ") + sqlite3_libversion() + ", zstd " + ZSTD_versionString() + ", pcre2 " + pcre2 + ", libsodium " +
         sodium_version_string() + ", xxhash " + kvrt::xxhash_version();
}

Status read_device(const kvrt_runtime_options& o, kvrt::RuntimeOptions* out) {
  if (o.device > KVRT_DEVICE_AUTO) {
    return error(Code::kInvalid, Detail::kNone, "device is %u, expected KVRT_DEVICE_DEFAULT to KVRT_DEVICE_AUTO", o.device);
  }
  if (o.determinism > KVRT_DETERMINISM_NONE) {
    return error(Code::kInvalid, Detail::kNone, "determinism is %u, expected KVRT_DETERMINISM_DEFAULT to KVRT_DETERMINISM_NONE",
                 o.determinism);
  }
  if (o.prompt_gemm > KVRT_GEMM_FP8) {
    return error(Code::kInvalid, Detail::kNone, "prompt_gemm is %u, expected KVRT_GEMM_DEFAULT to KVRT_GEMM_FP8", o.prompt_gemm);
  }
  if (o.prompt_gemm == KVRT_GEMM_FP8 && o.determinism == KVRT_DETERMINISM_STRICT) {
    return error(Code::kInvalid, Detail::kNone,
                 "prompt_gemm is KVRT_GEMM_FP8, expected KVRT_GEMM_DEFAULT or KVRT_GEMM_F16 with KVRT_DETERMINISM_STRICT");
  }
  const bool cpu = o.device <= KVRT_DEVICE_CPU;
  if (cpu && o.prompt_gemm) {
    return error(Code::kInvalid, Detail::kNone, "prompt_gemm is %u: with the CPU as device, expected KVRT_GEMM_DEFAULT", o.prompt_gemm);
  }
  if (cpu && o.device_index) {
    return error(Code::kInvalid, Detail::kNone, "device_index is %u: with the CPU as device, expected 0", o.device_index);
  }
  if (o.device == KVRT_DEVICE_CUDA && o.isa) {
    return error(Code::kInvalid, Detail::kNone, "isa is %u: with KVRT_DEVICE_CUDA, expected KVRT_ISA_DEFAULT", o.isa);
  }
  if (o.cuda_library || o.cuda_library_size) {
    KVRT_TRY(check_path(o.cuda_library, o.cuda_library_size, &out->cuda.library, "cuda_library"));
  }
  out->device = cpu ? kvrt::DeviceChoice::kCpu : o.device == KVRT_DEVICE_CUDA ? kvrt::DeviceChoice::kCuda : kvrt::DeviceChoice::kAuto;
  out->cuda.device = o.device_index;
  out->cuda.determinism = o.determinism == KVRT_DETERMINISM_STRICT ? kvrt::Determinism::kStrict
                          : o.determinism == KVRT_DETERMINISM_NONE ? kvrt::Determinism::kNone
                                                                   : kvrt::Determinism::kByClass;
  out->cuda.fp8_prompts = o.prompt_gemm == KVRT_GEMM_FP8;
  return {};
}

}  // namespace

extern "C" {

kvrt_status kvrt_runtime_open(const kvrt_runtime_options* options, kvrt_runtime** out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_TRY(check_not_null(out, "out"));
    kvrt_runtime_options o;
    KVRT_TRY(read_options(options, "kvrt_runtime_options", &o));
    static const char* const kIsas[] = {"", "scalar", "avx2", "avx512"};
    if (o.isa > KVRT_ISA_AVX512) {
      return error(Code::kInvalid, Detail::kNone, "isa is %u, expected KVRT_ISA_DEFAULT to KVRT_ISA_AVX512", o.isa);
    }
    if (o.log_level > KVRT_LOG_DEBUG) {
      return error(Code::kInvalid, Detail::kNone, "log_level is %u, expected KVRT_LOG_DEFAULT to KVRT_LOG_DEBUG", o.log_level);
    }
    kvrt::RuntimeOptions chosen;
    chosen.threads = o.threads;
    chosen.isa = kIsas[o.isa];
    KVRT_TRY(read_device(o, &chosen));
    KVRT_TRY(kvrt::check_host_symbols());
    auto log = std::make_unique<HostLog>(o);
    HostLog* host_log = log.get();
    KVRT_ASSIGN(auto opened, kvrt::Runtime::open(chosen, std::move(log)));
    auto runtime = std::make_unique<kvrt_runtime>(std::move(opened));
    host_log->arm();
    *out = runtime.release();
    return {};
  });
}

void kvrt_runtime_retain(kvrt_runtime* runtime) { retain(runtime); }
void kvrt_runtime_release(kvrt_runtime* runtime) { release(runtime); }

kvrt_status kvrt_runtime_set_threads(kvrt_runtime* runtime, uint32_t threads, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    return held->set_threads(threads);
  });
}

kvrt_status kvrt_runtime_info(const kvrt_runtime* runtime, kvrt_runtime_props* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_output_struct(out, "out"));
    const kvrt::Backend* backend = held->backend();
    kvrt_runtime_props p{};
    p.threads = held->threads();
    copy_text(p.device, backend->name());
    copy_text(p.isa, backend->isa());
    copy_text(p.numerics, backend->numerics());
    copy_text(p.isa_tables, table_states());
    copy_text(p.libraries, libraries());
    if (const auto& devices = held->cuda_devices()) {
      copy_text(p.device_name, backend->device_name());
      backend->device_memory(&p.device_memory, &p.device_memory_free);
      copy_text(p.devices, *devices);
    }
    write_output(out, p);
    return {};
  });
}

}  // extern "C"
