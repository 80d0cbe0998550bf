#include "runtime/text/tokenizer/markers.h"

#include <algorithm>
#include <iterator>

#include "runtime/text/tokenizer/vocabulary.h"

namespace kvrt {

namespace {

constexpr std::string_view kEndTokens[] = {"<|im_end|>",
                                           "<|endoftext|>",
                                           "<|eot_id|>",
                                           "<|eom_id|>",
                                           "<|end_of_text|>",
                                           "<|end|>",
                                           "<|end_of_turn|>",
                                           "<end_of_turn>",
                                           "<|endofturn|>",
                                           "<end_of_utterance>",
                                           "</s>",
                                           "<|return|>",
                                           "<|call|>",
                                           "<|calls|>",
                                           "<|flush|>",
                                           "<EOT>",
                                           "_<EOT>",
                                           "[EOT]",
                                           "[EOS]",
                                           "<eos>",
                                           "<turn|>",
                                           "<|tool_response>",
                                           "[e~[",
                                           "<｜end▁of▁sentence｜>"};

constexpr std::string_view kOtherMarkers[] = {
    "<|im_start|>",    "<start_of_turn>", "<|start_header_id|>", "<|end_header_id|>", "<|begin_of_text|>", "<|start_of_role|>",
    "<|end_of_role|>", "<|fim_prefix|>",  "<|fim_suffix|>",      "<|fim_middle|>",    "<|fim_pad|>",       "<|fim_repo|>",
    "<|repo_name|>",   "<|file_sep|>",    "<fim_prefix>",        "<fim_suffix>",      "<fim_middle>",      "<fim_pad>",
    "<fim-prefix>",    "<fim-suffix>",    "<fim-middle>",        "<fim-pad>",         "<|code_prefix|>",   "<|code_suffix|>",
    "<|code_middle|>", "<|fim_sep|>"};

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view token) {
  return std::find(std::begin(names), std::end(names), token) != std::end(names);
}

bool is_marker(std::string_view token) {
  constexpr size_t kBytesMax = 40;
  if (token.size() > kBytesMax || token.size() < 3 || (token.back() != '>' && token.back() != ']' && token.back() != '[')) return false;
  return token != "</s>" && (is_among(kEndTokens, token) || is_among(kOtherMarkers, token));
}

}  // namespace

bool ends_turn(std::string_view token) { return is_among(kEndTokens, token); }

std::optional<VocabSource> correct_markers(const VocabSource& source) {
  if (!source.types.empty() && source.types.size() != source.tokens.size()) return std::nullopt;  // refused later
  std::optional<VocabSource> out;
  size_t count = 0;
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    if ((!source.types.empty() && source.types[i] != kNormal) || !is_marker(source.tokens[i])) continue;
    if (!out) {
      out = source;
      out->types.resize(source.tokens.size(), kNormal);
      out->corrected = "token " + std::to_string(i) + ", " + std::string(source.tokens[i]);
    }
    out->types[i] = kControl;
    ++count;
  }
  if (count > 1) out->corrected += ", and " + std::to_string(count - 1) + " other" + (count > 2 ? "s" : "");
  if (count > 0)
    out->corrected +=
        std::string(": typed as text (tokenizer.ggml.token_type 1), taken for ") + (count > 1 ? "control tokens" : "a control token");
  return out;
}

}  // namespace kvrt
