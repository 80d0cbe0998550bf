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
  if (what.find(first + " ") != std::string::npos) message.erase(0, first.size() + 2);
  return message;
}

Complaint last_said;

}  // namespace

const Complaint& last_complaint() { return last_said; }

kvrt_status complain(const std::string& what, kvrt_status status) {
  if (status == KVRT_CANCELLED && reader_went()) return status;
  const kvrt_error error = kvrt::last_error();
  const bool told = error.status == status;
  return complain(status, what + ": " + (told ? rest_of(what, in_options(error.message)) : "no detail"), told ? error.detail : 0);
}

kvrt_status complain(kvrt_status status, const std::string& message, int32_t detail) {
  last_said = {detail, message};
  say("kvrt: {} ({})\n", printable(message), kvrt_status_name(status));
  return status;
}

kvrt_status checked(kvrt::Status status, const std::string& what) { return status.ok() ? KVRT_OK : complain(what, status.code()); }

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

kvrt_status read_grammar(SamplingFlags& flags) {
  const std::string& file = flags.grammar_file.empty() ? flags.schema_file : flags.grammar_file;
  return file.empty() ? KVRT_OK : read_file(file, flags.grammar);
}

kvrt_generate_options generate_options(const SamplingFlags& flags, uint32_t max_tokens, std::string& stop) {
  auto options = init<kvrt_generate_options>();
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
  stop.clear();
  for (const std::string& text : flags.stop) stop.append(text).push_back('\0');
  kvrt::assign(options.stop_strings, options.stop_strings_size, stop);
  options.reasoning_tokens_max = flags.reasoning_max;
  if (flags.continue_grammar) options.grammar_kind = KVRT_GRAMMAR_CONTINUE;
  if (flags.grammar_file.empty() && flags.schema_file.empty()) return options;
  const auto schema = flags.schema_open ? KVRT_GRAMMAR_JSON_SCHEMA_OPEN : KVRT_GRAMMAR_JSON_SCHEMA;
  options.grammar_kind = flags.grammar_file.empty() ? schema : KVRT_GRAMMAR_GBNF;
  kvrt::assign(options.grammar, options.grammar_size, flags.grammar);
  return options;
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
    for (bool comma = out.empty(); p < end && ((*p == ',' && !comma) || std::isspace(static_cast<unsigned char>(*p))); ++p) {
      comma = comma || *p == ',';  // one, behind an id
    }
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

kvrt_status tokenize(const Model& model, std::string_view text, uint32_t flags, std::vector<int32_t>& out) {
  out.resize(text.size() + 8);  // a token is at least a byte, BOS apart: one call does
  return checked(model.tokenize(text, flags, out), "cannot tokenize");
}

kvrt_status session_tokens(const Session& session, std::vector<int32_t>& out) {
  return checked(session.tokens(out), "cannot read the session's tokens");
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
  constexpr std::string_view names[] = {"all",     "new_tokens", "different_token", "not_stored",
                                        "evicted", "damaged",    "other_numerics",  "window"};
  return reuse < std::size(names) ? names[reuse] : "unknown";
}

std::string_view reuse_words(uint32_t reuse) {
  constexpr std::string_view words[] = {"all of it was there",
                                        "what follows is new",
                                        "a conversation in memory goes on otherwise there",
                                        "the store has no KV of what follows",
                                        "its memory was needed for other KV",
                                        "its KV on disk is damaged or missing",
                                        "its saved KV is of another format, block size or device",
                                        "the KV of the window, or the state, before what follows is gone"};
  return reuse < std::size(words) ? words[reuse] : reuse_name(reuse);
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit ? fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]) : fmt::format("{} B", bytes);
}

void say_missing(const kvrt_save_report& saved, const Store& store) {
  if (saved.chunks_missing == 0) return;
  const Result<kvrt_store_props> props = store.info();
  const bool tight = props.ok() && props->chunks > 0 && props->bytes_free < saved.chunks_missing * (props->chunk_bytes / props->chunks);
  say("(the store lacks the KV of {}: when the session goes on, it is computed again{})\n", counted(saved.chunks_missing, "block"),
      tight ? fmt::format("; it has room for {} more: free space there, or remove sessions", human_bytes(props->bytes_free)) : "");
}

std::string in_quotes(std::string_view name) {
  constexpr std::string_view kPlain = "._-/:@+,=%~";
  const bool plain = std::all_of(name.begin(), name.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 || kPlain.find(c) != std::string_view::npos;
  });
  return plain && !name.empty() ? std::string(name) : fmt::format("\"{}\"", printable(name));
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
