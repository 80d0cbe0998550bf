// The library's messages name fields of kvrt.h; here the program's options take their place.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "bindings/cli/common.h"

namespace cli {

namespace {

// Whole remarks first, then single fields. # is a number.
constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
    {"raise kv_bytes_max of model_open", "raise --kv-bytes"},
    {"sessions x session_tokens", "--sessions x --context"},
    {"layers, kv_heads and head_dim are given beside a path", "--layers, --kv-heads and --head-dim are given together with -m"},
    {"prompt_gemm is KVRT_GEMM_FP8, expected KVRT_GEMM_DEFAULT or KVRT_GEMM_F16 with KVRT_DETERMINISM_STRICT",
     "--prompt-gemm is fp8, expected f16 with --determinism strict"},
    {"prompt_gemm is #: with the CPU as device, expected KVRT_GEMM_DEFAULT", "--prompt-gemm is for CUDA: give --device cuda"},
    {"isa is #: with KVRT_DEVICE_CUDA, expected KVRT_ISA_DEFAULT", "--isa is for the CPU, but --device is cuda"},
    {"no directory is named: see cache in kvrt_model_options", "no directory is named: give --cache-dir"},
    {"cancelled by kvrt_session_cancel or kvrt_cancel_fire", "interrupted"},
};

constexpr std::pair<std::string_view, std::string_view> kFields[] = {
    {"kv_bytes_max", "--kv-bytes"},
    {"cache_bytes_max", "--cache-bytes"},
    {"cache_dir", "--cache-dir"},
    {"cuda_library", "--cuda-library"},
    {"device_index", "--device-index"},
    {"head_dim", "--head-dim"},
    {"kv_heads", "--kv-heads"},
    {"session_tokens", "--context"},
    {"shared_tokens", "--shared"},
    {"step_ms_max", "--step-ms"},
    {"stop_strings", "--stop"},
    {"draft_tokens_max", "--draft-max"},
    {"draft_tokens_min", "--draft-min"},
    {"draft: token", "--draft: token"},
    {"prediction has", "--prediction has"},
    {"grammar_kind is CONTINUE", "the grammar cannot go on"},
};

std::string context_advice;  // takes the place of the first phrase's words

// The number of bytes of `text` at `at` that match the phrase; 0: no match.
size_t matched(std::string_view text, size_t at, std::string_view phrase) {
  const size_t begin = at;
  for (char c : phrase) {
    const size_t digits = c == '#' ? text.find_first_not_of("0123456789", at) : at;
    if (c == '#' ? digits == at : at >= text.size() || text[at] != c) return 0;
    at = c == '#' ? std::min(digits, text.size()) : at + 1;
  }
  return at - begin;
}

// True: the field's name is a word of its own, not a part of a path.
bool stands_alone(std::string_view text, size_t at, size_t size) {
  const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
  return begins && (at + size >= text.size() || std::string_view(" :;,)").find(text[at + size]) != std::string_view::npos);
}

// A size as its option takes it, exactly: 16384 is 16K.
std::string as_size(uint64_t bytes) {
  size_t unit = 0;
  for (; unit < 4 && bytes > 0 && bytes % 1024 == 0; bytes /= 1024) ++unit;
  return std::to_string(bytes) + std::string_view(" KMGT")[unit];
}

// Puts sizes in place of the bytes in the messages about --kv-bytes.
void in_sizes(std::string& text) {
  for (const std::string_view before : {"--kv-bytes is ", "the least there is, needs ", "this machine has "}) {
    const size_t found = text.find(before), at = found + before.size();
    if (found == std::string::npos) continue;
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    uint64_t bytes = 0;
    std::from_chars(text.data() + at, text.data() + end, bytes);
    const bool named = text.compare(end, 6, " bytes") == 0;
    std::string size = named ? human_bytes(bytes) : as_size(bytes);
    if (size.back() == ' ') size.pop_back();
    text.replace(at, end - at + (named ? 6 : 0), size);
  }
}

}  // namespace

void advise_context(uint64_t asked, uint64_t tokens) {
  context_advice = fmt::format("raise --context, which is {}", asked);
  if (asked != tokens) context_advice += fmt::format(" and has room for {} in whole blocks", tokens);
}

std::string in_options(const std::string& message) {
  std::string text = message;
  for (const auto& [phrase, own] : kPhrases) {
    const std::string_view words = &phrase == &kPhrases[0].first && !context_advice.empty() ? context_advice : own;
    for (size_t at = 0; at < text.size(); ++at) {
      const size_t size = matched(text, at, phrase);
      if (size == 0) continue;
      text.replace(at, size, words);
      at += words.size() - 1;
    }
  }
  for (const auto& [field, option] : kFields) {
    for (size_t at = text.find(field); at != std::string::npos; at = text.find(field, at + 1)) {
      if (stands_alone(text, at, field.size())) text.replace(at, field.size(), option);
    }
  }
  in_sizes(text);
  const bool count = text.starts_with("layers is ") || text.starts_with("sessions is ");
  return count ? "--" + text : text;
}

}  // namespace cli
