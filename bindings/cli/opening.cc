// What the commands open: the runtime with its log, models, stores and sessions.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "bindings/cli/common.h"

namespace cli {

namespace {

std::mutex log_mutex;  // the library logs on threads of its own
bool log_held = false;
std::string log_waiting;

constexpr auto log_line = [](int32_t level, std::string_view text) noexcept {
  const char* name = level == KVRT_LOG_ERROR ? "error" : level == KVRT_LOG_WARN ? "warning" : "note";
  const std::string line = fmt::format("kvrt: {}: {}\n", name, printable(in_options(std::string(text))));
  std::lock_guard lock(log_mutex);
  if (log_held) {
    log_waiting += line;
  } else {
    say("{}", line);
  }
};

}  // namespace

HeldLog::HeldLog() {
  std::lock_guard lock(log_mutex);
  log_held = true;
}
HeldLog::~HeldLog() {
  std::lock_guard lock(log_mutex);
  log_held = false;
  say("{}", std::exchange(log_waiting, {}));
}

std::pair<std::string, std::string> kv_pair(const std::string& text) {
  const size_t slash = text.find('/');
  return {text.substr(0, slash), slash == text.npos ? text : text.substr(slash + 1)};
}
std::string k_format(const ModelFlags& flags) { return flags.kv_k.empty() ? kv_pair(flags.kv).first : flags.kv_k; }
std::string v_format(const ModelFlags& flags) { return flags.kv_v.empty() ? kv_pair(flags.kv).second : flags.kv_v; }

std::string kv_formats(const ModelFlags& flags) {
  const std::string k = k_format(flags), v = v_format(flags);
  return k == v ? k : fmt::format("K {}, V {}", k, v);
}

std::vector<std::string> kv_format_names() { return {"f16", "bf16", "f32", "int8", "fp8", "int4"}; }

uint32_t kv_format(const std::string& name) {
  if (name == "int8") return KVRT_KV_INT8;
  if (name == "fp8") return KVRT_KV_FP8;
  if (name == "int4") return KVRT_KV_INT4;
  return name == "bf16" ? KVRT_KV_BF16 : name == "f32" ? KVRT_KV_F32 : KVRT_KV_F16;
}

kvrt_runtime_options runtime_options(const ModelFlags& flags) {
  auto options = init<kvrt_runtime_options>();
  options.threads = flags.threads;
  options.isa = flags.isa == "scalar"   ? KVRT_ISA_SCALAR
                : flags.isa == "avx2"   ? KVRT_ISA_AVX2
                : flags.isa == "avx512" ? KVRT_ISA_AVX512
                                        : KVRT_ISA_DEFAULT;
  options.device = flags.device == "cuda" ? KVRT_DEVICE_CUDA : flags.device == "auto" ? KVRT_DEVICE_AUTO : KVRT_DEVICE_CPU;
  options.device_index = flags.device_index;
  if (!flags.cuda_library.empty()) kvrt::assign(options.cuda_library, options.cuda_library_size, flags.cuda_library);
  options.determinism = flags.determinism == "strict" ? KVRT_DETERMINISM_STRICT
                        : flags.determinism == "none" ? KVRT_DETERMINISM_NONE
                                                      : KVRT_DETERMINISM_BY_CLASS;
  options.prompt_gemm = flags.prompt_gemm == "fp8" ? KVRT_GEMM_FP8 : flags.prompt_gemm == "f16" ? KVRT_GEMM_F16 : KVRT_GEMM_DEFAULT;
  return options;
}

kvrt_status open_runtime(const ModelFlags& flags, Runtime& out) {
  kvrt_runtime_options options = runtime_options(flags);
  kvrt::log_to(options, log_line);
  if (options.device == KVRT_DEVICE_AUTO) options.log_level = KVRT_LOG_INFO;  // the log says which device it is, and why
  return take(Runtime::open(options), out, "cannot open the runtime");
}

kvrt_model_options model_options(const ModelFlags& flags) {
  auto options = init<kvrt_model_options>();
  options.kv_format = kv_format(k_format(flags));
  options.kv_format_v = kv_format(v_format(flags));
  options.kv_bytes_max = flags.kv_bytes;
  options.block_tokens = flags.block_tokens;
  options.prefill_chunk = flags.prefill_chunk;
  if (!flags.cache_dir.empty()) kvrt::assign(options.cache_dir, options.cache_dir_size, flags.cache_dir);
  options.cache = !flags.cache_dir.empty() ? KVRT_CACHE_DEFAULT : flags.no_weight_cache ? KVRT_CACHE_NONE : KVRT_CACHE_USER;
  options.cache_bytes_max = flags.cache_bytes;
  options.step_ms_max = flags.step_ms;
  return options;
}

namespace {

kvrt_plan_options planned(const ModelFlags& flags, uint64_t tokens) {
  auto asked = init<kvrt_plan_options>();
  asked.kv_format = kv_format(k_format(flags));
  asked.kv_format_v = kv_format(v_format(flags));
  asked.block_tokens = flags.block_tokens;
  asked.session_tokens = tokens;
  return asked;
}

// `role`: "" or "--draft: ", before what goes wrong.
std::string cannot_open(const char* role, const std::string& path) {
  return fmt::format("{}cannot open the model {}", role, in_quotes(path));
}

kvrt_status plan_for(const Runtime& runtime, const std::string& path, const kvrt_plan_options& asked, const char* role, kvrt_plan& out) {
  return take(runtime.plan(path, asked), out, cannot_open(role, path));
}

kvrt_status load(const Runtime& runtime, const std::string& path, const kvrt_model_options& options, const char* role, Progress bar,
                 Model& out, const std::atomic<bool>* stop) {
  Result<Model> model = Model::open(runtime, path, options, [&](const Event& event) {
    bar.update(event);
    return stop_if(Interrupt::came() || (stop && *stop));
  });
  bar.clear();
  return take(std::move(model), out, cannot_open(role, path));
}

}  // namespace

kvrt_status try_options(const Model& model, const kvrt_generate_options& options, const std::string& what) {
  Session tried;
  if (kvrt_status s = take(Session::open(model), tried, "cannot open a session")) return s;
  if (kvrt_status s = checked(tried.append(std::vector<int32_t>{0}), "cannot append a token")) return s;
  return checked(tried.begin(options), what);
}

kvrt_status open_model(const ModelFlags& flags, const Runtime& runtime, Model& out, const std::atomic<bool>* stop) {
  kvrt_model_options options = model_options(flags);
  if (flags.context) {  // the KV of one conversation of so many tokens
    kvrt_plan plan = init<kvrt_plan>();
    if (kvrt_status s = plan_for(runtime, flags.model, planned(flags, flags.context), "", plan)) return s;
    options.kv_bytes_max = plan.kv_bytes;
  }
  if (kvrt_status s = load(runtime, flags.model, options, "", Progress("loading"), out, stop)) return s;
  const Result<kvrt_model_props> props = out.info();
  if (flags.context && props.ok()) advise_context(flags.context, tokens_held(*props));
  return KVRT_OK;
}

kvrt_status open_draft(const ModelFlags& flags, const SpeculationFlags& speculation, const Runtime& runtime, const Model& model,
                       uint32_t sessions, uint64_t tokens, Model& out, const std::atomic<bool>* stop) {
  const std::string& path = speculation.draft;
  if (path.empty()) return KVRT_OK;
  constexpr const char* kRole = "--draft: ";
  kvrt_plan plan = init<kvrt_plan>();
  kvrt_plan_options asked = planned(flags, 0);
  if (kvrt_status s = plan_for(runtime, path, asked, kRole, plan)) return s;
  asked.sessions = sessions;
  asked.session_tokens = std::min<uint64_t>(plan.context_length, tokens);
  if (kvrt_status s = plan_for(runtime, path, asked, kRole, plan)) return s;
  kvrt_model_options options = model_options(flags);
  options.kv_bytes_max = plan.kv_bytes;
  if (kvrt_status s = load(runtime, path, options, kRole, Progress("draft"), out, stop)) return s;
  auto generation = init<kvrt_generate_options>();
  generation.draft = out.get();
  return try_options(model, generation, "cannot draft with " + in_quotes(path));
}

uint64_t tokens_held(const kvrt_model_props& props) {
  const uint64_t room = props.units * props.unit_bytes;
  uint64_t held = props.block_tokens;
  while (held < props.context_length && session_bytes(props, held + props.block_tokens) <= room) held += props.block_tokens;
  return std::min<uint64_t>(held, props.context_length);
}

kvrt_status check_template(const Model& model, const std::string& path) {
  if (model.info()->has_template) return KVRT_OK;
  return complain(
      KVRT_UNSUPPORTED,
      fmt::format("{} has no chat template, so no message can be rendered: kvrt run -p TEXT goes on with a text", in_quotes(path)));
}

kvrt_status open_store(const Runtime& runtime, const std::string& path, bool read_only, bool must_exist, Store& out) {
  auto options = init<kvrt_store_options>();
  options.read_only = read_only;
  options.must_exist = must_exist;
  return take(Store::open(runtime, path, options), out, "cannot open the store " + in_quotes(path));
}

namespace {
constexpr std::string_view kReadsModel = "reading the model's identity";
}

kvrt_status new_session(const Model& model, const kvrt_session_options& options, Session& out) {
  Progress bar("");
  if (options.store) bar.note(kReadsModel);
  Result<Session> opened = Session::open(model, options);
  bar.clear();
  return take(std::move(opened), out, "cannot open a session");
}

Result<Session> resume_session(const Model& model, const Store& store, const std::string& name, const kvrt_session_options& options,
                               kvrt_report& report, const std::atomic<bool>* stop) {
  Progress bar("resuming");
  bar.note(kReadsModel);
  return Session::resume(model, store, name, options, &report, [&](const Event& event) {
    bar.update(event);
    return stop_if(Interrupt::came() || (stop && *stop));
  });
}

}  // namespace cli
