// The options that several commands have, and the rules that hold for every option.
#include <fmt/core.h>

#include <charconv>

#include "bindings/cli/app.h"

namespace cli {

namespace {

constexpr const char *kSampling = "Sampling", *kComputing = "Computing", *kKv = "KV", *kCache = "Weight cache",
                     *kSpeculation = "Speculation";

CLI::Validator between(double low, double high) {
  const auto check = [low, high](const std::string& text) {
    if (text.empty()) return check_value(text, false);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fmt::format("a number is expected, found {}", text);
    return value >= low && value <= high ? std::string() : fmt::format("{} is not between {} and {}", text, low, high);
  };
  return CLI::Validator(check, fmt::format("{} to {}", low, high));
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// A format of KV, or K's and V's.
CLI::Validator one_or_two_formats() {
  const auto check = [](const std::string& text) {
    if (text.empty()) return check_value(text, false);
    const std::vector<std::string> words = kv_format_names();
    const auto [k, v] = kv_pair(text);
    for (const std::string& word : {k, v}) {
      if (std::find(words.begin(), words.end(), word) != words.end()) continue;
      return fmt::format("{} is none of {}, nor two of them as int8/int4, of K and of V", text, joined(words, ", "));
    }
    return std::string();
  };
  return CLI::Validator(check, joined(kv_format_names(), "|"));
}

// Accepts one of the words, and turns it into its number, from 1.
CLI::Validator numbered(const std::vector<std::string>& words) {
  const auto check = [words](std::string& text) {
    if (text.empty()) return check_value(text, false);
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) return fmt::format("{} is none of {}", text, joined(words, ", "));
    text = std::to_string(found - words.begin() + 1);
    return std::string();
  };
  return CLI::Validator(check, joined(words, "|"), "");
}

// The word for a value in --help, by the option's name; numbers and choices have words of their own.
const char* value_word(const CLI::Option& option) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"model", "FILE"},     {"file", "FILE"},       {"grammar", "FILE"},     {"json-schema", "FILE"}, {"template", "FILE"},
      {"messages", "FILE"},  {"tools", "FILE"},      {"documents", "FILE"},   {"output", "FILE"},      {"cuda-library", "FILE"},
      {"draft", "FILE"},     {"prediction", "FILE"}, {"cache-dir", "DIR"},    {"store", "DIR"},        {"session", "NAME"},
      {"fork-from", "NAME"}, {"var", "NAME=JSON"},   {"tokens", "IDS|@FILE"}, {"domain", "NAME"}};
  for (const auto& [name, word] : kWords) {
    if (option.check_lname(name)) return word;
  }
  return "TEXT";
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto check = [words](const std::string& text) {
    if (text.empty()) return check_value(text, false);
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("{} is none of {}", text, joined(words, ", "));
  };
  return CLI::Validator(check, joined(words, "|"));
}

CLI::Validator within(uint64_t low, uint64_t high) {
  const auto check = [low, high](const std::string& text) {
    std::string wrong = check_value(text, true);
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong.empty() && (value < low || value > high)) wrong = fmt::format("{} is not between {} and {}", text, low, high);
    return wrong;
  };
  return CLI::Validator(check, fmt::format("{} to {}", low, high));
}

CLI::Validator size() {
  const auto check = [](std::string& text) {
    uint64_t bytes = 0;
    std::string wrong = parse_size(text, bytes);
    text = std::to_string(bytes);
    return wrong;
  };
  return CLI::Validator(check, "", "");
}

void add_model(CLI::App* command, ModelFlags& flags, bool required) {
  auto* option = command->add_option("-m,--model", flags.model, "GGUF file of the model");
  if (required) option->required();
}

void add_kv(CLI::App* command, ModelFlags& flags) {
  const auto formats = one_of(kv_format_names());
  command->add_option("--kv", flags.kv, "number format of the KV, or of K and of V: int8/int4")
      ->group(kKv)
      ->check(one_or_two_formats())
      ->capture_default_str();
  command->add_option("--kv-k", flags.kv_k, "number format of K alone (default: as --kv)")->group(kKv)->check(formats);
  command->add_option("--kv-v", flags.kv_v, "number format of V alone (default: as --kv)")->group(kKv)->check(formats);
  command->add_option("--block-tokens", flags.block_tokens, "tokens per KV block (default 32)")
      ->group(kKv)
      ->check(one_of({"16", "32", "64", "128", "256"}));
}

void add_cuda(CLI::App* command, ModelFlags& flags) {
  command->add_option("--device-index", flags.device_index, "number of the CUDA device, from 0 (default 0)")->group(kComputing);
  command->add_option("--cuda-library", flags.cuda_library, "path of libkvrt_cuda.so (default: beside libkvrt)")->group(kComputing);
}

void add_prompt_gemm(CLI::App* command, ModelFlags& flags) {
  command->add_option("--prompt-gemm", flags.prompt_gemm, "number format to which CUDA rounds long prompts; fp8 is coarser (default f16)")
      ->group(kComputing)
      ->check(one_of({"f16", "fp8"}));
}

void add_device(CLI::App* command, ModelFlags& flags) {
  command->add_option("--device", flags.device, "device to compute on (auto: CUDA where it works, else the CPU)")
      ->group(kComputing)
      ->check(one_of({"cpu", "cuda", "auto"}))
      ->capture_default_str();
  add_cuda(command, flags);
}

void add_cache(CLI::App* command, ModelFlags& flags) {
  auto* directory =
      command
          ->add_option("--cache-dir", flags.cache_dir,
                       "directory of the weight cache, which speeds up the next start (else KVRT_CACHE, else ~/.cache/kvrt/weights)")
          ->group(kCache);
  command
      ->add_option("--cache-bytes", flags.cache_bytes,
                   "size of the weight cache at most, 8G is 8 GiB (default 0: a tenth of the disk, at most 20 GiB)")
      ->group(kCache)
      ->type_name("SIZE")
      ->transform(size());
  command->add_flag("--no-weight-cache", flags.no_weight_cache, "use no weight cache")->group(kCache)->excludes(directory);
}

void add_compute(CLI::App* command, ModelFlags& flags) {
  add_device(command, flags);
  command
      ->add_option("--determinism", flags.determinism,
                   "CUDA's last bits depend on few or many rows in a step (by-class), on all that runs (none), or on neither, as on the "
                   "CPU, with slower prompts (strict)")
      ->group(kComputing)
      ->check(one_of({"by-class", "strict", "none"}))
      ->capture_default_str();
  add_prompt_gemm(command, flags);
  command->add_option("--threads", flags.threads, "compute threads (default 0: one for each CPU that affinity and cgroup allow)")
      ->group(kComputing)
      ->check(within(0, 256));
  command->add_option("--isa", flags.isa, "instruction set (default: the best that the CPU has)")
      ->group(kComputing)
      ->check(one_of({"scalar", "avx2", "avx512"}));
  add_kv(command, flags);
  add_cache(command, flags);
  command->add_option("--prefill-chunk", flags.prefill_chunk, "prompt tokens per step at most (default 512)")
      ->group(kComputing)
      ->check(within(1, 512));
}

void add_kv_bytes(CLI::App* command, ModelFlags& flags) {
  command
      ->add_option("--kv-bytes", flags.kv_bytes,
                   "memory for KV, 2G is 2 GiB (default 0: four contexts, at most a quarter of the free memory)")
      ->type_name("SIZE")
      ->transform(size());
}

void add_room(CLI::App* command, ModelFlags& flags) {
  auto* group = command->add_option_group("room");
  add_kv_bytes(group, flags);
  group->add_option("--context", flags.context,
                    "memory for the KV of one conversation of N tokens, in whole blocks, two at least: it gets no longer than these "
                    "(default 0: as --kv-bytes says)");
  group->require_option(0, 1);
}

void add_sampling(CLI::App* command, SamplingFlags& flags, const std::string& temperature, const std::string& min_p,
                  const std::string& rest) {
  command->add_option("--temp", flags.temperature, "temperature (0: greedy)")->check(between(0, 100))->default_str(temperature);
  command->add_option("--top-k", flags.top_k, "sample from the N most likely tokens (0: off)")->group(kSampling)->default_str(rest);
  command->add_option("--top-p", flags.top_p, "sample from the most likely tokens that together have probability X (0: off)")
      ->group(kSampling)
      ->check(between(0, 1))
      ->default_str(rest);
  command->add_option("--min-p", flags.min_p, "leave out tokens less likely than X times the most likely one (0: off)")
      ->group(kSampling)
      ->check(between(0, 1))
      ->default_str(min_p);
  command->add_option("--repetition-penalty", flags.repetition_penalty, "penalty for tokens that the session has, such as 1.1 (0: off)")
      ->group(kSampling)
      ->check(between(0, 100))
      ->default_str(rest);
  command->add_option("--frequency-penalty", flags.frequency_penalty, "penalty for each time that a token was generated (default 0: off)")
      ->group(kSampling)
      ->check(between(-100, 100));
  command->add_option("--presence-penalty", flags.presence_penalty, "penalty for a token that was generated (default 0: off)")
      ->group(kSampling)
      ->check(between(-100, 100));
  command->add_option("--penalty-window", flags.penalty_window, "the penalties look at the last N tokens (0: all)")
      ->group(kSampling)
      ->default_str(rest);
  command->add_option("--seed", flags.seed, "seed of the sampling (default 0: a random one)")->group(kSampling);
  command->add_option("--stop", flags.stop, "stop at this text; may be repeated")->group(kSampling)->take_all()->allow_extra_args(false);
  auto* past_end = command->add_flag("--ignore-eos", flags.ignore_eos, "do not stop at the model's end tokens")->group(kSampling);
  auto* group = command->add_option_group("grammar");
  group->add_option("--grammar", flags.grammar_file, "GBNF file; the answer follows its grammar")->excludes(past_end);
  group->add_option("--json-schema", flags.schema_file, "JSON schema file; the answer is JSON that fits it")->excludes(past_end);
  group->require_option(0, 1);
  command
      ->add_flag("--json-schema-open", flags.schema_open,
                 "with --json-schema: members that it does not name, unless it says additionalProperties")
      ->group(kSampling);
  command->add_option("--reasoning-max", flags.reasoning_max, "end the model's reasoning after N tokens (default 0: no limit)")
      ->group(kSampling)
      ->excludes(past_end);
}

void add_speculation(CLI::App* command, SpeculationFlags& flags, bool prediction) {
  command->add_flag("--lookup", flags.lookup, "speed up an answer that repeats text: propose what followed the same words before")
      ->group(kSpeculation);
  command->add_option("--draft", flags.draft, "GGUF file of a much smaller model with the same vocabulary, which proposes tokens")
      ->group(kSpeculation);
  if (prediction) {
    command->add_option("--prediction", flags.prediction_file, "text that the answer is likely to repeat, as a file that it edits")
        ->group(kSpeculation);
  }
  command->add_option("--draft-max", flags.draft_max, "tokens to propose for a step at most (default 16)")
      ->group(kSpeculation)
      ->check(within(1, 32));
  command->add_option("--draft-min", flags.draft_min, "")->group("")->check(within(0, 32));  // for tests and measurements
}

void add_prompt(CLI::App* command, PromptFlags& flags, bool tokens) {
  auto* group = command->add_option_group("prompt");
  group->add_option_function<std::string>(
      "-p,--prompt",
      [&flags](const std::string& text) {
        flags.text = text;
        flags.has_text = true;
      },
      "text of the prompt");
  group->add_option("-f,--file", flags.file,
                    tokens ? "text file, - for standard input; a pipe or file there is the prompt by itself, but of a session"
                           : "text file, - for standard input");
  if (tokens) group->add_option("--tokens", flags.tokens, "token ids: 1,2,3, or @FILE that holds them");
  group->require_option(tokens ? 0 : 1, 1);
}

void add_foreign_kv(CLI::App* command, bool& accept) {
  command->add_flag("--accept-foreign-kv", accept, "use stored KV that another device computed; last bits may differ from then on")
      ->group(kSaving);
}

void add_codec(CLI::App* command, uint32_t& codec, const char* text) {
  static_assert(KVRT_CODEC_NONE == 1 && KVRT_CODEC_ZSTD == 2);
  command->add_option("--codec", codec, text)->group(kSaving)->type_name("TEXT")->transform(numbered({"none", "zstd"}));
}

void add_durability(CLI::App* command, uint32_t& durability) {
  static_assert(KVRT_DURABILITY_NONE == 1 && KVRT_DURABILITY_PROCESS == 2 && KVRT_DURABILITY_TOKENS == 3 && KVRT_DURABILITY_KV == 4);
  command
      ->add_option("--durability", durability,
                   "safety of the save: none; process (it survives this process); tokens (these survive a power cut); kv (KV too) "
                   "(default tokens)")
      ->group(kSaving)
      ->type_name("TEXT")
      ->transform(numbered({"none", "process", "tokens", "kv"}));
}

// A prompt, a system message and a domain may be empty. Commands that are not listed have no defaults.
void complete(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (!app.get_group().empty() && option->check_lname("model")) option->envname("KVRT_MODEL");
    const bool demo = app.get_name() == "demo";  // it fills an empty store, never the user's
    if (!app.get_group().empty() && !demo && option->check_lname("store")) option->envname("KVRT_STORE");
    if (type == "TEXT") option->type_name(value_word(*option));
    option->transform(unmarked);  // before all checks
    const bool text = option->check_lname("prompt") || option->check_lname("system") || option->check_lname("domain");
    if (option->get_expected_min() == 0) {
      option->check([](const std::string& value) { return std::string(value.empty() ? "a flag takes no value" : ""); }, "");
    }
    if (option->get_expected_min() == 0 || text) continue;
    const bool whole = type.rfind("UINT", 0) == 0 || type.rfind("INT", 0) == 0;
    option->check([whole](const std::string& value) { return check_value(value, whole); }, "");
  }
  for (CLI::App* command : app.get_subcommands({})) complete(*command);
}

bool is_named(const CLI::App* command, const std::string& option) {
  const auto& order = command->parse_order();
  return std::any_of(order.begin(), order.end(), [&](const CLI::Option* o) { return o->check_lname(option); });
}

}  // namespace cli
