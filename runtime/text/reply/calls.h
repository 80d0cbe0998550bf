// The calls of a whole payload, in the form that the interface has for them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/reply_style.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt::reply {

// Appends the payload's calls; false, and nothing appended, where it is no call. `head` gave the name, or it is "". `tools` may be null.
bool append_calls(std::string_view payload, const PatternReader& head, const CallSyntax& syntax, const ReplyTools* tools,
                  std::vector<ReplyPart>* out);

}  // namespace kvrt::reply
