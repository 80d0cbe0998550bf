// How long a conversation may be, and what a client is told whose own is longer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "kvrt.hpp"
#include "request.h"

// Tokens that a conversation may have: as many as the model's context, or as the whole pool of KV where that is less.
uint64_t tokens_max(const kvrt::Model& model);
// The messages of a chat as kvrt takes them: a JSON list.
std::string messages_json(const Request& request);
// The tokens of the prompt that a chat's `messages` have, with the opening of the answer. Throws kvrt::Error.
std::vector<int32_t> prompt_tokens(const kvrt::Model& model, const Request& request, std::string_view messages);
struct TokenCount {
  uint64_t tokens = 0;
  bool all = true;  // false: there are more
};
// Tokens of the request's prompt, of its longest one; of messages that the template cannot write, those of their texts. Throws kvrt::Error.
TokenCount count_tokens(const kvrt::Model& model, const Request& request);
// The prompt has `found` tokens. In OpenAI's words, by which clients know the case.
ApiError too_long(uint64_t most, TokenCount found, bool chat);
