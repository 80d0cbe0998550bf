// Whether a chat template writes calls as the row of its family says. Signs alone are a guess: many templates share them.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/text/reply/reply_parser.h"

namespace kvrt {

// The text of a JSON array of messages, with these tools (JSON), by the model's template.
using RenderMessages = std::function<Result<std::string>(const std::string& messages, bool generation_prompt, const std::string& tools)>;

// True where an answer to which a call is required may be what the template writes for a turn with one.
bool writes_calls_as_family(const RenderMessages& render, const ReplyStyle& style);

}  // namespace kvrt
