// The parts that know CLI11: main.cc has the commands, options.cc the options of several commands, usage.cc users' errors, tables.cc the
// commands as data.
#pragma once

#include <CLI/CLI.hpp>

#include "bindings/cli/commands.h"
#include "bindings/cli/tables.h"

namespace cli {

inline constexpr const char* kSaving = "Saving";  // a title of --help, below the options that most people need

// ---- options.cc -----------------------------------------------------------------------------------------------------------------

void add_model(CLI::App* command, ModelFlags& flags, bool required = true);
void add_kv(CLI::App* command, ModelFlags& flags);
void add_cuda(CLI::App* command, ModelFlags& flags);
void add_prompt_gemm(CLI::App* command, ModelFlags& flags);
void add_device(CLI::App* command, ModelFlags& flags);
void add_cache(CLI::App* command, ModelFlags& flags);
void add_compute(CLI::App* command, ModelFlags& flags);
void add_kv_bytes(CLI::App* command, ModelFlags& flags);
void add_room(CLI::App* command, ModelFlags& flags);  // --kv-bytes or --context
// The last three are defaults that --help shows: of --temp, of --min-p, and of the other options for which a model's file may have a value.
void add_sampling(CLI::App* command, SamplingFlags& flags, const std::string& temperature = "0", const std::string& min_p = "0",
                  const std::string& rest = "0");
void add_speculation(CLI::App* command, SpeculationFlags& flags, bool prediction = true);
void add_prompt(CLI::App* command, PromptFlags& flags, bool tokens);  // -p, -f and --tokens exclude each other
void add_foreign_kv(CLI::App* command, bool& accept);
void add_codec(CLI::App* command, uint32_t& codec, const char* text);
void add_durability(CLI::App* command, uint32_t& durability);

// Validators, whose descriptions tables.cc reads: "1 to 4096", "f16|fp8".
CLI::Validator within(uint64_t low, uint64_t high);
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator size();  // 8G becomes its bytes

// Gives every option of every command a check of its value and the word for it, and --model and --store their defaults.
void complete(CLI::App& app);
// True: the option was given on the command line, not by a default.
bool is_named(const CLI::App* command, const std::string& option);

// ---- tables.cc ------------------------------------------------------------------------------------------------------------------

std::string path_of(const CLI::App& app);  // "kvrt store gc"
Command describe(const CLI::App& app);

// ---- usage.cc -------------------------------------------------------------------------------------------------------------------

// The command line, the last word first, with `help X` as `X --help`. CLI11 takes "[a,b]" for two words if an argument may have several, and
// the word after "--name=" for its value: such words get a mark, which unmarked() removes.
std::vector<std::string> reversed_words(int argc, char** argv);
std::string unmarked(std::string word);
// Reports the fault of the command line, or shows the help that it asks for; the exit code. `broken`: the fault of the defaults' file.
// `helps`: the line is that of kvrt help, whose words are commands alone.
int explain(const CLI::App& app, const CLI::ParseError& error, const std::string& broken, bool helps);
// The words, last first, with the default store put in where the user left DIR out: in `store rm NAME`, NAME was taken for DIR.
std::vector<std::string> with_store(const CLI::App& app, const CLI::ParseError& error, std::vector<std::string> words);
// True: the parsed command takes --model or --store.
bool takes_defaults(const CLI::App& app);

}  // namespace cli
