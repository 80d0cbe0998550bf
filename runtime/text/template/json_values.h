// JSON text -> template values, under kJsonBytesMax, kJsonDepthMax and the arena's limit.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/template/value.h"

namespace kvrt::jinja {

// `what` names the text in messages. Of equal keys the last one counts, in the place of the first, as in Python.
Result<Value> parse_json(std::string_view text, const char* what, Arena* arena);

}  // namespace kvrt::jinja
