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
    return bytes <= info.units * info.unit_bytes;
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

TokenCount count_tokens(const kvrt::Model& model, const Request& request) {
  TokenCount count;
  for (const Prompt& p : request.prompts)
    count.tokens = std::max<uint64_t>(count.tokens, p.tokens.empty() ? tokenize(model, p.text).size() : p.tokens.size());
  if (request.messages.empty()) return count;
  try {
    count.tokens = prompt_tokens(model, request, messages_json(request)).size();
  } catch (const kvrt::Error& e) {
    if (e.status() != KVRT_LIMIT) throw;
    count.all = false;
    std::vector<int32_t> tokens;
    const auto add = [&](const std::string& text) {
      model.tokenize(text, KVRT_TEXT_SPECIAL, tokens).or_throw();
      count.tokens += tokens.size();
    };
    for (const Message& m : request.messages) {
      add(m.content);
      for (const ToolCall& call : m.calls) add(call.arguments);
    }
  }
  return count;
}

ApiError too_long(uint64_t most, TokenCount found, bool chat) {
  const std::string n = std::to_string(most), m = (found.all ? "" : "more than ") + std::to_string(found.tokens);
  const bool full = found.all && found.tokens == most;
  const std::string words = "This model's maximum context length is " + n + " tokens. However, your " + (chat ? "messages" : "prompt") +
                            " resulted in " + m + " tokens." + (full ? " That leaves none for an answer." : "");
  return ApiError(400, words, "context_length_exceeded", chat ? "messages" : "prompt");
}
