// The commands, and the flags of each. main.cc and the files that app.h names parse them; cmd_*.cc do the work.
#pragma once

#include "bindings/cli/common.h"

namespace cli {

// The fault of an option's value, or "" where there is none. `whole`: the value must be a whole number from 0.
std::string check_value(const std::string& value, bool whole);
// Sets `bytes` from a size such as "8G". Returns the fault of the text, or "".
std::string parse_size(const std::string& text, uint64_t& bytes);
// Sets `values` from "1,2,3", each within bounds, or from "none". Returns the fault of the text, or "".
std::string parse_list(const std::string& text, uint32_t low, uint32_t high, std::vector<uint32_t>& values);

// "; did you mean store?", or nothing where no word is near.
std::string suggestion(const std::string& given, const std::vector<std::string>& words);

// The file with the user's defaults; "" where there can be none.
std::string config_file();
// Reads that file. Returns its fault, or "". `warning`: why it cannot be read, where nobody named it.
std::string load_defaults(std::string& warning);

struct RunFlags {
  ModelFlags model;
  PromptFlags prompt;
  SamplingFlags sampling;
  SpeculationFlags speculation;
  uint32_t max_tokens = 64;
  std::string store, session, fork_from, domain;
  int64_t truncate = -1;
  uint32_t durability = 0, codec = 0;
  bool store_named = false;  // --store is on the command line
  bool accept_foreign_kv = false, chat = false, no_save = false, overwrite = false, digest = false, json = false;
};
int cmd_run(const RunFlags& flags);

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  SpeculationFlags speculation;
  uint32_t max_tokens = 0;
  std::string store, session = "chat", domain, system;
  bool accept_foreign_kv = false;
};
int cmd_chat(const ChatFlags& flags);

struct TextFlags {
  ModelFlags model;
  PromptFlags prompt;
  bool special = false, bos = false, json = false;
};
int cmd_tokenize(const TextFlags& flags);
int cmd_detokenize(const TextFlags& flags);

struct TemplateFlags {
  ModelFlags model;
  std::string source_file, messages_file, tools_file, documents_file;
  std::vector<std::string> variables;  // NAME=JSON
  bool no_generation_prompt = false;
};
int cmd_template(const TemplateFlags& flags);

struct LogitsFlags {
  ModelFlags model;
  std::string tokens, output;
  bool all = false;
};
int cmd_logits(const LogitsFlags& flags);

struct PerplexityFlags {
  ModelFlags model;
  std::string file;
  uint32_t context = 512;
  uint64_t chunks = 0;
  bool json = false;
};
int cmd_perplexity(const PerplexityFlags& flags);

struct EvalFlags {
  ModelFlags model;                     // its KV is the base
  std::vector<std::string> candidates;  // other formats: "int8", "int8/f16"
  std::vector<std::string> axes;        // none: all
  std::vector<std::string> programs;    // NAME=COMMAND
  std::vector<std::string> foreign;     // NAME=FILE
  std::string foreign_base;             // a NAME of these
  std::string output = "kvrt-eval", gate, data;
  uint64_t seed = 1;
  uint32_t times = 1, tokens = 4096, answer = 512;
  bool full = false, resume = false, json = false;
};
int cmd_eval(const EvalFlags& flags);

struct InspectFlags {
  std::string model;
  bool json = false, all = false;
};
int cmd_inspect(const InspectFlags& flags);

struct BenchFlags {
  ModelFlags model;
  SpeculationFlags speculation;
  std::string file;
  std::vector<uint32_t> prompt{32, 128, 512, 2048}, depth{0, 2048}, append{1, 16, 64}, batch{1, 4, 8}, state{2048};
  uint32_t decode = 64, runs = 5, codec = 0;
  bool json = false;
};
int cmd_bench(const BenchFlags& flags);

struct PlanFlags {
  ModelFlags model;
  uint64_t context = 0, shared = 0, memory = 0;
  uint32_t sessions = 0, layers = 0, kv_heads = 0, head_dim = 0;
  std::string draft;
  bool json = false;
};
int cmd_plan(const PlanFlags& flags);

struct StoreFlags {
  std::string directory, domain;
  std::vector<std::string> names;
  std::string argument;      // mv: the new name; ttl: the time
  std::string output = "-";  // graph: the file, or standard output
  bool all_domains = true, json = false, old = false;
  uint32_t priority = 1;  // of a pin
};
// A file or folder that a migration or a repair left in a store's directory.
struct OldFile {
  std::string name;
  uint64_t bytes = 0;
};
std::vector<OldFile> old_files(const std::string& directory);
int cmd_store_ls(const StoreFlags& flags);
int cmd_store_stat(const StoreFlags& flags);
int cmd_store_show(const StoreFlags& flags);
int cmd_store_graph(const StoreFlags& flags);
int cmd_store_rm(const StoreFlags& flags);
int cmd_store_mv(const StoreFlags& flags);
int cmd_store_pin(const StoreFlags& flags);
int cmd_store_unpin(const StoreFlags& flags);
int cmd_store_ttl(const StoreFlags& flags);
int cmd_store_gc(const StoreFlags& flags);
int cmd_store_verify(const StoreFlags& flags);
int cmd_store_repair(const StoreFlags& flags);

struct DoctorFlags {
  ModelFlags model;  // for the CUDA device and the weight cache
  std::string directory;
  bool json = false;
};
int cmd_doctor(const DoctorFlags& flags);

std::string version_text();
int cmd_version(bool json);

struct DemoFlags {
  ModelFlags model;
  std::string store, stage;
};
int cmd_demo(const DemoFlags& flags);

}  // namespace cli
