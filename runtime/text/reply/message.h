// A generated turn as a message object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/reply_parser.h"

namespace kvrt {

// {"role":"assistant","content":shown}. With parts, content, reasoning_content and tool_calls are told apart by them. Valid UTF-8.
std::string assistant_message(std::string_view shown, const std::vector<ReplyPart>& parts);

}  // namespace kvrt
