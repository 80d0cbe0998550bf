#include "bindings/cli/common.h"

#include <fmt/core.h>
#include <signal.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace cli {

namespace {

// The library's message without the words that `what` has: "cannot open the model a.gguf", then "a.gguf: cannot open the model: ...".
std::string rest_of(const std::string& what, std::string message) {
  const size_t colon = message.find(": ");
  if (colon == std::string::npos) return message;
  const std::string file = message.substr(0, colon), last = what.substr(what.rfind(' ') + 1);
  if (!what.ends_with(" " + in_quotes(file)) && !file.ends_with("/" + last)) return message;
  message.erase(0, colon + 2);
  const std::string first = message.substr(0, message.find(": "));
  if (what.starts_with(first + " ")) message.erase(0, first.size() + 2);
  return message;
}

}  // namespace

kvrt_status complain(const std::string& what, kvrt_status status) {
  if (status == KVRT_CANCELLED && reader_went()) return status;
  auto error = sized<kvrt_error>();
  kvrt_last_error(&error);
  const std::string message = error.status == status ? rest_of(what, in_options(error.message)) : "no detail";
  return complain(status, what + ": " + message);
}

kvrt_status complain(kvrt_status status, const std::string& message) {
  say("kvrt: {} ({})\n", printable(message, true), kvrt_status_name(status));
  return status;
}

namespace {
int output_error = 0;  // errno of the first write to standard output that failed
}

void write_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() && !output_error) output_error = errno;
}

void flush_out() {
  errno = 0;
  if (std::fflush(stdout) != 0 && !output_error) output_error = errno;
}

int finish(kvrt_status status) {
  flush_out();
  if (!output_error && !std::ferror(stdout)) return status;
  if (output_error == EPIPE || reader_went()) return status ? status : 128 + SIGPIPE;
  complain(KVRT_IO, std::string("cannot write to standard output: ") + std::strerror(output_error ? output_error : EIO));
  return status ? status : KVRT_IO;
}

// ---- opening --------------------------------------------------------------------------------------------------------------------

namespace {

std::mutex log_mutex;  // the library logs on threads of its own
bool log_held = false;
std::string log_waiting;

void log_line(void*, int32_t level, const char* text, size_t size) {
  const char* name = level == KVRT_LOG_ERROR ? "error" : level == KVRT_LOG_WARN ? "warning" : "note";
  const std::string line = fmt::format("kvrt: {}: {}\n", name, printable(in_options({text, size}), true));
  std::lock_guard lock(log_mutex);
  if (log_held) {
    log_waiting += line;
  } else {
    say("{}", line);
  }
}

struct LoadState {
  Progress bar{"loading"};
  const std::atomic<bool>* stop;
};

int32_t on_load(void* user, const kvrt_event* event) {
  auto& state = *static_cast<LoadState*>(user);
  if (event->type == KVRT_EVENT_PROGRESS) state.bar.update(event->done, event->total);
  return Interrupt::came() || (state.stop && state.stop->load());
}

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

uint32_t kv_format(const ModelFlags& flags) {
  if (flags.kv == "int8") return KVRT_KV_INT8;
  if (flags.kv == "fp8") return KVRT_KV_FP8;
  return flags.kv == "bf16" ? KVRT_KV_BF16 : flags.kv == "f32" ? KVRT_KV_F32 : KVRT_KV_F16;
}

kvrt_runtime_options runtime_options(const ModelFlags& flags) {
  auto options = sized<kvrt_runtime_options>();
  options.threads = flags.threads;
  options.isa = flags.isa == "scalar"   ? KVRT_ISA_SCALAR
                : flags.isa == "avx2"   ? KVRT_ISA_AVX2
                : flags.isa == "avx512" ? KVRT_ISA_AVX512
                                        : KVRT_ISA_DEFAULT;
  options.device = flags.device == "cuda" ? KVRT_DEVICE_CUDA : flags.device == "auto" ? KVRT_DEVICE_AUTO : KVRT_DEVICE_CPU;
  options.device_index = flags.device_index;
  options.cuda_library = flags.cuda_library.empty() ? nullptr : flags.cuda_library.data();
  options.cuda_library_size = flags.cuda_library.size();
  options.determinism = flags.determinism == "strict" ? KVRT_DETERMINISM_STRICT
                        : flags.determinism == "none" ? KVRT_DETERMINISM_NONE
                                                      : KVRT_DETERMINISM_BY_CLASS;
  options.prompt_gemm = flags.prompt_gemm == "fp8" ? KVRT_GEMM_FP8 : flags.prompt_gemm == "f16" ? KVRT_GEMM_F16 : KVRT_GEMM_DEFAULT;
  return options;
}

kvrt_status open_runtime(const ModelFlags& flags, Runtime& out) {
  kvrt_runtime_options options = runtime_options(flags);
  options.log = log_line;
  if (options.device == KVRT_DEVICE_AUTO) options.log_level = KVRT_LOG_INFO;  // the log says which device it is, and why
  kvrt_runtime* runtime = nullptr;
  if (kvrt_status s = kvrt_runtime_open(&options, &runtime, nullptr)) return complain("cannot open the runtime", s);
  out.reset(runtime);
  return KVRT_OK;
}

kvrt_model_options model_options(const ModelFlags& flags) {
  auto options = sized<kvrt_model_options>();
  options.kv_format = kv_format(flags);
  options.kv_bytes_max = flags.kv_bytes;
  options.block_tokens = flags.block_tokens;
  options.prefill_chunk = flags.prefill_chunk;
  if (!flags.cache_dir.empty()) {
    options.cache_dir = flags.cache_dir.data();
    options.cache_dir_size = flags.cache_dir.size();
  }
  options.cache = !flags.cache_dir.empty() ? KVRT_CACHE_DEFAULT : flags.no_weight_cache ? KVRT_CACHE_NONE : KVRT_CACHE_USER;
  options.cache_bytes_max = flags.cache_bytes;
  options.step_ms_max = flags.step_ms;
  return options;
}

namespace {

// Plans the KV of one conversation of --context tokens.
kvrt_status plan_context(const ModelFlags& flags, kvrt_runtime* runtime, kvrt_plan& plan) {
  auto options = sized<kvrt_plan_options>();
  options.kv_format = kv_format(flags);
  options.block_tokens = flags.block_tokens;
  options.session_tokens = flags.context;
  const kvrt_status s = kvrt_model_plan(runtime, flags.model.data(), flags.model.size(), &options, &plan, nullptr);
  return s ? complain("cannot plan for the model " + in_quotes(flags.model), s) : KVRT_OK;
}

}  // namespace

kvrt_status open_model(const ModelFlags& flags, kvrt_runtime* runtime, Model& out, const std::atomic<bool>* stop) {
  kvrt_model_options options = model_options(flags);
  if (flags.context) {
    auto plan = sized<kvrt_plan>();
    if (kvrt_status s = plan_context(flags, runtime, plan)) return s;
    options.kv_bytes_max = plan.kv_bytes;
  }
  LoadState state{.stop = stop};
  kvrt_model* model = nullptr;
  kvrt_status s = kvrt_model_open(runtime, flags.model.data(), flags.model.size(), &options, on_load, &state, &model, nullptr);
  state.bar.clear();
  if (s) return complain("cannot open the model " + in_quotes(flags.model), s);
  out.reset(model);
  auto props = sized<kvrt_model_props>();
  if (flags.context && kvrt_model_info(model, &props, nullptr) == KVRT_OK) advise_context(flags.context, props.blocks * props.block_tokens);
  return KVRT_OK;
}

kvrt_status open_store(kvrt_runtime* runtime, const std::string& path, bool read_only, bool must_exist, Store& out) {
  auto options = sized<kvrt_store_options>();
  options.read_only = read_only;
  options.must_exist = must_exist;
  kvrt_store* store = nullptr;
  if (kvrt_status s = kvrt_store_open(runtime, path.data(), path.size(), &options, &store, nullptr)) {
    return complain("cannot open the store " + in_quotes(path), s);
  }
  out.reset(store);
  return KVRT_OK;
}

kvrt_status generate_options(const SamplingFlags& flags, uint32_t max_tokens, OptionBuffers& buffers, kvrt_generate_options& options) {
  options = sized<kvrt_generate_options>();
  options.max_tokens = max_tokens;
  options.temperature = flags.temperature.value_or(0);
  options.top_k = flags.top_k.value_or(0);
  options.top_p = flags.top_p.value_or(0);
  options.min_p = flags.min_p.value_or(0);
  options.repetition_penalty = flags.repetition_penalty.value_or(0);
  options.frequency_penalty = flags.frequency_penalty;
  options.presence_penalty = flags.presence_penalty;
  options.penalty_window = flags.penalty_window.value_or(0);
  options.seed = flags.seed;
  options.ignore_eos = flags.ignore_eos;
  buffers.stop.clear();
  for (const std::string& stop : flags.stop) buffers.stop.append(stop).push_back('\0');
  options.stop_strings = buffers.stop.empty() ? nullptr : buffers.stop.data();
  options.stop_strings_size = buffers.stop.size();
  if (flags.continue_grammar) options.grammar_kind = KVRT_GRAMMAR_CONTINUE;
  const std::string& file = flags.grammar_file.empty() ? flags.schema_file : flags.grammar_file;
  if (file.empty()) return KVRT_OK;
  if (kvrt_status s = read_file(file, buffers.grammar)) return s;
  options.grammar_kind = flags.grammar_file.empty() ? KVRT_GRAMMAR_JSON_SCHEMA : KVRT_GRAMMAR_GBNF;
  options.grammar = buffers.grammar.data();
  options.grammar_size = buffers.grammar.size();
  return KVRT_OK;
}

// ---- text -----------------------------------------------------------------------------------------------------------------------

kvrt_status read_file(const std::string& path, std::string& out) {
  FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file)
    return complain(errno == ENOENT ? KVRT_NOT_FOUND : KVRT_IO, fmt::format("cannot open {}: {}", in_quotes(path), std::strerror(errno)));
  out.clear();
  char buffer[65536];
  for (size_t n = sizeof buffer; n == sizeof buffer && out.size() <= kTextBytesMax;) {  // fewer: the end, which a terminal reports once
    n = std::fread(buffer, 1, sizeof buffer, file);
    out.append(buffer, n);
  }
  const bool failed = std::ferror(file);
  const int error = errno;
  if (file != stdin) std::fclose(file);
  if (out.size() > kTextBytesMax) {
    out = {};
    return complain(KVRT_LIMIT,
                    fmt::format("cannot read {}: it has more than the {} MiB that a text may have", in_quotes(path), kTextBytesMax >> 20));
  }
  return failed ? complain(KVRT_IO, fmt::format("cannot read {}: {}", in_quotes(path), std::strerror(error))) : KVRT_OK;
}

kvrt_status parse_tokens(const std::string& argument, std::vector<int32_t>& out) {
  std::string text = argument;
  if (!argument.empty() && argument[0] == '@') {
    if (kvrt_status s = read_file(argument.substr(1), text)) return s;
  }
  out.clear();
  const char *p = text.data(), *end = p + text.size();
  while (true) {
    while (p < end && (*p == ',' || std::isspace(static_cast<unsigned char>(*p)))) ++p;
    if (p == end) return KVRT_OK;
    int32_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() || (next < end && *next != ',' && !std::isspace(static_cast<unsigned char>(*next)))) {
      return complain(KVRT_INVALID, fmt::format("--tokens: expected token ids separated by commas or spaces, found \"{}\" at byte {}",
                                                std::string_view(p, std::min<size_t>(end - p, 16)), p - text.data()));
    }
    out.push_back(id);
    p = next;
  }
}

kvrt_status tokenize(const kvrt_model* model, std::string_view text, uint32_t flags, std::vector<int32_t>& out) {
  size_t needed = 0;
  out.resize(text.size() + 8);  // a token is at least a byte, BOS apart
  kvrt_status s = kvrt_model_tokenize(model, text.data(), text.size(), flags, out.data(), out.size(), &needed, nullptr);
  out.resize(needed);
  if (s == KVRT_TOO_SMALL) s = kvrt_model_tokenize(model, text.data(), text.size(), flags, out.data(), out.size(), &needed, nullptr);
  return s ? complain("cannot tokenize", s) : KVRT_OK;
}

kvrt_status detokenize(const kvrt_model* model, const std::vector<int32_t>& tokens, uint32_t flags, std::string& out) {
  size_t needed = 0;
  kvrt_status s = kvrt_model_detokenize(model, tokens.data(), tokens.size(), flags, nullptr, 0, &needed, nullptr);
  if (s && s != KVRT_TOO_SMALL) return complain("cannot detokenize", s);
  out.resize(needed);
  if (!needed) return KVRT_OK;
  s = kvrt_model_detokenize(model, tokens.data(), tokens.size(), flags, out.data(), out.size(), &needed, nullptr);
  return s ? complain("cannot detokenize", s) : KVRT_OK;
}

kvrt_status session_tokens(const kvrt_session* session, std::vector<int32_t>& out) {
  size_t needed = 0;
  kvrt_status s = kvrt_session_tokens(session, nullptr, 0, &needed, nullptr);
  if (s && s != KVRT_TOO_SMALL) return complain("cannot read the session's tokens", s);
  out.resize(needed);
  if (!needed) return KVRT_OK;
  s = kvrt_session_tokens(session, out.data(), out.size(), &needed, nullptr);
  return s ? complain("cannot read the session's tokens", s) : KVRT_OK;
}

std::string join(const std::vector<int32_t>& tokens) {
  std::string out;
  for (int32_t token : tokens) {
    if (!out.empty()) out += ',';
    out += std::to_string(token);
  }
  return out;
}

std::string message_json(std::string_view role, std::string_view content) {
  return Json().add("role", role).add("content", content).text();
}

std::string_view reason_name(uint32_t reason) {
  constexpr std::string_view names[] = {"none", "eos", "stop", "max_tokens", "context_full", "cancelled", "prefilled", "failed"};
  return reason < std::size(names) ? names[reason] : "unknown";
}

std::string_view reuse_name(uint32_t reuse) {
  constexpr std::string_view names[] = {"all", "new_tokens", "different_token", "not_stored", "evicted", "damaged", "other_numerics"};
  return reuse < std::size(names) ? names[reuse] : "unknown";
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit ? fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]) : fmt::format("{} B", bytes);
}

void say_missing(const kvrt_save_report& saved) {
  if (saved.chunks_missing == 0) return;
  say("(the store lacks the KV of {}: when the session goes on, it is computed again)\n", counted(saved.chunks_missing, "block"));
}

std::string in_quotes(std::string_view name) {
  constexpr std::string_view kPlain = "._-/:@+,=%~";
  const bool plain = std::all_of(name.begin(), name.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 || kPlain.find(c) != std::string_view::npos;
  });
  return plain && !name.empty() ? std::string(name) : fmt::format("\"{}\"", name);
}

std::string plural(uint64_t count, std::string_view what) { return std::string(what) + (count == 1 ? "" : "s"); }
std::string counted(uint64_t count, std::string_view what) { return std::to_string(count) + " " + plural(count, what); }

// ---- digest ---------------------------------------------------------------------------------------------------------------------

LogitsDigest::LogitsDigest() {
  static_assert(sizeof(crypto_hash_sha256_state) <= sizeof state_);
  crypto_hash_sha256_init(reinterpret_cast<crypto_hash_sha256_state*>(state_));
}

void LogitsDigest::add(const float* row, size_t count) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the digest is over little-endian floats");
  crypto_hash_sha256_update(reinterpret_cast<crypto_hash_sha256_state*>(state_), reinterpret_cast<const unsigned char*>(row),
                            count * sizeof(float));
}

std::string LogitsDigest::hex() {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(reinterpret_cast<crypto_hash_sha256_state*>(state_), digest);
  char text[2 * sizeof digest + 1];
  sodium_bin2hex(text, sizeof text, digest, sizeof digest);
  return text;
}

}  // namespace cli
