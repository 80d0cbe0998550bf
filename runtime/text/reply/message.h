// A generated turn as a message object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/parser.h"

namespace kvrt {

// {"role":"assistant","content":shown}: templates take that apart again by themselves, reasoning included. With calls among the parts
// content, reasoning_content and tool_calls are told apart, as templates want them. Valid UTF-8.
std::string assistant_message(std::string_view shown, const std::vector<ReplyPart>& parts);
// The same turn when more of it was generated.
std::string extended_message(const std::string& message, std::string_view shown, const std::vector<ReplyPart>& parts);

}  // namespace kvrt
