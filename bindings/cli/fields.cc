// The library names the fields of kvrt.h; the program names what people give.
#include <regex>

#include "bindings/cli/common.h"

namespace cli {

namespace {

// Whole remarks first, then single fields.
constexpr std::pair<const char*, const char*> kPhrases[] = {
    {"raise kv_bytes_max of model_open", "raise --kv-bytes"},
    {"sessions x session_tokens", "--sessions x --context"},
    {"(layers|kv_heads|head_dim) is 0: expected a path, or layers, kv_heads and head_dim",
     "$1 is 0: expected -m FILE, or --layers, --kv-heads and --head-dim"},
    {"layers, kv_heads and head_dim are given beside a path", "--layers, --kv-heads and --head-dim are given beside -m"},
    {"^(layers|sessions) is ([0-9]+), the limit", "--$1 is $2, the limit"},
    {"^layers is 0", "--layers is 0"},
    {"prompt_gemm is KVRT_GEMM_FP8, expected KVRT_GEMM_DEFAULT or KVRT_GEMM_F16 with KVRT_DETERMINISM_STRICT",
     "--prompt-gemm is fp8, expected f16 with --determinism strict"},
    {"prompt_gemm is [0-9]+: with the CPU as device, expected KVRT_GEMM_DEFAULT", "--prompt-gemm is of CUDA: give --device cuda"},
    {"isa is [0-9]+: with KVRT_DEVICE_CUDA, expected KVRT_ISA_DEFAULT", "--isa is of the CPU, and --device is cuda"},
    {"no directory is named: see cache in kvrt_model_options", "no directory is named: give --cache-dir"},
    {"cancelled by kvrt_session_cancel or kvrt_cancel_fire", "interrupted"},
};

constexpr std::pair<const char*, const char*> kFields[] = {
    {"kv_bytes_max", "--kv-bytes"},     {"cache_bytes_max", "--cache-bytes"}, {"cache_dir", "--cache-dir"},
    {"cuda_library", "--cuda-library"}, {"device_index", "--device-index"},   {"head_dim", "--head-dim"},
    {"kv_heads", "--kv-heads"},         {"session_tokens", "--context"},      {"shared_tokens", "--shared"},
    {"step_ms_max", "--step-ms"},       {"stop_strings", "--stop"},           {"grammar_kind is CONTINUE", "--continue-grammar"},
};

}  // namespace

std::string in_options(const std::string& message) {
  std::string text = message;
  for (const auto& [phrase, words] : kPhrases) text = std::regex_replace(text, std::regex(phrase), words);
  for (const auto& [field, option] : kFields) {  // not where it is part of a path
    text = std::regex_replace(text, std::regex(std::string("(^|[ (])") + field + "(?=$|[ :;,)])"), std::string("$1") + option);
  }
  return text;
}

}  // namespace cli
