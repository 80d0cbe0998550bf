// The parts that the commands share: option groups, error lines, input files, JSON and the progress bar. The program uses kvrt.hpp alone, as
// any other program in C++ would. A command returns its exit code, which is the status class.
#pragma once

#include <fmt/core.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvrt.hpp"

namespace cli {

using kvrt::Event, kvrt::Flow, kvrt::init, kvrt::Model, kvrt::Result, kvrt::Runtime, kvrt::Session, kvrt::stop_if, kvrt::Store;

// A message of the library with the program's options in place of the fields of kvrt.h.
std::string in_options(const std::string& message);
// Prints "kvrt: WHAT: the library's message (CLASS)" to stderr and returns the status.
kvrt_status complain(const std::string& what, kvrt_status status);
// The status of a call of the library; complains where the call failed.
kvrt_status checked(kvrt::Status status, const std::string& what);
// The same, with the call's value in `out`; where it failed, `out` becomes empty.
template <typename T>
kvrt_status take(Result<T> result, T& out, const std::string& what) {
  out = std::move(*result);
  return checked(result.status(), what);
}
// The most tokens that a session can have: the model's context, or, where that is less, what the pool holds in whole blocks.
uint64_t tokens_held(const kvrt_model_props& props);
// Sets the advice for a user who runs out of the KV that --context asked for; `tokens` have room.
void advise_context(uint64_t asked, uint64_t tokens);
// Prints "kvrt: MESSAGE (CLASS)", for an error that the program finds by itself, and returns the status.
kvrt_status complain(kvrt_status status, const std::string& message, int32_t detail = KVRT_DETAIL_NONE);
// What complain() said last.
struct Complaint {
  int32_t detail = KVRT_DETAIL_NONE;
  std::string message;
};
const Complaint& last_complaint();
// Ends a command: complains when stdout could not be written. A reader that went away is no error: 128 + SIGPIPE, as SIGPIPE would give.
int finish(kvrt_status status);

// ---- options --------------------------------------------------------------------------------------------------------------------

struct ModelFlags {
  std::string model;
  uint32_t threads = 0, block_tokens = 0, prefill_chunk = 0, step_ms = 0;
  std::string isa, kv = "f16", kv_k, kv_v, cache_dir, device = "cpu", cuda_library, prompt_gemm;
  uint32_t device_index = 0;
  std::string determinism = "by-class";
  bool no_weight_cache = false;
  uint64_t cache_bytes = 0, kv_bytes = 0, context = 0;
};

struct PromptFlags {  // one of the three
  std::string text, file, tokens;
  bool given() const { return has_text || !file.empty() || !tokens.empty(); }
  bool has_text = false;
};

struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;  // none: off
  std::optional<uint32_t> top_k, penalty_window;
  float frequency_penalty = 0, presence_penalty = 0;
  uint64_t seed = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::string grammar_file, schema_file;
  std::string grammar;  // the text of that file, once read_grammar() has it
  bool continue_grammar = false, schema_open = false;
  uint32_t reasoning_max = 0;
};

struct SpeculationFlags {
  std::string draft, prediction_file;
  std::string prediction;  // the text of that file, once read_prediction() has it
  bool lookup = false;
  uint32_t draft_max = 0, draft_min = 0;
  bool on() const { return lookup || !draft.empty() || !prediction_file.empty(); }
};

// Complains of an option that needs another one.
kvrt_status check_speculation(const SpeculationFlags& flags);
// The same, and reads the file of the prediction, if one is named.
kvrt_status read_prediction(SpeculationFlags& flags);
// Sets the options; they point into the flags. `draft`: the model that open_draft opened.
void speculate(const SpeculationFlags& flags, const Model& draft, kvrt_generate_options& options);
// ", 24 drafted, 18 accepted" after other figures; "" without speculation.
std::string speculated(const SpeculationFlags& flags, const kvrt_report& report);

// Reads the file of the grammar or the schema, if one is named, and complains if it cannot.
kvrt_status read_grammar(SamplingFlags& flags);
// Makes generate options from the flags. They point into the flags, and into `stop`, which gets the stop strings.
kvrt_generate_options generate_options(const SamplingFlags& flags, uint32_t max_tokens, std::string& stop);

// Most JSON of the library has fewer bytes: a text of this size takes it in one call.
inline constexpr size_t kJsonBytes = 1 << 16;
// For a chat: flags that were not given get the values that the model's file suggests (general.sampling.*), and a temperature of 1 where it
// suggests others alone; or, where it suggests none at all, a temperature of 0.7 and a min_p of 0.05.
void suggest_sampling(const Runtime& runtime, const std::string& model, SamplingFlags& flags);

std::pair<std::string, std::string> kv_pair(const std::string& text);  // K's and V's of "int8/int4", or of "int8", which is both
// The names of K's and V's formats: --kv-k and --kv-v, where they are given, else --kv.
std::string k_format(const ModelFlags& flags);
std::string v_format(const ModelFlags& flags);
std::string kv_formats(const ModelFlags& flags);                // "int8", or "K int8, V f16"
std::vector<std::string> kv_format_names();                     // of one format
uint32_t kv_format(const std::string& name);                    // KVRT_KV_...
kvrt_runtime_options runtime_options(const ModelFlags& flags);  // points into the flags
kvrt_model_options model_options(const ModelFlags& flags);      // so does this
// Open what a command needs, and complain by themselves. A `*stop` that is true ends the loading of a model.
kvrt_status open_runtime(const ModelFlags& flags, Runtime& out);
kvrt_status open_model(const ModelFlags& flags, const Runtime& runtime, Model& out, const std::atomic<bool>* stop = nullptr);
// Begins a generation with these options and gives it up: what is wrong with them (the grammar, the draft) is told before anything is
// printed. `what`: "cannot ...".
kvrt_status try_options(const Model& model, const kvrt_generate_options& options, const std::string& what);
// The draft for the model, if one is named and fits it, with room for the KV of so many sessions of so many tokens each.
kvrt_status open_draft(const ModelFlags& flags, const SpeculationFlags& speculation, const Runtime& runtime, const Model& model,
                       uint32_t sessions, uint64_t tokens, Model& out, const std::atomic<bool>* stop = nullptr);
// Complains of a model whose file has no chat template: it takes plain text alone.
kvrt_status check_template(const Model& model, const std::string& path);
kvrt_status open_store(const Runtime& runtime, const std::string& path, bool read_only, bool must_exist, Store& out);
// The first session with a store reads the whole model file: a terminal is told.
kvrt_status new_session(const Model& model, const kvrt_session_options& options, Session& out);
Result<Session> resume_session(const Model& model, const Store& store, const std::string& name, const kvrt_session_options& options,
                               kvrt_report& report, const std::atomic<bool>* stop = nullptr);

// ---- text -----------------------------------------------------------------------------------------------------------------------

// The most bytes of text that a file or standard input may give; more is refused, with LIMIT.
inline constexpr size_t kTextBytesMax = 64u << 20;
kvrt_status read_file(const std::string& path, std::string& out);  // "-" is stdin
// "1,2,3", or "@FILE" with ids separated by commas or white space.
kvrt_status parse_tokens(const std::string& argument, std::vector<int32_t>& out);
kvrt_status tokenize(const Model& model, std::string_view text, uint32_t flags, std::vector<int32_t>& out);
// Why a resume could not use the KV that was saved with the session; "" where that was no matter of format.
std::string other_kv(const Store& store, const std::string& name, const std::string& domain, const kvrt_report& resumed,
                     const kvrt_model_props& now);
// Where another process has a session of this name open, says so before an answer is computed. `how`: how to go on.
void say_open_elsewhere(const Session& session, const std::string& name, const std::string& how);
kvrt_status session_tokens(const Session& session, std::vector<int32_t>& out);
struct Message {
  std::string role, content;  // content that is no text stands as JSON
  uint64_t begin = 0, end = 0;
  bool generated = false, ended = false;
};
kvrt_status session_messages(const Session& session, std::vector<Message>& out);
std::string join(const std::vector<int32_t>& tokens);
std::string message_json(std::string_view role, std::string_view content);

std::string_view reason_name(uint32_t reason);
std::string_view reuse_name(uint32_t reuse);
std::string_view reuse_words(uint32_t reuse);  // the same for people

// The KV of a session of so many tokens, as kvrt.h says of kv_group_bytes_per_token. `p`: a kvrt_plan, or a kvrt_model_props.
template <typename P>
uint64_t session_bytes(const P& p, uint64_t tokens) {
  uint64_t bytes = 0;
  const uint64_t in_blocks = (tokens + p.block_tokens - 1) / p.block_tokens * p.block_tokens;
  for (uint32_t g = 0; g < p.kv_groups; ++g) {
    const uint64_t most = p.kv_group_tokens_max[g];
    bytes += (most && most < in_blocks ? most : in_blocks) * p.kv_group_bytes_per_token[g];
  }
  return bytes;
}
std::string human_bytes(uint64_t bytes);                              // in powers of 1024, as memory is sold
void say_missing(const kvrt_save_report& saved, const Store& store);  // says how much KV the store lacks, if any
std::string plural(uint64_t count, std::string_view what);            // "token", or "tokens"
std::string counted(uint64_t count, std::string_view what);           // "1 token", "2 tokens"
std::string in_quotes(std::string_view name);                         // in quotes where it has spaces or odd characters

// One JSON object, in the order of the calls. Text that is not UTF-8 is replaced, not refused.
class Json {
 public:
  Json& add(std::string_view key, std::string_view value);
  Json& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Json& add(std::string_view key, uint64_t value);
  Json& add(std::string_view key, int64_t value);
  Json& add(std::string_view key, double value, int decimals = 3);
  Json& add(std::string_view key, bool value);
  Json& add(std::string_view key, const std::vector<int32_t>& values);
  Json& add(std::string_view key, const Json& object);
  Json& add(std::string_view key, const std::vector<Json>& objects);
  std::string text() const { return "{" + body_ + "}"; }
  void print() const;  // one line on stdout

 private:
  Json& raw(std::string_view key, std::string_view value);
  std::string body_;
};
std::string json_quote(std::string_view text);

// A bar on stderr, drawn when it is a terminal, at most 20 times a second, and wiped at the end.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress() { clear(); }
  void update(uint64_t done, uint64_t total);
  void update(const Event& event);                              // draws a PROGRESS
  void note(std::string_view text);                             // draws this, until the bar comes
  void set_tail(std::string text) { tail_ = std::move(text); }  // stands behind the number
  void clear();

 private:
  std::string label_, tail_;
  bool enabled_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Sets `value` to the code point with which the text begins, and returns its length; 0: no valid UTF-8 is there.
size_t code_point(std::string_view text, uint32_t& value);
// Foreign text for a terminal: bytes that are not UTF-8, and characters that control it or turn the direction of text, are escaped.
// `lines`: line ends and tabs stay.
std::string printable(std::string_view text, bool lines = false);
// Writes foreign text to stdout: printable on a terminal, byte for byte elsewhere.
void show(std::string_view text);

// Write to stderr, and ignore its failures, which nobody could be told. say() makes foreign text printable; draw() writes it as it is.
void remark(std::string_view text);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... args) {
  remark(printable(fmt::format(format, std::forward<T>(args)...), true));
}
template <typename... T>
void draw(fmt::format_string<T...> format, T&&... args) {
  remark(fmt::format(format, std::forward<T>(args)...));
}
// Write to stdout; finish() reports the first failure.
void write_out(std::string_view text);
void flush_out();
// Formats to stdout, byte for byte.
template <typename... T>
void put(fmt::format_string<T...> format, T&&... args) {
  write_out(fmt::format(format, std::forward<T>(args)...));
}

// One line for people: foreign text in it is printable.
template <typename... T>
void tell(fmt::format_string<T...> format, T&&... args) {
  write_out(printable(fmt::format(format, std::forward<T>(args)...)) + "\n");
}

// While it lives, lines of the library's log wait: they would break the line that an answer is on.
class HeldLog {
 public:
  HeldLog();
  ~HeldLog();
  HeldLog(const HeldLog&) = delete;
};

bool is_ignored(int signal);

// While it lives, Ctrl-C (or SIGTERM, a terminal that closes, a pipe whose reader goes) does not end the program but makes came() true. A
// second Ctrl-C or SIGTERM ends the program. Signals that the parent made ignored stay so.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  static bool came();
};

// From now on a pipe's reader that goes away does not end the program, but makes reader_went() true.
void watch_reader();
bool reader_went();

bool colour(FILE* stream);  // a terminal that is not dumb, and NO_COLOR is not set

// SHA-256 over all rows of logits that are added.
class LogitsDigest {
 public:
  LogitsDigest();
  void add(const float* row, size_t count);
  std::string hex();  // once, at the end

 private:
  alignas(16) unsigned char state_[128];
};

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}
inline std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

}  // namespace cli
