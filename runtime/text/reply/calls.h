// Reads the calls of a whole payload, in the form in which events have them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/reply_style.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt::reply {

// Appends the payload's calls. False: it is not a call, and nothing is appended. `head` is the name if the head gave it, else "". `tools` may be
// null.
bool append_calls(std::string_view payload, const PatternReader& head, const CallSyntax& syntax, const ReplyTools* tools,
                  std::vector<ReplyPart>* out);

}  // namespace kvrt::reply
