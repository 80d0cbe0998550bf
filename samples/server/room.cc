#include "room.h"

#include <algorithm>

namespace {

// Of a text as a prompt, with the BOS that kvrt puts before it.
std::vector<int32_t> tokenize(const kvrt::Model& model, std::string_view text) {
  const auto info = model.info().or_throw();
  std::vector<int32_t> tokens;
  model.tokenize(text, KVRT_TEXT_SPECIAL, tokens).or_throw();
  if (!info.add_bos || (!tokens.empty() && tokens[0] == info.bos_token)) return tokens;
  model.tokenize(text, KVRT_TEXT_SPECIAL | KVRT_TEXT_BOS, tokens).or_throw();
  return tokens;
}

}  // namespace

uint64_t tokens_max(const kvrt::Model& model) {
  const auto info = model.info().or_throw();
  const uint64_t size = info.block_tokens;
  const auto fits = [&](uint64_t blocks) {  // of tokens: a conversation of so many has KV in each group
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < info.kv_groups; ++g) {
      const uint64_t most = info.kv_group_tokens_max[g] ? info.kv_group_tokens_max[g] : UINT64_MAX;
      bytes += std::min(blocks * size, most) * info.kv_group_bytes_per_token[g];
    }
    return bytes <= info.blocks * info.block_bytes;
  };
  uint64_t blocks = 0;
  for (uint64_t step = uint64_t{1} << 31; step > 0; step /= 2) {
    if (fits(blocks + step)) blocks += step;
  }
  return std::min<uint64_t>(info.context_length, blocks * size);
}

std::string messages_json(const Request& request) {
  std::string list;
  for (const Message& m : request.messages) list += (list.empty() ? "[" : ",") + m.json();
  return list + "]";
}

std::vector<int32_t> prompt_tokens(const kvrt::Model& model, const Request& request, std::string_view messages) {
  auto options = kvrt::init<kvrt_template_options>();
  if (!request.tools.empty()) kvrt::assign(options.tools, options.tools_size, request.tools);
  kvrt::assign(options.variables, options.variables_size, request.variables);
  std::string text;
  model.apply_template(messages, options, text).or_throw();
  return tokenize(model, text);
}

uint64_t count_tokens(const kvrt::Model& model, const Request& request) {
  if (!request.messages.empty()) return prompt_tokens(model, request, messages_json(request)).size();
  uint64_t most = 0;
  for (const Prompt& p : request.prompts)
    most = std::max<uint64_t>(most, p.tokens.empty() ? tokenize(model, p.text).size() : p.tokens.size());
  return most;
}

ApiError too_long(uint64_t most, uint64_t found, bool chat) {
  const std::string n = std::to_string(most), m = std::to_string(found);
  const std::string words = "This model's maximum context length is " + n + " tokens. However, your " + (chat ? "messages" : "prompt") +
                            " resulted in " + m + " tokens." + (found == most ? " That leaves none for an answer." : "");
  return ApiError(400, words, "context_length_exceeded", chat ? "messages" : "prompt");
}
