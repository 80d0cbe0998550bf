// Tokens -> ast.h. A construct that is not supported is named with its place.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/template/ast.h"

namespace kvrt::jinja {

Result<Body> parse(std::string_view source);  // source as normalize_source leaves it

}  // namespace kvrt::jinja
